"""Trade-off curve of a mechanism that a request has no time to evaluate: every number has the bounds of guessing."""

from __future__ import annotations

import math
from typing import final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints, anything, guessed_points


@final
class UnknownTradeOff(AbstractTradeOff):
    """Trade-off curve of which nothing is known. It stands for any curve, and for its swapped hypotheses."""

    evidence = Evidence.PROVED
    method = "closed_form"
    is_capped = True

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure(0.0, math.inf, self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure(0.0, 1.0, self.evidence)

    @override
    def reversed(self) -> AbstractTradeOff:
        return self

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return guessed_points(alpha)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return anything(epsilon)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return Enclosure(0.0, math.inf, self.evidence)
