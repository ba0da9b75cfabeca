"""Exponential steps whose interval of losses has a fixed position: attacks that one choice of data sets attains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, Steps
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, rounded
from service.privacy.trade_off.atomic_law import AtomicLaw

SHARES: Final = (0.25, 0.75, 0.4, 0.6, 0.1, 0.9, 0.02, 0.98)
"""Largest losses of attacks, over the length of the interval of losses. Half of the length is always an attack."""
SMALLEST_RANGE, LARGEST_RANGE = 1e-9, 600.0
"""Lengths of the interval of losses between which other attacks than half of the length are used."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedShiftStep(AtomicStep):
    """Choice between two candidates with Gumbel noise, whose scores are chosen before all results.

    The outcome is a bit with two losses, whose distance is the epsilon of the exponential mechanism.

    Attributes
    ----------
    high, low : float
        The losses are `high` > 0 and -`low` < 0, nats.

    Notes
    -----
    The masses are P1(high) = (1 - e^-low)/(1 - e^{-high-low}) and P0(high) = e^-high P1(high).
    """

    type: ClassVar[str] = "exponential"
    theorem = "two candidates with fixed scores"
    high: float
    low: float

    @override
    def atomic_law(self) -> AtomicLaw:
        whole = _log_rest(self.high + self.low)
        likely, rare = _log_rest(self.low) - whole, _log_rest(self.high) - whole
        absent, present = np.array([likely - self.high, rare]), np.array([likely, rare - self.low])
        losses = np.array([self.high, -self.low])
        size = 1 + self.high + self.low + abs(whole) + float(max(np.abs(absent).max(), np.abs(present).max()))
        error = (8 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF) * size
        return AtomicLaw(losses, losses[:-1] - losses[1:], absent, present, 0.0, error)


def _log_rest(loss: float) -> float:
    """Return ln(1 - e^-loss)."""
    return math.log(-math.expm1(-loss))


def fixed_shifts(step: AbstractStep, count: int) -> tuple[Steps, ...]:
    """Return runs of `count` steps of the exponential mechanism with scores that are fixed before all results.

    Each run fixes other scores. It is attained by a choice of data sets, so that it gives lower bounds. Raises
    ValueError for a step of another kind.
    """
    length = step.adaptive_range
    if length is None:
        raise ValueError(f"{step.type} has no interval of losses that an attacker may shift")
    runs: list[Steps] = [((PureDp(epsilon=0.5 * length), count),)]
    if SMALLEST_RANGE < length < LARGEST_RANGE:
        highs = [share * length for share in SHARES]
        steps = [FixedShiftStep(high=high, low=rounded(Fraction(length) - Fraction(high), -1)) for high in highs]
        runs += [((each, count),) for each in steps]
    return tuple(runs)
