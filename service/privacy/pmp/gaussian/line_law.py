"""Law of a noisy sum of a random subset of numbers, with and without one of them, by Fourier sums with error bounds.

Without x the sum is over a uniform n-subset of the other numbers. The characteristic function of the sum at w is [z^n]
prod (1 + z e^(i w f))/C(N - 1, n), a product over the numbers f. With x the sum is over an (n - 1)-subset plus x. The
coefficient [z^n] is a mean over roots of unity. The mean is exact up to rounding, because there are more roots than
factors. A window holds all but 2 e^-42 of each law. The Fourier series of the periodised density gives the mass of {y >
t} within that and rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

LOG_OUTSIDE = 43.0
OUTSIDE = 4 * math.exp(-42.0)
LARGEST_FREQUENCY = 9.2
"""Frequency at which the characteristic function of the noise, e^(-w^2/2), is below 1e-18."""
MOST_FREQUENCIES, LARGEST_NUMBERS, LARGEST_WORK = 4096, 2**21, 200_000_000
"""Limits of the frequencies, of their product with the roots of unity, and of that product times the numbers."""
THRESHOLDS, REFINEMENTS = 256, 4

Ends = tuple[FloatArray, FloatArray]
ComplexArray = NDArray[np.complex128]


def half_line_exposure(values: FloatArray, size: int, point: int, error: float, delta: float) -> float | None:
    """Compute a lower bound of the largest ln((P(S) - delta)/Q(S)) over half-lines S and both orders of P and Q.

    PMP is practical membership privacy: the attacker does not know which records were drawn.

    Parameters
    ----------
    values : array, shape (N,)
        Positions of the points on a line, in standard deviations of the noise.
    size : int
        Number n of summands.
    point : int
        Index of the point x.
    error : float
        Bound of the absolute error of any sum of `size` of the `values`.
    delta : float
        delta of (epsilon, delta)-PMP.

    Returns
    -------
    float or None
        Lower bound of epsilon in nats, at least 0. None if N^2 or the size of the Fourier sums exceeds a limit.

    Notes
    -----
    P and Q are the laws of a sum of `size` of the values with and without x, plus standard normal noise. The masses are
    accurate within about 1e-10.
    """
    if len(values) ** 2 > LARGEST_WORK:
        return None
    own, others = float(values[point]), np.delete(values, point)
    centres = own + (size - 1) * float(others.mean()), size * float(others.mean())
    moments = _LogMoments(others)
    reaches = moments.reach(size - 1), moments.reach(size)
    error += 16 * size * UNIT_ROUNDOFF * float(np.abs(values).max())
    low = min(centre - reach for centre, reach in zip(centres, reaches, strict=True)) - error
    high = max(centre + reach for centre, reach in zip(centres, reaches, strict=True)) + error
    count = math.ceil(LARGEST_FREQUENCY * (high - low) / (2 * math.pi))
    roots = 2 ** math.ceil(math.log2(len(values) + 1))
    held = count * roots
    if count > MOST_FREQUENCIES or held > LARGEST_NUMBERS or held * len(values) > LARGEST_WORK:
        return None
    laws = _noisy_sums(others, size, 2 * math.pi / (high - low) * np.arange(1.0, count + 1), roots)
    with_point, without = (
        _LineLaw((low, high), centre, laws.frequencies, law, laws.rounding)
        for centre, law in zip(centres, laws.characteristic, strict=True)
    )
    found, middle, reach = 0.0, 0.5 * (low + high), 0.5 * (high - low)
    for _ in range(REFINEMENTS):
        thresholds = np.linspace(middle - reach, middle + reach, THRESHOLDS)
        exposures = _exposures(with_point.above(thresholds, error), without.above(thresholds, error), delta)
        best = int(exposures.argmax())
        found, middle, reach = max(found, float(exposures[best])), float(thresholds[best]), 4 * reach / THRESHOLDS
    return found


def _exposures(with_point: Ends, without: Ends, delta: float) -> FloatArray:
    """Return the best lower bound of the epsilon (nats) of (epsilon, `delta`)-PMP for each threshold, at least 0.

    `with_point` and `without` have bounds of the mass above each threshold, under the laws with and without the point.
    The bound is the largest ln((P(S) - delta)/Q(S)). S is a half-line above or below the threshold, and P and Q are the
    two laws in either order. PMP is practical membership privacy: the attacker does not know which records were drawn.
    """
    found = np.zeros_like(with_point[0])
    for one, other in ((with_point, without), (without, with_point)):
        for least, most in ((one[0], other[1]), (1 - one[1], 1 - other[0])):
            known = (least > delta * (1 + 1e-14)) & (most > 0)
            bounds = np.log((least[known] - delta) * (1 - 1e-14)) - np.log(most[known])
            found[known] = np.maximum(found[known], bounds * (1 - 1e-14) - 1e-15)
    return found


@final
@dataclass(frozen=True, slots=True)
class _LineLaw:
    """Law of a noisy sum on a window, given by values of its characteristic function at multiples of 2 pi/width.

    The window is the interval of outcomes outside of which the mass is negligible. Positions are relative to `centre`,
    in standard deviations of the noise. `characteristic` has the values at the `frequencies`, and `rounding` bounds
    their error.
    """

    window: tuple[float, float]
    centre: float
    frequencies: FloatArray
    characteristic: ComplexArray
    rounding: float

    def above(self, thresholds: FloatArray, error: float) -> Ends:
        """Return lower and upper bounds of the probability that the noisy sum exceeds each threshold.

        Thresholds are in standard deviations of the noise, with absolute errors of at most `error`.
        """
        slack = self._slack()
        return self._mass(thresholds + error) - slack, self._mass(thresholds - error) + slack

    def _mass(self, thresholds: FloatArray) -> FloatArray:
        """Return the mass of the law between each threshold and the upper endpoint of the window.

        The law is repeated with the width of the window as its period, as a Fourier series requires.
        """
        low, high = self.window
        inside = np.clip(thresholds, low, high)[:, None]
        waves = np.exp(-1j * self.frequencies * (inside - self.centre))
        waves -= np.exp(-1j * self.frequencies * (high - self.centre))
        parts = (waves * (self.characteristic / (1j * self.frequencies))).real.sum(axis=1)
        return (high - inside[:, 0] + 2 * parts) / (high - low)

    def _slack(self) -> float:
        """Return the error bound of the mass of the law above a threshold, a probability.

        The bound adds the mass outside the window, the truncation of the Fourier series, which decays faster than a
        geometric series, and the rounding. The rounding of term k has the weight 2/(pi k).
        """
        width = self.window[1] - self.window[0]
        rest = math.exp(-0.5 * LARGEST_FREQUENCY**2) / -math.expm1(-2 * math.pi / width * LARGEST_FREQUENCY)
        terms = self.rounding + UNIT_ROUNDOFF * (16 * LARGEST_FREQUENCY * width + 64)
        return OUTSIDE + rest + (1 + math.log(len(self.frequencies))) * terms


@final
class _LogMoments:
    """Logarithms of the mean of e^{s (x - m)} over numbers x with the mean m, for slopes s of both signs."""

    def __init__(self, values: FloatArray) -> None:
        centred = values - values.mean()
        spread = float(np.abs(centred).max())
        self._slopes = np.geomspace(1e-3 / (1 + spread), 20.0, 120)
        exponents = np.concatenate((self._slopes, -self._slopes))[:, None] * centred
        largest = exponents.max(axis=1)
        self._logs = (largest + np.log(np.exp(exponents - largest[:, None]).mean(axis=1))).reshape(2, -1)

    def reach(self, size: int) -> float:
        """Return a distance from the mean that a noisy sum of `size` numbers seldom exceeds.

        The probability is below 2 e^-42. The moments of sums without replacement are at most those with replacement
        (Hoeffding 1963, Theorem 4).
        """
        exponents = size * np.maximum(self._logs, 0.0) + 0.5 * self._slopes**2 + LOG_OUTSIDE
        return float((exponents / self._slopes).min(axis=1).max())


@final
@dataclass(frozen=True, slots=True)
class _NoisySums:
    """Characteristic functions of noisy sums of n - 1 and of n out of N numbers, each sum less its mean.

    `characteristic` has the values of both at the `frequencies`, and `rounding` bounds their absolute errors.
    """

    frequencies: FloatArray
    characteristic: tuple[ComplexArray, ComplexArray]
    rounding: float


def _noisy_sums(numbers: FloatArray, size: int, frequencies: FloatArray, roots: int) -> _NoisySums:
    """Compute the characteristic functions of noisy sums of random subsets of `numbers` at the frequencies.

    The subsets have `size` - 1 or `size` of the N numbers. Each function is a mean over `roots` roots of unity on a
    circle of radius rho. Its products are scaled by (1 + rho)^-(N - 1), so that no factor exceeds 1.
    """
    total, radius = len(numbers), size / (len(numbers) + 1 - size)
    centred = numbers - numbers.mean()
    circle = radius / (1 + radius) * np.exp(2j * math.pi / roots * np.arange(roots))
    products = np.ones((len(frequencies), roots), dtype=np.complex128)
    for value in centred.tolist():
        products *= np.exp(1j * (frequencies * value))[:, None] * circle + 1 / (1 + radius)
    # The errors of the factors add. Each is the error of a few operations and of the angle.
    each = 8 * float(frequencies[-1]) * float(np.abs(centred).max()) + 96
    noise = np.exp(-0.5 * frequencies**2)
    # ln of C(N, n) rho^n/(1 + rho)^N for both numbers n of points, which normalises the sums over subsets.
    log_shares = [
        math.log(math.comb(total, chosen)) + chosen * math.log(radius) - total * math.log1p(radius)
        for chosen in (size - 1, size)
    ]
    with_point, without = (
        products
        @ np.exp(-2j * math.pi / roots * (np.arange(roots) * chosen % roots))
        * (math.exp(-share) / roots * noise)
        for chosen, share in zip((size - 1, size), log_shares, strict=True)
    )
    rounding = (total * each + 4 * roots + 64) * UNIT_ROUNDOFF * math.exp(-min(log_shares))
    return _NoisySums(frequencies, (with_point, without), rounding)
