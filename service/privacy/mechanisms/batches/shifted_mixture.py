"""Elementary step of many samplers and groups: a mixture of shifted Gaussians.

    N(0)  against  sum_i w_i N(s_i mu),      mu = 1/noise_multiplier, s_i >= 0, unit variance;
    mirrored: sum_i w_i N(-s_i mu) against the same.

The likelihood ratio increases in x, so that every test is a threshold test. Each user of the step names the data sets
that attain this pair of laws in every step and in both directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, GaussianMixturePart, ResolvedStep
from service.privacy.mechanisms.batches.batch_mean import BatchMean
from service.privacy.mechanisms.batches.shift_laws import (
    ExactShifts,
    HitsLaw,
    ShiftLaw,
    StatedWeights,
)
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.numerics.rounding import UNIT_ROUNDOFF, rounded
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

ADDED: Final = (
    "Choquette-Choo, Ganesh, Steinke, Thakurta 2024, Corollary 4.7, and Ganesh 2024 (mixtures of shifted Gaussians "
    "dominate those of vectors of the same lengths); Zhu, Dong, Wang 2022, Theorem 10 (composition)"
)
REPLACED: Final = (
    "Lebeda, Regehr, Kamath, Steinke 2025, Proposition 13 (Poisson sampling, a record replaced: opposite shifts)"
)
SMALLEST_WEIGHT: Final = 1e-290
"""Smallest weight of a component. Smaller weights may underflow and are enclosed between two roundings."""
LIGHT: Final = 1e-287
"""Bound of the total weight of smaller components: a few hundred, and two tails that fall by more than half."""
LEAST_BESIDE_LIGHT: Final = 1e-200
"""Smallest weight of shift 0 that makes these components negligible."""

WEIGHT_DIGITS: Final = 50
MOST_SKIPPED: Final = 4096
"""Largest count of rare numbers of hits before the first number that is not rare."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedMixtureStep(ResolvedStep):
    """Step whose pair of laws is N(0, sigma^2) and the mixture of the N(s_i, sigma^2) at the shifts s_i.

    Attributes
    ----------
    noise_multiplier : Fraction
        sigma, exact.
    shifts : tuple of float
        At least two ascending shifts >= 0.
    weights : tuple of float
        Each weight is within one rounding (relative) of a weight of the law. The weight of shift 0 is close to the
        remaining weight. A weight of 0.0 stands for a positive weight that underflows: that of one shift, or the total
        of all omitted shifts.
    mirrored : bool
        Whether the mirror image of the mixture replaces N(0, sigma^2).
    law : ShiftLaw or None
        The exact law of the weights. None after weights were moved.
    is_exact : bool
        Whether the weights of positive shifts are exactly those of the law.
    """

    type: ClassVar[str] = "gaussian_mixture"
    noise_multiplier: Fraction
    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    mirrored: bool = False
    law: ShiftLaw | None = None
    is_exact: bool = False

    @override
    def curves(self) -> TradeOffPair:
        from service.privacy.trade_off.combinators.bracketed import between

        if min(self.weights) >= SMALLEST_WEIGHT:
            return self._curves()
        pairs = [self.rounded(side).curves() for side in (-1, 1)]
        add = between([pair.add for pair in pairs])
        return replace(pairs[1], add=add, remove=add if self.mirrored else add.reversed())

    def _curves(self) -> TradeOffPair:
        from service.privacy.trade_off.shifted.gaussian_mixture import GaussianMixtureTradeOff, NormalComponents

        exact = [Fraction(shift) / self.noise_multiplier for shift in self.shifts]
        ends = np.array([[rounded(distance, side) for distance in exact] for side in (-1, 1)])
        components = NormalComponents(ends, np.array(self.weights), UNIT_ROUNDOFF)
        if self.mirrored:
            curve = GaussianMixtureTradeOff(components, components)
            return TradeOffPair(curve, curve, REPLACED)
        add = GaussianMixtureTradeOff(NormalComponents(np.zeros((2, 1)), np.ones(1), 0.0), components)
        return TradeOffPair(add, add.reversed(), ADDED)

    @override
    def part(self) -> GaussianMixturePart:
        noise, exact = float(self.noise_multiplier), None
        if self.law is not None:
            own = len(self.shifts) - (len(self.shifts) < len(self.law.places))  # a last shift may stand for the rest
            exact = ExactShifts(self.noise_multiplier, self.law, self.shifts[:own], self.mirrored)
        error = 0.0 if self.is_exact else UNIT_ROUNDOFF
        return GaussianMixturePart(noise, self.shifts, self.weights, self.mirrored, error, exact)

    @override
    def covered(self) -> GaussianMixturePart | None:
        noise = float(self.noise_multiplier)
        if noise != self.noise_multiplier or self.mirrored or self.law is None:
            known = super(ShiftedMixtureStep, self).covered()
            return known if isinstance(known, GaussianMixturePart) else None
        kept = [(s, w) for s, w in zip(self.shifts, self.weights, strict=True) if w >= SMALLEST_WEIGHT]
        if len(kept) == len(self.shifts):
            return self.part()
        if len(kept) < 2 or kept[0][0] > 0 or kept[0][1] < LEAST_BESIDE_LIGHT:
            return None
        shifts, weights = zip(*kept, strict=True)
        farthest = self.shifts[-1]
        return GaussianMixturePart(noise, shifts, weights, weight_error=UNIT_ROUNDOFF, light=LIGHT, farthest=farthest)

    @override
    def rounded(self, side: int) -> AbstractStep:
        """Return the step without components of tiny weight; their weight moves to the smallest or the largest shift.

        More noise (side -1), and weight at smaller shifts, reveal less.
        """
        noise = Fraction(rounded(self.noise_multiplier, -side))
        kept = {s: w for s, w in zip(self.shifts, self.weights, strict=True) if w >= SMALLEST_WEIGHT}
        light = len(self.shifts) - len(kept)
        if not light:
            return replace(self, noise_multiplier=noise, law=None)
        if side < 0:
            kept[min(kept)] += math.fsum(weight for weight in self.weights if weight < SMALLEST_WEIGHT)
        else:
            # One component may stand for two tails of a law, each of which falls by more than half from hit to hit.
            kept[self.shifts[-1]] = kept.get(self.shifts[-1], 0.0) + (light + 3) * SMALLEST_WEIGHT
        shifts = tuple(sorted(kept))
        if shifts == (0.0,):
            return Gdp(mu=0.0)
        weights = tuple(kept[shift] for shift in shifts)
        return replace(self, noise_multiplier=noise, shifts=shifts, weights=weights, law=None)

    @override
    def loss_law(self) -> LossLaw:
        from service.privacy.losses.mixtures import gaussian_mixture_loss
        from service.privacy.losses.steps import gaussian_loss

        kept = [(s, w) for s, w in zip(self.shifts, self.weights, strict=True) if w >= SMALLEST_WEIGHT]
        distances = [float(Fraction(shift) / self.noise_multiplier) for shift, _ in kept]
        if not any(distances):  # only shift 0 has a representable weight
            return gaussian_loss(0.0)
        return gaussian_mixture_loss(distances, [weight for _, weight in kept], mirrored=self.mirrored)


def mixture_step(
    noise_multiplier: Fraction, weighted: Iterable[tuple[float, Fraction]], law: ShiftLaw | None = None
) -> AbstractStep:
    """Return the step whose pair of laws is N(0, sigma^2) and a mixture of the N(s, sigma^2) at shifts s.

    Parameters
    ----------
    noise_multiplier : Fraction
        sigma in the unit of the shifts, exact.
    weighted : iterable of (float, Fraction)
        Shifts >= 0 with their weights. Equal shifts are merged, and weights are divided by their sum.
    law : ShiftLaw, optional
        A short description of the same weights; by default the weights themselves are the law.

    Returns
    -------
    AbstractStep
        For one positive shift it is a Gaussian step, sampled or not, which more engines support.
    """
    joined: dict[float, Fraction] = {}
    for shift, weight in weighted:
        if weight > 0:
            joined[shift] = joined.get(shift, Fraction(0)) + weight
    total = sum(joined.values())
    shifts = sorted(joined)
    if shifts[-1] == 0:
        return Gdp(mu=0.0)
    if len(shifts) <= 2 and (len(shifts) == 1 or shifts[0] == 0):
        noise = 2 * noise_multiplier / Fraction(shifts[-1])
        return BatchMean(sample_rate=joined[shifts[-1]] / total, noise_multiplier=noise)
    exact = tuple(joined[shift] / total for shift in shifts)
    weights = tuple(map(float, exact))
    stated = StatedWeights(exact) if law is None else law
    return ShiftedMixtureStep(noise_multiplier=noise_multiplier, shifts=tuple(shifts), weights=weights, law=stated)


def hits_step(noise_multiplier: Fraction, law: HitsLaw) -> AbstractStep:
    """Return the mixture step whose shift is a random number of hits, with the probabilities `law`.

    A hit is a sampled record of the group. `noise_multiplier` is the standard deviation of the noise over the shift of
    one hit.
    """
    counts, whole = law.counts()
    known = [(hits * law.apart, count) for hits, count in enumerate(counts) if count]
    if len(known) <= 2:
        return mixture_step(noise_multiplier, ((shift, Fraction(count, whole)) for shift, count in known), law)
    shifts = tuple(shift for shift, _ in known)
    # Quotients of integers are correctly rounded, and need no reduction of fractions.
    weights = tuple(count / whole for _, count in known)
    return ShiftedMixtureStep(noise_multiplier=noise_multiplier, shifts=shifts, weights=weights, law=law)


def hits_of_many(trials: int, rate: Fraction, most: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the numbers of hits with their weights for a binomial law with many trials.

    Parameters
    ----------
    trials : int
        Count of independent trials.
    rate : Fraction
        Probability of a hit, in (0, 1).
    most : int
        Largest count of weights that the caller can use. A result with more numbers than that is incomplete.

    Returns
    -------
    (tuple of int, tuple of float)
        Numbers of hits, and their weights. The last number is `trials` with the weight 0.0, which stands for all
        numbers that are left out. If the weights of more than `MOST_SKIPPED` numbers below the mean are negligible, the
        result has `most` + 1 numbers and no weights.
    """
    import mpmath

    many_digits: Any = mpmath
    with many_digits.workdps(WEIGHT_DIGITS):
        share = many_digits.mpf(rate.numerator) / rate.denominator
        odds = share / (1 - share)
        weight = (1 - share) ** trials
        mean, hits = trials * rate, 0
        kept: list[tuple[int, float]] = []
        while len(kept) <= most and (hits < mean or weight >= SMALLEST_WEIGHT):
            if weight >= SMALLEST_WEIGHT:
                kept.append((hits, float(weight)))
            elif hits > MOST_SKIPPED:
                return tuple(range(most + 1)), ()
            weight *= odds * (trials - hits) / (hits + 1)
            hits += 1
    kept.append((trials, 0.0))
    return tuple(hits for hits, _ in kept), tuple(weight for _, weight in kept)
