"""The loss of one step in cells of its noise, each with its masses and the ends of the likelihood ratio inside.

Of one shifted law, sampled or not: H0 has y ~ F; H1 has y ~ (1 - p) F + p F(. - mu). Mixtures of shifted Gaussians are
in `mixture_cells.py`. A cell with masses w0, w1 of both hypotheses and likelihood ratios in [x_a, x_b] lies between two
pairs that have the same masses: all of it at the mean ratio m = w1/w0 is harder to tell
apart (a test that sees the cell only: post-processing), and the share

    tau = (1/x_a - 1/m)/(1/x_a - 1/x_b) = expm1(l_a - l_m)/expm1(l_a - l_b),    l = ln x,

of w1 at x_b, the rest at x_a, is easier (the likelihood ratio is spread about its mean, and profiles are means of
convex functions of it). Both differ from the truth by the second order of the width of the cells.
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
"""Scales of the noise beyond both humps up to which cells are bounded: e^-800 is normal mass beyond."""
OUTWARD: Final = np.array([[-1.0], [1.0]])
FIRST: Final = 256
"""Cells before any is divided."""
MOST_PARTS: Final = 64
"""Most parts of a cell in one round."""


@final
@dataclass(frozen=True, slots=True)
class Cells:
    """Ends (2, K) of ln w1 and l_m of K cells, (2, K + 1) of l at their borders, in the order in which l rises."""

    log_mass: FloatArray
    mean: FloatArray
    border: FloatArray

    @staticmethod
    def between(log_mass: FloatArray, mean: FloatArray, border: FloatArray) -> Cells:
        """No mean lies outside its cell; where rounding has eaten the mass, that is all that is known."""
        inside = np.stack((np.fmax(mean[0], border[0, :-1]), np.fmin(mean[1], border[1, 1:])))
        return Cells(log_mass, inside, border)

    def swapped(self) -> Cells:
        """With the hypotheses exchanged: losses are -l, and the masses are those of H0."""
        slack = 2 * UNIT_ROUNDOFF * (np.abs(self.log_mass) + np.abs(self.mean)) * OUTWARD
        with np.errstate(invalid="ignore"):
            mass = self.log_mass - self.mean[::-1] + slack
        mass = np.stack((np.where(np.isnan(mass[0]), -np.inf, mass[0]), np.fmin(mass[1], 0.0)))
        return Cells(mass[:, ::-1], -self.mean[::-1, ::-1], -self.border[::-1, ::-1])

    def upper_shares(self) -> FloatArray:
        """tau from above, in [0, 1]; shape (K,)."""
        left, right, mean = self.border[0, :-1], self.border[1, 1:], self.mean[1]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.expm1(left - mean) / np.expm1(left - right) * (1 + 4 * FUNCTION_ERROR)
        # Where the cell has no width, all goes to the larger ratio.
        return np.where(np.isfinite(share), np.minimum(share, 1.0), 1.0)


class CellStep(ABC):
    """A step whose likelihood ratio does not fall in one real number, of which cells are taken."""

    __slots__ = ()

    @property
    @abstractmethod
    def spread(self) -> float:
        """About the deviation of its loss, where that is weak: it orders steps."""

    @abstractmethod
    def first_borders(self) -> FloatArray:
        """Borders of the cells before any is divided, from minus to plus infinity."""

    @abstractmethod
    def cells(self, borders: FloatArray) -> Cells:
        """Cells between neighbours of rising `borders`, from minus to plus infinity."""


@final
@dataclass(frozen=True, slots=True)
class SampledShift(CellStep):
    """A law, a shift mu > 0, a sample rate 0 < p <= 1; all exact."""

    law: LocationLaw
    shift: float
    rate: float

    @property
    @override
    def spread(self) -> float:
        return self.rate * self.shift

    @override
    def first_borders(self) -> FloatArray:
        """With the humps among them, beyond which the ratio of Laplace laws is constant."""
        reach = 0.0 if np.isfinite(self.law.log_ratio(np.array([np.inf]), self.shift)[0][0]) else REACH
        return spaced(-reach, self.shift + reach, [0.0, self.shift])

    @override
    def cells(self, borders: FloatArray) -> Cells:
        border = _sampled(_base_ratios(self, borders), self.rate)
        absent, present = log_masses(self.law, borders, 0.0), log_masses(self.law, borders, self.shift)
        mean = _sampled(present - absent[::-1], self.rate)
        if self.rate == 1:
            return Cells.between(present, mean, border)
        parts = np.stack((absent + math.log1p(-self.rate), present + math.log(self.rate)))
        log_mass: FloatArray = np.logaddexp(parts[0], parts[1])
        sizes = np.abs(np.where(np.isfinite(log_mass), log_mass, 0.0))
        slack = 4 * FUNCTION_ERROR * (1 + sizes + abs(math.log(self.rate)) + abs(math.log1p(-self.rate)))
        return Cells.between(log_mass + OUTWARD * slack, mean, border)


def spaced(low: float, high: float, humps: list[float]) -> FloatArray:
    """Borders at equal distances from low to high, at the humps, and at both infinities."""
    inner = np.linspace(low, high, FIRST - 1)
    return np.concatenate(([-np.inf], np.unique(np.append(inner, humps)), [np.inf]))


def divided(borders: FloatArray, parts: FloatArray) -> FloatArray:
    """The borders with those between the equal parts of every bounded cell."""
    counts = np.clip(parts, 1, MOST_PARTS).astype(np.int64)
    counts[[0, -1]] = 1
    index = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    left = borders[index]
    with np.errstate(invalid="ignore"):
        found = np.where(place > 0, left + (borders[index + 1] - left) * (place / counts[index]), left)
    return np.append(np.unique(found), np.inf)


def _base_ratios(step: SampledShift, points: FloatArray) -> FloatArray:
    """Ends (2, n) of ln of the ratio of the densities of F(. - mu) and F, at infinity too."""
    with np.errstate(invalid="ignore"):
        value, error = step.law.log_ratio(points, step.shift)
    known = np.where(np.isfinite(value), error, 0.0)
    return np.stack((value - known, value + known))


def _sampled(base: FloatArray, rate: float) -> FloatArray:
    """Ends (2, n) of ln(1 - p + p e^b) from those of b."""
    if rate == 1:
        return base
    return np.stack((sampled_log_ratio(base[0], rate).lower, sampled_log_ratio(base[1], rate).upper))


def log_masses(law: LocationLaw, borders: FloatArray, shift: float) -> FloatArray:
    """Ends (2, K) of ln(F(b - mu) - F(a - mu)): ln F(b) + ln(1 - F(a)/F(b)), on the side where F is small. `shift`: mu
    of either sign, within 2 u.
    """
    left, right = borders[:-1] - shift, borders[1:] - shift
    mirrored = left + right > 0
    # Half the moduli bound the rounding of either difference; a border at infinity has neither rounding nor mass.
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
    """ln F and its error at points that are rounded, 0 beyond infinity; ln F rises by at most 1 + |t|."""
    inside = np.isfinite(points)
    within = np.where(inside, points, 0.0)
    value, error = law.log_cdf(within)
    error = error + (1 + np.abs(within)) * (2 * UNIT_ROUNDOFF) * (np.abs(within) + abs(shift)) * (shift != 0)
    # Only the far end of a cell may be at minus infinity: its near one never is, mirrored or not.
    return np.where(inside, value, -np.inf), np.where(inside, error, 0.0)
