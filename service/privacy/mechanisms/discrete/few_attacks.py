"""Choices with Laplace noise: few attacks for the lower bound, and the path lemma (`selection.py`) above."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import Attained, ResolvedStep, Steps
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.discrete.selection import PathStep
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff


class Attacks(ABC):
    """Attacks on a choice with Laplace noise, as tests whose chance of rejection depends on the data.

    Attacks are immutable.
    """

    __slots__ = ()

    @abstractmethod
    def tests(self) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds of false positive rates and lower bounds of powers, two arrays of one shape."""

    @final
    def corners(self) -> Corners:
        """Return all tests, and their complements as tests of the swapped hypotheses, as corners of a curve."""
        return _corners(self)


@lru_cache(maxsize=32)
def _corners(attacks: Attacks) -> Corners:
    rates, powers = attacks.tests()
    useful = (powers > rates) & (rates > 0)
    rates, powers = rates[useful], powers[useful]
    if len(rates) == 0:
        rising, falling = np.array([0.0, 1.0]), np.array([1.0, 0.0])
        return Corners(rising, falling, rising, falling)
    # The complement of a test has the rate 1 - power and the power 1 - rate. Small complements stay exact.
    columns = (rates, 1 - powers), (1 - rates, powers), (powers, 1 - rates), (1 - powers, rates)
    rate, rest, power, error = (np.concatenate(column) for column in columns)
    order = np.argsort(rate, kind="stable")
    return Corners.hull(rate[order], rest[order], power[order], error[order])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FewTestsStep(ResolvedStep):
    """Lower bound of a choice: the best of finitely many attacks, each on data of its own.

    Attributes
    ----------
    attacks : Attacks
        Attacks, with bounds of their false positive rates and powers.
    """

    type: ClassVar[str] = "report_noisy_max"
    attacks: Attacks

    @override
    def curves(self) -> TradeOffPair:
        curve = PolygonTradeOff(self.attacks.corners())
        return TradeOffPair(curve, curve, "attacks on few candidates or queries")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EnclosedPathStep(PathStep):
    """Choice that is enclosed by the path lemma and by few attacks.

    Attributes
    ----------
    eta : Fraction
        Exact shift of the Laplace noise of scale 1.
    attacks : Attacks
        Attacks for the lower bound.
    source, bracket : str
        Theorem of the dominating pair, and the sentence that names both bounds.
    """

    type: ClassVar[str] = "report_noisy_max"
    eta: Fraction
    attacks: Attacks
    source: str
    bracket: str

    @property
    @override
    def theorem(self) -> str:
        return self.source

    @override
    def curves(self) -> TradeOffPair:
        least, most = FewTestsStep(attacks=self.attacks).curves(), LaplaceTradeOff(self.shift)
        curve = Bracketed(least.add, most)
        return TradeOffPair(curve, curve, self.source, bracket=self.bracket)

    @override
    def attained(self) -> Attained:
        (first, *_) = self._choices(1)
        return Attained(first[0][0], self.bracket, alone=FewTestsStep(attacks=self.attacks), choices=self._choices)

    def _choices(self, count: int) -> tuple[Steps, ...]:
        if len(self.attacks.corners().rate) <= 2:  # no attack beats a guess
            return (((PureDp(epsilon=0.0), count),),)
        return (((FixedTestStep(attacks=self.attacks), count),),)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTestStep(AtomicStep):
    """Outcome (a bit) of the attack with the largest gap between power and rate, as a step of a composition."""

    type: ClassVar[str] = "report_noisy_max"
    attacks: Attacks

    @override
    def atomic_law(self) -> AtomicLaw:
        corners = self.attacks.corners()
        best = int(np.argmax(corners.power - corners.rate))
        rate, power = float(corners.rate[best]), float(corners.power[best])
        absent, present = (np.log([number, 1 - number]) for number in (rate, power))
        losses = present - absent
        return AtomicLaw(losses, losses[:-1] - losses[1:], absent, present, 4 * FUNCTION_ERROR, 4 * FUNCTION_ERROR)

    @property
    @override
    def theorem(self) -> str:
        return "one fixed attack"
