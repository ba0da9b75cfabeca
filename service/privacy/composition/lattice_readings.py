"""What two lattice laws composed at one tilt prove about points of the curve and about the profile.

With the profile D, G(x) = E(x - X)_+ and H(x) = E min(X, x) (`lattice_law.py`)

    power(alpha) = min_c D(c) + e^c alpha,    beta(alpha) = max_c H(c) - e^c alpha = max_c e^c (1 - alpha) - G(c).

`upper` bounds D from above, G from above and H from below, at every c: any c will do. `lower` does the reverse, and is
itself the law of a test: what it attains is read off its vertices (alpha(c), power(c)), between which curves are lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.privacy.composition.contour_readings import Readings, complement, nothing_known
from service.privacy.composition.lattice_run import LatticeLine
from service.privacy.enclosure import FloatArray

_LOG_ROUNDING = 1e-14
"""Of the few operations between the sums of a line and a reading, relative; exponents carry their own."""

_SECTIONS = 65
_SECTION_ROUNDS = 8
"""Places at once, and rounds, in which a level of the profile is located."""


@dataclass(frozen=True, slots=True)
class Slack:
    """Factors e^{+-s} of one side's laws for a whole run, and the masses outside the lattice of a whole run."""

    profile: float
    left: float
    middle: float
    log_infinite: float
    log_vanishing: float


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.maximum(values, 0.0))


class _Side:
    """Logarithms of the sums of one line at its thresholds, lower (sign -1) or upper (sign 1) ends."""

    def __init__(self, line: LatticeLine, sign: int) -> None:
        self.line, self.sign, self.c = line, sign, line.thresholds
        self.slack = line.log_rounding + _LOG_ROUNDING
        self.rounding = 1e-15 * (1 + abs(line.value) + np.abs(line.theta * self.c))

    def _scaled(self, values: FloatArray, error: float, slope: float) -> FloatArray:
        """ln(values +- error) + K - slope c, with its rounding."""
        scaled = _log(values + self.sign * error) + (self.line.value - slope * self.c)
        return scaled + self.sign * (self.slack + self.rounding)

    @cached_property
    def alpha(self) -> FloatArray:
        """ln P0(S > c), theta > 0."""
        theta = self.line.theta
        return self._scaled(self.line.above(theta), self.line.error(theta), theta)

    @cached_property
    def rest(self) -> FloatArray:
        """ln P0(S <= c), theta < 0."""
        theta = -self.line.theta
        return self._scaled(self.line.below(theta), self.line.error(theta), -theta)

    @cached_property
    def power(self) -> FloatArray:
        """ln P1(S > c), theta > 1."""
        rate = self.line.theta - 1
        return self._scaled(self.line.above(rate), self.line.error(rate), rate)

    @cached_property
    def beta(self) -> FloatArray:
        """ln P1(S <= c), theta < 1."""
        rate = 1 - self.line.theta
        return self._scaled(self.line.below(rate), self.line.error(rate), -rate)

    @cached_property
    def profile(self) -> FloatArray:
        """ln D(c) of the finite losses, theta > 1."""
        rate, other = self.line.theta - 1, self.line.theta
        sums = self.line.above(rate) - self.line.above(other)
        return self._scaled(sums, self.line.error(rate) + self.line.error(other), rate)

    @cached_property
    def middle(self) -> FloatArray:
        """ln H(c), 0 < theta < 1."""
        rate, other = 1 - self.line.theta, self.line.theta
        sums = self.line.below(rate) + self.line.above(other)
        return self._scaled(sums, self.line.error(rate) + self.line.error(other), -rate)

    @cached_property
    def left(self) -> FloatArray:
        """ln G(c) of the positive X, theta < 0."""
        rate, other = -self.line.theta, 1 - self.line.theta
        sums = self.line.below(rate) - self.line.below(other)
        return self._scaled(sums, self.line.error(rate) + self.line.error(other), -other)


@dataclass(frozen=True)
class LatticePair:
    """Both lines at one tilt, with their slack."""

    upper: LatticeLine
    lower: LatticeLine
    upper_slack: Slack
    lower_slack: Slack

    @property
    def theta(self) -> float:
        """The tilt of both."""
        return self.upper.theta

    @cached_property
    def high_upper(self) -> _Side:
        """Upper ends of the upper law's sums."""
        return _Side(self.upper, 1)

    @cached_property
    def low_upper(self) -> _Side:
        """Lower ends of the upper law's sums."""
        return _Side(self.upper, -1)

    @cached_property
    def high_lower(self) -> _Side:
        """Upper ends of the lower law's sums."""
        return _Side(self.lower, 1)

    @cached_property
    def low_lower(self) -> _Side:
        """Lower ends of the lower law's sums."""
        return _Side(self.lower, -1)


def read_lattice_points(pair: LatticePair, alpha: FloatArray) -> Readings:
    """ln power, ln type II error and ln slope (unknown) at rates strictly between 0 and 1."""
    with np.errstate(all="ignore"):
        if pair.theta > 1:
            log_alpha = np.log(alpha)
            upper = np.minimum(_least_power(pair, log_alpha), 0.0)
            lower = _vertices(pair.high_lower.alpha, pair.low_lower.power, log_alpha, rising=True)
            lower = lower - pair.lower_slack.profile - _LOG_ROUNDING
            return _both(lower, upper, power_first=True)
        log_rate = np.log(alpha) if pair.theta > 0 else np.log1p(-alpha)
        lower = _largest_beta(pair, log_rate)
        if pair.theta > 0:
            slack = pair.lower_slack.middle
            upper = _vertices(pair.high_lower.alpha, pair.high_lower.beta, log_rate - slack, rising=False)
            upper = upper + slack
        else:
            slack = pair.lower_slack.left
            upper = _vertices(pair.low_lower.rest, pair.high_lower.beta, log_rate + slack, rising=True)
        return _both(lower, np.minimum(upper + _LOG_ROUNDING, 0.0), power_first=False)


def _both(lower: FloatArray, upper: FloatArray, *, power_first: bool) -> Readings:
    result = nothing_known(len(lower))
    lower, upper = np.fmax(lower, -np.inf), np.where(np.isnan(upper), 0.0, upper)
    other_lower, other_upper = complement(np.minimum(lower, 0.0), np.minimum(upper, 0.0))
    first, second = (0, 1) if power_first else (1, 0)
    result.lower[first], result.upper[first] = lower, upper
    result.lower[second], result.upper[second] = other_lower, other_upper
    return result


def _nearest(thresholds: FloatArray, log_rates: FloatArray, wanted: FloatArray, *, falling: bool) -> FloatArray:
    """Indices of three neighbouring thresholds around the one with the wanted rate; shape (3, rates)."""
    order = -log_rates if falling else log_rates
    at = np.searchsorted(np.maximum.accumulate(np.nan_to_num(order)), -wanted if falling else wanted)
    return np.clip(at + np.array([[-1], [0], [1]]), 0, len(thresholds) - 1)


def _least_power(pair: LatticePair, log_alpha: FloatArray) -> FloatArray:
    side = pair.high_upper
    at = _nearest(side.c, side.alpha, log_alpha, falling=True)
    tangents = np.logaddexp(side.profile[at] + pair.upper_slack.profile, side.c[at] + log_alpha)
    whole = np.logaddexp(tangents, pair.upper_slack.log_infinite).min(axis=0)
    return whole + _LOG_ROUNDING + 1e-15 * np.abs(log_alpha)


def _largest_beta(pair: LatticePair, log_rate: FloatArray) -> FloatArray:
    """ln of H(c) - e^c alpha, or of e^c (1 - alpha) - G(c), the largest of three neighbours."""
    if pair.theta > 0:
        side = pair.low_upper
        at = _nearest(side.c, side.alpha, log_rate, falling=True)
        first, second = side.middle[at] - pair.upper_slack.middle, side.c[at] + log_rate
    else:
        side = pair.high_upper
        at = _nearest(side.c, side.rest, log_rate, falling=False)
        first = side.c[at] + log_rate
        second = np.logaddexp(side.left[at] + pair.upper_slack.left, side.c[at] + pair.upper_slack.log_vanishing)
    slack = _LOG_ROUNDING + 2e-15 * (np.abs(first) + np.abs(second))
    gap = np.minimum(second + slack - (first - slack), 0.0)
    return np.fmax.reduce(first - slack + np.log(-np.expm1(gap)), axis=0)


def _vertices(log_rate: FloatArray, log_value: FloatArray, wanted: FloatArray, *, rising: bool) -> FloatArray:
    """ln of the line between neighbouring vertices at the wanted ln rate; NaN outside them.

    `rising`: whether the value rises with the rate. Every vertex lies on the safe side of the curve and stays there when it
    is moved towards worse neighbours, which makes them monotone.
    """
    order = np.argsort(log_rate, kind="stable")
    rate, value = log_rate[order], log_value[order]
    value = np.fmax.accumulate(value) if rising else np.fmin.accumulate(value)
    at = np.clip(np.searchsorted(rate, wanted), 1, len(rate) - 1)
    left, right = rate[at - 1], rate[at]
    inside = (wanted >= left) & (wanted <= right) & np.isfinite(left) & np.isfinite(right)
    share = np.clip(-np.expm1(left - wanted) / (np.exp(right - wanted) - np.exp(left - wanted)), 0.0, 1.0)
    share = np.where(right > left, share, 0.0)
    blended = np.logaddexp(value[at - 1] + np.log1p(-share), value[at] + np.log(share))
    return np.where(inside, blended, np.nan)


def read_lattice_profile(pair: LatticePair, epsilon: FloatArray) -> Readings:
    """ln delta at finite epsilons within the thresholds of both lines; unknown elsewhere."""
    result = Readings(np.full((1, len(epsilon)), -np.inf), np.zeros((1, len(epsilon))))
    with np.errstate(all="ignore"):
        low, high = pair.low_lower, pair.high_upper
        if pair.theta > 1:
            lower = _between(low.c, low.profile, epsilon) - pair.lower_slack.profile
            upper = _between(high.c, high.profile, epsilon) + pair.upper_slack.profile
            upper = np.logaddexp(upper, pair.upper_slack.log_infinite)
        elif pair.theta > 0:
            bottom, top = pair.low_upper, pair.high_lower
            smaller = _between(bottom.c, bottom.middle, epsilon) - pair.upper_slack.middle - _LOG_ROUNDING
            larger = _between(top.c, top.middle, epsilon) + pair.lower_slack.middle + _LOG_ROUNDING
            lower, upper = complement(np.minimum(smaller, 0.0), np.minimum(larger, 0.0))
        else:
            base = -np.expm1(np.minimum(epsilon, 700.0))
            low_left = np.exp(_between(low.c, low.left, epsilon) - pair.lower_slack.left)
            high_left = _between(high.c, high.left, epsilon) + pair.upper_slack.left
            high_left = np.exp(np.logaddexp(high_left, epsilon + pair.upper_slack.log_vanishing))
            lower = np.log(np.maximum(base + low_left - 1e-14 * (np.abs(base) + low_left), 0.0))
            upper = np.log(base + high_left + 1e-14 * (np.abs(base) + high_left))
        known = np.isfinite(lower) | (lower == -np.inf)
        result.lower[0] = np.where(known, lower - _LOG_ROUNDING, -np.inf)
        result.upper[0] = np.where(np.isnan(upper), 0.0, np.minimum(upper + _LOG_ROUNDING, 0.0))
    return result


def solve_lattice_profile(pair: LatticePair, log_delta: float) -> tuple[float, float]:
    """Enclosure of the smallest eps with delta(eps) <= delta: -inf and inf where it is not within the thresholds read."""
    ends: list[float] = []
    for upper in (False, True):
        grid = np.concatenate([pair.lower.thresholds, pair.upper.thresholds])
        grid = np.sort(grid[grid >= 0])
        for _ in range(_SECTION_ROUNDS):
            read = read_lattice_profile(pair, grid) if len(grid) else None
            small = None if read is None else (read.upper[0] <= log_delta if upper else read.lower[0] <= log_delta)
            if small is None or small.all() or not small[-1]:
                break
            # The profile falls, its enclosures need not: the last place that is not small.
            at = len(small) - 1 - int(np.argmin(small[::-1]))
            if upper:
                ends_here = float(grid[at + 1])
            else:
                ends_here = float(grid[at])
            low, high = float(grid[at]), float(grid[at + 1])
            grid = np.linspace(low, high, _SECTIONS)
            found = ends_here
        else:
            ends.append(found)
            continue
        ends.append(math.inf if upper else -math.inf)
    return ends[0], ends[1]


def _between(c: FloatArray, log_values: FloatArray, epsilon: FloatArray) -> FloatArray:
    """ln of a function that is linear in e^c between neighbouring thresholds; NaN outside them."""
    at = np.clip(np.searchsorted(c, epsilon), 1, len(c) - 1)
    left, right = c[at - 1], c[at]
    inside = (epsilon >= left) & (epsilon <= right)
    share = np.clip(np.expm1(epsilon - left) / np.expm1(right - left), 0.0, 1.0)
    blended = np.logaddexp(log_values[at - 1] + np.log1p(-share), log_values[at] + np.log(share))
    return np.where(inside, blended, np.nan)


def run_slack(laws: list[tuple[float, float, float, float, float, int]]) -> Slack:
    """From (profile slack, left slack, middle slack, infinite, vanishing, count) of every step."""
    profile = math.fsum(count * s for s, _, _, _, _, count in laws)
    left = math.fsum(count * s for _, s, _, _, _, count in laws)
    middle = math.fsum(count * s for _, _, s, _, _, count in laws)
    return Slack(
        profile * (1 + 1e-12),
        left * (1 + 1e-12),
        middle * (1 + 1e-12),
        _log_some([(infinite, count) for *_, infinite, _, count in laws], profile),
        _log_some([(vanishing, count) for *_, vanishing, count in laws], left),
    )


def _log_some(masses: list[tuple[float, int]], slack: float) -> float:
    """ln of the chance that some step has such a mass, 1 - prod (1 - q)^N, rounded up."""
    none = math.fsum(count * (math.log1p(-mass) if mass < 1 else -math.inf) for mass, count in masses)
    some = -math.expm1(none)
    return math.log(some) + slack + 1e-13 if some > 0 else -math.inf
