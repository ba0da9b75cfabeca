"""Which single numbers a question will read off a curve: asked of a curve that has none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import PrivacyComputationError
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.prefetched import Known
from service.privacy.trade_off.pair import TradeOffPair

_ABOUT = Enclosure(0.5, 0.5, Evidence.ASYMPTOTIC)


class _NoSingleNumber(Exception):
    """Lists are asked for, which are not read ahead."""


def asked_of(read: Callable[[TradeOffPair], Any]) -> tuple[Known, ...]:
    """The numbers that `read` asks for, up to the first that is none."""
    add = _Asked([], reflected=False)
    try:
        read(TradeOffPair(add, add.reversed(), ""))
    except (_NoSingleNumber, PrivacyComputationError):
        return tuple(dict.fromkeys(add.noted))
    return tuple(dict.fromkeys(add.noted))


@final
class _Asked(AbstractTradeOff):
    """Takes note of what is read, and answers with anything."""

    evidence = Evidence.ASYMPTOTIC
    method = "contour"

    def __init__(self, noted: list[Known], *, reflected: bool) -> None:
        self.noted, self._reflected = noted, reflected

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(math.inf)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return Enclosure.point(-math.inf)

    @property
    @override
    def global_gdp_mu(self) -> NoReturn:
        raise _NoSingleNumber

    @override
    def reversed(self) -> _Asked:
        return _Asked(self.noted, reflected=not self._reflected)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        raise _NoSingleNumber

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        self.noted += [Known(self._reflected, "profile", float(each)) for each in epsilon]
        about = np.full_like(epsilon, 0.5)
        return EnclosureArray(about, about)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        self.noted.append(Known(self._reflected, "power", rate))
        return _ABOUT

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        self.noted.append(Known(self._reflected, "epsilon", delta))
        return _ABOUT
