"""Trade-off curves with finitely many corners: two laws with finitely many outcomes, or the best of a few tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import with_logs

SHORTEST: Final = 1e-6
"""Smallest distance of corners, relative to the smaller one of rate and complement. Nearer corners are dropped."""
SLOPES: Final = 1e-8
"""Smallest relative fall of the slope at a corner that is kept: ten times the rounding error of slopes."""
SLACK: Final = 16 * FUNCTION_ERROR
SHARE_ERROR: Final = 64 * UNIT_ROUNDOFF / SHORTEST
"""Error of a share of an edge: a quotient of differences of rates, each at least SHORTEST times the rates."""
LEAST: Final = 1e-290


@final
@dataclass(frozen=True)
class Corners:
    """Corners of a trade-off curve: false positive rates and powers of tests, ascending, from (0, 0) to (1, 1).

    Attributes
    ----------
    rate, rest : array, shape (n,)
        False positive rates and their complements.
    power, error : array, shape (n,)
        Powers and their complements.

    Notes
    -----
    A number up to 1/2 is exactly its double. A larger number is exactly 1 minus the double of its complement. Slopes
    fall.
    """

    rate: FloatArray
    rest: FloatArray
    power: FloatArray
    error: FloatArray

    @staticmethod
    def hull(rate: FloatArray, rest: FloatArray, power: FloatArray, error: FloatArray) -> Corners:
        """Return the tests, in the order of rising rates, that no mixture of the others beats by more than rounding.

        The arrays have the false positive rate of each test, 1 - rate, its power and its type II error.

        Omitting a test only weakens the attacker, so that the attacker attains the curve of the kept tests.
        """
        # Rates and errors below LEAST are raised to LEAST, which only weakens a test. The best of equal tests remains.
        rate, error = np.maximum(rate, LEAST), np.maximum(error, LEAST)
        clear, sure = rate == LEAST, error == LEAST
        usable = (power > rate) & (rest > LEAST) & (power > LEAST) & ~clear & ~sure
        usable[np.argmin(np.where(clear, error, np.inf))] |= clear.any()
        usable[np.argmin(np.where(sure, rate, np.inf))] |= sure.any() and not (clear & sure).any()
        columns = [
            np.concatenate(([first], column[usable], [last]))
            for column, first, last in ((rate, 0.0, 1.0), (rest, 1.0, 0.0), (power, 0.0, 1.0), (error, 1.0, 0.0))
        ]
        kept: list[int] = [0]
        last = len(columns[0]) - 1
        points = list(zip(*(column.tolist() for column in columns), strict=True))
        slopes: list[float] = []
        for index in range(1, last + 1):
            while True:
                before = points[kept[-1]]
                run = _step(before[0], before[1], points[index][0], points[index][1])
                rise = _step(before[2], before[3], points[index][2], points[index][3])
                short = run <= SHORTEST * _small(points[index][:2]) or rise <= SHORTEST * _small(points[index][2:])
                if index < last and short and len(kept) > 1:
                    break
                slope = math.log(rise) - math.log(run) if run > 0 and rise > 0 else -math.inf
                if not slopes or slope < slopes[-1] - SLOPES:
                    kept.append(index)
                    slopes.append(slope)
                    break
                kept.pop()
                slopes.pop()
        return Corners(*(column[kept] for column in columns))

    def swapped(self) -> Corners:
        """Return the corners of the inverse function, which belongs to the swapped hypotheses."""
        return Corners(self.error[::-1], self.power[::-1], self.rest[::-1], self.rate[::-1])


def _small(number: tuple[float, ...]) -> float:
    return min(number) or 1.0


def _step(first: float, first_rest: float, second: float, second_rest: float) -> float:
    """Return `second` - `first` for two numbers in [0, 1], without cancellation.

    `first_rest` and `second_rest` are their complements.
    """
    return first_rest - second_rest if first > 0.5 else second - first


@final
class PolygonTradeOff(AbstractTradeOff):
    """Trade-off curve of finitely many tests: the polygon through given corners.

    Notes
    -----
    delta(eps) = max_i power_i - e^eps rate_i and epsilon(delta) = max_i ln((power_i - delta)/rate_i). Points lie on
    edges. The error of delta is about a few u = 2^-53 times power_i, and that of epsilon a few u times power_i/(power_i
    - delta). A point has an error of 1e-7 of the length of its edge.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"

    def __init__(self, corners: Corners) -> None:
        self.corners = corners

    @cached_property
    def _runs(self) -> FloatArray:
        c = self.corners
        return np.where(c.rate[:-1] > 0.5, c.rest[:-1] - c.rest[1:], c.rate[1:] - c.rate[:-1])

    @cached_property
    def _rises(self) -> FloatArray:
        c = self.corners
        return np.where(c.power[:-1] > 0.5, c.error[:-1] - c.error[1:], c.power[1:] - c.power[:-1])

    @cached_property
    def slopes(self) -> FloatArray:
        """Natural logarithms of the slopes d power/d rate of the edges, in falling order.

        The absolute errors are at most SLOPES/8. A last edge that is lost in rounding has the slope minus infinity: it
        is flat.
        """
        known = (self._rises > 0) & (self._runs > 0)
        logs = np.log(np.where(known, self._rises, 1.0)) - np.log(np.where(known, self._runs, 1.0))
        return np.where(known, logs, -np.inf)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._slope(0)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self._slope(-1)

    def _slope(self, edge: int) -> Enclosure:
        value = float(self.slopes[edge])
        return Enclosure(value - SLOPES, value + SLOPES, self.evidence)

    @override
    def reversed(self) -> AbstractTradeOff:
        return PolygonTradeOff(self.corners.swapped())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        c, last = self.corners, len(self.slopes) - 1
        # Above rate 1/2 the complements of the corners are exact, their rates are not.
        left = np.searchsorted(c.rate, alpha, side="right")
        left = np.where(alpha > 0.5, np.searchsorted(-c.rest, alpha - 1, side="right"), left)
        edge = np.clip(left - 1, 0, last)
        beyond = np.where(c.rate[edge] > 0.5, c.rest[edge] - (1 - alpha), alpha - c.rate[edge])
        run = np.maximum(self._runs[edge], SMALLEST)  # no rate is inside an edge that is lost in rounding
        share = np.clip(beyond / run, 0.0, 1.0)
        low, high = np.maximum(share - SHARE_ERROR, 0.0), np.minimum(share + SHARE_ERROR, 1.0)
        power = [c.power[edge] * (1 - part) + c.power[edge + 1] * part for part in (low, high)]
        error = [c.error[edge] * (1 - part) + c.error[edge + 1] * part for part in (high, low)]
        near = (share <= SHARE_ERROR) | (share >= 1 - SHARE_ERROR)
        before, after = self.slopes[np.maximum(edge - 1, 0)], self.slopes[np.minimum(edge + 1, last)]
        here = self.slopes[edge]
        return CurvePoints(
            _outward(*error),
            _outward(*power),
            EnclosureArray(np.where(near, after, here) - SLOPES, np.where(near, before, here) + SLOPES),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        last = len(self.corners.rate) - 1
        place = np.searchsorted(-self.slopes, -epsilon)
        low, high = np.zeros_like(epsilon), np.zeros_like(epsilon)
        for aside in (-1, 0, 1):  # the error of slopes is less than their differences
            value, slack = self._delta(np.clip(place + aside, 0, last), epsilon)
            low, high = np.maximum(low, value - slack), np.maximum(high, value + slack)
        flat = epsilon >= self.largest_log_ratio.upper
        return with_logs(low, np.where(flat, 0.0, np.minimum(high, 1.0)))

    def _delta(self, corner: IndexArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return power - e^`epsilon` rate at the corners with the indices `corner`, and its absolute error bound."""
        c = self.corners
        rate, power = c.rate[corner], c.power[corner]
        with np.errstate(divide="ignore"):
            lost = np.exp(np.minimum(epsilon + np.log(rate), 1.0))
        slack = SLACK * (power + lost * (1 + np.abs(epsilon) + np.abs(np.log(np.maximum(rate, LEAST)))))
        # For eps < 0 and a rate near 1: (1 - e^eps) + e^eps rest - error.
        negative = np.minimum(epsilon, 0.0)
        other = -np.expm1(negative) + np.exp(negative) * c.rest[corner] - c.error[corner]
        left = (epsilon < 0) & (rate > 0.5)
        return np.where(left, other, power - lost), np.where(left, SLACK, slack + SMALLEST)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        c = self.corners
        some = np.flatnonzero(c.power[1:] > delta) + 1
        left = np.where(c.power[some] > 0.5, (1 - delta) - c.error[some], c.power[some] - delta)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # without digits of `left` the slack is inf
            slack = SLACK * (1 + c.power[some] / np.maximum(left, SMALLEST))
            value = np.log(np.maximum(left, 0.0)) - np.log(c.rate[some])
            slack = slack * (1 + np.abs(np.log(c.rate[some])))
            low, high = float(np.max(value - slack)), float(np.max(np.where(left > 0, value + slack, -np.inf)))
        return Enclosure(max(low, 0.0), max(min(high, self.largest_log_ratio.upper), low, 0.0), self.evidence)


def _outward(low: FloatArray, high: FloatArray) -> EnclosureArray:
    return with_logs(np.maximum(low * (1 - SLACK) - SMALLEST, 0.0), np.minimum(high * (1 + SLACK) + SMALLEST, 1.0))
