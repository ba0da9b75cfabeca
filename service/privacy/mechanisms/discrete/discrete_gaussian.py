"""Discrete Gaussian noise on a query with integer values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST
from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.discrete.noise import NOISE_IS_INTEGER, SENSITIVITY_STATED, NoisyQuery, shift_of
from service.privacy.mechanisms.domain import DIMENSION, DISCRETE_SIGMA, RHO, WHOLE_SENSITIVITY
from service.privacy.mechanisms.groups import BracketedStep
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.mechanisms.zcdp import Zcdp
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, rounded
from service.privacy.trade_off.atomic_law import AtomicLaw

DEEPEST = 690.0
"""Nats: noise whose probability relative to that of 0 is below e^-DEEPEST is left out."""
WORK_OF_A_VALUE = 0.05
"""Microseconds for each value of the noise."""
SEVERAL_COORDINATES = (
    "bracket: one coordinate that changes by the whole sensitivity attains the lower bound. The upper bound is that of "
    "all mechanisms with the same zero-concentrated guarantee (Canonne, Kamath, Steinke 2020, Theorem 4)."
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(NoisyQuery):
    """Query with integer values, with noise of the law P(x) proportional to e^{-x^2/(2 sigma^2)} on the integers.

    Attributes
    ----------
    sigma : float
        Parameter of the noise, about its standard deviation for sigma >= 1.
    sensitivity : int
        Largest change D of the query by one record; for several coordinates its Euclidean norm, rounded up.
    dimension : int
        Number of coordinates, each with noise of its own.

    Notes
    -----
    The shift D is the worst of all shifts s with |s| <= D: for log-concave noise the most powerful tests are x > t, of
    power P(x > t - s), which rises with s at the same false positive rate. The curve differs from that of continuous
    Gaussian noise, and neither of both dominates the other.

    For several coordinates no shift is known to be the worst. The noise is rho-zCDP with rho = D^2/(2 sigma^2)
    (Canonne, Kamath, Steinke 2020, Theorem 4), because Renyi divergences of independent coordinates add up. The worst
    mechanism with this guarantee bounds the noise from above, and one coordinate that changes by D from below.
    """

    type: ClassVar[str] = "discrete_gaussian"
    type_premises = (SENSITIVITY_STATED, NOISE_IS_INTEGER)
    sigma: Annotated[float, DISCRETE_SIGMA]
    sensitivity: Annotated[int, WHOLE_SENSITIVITY]
    dimension: Annotated[int, DIMENSION] = 1

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        shift = shift_of(self.sensitivity, self.type, neighbours)
        one = DiscreteGaussianStep(sigma=float(self.sigma), shift=shift)
        if self.dimension == 1:
            return one
        rho = rounded(Fraction(shift) ** 2 / (2 * Fraction(self.sigma) ** 2), 1)
        if rho not in RHO:
            reason = f"the zero-concentrated guarantee of several coordinates has a rho outside {RHO}."
            raise neighbours.refused(self.type, reason, ("one coordinate", "more noise"))
        return BracketedStep(below=((one, 1),), above=Zcdp(rho=rho), bracket=SEVERAL_COORDINATES)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianStep(AtomicStep):
    """Discrete Gaussian noise with parameter sigma, shifted by D = `shift` under H1.

    Notes
    -----
    The noisy value x has the loss (2 x D - D^2)/(2 sigma^2). The values -n..D + n are kept, n about 37 sigma. Beyond,
    sum_{x > n} P(x) <= P(n + 1)/(1 - e^{-(2 n + 3)/(2 sigma^2)}), because the ratios of consecutive terms fall.
    """

    type: ClassVar[str] = "discrete_gaussian"
    theorem = "Canonne, Kamath, Steinke 2020 (discrete Gaussian noise), law of the loss"
    sigma: float
    shift: int

    @property
    @override
    def law_work(self) -> float:
        return WORK_OF_A_VALUE * (2 * math.sqrt(2 * DEEPEST) * self.sigma + self.shift)

    @override
    def atomic_law(self) -> AtomicLaw:
        scale = 0.5 / self.sigma**2
        reach = math.ceil(math.sqrt(DEEPEST / scale)) + 1
        noise = np.arange(-reach, reach + 1, dtype=np.float64)
        log_total = math.log(float(np.exp(-scale * noise * noise).sum()))
        x = np.arange(self.shift + reach, -reach - 1, -1, dtype=np.float64)
        absent = -scale * x * x - log_total
        present = absent[::-1]
        beyond = math.exp(-scale * (reach + 1) ** 2) / -math.expm1(-scale * (2 * reach + 3))
        size = float(np.abs(absent).max())
        return AtomicLaw(
            scale * self.shift * (2 * x - self.shift),
            np.full(len(x) - 1, 2 * scale * self.shift),
            absent,
            present,
            8 * UNIT_ROUNDOFF * scale * self.shift * (self.shift + 2 * reach),
            (len(noise) + 8) ** 0.5 * 4 * UNIT_ROUNDOFF + 8 * FUNCTION_ERROR + 16 * UNIT_ROUNDOFF * (1 + size),
            2 * beyond + SMALLEST,
            is_unbounded=True,
            is_symmetric=True,
        )
