"""The `monte_carlo` engine: readings from draws of the total loss, with distribution-free intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.draws import CHUNK, Draws
from service.privacy.composition.loss_law import ComposedLoss
from service.privacy.composition.options import EngineOptions
from service.privacy.enclosure import Bounds, Enclosure, Evidence, FloatArray
from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import GaussianPart, Steps
from service.privacy.numerics.binomial import (
    mean_above,
    mean_below,
    rank_reaching,
    rank_within,
    share_above,
    share_below,
)
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.logs import with_logs
from service.privacy.trade_off.pair import TradeOffPair

SAMPLES: Final = (1_000, 10_000_000)
SOURCE = "Hayes, Mahloujifar, Balle 2023 (Bounding training data reconstruction in DP-SGD), Algorithm 1"
READINGS = 10
"""One-sided intervals that share the failure probability: five for a point, and two directions for `both`."""
ROUNDS = 11
"""Each divides the bracket of an epsilon by 32."""


def monte_carlo_cost(steps: Steps, samples: int) -> float:
    """Microseconds of CPU for the draws of both hypotheses; the first reading pays for them."""
    laws = [count for step, count in steps if not isinstance(step.part(1.0), GaussianPart)]
    tables = sum(25_000 * (count.bit_length() + count.bit_count()) for count in laws)
    chunks = math.ceil(samples / CHUNK)
    return 2_000 + tables + 2 * len(laws) * 20_000 * chunks + 2 * samples * (0.15 + 0.03 * len(steps))


def monte_carlo_pair(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    """The curves of a run from `options.samples` draws of the total loss S under each hypothesis.

    A threshold is an order statistic of the draws under H0, the power the share of draws under H1 above it. Bounds hold
    with probability `options.confidence` for one reading, whatever the law: binomial order statistics for the rate,
    Clopper-Pearson for the power, Hoeffding's divergence bound for the profile and its tangents, failure probabilities
    added up over both directions (the power of `both` rests on several such readings, each that certain).

    Gaussian steps are drawn as one normal number; N equal other steps from the law of their sum on a lattice
    (`drawn_lattice.py`), so draws cost the same for any N. The bias of that is inside the bounds: the drawn sum D is a
    randomised function of the steps, the same under both hypotheses, hence its tests are valid tests; and S - D is
    farther than `Draws.band` from its known mean with probability at most 0.01/samples. Raises OutOfDomain for samples
    outside 1e3 to 1e7, a seed below 0 or a confidence outside (0, 1).
    """
    if not SAMPLES[0] <= options.samples <= SAMPLES[1]:
        raise OutOfDomain("samples", options.samples, f"an integer in [{SAMPLES[0]}, {SAMPLES[1]}]")
    if not 0 < options.confidence < 1:
        raise OutOfDomain("confidence", options.confidence, "a number in (0, 1)")
    if options.seed < 0:
        raise OutOfDomain("seed", options.seed, "an integer of at least 0")
    loss = ComposedLoss(tuple((step.loss_law(sensitivity), count) for step, count in steps))
    add = MonteCarloTradeOff(Draws(loss, options.samples, options.seed), 1 - options.confidence)
    reason = (
        f"monte_carlo: {options.samples} draws for each hypothesis, seed {options.seed}; "
        f"bounds hold with probability {options.confidence:g}."
    )
    return TradeOffPair(add, add.reversed(), SOURCE, (reason,))


@final
class MonteCarloTradeOff(AbstractTradeOff):
    """The intervals read off the draws. `reflected`: the remove direction, S -> -S with the hypotheses exchanged.

    Power, from above the smaller of: the upper share of H1 draws above a threshold whose rate surely reaches alpha; the
    tangent delta(c) + e^c alpha, valid for every c and chosen by the H0 draws alone; e^L alpha with the largest L. From
    below the lower share above a threshold whose rate surely stays within alpha, and alpha itself: where alpha is too
    small for the number of samples nothing better is known.
    """

    evidence = Evidence.STATISTICAL
    method = "monte_carlo"

    def __init__(self, draws: Draws, failure: float, *, reflected: bool = False) -> None:
        self._draws, self._all_failures, self._reflected = draws, failure, reflected
        self._failure = failure / READINGS

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
        return self._extreme(-loss.smallest if self._reflected else loss.largest, math.inf)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        loss = self._draws.loss
        return self._extreme(-loss.largest if self._reflected else loss.smallest, -math.inf)

    def _extreme(self, finite: float, singular: float) -> Enclosure:
        if self._draws.singular_mass > 0 or math.isinf(finite):
            return Enclosure.point(singular)
        # A sum of at most 256 products: 600 u covers its rounding.
        slack = 600 * UNIT_ROUNDOFF * abs(finite)
        return Enclosure(finite - slack, finite + slack, Evidence.CERTIFIED)

    @property
    @override
    def singular_power(self) -> Enclosure:
        mass = self._draws.singular_mass
        if mass in (0.0, 1.0):
            return Enclosure.point(mass)
        return Enclosure(mass * (1 - 1e-13), min(mass * (1 + 1e-13), 1.0), Evidence.CERTIFIED)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        return None

    @override
    def reversed(self) -> AbstractTradeOff:
        return MonteCarloTradeOff(self._draws, self._all_failures, reflected=not self._reflected)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        samples, band = self._draws.samples, self._draws.band
        (absent, present), (null_shift, other_shift) = self._ascending, self._shifts
        null_slack, other_slack = self._slack
        reaching = rank_reaching(alpha + null_slack, samples, self._failure)
        low = np.where(reaching <= samples, absent[np.maximum(samples - reaching, 0)], -np.inf)
        # From S >= c to D, under H0 and then under H1: both ways may cost the band.
        misses = np.searchsorted(present, low + (null_shift - other_shift) - 2 * band, side="left")
        most = share_above(samples - misses, samples, self._failure) + other_slack
        least_error = share_below(misses, samples, self._failure) - other_slack
        within = rank_within(alpha - null_slack, samples, self._failure)
        high = np.where(within > 0, absent[np.minimum(samples - within, samples - 1)], np.inf)
        misses = np.searchsorted(present, high, side="right")
        least = np.maximum(share_below(samples - misses, samples, self._failure) - other_slack, alpha)
        most_error = np.minimum(share_above(misses, samples, self._failure) + other_slack, 1 - alpha)
        most = np.clip(np.minimum(most, self._tangent(alpha)), least, 1.0)
        least_error = np.minimum(np.maximum(np.maximum(least_error, 1 - most), 0.0), most_error)
        largest, smallest = self.largest_log_ratio.upper, self.smallest_log_ratio.lower
        slopes = Bounds(
            np.clip(low + null_shift - band, smallest, largest), np.clip(high + null_shift + band, smallest, largest)
        )
        return CurvePoints(with_logs(least_error, most_error), with_logs(least, most), slopes)

    def _tangent(self, alpha: FloatArray) -> FloatArray:
        """delta(c) + e^c alpha at the threshold that the H0 draws suggest, and e^L alpha: the largest power."""
        samples = self._draws.samples
        rank = np.clip(np.rint(alpha * samples).astype(np.int64), 1, samples)
        thresholds = np.clip(self._ascending[0][samples - rank] + self._shifts[0], -700.0, 700.0)
        largest = min(self.largest_log_ratio.upper, 1e4)
        capped = np.exp(np.minimum(largest + np.log(alpha), 0.0))
        rest = np.exp(np.minimum(thresholds + np.log(alpha), 1.0))
        return np.minimum(capped, self._most(thresholds, self._failure) + rest) * (1 + 16 * UNIT_ROUNDOFF)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        failure = self._failure * READINGS / 4
        floor = np.abs(np.expm1(np.minimum(epsilon, 0.0)))
        singular = self.singular_power
        least = np.maximum(self._least(epsilon, failure), np.maximum(floor * (1 - 1e-15), singular.lower))
        most = np.minimum(np.maximum(self._most(epsilon, failure), least), 1.0)
        settled = epsilon >= self.largest_log_ratio.upper
        return with_logs(np.where(settled, singular.lower, least), np.where(settled, singular.upper, most))

    def _most(self, epsilon: FloatArray, failure: float) -> FloatArray:
        """An upper end of delta(eps) = E1 (1 - e^{eps - S})_+; it falls with eps."""
        means = self._mean_excess(epsilon - self._shifts[1] - self._draws.band)
        return np.minimum(mean_above(means, self._draws.samples, failure) + self._slack[1], 1.0)

    def _least(self, epsilon: FloatArray, failure: float) -> FloatArray:
        """A lower end of delta(eps); it falls with eps."""
        means = self._mean_excess(epsilon - self._shifts[1] + self._draws.band)
        return np.maximum(mean_below(means, self._draws.samples, failure) - self._slack[1], 0.0)

    @cached_property
    def _log_sums(self) -> FloatArray:
        """ln of the sum of e^-D over each H1 draw and all larger ones; minus infinity after the last."""
        sums = np.empty(self._draws.samples + 1)
        sums[0] = -np.inf
        np.negative(self._ascending[1][::-1], out=sums[1:])
        np.logaddexp.accumulate(sums, out=sums)
        return sums[::-1]

    def _mean_excess(self, thresholds: FloatArray) -> FloatArray:
        """The sample mean of (1 - e^{threshold - D})_+ under H1."""
        samples = self._draws.samples
        first = np.searchsorted(self._ascending[1], thresholds, side="right")
        missing = np.exp(np.minimum(thresholds + self._log_sums[first], 700.0))
        return np.clip((samples - first - missing) / samples, 0.0, 1.0)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        failure = self._failure * READINGS / 4
        finite = self._ascending[1][np.isfinite(self._ascending[1])]
        last = max(float(finite[-1]) if len(finite) else 0.0, 0.0) + abs(self._shifts[1]) + self._draws.band + 1
        largest = max(self.largest_log_ratio.upper, 0.0)
        # Where the end itself stays above delta, more samples would be needed to say anything below the largest loss.
        upper = _first(lambda eps: self._most(eps, failure), delta, last, largest)[1]
        lower = _first(lambda eps: self._least(eps, failure), delta, last, last)[0]
        return Enclosure(min(lower, upper), upper, self.evidence)


def _first(
    falling: Callable[[FloatArray], FloatArray], level: float, last: float, beyond: float
) -> tuple[float, float]:
    """Ends of the smallest x in [0, last] with falling(x) <= level, at most `beyond`; `beyond` where there is none."""
    if falling(np.array([last]))[0] > level:
        return beyond, beyond
    if falling(np.zeros(1))[0] <= level:
        return 0.0, 0.0
    low, high = 0.0, last
    for _ in range(ROUNDS):
        points = np.linspace(low, high, 33)
        first = int(np.argmax(falling(points[1:]) <= level)) + 1
        low, high = float(points[first - 1]), float(points[first])
    return min(low, beyond), min(high, beyond)
