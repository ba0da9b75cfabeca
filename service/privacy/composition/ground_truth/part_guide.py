"""How finely the moments of one kind of steps are to be summed: chosen in doubles. Nothing is proved from these
numbers; a poor choice only makes the radius of the result larger.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.ground_truth.nodes import ShiftedNodes, out_of_reach
from service.privacy.numerics.arrays import FloatArray

LARGEST_POWERS: Final = 600_000
"""Powers e^{ikhL} kept at once: they bound memory (100 bytes each) and take about 0.3 microseconds each."""
FARTHEST: Final = 60.0
"""Beyond this y the planner only looks for the largest term."""
LARGEST_PLANNING_GRID: Final = 50_000
LARGEST_GROWTH: Final = 150.0
"""Nats by which the integrand of a majorant may exceed the one on the real line."""
_ETA_FACTORS = np.array([0.3, 0.5, 0.65, 0.8, 0.95, 1.2, 1.6, 3.0, 10.0])


class PartGuide(ABC):
    """`count` steps of one kind. `near`: nodes y of sums, with ln of their weights under H0; `far`: places beyond."""

    def __init__(self, count: int, near: FloatArray, log_weight: FloatArray, far: FloatArray) -> None:
        self.count, self._y, self._log_weight, self._far = count, near, log_weight, far
        self._loss, self._far_loss, self._far_null = self._losses(near), self._losses(far), self._log_null(far)

    @abstractmethod
    def _losses(self, y: FloatArray) -> FloatArray:
        """L(y)."""

    @abstractmethod
    def _log_null(self, y: FloatArray) -> FloatArray:
        """ln of the density of H0, but for a constant."""

    @abstractmethod
    def _growth(self, tilt: float, heights: FloatArray) -> FloatArray:
        """Nats by which the integrand may exceed the one on the real line, at these heights."""

    @abstractmethod
    def _tops(self, shift: float | None) -> FloatArray:
        """Heights of strips to choose from, ascending: above the real line (None), or about a line at Im y = shift."""

    @abstractmethod
    def _places(self) -> FloatArray:
        """Where the largest terms are looked for, ascending."""

    @cached_property
    def _searched(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """These places, with the loss and ln of the density of H0 there."""
        y = self._places()
        return y, self._losses(y), self._log_null(y)

    @abstractmethod
    def log_majorant(self, tilt: float, height: float) -> tuple[float, float]:
        """About the least ln(B_eta(height)/M(tilt)) over a few eta, and that eta."""

    @final
    def log_moments(self, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """ln M at real tilts, and the variance of L under the tilted laws."""
        joint = tilts[:, None] * self._loss + self._log_weight
        top = joint.max(axis=1)
        weights = np.exp(joint - top[:, None])
        total = weights.sum(axis=1)
        mean = weights @ self._loss / total
        variance = np.maximum(weights @ self._loss**2 / total - mean**2, 0.0)
        far = (tilts[:, None] * self._far_loss + self._far_null).max(axis=1)
        return np.logaddexp(top + np.log(total), far), variance

    @final
    def line_nodes(self, tilt: float, need: float, fineness: float, offset: float) -> tuple[ShiftedNodes, float]:
        """Nodes for an error e^-need of M on a line, and the nats that cancel in the sum."""
        tops = self._tops(None)
        growth = self._growth(tilt, tops)
        step = 2 * math.pi * tops / (2 * need + growth)
        best = int(step.argmax())
        top = float(tops[best])
        shift = top * need / (2 * need + float(growth[best]))
        cancels = float(self._growth(tilt, np.array([shift]))[0])
        return self._nodes(tilt, need + cancels, float(step[best]) * fineness, offset, shift, top), cancels

    @final
    def real_nodes(self, tilt: float, need: float, shift: float = 0.0) -> ShiftedNodes:
        """Nodes of a sum on the real line with relative error e^-need, for the integrand at Im y = shift."""
        tops = self._tops(shift)
        growth = self._growth(tilt, tops + shift)
        step = 2 * math.pi * tops / (need + growth)
        best = int(step.argmax())
        room = need + float(self._growth(tilt, np.array([shift]))[0])
        return self._nodes(tilt, room, float(step[best]), 0.0, 0.0, float(tops[best]))

    def _nodes(self, tilt: float, depth: float, step: float, offset: float, shift: float, top: float) -> ShiftedNodes:
        """The nodes at which phi b e^{tilt L} exceeds e^-depth of its largest value."""
        y, loss, log_null = self._searched
        exponent = tilt * loss + log_null
        kept = y[exponent > exponent.max() - depth - 3]
        if max(kept[-1], -kept[0]) > 1e8 or (kept[-1] - kept[0]) / step > LARGEST_POWERS:
            raise out_of_reach("an inner sum would need too many nodes.")
        left = 0.05 if -kept[0] <= FARTHEST else -0.05 * float(kept[0])
        right = 0.05 if kept[-1] < FARTHEST else 0.05 * float(kept[-1])
        first = math.floor((min(float(kept[0]), -2.0) - left) / step) - 1
        last = math.ceil((max(float(kept[-1]), 2.0) + right) / step) + 1
        return ShiftedNodes(step, offset, first, last, shift, top)


@final
class SampledGaussianGuide(PartGuide):
    """A Poisson-sampled Gaussian step."""

    def __init__(self, sigma: float, rate: float, count: int) -> None:
        self.sigma, self.rate = sigma, rate
        step = min(0.25, 0.5 * sigma)
        if 2 * FARTHEST / step > LARGEST_PLANNING_GRID:
            raise out_of_reach("the noise of a sampled step is too small.")
        y = np.arange(-FARTHEST, FARTHEST, step)
        log_weight = -0.5 * y**2 + math.log(step / math.sqrt(2 * math.pi))
        super().__init__(count, y, log_weight, np.geomspace(FARTHEST, 1e9, 400))
        exponent = y / sigma - 0.5 / sigma**2 + math.log(rate) - self._loss
        self._share = np.exp(np.minimum(exponent, 0.0))

    @override
    def _losses(self, y: FloatArray) -> FloatArray:
        v = y / self.sigma - 0.5 / self.sigma**2
        near = np.log1p(self.rate * np.expm1(np.minimum(v, 600.0)))
        return np.where(v > 600.0, v + math.log(self.rate), near)

    @override
    def _log_null(self, y: FloatArray) -> FloatArray:
        return -0.5 * y**2

    @override
    def _tops(self, shift: float | None) -> FloatArray:
        highest = 0.97 if shift is None else 0.49
        return np.geomspace(0.01, min(highest * math.pi * self.sigma, FARTHEST), 120)

    @override
    def _places(self) -> FloatArray:
        return np.concatenate([np.linspace(-FARTHEST, FARTHEST, 2401), self._far])

    @override
    def _growth(self, tilt: float, heights: FloatArray) -> FloatArray:
        bent = np.log(np.cos(np.minimum(heights / (2 * self.sigma), 1.57)))
        return 0.5 * heights**2 + min(tilt, 0.0) * bent

    @override
    def log_majorant(self, tilt: float, height: float) -> tuple[float, float]:
        weights = np.exp(np.minimum(tilt * self._loss + self._log_weight, 600.0))
        share = float(weights @ self._share / weights.sum())
        widest = min(0.45 * math.pi * self.sigma, 16.0)
        if tilt < 0:  # where |w|^tilt grows by LARGEST_GROWTH at most
            widest = min(widest, 2 * self.sigma * math.acos(math.exp(LARGEST_GROWTH / tilt)))
        eta = np.minimum(_ETA_FACTORS * height * share / self.sigma, widest)
        half = (0.5 * eta / self.sigma)[:, None]
        sine = np.sin(half) ** 2
        r = self._share
        argument = np.arctan2(r * np.sin(2 * half), 1 - 2 * r * sine)
        modulus = 0.5 * np.log1p(np.maximum(-4 * r * (1 - r) * sine, -1 + 1e-15))
        exponent = self._log_weight + tilt * (self._loss + modulus) - height * argument
        top = exponent.max(axis=1)
        value = top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)) + 0.5 * eta**2
        best = int(value.argmin())
        return float(value[best] - self.log_moments(np.array([tilt]))[0][0]), float(eta[best])
