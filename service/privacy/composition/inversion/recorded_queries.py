"""Numbers that a request needs of a trade-off curve, found by a substitute curve that records the requested numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import PrivacyComputationError
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.prefetched import Known
from service.privacy.trade_off.pair import TradeOffPair

_LONGEST_LIST = 32
"""Number of points of a list that are evaluated ahead. Longer lists share contours alone."""

_ABOUT = Enclosure(0.5, 0.5, Evidence.ASYMPTOTIC)


class _NoSingleNumber(Exception):
    """Raised by the recording curve, when a request reads more than numbers at single arguments and one list of points.

    The exception ends the recording. The recorded numbers are evaluated together later, and the request reads the
    others itself.
    """


def recorded_queries_of(read: Callable[[TradeOffPair], Any]) -> tuple[Known, ...]:
    """Return the numbers that `read` evaluates on a pair of curves, to the end of its first list of points.

    The function `read` is called once, with curves that record every evaluation and return arbitrary values. An error
    that these values cause ends the recording. The points of a list of more than 32 are left out.
    """
    add = _RecordingCurve([], reflected=False)
    with suppress(_NoSingleNumber, PrivacyComputationError):
        read(TradeOffPair(add, add.reversed(), ""))
    return tuple(dict.fromkeys(add.recorded))


@final
class _RecordingCurve(AbstractTradeOff):
    """Curve that records the arguments of its evaluations, and returns arbitrary values."""

    evidence = Evidence.ASYMPTOTIC
    method = "contour"

    def __init__(self, recorded: list[Known], *, reflected: bool) -> None:
        self.recorded, self._reflected = recorded, reflected

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(math.inf)

    @property
    @override
    def global_gdp_mu(self) -> NoReturn:
        raise _NoSingleNumber

    @override
    def reversed(self) -> _RecordingCurve:
        return _RecordingCurve(self.recorded, reflected=not self._reflected)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        if len(alpha) <= _LONGEST_LIST:
            self.recorded += [Known(self._reflected, "point", float(each)) for each in alpha]
        raise _NoSingleNumber

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        self.recorded += [Known(self._reflected, "profile", float(each)) for each in epsilon]
        about = np.full_like(epsilon, 0.5)
        return EnclosureArray(about, about)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        self.recorded.append(Known(self._reflected, "power", rate))
        return _ABOUT

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        self.recorded.append(Known(self._reflected, "epsilon", delta))
        return _ABOUT
