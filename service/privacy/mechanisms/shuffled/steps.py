"""Resolved steps of shuffled reports: a dominating pair, the attacks that bound it from below, and exact laws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, final

from typing_extensions import override

from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractStep, Attained, ResolvedStep
from service.privacy.mechanisms.shuffled.known_curves import (
    COUNTED,
    attained_law,
    curve_of,
    dominating_law,
    ones_curve,
    worst_pair,
)
from service.privacy.mechanisms.shuffled.pairs import (
    RATIO_ERROR,
    blanket,
    clones,
    own_value,
    ratio_of,
    third_value,
)
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.atoms import AtomsTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shuffled.data_sets import listed_responses
from service.privacy.trade_off.shuffled.mean_form import MeanForm

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

CROSSING: Final = math.log(2)
"""eps0 above which ternary response has more variance of the loss than binary response. Steers only."""
CLONES: Final = (
    "Feldman, McMillan, Talwar 2023 (stronger privacy amplification by shuffling), the pair of clones; here proved by "
    "convex order of means"
)
BLANKET: Final = "Balle, Bell, Gascon, Nissim 2019 (privacy blanket), k-ary randomised response"
BRACKET: Final = (
    "bracket: the data set in which all others hold one value, with randomised response as the local randomiser, "
    "attains the lower bound. The upper bound counts clones of the own report (Feldman, McMillan, Talwar 2023; convex "
    "order of means), and no data set is known to attain it."
)
BRACKET_RESPONSE: Final = (
    "bracket: a data set in which all others hold one value attains the lower bound. The upper bound is that of the "
    "privacy blanket (Balle, Bell, Gascon, Nissim 2019), and no data set is known to attain it."
)
BRACKET_ROUNDS: Final = (
    "bracket: one data set for all rounds attains the lower bound. The upper bound composes the worst data set of each "
    "round (Zhu, Dong, Wang 2022, Theorem 10)."
)


class ShuffledStep(ResolvedStep):
    """Step of shuffled reports, whose worst case is symmetric: the two values of a person may be exchanged.

    A subclass defines `curves`.
    """

    __slots__ = ()

    @property
    @override
    def is_tabulated(self) -> bool:
        return True

    @override
    def loss_law(self) -> LossLaw:
        reason = "the method needs one distribution of the loss, and two theorems enclose shuffled reports."
        raise UnsupportedCombination("method", "an approximation for shuffled reports", reason, ("auto", "discretised"))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AnyShuffled(ShuffledStep):
    """Shuffled reports of any eps0-DP randomiser or of k-ary response, by a pair that dominates every data set.

    `pairs.py` has both pairs: that of clones for any randomiser, and that of the privacy blanket for k-ary response.

    Attributes
    ----------
    reports : int
        Number n of reports.
    epsilon : float
        eps0, nats.
    options : int or None
        Number k of values of k-ary randomised response; None for any randomiser.
    """

    type: ClassVar[str] = "shuffled_reports"
    reports: int
    epsilon: float
    options: int | None = None

    @property
    def form(self) -> MeanForm:
        """Pair of laws that dominates every data set, as counts of the reports in categories."""
        p = ratio_of(self.epsilon, 1)
        if self.options is None or self.options == 2:
            return clones(self.reports, p)
        return blanket(self.reports, self.options, p)

    @override
    def curves(self) -> TradeOffPair:
        curve = curve_of(self.form)
        return TradeOffPair(curve, curve, CLONES if self.options is None else BLANKET)

    @override
    def atomic_law(self) -> AtomicLaw | None:
        """Return a law that dominates the step, for upper bounds of compositions, or None if none is known.

        No data set need attain it.
        """
        return dominating_law(self.curves().add)

    @override
    def attained(self) -> Attained:
        attacks = AttacksOnShuffled(reports=self.reports, epsilon=self.epsilon, options=self.options)
        bracket = BRACKET if self.options is None else BRACKET_RESPONSE
        return Attained(attacks.best, bracket, alone=attacks, includes_choices=True)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AttacksOnShuffled(ShuffledStep):
    """Lower bound of shuffled reports: the worst of several data sets in which all other persons hold one value.

    There are `reports` reports, each with the privacy parameter `epsilon` (nats). `options` is the number of values of
    k-ary response, or None for any randomiser.
    """

    type: ClassVar[str] = "shuffled_reports"
    reports: int
    epsilon: float
    options: int | None = None

    @override
    def curves(self) -> TradeOffPair:
        return worst_pair(tuple(self._curves()))

    def _curves(self) -> list[AbstractTradeOff]:
        n, p = self.reports, ratio_of(self.epsilon, -1)
        found: list[AbstractTradeOff] = []
        if self.options is None or self.options == 2:
            found.append(ones_curve(n, 0, self.epsilon))
        if self.options == 2:
            found.append(ones_curve(n, (n - 1) // 2, self.epsilon))
        if self.options != 2:
            found.append(curve_of(third_value(n, self.options or 3, p)))
        if self.options is not None and self.options > 2:
            found.append(curve_of(own_value(n, self.options, p)))
        if self.epsilon > CROSSING:
            found.reverse()  # the strongest attack first, so that others are mostly proved weaker by one number
        return [each for curve in found for each in (curve, curve.reversed())]

    @property
    def best(self) -> AbstractStep:
        """Step of the data set whose privacy loss has the largest variance, which serves as attack in compositions."""
        # Steers only: each choice gives valid bounds.
        if self.options == 2 or (self.options is None and self.epsilon < CROSSING):
            return HeldOnes(reports=self.reports, epsilon=self.epsilon, others=0, exchanged=False)
        return ThirdValue(reports=self.reports, epsilon=self.epsilon, options=self.options or 3)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThirdValue(ShuffledStep):
    """Shuffled k-ary responses, where all other persons hold a third value.

    There are `reports` reports, each with the privacy parameter `epsilon` (nats) and k = `options` values.
    """

    type: ClassVar[str] = "shuffled_reports"
    reports: int
    epsilon: float
    options: int

    @property
    def form(self) -> MeanForm:
        """Pair of laws that this data set attains, as counts of the reports in categories."""
        return third_value(self.reports, self.options, ratio_of(self.epsilon, -1))

    @override
    def curves(self) -> TradeOffPair:
        curve = curve_of(self.form)
        return TradeOffPair(curve, curve, COUNTED)

    @override
    def atomic_law(self) -> AtomicLaw | None:
        return attained_law(curve_of(self.form))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOnes(ShuffledStep):
    """Shuffled binary responses of eps0 = `epsilon`, while `others` of the n - 1 other persons hold 1.

    Attributes
    ----------
    reports : int
        n.
    epsilon : float
        eps0, nats.
    others : int
        Number of other persons who hold 1.
    exchanged : bool
        Whether the own bit may be 1 or 0 under H1. Otherwise it is 1, and 0 under H0.
    """

    type: ClassVar[str] = "shuffled_reports"
    reports: int
    epsilon: float
    others: int
    exchanged: bool = True

    @override
    def curves(self) -> TradeOffPair:
        curve = ones_curve(self.reports, self.others, self.epsilon)
        other = curve.reversed()
        if not self.exchanged or other is curve:
            return TradeOffPair(curve, other, COUNTED)
        return worst_pair((curve, other))

    @override
    def atomic_law(self) -> AtomicLaw | None:
        if self.exchanged:
            return dominating_law(self.curves().add)
        return attained_law(ones_curve(self.reports, self.others, self.epsilon))

    @override
    def attained(self) -> Attained | None:
        if not self.exchanged or 2 * self.others == self.reports - 1:
            return None
        one = HeldOnes(reports=self.reports, epsilon=self.epsilon, others=self.others, exchanged=False)
        return Attained(one, BRACKET_ROUNDS)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EveryDataSet(ShuffledStep):
    """Shuffled k-ary responses of a few persons: the worst of all data sets, by listing all reports.

    There are `reports` reports, each with the privacy parameter `epsilon` (nats) and k = `options` values.
    """

    type: ClassVar[str] = "shuffled_reports"
    reports: int
    epsilon: float
    options: int

    @override
    def curves(self) -> TradeOffPair:
        laws = listed_responses(self.reports, self.options, float(ratio_of(self.epsilon, -1)), RATIO_ERROR)
        curves = [AtomsTradeOff(law) for law in laws]
        return worst_pair(tuple(each for curve in curves for each in (curve, curve.reversed())))

    @override
    def attained(self) -> Attained:
        return Attained(
            AttacksOnShuffled(reports=self.reports, epsilon=self.epsilon, options=self.options).best, BRACKET_ROUNDS
        )
