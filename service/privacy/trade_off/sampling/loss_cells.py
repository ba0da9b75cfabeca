"""Cells of the noise of one step, with their masses and bounds of the likelihood ratio inside each cell.

The step is one shifted law, sampled or not: under H0 the outcome has the law F, and under H1 the law (1 - p) F + p F(.
- mu), with sampling rate p and shift mu. Mixtures of shifted Gaussians are in `mixture_cells.py`. Let a cell have
masses w0, w1 under the hypotheses, and likelihood ratios in [x_a, x_b]. Two pairs with equal masses bound it:

- The whole mass at the mean ratio m = w1/w0 is harder to distinguish: a test that sees only the cell is
  post-processing.
- The share tau of w1 at x_b and the rest at x_a is easier to distinguish. The likelihood ratio is spread about its
  mean, and profiles are means of convex functions of the ratio.

With l = ln x, the share is tau = (1/x_a - 1/m)/(1/x_a - 1/x_b) = expm1(l_a - l_m)/expm1(l_a - l_b). Both bounds differ
from the truth by the second order of the width of the cells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.losses.sampled_ratio import sampled_log_ratio
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.shifted.location_law import LocationLaw

REACH: Final = 40.0
"""Distance beyond both modes, in scales of the noise, to which cells are bounded. The normal mass beyond is e^-800."""
OUTWARD: Final = np.array([[-1.0], [1.0]])
FIRST: Final = 256
"""Count of cells before the first refinement."""
MOST_PARTS: Final = 64
"""Largest count of parts of a cell in one round."""


@final
@dataclass(frozen=True, slots=True)
class Cells:
    """Cells (intervals of the noise of a step) in the order of rising log-likelihood ratio l; K is their number.

    Attributes
    ----------
    log_mass, mean : array of shape (2, K)
        Lower and upper bounds of ln w1, the mass under H1, and of l_m, ln of the mean likelihood ratio of the cell.
    border : array of shape (2, K + 1)
        Lower and upper bounds of l at the borders.
    """

    log_mass: FloatArray
    mean: FloatArray
    border: FloatArray

    @staticmethod
    def between(log_mass: FloatArray, mean: FloatArray, border: FloatArray) -> Cells:
        """Return cells with these bounds, where each mean is limited by the borders of its cell.

        The arguments are the attributes of the class. A bound of `mean` outside its cell, or NaN by rounding, is
        replaced by the bound of the log-likelihood ratio at the nearer border.
        """
        inside = np.stack((np.fmax(mean[0], border[0, :-1]), np.fmin(mean[1], border[1, 1:])))
        return Cells(log_mass, inside, border)

    def swapped(self) -> Cells:
        """Return the cells for swapped hypotheses: log-likelihood ratios change their sign, masses are those of H0."""
        slack = 2 * UNIT_ROUNDOFF * (np.abs(self.log_mass) + np.abs(self.mean)) * OUTWARD
        with np.errstate(invalid="ignore"):
            mass = self.log_mass - self.mean[::-1] + slack
        mass = np.stack((np.where(np.isnan(mass[0]), -np.inf, mass[0]), np.fmin(mass[1], 0.0)))
        return Cells(mass[:, ::-1], -self.mean[::-1, ::-1], -self.border[::-1, ::-1])

    def upper_shares(self) -> FloatArray:
        """Return upper bounds of the share tau of each cell's mass that is moved to the upper border, shape (K,).

        The rest of the mass is moved to the lower border, so that the mean likelihood ratio stays. Shares are in [0,
        1]. K is the number of cells.
        """
        left, right, mean = self.border[0, :-1], self.border[1, 1:], self.mean[1]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.expm1(left - mean) / np.expm1(left - right) * (1 + 4 * FUNCTION_ERROR)
        # In a cell without width the whole mass is at the larger ratio.
        return np.where(np.isfinite(share), np.minimum(share, 1.0), 1.0)


class CellStep(ABC):
    """Step whose likelihood ratio is a non-decreasing function of one real number, which is divided into cells.

    A subclass defines `spread`, `first_borders` and `cells`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def spread(self) -> float:
        """Approximate standard deviation (nats) of the privacy loss, by which steps are ordered."""

    @abstractmethod
    def first_borders(self) -> FloatArray:
        """Return the initial borders of the cells (intervals of the noise), from minus to plus infinity."""

    @abstractmethod
    def cells(self, borders: FloatArray) -> Cells:
        """Return the cells (intervals of the noise) between neighbouring `borders`, which include both infinities."""


@final
@dataclass(frozen=True, slots=True)
class SampledShift(CellStep):
    """Sampled step of a shifted noise law, divided into cells (intervals of the noise).

    Attributes
    ----------
    law : LocationLaw
        Noise law F.
    shift : float
        Exact shift mu > 0.
    rate : float
        Exact sampling rate p in (0, 1].
    """

    law: LocationLaw
    shift: float
    rate: float

    @property
    @override
    def spread(self) -> float:
        return self.rate * self.shift

    @override
    def first_borders(self) -> FloatArray:
        """Return initial borders of the cells, including both modes of the shifted laws.

        Beyond the modes the likelihood ratio of Laplace laws is constant.
        """
        reach = 0.0 if np.isfinite(self.law.log_ratio(np.array([np.inf]), self.shift)[0][0]) else REACH
        return spaced(-reach, self.shift + reach, [0.0, self.shift])

    @override
    def cells(self, borders: FloatArray) -> Cells:
        with np.errstate(invalid="ignore"):  # borders may be infinite
            ratio, error = self.law.log_ratio(borders, self.shift)
        error = np.where(np.isfinite(ratio), error, 0.0)
        border = _sampled(np.stack((ratio - error, ratio + error)), self.rate)
        absent, present = log_masses(self.law, borders, 0.0), log_masses(self.law, borders, self.shift)
        mean = _sampled(present - absent[::-1], self.rate)
        if self.rate == 1:
            return Cells.between(present, mean, border)
        parts = np.stack((absent + math.log1p(-self.rate), present + math.log(self.rate)))
        log_mass: FloatArray = np.logaddexp(parts[0], parts[1])
        sizes = np.abs(np.where(np.isfinite(log_mass), log_mass, 0.0))
        slack = 4 * FUNCTION_ERROR * (1 + sizes + abs(math.log(self.rate)) + abs(math.log1p(-self.rate)))
        return Cells.between(log_mass + OUTWARD * slack, mean, border)


def spaced(low: float, high: float, modes: list[float]) -> FloatArray:
    """Return borders of cells at equal distances from `low` to `high`, at `modes`, and at both infinities."""
    inner = np.linspace(low, high, FIRST - 1)
    return np.concatenate(([-np.inf], np.unique(np.append(inner, modes)), [np.inf]))


def divided(borders: FloatArray, parts: FloatArray) -> FloatArray:
    """Return finer borders of cells: each interval between `borders` is divided into equal parts.

    `parts` has the number of parts of each interval.
    """
    counts = np.clip(parts, 1, MOST_PARTS).astype(np.int64)
    counts[[0, -1]] = 1
    index = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    left = borders[index]
    with np.errstate(invalid="ignore"):
        found = np.where(place > 0, left + (borders[index + 1] - left) * (place / counts[index]), left)
    return np.append(np.unique(found), np.inf)


def _sampled(base: FloatArray, rate: float) -> FloatArray:
    if rate == 1:
        return base
    return np.stack((sampled_log_ratio(base[0], rate).lower, sampled_log_ratio(base[1], rate).upper))


def log_masses(law: LocationLaw, borders: FloatArray, shift: float) -> FloatArray:
    """Return bounds of ln of the masses F(b - mu) - F(a - mu) of K cells [a, b] between `borders`, shape (2, K).

    The rows are lower and upper bounds. F is the distribution function of the noise. On the side where F is small, the
    result is computed as ln F(b) + ln(1 - F(a)/F(b)). `shift` is mu of either sign, within two roundings.
    """
    left, right = borders[:-1] - shift, borders[1:] - shift
    mirrored = left + right > 0
    # Half the moduli bound the rounding of both differences. A border at infinity has neither rounding nor mass.
    near, far = np.where(mirrored, -left, right), np.where(mirrored, -right, left)
    value, error = _log_cdf(law, near, shift)
    other, other_error = _log_cdf(law, far, shift)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = value - other
        slack = error + other_error + 2 * UNIT_ROUNDOFF * np.where(np.isfinite(apart), np.abs(apart), 0.0)
        share = np.stack([np.log(-np.expm1(-np.maximum(apart + side * slack, 0.0))) for side in (-1, 1)])
    rounding = error + 4 * FUNCTION_ERROR * (1 + np.abs(value) + np.abs(np.where(np.isfinite(share), share, 0.0)))
    return np.minimum(value + share + OUTWARD * rounding, 0.0)


def _log_cdf(law: LocationLaw, points: FloatArray, shift: float) -> tuple[FloatArray, FloatArray]:
    """Return ln F at t = `points` - `shift`, rounded, and a bound of its absolute error, shape (n,).

    F is the distribution function of the noise `law`. The error is 0 at infinity. Elsewhere it follows from the slope
    of ln F at t, at most 1 + |t|.
    """
    inside = np.isfinite(points)
    within = np.where(inside, points, 0.0)
    value, error = law.log_cdf(within)
    error = error + (1 + np.abs(within)) * (2 * UNIT_ROUNDOFF) * (np.abs(within) + abs(shift)) * (shift != 0)
    # Only the far border of a cell may be at minus infinity; the near border is not, mirrored or not.
    return np.where(inside, value, -np.inf), np.where(inside, error, 0.0)
