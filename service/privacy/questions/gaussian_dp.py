"""Gaussian differential privacy as a summary: the mu of the Gaussian curve that lies below a given one.

At a point (alpha, beta) of the curve mu(alpha) = Phi^-1(power) + u, u = -Phi^-1(alpha), and the answer is its supremum
over the part of the curve where alpha >= a_min and beta >= b_min. With c the log slope there and q = Phi^-1(power),

    d mu / d u = 1 - e^c phi(u)/phi(q) = 1 - exp(c + (q^2 - u^2)/2).

Branch and bound over cells of alpha: slopes fall and q rises along a cell, so the derivative is enclosed over it from
its two ends, and mu is below the two lines drawn from them. Cells that may hold more than the best point are cut, until
the bound is close or the work is spent: the bound stays valid. Where alpha > 1/2 the inverse curve is read instead,
where mu is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from service.privacy.enclosure import Bounds, Enclosure, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.gdp_tangents import STRONGEST, tangent_bounds
from service.privacy.questions.normal_points import SMALLEST_RATE, normal_points
from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from service.privacy.trade_off.enclosed.ulps import LOG_QUANTILE_ERROR
from service.privacy.trade_off.kept import Kept

SOURCE = "Dong, Roth, Su 2022, Definition 2.6; smallest mu over the stated range"
FIRST_CELLS = 48
CUTS = 8
MOST_POINTS = 4000
CLOSE = 1e-10
NOTHING_IN_RANGE = (
    "No point of the curve has both rates this large: mu over that range is 0 because it is empty, not because nothing "
    "is revealed. See global_mu."
)


@dataclass(frozen=True, slots=True)
class GdpReading(Reading):
    """`value`: mu over the range asked for. `global_mu`: mu over the whole curve."""

    global_mu: Enclosure = field(kw_only=True)


def mu(curve: AbstractTradeOff, false_positive_rate_min: float, type_two_error_min: float) -> GdpReading:
    """Smallest mu >= 0 with f >= g_mu wherever alpha >= false_positive_rate_min and f(alpha) >= type_two_error_min
    (both in [0, 1]).
    """
    for name, value in (
        ("false_positive_rate_min", false_positive_rate_min),
        ("type_two_error_min", type_two_error_min),
    ):
        if not 0 <= value <= 1:
            raise OutOfDomain(name, value, "in [0, 1]")
    if isinstance(curve, Bracketed):
        return _between(curve, false_positive_rate_min, type_two_error_min)
    if isinstance(curve, Symmetrised) and curve.evidence.is_certain:
        both = _of_both(curve, false_positive_rate_min, type_two_error_min)
        if both is not None:
            return both
    if false_positive_rate_min == type_two_error_min == 0:
        whole = _global(curve)
        return GdpReading(whole, "upper", SOURCE, global_mu=whole)
    if curve.global_gdp_mu is None and _is_unbounded(curve):
        limit = curve.global_gdp_mu_limit
        ranged = over_range(curve, false_positive_rate_min, type_two_error_min, limit)
        whole = Enclosure(ranged.lower, limit, curve.evidence)
    else:
        whole = _global(curve)
        ranged = over_range(curve, false_positive_rate_min, type_two_error_min, whole.upper)
    notes = (NOTHING_IN_RANGE,) if ranged.upper == 0 < whole.lower else ()
    return GdpReading(ranged, "upper", SOURCE, notes, global_mu=whole)


def _of_both(curve: Symmetrised, rate_min: float, error_min: float) -> GdpReading | None:
    """mu of the hull of a curve f and its inverse; None where its range may be empty.

    The hull consists of pieces of both and of lines, along which mu has no inner maximum (`gdp_tangents.py`): over its
    range mu is the largest of those of f, of its inverse, and of the hull's points at both ends, none of which exceeds
    it: where the range of f goes on beyond that of the hull, the hull has reached error_min at a smaller rate.
    """
    if not SMALLEST_RATE <= min(rate_min, error_min) <= max(rate_min, error_min) < 1:
        return None
    first = Kept(curve.first, curve.second)
    hull, firsts = Symmetrised(first, first.reversed()), np.array(list(dict.fromkeys((rate_min, error_min))))
    powers = [hull.power_at(each) for each in firsts.tolist()]
    lower, upper = (np.array([getattr(each, end) for each in powers]) for end in ("lower", "upper"))
    if upper.max() >= STRONGEST or 1 - upper[0] <= error_min:
        return None
    rest = Bounds(1 - upper - UNIT_ROUNDOFF, 1 - lower + UNIT_ROUNDOFF)
    at_ends = normal_points(firsts, Bounds(lower, upper), rest).mu
    directions = (first,) if rate_min == error_min else (first, first.reversed())
    found = [mu(each, rate_min, error_min) for each in directions]
    lower = max(*(each.value.lower for each in found), float(at_ends.lower.max()), 0.0)
    upper = max(*(each.value.upper for each in found), float(at_ends.upper.max()), 0.0)
    whole = found[0].global_mu  # g_mu is below f exactly when it is below its inverse
    value = Enclosure(lower, max(min(upper, whole.upper), lower), curve.evidence)
    return GdpReading(value, "upper", SOURCE, (), global_mu=whole)


def _between(curve: Bracketed, rate_min: float, error_min: float) -> GdpReading:
    """mu of a curve f known from two sides, by the mu of each side.

    Over the whole curve mu rises with the power. Over a range it does where the range of the easier side g is not
    empty: g reaches error_min at a smaller rate than f, with a mu that is at least that of f from there on. If it may
    be empty, so may that of f, and no point of any range has more than Phi^-1(1 - error_min) - Phi^-1(rate_min).
    """
    least, most = (mu(side, rate_min, error_min) for side in (curve.attained, curve.dominating))
    whole = Enclosure(least.global_mu.lower, most.global_mu.upper, curve.evidence)
    start = max(rate_min, SMALLEST_RATE)
    if float(curve.dominating.type_two_error(np.array([start])).lower[0]) >= error_min:
        ranged = Enclosure(least.value.lower, most.value.upper, curve.evidence)
    else:
        corner = -float(special.ndtri(max(error_min, SMALLEST_RATE))) - float(special.ndtri(start))
        ranged = Enclosure(0.0, min(max(corner * (1 + CLOSE), 0.0), whole.upper), curve.evidence)
    return GdpReading(ranged, "upper", SOURCE, most.notes, global_mu=whole)


def _global(curve: AbstractTradeOff) -> Enclosure:
    known = curve.global_gdp_mu
    if known is not None:
        return known
    limit, strongest = curve.global_gdp_mu_limit, _strongest(curve)
    if _is_unbounded(curve):
        return Enclosure(over_range(curve, 1e-12, 1e-12, limit).lower, limit, curve.evidence)
    # Every curve with |L| <= eps lies above that of eps-DP.
    cap = min(ApproximateDpTradeOff(strongest, 0.0).global_gdp_mu.upper, limit)
    # Below a rate a the power is at most e^L alpha, and Phi^-1(e^L alpha) - Phi^-1(alpha) rises with alpha: both ends
    # of the curve are bounded by what they reach at a.
    edge = max(1e-9 * math.exp(-strongest), SMALLEST_RATE)
    inner = over_range(curve, edge, edge, cap)
    return Enclosure(inner.lower, min(max(inner.upper, _end_bound(strongest, edge)), cap), curve.evidence)


def _strongest(curve: AbstractTradeOff) -> float:
    return max(curve.largest_log_ratio.upper, -curve.smallest_log_ratio.lower)


def _is_unbounded(curve: AbstractTradeOff) -> bool:
    """Whether nothing but its own limit bounds mu over the whole curve."""
    return math.isinf(_strongest(curve)) or curve.singular_power.upper > 0


def _end_bound(log_ratio: float, edge: float) -> float:
    log_power = log_ratio + math.log(edge)
    if log_power >= 0:
        return math.inf
    x = float(special.ndtri(edge))
    return float(special.ndtri_exp(log_power)) - x + 3 * LOG_QUANTILE_ERROR * abs(x)


def over_range(curve: AbstractTradeOff, rate_min: float, error_min: float, limit: float) -> Enclosure:
    """The supremum over the range; `limit` is known to bound it."""
    searched = curve.searches_points and curve.evidence.is_certain
    if (searched or curve.evidence is Evidence.CERTIFIED) and min(rate_min, error_min) >= SMALLEST_RATE:
        ends = tangent_bounds(curve, rate_min, error_min, limit)
        if ends is not None:
            return Enclosure(*ends, curve.evidence)
    inverse = curve.reversed()
    start, end = max(rate_min, SMALLEST_RATE), max(error_min, SMALLEST_RATE)
    # f falls: the range ends where f = error_min. Its outer end bounds from above, its inner end may be claimed from
    # below.
    last, middle, at_start = (
        read.type_two_error(np.array([rate])) for read, rate in ((inverse, end), (curve, 0.5), (curve, start))
    )
    if float(last.upper[0]) < rate_min or max(rate_min, error_min) == 1:
        return Enclosure.point(0.0)
    halves = (
        _Half(curve, start, min(0.5, float(last.upper[0])), float(last.lower[0])),
        _Half(
            inverse,
            end,
            min(float(middle.upper[0]), float(at_start.upper[0])),
            min(float(middle.lower[0]), float(at_start.lower[0])),
        ),
    )
    search = _Search(limit)
    for half in halves:
        if half.first <= half.last:
            search.run(half)
    cut_short = min(rate_min, error_min) < SMALLEST_RATE
    upper = limit if cut_short else min(max(search.settled, search.best), limit)
    return Enclosure(min(search.best, upper), upper, curve.evidence)


@dataclass(frozen=True, slots=True)
class _Half:
    """A curve read from rate `first` to `last`; rates up to `inner` surely belong to the range."""

    curve: AbstractTradeOff
    first: float
    last: float
    inner: float


@dataclass(frozen=True, slots=True)
class _Read:
    """Points of a half: u = -Phi^-1(alpha), q = Phi^-1(power), mu = q + u, log slope; any shape."""

    u: Bounds
    q: Bounds
    mu: Bounds
    slope: Bounds


class _Search:
    """The best point so far (`best`), and the largest bound of the cells given up on (`settled`)."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.best = 0.0
        self.settled = 0.0

    def run(self, half: _Half) -> None:
        """Branch and bound: every row of `rates` holds the ends of neighbouring cells."""
        ends = special.ndtri(np.array([half.first, half.last]))
        grid: FloatArray = np.linspace(float(ends[0]), float(ends[1]), FIRST_CELLS + 1)
        rates: FloatArray = special.ndtr(grid)[np.newaxis, :]
        rates = np.maximum.accumulate(np.clip(rates, half.first, half.last), axis=1)
        rates[0, 0], rates[0, -1] = half.first, half.last
        work = 0
        while True:
            work += rates.size
            read = self._read(half, rates)
            bound = _cell_bounds(read)
            # What the upper ends at a cell's own ends already are, no cut can take away.
            known = np.maximum(np.maximum(read.mu.upper[:, :-1], read.mu.upper[:, 1:]), self.best)
            left, right = rates[:, :-1], rates[:, 1:]
            worth = (bound > known + CLOSE * self.best) & (right > left * (1 + 64 * UNIT_ROUNDOFF))
            if work > MOST_POINTS or self.best >= self.limit * (1 - CLOSE):
                worth = np.zeros_like(worth)
            self.settled = max([self.settled, *bound[~worth].tolist()])
            if not worth.any():
                return
            rates = _cut(left[worth], right[worth])

    def _read(self, half: _Half, rates: FloatArray) -> _Read:
        flat = rates.ravel()
        points = half.curve.points(flat)
        normal = normal_points(flat, points.power, points.type_two_error)
        inside = flat <= half.inner
        if inside.any():
            self.best = max(self.best, float(normal.mu.lower[inside].max()))
        shaped = (_reshaped(part, rates.shape) for part in (normal.u, normal.q, normal.mu, points.log_slope))
        return _Read(*shaped)


def _cut(left: FloatArray, right: FloatArray) -> FloatArray:
    """Rows of CUTS + 1 rates from left to right, equally spaced in Phi^-1."""
    share = np.linspace(0.0, 1.0, CUTS + 1)
    low, high = special.ndtri(left)[:, np.newaxis], special.ndtri(right)[:, np.newaxis]
    rates = special.ndtr(low + share * (high - low))
    rates[:, 0], rates[:, -1] = left, right
    return np.maximum.accumulate(np.clip(rates, left[:, np.newaxis], right[:, np.newaxis]), axis=1)


def _cell_bounds(read: _Read) -> FloatArray:
    """An upper bound of mu over each cell between neighbours of a row (rates rise, so u and the slope fall and q
    rises).
    """
    left, right = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
    q_low, q_high = read.q.lower[left], read.q.upper[right]
    u_low, u_high = read.u.lower[right], read.u.upper[left]
    q_squares, u_squares = _squares(q_low, q_high), _squares(u_low, u_high)
    slack = 16 * UNIT_ROUNDOFF * (1 + q_squares[1] + u_squares[1])
    steepest = read.slope.upper[left] + 0.5 * (q_squares[1] - u_squares[0]) + slack
    flattest = read.slope.lower[right] + 0.5 * (q_squares[0] - u_squares[1]) - slack
    # Derivative of mu in u, enclosed over the cell; e^700 stands for anything steeper.
    falling = np.expm1(np.minimum(steepest, 700.0)) * (1 + 1e-14)
    rising = -np.expm1(np.minimum(flattest, 700.0)) * (1 + 1e-14)
    at_low, at_high = read.mu.upper[right], read.mu.upper[left]
    width = u_high - u_low
    falling, rising = np.maximum(falling, 0.0), np.maximum(rising, 0.0)
    # Lines at_low + rising s and at_high + falling (width - s) meet at the largest value that the enclosure allows.
    total = falling + rising
    meet = (at_high - at_low + falling * width) / np.where(total > 0, total, 1.0)
    peak = at_low + rising * np.clip(meet, 0.0, width)
    largest = np.maximum(np.maximum(at_low, at_high), np.where(total > 0, peak, at_low))
    return largest + 8 * UNIT_ROUNDOFF * (np.abs(largest) + rising * width)


def _squares(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest square on [low, high]."""
    nearest = np.maximum(np.maximum(low, -high), 0.0)
    farthest = np.maximum(np.abs(low), np.abs(high))
    return nearest * nearest, np.minimum(farthest, 1e150) ** 2


def _reshaped(bounds: Bounds, shape: tuple[int, ...]) -> Bounds:
    return Bounds(bounds.lower.reshape(shape), bounds.upper.reshape(shape))
