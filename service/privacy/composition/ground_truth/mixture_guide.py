"""Quadrature nodes for the moments of a mixture of shifted Gaussians, chosen in doubles.

No proof uses these numbers. A poor choice only makes the radius of the result larger.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, final

import numpy as np

from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.mixture_strip import in_doubles, strip_of
from service.privacy.composition.ground_truth.nodes import ShiftedNodes, out_of_reach
from service.privacy.numerics.arrays import FloatArray

LARGEST_POWERS: Final = 600_000
"""Largest count of powers e^{ikhL} in memory. Each takes 100 bytes and about 0.3 microseconds."""
FARTHEST: Final = 60.0
"""Largest y of the regular planning grid. Beyond it the plan only searches for the largest term."""
LARGEST_PLANNING_GRID: Final = 50_000
LARGEST_GROWTH: Final = 150.0
"""Largest excess in nats of the integrand of a majorant over the integrand on the real axis."""
LARGEST_PLANNING_WORK: Final = 4_000_000
"""Largest count of nodes times shifts."""
CHUNK: Final = 4_000
ETAS: Final = 20
"""Count of candidate heights of majorants."""
LARGEST_EXPONENT: Final = 600.0
"""Exponent above which ln x replaces ln(1 + x)."""


@final
class MixtureGuide:
    """Equal steps, `count` of them, that are mixtures of shifted Gaussians, mirrored or not, in doubles.

    At the outcome y, H1 has the density phi a and H0 the density phi b, with the normal density phi. L = ln a - ln b is
    the loss and M(z) = E0 e^{zL} the transform of one step. The class serves to choose contours and nodes. No result
    relies on its numbers.
    """

    def __init__(self, mixture: ExactMixture, count: int) -> None:
        self._strip, self._mirrored, self.count = strip_of(mixture), mixture.mirrored, count
        self._height, self._widest = float(self._strip.height), float(self._strip.widest)
        self._log_weights, self._distances = in_doubles(mixture)
        self._silent = mixture.shifts[0] == 0
        step = min(0.25, 0.35 / math.sqrt(max(float(self._strip.variance), 1e-30)))
        right = FARTHEST + 1.5 * float(self._distances[-1])
        left = right if self._mirrored else FARTHEST
        nodes = (left + right) / step
        if nodes > LARGEST_PLANNING_GRID or nodes * len(self._distances) > LARGEST_PLANNING_WORK:
            raise out_of_reach("the noise of a mixture is too small relative to its shifts.")
        y = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1, dtype=np.float64) * step
        far = np.geomspace(right, max(1e9, 4 * right), 400)
        self._y, self._far = y, np.concatenate([-far[::-1], far])
        self._log_weight = self._log_null(y) + math.log(step / math.sqrt(2 * math.pi))
        self._loss, self._far_loss, self._far_null = self._losses(y), self._losses(self._far), self._log_null(self._far)

    def _log_a(self, y: FloatArray) -> FloatArray:
        """Return ln a(y) in the shape of y, where phi a is the density of H1 with the normal density phi.

        If shift 0 has a weight and terms are not large, ln a is computed from the difference a - 1.
        """
        parts: list[FloatArray] = []
        for at in range(0, len(y), CHUNK):
            v = y[at : at + CHUNK, None] * self._distances - 0.5 * self._distances**2
            found: FloatArray = np.logaddexp.reduce(self._log_weights + v, axis=1)
            if self._silent:
                rise = np.expm1(np.minimum(v, LARGEST_EXPONENT)) @ np.exp(self._log_weights)
                found = np.where(v.max(axis=1) < LARGEST_EXPONENT, np.log1p(rise), found)
            parts.append(found)
        return np.concatenate(parts)

    def _losses(self, y: FloatArray) -> FloatArray:
        """Return the losses L(y) of a step at the outcomes y in nats, in the shape of y."""
        log_a = self._log_a(y)
        return log_a - self._log_a(-y) if self._mirrored else log_a

    def _log_null(self, y: FloatArray) -> FloatArray:
        """Return ln of the density of H0 at the outcomes y up to a constant, in the shape of y."""
        return self._log_a(-y) - 0.5 * y**2 if self._mirrored else -0.5 * y**2

    def _tops(self, shift: float | None) -> FloatArray:
        """Return increasing candidates for the height of the strip that bounds a quadrature error.

        The shape is (120,). In the strip, a set of complex outcomes y, the integrand is analytic. The strip lies above
        the real axis (`shift` None), or on both sides of the line Im y = shift of outcomes y.
        """
        highest = min(0.97 * (self._height - (shift or 0.0)), FARTHEST)
        if shift is not None:
            highest = min(highest, 0.98 * self._widest)
        return np.geomspace(min(0.01, 0.1 * highest), highest, 120)

    @cached_property
    def _searched(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Increasing outcomes y for the search of the largest terms, with the loss and ln of H0's density there.

        The density lacks a constant factor. All arrays have one axis.
        """
        count = max(2401, math.ceil((self._y[-1] - self._y[0]) / 0.1))
        near = np.linspace(float(self._y[0]), float(self._y[-1]), count)
        outside = self._far[np.abs(self._far) > max(self._y[-1], -self._y[0])]
        y = np.concatenate([outside[outside < 0], near, outside[outside > 0]])
        return y, self._losses(y), self._log_null(y)

    def _growth(self, tilt: float, heights: FloatArray) -> FloatArray:
        """Estimate by how many nats the integrand is larger on the lines Im y = `heights` than on the real axis.

        The integrand at an outcome y is the density of H0 times e^{tilt L(y)} for the loss L. Its integral is the
        moment M(tilt) = E0 e^{tilt L}. No result relies on it. The result has the shape of `heights`.
        """
        least = np.log(np.maximum(self._strip.least_in_doubles(heights), 1e-3))
        powers = min(tilt, 0.0) + (min(1 - tilt, 0.0) if self._mirrored else 0.0)
        return 0.5 * heights**2 + powers * least

    def log_moments(self, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ln M(s) at the real tilts s, and the variance of the loss L under the tilted laws.

        The moment M(s) is E0 e^{sL}. Both arrays have the shape of `tilts`.
        """
        joint = tilts[:, None] * self._loss + self._log_weight
        top = joint.max(axis=1)
        weights = np.exp(joint - top[:, None])
        total = weights.sum(axis=1)
        mean = weights @ self._loss / total
        variance = np.maximum(weights @ self._loss**2 / total - mean**2, 0.0)
        far = (tilts[:, None] * self._far_loss + self._far_null).max(axis=1)
        return np.logaddexp(top + np.log(total), far), variance

    def line_nodes(self, tilt: float, need: float, fineness: float, offset: float) -> tuple[ShiftedNodes, float]:
        """Return nodes for M(tilt + it) on a contour, with an error of about e^-need M(tilt), and the cancelled nats.

        M is the moment-generating function of one step, and the cancelled nats are ln of the largest terms over their
        sum. `fineness` multiplies the distance of the nodes, and `offset` shifts them by a share of that distance.
        """
        tops = self._tops(None)
        growth = self._growth(tilt, tops)
        step = 2 * math.pi * tops / (2 * need + growth)
        best = int(step.argmax())
        top = float(tops[best])
        shift = top * need / (2 * need + float(growth[best]))
        cancels = float(self._growth(tilt, np.array([shift]))[0])
        return self._nodes(tilt, need + cancels, float(step[best]) * fineness, offset, shift, top), cancels

    def real_nodes(self, tilt: float, need: float, shift: float = 0.0) -> ShiftedNodes:
        """Return nodes on the real axis for the moment M(tilt) = E0 e^{tilt L} with the relative error e^-need.

        L is the loss. With `shift` the nodes serve the sum whose integrand is taken at Im y = shift for the outcome y.
        """
        tops = self._tops(shift)
        growth = self._growth(tilt, tops + shift)
        step = 2 * math.pi * tops / (need + growth)
        best = int(step.argmax())
        room = need + float(self._growth(tilt, np.array([shift]))[0])
        return self._nodes(tilt, room, float(step[best]), 0.0, 0.0, float(tops[best]))

    def _nodes(self, tilt: float, depth: float, step: float, offset: float, shift: float, top: float) -> ShiftedNodes:
        """Return the nodes at which phi b e^{tilt L} exceeds e^-depth of its largest value.

        phi b is the density of H0 with the normal density phi and L the loss. The nodes are y = (j + `offset`) `step`
        on the line Im y = `shift`. `top` is the height of the strip that bounds the error, and `tilt` the real tilt.
        Raises UnsupportedCombination if there would be too many nodes.
        """
        y, loss, log_null = self._searched
        exponent = tilt * loss + log_null
        kept = y[exponent > exponent.max() - depth - 3]
        if max(kept[-1], -kept[0]) > 1e8 or (kept[-1] - kept[0]) / step > LARGEST_POWERS:
            raise out_of_reach("an inner sum needs too many nodes.")
        left = 0.05 if -kept[0] <= FARTHEST else -0.05 * float(kept[0])
        right = 0.05 if kept[-1] < FARTHEST else 0.05 * float(kept[-1])
        first = math.floor((min(float(kept[0]), -2.0) - left) / step) - 1
        last = math.ceil((max(float(kept[-1]), 2.0) + right) / step) + 1
        return ShiftedNodes(step, offset, first, last, shift, top)

    @cached_property
    def _turned(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Heights eta, and ln |A| and arg A of A = a(y + i eta)/a(y) at the nodes y, shape (heights, nodes).

        phi a is the density of H1 with the normal density phi.
        """
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

    def log_majorant(self, tilt: float, height: float) -> tuple[float, float]:
        """Return `(ln(B_eta(height)/M(tilt)), eta)`, about the smallest over a few eta.

        B_eta(height) bounds |M(tilt + it)| for all t >= height, by an integral on the path Im y = eta. M is the
        transform of one step.
        """
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
