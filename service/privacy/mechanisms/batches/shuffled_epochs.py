"""Epochs of shuffled batches: each epoch visits all records once, in random order.

Let T be the count of batches in an epoch, sigma the noise on sums of gradients of length at most 1, and mu = 1/sigma.
Neighbours differ by one record x of D'. D has an empty record in its place, which takes a position in the order like
any other record and adds nothing.

**From above.** The order is uniform and independent of x, and may be revealed to the attacker (joint convexity). Then x
is in one known batch of the epoch and moves its sum by at most 1. This gives N(0) against N(mu) in every epoch,
whatever the other records are, adaptively too. So an epoch is mu-GDP, and E epochs are sqrt(E) mu-GDP (Dong, Roth, Su
2022, Corollary 3.3). With one order for all epochs, or with different noise, the squares of mu add up in the same way.

**From below.** All other records have the gradient -u, and x has u. The sum of a batch of b of them is -b u. The sum of
the batch with the empty record is larger by 1, and that of the batch with x is larger by 2. After removing known
offsets (batches may be of unequal sizes), in units of the noise, an epoch consists of T independent normal numbers. One
of them, at a random position, is shifted by mu (D) or by 2 mu (D'). Their maximum is a function of the release. Its law
is F_m(C) = Phi((C - m) mu) Phi(C mu)^(T-1) with m = 1 or 2. It does not depend on the shifted position, so that it is
the law under the drawn order as well (Chua et al. 2024, arXiv 2403.17673).

An attacker who says "D'" above C has the rates (1 - F_1(C), 1 - F_2(C)), so that delta >= max_C [1 - F_2(C)] - e^eps
[1 - F_1(C)]. In the other direction an attacker who says "D" below C has the rates (F_2(C), F_1(C)). There the maximum
is of little use, and a second choice serves better: all others u and x = u. Then D' shifts nothing and D shifts one
number by -mu; mirrored, the rates are (1 - F_0(C), 1 - F_1(C)). All others 0 give D' the same rates.

With much noise the maximum has little power. The second attack uses a sum of functions of all numbers that is close to
the likelihood ratio (`trade_off/sum_statistic.py`), which has more power. The third attack adds up all numbers. It
compares N(mu, T) with N(2 mu, T) in each epoch, which is a mu/sqrt(T)-GDP test for any T.

Nothing adapts, so that E epochs of one choice are independent. With fresh orders each statistic composes as E pairs of
laws on a line, rounded to a lattice or divided into cells (post-processing). With one order for all epochs, the E
numbers of each batch have a sum with weights mu_i = 1/sigma_i. This sum is normal with the shift sqrt(sum mu_i^2), or
twice that, as in one epoch.

No theorem here determines the truth between both bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractStep, Attained, GaussianPart, ResolvedStep, Steps
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.mechanisms.neighbours import ZERO_OUT, Neighbours
from service.privacy.trade_off.max_statistic import LargestOfMany, ThresholdCurve, ThresholdTests
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from service.privacy.trade_off.sum_statistic import is_summed, sum_laws

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

REVEALED: Final = "Dong, Roth, Su 2022 (Gaussian differential privacy), Corollary 3.3, the order of all epochs revealed"
LARGEST: Final = "Chua et al. 2024 (arXiv 2403.17673), the largest of the batches of an epoch"
BRACKET: Final = (
    "bracket: an attacker attains the lower bound with the largest sum over the batches of an "
    "epoch, or with an approximate likelihood ratio. The record stands against all others (Chua "
    "et al. 2024, arXiv 2403.17673; several epochs composed). The upper bound reveals the order "
    "of every epoch, so the record is in one known batch of each epoch (joint convexity; Dong, "
    "Roth, Su 2022, Corollary 3.3). No known theorem closes the gap."
)
SUMMED: Final = "a sum of functions of the batches of an epoch, rounded; post-processing"
LARGEST_SQUARE: Final = 500
"""Largest sum of all mu^2 for which both laws of the rounded ratios are normal doubles wherever tests need them."""
MOST_MAXIMA: Final = 1_000
"""Largest count of epochs whose maxima are composed on lattices if sums are computed as well."""
CELL: Final = 1 / 32
"""Distance of the thresholds that divide the law of the maximum into cells, in standard deviations."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledEpochs(AbstractStep):
    """Epochs of `batches` batches each, which visit the records in one shuffled order.

    `square` is the exact sum of mu^2 over the epochs, where 1/mu is the noise multiplier of an epoch. The pair of laws
    is an upper bound. With `revealed`, the attacker knows the order, and the pair of laws is attained.
    """

    type: ClassVar[str] = "dpsgd"
    square: Fraction
    batches: int
    revealed: bool = False

    @override
    def under(self, neighbours: Neighbours) -> ShuffledEpochs:
        if neighbours.relation != ZERO_OUT:
            reason = "an added, removed or replaced record moves other records to other batches."
            raise neighbours.refused("shuffled batches", reason, (ZERO_OUT,))
        if neighbours.records > 1:
            reason = "several records may share a batch, and no known theorem bounds the probability of that event."
            raise neighbours.refused("shuffled batches", reason, ("one record",))
        return self

    @override
    def curves(self) -> TradeOffPair:
        curve = gaussian_curve(self._shift)
        return TradeOffPair(curve, curve, REVEALED)

    @override
    def part(self) -> GaussianPart | None:
        return GaussianPart(Enclosure.point(self._shift.upper), (self._shift.upper, 1.0)) if self.revealed else None

    @override
    def attained(self) -> Attained | None:
        if self.revealed:
            return None
        below = LargestOfEpoch(shift=self._shift.lower, batches=self.batches)
        cells = replace(below, in_cells=True)
        return Attained(cells, BRACKET, alone=below, either_way=False, choices=partial(self._choices, cells))

    def _choices(self, largest: LargestOfEpoch, epochs: int) -> tuple[Steps, ...]:
        """Return the steps that an attacker sees over `epochs` epochs, for each known attack on the numbers of batches.

        The numbers are the noisy sums of the batches. The attacks use a sum of functions of all numbers, the sum of the
        numbers, or their maximum. If sums of functions are computed, maxima are omitted for a small total shift and for
        many epochs, where another attack contains more information. `largest` is the attack by the maximum.
        """
        runs: list[Steps] = [((Gdp(mu=_root(self.square / self.batches).lower), epochs),)]
        summed = is_summed(largest.shift, self.batches)
        if summed:
            runs.insert(0, ((SumsOfEpochs(shift=largest.shift, batches=self.batches, epochs=epochs), 1),))
        if not summed or (epochs * self.square > LARGEST_SQUARE and epochs <= MOST_MAXIMA):
            runs.append(((largest, epochs),))
        return tuple(runs)

    @override
    def rounded(self, side: int) -> ShuffledEpochs:
        return replace(self, revealed=True) if side > 0 else self

    @override
    def loss_law(self) -> LossLaw:
        reason = "the method needs one distribution of the loss, and two theorems enclose shuffled batches."
        raise UnsupportedCombination("method", "an approximation for shuffled batches", reason, ("auto", "discretised"))

    @property
    def _shift(self) -> Enclosure:
        """Enclosure between doubles of the total shift of all epochs, the square root of the sum of their mu^2."""
        return _root(self.square)


def _root(square: Fraction) -> Enclosure:
    nearest = math.sqrt(square)
    ends = [nearest]
    while Fraction(ends[0]) ** 2 > square:
        ends.insert(0, math.nextafter(ends[0], 0.0))
    while Fraction(ends[-1]) ** 2 < square:
        ends.append(math.nextafter(ends[-1], math.inf))
    return Enclosure(ends[0], ends[-1], Evidence.EXACT)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LargestOfEpoch(ResolvedStep):
    """Attack on a shuffled epoch by the maximum of `batches` numbers.

    The numbers are the noisy sums of the batches. One number, at a random position, is shifted by mu (`shift`) without
    the record and by 2 mu with the record.

    A mu that is rounded down corresponds to additional noise, so that the attack stays attainable. With `in_cells`, the
    attacker sees only in which interval (cell) the maximum lies, which gives two laws with finitely many outcomes for
    compositions. Otherwise the curve is that of the best threshold, over two choices of data sets.
    """

    type: ClassVar[str] = "dpsgd"
    shift: float
    batches: int
    in_cells: bool = False

    @override
    def curves(self) -> TradeOffPair:
        none, one, two = (LargestOfMany(self.batches, moved * self.shift) for moved in (0.0, 1.0, 2.0))
        forth, back = ThresholdTests(one, two), ThresholdTests(two, one)
        if self.in_cells:
            with np.errstate(under="ignore"):
                corners = Corners.hull(*map(np.exp, forth.spaced(CELL)[1]))
            add = PolygonTradeOff(corners)
            return TradeOffPair(add, add.reversed(), LARGEST)
        above = gaussian_curve(Enclosure.point(self.shift))
        second = ThresholdTests(none, one)
        add = ThresholdCurve((forth, second), (back, second), above)
        return TradeOffPair(add, add.reversed(), LARGEST)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SumsOfEpochs(ResolvedStep):
    """Attack on shuffled epochs by a sum of functions of all batches, or by the maximum if the maximum is large.

    Each batch of an epoch releases a noisy number. One number is shifted by mu (`shift`) without the record and by 2 mu
    with the record. Log-likelihood ratios of epochs are rounded and added up.
    """

    type: ClassVar[str] = "dpsgd"
    shift: float
    batches: int
    epochs: int

    @override
    def curves(self) -> TradeOffPair:
        add = PolygonTradeOff(sum_laws(self.shift, self.batches).composed(self.epochs).corners())
        return TradeOffPair(add, add.reversed(), SUMMED)
