"""Majorants of |M| of mixtures of shifted Gaussians: what `gaussian_mixture_line.py` prepares, at given heights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import did

_A_TERM = 0.03
"""Work of a node of a strip at a height, in microseconds, roughly."""


@dataclass(frozen=True, slots=True)
class MajorantStrips:
    """Majorants on lines Im x = eta: B_eta(t)/M(theta) <= e^{eta^2/2} (sum e^{log_terms - t turn} + errors)."""

    eta: FloatArray
    turn: FloatArray
    log_terms: FloatArray
    strip_turn: FloatArray
    log_strip: FloatArray
    """The strip error at a height t of the line: sum e^{log_strip - t strip_turn}."""
    log_ends: FloatArray
    """ln of the size of the integrand half a cell from each node, in terms, and"""
    end_rates: FloatArray
    """how fast D changes there with the height."""
    sizes: FloatArray
    """The integrals over the cells on the real axis."""
    middle: int
    width: FloatArray
    step: FloatArray

    def log_bounds(self, heights: FloatArray) -> FloatArray:
        """ln B_eta(t)/M(theta) from above, at most 0, shape (H, E, parts).

        The path goes up to eta at one node J and down at another, where D >= 0: eta/h terms each. Outside of them it
        stays on the real axis, where far jumps may turn too fast for the step. The sides of the sum's rectangle there
        are bounded as those of a line's strips. The best J serves on either side.
        """
        did(_A_TERM * len(heights) * self.log_terms.size)
        t = heights[:, None, None, None]
        summed = np.exp(self.log_terms - t * self.turn).sum(axis=-1) * (1 + 1e-12)
        strip = np.exp(np.minimum(self.log_strip - t * self.strip_turn, 600.0)).sum(axis=-1)
        q, h = self.width[..., None], self.step[:, None]
        excess = q * np.maximum(t * self.end_rates + 0.5 * q - 1.5 * math.pi / h, 0.0)
        share = 1.3 + 2 * q / h * (excess > 0) + self.eta[..., None] / h
        sides = share * np.exp(self.log_ends + excess)
        ends = least_ends(np.zeros_like(sides), sides, self.sizes, self.middle)
        bounds = np.log(summed + strip + ends) + 0.5 * self.eta**2 + 1e-12
        return np.fmin(np.where(np.isnan(bounds), 0.0, bounds), 0.0)


def least_ends(inside: FloatArray, sides: FloatArray, beyond: FloatArray, middle: int) -> FloatArray:
    """The least of `inside` up to a node, the side there, and what is beyond, on the left of the middle node and on its
    right; nodes along the last axis.
    """
    left, right = slice(middle, None, -1), slice(middle, None)
    return sum(
        (_least_end(inside[..., part], sides[..., part], beyond[..., part]) for part in (left, right)),
        np.zeros(inside.shape[:-1]),
    )


def _least_end(inside: FloatArray, side: FloatArray, beyond: FloatArray) -> FloatArray:
    """The least of inside up to a node, the side there, and what is beyond; nodes along the last axis."""
    rest = np.zeros_like(beyond)
    rest[..., :-1] = np.cumsum(beyond[..., :0:-1], axis=-1)[..., ::-1]
    return np.fmin.reduce(np.cumsum(inside, axis=-1) + side + rest, axis=-1)
