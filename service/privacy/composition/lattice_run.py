"""The composition of lattice laws at one tilt, by the discrete Fourier transform, with every error bounded.

Tilted masses m_k = P_k e^{theta k h - K} of a run add up to 1; those of the composition are the inverse transform of the
product of the steps' transforms, each to the power of its count. Errors, all absolute beside that 1:

- a transform of n non-negative numbers has error <= 8 u log2(n) times their sum at every frequency (each term passes log2 n
  products and sums); to the power N it is N times as much, where the transform has not decayed;
- mass outside the window of n cells wraps around: Chernoff bounds it on both sides (`overflow`).

Sums over the composed law are taken relative to e^{K - theta c} near the threshold c, where they are of order one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.composition.lattice_law import LatticeLaw
from service.privacy.enclosure import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums

_TRANSFORM_ERROR = 8 * UNIT_ROUNDOFF
"""Per level of a fast Fourier transform, relative to the sum of what is transformed."""

_REACH = 2.6
"""Thresholds are read within this many standard deviations of the tilted loss around its mean."""

_CHERNOFF_DISTANCES = (1.5, 3.0, 5.0, 8.0, 12.0)
"""Tilts, over 1/deviation away, at which mass outside the window is bounded."""

_OVERFLOW_GOAL = 44.0
"""Nats: mass outside the window is about e^-goal."""


@dataclass(frozen=True, slots=True)
class CountedLaw:
    """A step's law on the lattice, and how often the step is taken."""

    law: LatticeLaw
    count: int

    def log_moment(self, tilt: float, step: float) -> tuple[float, float, float]:
        """K, K', K'' of all these steps at a real tilt (`infinite` left out)."""
        losses = self.law.losses(step)
        exponents = tilt * losses
        top = float(exponents[self.law.masses > 0].max())
        weights = self.law.masses * np.exp(np.minimum(exponents - top, 0.0))
        total = float(weights.sum())
        mean = float(weights @ losses) / total
        variance = float(weights @ (losses - mean) ** 2) / total
        return self.count * (top + math.log(total)), self.count * mean, self.count * variance


@dataclass(frozen=True, slots=True)
class Window:
    """Cells start <= k < start + size of the composed loss less its offset, and a bound of the tilted mass outside."""

    start: int
    size: int
    overflow: float


def tilted_cumulants(laws: tuple[CountedLaw, ...], tilt: float, step: float) -> tuple[float, float, float]:
    """K, K', K'' of the run at a real tilt."""
    parts = [law.log_moment(tilt, step) for law in laws]
    return tuple(map(math.fsum, zip(*parts, strict=True)))  # type: ignore[return-value]


def total_offset(laws: tuple[CountedLaw, ...]) -> float:
    """Of the lattice of the composition."""
    return math.fsum(counted.count * counted.law.offset for counted in laws)


def window(laws: tuple[CountedLaw, ...], tilt: float, step: float) -> Window:
    """The smallest window outside which the tilted mass is about e^-44, and the bound that was reached."""
    value, mean, variance = tilted_cumulants(laws, tilt, step)
    deviation = max(math.sqrt(max(variance, 0.0)), step)
    sides: list[float] = []
    for sign in (-1.0, 1.0):
        ends: list[float] = []
        for distance in _CHERNOFF_DISTANCES:
            shift = sign * distance / deviation
            there = tilted_cumulants(laws, tilt + shift, step)[0]
            # e^{K(s) - K(theta) - (s - theta) x} <= e^-goal
            ends.append((there - value + _OVERFLOW_GOAL) / shift)
        sides.append(min(ends) if sign > 0 else max(ends))
    low, high = (side - total_offset(laws) for side in sides)
    start, end = math.floor(low / step) - 1, math.ceil(high / step) + 1
    size = _fast_length(max(end - start + 1, 16))
    slack = 1e-9 + 1e-12 * abs(value)  # far above the rounding of the two cumulants
    return Window(start, size, 2 * math.exp(-_OVERFLOW_GOAL + slack))


def _fast_length(size: int) -> int:
    """The next length of the form 2^a or 3 2^a."""
    power = 1 << (size - 1).bit_length()
    return 3 * power // 4 if 3 * power // 4 >= size else power


class LatticeLine:
    """A run of lattice laws composed at one tilt: sums over the law near its tilted mean.

    `center`: the lattice index nearest to the mean; `low`, `high`: the indices that are read. All sums are on scales
    e^{K - theta c} (alpha and 1 - alpha) or e^{K - (theta - 1) c} (power, beta, profile, ...) of the threshold c, and come
    with one absolute error per kind.
    """

    def __init__(self, laws: tuple[CountedLaw, ...], theta: float, step: float, chosen: Window) -> None:
        self.theta, self.step = theta, step
        self.value, mean, variance = tilted_cumulants(laws, theta, step)
        self.deviation = math.sqrt(max(variance, 0.0))
        self._offset = total_offset(laws)
        self.center = round((mean - self._offset) / step)
        reach = math.ceil(_REACH * self.deviation / step) + 2
        last = chosen.start + chosen.size - 1
        self.low, self.high = max(self.center - reach, chosen.start), min(self.center + reach, last - 1)
        self._masses, self._noise = _composed(laws, theta, step, chosen)
        self._start, self._overflow = chosen.start, chosen.overflow
        # Exponents and masses of every step are rounded: a factor of the law, like its slack.
        largest = max(abs(theta * step) * max(abs(law.law.first), len(law.law.masses)) for law in laws)
        total = math.fsum(law.count for law in laws)
        each = 2 * FUNCTION_ERROR + UNIT_ROUNDOFF * (40 + 4 * min(largest, 700.0))
        self.log_rounding = 2 * total * each + running_sum_error(chosen.size) + 8 * UNIT_ROUNDOFF * abs(self.value)

    @property
    def thresholds(self) -> FloatArray:
        """The losses that are read."""
        return self._offset + np.arange(self.low, self.high + 1) * self.step

    def above(self, rate: float) -> FloatArray:
        """sum_{k > j} m_k e^{-rate (k - j) h} for the indices j read (rate > 0)."""
        masses = self._masses[self.low - self._start :]
        places = np.arange(len(masses))
        decay = np.exp(-np.minimum(rate * self.step * places, 700.0))
        sums = running_sums((masses * decay)[::-1])[::-1]
        read = self.high - self.low + 1
        return np.concatenate([sums[1:], [0.0]])[:read] / decay[:read]

    def below(self, rate: float) -> FloatArray:
        """sum_{k <= j} m_k e^{-rate (j - k) h} for the indices j read (rate > 0)."""
        masses = self._masses[: self.high - self._start + 1]
        places = np.arange(len(masses))[::-1]
        decay = np.exp(-np.minimum(rate * self.step * places, 700.0))
        sums = running_sums(masses * decay)
        read = self.high - self.low + 1
        return sums[-read:] / decay[-read:]

    def error(self, rate: float) -> float:
        """Absolute error of the sums with this rate: noise in every cell, wrapped mass, and rounding of the sums."""
        cells = min(1 / -math.expm1(-rate * self.step), float(len(self._masses)))
        return self._overflow + (self._noise + 2 * UNIT_ROUNDOFF / len(self._masses)) * cells + 1e-300


def _composed(laws: tuple[CountedLaw, ...], theta: float, step: float, chosen: Window) -> tuple[FloatArray, float]:
    """The tilted masses of the composition over the window, and a bound of the error of each."""
    n = chosen.size
    log_power = np.zeros(n // 2 + 1, dtype=np.complex128)
    relative = np.zeros(n // 2 + 1)
    levels = math.log2(n) + 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for counted in laws:
            transform = np.fft.rfft(_wrapped(counted.law, theta, step, n))
            size = np.abs(transform)
            logarithm = np.log(size) + 1j * np.angle(transform)
            log_power += counted.count * logarithm
            error = np.log1p(_TRANSFORM_ERROR * levels / size)
            relative += counted.count * (error + 8 * UNIT_ROUNDOFF * (2 + np.abs(logarithm)))
        composed = np.exp(log_power)
        composed = np.where(np.isfinite(composed), composed, 0.0)
        size = np.abs(composed)
        # |F^N - computed| <= |computed| ((1 + error)^N - 1); where that is not small, |F^N| itself, which is at most 1.
        rough = np.exp(np.minimum(log_power.real + relative, 0.0)) + size
        bound = np.where(relative < 1, size * np.expm1(np.minimum(relative, 1.0)), rough)
        bound = np.where(np.isnan(bound), 1.0, bound)
    # All but the first frequency (and the middle one of an even length) stand for two.
    noise = (2 * float(bound.sum()) + _TRANSFORM_ERROR * levels * 2 * float(size.sum())) / n
    masses = np.fft.irfft(composed, n)
    return np.roll(masses, -(chosen.start % n)), noise


def _wrapped(law: LatticeLaw, theta: float, step: float, n: int) -> FloatArray:
    """Tilted masses with sum 1 at their indices modulo n."""
    exponents = theta * law.losses(step)
    top = float(exponents[law.masses > 0].max())
    weights = law.masses * np.exp(np.minimum(exponents - top, 0.0))
    weights /= weights.sum()
    rounds = -(-(len(weights) + n) // n)
    padded = np.zeros(rounds * n)
    offset = law.first % n
    padded[offset : offset + len(weights)] = weights
    return padded.reshape(rounds, n).sum(axis=0)
