"""Staircase mechanism: noise with a density that is constant on pieces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.caveats import NOISE_IS_FRESH
from service.privacy.mechanisms.discrete.atomic_step import three_atom_step
from service.privacy.mechanisms.discrete.noise import SENSITIVITY_STATED, NoisyQuery
from service.privacy.mechanisms.domain import EPSILON, GAMMA
from service.privacy.mechanisms.neighbours import Neighbours

SOURCE = "Geng, Viswanath 2016 (staircase noise), law of the loss"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase(NoisyQuery):
    """Query of sensitivity Delta with staircase noise, whose density falls by e^-epsilon at (j + gamma) Delta.

    Attributes
    ----------
    epsilon : float
        ln of the ratio of neighbouring heights of the density.
    gamma : float
        Share g in [0, 1] of the first step: the density is a e^-{j epsilon} for (j - 1 + g) Delta <= |x| < (j + g)
        Delta, j >= 1, and a for |x| < g Delta. So a = (1 - e^-epsilon)/(2 Delta (g + e^-epsilon (1 - g))).

    Notes
    -----
    All heights are powers of e^-epsilon. A shift by s <= Delta changes |x| by at most Delta, hence the
    height by at most one power: the loss is epsilon, 0 or -epsilon. The law of the loss is symmetric, because the
    density is. So it is given by its total variation distance, which is P(|x| < s/2) and rises with s, as the density
    is symmetric and falls with |x|. The shift Delta is therefore the worst shift at every false positive rate and in
    every composition. Let lengths be in units of Delta, and heights in units of 1/Delta. For this shift and 0 < x < 1,
    x and x - 1 have equal heights for g < x < 1 - g (height a e^-epsilon) if g <= 1/2. If g > 1/2, they have equal
    heights for 1 - g < x < g (height a). Elsewhere the heights differ. So the mass of the loss 0 is |1 - 2 g| a
    e^-epsilon or |1 - 2 g| a.
    """

    type: ClassVar[str] = "staircase"
    type_premises = (SENSITIVITY_STATED, NOISE_IS_FRESH)
    epsilon: Annotated[float, EPSILON]
    gamma: Annotated[float, GAMMA]

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        if neighbours.records > 1:
            reason = "no shift of staircase noise is known to be the worst for several records."
            raise neighbours.refused(self.type, reason, ("one record",))
        epsilon, gamma = float(self.epsilon), Fraction(self.gamma)
        if epsilon == 0:
            return three_atom_step(0.0, -math.inf, 0.0, SOURCE)
        fall, apart = -math.expm1(-epsilon), abs(1 - 2 * gamma)
        log_whole = float(np.logaddexp(_log(gamma), _log(1 - gamma) - epsilon))
        log_height = math.log(fall) - math.log(2) - (log_whole + (epsilon if gamma <= Fraction(1, 2) else 0.0))
        log_zero = _log(apart) + log_height
        return three_atom_step(epsilon, log_zero, math.log1p(-math.exp(log_zero)), SOURCE)


def _log(share: Fraction) -> float:
    """Return ln of a share in [0, 1]; -inf for 0."""
    return math.log(float(share)) if share > 0 else -math.inf
