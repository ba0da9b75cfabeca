"""Gaussian differential privacy over a range of a curve, computed from points of the curve.

At a point (alpha, beta) of the curve mu(alpha) = Phi^-1(power) + u with u = -Phi^-1(alpha). The answer is the supremum
of mu over the part of the curve where alpha >= a_min and beta >= b_min. With c the log slope at the point and q =
Phi^-1(power),

    d mu / d u = 1 - e^c phi(u)/phi(q) = 1 - exp(c + (q^2 - u^2)/2).

The search is branch and bound over cells of alpha. Slopes fall and q rises along a cell, so the values at both
endpoints enclose the derivative over the cell, and mu is below the two lines drawn from the endpoints. Cells that may
exceed the best point are split until the bound is close or the work limit is reached; the bound stays valid in both
cases. Where alpha > 1/2 the search uses the inverse curve, which has the same mu.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.questions.normal_points import CLOSE, normal_points
from service.privacy.trade_off.abstract import AbstractTradeOff

FIRST_CELLS: Final = 48
PIECES: Final = 8
MOST_POINTS: Final = 4000


@dataclass(frozen=True, slots=True)
class Half:
    """One of two parts of a trade-off curve, with the false positive rates from `first` to `last`.

    Rates up to `inner` are proved to belong to the range over which mu is computed. Rates above it may be outside.
    """

    curve: AbstractTradeOff
    first: float
    last: float
    inner: float


@dataclass(frozen=True, slots=True)
class _Read:
    """Points of a part of a curve in normal quantiles, with the log slope; arrays of one shape.

    u = -Phi^-1(alpha), q = Phi^-1(power), and mu = q + u.
    """

    u: EnclosureArray
    q: EnclosureArray
    mu: EnclosureArray
    slope: EnclosureArray


class CellSearch:
    """Branch and bound for the largest mu of Gaussian DP over cells of false positive rates.

    mu = Phi^-1(power) - Phi^-1(rate) is a function of the points of a curve, and the search encloses its supremum over
    parts of the curve. A cell is an interval of false positive rates.

    Attributes
    ----------
    limit : float
        A known upper bound of mu, at which the search may stop.
    best : float
        Lower bound of the answer: the largest proved mu of an evaluated point of the curve.
    settled : float
        Upper bound of mu over all cells that are not split further.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.best = 0.0
        self.settled = 0.0

    def run(self, half: Half) -> None:
        """Search the part `half` of the curve for a larger mu, and update `best` and `settled`.

        mu is Phi^-1(power) - Phi^-1(rate) at a point. `best` is the largest mu that a point proves, and `settled` the
        largest upper bound of the finished cells, which are intervals between neighbouring points.
        """
        ends = special.ndtri(np.array([half.first, half.last]))
        grid: FloatArray = np.linspace(float(ends[0]), float(ends[1]), FIRST_CELLS + 1)
        rates: FloatArray = special.ndtr(grid)[np.newaxis, :]
        rates = np.maximum.accumulate(np.clip(rates, half.first, half.last), axis=1)
        rates[0, 0], rates[0, -1] = half.first, half.last
        work, known_bounds = 0, np.full((1, 1), self.limit)
        while True:
            work += rates.size
            read = self._read(half, rates)
            # The bound of the parent cell holds too, and may be smaller.
            bound = np.minimum(_cell_bounds(read), known_bounds)
            # No split brings the bound of a cell below the upper bounds at its endpoints.
            known = np.maximum(np.maximum(read.mu.upper[:, :-1], read.mu.upper[:, 1:]), self.best)
            left, right = rates[:, :-1], rates[:, 1:]
            worth = (bound > known + CLOSE * self.best) & (right > left * (1 + 64 * UNIT_ROUNDOFF))
            if work > MOST_POINTS or is_spent() or self.best >= self.limit * (1 - CLOSE):
                worth = np.zeros_like(worth)
            self.settled = max([self.settled, *bound[~worth].tolist()])
            if not worth.any():
                return
            rates, known_bounds = _split(left[worth], right[worth]), bound[worth][:, np.newaxis]

    def _read(self, half: Half, rates: FloatArray) -> _Read:
        flat = rates.ravel()
        points = half.curve.points(flat)
        normal = normal_points(flat, points.power, points.type_two_error)
        inside = flat <= half.inner
        if inside.any():
            self.best = max(self.best, float(normal.mu.lower[inside].max()))
        shaped = (_reshaped(part, rates.shape) for part in (normal.u, normal.q, normal.mu, points.log_slope))
        return _Read(*shaped)


def _split(left: FloatArray, right: FloatArray) -> FloatArray:
    """Split each interval from `left` to `right` of false positive rates into PIECES, equally long in normal quantiles.

    The result has the shape (intervals, PIECES + 1): the endpoints of the pieces of each interval.
    """
    share = np.linspace(0.0, 1.0, PIECES + 1)
    low, high = special.ndtri(left)[:, np.newaxis], special.ndtri(right)[:, np.newaxis]
    rates = special.ndtr(low + share * (high - low))
    rates[:, 0], rates[:, -1] = left, right
    return np.maximum.accumulate(np.clip(rates, left[:, np.newaxis], right[:, np.newaxis]), axis=1)


def _cell_bounds(read: _Read) -> FloatArray:
    """Return upper bounds of mu over each cell, the interval between neighbouring points of a row; shape (rows, cells).

    Along a row the rates and q = Phi^-1(power) rise, while u = -Phi^-1(alpha) and the slope fall.

    mu is Phi^-1(power) - Phi^-1(rate) at a point.
    """
    left, right = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
    q_low, q_high = read.q.lower[left], read.q.upper[right]
    u_low, u_high = read.u.lower[right], read.u.upper[left]
    q_squares, u_squares = _squares(q_low, q_high), _squares(u_low, u_high)
    slack = 16 * UNIT_ROUNDOFF * (1 + q_squares[1] + u_squares[1])
    steepest = read.slope.upper[left] + 0.5 * (q_squares[1] - u_squares[0]) + slack
    flattest = read.slope.lower[right] + 0.5 * (q_squares[0] - u_squares[1]) - slack
    # Bounds of the derivative of mu in u over the cell; e^700 stands for every larger value.
    falling = np.expm1(np.minimum(steepest, 700.0)) * (1 + 1e-14)
    rising = -np.expm1(np.minimum(flattest, 700.0)) * (1 + 1e-14)
    at_low, at_high = read.mu.upper[right], read.mu.upper[left]
    width = u_high - u_low
    falling, rising = np.maximum(falling, 0.0), np.maximum(rising, 0.0)
    # The lines at_low + rising s and at_high + falling (width - s) meet at the largest value that the bounds allow.
    total = falling + rising
    meet = (at_high - at_low + falling * width) / np.where(total > 0, total, 1.0)
    peak = at_low + rising * np.clip(meet, 0.0, width)
    largest = np.maximum(np.maximum(at_low, at_high), np.where(total > 0, peak, at_low))
    return largest + 8 * UNIT_ROUNDOFF * (np.abs(largest) + rising * width)


def _squares(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest value of x^2 for x between `low` and `high`."""
    nearest = np.maximum(np.maximum(low, -high), 0.0)
    farthest = np.maximum(np.abs(low), np.abs(high))
    return nearest * nearest, np.minimum(farthest, 1e150) ** 2


def _reshaped(bounds: EnclosureArray, shape: tuple[int, ...]) -> EnclosureArray:
    return EnclosureArray(bounds.lower.reshape(shape), bounds.upper.reshape(shape))
