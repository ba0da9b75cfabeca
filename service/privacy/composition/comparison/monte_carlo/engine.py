"""The `monte_carlo` engine: answers from draws of the total loss, with distribution-free intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.comparison.monte_carlo.draws import Draws
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.losses.law import TOO_FAR_APART, ComposedLoss
from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics import binomial
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.distribution_band import DistributionBand
from service.privacy.numerics.roots import sectioned
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import with_logs
from service.privacy.trade_off.pair import TradeOffPair

SAMPLES: Final = (1_000, 10_000_000)
SOURCE = "Hayes, Mahloujifar, Balle 2023 (Bounding training data reconstruction in DP-SGD), Algorithm 1"
SERVED_INSTEAD: Final = ("auto", "discretised")
POINT_DIVISOR: Final = 10
"""Divisor of the failure probability for a single power: five one-sided intervals, and the same share for bands."""
PROFILE_DIVISOR: Final = 8
"""Divisor for a single delta or epsilon: two intervals in each direction, and the same share for bands."""
BAND_DIVISOR: Final = 4
"""Divisor for bands: those of the draws under both hypotheses, and the same share for single numbers."""
ROUNDS = 11
"""Number of rounds of a search for epsilon. Each round divides the bracket by 32."""


def monte_carlo_pair(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Build the curves of a run from draws of the total loss S under each hypothesis.

    Parameters
    ----------
    steps : Steps
        The run.
    options : EngineOptions
        Samples (draws of S under each hypothesis), seed and confidence.

    Raises
    ------
    OutOfDomain
        For samples outside 1e3 to 1e7, a negative seed, or a confidence outside (0, 1).
    UnsupportedCombination
        With field `method`, if modes of the loss are so far apart that its mean and variance are unknown. Also if
        losses that are not Gaussian have no lower bound (a replaced record under sampling).

    Notes
    -----
    A threshold is an order statistic of the draws under H0. The power is the share of draws under H1 above the
    threshold. All numbers of an answer hold simultaneously with probability of at least `options.confidence`, for any
    law.

    Half of the failure probability belongs to bands around both distribution functions (`distribution_band.py`), which
    hold at every threshold. The bands serve arrays and all results that search for their thresholds (`both`, mixtures,
    the mu of a whole curve). The other half belongs to single numbers, whose intervals are narrower: binomial order
    statistics for the rate, Clopper-Pearson for the power, and Hoeffding's divergence bound for the profile and its
    tangents. Their failure probabilities add up over both directions.

    Gaussian steps are drawn as a single normal number, and N equal other steps from the law of their sum on a lattice
    (`drawn_lattice.py`). The cost of a draw therefore does not depend on N. The bounds include the bias of the lattice.
    The drawn sum D is a randomised function of the steps, equal under both hypotheses, so its tests are valid tests.
    The distance of S - D from its known mean exceeds `Draws.band` with probability of at most 0.01/samples.
    """
    if not SAMPLES[0] <= options.samples <= SAMPLES[1]:
        raise OutOfDomain("samples", options.samples, f"an integer in [{SAMPLES[0]}, {SAMPLES[1]}]")
    if not 0 < options.confidence < 1:
        raise OutOfDomain("confidence", options.confidence, "a number in (0, 1)")
    if options.seed < 0:
        raise OutOfDomain("seed", options.seed, "an integer of at least 0")
    loss = ComposedLoss(tuple((step.loss_law(), count) for step, count in steps))
    if not loss.holds_its_mass:
        raise UnsupportedCombination("method", "monte_carlo for shifts this far apart", TOO_FAR_APART, SERVED_INSTEAD)
    add = MonteCarloTradeOff(Draws(loss, options.samples, options.seed), 1 - options.confidence)
    reason = (
        f"monte_carlo: {options.samples} draws for each hypothesis with seed {options.seed}. The "
        f"bounds hold with probability at least {options.confidence:g}."
    )
    return TradeOffPair(add, add.reversed(), SOURCE, (reason,))


@final
class MonteCarloTradeOff(AbstractTradeOff):
    """Curve from confidence intervals of draws of the loss S. `reflected` selects the remove direction.

    That direction has the loss -S and swapped hypotheses. alpha is the false positive rate, delta(c) the profile at a
    threshold c, and D the drawn number, a rounded S. The upper bound of the power is the smallest of three numbers. The
    first is the upper bound of the share of H1 draws above a threshold whose rate is at least alpha, within the
    confidence. The second is the tangent delta(c) + e^c alpha, which is valid for every c; the H0 draws alone choose c.
    The third is e^L alpha with the largest loss L. The lower bound is the lower bound of the share above a threshold
    whose rate is at most alpha within the confidence, and at least alpha. For an alpha that is too small for the number
    of samples, alpha itself is this lower bound.

    `power_at`, `profile_at` and `epsilon` use separate intervals. All other results use the simultaneous bands.
    """

    evidence = Evidence.STATISTICAL
    method = "monte_carlo"

    def __init__(self, draws: Draws, failure: float, *, reflected: bool = False) -> None:
        self._draws, self._failure, self._reflected = draws, failure, reflected

    @cached_property
    def _ascending(self) -> tuple[FloatArray, FloatArray]:
        absent, present = self._draws.ascending
        return (-present[::-1], -absent[::-1]) if self._reflected else (absent, present)

    @cached_property
    def _shifts(self) -> tuple[float, float]:
        absent, present = self._draws.shifts
        return (-present, -absent) if self._reflected else (absent, present)

    @cached_property
    def _slack(self) -> tuple[float, float]:
        absent, present = self._draws.slack
        return (present, absent) if self._reflected else (absent, present)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        loss = self._draws.loss
        finite = -loss.smallest if self._reflected else loss.largest
        if self._draws.singular_mass > 0 or math.isinf(finite):
            return Enclosure.point(math.inf)
        # 600 u covers the rounding of a sum of at most 256 products.
        slack = 600 * UNIT_ROUNDOFF * abs(finite)
        return Enclosure(finite - slack, finite + slack, Evidence.CERTIFIED)

    @property
    @override
    def singular_power(self) -> Enclosure:
        mass = self._draws.singular_mass
        if mass in (0.0, 1.0):
            return Enclosure.point(mass)
        return Enclosure(mass * (1 - 1e-13), min(mass * (1 + 1e-13), 1.0), Evidence.CERTIFIED)

    @override
    def reversed(self) -> AbstractTradeOff:
        return MonteCarloTradeOff(self._draws, self._failure, reflected=not self._reflected)

    @cached_property
    def _band(self) -> DistributionBand:
        """Simultaneous confidence band around the distribution function of the draws, equal for both hypotheses.

        Its width depends only on the number of draws and the failure probability. The band of the negated draws is the
        reflection of this band.
        """
        return DistributionBand.of(self._draws.samples, self._failure / BAND_DIVISOR)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return self._points(alpha, self._band, self._profile_by_band[1])

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        failure = self._failure / POINT_DIVISOR
        separate = binomial.BinomialIntervals(self._draws.samples, failure)
        return self._points(np.array([rate]), separate, lambda eps: self._delta_above(eps, failure)).power.at(
            0, self.evidence
        )

    def _points(
        self,
        alpha: FloatArray,
        intervals: DistributionBand | binomial.BinomialIntervals,
        most_profile: Callable[[FloatArray], FloatArray],
    ) -> CurvePoints:
        samples, band = self._draws.samples, self._draws.band
        (absent, present), (null_shift, other_shift) = self._ascending, self._shifts
        null_slack, other_slack = self._slack
        reaching = intervals.rank_reaching(alpha + null_slack)
        low = np.where(reaching <= samples, absent[np.maximum(samples - reaching, 0)], -np.inf)
        # The change from S >= c to D, under H0 and then under H1, may cost the band twice.
        misses = np.searchsorted(present, low + (null_shift - other_shift) - 2 * band, side="left")
        most = intervals.share_above(samples - misses) + other_slack
        least_error = intervals.share_below(misses) - other_slack
        within = intervals.rank_within(alpha - null_slack)
        high = np.where(within > 0, absent[np.minimum(samples - within, samples - 1)], np.inf)
        misses = np.searchsorted(present, high, side="right")
        least = np.maximum(intervals.share_below(samples - misses) - other_slack, alpha)
        most_error = np.minimum(intervals.share_above(misses) + other_slack, 1 - alpha)
        most = np.clip(np.minimum(most, self._tangent(alpha, most_profile)), least, 1.0)
        least_error = np.minimum(np.maximum(np.maximum(least_error, 1 - most), 0.0), most_error)
        largest, smallest = self.largest_log_ratio.upper, self.smallest_log_ratio.lower
        slopes = EnclosureArray(
            np.clip(low + null_shift - band, smallest, largest), np.clip(high + null_shift + band, smallest, largest)
        )
        return CurvePoints(with_logs(least_error, most_error), with_logs(least, most), slopes)

    def _tangent(self, alpha: FloatArray, most_profile: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return an upper bound of the power at each false positive rate alpha, in its shape.

        It is the smaller of delta(c) + e^c alpha, with a threshold c from the H0 draws, and e^L alpha with the largest
        loss L of the run (nats). `most_profile` gives upper bounds of delta(c).
        """
        samples = self._draws.samples
        rank = np.clip(np.rint(alpha * samples).astype(np.int64), 1, samples)
        thresholds = np.clip(self._ascending[0][samples - rank] + self._shifts[0], -700.0, 700.0)
        largest = min(self.largest_log_ratio.upper, 1e4)
        capped = np.exp(np.minimum(largest + np.log(alpha), 0.0))
        rest = np.exp(np.minimum(thresholds + np.log(alpha), 1.0))
        return np.minimum(capped, most_profile(thresholds) + rest) * (1 + 16 * UNIT_ROUNDOFF)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        least, most = self._profile_by_band
        return self._profile(epsilon, least(epsilon), most(epsilon))

    @override
    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        failure, at = self._failure / PROFILE_DIVISOR, np.array([epsilon])
        return self._profile(at, self._delta_below(at, failure), self._delta_above(at, failure)).at(0, self.evidence)

    def _profile(self, epsilon: FloatArray, least: FloatArray, most: FloatArray) -> EnclosureArray:
        """Return enclosures of delta(epsilon) from the bounds `least` and `most`, intersected with general bounds.

        Every profile is at least 1 - e^epsilon and the singular mass, and equals that mass beyond the largest loss. All
        arrays have the shape of `epsilon`.
        """
        floor = np.abs(np.expm1(np.minimum(epsilon, 0.0)))
        singular = self.singular_power
        least = np.maximum(least, np.maximum(floor * (1 - 1e-15), singular.lower))
        most = np.minimum(np.maximum(most, least), 1.0)
        settled = epsilon >= self.largest_log_ratio.upper
        return with_logs(np.where(settled, singular.lower, least), np.where(settled, singular.upper, most))

    def _delta_above(self, epsilon: FloatArray, failure: float) -> FloatArray:
        """Return an upper bound of the profile delta(eps) = E1 (1 - e^{eps - S})_+ at `epsilon`, shape (n,).

        S is the loss and E1 the expectation under H1. The bound fails with probability of at most `failure`.
        """
        means = self._mean_excess(epsilon - self._shifts[1] - self._draws.band)
        return np.minimum(binomial.mean_above(means, self._draws.samples, failure) + self._slack[1], 1.0)

    def _delta_below(self, epsilon: FloatArray, failure: float) -> FloatArray:
        """Return a lower bound of the profile delta(eps) at `epsilon`, shape (n,).

        The profile decreases with eps. The bound fails with probability of at most `failure`.
        """
        means = self._mean_excess(epsilon - self._shifts[1] + self._draws.band)
        return np.maximum(binomial.mean_below(means, self._draws.samples, failure) - self._slack[1], 0.0)

    @cached_property
    def _log_sums(self) -> FloatArray:
        """ln of the sum of e^-D over each H1 draw D and all larger draws, and a final -inf; shape (samples + 1,).

        D is a drawn privacy loss of the run in nats, rounded to a lattice. The draws are in ascending order.
        """
        sums = np.empty(self._draws.samples + 1)
        sums[0] = -np.inf
        np.negative(self._ascending[1][::-1], out=sums[1:])
        np.logaddexp.accumulate(sums, out=sums)
        return sums[::-1]

    def _mean_excess(self, thresholds: FloatArray) -> FloatArray:
        """Return the sample mean of (1 - e^{threshold - D})_+ over the draws D under H1, at each threshold.

        A draw D is a rounded loss of the run. The result has the shape of `thresholds`.
        """
        samples = self._draws.samples
        first = np.searchsorted(self._ascending[1], thresholds, side="right")
        missing = np.exp(np.minimum(thresholds + self._log_sums[first], 700.0))
        return np.clip((samples - first - missing) / samples, 0.0, 1.0)

    @cached_property
    def _profile_by_band(self) -> tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]:
        """Bounds (lower, upper) of delta(eps) for all eps simultaneously, each a decreasing function of eps.

        delta(eps) is the integral of e^{eps - s} P1(S > s) over s > eps for the loss S, and increases with the tail
        P1(S > s). The lower bound of the band therefore gives the lower bound of delta, and the upper bound gives the
        upper bound.
        """
        band, present = self._band, self._ascending[1]
        draws = present[self._draws.samples - band.ranks]
        lower = TailProfile.of(draws, band.lower)
        # Between ranks the tail is at most the tail at the next lower draw, and 1 below the last draw.
        upper = TailProfile.of(np.append(np.inf, draws), np.append(band.upper, 1.0))
        shift, reach, slack = self._shifts[1], self._draws.band, self._slack[1]
        return (
            lambda epsilon: np.maximum(lower.at(epsilon - shift + reach) - slack, 0.0),
            lambda epsilon: np.minimum(upper.at(epsilon - shift - reach) + slack, 1.0),
        )

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        failure = self._failure / PROFILE_DIVISOR
        finite = self._ascending[1][np.isfinite(self._ascending[1])]
        last = max(float(finite[-1]) if len(finite) else 0.0, 0.0) + abs(self._shifts[1]) + self._draws.band + 1
        largest = max(self.largest_log_ratio.upper, 0.0)
        # If the upper bound stays above delta, the only valid bound with these samples is the largest loss.
        upper = _first(lambda eps: self._delta_above(eps, failure), delta, last, largest)[1]
        lower = _first(lambda eps: self._delta_below(eps, failure), delta, last, last)[0]
        return Enclosure(min(lower, upper), upper, self.evidence)


@final
@dataclass(frozen=True, slots=True)
class TailProfile:
    """Expectation E (1 - e^{t - X})_+ as a function of t, for a discrete X with given tails.

    P(X >= x_i) is given at the points x_1 >= x_2 >= ... >= x_n. The mass of X below x_n is ignored.

    Attributes
    ----------
    ascending : array
        The x_i in increasing order.
    masses : array
        P(X >= x_i) in this order, and a final 0.
    log_sums : array
        ln of the sum of e^-X over the mass from x_i on, and a final minus infinity.
    """

    ascending: FloatArray
    masses: FloatArray
    log_sums: FloatArray

    @staticmethod
    def of(descending: FloatArray, tails: FloatArray) -> TailProfile:
        """Build the profile from decreasing points x_i (`descending`) and their tail probabilities P(X >= x_i).

        X is the random variable of the profile. Between points of equal tails X has no mass.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(np.diff(tails, prepend=0.0)) - descending
        sums = np.logaddexp.accumulate(np.append(-np.inf, logs))
        return TailProfile(descending[::-1], np.append(0.0, tails)[::-1], sums[::-1])

    def at(self, thresholds: FloatArray) -> FloatArray:
        """Return the mean of (1 - e^{t - X})_+ over X at each threshold t, in their shape; it decreases with t.

        X is the random number with the tails of this profile.
        """
        first = np.searchsorted(self.ascending, thresholds, side="right")
        missing = np.exp(np.minimum(thresholds + self.log_sums[first], 700.0))
        return np.clip(self.masses[first] - missing, 0.0, 1.0)


def _first(
    falling: Callable[[FloatArray], FloatArray], target: float, last: float, beyond: float
) -> tuple[float, float]:
    """Return a bracket of the smallest x in [0, `last`] at which the decreasing function `falling` is at most `target`.

    If there is none, both numbers are `beyond`. Both are always at most `beyond`.
    """
    if falling(np.array([last]))[0] > target:
        return beyond, beyond
    if falling(np.zeros(1))[0] <= target:
        return 0.0, 0.0
    ends = sectioned(lambda x: falling(x[0])[None] <= target, np.zeros(1), np.array([last]), ROUNDS, sections=33)
    return min(float(ends[0][0]), beyond), min(float(ends[1][0]), beyond)
