"""Discrete Laplace noise (two-sided geometric noise) on a query with integer values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.discrete.noise import NOISE_IS_INTEGER, SENSITIVITY_STATED, NoisyQuery, shift_of
from service.privacy.mechanisms.domain import DISCRETE_SCALE, WHOLE_SENSITIVITY
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.atomic_law import AtomicLaw

WORK_OF_A_VALUE = 0.05
"""Microseconds for each value of the noise between both ends."""
FAINT = -720.0
"""ln of masses under both hypotheses below which an outcome is left out."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(NoisyQuery):
    """Query with integer values, with noise of the law P(x) = (1 - l)/(1 + l) l^|x|, where l = e^{-1/scale}.

    Attributes
    ----------
    scale : float
        Scale s of the noise.
    sensitivity : int
        Largest change D of the query by one record.

    Notes
    -----
    The trade-off curve of the shift 1 is that of randomised response with the loss 1/s. The curve of the shift D is its
    D-fold iterate (compare the slopes and corners of both polygons). An integer vector that changes by D in the l1 norm
    is joined to its neighbour by D changes of one coordinate by 1. So its power is at most the D-fold iterate of the
    power of one change: one coordinate that changes by D is the worst case, in every composition. Shifts below D are
    iterated less often.
    """

    type: ClassVar[str] = "discrete_laplace"
    type_premises = (SENSITIVITY_STATED, NOISE_IS_INTEGER)
    scale: Annotated[float, DISCRETE_SCALE]
    sensitivity: Annotated[int, WHOLE_SENSITIVITY]

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        shift = shift_of(self.sensitivity, self.type, neighbours)
        return DiscreteLaplaceStep(scale=float(self.scale), shift=shift)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplaceStep(AtomicStep):
    """Discrete Laplace noise of scale s, shifted by D = `shift` under H1.

    Notes
    -----
    At the noisy value x, 0 <= x <= D, the loss is (2 x - D)/s. Values below 0 have the loss of 0, and values above D
    that of D. With l = e^{-1/s}, P0(x <= 0) = 1/(1 + l) and P0(x >= D) = l^D/(1 + l).
    """

    type: ClassVar[str] = "discrete_laplace"
    theorem = "Ghosh, Roughgarden, Sundararajan 2012 (geometric mechanism), law of the loss"
    scale: float
    shift: int

    @property
    @override
    def law_work(self) -> float:
        return WORK_OF_A_VALUE * self.shift

    @override
    def atomic_law(self) -> AtomicLaw:
        rate = 1 / self.scale
        x = np.arange(self.shift, -1, -1, dtype=np.float64)
        log_ends = -math.log1p(math.exp(-rate))
        absent = log_ends + math.log(-math.expm1(-rate)) - x * rate
        absent[0], absent[-1] = log_ends - self.shift * rate, log_ends
        present = absent[::-1]
        kept = np.maximum(absent, present) > FAINT
        dropped = 0.0 if kept.all() else (self.shift + 1) * math.exp(FAINT)
        losses = ((2 * x - self.shift) * rate)[kept]
        error = 8 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF * (1 + float(np.abs(absent[kept]).max()))
        return AtomicLaw(
            losses,
            2 * rate * np.diff(np.flatnonzero(kept)),
            absent[kept],
            present[kept],
            4 * UNIT_ROUNDOFF * self.shift * rate,
            error,
            dropped,
            is_symmetric=True,
        )
