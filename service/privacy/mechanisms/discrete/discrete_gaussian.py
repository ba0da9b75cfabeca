"""Discrete Gaussian noise on a query with integer values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, DescribedStep
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.discrete.noise import NOISE_IS_INTEGER, SENSITIVITY_STATED, sampled_noise, shift_of
from service.privacy.mechanisms.domain import DISCRETE_SIGMA, WHOLE_SENSITIVITY
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.atomic_law import AtomicLaw

DEEPEST = 690.0
"""Nats: noise whose probability relative to that of 0 is below e^-DEEPEST is left out."""
LOG_CONCAVE = (
    "The noise is log-concave, so the loss L(x) = ln P(x - D)/P(x) rises with x. For 0 <= s <= D the power of the test "
    "x > t is P(x > t - s), which rises with s, at the same false positive rate."
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(DescribedStep):
    """Query with integer values, with noise of the law P(x) proportional to e^{-x^2/(2 sigma^2)} on the integers.

    Attributes
    ----------
    sigma : float
        Parameter of the noise, about its standard deviation for sigma >= 1.
    sensitivity : int
        Largest change D of the query by one record.

    Notes
    -----
    The shift D is the worst of all shifts s with |s| <= D: for log-concave noise the most powerful tests are x > t, of
    power P(x > t - s), which rises with s at the same false positive rate. The curve differs from that of continuous
    Gaussian noise, and neither of both dominates the other.
    """

    type: ClassVar[str] = "discrete_gaussian"
    type_premises = (SENSITIVITY_STATED, NOISE_IS_INTEGER)
    sigma: Annotated[float, DISCRETE_SIGMA]
    sensitivity: Annotated[int, WHOLE_SENSITIVITY]

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        shift = shift_of(self.sensitivity, self.type, neighbours)
        return DiscreteGaussianStep(sigma=float(self.sigma), shift=shift)

    @override
    def sampled_under(self, rate: float, neighbours: Neighbours) -> AbstractStep | None:
        return sampled_noise(self, rate, neighbours)


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
    sigma: float
    shift: int

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
            2 * beyond,
            is_unbounded=True,
            is_symmetric=True,
        )

    @property
    @override
    def theorem(self) -> str:
        return "Canonne, Kamath, Steinke 2020 (discrete Gaussian noise), law of the loss"
