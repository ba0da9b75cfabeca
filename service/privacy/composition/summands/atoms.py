"""Steps whose loss has finitely many values: their cumulants and their values on inversion contours.

M(z) = E0 e^{zL} = sum_j p_j e^{z L_j} is the transform of the loss L of one step, with the H0-masses p_j, and K = ln M.
Under the law tilted by e^{theta L} the masses are w_j = p_j e^{theta L_j}/M(theta), and

    M(theta + it)/M(theta) = e^{i t m} sum_j w_j e^{i t (L_j - m)} for any m; m is about the mean of the tilted loss.

|M| does not fall along a contour: its majorant is 1, and another step of the run makes the contour end. The sums at
equidistant heights t_k, k = a B + b, are products of two matrices, of e^{i a B h L_j} w_j and of e^{i b h L_j}.
"""

from __future__ import annotations

import math
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
from service.privacy.numerics.unit_circle import ComplexArray
from service.privacy.trade_off.atomic_law import AtomicLaw

NEGLIGIBLE = 1e-24
"""Share of the tilted mass of an atom, times the number of atoms, that is left out on a contour."""
_SMALLEST_MODULUS = 1e-300


@dataclass(frozen=True, slots=True)
class AtomSteps(Summand):
    """Equal steps, `count` of them, each with the law `law` of its loss."""

    decays = False
    is_atomic = True

    law: AtomicLaw
    count: int

    @property
    @override
    def spread(self) -> float:
        return self.law.spread

    @property
    @override
    def loss_range(self) -> tuple[float, float]:
        if self.law.is_unbounded:
            return -math.inf, math.inf
        return self.count * float(self.law.losses[-1]), self.count * float(self.law.losses[0])

    @property
    @override
    def least_loss_error(self) -> float:
        return self.count * self.law.position_error

    @property
    @override
    def is_symmetric(self) -> bool:
        return self.law.is_symmetric

    @property
    @override
    def order(self) -> tuple[int, ...]:
        return 5, self.law.size, self.count


class AtomParts(TruncatedSummand):
    """Parts of a run, each of them N_i equal steps with a list of losses.

    The loss of one step takes finitely many listed values (atoms). The law is a summand of the run's log-moment
    function K(z) = ln E0 e^{zS}.
    """

    decays = False

    def __init__(self, steps: tuple[AtomSteps, ...]) -> None:
        self.laws = [step.law for step in steps]
        self.count = np.array([step.count for step in steps], dtype=np.float64)

    @classmethod
    @override
    def of_group(cls, group: tuple[AtomSteps, ...], digits: float, scale: RunScale) -> AtomParts:
        return AtomParts(group)

    @property
    @override
    def size(self) -> int:
        return sum(law.size for law in self.laws)

    @property
    @override
    def contour_size(self) -> int:
        return 1 + sum(law.heavy for law in self.laws) // 32  # one complex product for each atom, in matrix products

    @property
    @override
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        with np.errstate(divide="ignore"):
            lost = np.log(np.array([law.dropped for law in self.laws])) + np.log(self.count) + 1e-12
        return lost, lost

    @override
    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        totals = [np.zeros_like(tilts) for _ in range(4)]
        for law, count in zip(self.laws, self.count.tolist(), strict=True):
            for total, each in zip(totals, _cumulants(law, tilts), strict=True):
                total += count * each  # noqa: PLW2901 - arrays in place
        return RealCumulants(totals[0], totals[1], totals[2], totals[3], np.zeros_like(tilts))


def _cumulants(law: AtomicLaw, tilts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return K, K', K'' of one step with the listed losses of `law` at real tilts s, with an error bound of K.

    K(s) = ln E0 e^{sL} is the log-moment function of the loss L (nats). All results have the shape of `tilts`. The
    error is absolute.

    Tilts above 1/2 use the masses under H1, for which K(s) = ln E1 e^{(s - 1) L}. Small exponents are summed as ln(1 +
    sum p_j (e^{s L_j} - 1)).
    """
    from_one = tilts > 0.5
    shift = np.where(from_one, tilts - 1, tilts)[:, None]
    logs = np.where(from_one[:, None], law.log_present, law.log_absent)
    exponents = shift * law.losses
    joint = logs + exponents
    top: FloatArray = joint.max(axis=1, keepdims=True)
    weights = np.exp(joint - top)
    total: FloatArray = weights.sum(axis=1)
    value: FloatArray = top[:, 0] + np.log(total)
    terms = np.exp(logs) * np.expm1(np.minimum(exponents, 1.0))
    small = (np.abs(exponents) * (weights > 0)).max(axis=1) <= 1.0
    value = np.where(small, np.log1p(np.where(small, terms.sum(axis=1), 0.0)), value)
    weights /= total[:, None]
    mean: FloatArray = weights @ law.losses
    variance: FloatArray = (weights * (law.losses - mean[:, None]) ** 2).sum(axis=1)
    size: FloatArray = (weights * (np.abs(exponents) + np.abs(logs))).sum(axis=1) + np.abs(top[:, 0])
    plain = law.mass_error + 4 * UNIT_ROUNDOFF * (size + law.size) + 4 * FUNCTION_ERROR
    near: FloatArray = np.abs(terms).sum(axis=1) * (law.mass_error + 4 * FUNCTION_ERROR + 2 * law.size * UNIT_ROUNDOFF)
    error: FloatArray = np.where(small, 2 * near, plain) + np.abs(shift[:, 0]) * law.position_error * 1.01 + SMALLEST
    return value, mean, variance, error


class AtomsOnContour(SummandOnContour):
    """Parts with listed losses under the law tilted by e^{theta L}, on the contour Re z = theta.

    L is the loss of one step.
    """

    @property
    @override
    def log_atoms(self) -> float:
        return 0.0

    def __init__(self, parts: AtomParts, theta: float) -> None:
        cumulants = parts.cumulants(np.array([theta]))
        self._origin = cumulants.value[0], cumulants.error[0]
        self._parts = [
            _Tilted.of(law, count, theta) for law, count in zip(parts.laws, parts.count.tolist(), strict=True)
        ]

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return zeros `(whole, single)`: the trivial bounds ln |M(theta + it')/M(theta)| <= 0 of all steps and of one.

        M is the transform of a step with listed losses. It is almost periodic in t', so no smaller bound is known. Both
        arrays have the shape of `heights`. theta is the tilt of the contour.
        """
        return np.zeros_like(heights), np.zeros_like(heights)

    @override
    def values(self, step: float, nodes: int) -> ValuesOnContour:
        difference = np.zeros(nodes + 1, dtype=np.complex128)
        error = np.zeros(nodes + 1)
        for part in self._parts:
            value, off = part.logarithms(step, nodes)
            difference += part.count * value
            error += part.count * (off + 4 * UNIT_ROUNDOFF * np.abs(value))
        return ValuesOnContour(difference, error)


@dataclass(frozen=True, slots=True)
class _Tilted:
    """Tilted law of one part without negligible atoms: masses w_j, losses L_j less their mean, and errors.

    `lost` is the omitted mass, `relative` the relative error of the masses, and `position` that of the losses in nats.
    `weights` are w_j under the tilted law, `mean` is the mean loss in nats, and `count` the number of equal steps of
    the part.
    """

    weights: FloatArray
    losses: FloatArray
    mean: float
    count: float
    lost: float
    relative: float
    position: float

    @staticmethod
    def of(law: AtomicLaw, count: float, theta: float) -> _Tilted:
        from_one = theta > 0.5
        shift = theta - 1 if from_one else theta
        joint = (law.log_present if from_one else law.log_absent) + shift * law.losses
        joint -= float(joint.max())
        weights = np.exp(joint)
        weights /= weights.sum()
        kept = weights > NEGLIGIBLE / law.size
        mean = float(weights @ law.losses)
        size = float(np.abs(joint[kept]).max()) + abs(shift) * float(np.abs(law.losses[kept]).max())
        relative = 2 * law.mass_error + 4 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF * (size + math.sqrt(law.size) + 8)
        relative += 2 * abs(shift) * law.position_error
        lost = float(weights[~kept].sum()) + NEGLIGIBLE
        return _Tilted(weights[kept], law.losses[kept] - mean, mean, count, lost, relative, law.position_error)

    def logarithms(self, step: float, nodes: int) -> tuple[ComplexArray, FloatArray]:
        """Return ln(M(theta + i t_k)/M(theta)) for one step at t_k = k `step`, k = 0..`nodes`, with error bounds.

        M is the transform of the step, and theta the tilt. The bounds are those of the relative errors of the
        exponentials of the results. Both arrays have the shape (nodes + 1,).
        """
        width = math.isqrt(nodes) + 1
        rows = nodes // width + 1
        phases = step * self.losses
        inner = np.exp(1j * np.arange(width)[:, None] * phases)
        outer = np.exp(1j * (np.arange(rows) * width)[:, None] * phases) * self.weights
        sums = (outer @ inner.T).reshape(-1)[: nodes + 1]
        heights = step * np.arange(nodes + 1)
        modulus = np.maximum(np.abs(sums), _SMALLEST_MODULUS)
        spread = float(self.weights @ np.abs(self.losses))
        largest = abs(self.mean) + float(np.abs(self.losses).max(initial=0.0))
        off = self.relative + self.lost + (len(self.losses) + 16) * 4 * UNIT_ROUNDOFF
        off = off + heights * (self.position + 8 * UNIT_ROUNDOFF * (spread + largest * UNIT_ROUNDOFF + abs(self.mean)))
        # Near height 0 all values are near 1, and errors of masses move the sum by their effect on its distance from 1.
        value = np.empty(nodes + 1, dtype=np.complex128)
        value.real, value.imag = np.log(modulus), np.angle(sums) + heights * self.mean
        return value, np.log1p(off / modulus) + 4 * FUNCTION_ERROR * np.abs(value)
