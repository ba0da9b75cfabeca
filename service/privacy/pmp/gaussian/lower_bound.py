"""Lower bound of the PMP parameter of the Gaussian mechanism, from sets of outcomes along one direction.

Let P, Q be the two mixtures of a point (data with the point, data without it), in either order. For any set S of
outcomes the parameter is at least ln((P(S) - delta)/Q(S)). Projection on a direction is post-processing, so sets on a
line suffice for a bound. With few subsets the mixtures are enumerated, and the best set is S = {P > e^epsilon Q}, which
is bounded by changes of sign. With more subsets S is a half-line. Its probabilities come from characteristic functions,
or, for very many points, from exponential moments of sums drawn with replacement (Hoeffding 1963, Theorem 4). PMP is
practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.gaussian.line_law import half_line_exposure
from service.privacy.pmp.gaussian.points import QueryPoints
from service.privacy.pmp.gaussian.upper_bound import ExposureUpperBound
from service.privacy.trade_off.enclosed.ulps import LOG_NORMAL_CDF_ERROR

Method = Literal["sets", "half_lines", "moments"]
MOST_SUBSETS = 20_000
"""Largest number of subsets whose sums are enumerated."""
MOST_MEMBERS = 2_000_000
"""Largest product of the number of subsets and their size."""
MOST_SUMS = 200_000
"""Largest number of sums for all points together. It limits the number of points, outermost points first."""
STEPS_PER_STD, MOST_OUTCOMES = 12, 4096
MOST_DENSITIES = 100_000_000
"""Largest number of density evaluations (sums times outcomes) for all points together."""
BLOCK_NUMBERS = 2**20
MOST_ROUNDS, MOST_ROOTS = 60, 32
CLOSE = 1e-13
SUM_ERROR = 1e-13
MOMENTS, THRESHOLDS = 96, 200


@final
@dataclass(frozen=True, slots=True)
class ExposureLowerBound:
    """Lower bound of the parameter of practical membership privacy (PMP) of a Gaussian mechanism.

    Attributes
    ----------
    epsilon : float
        Lower bound in nats.
    method : {"sets", "half_lines", "moments"}
        "sets": best set on a line for each of `points` points; "half_lines": law of the sum for one point; "moments":
        moment bounds of that law.
    points : int
        Number of points.
    """

    epsilon: float
    method: Method
    points: int


def exposure_lower_bound(points: QueryPoints, size: int, bound: ExposureUpperBound, delta: float) -> ExposureLowerBound:
    """Compute a lower bound of the parameter of practical membership privacy (PMP) of a Gaussian mechanism, in nats.

    Parameters
    ----------
    points : QueryPoints
        The population.
    size : int
        Number n of records in the data.
    bound : ExposureUpperBound
        Upper bound. Data are projected on the line from the mean of all points to the point that determines it.
    delta : float
        0 < delta <= 1.

    Returns
    -------
    ExposureLowerBound
        The bound with its method.

    Notes
    -----
    In one dimension, and if `ExposureLowerBound.points` is the number of points of the population, the bound is the
    parameter of the mechanism to about 1e-9.
    """
    exposed = bound.point
    line = _Line.through(points, size, exposed)
    subsets = enumerable_subsets(points.count, size)
    if subsets == 0:
        # Moments also bound masses that are far below the rounding of characteristic functions.
        by_moments = _half_line_bound(line, exposed, delta)
        by_law = half_line_exposure(line.values, size, exposed, line.error, delta)
        if by_law is not None and by_law > by_moments:
            return ExposureLowerBound(by_law, "half_lines", 1)
        return ExposureLowerBound(by_moments, "moments", 1)
    order = np.argsort(-np.abs(line.values), kind="stable")[: max(2, MOST_SUMS // subsets)]
    chosen = [exposed, *(point for point in order.tolist() if point != exposed)]
    inside, outside = (_subsets(points.count - 1, length) for length in (size - 1, size))
    outcomes = min(MOST_OUTCOMES, MOST_DENSITIES // (2 * subsets * len(chosen)))
    found = 0.0
    for point in chosen:
        others = np.delete(line.values, point)
        with_point = others[inside].sum(axis=1) + line.values[point]
        without = others[outside].sum(axis=1)
        for one, other in ((with_point, without), (without, with_point)):
            found = _LineOptimum(one, other, line.error, delta, outcomes).improve(found, bound.epsilon)
    return ExposureLowerBound(found, "sets", len(chosen))


def enumerable_subsets(count: int, size: int) -> int:
    """Return the number of subsets of `size` of `count` elements, or 0 above the limits of enumeration.

    The limits are MOST_SUBSETS subsets, and MOST_MEMBERS elements in all of them.
    """
    if min(size, count - size) > math.log2(MOST_SUBSETS):
        return 0
    subsets = math.comb(count, size)
    return subsets if subsets <= MOST_SUBSETS and subsets * size <= MOST_MEMBERS else 0


@final
@dataclass(frozen=True, slots=True)
class _Line:
    """Projections (`values`) of the points on a line, in standard deviations of the noise.

    `size` is the number n of points in the data, and `error` bounds the absolute error of any sum of n of the `values`.
    """

    values: FloatArray
    size: int
    error: float

    @staticmethod
    def through(points: QueryPoints, size: int, exposed: int) -> _Line:
        """Project the points on the line from the mean of all points to the point with the index `exposed`.

        `size` is the number of points in the data.
        """
        direction = points.centred[exposed]
        length = float(np.abs(direction).max())
        if length == 0:  # The point is the mean: any direction is valid.
            direction, length = np.eye(1, len(direction))[0], 1.0
        direction = direction / length
        direction = direction / math.sqrt(float(direction @ direction))
        values = (points.centred @ direction) * points.scale
        farthest = float(points.radii.max()) * points.scale
        rounding = (2 * len(direction) + 2 * size + 64) * UNIT_ROUNDOFF * farthest
        return _Line(values, size, size * (rounding + points.centring_error * points.scale))


def _subsets(count: int, size: int) -> NDArray[np.intp]:
    return np.array(list(combinations(range(count), size)), dtype=np.intp).reshape(math.comb(count, size), size)


@final
class _LineOptimum:
    """Search for the largest ln((P(S) - delta)/Q(S)) over sets S of outcomes, for mixtures P and Q of normal laws.

    P and Q are the laws of a noisy sum, projected on a line, with and without a point, in either order. The means of
    the normal laws have absolute errors of at most `error`.
    """

    def __init__(self, one: FloatArray, other: FloatArray, error: float, delta: float, outcomes: int) -> None:
        self._one, self._other, self._error, self._log_delta = one, other, error, math.log(delta)
        # The mass of P beyond the reach is below delta.
        reach = 3 + math.sqrt(-2 * self._log_delta)
        both = np.concatenate((one, other))
        low, high = float(both.min()) - reach, float(both.max()) + reach
        count = min(outcomes, 2 + math.ceil(float(high - low) * STEPS_PER_STD))
        self._outcomes: FloatArray = np.linspace(float(low), float(high), count)
        self._ratios = self._log_ratio(self._outcomes)

    def improve(self, low: float, high: float) -> float:
        """Return a lower bound of the PMP parameter, at least `low`, from the best set of outcomes on the line.

        The true maximum is at most `high`. P and Q are the densities of two mixtures on the line. The set S = {ln P/Q >
        level} gives a bound above the level exactly if the best bound is above the level (Dinkelbach). The levels
        alternate between the best bound so far, which converges quadratically, and the middle of the remaining bracket.
        PMP is practical membership privacy: the attacker does not know which records were drawn.
        """
        for turn in range(MOST_ROUNDS):
            if not low < high * (1 - CLOSE):
                break
            level = low if turn % 2 == 0 else 0.5 * (low + high)
            reached = self._bound(level)
            low, before = max(low, reached), low
            if reached <= level:
                high = max(low, level)
            elif turn % 2 == 0 and low <= before * (1 + CLOSE):
                break
        return low

    def _bound(self, level: float) -> float:
        starts, ends = _intervals(self._log_ratio, self._outcomes, self._ratios, level)
        if not starts.size:
            return -math.inf
        log_mass = _log_mass(starts, ends, self._one, self._error, -1)
        if not log_mass > self._log_delta:
            return -math.inf
        excess = log_mass + math.log1p(-math.exp(self._log_delta - log_mass)) * (1 + 1e-15) - 1e-15
        reached = excess - _log_mass(starts, ends, self._other, self._error, 1)
        return reached - 1e-15 * abs(reached)

    def _log_ratio(self, at: FloatArray) -> FloatArray:
        return _log_density(at, self._one) - _log_density(at, self._other)


def _intervals(
    log_ratio: Callable[[FloatArray], FloatArray], outcomes: FloatArray, ratios: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return (starts, ends) of the intervals where `log_ratio`, the log ratio of two mixtures, exceeds `level`.

    `ratios` are its values at the grid `outcomes`. With more than MOST_ROOTS endpoints, these are grid outcomes instead
    of roots.
    """
    above = ratios > level
    changes = np.flatnonzero(above[1:] != above[:-1])
    if changes.size <= MOST_ROOTS:
        roots = bracketed_roots(lambda at: log_ratio(at) - level, outcomes[changes], outcomes[changes + 1])
    else:
        roots = outcomes[changes]
    edges = np.concatenate(([-np.inf] if above[0] else [], roots, [np.inf] if above[-1] else []))
    return edges[::2], edges[1::2]


def _log_density(at: FloatArray, means: FloatArray) -> FloatArray:
    """Return ln of the density of an equal mixture of normal laws, without its constant, at each point of `at`.

    `means` are the means of the normal laws. All variances are 1.
    """
    found = np.empty_like(at)
    block = max(1, BLOCK_NUMBERS // len(means))
    for start in range(0, len(at), block):
        exponents = -0.5 * (at[start : start + block, None] - means) ** 2
        largest = exponents.max(axis=1, keepdims=True)
        found[start : start + block] = np.log(np.exp(exponents - largest).mean(axis=1)) + largest[:, 0]
    return found


def _log_mass(starts: FloatArray, ends: FloatArray, means: FloatArray, error: float, side: int) -> float:
    """Return a lower (`side` -1) or upper (1) bound of ln of the mass of intervals under a mixture of normal laws.

    The intervals reach from `starts` to `ends`. The `means` of the mixture have absolute errors of at most `error`.
    """
    parts = np.array(
        [_log_normal_mass(start - means, end - means, error, side) for start, end in zip(starts, ends, strict=True)]
    )
    largest = float(parts.max())
    if not math.isfinite(largest):
        return largest
    return largest + math.log(float(np.exp(parts - largest).sum()) / len(means)) + side * SUM_ERROR


def _log_normal_mass(start: FloatArray, end: FloatArray, error: float, side: int) -> FloatArray:
    """Return a lower (`side` -1) or upper (1) bound of ln(Phi(end) - Phi(start)), computed in the smaller tail.

    Both arguments have absolute errors of at most `error`.
    """
    in_upper_tail = start > 0
    low, high = np.where(in_upper_tail, -end, start), np.where(in_upper_tail, -start, end)
    (log_low, low_error), (log_high, high_error) = (_log_cdf(each, error) for each in (low, high))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.exp(log_low - log_high)
        value = log_high + np.log1p(-share)
        slack = (high_error + (low_error + 16 * UNIT_ROUNDOFF) * share) / (1 - share) + 16 * UNIT_ROUNDOFF
        found = value + side * slack
    # For an interval narrower than the errors of its endpoints, the only bound is the mass of the tail.
    found = np.where(np.isnan(found), -np.inf if side < 0 else np.inf, found)
    return np.minimum(found, log_high + high_error) if side > 0 else found


def _log_cdf(at: FloatArray, error: float) -> tuple[FloatArray, FloatArray]:
    """Return ln Phi(t) for t = `at` and its absolute error, if that of t is at most `error`.

    |(ln Phi)'(t)| is at most 1 + |t| for t < 0 and at most 1 for t > 0. Infinite arguments are exact.
    """
    value = special.log_ndtr(at)
    finite = np.where(np.isfinite(at), at, 0.0)
    argument_error = error + 2 * UNIT_ROUNDOFF * np.abs(finite)
    moved = (1 + np.maximum(-finite, 0.0) + argument_error) * argument_error
    return value, np.where(np.isfinite(at), LOG_NORMAL_CDF_ERROR * (1 + np.abs(value)) + moved, 0.0)


def _half_line_bound(line: _Line, exposed: int, delta: float) -> float:
    """Return a lower bound of the PMP parameter from half-lines S = {y > t} of outcomes, at least 0.

    The point x with the index `exposed` lies on the side of large y. The parameter is that for `delta`. PMP is
    practical membership privacy: the attacker does not know which records were drawn.

    P and Q are the laws of the noisy sum of n points with and without x. Let m be the mean over the other points x'.
    For all s > 0, P(S) >= 1 - exp(s (t - x)) m(exp(-s x'))^(n - 1) e^(s^2/2) and Q(S) <= exp(-s t) m(exp(s x'))^n
    e^(s^2/2).
    """
    own, others = float(line.values[exposed]), np.delete(line.values, exposed)
    farthest = float(np.abs(line.values).max())
    if farthest == 0:
        return 0.0
    slopes = np.geomspace(1e-3 / farthest / math.sqrt(line.size), 1e2 * max(1.0, 1 / farthest), MOMENTS)
    rising, falling = (_log_moments(sign * slopes, others) for sign in (1, -1))
    centre = line.size * float(others.mean())
    thresholds = np.linspace(centre, centre + abs(own) + 1.0, THRESHOLDS)[:, None]
    slack = line.size * (1e-13 + 8 * UNIT_ROUNDOFF * slopes * farthest)
    slack = slack + slopes * line.error + 8 * UNIT_ROUNDOFF * (slopes * (np.abs(thresholds) + abs(own)) + slopes**2)
    log_without = line.size * rising - slopes * thresholds + 0.5 * slopes**2 + slack
    log_missed = (line.size - 1) * falling + slopes * (thresholds - own) + 0.5 * slopes**2 + slack
    with_point = -np.expm1(np.minimum(log_missed.min(axis=1), 0.0)) * (1 - 1e-14)
    known = with_point > delta * (1 + 1e-14)
    if not known.any():
        return 0.0
    bounds = np.log((with_point[known] - delta) * (1 - 1e-14)) - np.minimum(log_without.min(axis=1), 0.0)[known]
    return max(0.0, float(bounds.max()) * (1 - 1e-14))


def _log_moments(slopes: FloatArray, values: FloatArray) -> FloatArray:
    return np.array([_log_mean_exp(slope * values) for slope in slopes.tolist()])


def _log_mean_exp(exponents: FloatArray) -> float:
    largest = float(exponents.max())
    return largest + math.log(float(np.exp(exponents - largest).mean()))
