"""Steps of two losses beside steps on a lattice: their losses stay where they are, between the nodes.

Moved to nodes, the atoms of (eps, delta)-DP steps would cost digits of first order in the spacing. Their sum has few
values s_i, of H0-masses w_i, so that tilted sums over the whole are sums of those over the lattice: with

    s_i = n_i h + f_i, 0 < f_i <= h,    v_i = w_i e^{theta s_i}/sum w e^{theta s},

sum over losses above j h of m e^{-rate (loss - j h)} = sum_i v_i e^{-rate f_i} A(j - n_i), A(j) = sum_{k >= j} m_k
e^{-rate (k - j) h}, and below in the same manner. The law is the same for the hypotheses exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from service.privacy.mechanisms.abstract import TwoPointPart
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.mixture.shifted_mixture import Shifts

MOST_LOSSES: Final = 400
"""Each costs a pass over the thresholds that are read."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Losses s_i (nats) and ln of their H0-masses, all of which add up to prod (1 - delta)^N; `tells`: (delta, N)."""

    losses: FloatArray
    log_masses: FloatArray
    tells: tuple[tuple[float, int], ...]
    loss_error: float
    mass_error: float

    @staticmethod
    def of(known: Sequence[tuple[TwoPointPart, int]]) -> Beside | None:
        """None where there are none."""
        if not known:
            return None
        shifts = Shifts.of(tuple((part.epsilon, count) for part, count in known if part.epsilon > 0))
        tells = tuple((part.delta, count) for part, count in known if part.delta > 0)
        log_rest = math.fsum(count * math.log1p(-delta) for delta, count in tells)
        error = shifts.mass_error + shifts.loss_error + 4 * FUNCTION_ERROR * (1 + abs(log_rest))
        log_masses = shifts.log_mass - shifts.loss + log_rest
        return Beside(
            shifts.loss,
            log_masses,
            tells,
            shifts.loss_error,
            error + 4 * UNIT_ROUNDOFF * float(np.abs(log_masses).max() + np.abs(shifts.loss).max()),
        )

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K, K', K'' at a real tilt."""
        value, weights = self.tilted(tilt)
        mean = float(weights @ self.losses)
        return value, mean, float(weights @ (self.losses - mean) ** 2)

    def tilted(self, tilt: float) -> tuple[float, FloatArray]:
        """K and v_i at a real tilt."""
        exponents = self.log_masses + tilt * self.losses
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        return top + math.log(total), weights / total

    def rounding(self, tilt: float) -> float:
        """Relative error of e^K v_i."""
        largest = float(np.abs(self.log_masses).max() + abs(tilt) * np.abs(self.losses).max())
        return self.mass_error + 4 * FUNCTION_ERROR + UNIT_ROUNDOFF * (len(self.losses) + 8 * (1 + largest))

    @property
    def blur(self) -> float:
        """Nats: by how much a loss may be off, on the lattice too."""
        return self.loss_error + 8 * UNIT_ROUNDOFF * float(np.abs(self.losses).max())


def few(known: Sequence[tuple[TwoPointPart, int]]) -> list[tuple[TwoPointPart, int]]:
    """As many of the kinds as have at most MOST_LOSSES together, those of the fewest steps first."""
    taken: list[tuple[TwoPointPart, int]] = []
    losses = 1
    for part, count in sorted(known, key=lambda one: one[1]):
        losses *= count + 1 if part.epsilon > 0 else 1
        if losses > MOST_LOSSES:
            break
        taken.append((part, count))
    return taken


@dataclass(frozen=True, slots=True)
class Thresholds:
    """So many, every `stride` nodes of a lattice with spacing `step`."""

    count: int
    stride: int
    step: float


@dataclass(frozen=True, slots=True)
class Between:
    """n_i, f_i and v_i; without any losses beside a lattice one of 0."""

    cells: tuple[int, ...]
    rest: tuple[float, ...]
    weights: tuple[float, ...]

    @staticmethod
    def of(beside: Beside | None, tilt: float, step: float) -> Between:
        """f_i within `blur`."""
        if beside is None:
            return Between((-1,), (step,), (1.0,))
        cells = tuple(math.ceil(loss / step) - 1 for loss in beside.losses)
        rest = tuple(
            min(max(loss - n * step, 0.0), step) for loss, n in zip(beside.losses.tolist(), cells, strict=True)
        )
        return Between(cells, rest, tuple(beside.tilted(tilt)[1].tolist()))

    def mirrored(self, step: float) -> Between:
        """The same seen from above: at or below j h are the indices up to j - n_i - 1, by h - f_i nearer."""
        return Between(tuple(-n - 1 for n in self.cells), tuple(step - rest for rest in self.rest), self.weights)

    def summed(self, sums: FloatArray, begin: int, thresholds: Thresholds, rate: float) -> FloatArray:
        """sum_i v_i e^{-rate f_i} A(begin - n_i + k stride) at every threshold k, of A(j) = sums[j].

        Before the first A decays (nothing is added), after the last it is 0.
        """
        stride, count = thresholds.stride, thresholds.count
        total = np.zeros(count)
        for cell, rest, weight in zip(self.cells, self.rest, self.weights, strict=True):
            first, share = begin - cell, weight * math.exp(-rate * rest)
            inside, end = (min(max(-((first - at) // stride), 0), count) for at in (0, len(sums)))
            if end > inside:
                total[inside:end] += share * sums[first + inside * stride :: stride][: end - inside]
            if inside > 0:
                distance = thresholds.step * (-first - stride * np.arange(inside))
                total[:inside] += share * sums[0] * np.exp(-rate * distance)
        return total
