"""How finely the moments of a mixture of shifted Gaussians are to be summed: chosen in doubles (`part_guide.py`)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.mixture_strip import in_doubles, strip_of
from service.privacy.composition.ground_truth.nodes import out_of_reach
from service.privacy.composition.ground_truth.part_guide import (
    FARTHEST,
    LARGEST_GROWTH,
    LARGEST_PLANNING_GRID,
    PartGuide,
)
from service.privacy.numerics.arrays import FloatArray

LARGEST_PLANNING_WORK: Final = 4_000_000
"""Nodes times shifts."""
CHUNK: Final = 4_000
ETAS: Final = 20
"""Heights of majorants to choose from."""


@final
class MixtureGuide(PartGuide):
    """Mixtures of shifted Gaussians, mirrored or not."""

    def __init__(self, mixture: ExactMixture, count: int) -> None:
        strip = strip_of(mixture)
        self._height, self._variance = float(strip.height), float(strip.variance)
        self._mirrored = mixture.mirrored
        self._log_weights, self._distances = in_doubles(mixture)
        step = min(0.25, 0.35 / math.sqrt(max(self._variance, 1e-30)))
        right = FARTHEST + 1.5 * float(self._distances[-1])
        left = right if self._mirrored else FARTHEST
        nodes = (left + right) / step
        if nodes > LARGEST_PLANNING_GRID or nodes * len(self._distances) > LARGEST_PLANNING_WORK:
            raise out_of_reach("the noise of a mixture is too small beside its shifts.")
        y = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1, dtype=np.float64) * step
        log_weight = self._log_null(y) + math.log(step / math.sqrt(2 * math.pi))
        far = np.geomspace(right, max(1e9, 4 * right), 400)
        super().__init__(count, y, log_weight, np.concatenate([-far[::-1], far]))

    def _log_a(self, y: FloatArray) -> FloatArray:
        base, d = self._log_weights - 0.5 * self._distances**2, self._distances
        parts = [np.logaddexp.reduce(base + y[at : at + CHUNK, None] * d, axis=1) for at in range(0, len(y), CHUNK)]
        return np.concatenate(parts)

    @override
    def _losses(self, y: FloatArray) -> FloatArray:
        log_a = self._log_a(y)
        return log_a - self._log_a(-y) if self._mirrored else log_a

    @override
    def _log_null(self, y: FloatArray) -> FloatArray:
        return self._log_a(-y) - 0.5 * y**2 if self._mirrored else -0.5 * y**2

    @override
    def _tops(self, shift: float | None) -> FloatArray:
        highest = min(0.97 * (self._height - (shift or 0.0)), FARTHEST)
        return np.geomspace(min(0.01, 0.1 * highest), highest, 120)

    @override
    def _places(self) -> FloatArray:
        count = max(2401, math.ceil((self._y[-1] - self._y[0]) / 0.1))
        near = np.linspace(float(self._y[0]), float(self._y[-1]), count)
        outside = self._far[np.abs(self._far) > max(self._y[-1], -self._y[0])]
        return np.concatenate([outside[outside < 0], near, outside[outside > 0]])

    @override
    def _growth(self, tilt: float, heights: FloatArray) -> FloatArray:
        least = np.log(np.maximum(1 - 0.5 * heights**2 * self._variance, 1e-3))
        return 0.5 * heights**2 + self._powers(tilt) * least

    def _powers(self, tilt: float) -> float:
        return min(tilt, 0.0) + (min(1 - tilt, 0.0) if self._mirrored else 0.0)

    @cached_property
    def _turned(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Heights eta, and ln |A|, arg A of a at the nodes, shape (eta, nodes)."""
        largest = min(0.6 * self._height, 16.0)
        eta = np.geomspace(3e-3 * largest, largest, ETAS)
        modulus, argument = np.zeros((2, ETAS, len(self._y)))
        for at in range(0, len(self._y), CHUNK):
            part = slice(at, at + CHUNK)
            exponent = self._log_weights - 0.5 * self._distances**2 + self._y[part, None] * self._distances
            share = np.exp(exponent - np.logaddexp.reduce(exponent, axis=1)[:, None])
            mean = share @ self._distances
            turned = np.exp(1j * eta[:, None] * self._distances) @ share.T
            modulus[:, part] = np.log(np.maximum(np.abs(turned), 1e-30))
            center = eta[:, None] * mean
            argument[:, part] = center + np.angle(turned * np.exp(-1j * center))
        return eta, modulus, argument

    @override
    def log_majorant(self, tilt: float, height: float) -> tuple[float, float]:
        eta, modulus, argument = self._turned
        if self._mirrored:
            size = tilt * modulus + (1 - tilt) * modulus[:, ::-1]
            argument = argument + argument[:, ::-1]
        else:
            size = tilt * modulus
        exponent = self._log_weight + tilt * self._loss + size - height * argument
        top = exponent.max(axis=1)
        value = top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)) + 0.5 * eta**2
        value = np.where(self._growth(tilt, eta) < LARGEST_GROWTH, value, np.inf)
        best = int(value.argmin())
        return float(value[best] - self.log_moments(np.array([tilt]))[0][0]), float(eta[best])
