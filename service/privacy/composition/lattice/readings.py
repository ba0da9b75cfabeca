"""Bounds of points of the curve and of the profile from two lattice laws, composed at one tilt.

X is the likelihood ratio of the run under H0, and c a threshold of its loss ln X. Under H0 let D(c) = E(X - e^c)_+ be
the profile, G(c) = E(e^c - X)_+ and H(c) = E min(X, e^c). The best test at the false positive rate alpha has the power
and the type II error beta:

    power(alpha) = min_c D(c) + e^c alpha;
    beta(alpha) = max_c H(c) - e^c alpha = max_c e^c (1 - alpha) - G(c).

The law `upper` bounds D and G from above and H from below at every c, so any c gives a bound. `lower` does the reverse.
It is itself the law of a test, and its vertices (alpha(c), power(c)) are attained. Between vertices the curve of
`lower` is a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from service.privacy.composition.inversion.readings.enclosures import Readings, nothing_known
from service.privacy.composition.inversion.readings.logs import complement
from service.privacy.composition.lattice.sums import EXPONENT_ROUNDING, LOG_ROUNDING, LatticePair
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.roots import sectioned

_SECTION_ROUNDS = 8
"""Most rounds of the search for a level of the profile."""
_CLOSE = 1e-12
"""Relative distance of points at which the search stops."""


def read_lattice_points(pair: LatticePair, alpha: FloatArray) -> Readings:
    """Compute bounds of ln power, ln type II error and ln slope at false positive rates strictly between 0 and 1.

    `pair` has the upper and the lower law of the run on a lattice. The bounds of the slope are infinite. Each row of
    the result has the shape of `alpha`.
    """
    with np.errstate(all="ignore"):
        if pair.theta > 1:
            log_alpha = np.log(alpha)
            upper = np.minimum(_least_power(pair, log_alpha), 0.0)
            lower = _vertices(pair.high_lower.alpha, pair.low_lower.power, _rounded(log_alpha, -1), rising=True)
            lower = np.logaddexp(lower - pair.lower_slack.profile, pair.lower_slack.log_infinite) - LOG_ROUNDING
            return _with_complement(lower, upper, power_first=True)
        log_rate = np.log(alpha) if pair.theta > 0 else np.log1p(-alpha)
        lower = _largest_beta(pair, log_rate)
        if pair.theta > 0:
            slack = pair.lower_slack.middle
            upper = _vertices(pair.high_lower.alpha, pair.high_lower.beta, _rounded(log_rate, -1) - slack, rising=False)
            upper = upper + slack
        else:
            slack = pair.lower_slack.left
            rest = np.logaddexp(pair.low_lower.rest, pair.lower_slack.log_vanishing)
            upper = _vertices(rest, pair.high_lower.beta, _rounded(log_rate, 1) + slack, rising=True)
        return _with_complement(lower, np.minimum(upper + LOG_ROUNDING, 0.0), power_first=False)


def _rounded(logarithms: FloatArray, sign: int) -> FloatArray:
    """Return the logarithms moved by their possible rounding error, upwards (`sign` 1) or downwards (-1).

    The result has the shape of `logarithms`.
    """
    return logarithms + sign * EXPONENT_ROUNDING * (1 + np.abs(logarithms))


def _with_complement(lower: FloatArray, upper: FloatArray, *, power_first: bool) -> Readings:
    result = nothing_known(len(lower))
    lower, upper = np.fmax(lower, -np.inf), np.where(np.isnan(upper), 0.0, upper)
    other_lower, other_upper = complement(np.minimum(lower, 0.0), np.minimum(upper, 0.0))
    first, second = (0, 1) if power_first else (1, 0)
    result.lower[first], result.upper[first] = lower, upper
    result.lower[second], result.upper[second] = other_lower, other_upper
    return result


def _nearest(thresholds: FloatArray, log_rates: FloatArray, wanted: FloatArray, *, falling: bool) -> IndexArray:
    """Return the indices of three neighbouring thresholds around each ln rate in `wanted`, shape (3, rates).

    `log_rates` are ln of the rates at the thresholds. `falling` is whether they decrease.
    """
    order = -log_rates if falling else log_rates
    at = np.searchsorted(np.maximum.accumulate(np.nan_to_num(order)), -wanted if falling else wanted)
    return np.clip(at + np.arange(-1, 2)[:, None], 0, len(thresholds) - 1)


def _least_power(pair: LatticePair, log_alpha: FloatArray) -> FloatArray:
    side = pair.high_upper
    at = _nearest(side.c, side.alpha, log_alpha, falling=True)
    tangents = np.logaddexp(side.profile[at] + pair.upper_slack.profile, side.c[at] + log_alpha)
    whole = np.logaddexp(tangents, pair.upper_slack.log_infinite).min(axis=0)
    return whole + LOG_ROUNDING + EXPONENT_ROUNDING * (np.abs(log_alpha) + np.abs(side.c[at]).max(axis=0))


def _largest_beta(pair: LatticePair, log_rate: FloatArray) -> FloatArray:
    """Return a lower bound of ln of the type II error at the rates alpha, the largest over three thresholds.

    `log_rate` is ln alpha for a tilt theta > 0, and the bound H(c) - e^c alpha. Otherwise it is ln(1 - alpha), and the
    bound e^c (1 - alpha) - G(c). H(c) = E min(X, e^c) and G(c) = E(e^c - X)_+ for the likelihood ratio X and the
    threshold c of the loss. `pair` has the upper and the lower law of the run.
    """
    if pair.theta > 0:
        side = pair.low_upper
        at = _nearest(side.c, side.alpha, log_rate, falling=True)
        first, second = side.middle[at] - pair.upper_slack.middle, side.c[at] + log_rate
    else:
        side = pair.high_upper
        at = _nearest(side.c, side.rest, log_rate, falling=False)
        first = side.c[at] + log_rate
        second = np.logaddexp(side.left[at] + pair.upper_slack.left, side.c[at] + pair.upper_slack.log_vanishing)
    slack = LOG_ROUNDING + 2 * EXPONENT_ROUNDING * (np.abs(first) + np.abs(second))
    gap = np.minimum(second + slack - (first - slack), 0.0)
    return np.fmax.reduce(first - slack + np.log(-np.expm1(gap)), axis=0)


def _vertices(log_rate: FloatArray, log_value: FloatArray, wanted: FloatArray, *, rising: bool) -> FloatArray:
    """Return ln of the straight line between neighbouring vertices of a curve at each `wanted` ln rate; NaN outside.

    A vertex has the rate e^log_rate and the value e^log_value. `rising` tells whether the value increases with the
    rate. Every vertex is a valid bound of the curve, and so is a vertex with the value of its left neighbour, where
    this value replaces its own to make the vertices monotone. The result has the shape of `wanted`.
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


LEAST_PROFILE = -690.0
"""Smallest upper bound of ln delta. Below it, masses of the laws may have underflowed."""


def read_lattice_profile(pair: LatticePair, epsilon: FloatArray) -> Readings:
    """Compute bounds of ln of the privacy profile at finite epsilons (nats), from both laws `pair` of a run.

    The laws are those on a lattice of losses. The result is one row of the shape of `epsilon`. Outside the thresholds
    of the laws a bound may be trivial (0 or 1, as logarithms).
    """
    with np.errstate(all="ignore"):
        if pair.theta > 1:
            lower, upper = _profile_right(pair, epsilon)
        elif pair.theta > 0:
            lower, upper = _profile_middle(pair, epsilon)
        else:
            lower, upper = _profile_left(pair, epsilon)
        lower = np.fmax(lower - LOG_ROUNDING, -np.inf)
        upper = np.where(np.isnan(upper), 0.0, np.minimum(upper + LOG_ROUNDING, 0.0))
        upper = np.maximum(upper, LEAST_PROFILE)
    return Readings(lower[None], upper[None])


def _safe_shifts(pair: LatticePair, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return distances (nats) by which thresholds are moved to keep bounds valid, in the shape of `epsilon` each.

    The first array is for readings of the upper law of `pair`, and covers rounding. The second array is for the lower
    law, and also covers the error of its losses. A threshold is moved towards the side where the bound is weaker.
    """
    rounding = 2 * EXPONENT_ROUNDING * (np.abs(epsilon) + abs(float(pair.upper.thresholds[0])) + pair.upper.step)
    rounding = rounding + max(pair.upper.blur, pair.lower.blur)
    return rounding, rounding + pair.lower_slack.shift


def _profile_right(pair: LatticePair, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of ln delta at `epsilon` (nats) from D(c) = E(X - e^c)_+, which decreases in c.

    X is the likelihood ratio of the run under H0. The sums over large losses serve large epsilons. `pair` has the upper
    and the lower law of the run. Both arrays have the shape of `epsilon`.
    """
    low, high, (rounding, shift) = pair.low_lower, pair.high_upper, _safe_shifts(pair, epsilon)
    lower = (
        _evaluate_lower(pair, low.profile, lambda: low.alpha, epsilon + shift, rising=False) - pair.lower_slack.profile
    )
    # D decreases: beyond the last threshold it is at most its value there.
    upper = _interpolate(high.c, high.profile, np.minimum(epsilon - rounding, high.c[-1])) + pair.upper_slack.profile
    return np.logaddexp(lower, pair.lower_slack.log_infinite), np.logaddexp(upper, pair.upper_slack.log_infinite)


def _profile_middle(pair: LatticePair, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of ln delta at `epsilon` (nats) from H(c) = E min(X, e^c) = 1 - delta.

    H increases with c. X is the likelihood ratio of the run under H0. `pair` has the upper and the lower law of the
    run. Both arrays have the shape of `epsilon`.
    """
    low, high, (rounding, shift) = pair.low_upper, pair.high_lower, _safe_shifts(pair, epsilon)
    smaller = _interpolate(low.c, low.middle, epsilon - rounding) - pair.upper_slack.middle - LOG_ROUNDING
    larger = _evaluate_lower(pair, high.middle, lambda: high.alpha, epsilon + shift, rising=True)
    larger = larger + pair.lower_slack.middle + LOG_ROUNDING
    return complement(np.minimum(smaller, 0.0), np.minimum(larger, 0.0))


def _profile_left(pair: LatticePair, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of ln delta = ln(1 - e^eps + G) from G(c) = E(e^c - X)_+, which increases in c.

    X is the likelihood ratio of the run under H0. The sums over small losses serve small epsilons. `pair` has the upper
    and the lower law of the run. Both arrays have the shape of `epsilon`.
    """
    low, high, (rounding, shift) = pair.low_lower, pair.high_upper, _safe_shifts(pair, epsilon)
    lower = _evaluate_lower(pair, low.left, lambda: low.rest, epsilon - shift, rising=True) - pair.lower_slack.left
    upper = _interpolate(high.c, high.left, epsilon + rounding) + pair.upper_slack.left
    lower = np.exp(np.logaddexp(lower, epsilon - shift + pair.lower_slack.log_vanishing))
    upper = np.exp(np.logaddexp(upper, epsilon + rounding + pair.upper_slack.log_vanishing))
    base = -np.expm1(np.minimum(epsilon, 700.0))
    lower = np.log(np.maximum(base + lower - LOG_ROUNDING * (np.abs(base) + lower), 0.0))
    return lower, np.log(base + upper + LOG_ROUNDING * (np.abs(base) + upper))


def solve_lattice_profile(pair: LatticePair, log_delta: float) -> tuple[float, float]:
    """Compute `(lower, upper)`, bounds of the smallest eps >= 0 (nats) with delta(eps) <= e^log_delta.

    `pair` has the upper and the lower law of the run. A bound is -inf or inf if it is not within the thresholds. The
    profile delta decreases. If its lower bound is above the given delta, eps is larger. If its upper bound is not above
    it, eps is at most that point.
    """
    rounding = EXPONENT_ROUNDING * (1 + abs(log_delta))
    first, last = ([float(lattice.thresholds[at]) for lattice in (pair.upper, pair.lower)] for at in (0, -1))
    low, high = max(0.0, *first), min(last)
    if not low < high:
        return -math.inf, math.inf

    def are_proved(points: FloatArray) -> BoolArray:
        """Return whether eps is provably above -x for x in row 0, and at most x in row 1 of `points`; shape (2, m)."""
        read, count = read_lattice_profile(pair, np.concatenate([-points[0], points[1]])), points.shape[1]
        above = read.lower[0, :count] > log_delta + rounding
        return np.stack([above, read.upper[0, count:] <= log_delta - rounding])

    ends = np.array([-high, low]), np.array([-low, high])
    least, most = sectioned(are_proved, *ends, _SECTION_ROUNDS, relative=_CLOSE)[1]
    return -float(least), float(most)


def _evaluate_lower(
    pair: LatticePair,
    log_values: FloatArray,
    log_slopes: Callable[[], FloatArray],
    epsilon: FloatArray,
    *,
    rising: bool,
) -> FloatArray:
    """Return ln of D, H or G of the law `pair.lower`, in the shape of `epsilon`; NaN beyond the thresholds.

    `pair.lower` is the law of the run that bounds the profile from below. D(c) = E(X - e^c)_+, H(c) = E min(X, e^c) and
    G(c) = E(e^c - X)_+ for its likelihood ratio X under H0. `log_values` are ln of the function at the thresholds, and
    `log_slopes` computes ln of its slopes there.

    For a law on nodes the functions are linear in e^c between thresholds, and only rounding errs. With losses between
    the nodes it is a bound, from the tangent in e^c at a threshold: a lower bound of D and G, and an upper bound of H.
    D uses the tangent at the next threshold on the right (`rising` false), H and G the tangent on the left.
    """
    c = pair.lower.thresholds
    if pair.lower.off_nodes is None:
        return _interpolate(c, log_values, epsilon)
    at = np.clip(np.searchsorted(c, epsilon), 1, len(c) - 1)
    inside = (epsilon >= c[at - 1]) & (epsilon <= c[at])
    at = at - rising
    distance = np.maximum(c[at], epsilon) + np.log(-np.expm1(-np.abs(epsilon - c[at])))
    return np.where(inside, np.logaddexp(log_values[at], log_slopes()[at] + distance), np.nan)


def _interpolate(c: FloatArray, log_values: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Return ln at `epsilon` of a function that is linear in e^c between thresholds c, in the shape of `epsilon`.

    `log_values` are ln of its values at the increasing thresholds. The result is NaN outside all thresholds.
    """
    at = np.clip(np.searchsorted(c, epsilon), 1, len(c) - 1)
    left, right = c[at - 1], c[at]
    inside = (epsilon >= left) & (epsilon <= right)
    share = np.clip(np.expm1(epsilon - left) / np.expm1(right - left), 0.0, 1.0)
    blended = np.logaddexp(log_values[at - 1] + np.log1p(-share), log_values[at] + np.log(share))
    return np.where(inside, blended, np.nan)
