"""Steps whose loss is one of two numbers, +-eps: their cumulants and their values on inversion contours.

A `pure_dp` step, in its worst case, has the loss -eps with probability 1/(1 + e^-eps) under H0, else eps (Kairouz, Oh,
Viswanath 2015, Theorem 2.1). M(z) = E0 e^{zL} is the transform of its loss L, and K = ln M. With u = z - 1/2:

    M(z) = cosh(u eps)/cosh(eps/2) = 1 + 2 sinh(z eps/2) sinh((z - 1) eps/2)/cosh(eps/2);
    K' = eps tanh(u eps),    K'' = (eps/cosh(u eps))^2,
    M(theta + it)/M(theta) = cos(x) + i tau sin(x),    x = t eps,    tau = tanh(eps (theta - 1/2)).

|M| does not fall along a contour: its majorant is 1, and another step of the run makes the contour end. For theta = 1/2
the transform vanishes at x = pi/2. Only the absolute error of the value is left there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import (
    RealCumulants,
    RunScale,
    Summand,
    SummandOnContour,
    TruncatedSummand,
    ValuesOnContour,
)
from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_SMALLEST_MODULUS = 1e-300
"""Replacement of a modulus of zero, far below the error of the value."""


@dataclass(frozen=True, slots=True)
class TwoPointSteps(Summand):
    """Equal steps, `count` of them, each of which has the privacy loss `loss` > 0 or -`loss` in nats."""

    decays = False
    rank = 2
    is_atomic = True

    loss: float
    count: int

    @property
    @override
    def spread(self) -> float:
        return self.loss

    @property
    @override
    def loss_range(self) -> tuple[float, float]:
        return -self.count * self.loss, self.count * self.loss

    @property
    @override
    def is_symmetric(self) -> bool:
        return True


class TwoPointParts(TruncatedSummand):
    """Parts of a run, each of them N_i equal steps with the losses +-eps_i; arrays have shape (parts,).

    The law is a summand of the run's log-moment function K(z) = ln E0 e^{zS}.
    """

    decays = False

    def __init__(self, steps: tuple[TwoPointSteps, ...]) -> None:
        self.epsilon = np.array([step.loss for step in steps])
        self.count = np.array([step.count for step in steps], dtype=np.float64)

    @classmethod
    @override
    def of_group(cls, group: tuple[TwoPointSteps, ...], digits: float, scale: RunScale) -> TwoPointParts:
        return TwoPointParts(group)

    @property
    @override
    def size(self) -> int:
        return len(self.epsilon)

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return K(s), K'(s), K''(s) at the real tilts s, shape (tilts,), with a bound of the absolute error of K.

        K(s) = ln E0 e^{sS} is the log-moment function of the total loss S of all steps. Near 0 and 1, log1p of the
        product of two hyperbolic sines keeps relative digits. Elsewhere the value is the logarithm of cosines without
        their exponentials. The error of a tilt's product with eps moves K by K' times that error.
        """
        s, eps = tilts[:, None], self.epsilon
        exponent = np.abs(s - 0.5) * eps
        near = np.maximum(np.abs(s), np.abs(s - 1)) * eps < 2
        excess = _doubled_sine(0.5 * eps * np.where(near, s, 0.0)) * _doubled_sine(
            0.5 * eps * np.where(near, s - 1, 0.0)
        )
        excess = excess * np.exp(-0.5 * eps) / (1 + np.exp(-eps))
        apart = eps * (np.abs(s - 0.5) - 0.5)
        far = apart + (np.log1p(np.exp(-2 * exponent)) - np.log1p(np.exp(-eps)))
        value = np.where(near, np.log1p(excess), far)
        # Arguments below 2 are within 3 u, with four exponentials and their products. 1 + excess >= 1/cosh 2 > 1/4.
        relative = 4 * FUNCTION_ERROR + 32 * UNIT_ROUNDOFF
        rounding = np.where(
            near,
            4 * relative * np.abs(excess) + FUNCTION_ERROR * np.abs(value) + SMALLEST,
            8 * UNIT_ROUNDOFF * (exponent + eps + np.abs(apart)) + 3 * FUNCTION_ERROR,
        )
        decay = np.exp(-exponent)
        slope = eps * np.copysign(-np.expm1(-2 * exponent) / (1 + decay**2), s - 0.5)
        curvature = (2 * eps * decay / (1 + decay**2)) ** 2
        return RealCumulants(
            value @ self.count,
            slope @ self.count,
            curvature @ self.count,
            rounding @ self.count + 2 * len(eps) * UNIT_ROUNDOFF * (np.abs(value) @ self.count),
            np.zeros_like(tilts),
        )


class TwoPointOnContour(SummandOnContour):
    """Two-point parts of a run under the law tilted by e^{theta L}, on the contour Re z = theta.

    The loss L of a step is +-eps.
    """

    @property
    @override
    def log_atoms(self) -> float:
        return 0.0

    def __init__(self, parts: TwoPointParts, theta: float) -> None:
        cumulants = parts.cumulants(np.array([theta]))
        self._origin = cumulants.value[0], cumulants.error[0]
        self._epsilon, self._count = parts.epsilon[:, None], parts.count[:, None]
        tilted = self._epsilon * (theta - 0.5)
        decay = np.exp(-np.abs(tilted))
        self._slope = np.copysign(-np.expm1(-2 * np.abs(tilted)) / (1 + decay**2), tilted)
        """tau"""
        self._spread = (2 * decay / (1 + decay**2)) ** 2
        """1 - tau^2, without cancellation."""

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return zeros `(whole, single)`: no bound of |M(theta + it')/M(theta)| over all t' >= t is below 1.

        M is the transform of a step with two losses, which is almost periodic. Both arrays have the shape of `heights`.
        theta is the tilt.
        """
        return np.zeros_like(heights), np.zeros_like(heights)

    def values(self, step: float, nodes: int) -> ValuesOnContour:
        """Return K(theta + i t_k) - K(theta) = sum N ln(cos x + i tau sin x) at t_k = k `step`, with error bounds.

        k is 0..`nodes`. The sum is over parts of N steps with losses +-eps, x = t_k eps and tau = tanh(eps (theta -
        1/2)). |cos x + i tau sin x|^2 = 1 - (1 - tau^2) sin^2 x. All errors of one factor together are below a few
        units of rounding u times |x|. For small x this holds because the errors are relative to |ln(cos x + i tau sin
        x)| <= |x|. The errors of tau and 1 - tau^2 are 4 |eps (theta - 1/2)| u and a few functions; (1 - tau^2) |eps
        (theta - 1/2)| < 1/2 bounds their effect. K is the log-moment function of the run, and theta the tilt.
        """
        x = self._epsilon * (np.arange(nodes + 1, dtype=np.float64) * step)
        sine, cosine = np.sin(x), np.cos(x)
        imaginary = self._slope * sine
        modulus = np.maximum(np.hypot(cosine, imaginary), _SMALLEST_MODULUS)
        squared = np.maximum(-self._spread * sine**2, -0.999)
        log_modulus = np.where(modulus > 0.5, 0.5 * np.log1p(squared), np.log(modulus))
        angle = np.arctan2(imaginary, cosine)
        relative = np.log1p((12 * FUNCTION_ERROR + 32 * UNIT_ROUNDOFF) * np.abs(x) / modulus)
        relative += 2 * FUNCTION_ERROR * (np.abs(log_modulus) + np.abs(angle))
        size = (self._count * (np.abs(log_modulus) + np.abs(angle))).sum(axis=0)
        difference = (self._count * (log_modulus + 1j * angle)).sum(axis=0)
        rounding = (4 + len(self._count)) * UNIT_ROUNDOFF * size
        return ValuesOnContour(difference, (self._count * relative).sum(axis=0) * 1.001 + rounding)


def _doubled_sine(x: FloatArray) -> FloatArray:
    return np.expm1(x) - np.expm1(-x)
