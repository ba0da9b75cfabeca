"""Trade-off curve of exponential steps with adaptively chosen shifts, as a step of a composition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.adaptive_exponential.fixed_shifts import Groups
from service.privacy.composition.adaptive_exponential.nodes import curve_of, log_end
from service.privacy.composition.adaptive_exponential.recursion import log_rest
from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.mechanisms.abstract import ResolvedStep
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.enclosed.logs import log_down, log_up, with_logs
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.self_inverse import AbstractSelfInverse
from service.privacy.trade_off.symmetric_polygon import SymmetricPolygon

MOST_STEPS: Final = 100
"""Largest number of exponential steps of a recursion."""

SOURCE: Final = (
    "Dong, Durfee, Rogers 2020 (optimal composition for exponential mechanisms), adaptive shifts "
    "(/errata#exponential-fixed-shifts)"
)


@final
@dataclass(frozen=True, slots=True, kw_only=False)
class ExponentialRun(ResolvedStep):
    """Up to MOST_STEPS exponential steps as a single step, whose shifts an adversary chooses adaptively.

    The shift is the position of the loss interval of an exponential step. The step is not a mechanism of the API. Its
    pair of laws dominates all adaptive compositions of the steps. At every epsilon, one composition attains the
    profile. `groups` has pairs (epsilon of a step, number of steps), and `tolerance` is the relative width of delta
    aimed at.
    """

    type: ClassVar[str] = "exponential"
    groups: Groups
    tolerance: float

    @override
    def curves(self) -> TradeOffPair:
        curve = ExponentialRunTradeOff(self.groups, self.tolerance)
        return TradeOffPair(curve, curve, SOURCE)


@final
class ExponentialRunTradeOff(AbstractSelfInverse):
    """Trade-off curve of the worst case over adaptive compositions of exponential steps, in the worst order.

    The curve is its own inverse. An adversary chooses the position (shift) of the loss interval of each step after
    earlier results. The strategy may also be drawn at random, so the curve is the conjugate of the profile. The
    relative accuracy of delta is 1e-3 for steps of equal epsilon of any size (1e-5 for 10 steps with epsilon 1). Far
    tails are relatively wider. Within the smallest epsilon of the largest loss, the profile and its inverse have closed
    forms.
    """

    evidence = Evidence.CERTIFIED
    method = "discretised"

    def __init__(self, groups: Groups, tolerance: float) -> None:
        self._groups, self._tolerance = groups, tolerance
        self._ranges = [epsilon for epsilon, count in groups for _ in range(count)]
        self._largest = math.fsum(self._ranges)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """Largest loss of the run in nats: the sum of the epsilons, attained if every step has its largest loss."""
        slack = 2 * UNIT_ROUNDOFF
        return Enclosure(self._largest * (1 - slack), self._largest * (1 + slack), Evidence.CERTIFIED)

    @cached_property
    def _computed_polygon(self) -> SymmetricPolygon:
        return curve_of(self._groups, self._tolerance)

    @property
    def _polygon(self) -> SymmetricPolygon | None:
        """Polygon of the curve; None if it is not cached and the work allowance of the request is spent."""
        return None if "_computed_polygon" not in self.__dict__ and is_spent() else self._computed_polygon

    def _log_end(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return log_end(x, self._ranges)

    @override
    @np.errstate(all="ignore")
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        most, polygon = self.largest_log_ratio.upper, self._polygon
        if polygon is None:
            zero, steepest = np.zeros_like(alpha), np.full_like(alpha, most)
            return CurvePoints(
                EnclosureArray(zero, 1 - alpha), EnclosureArray(alpha, zero + 1), EnclosureArray(-steepest, steepest)
            )
        read, flat, steep = polygon.points(alpha)
        return CurvePoints(
            with_logs(read.rest_low, read.rest_high),
            with_logs(read.low, read.high),
            EnclosureArray(np.maximum(flat, -most), np.minimum(steep, most)),
        )

    @override
    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        x, polygon = np.abs(epsilon), self._polygon
        if polygon is None:
            return EnclosureArray(-np.expm1(np.minimum(epsilon, 0.0)) * (1 - 4 * FUNCTION_ERROR), np.ones_like(x))
        read = polygon.at(x)
        below, slack = epsilon < 0, 4 * FUNCTION_ERROR
        # 1 - c(-x) = (1 - e^-x) + e^-x delta(x).
        rise, fall = -np.expm1(-x), np.exp(-x)
        low = np.where(below, (rise + fall * read.low) * (1 - slack), read.low)
        high = np.where(below, np.minimum((rise + fall * read.high) * (1 + slack), 1.0), read.high)
        logs = log_down(low), log_up(high)
        near = (epsilon > self._largest - min(self._ranges)) & ~below
        log_low, log_high = self._log_end(np.where(near, x, self._largest))
        lower = np.where(near, np.maximum(logs[0], log_low), logs[0])
        upper = np.where(near, np.minimum(logs[1], log_high), logs[1])
        return EnclosureArray.from_logs(np.minimum(lower, upper), upper)

    @override
    @np.errstate(all="ignore")
    def _epsilon_formula(self, delta: float) -> Enclosure:
        polygon = self._polygon
        if polygon is None:
            return Enclosure(0.0, self.largest_log_ratio.upper, Evidence.CERTIFIED)
        lower, upper = polygon.epsilon(delta)
        start = np.array([self._largest - min(self._ranges) * (1 - 1e-9)])
        if math.log(delta) * (1 - FUNCTION_ERROR) < float(self._log_end(start)[0][0]):
            k = len(self._ranges)
            rest = [math.log(-math.expm1(-epsilon)) for epsilon in self._ranges]
            logs = (math.log(delta) + math.fsum(rest)) / (k + 1)
            size = (abs(math.log(delta)) + sum(map(abs, rest)) + k) / (k + 1)
            error = 4 * FUNCTION_ERROR * (1 + size)
            away = (-(k + 1) * log_rest(np.array([-min(logs + sign * error, -SMALLEST) for sign in (1, -1)]))).tolist()
            near = 8 * UNIT_ROUNDOFF
            lower = max(lower, (self._largest - away[0] * (1 + near)) * (1 - near))
            upper = min(upper, (self._largest - away[1] * (1 - near)) * (1 + near))
        return Enclosure(max(min(lower, upper), 0.0), max(upper, 0.0), Evidence.CERTIFIED)
