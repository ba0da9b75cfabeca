"""Noncentral chi-square laws: enclosures of both tails, of quantiles and of the density, in logarithms.

A noncentral chi-square variable is |Z + c|^2 for a standard normal vector Z in d dimensions and |c|^2 = nc. The law is
central for nc = 0. Short series serve few degrees with a small b = nc/(2 w). Contour inversion serves the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.chi_square.contour import contour_values
from service.privacy.numerics.chi_square.saddle import excess
from service.privacy.numerics.chi_square.series import series_density, series_tail
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work

Tail = Literal["lower", "upper"]
_Ends = tuple[FloatArray, FloatArray]
_Columns = tuple[NDArray[Any], ...]

_FEW_DEGREES = 50.0
_SMALL_CURVE = 60.0
"""For fewer degrees and a smaller b = nc/(2 w), the integrand on a contour decays too slowly, and series are short."""
_SMALLEST_DEGREES_OF_A_CONTOUR = 5.0
"""Smallest number of degrees for which the density has a contour integral."""
_SMALLEST_OF_FEW_DEGREES, _SMALLEST, _LARGEST = 1e-306, 1e-290, 1e30
"""Range of x. Values outside take the bound of the nearest endpoint, so that the arithmetic stays within doubles."""
_LEAST_EXPONENT = -700.0
"""Smaller exponents have a bound only, since their exponentials are near the smallest double."""
_A_CALL, _A_TAIL = 400.0, 4.0
"""Work of a call for tails or densities, and of each x, in microseconds, roughly."""
_ROWS = 512
"""Number of x evaluated together. Their nodes fit into the cache."""


@dataclass(frozen=True, slots=True)
class ChiSquareLogTails:
    """Enclosures of both log tails of a chi-square law, arrays of shape (n,).

    Attributes
    ----------
    lower_low, lower_high : array
        Bounds of ln P(X <= x).
    upper_low, upper_high : array
        Bounds of ln P(X > x).
    """

    lower_low: FloatArray
    lower_high: FloatArray
    upper_low: FloatArray
    upper_high: FloatArray


@dataclass(frozen=True, slots=True)
class Approximation:
    """Estimates of the smaller tail of a chi-square law at points x, arrays of shape (n,).

    Attributes
    ----------
    is_lower : array
        Whether the smaller tail is the lower tail P(X <= x).
    log_tail : array
        Logarithm of the tail.
    width : array
        Width of the enclosure of `log_tail`.
    slope : array
        |d ln tail / d ln x|.
    """

    is_lower: BoolArray
    log_tail: FloatArray
    width: FloatArray
    slope: FloatArray


@final
@dataclass(frozen=True, slots=True)
class NoncentralChiSquare:
    """Law of the squared length of a normal vector with unit variances.

    Parameters
    ----------
    degrees : float
        Degrees of freedom, 1 <= degrees <= 1e9, exact.
    noncentrality : float
        Squared length of the mean, 0 <= noncentrality <= 1e12, exact.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    degrees: float
    noncentrality: float

    def __post_init__(self) -> None:
        if not 1 <= self.degrees <= 1e9 or not 0 <= self.noncentrality <= 1e12:
            raise ValueError("1 <= degrees <= 1e9 and 0 <= noncentrality <= 1e12")

    def log_tails(self, x: FloatArray) -> ChiSquareLogTails:
        """Enclose ln P(X <= x) and ln P(X > x) of the chi-square number X at each x >= 0, shape (n,).

        x may be infinite. The width is at most about 1e-12 plus 2e-14 of the logarithm, for both tails. Outside `span`
        the lower bound of the smaller tail is minus infinity.
        """
        count_work(_A_CALL + _A_TAIL * len(x))
        inside = np.clip(x, *self.span)
        is_lower, small_low, small_high = self._small_tails(inside)
        small_low = np.where(inside == x, small_low, -np.inf)
        small_high = np.where((x <= 0) | np.isposinf(x), -np.inf, np.minimum(small_high, 0.0))
        rest_low, rest_high = _log_rest(small_high, small_low)
        return ChiSquareLogTails(
            np.where(is_lower, small_low, rest_low),
            np.where(is_lower, small_high, rest_high),
            np.where(is_lower, rest_low, small_low),
            np.where(is_lower, rest_high, small_high),
        )

    def log_density(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute an enclosure of the logarithm of the density.

        Parameters
        ----------
        x : array, shape (n,)
            Points within `span`.

        Returns
        -------
        (array, array)
            Lower and upper bounds of ln f(x), shape (n,). The width is at most about 1e-11 plus 2e-14 of the logarithm.

        Notes
        -----
        For fewer than 5 degrees d, contour integrals give the density by x f_d = nc f_{d+4} + d f_{d+2}, the recurrence
        of Bessel functions.
        """
        count_work(_A_CALL + _A_TAIL * len(x))
        low, high = np.empty_like(x), np.empty_like(x)
        by_series = self._is_for_series(x)
        if by_series.any():
            low[by_series], high[by_series] = self._series_density(x[by_series])
        if not by_series.all():
            low[~by_series], high[~by_series] = self._contour_density(x[~by_series])
        return low, high

    @property
    def span(self) -> tuple[float, float]:
        """Smallest and largest x at which tails and density have two-sided enclosures."""
        return _SMALLEST_OF_FEW_DEGREES if self.degrees < _FEW_DEGREES else _SMALLEST, _LARGEST

    def approximate(self, x: FloatArray) -> Approximation:
        """Estimate the smaller tail and its slope at each x within `span`; the slope has no error bound."""
        count_work(_A_CALL + _A_TAIL * len(x))
        is_lower = self._is_lower(x)
        middle, width, slope = np.empty((3, len(x)))
        by_series = self._is_for_series(x)
        if by_series.any():
            at = x[by_series]
            low, high = self._series_tails(at, is_lower[by_series])
            density_low, density_high = self._series_density(at)
            middle[by_series], width[by_series] = 0.5 * (low + high), high - low
            slope[by_series] = at * np.exp(0.5 * (density_low + density_high) - middle[by_series])
        if not by_series.all():
            chosen = ~by_series
            is_lower[chosen], middle[chosen], width[chosen], slope[chosen] = _in_rows(self._contour_slopes, x[chosen])
        return Approximation(is_lower, middle, width, slope)

    def _small_tails(self, x: FloatArray) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Return whether x lies in the lower tail, and (lower, upper) bounds of ln of the smaller tail; shape (n,)."""
        is_lower = self._is_lower(x)
        low, high = np.empty_like(x), np.empty_like(x)
        by_series = self._is_for_series(x)
        if by_series.any():
            low[by_series], high[by_series] = self._series_tails(x[by_series], is_lower[by_series])
        if not by_series.all():
            chosen = ~by_series
            is_lower[chosen], low[chosen], high[chosen] = _in_rows(self._contour_tail, x[chosen])
        return is_lower, low, high

    def _is_lower(self, x: FloatArray) -> BoolArray:
        return excess(self.degrees, self.noncentrality, x)[0] <= 0

    def _series_tails(self, x: FloatArray, is_lower: BoolArray) -> _Ends:
        low, high = np.empty_like(x), np.empty_like(x)
        for side in (True, False):
            chosen = is_lower == side
            if chosen.any():
                read = partial(series_tail, self.degrees, self.noncentrality, lower=side)
                low[chosen], high[chosen] = _in_rows(read, x[chosen])
        return low, high

    def _is_for_series(self, x: FloatArray) -> BoolArray:
        """Return a mask of the arguments x at which the power series of the tail converges fast.

        They are those with few degrees d and a small (sqrt(d^2 + 4 x c) - d)/4, where c is the noncentrality. Elsewhere
        contour inversion gives the tails.
        """
        product = 4 * x * self.noncentrality
        return (self.degrees < _FEW_DEGREES) & (product < (4 * _SMALL_CURVE + self.degrees) ** 2 - self.degrees**2)

    def _series_density(self, x: FloatArray) -> _Ends:
        low, high = _in_rows(partial(series_density, self.degrees, self.noncentrality), x)
        return low, high

    def _contour_tail(self, x: FloatArray) -> _Columns:
        values = contour_values(self.degrees, self.noncentrality, x)
        at = values.saddle
        low, high = _logarithm(at.exponent, at.exponent_error, values.tail, values.tail_error)
        return at.pole >= 0, low, high

    def _contour_slopes(self, x: FloatArray) -> _Columns:
        values = contour_values(self.degrees, self.noncentrality, x)
        at = values.saddle
        low, high = _logarithm(at.exponent, at.exponent_error, values.tail, values.tail_error)
        slope = 0.5 * x * at.place * values.density / values.tail
        return at.pole >= 0, 0.5 * (low + high), high - low, slope

    def _contour_density(self, x: FloatArray) -> _Ends:
        if self.degrees < _SMALLEST_DEGREES_OF_A_CONTOUR:
            return self._density_from_more_degrees(x)
        low, high = _in_rows(self._contour_density_rows, x)
        return low, high

    def _contour_density_rows(self, x: FloatArray) -> _Columns:
        values = contour_values(self.degrees, self.noncentrality, x)
        at = values.saddle
        low, high = _logarithm(at.exponent, at.exponent_error, values.density, values.density_error)
        shift = np.log(at.place / 2)
        margin = FUNCTION_ERROR * np.abs(shift) + UNIT_ROUNDOFF * (8 + np.abs(low) + np.abs(shift))
        return low + shift - margin, high + shift + margin

    def _density_from_more_degrees(self, x: FloatArray) -> _Ends:
        two, four = (NoncentralChiSquare(self.degrees + more, self.noncentrality).log_density(x) for more in (2, 4))
        ends: list[FloatArray] = []
        for with_two, with_four in zip(two, four, strict=True):
            first = math.log(self.degrees) + with_two
            ends.append(np.logaddexp(first, np.log(self.noncentrality) + with_four) - np.log(x))
        margin = 8 * FUNCTION_ERROR * (1 + np.log(self.noncentrality) + np.abs(np.log(x)))
        margin += 8 * UNIT_ROUNDOFF * (np.abs(ends[0]) + np.abs(two[0]) + np.abs(four[0]))
        return ends[0] - margin, ends[1] + margin


def _in_rows(function: Callable[[FloatArray], _Columns], x: FloatArray) -> _Columns:
    parts = [function(x[start : start + _ROWS]) for start in range(0, len(x), _ROWS)]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _logarithm(exponent: FloatArray, exponent_error: FloatArray, value: FloatArray, error: FloatArray) -> _Ends:
    """Return (lower, upper) bounds of `exponent` + ln `value`, given absolute error bounds of both, in one shape."""
    with np.errstate(divide="ignore"):
        low, high = np.log(np.maximum(value - error, 0.0)), np.log(value + error)
    margin = exponent_error + 4 * UNIT_ROUNDOFF * (1 + np.abs(exponent))
    low_margin = margin + np.where(np.isfinite(low), 1.5 * FUNCTION_ERROR * np.abs(low), 0.0)
    return exponent + low - low_margin, exponent + high + margin + 1.5 * FUNCTION_ERROR * np.abs(high)


def _log_rest(high: FloatArray, low: FloatArray) -> _Ends:
    """Return (lower, upper) bounds of ln(1 - e^t) for numbers t <= 0 between `low` and `high`, arrays of one shape."""
    with np.errstate(divide="ignore", under="ignore"):
        small, large = np.exp(np.maximum(high, _LEAST_EXPONENT)), np.exp(low)
        rest_low = np.where(small < 0.5, np.log1p(-small), np.log(-np.expm1(high)))
        rest_high = np.where(large < 0.5, np.log1p(-large), np.log(-np.expm1(low)))
    relative = 8 * FUNCTION_ERROR
    rest_low = rest_low * (1 + relative) - relative * small
    rest_high = np.minimum(rest_high * (1 - relative) + relative * large, 0.0)
    return np.where(np.isneginf(high), 0.0, rest_low), np.where(low < _LEAST_EXPONENT, 0.0, rest_high)
