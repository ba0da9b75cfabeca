"""Approximate law of the privacy loss of a run under H0, on a lattice.

It decides where contours (paths of inversion integrals) are laid out first. No bound depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from service.privacy.composition.inversion.deformed.paths import ComplexArray
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import FloatArray

_CELLS = 1 << 14
_SCORES = np.linspace(-14.0, 14.0, 11_201)
"""Boundaries of the cells of the normal law of one step."""

_LEFTMOST = -9.0
"""First of these boundaries for steps whose law is normal."""

_FINE = 8.0
"""Size of a loss in cells up to which three cumulants represent it: on nodes it would vary too much."""

_BELOW, _ABOVE = 12.0, 4.0
"""Range of the lattice: deviations of the core below its mean, and multiples of a first guess's distance above."""

_SMOOTH = 2.7
"""Cells by which the law is smoothed, because a core narrower than a cell would oscillate."""

_FULL = 0.75
"""Share of the lattice at which larger jumps are placed."""

_LEAST = 1e-13
"""Smallest tail above the rounding."""


def rough_threshold(
    steps: Sequence[SampledStep], gaussian_mu_squared: float, alpha: float, core: tuple[float, float], guess: float
) -> float:
    """Return the approximate c with P0(S > c) = alpha, in nats, or NaN.

    S is the privacy loss of a run: the `steps`, and a Gaussian part of total mu^2 = `gaussian_mu_squared`. `core` is
    the mean and standard deviation of S without far jumps. `guess` is a threshold not far below c. A jump is the large
    loss of a step. The result is NaN where the lattice does not reach c, or alpha is at most 1e-13.
    """
    mean, deviation = core
    low, high = mean - _BELOW * deviation, mean + max(_ABOVE * max(guess - mean, -mean), _BELOW * deviation)
    if not (alpha > _LEAST and high > low and math.isfinite(high - low)):
        return math.nan
    cell = (high - low) / (_CELLS - 1)
    if not cell > 0:
        return math.nan
    turns = 2 * math.pi / _CELLS * np.arange(_CELLS // 2 + 1, dtype=np.float64)
    start = (0.5 * gaussian_mu_squared + low) / cell
    spectrum = np.exp(1j * turns * start - 0.5 * (gaussian_mu_squared / cell**2 + _SMOOTH**2) * turns**2)
    for step in steps:
        spectrum = spectrum * _spectrum(step, cell, turns) ** step.count
    law = np.fft.irfft(spectrum, _CELLS)
    return low + cell * _quantile(np.cumsum(law[::-1])[::-1], alpha)


def _spectrum(step: SampledStep, cell: float, turns: FloatArray) -> ComplexArray:
    """Return the Fourier transform of the law of one step's loss, in units of a lattice cell, at angles in radians.

    `cell` is the width of a cell in nats. `turns` are the angles, and the result has their shape.
    """
    ends = _SCORES if step.mirrored else _SCORES[_SCORES >= _LEFTMOST]
    mass = _normal_masses(ends)
    if step.mirrored:
        mass = (1 - step.rate) * mass + step.rate * _normal_masses(ends + 1 / step.sigma)
    loss = step.loss(0.5 * (ends[1:] + ends[:-1]) / step.sigma + step.mean) / cell
    far = np.abs(loss) > _FINE
    core, near = float(mass[~far].sum()), loss[~far]
    mean, variance, third = 0.0, 0.0, 0.0
    if core > 0:
        mean = float(mass[~far] @ near) / core
        variance, third = (float(mass[~far] @ (near - mean) ** power) / core for power in (2, 3))
    position = np.clip(loss[far], -0.5 * (1 - _FULL) * _CELLS, _FULL * _CELLS)
    left = np.floor(position)
    share, node = position - left, left.astype(np.intp)
    law = np.bincount(node % _CELLS, mass[far] * (1 - share), _CELLS)
    law += np.bincount((node + 1) % _CELLS, mass[far] * share, _CELLS)
    phase = turns * mean - third * turns**3 / 6
    return np.fft.rfft(law) + core * np.exp(-1j * phase - 0.5 * variance * turns**2)


def _normal_masses(ends: FloatArray) -> FloatArray:
    low, high = ends[:-1], ends[1:]
    return np.where(low * high < 0, ndtr(high) - ndtr(low), np.abs(ndtr(-np.abs(high)) - ndtr(-np.abs(low))))


def _quantile(tail: FloatArray, alpha: float) -> float:
    """Return the position, in lattice cells, at which a tail probability falls to `alpha`, or NaN where unreliable.

    `tail` has P(S >= node) for all nodes of the lattice of the loss S. Logarithms are interpolated.
    """
    at = int(np.argmax(tail < alpha))
    if not (0 < at < _FULL * _CELLS and tail[at] > 0.1 * alpha):
        return math.nan
    before, after = math.log(tail[at - 1] / alpha), math.log(tail[at] / alpha)
    return at - 0.5 - after / (after - before)
