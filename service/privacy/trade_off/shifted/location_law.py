"""Noise laws of shifted curves: symmetric about 0, with log-concave densities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import final

import numpy as np
from scipy import special
from typing_extensions import override

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.ulps import LOG_NORMAL_CDF_ERROR, NORMAL_QUANTILE_ERROR

LOG_2 = math.log(2)
ValueAndError = tuple[FloatArray, FloatArray]
"""Computed values and bounds of their absolute errors."""


class LocationLaw(ABC):
    """Symmetric noise law F with a log-concave density. Methods accept arrays of any shape, and NumPy scalars.

    A subclass defines `quantile`, `log_cdf`, `density` and `log_ratio`.
    """

    __slots__ = ()

    @abstractmethod
    def quantile(self, probability: FloatArray) -> ValueAndError:
        """Return F^-1(`probability`) for probabilities in (0, 1), and a proved bound of its absolute error."""

    @abstractmethod
    def log_cdf(self, point: FloatArray) -> ValueAndError:
        """Return ln F at finite points, and a proved bound of its absolute error; F is the distribution function.

        The error bound is positive even where ln F underflows to 0.
        """

    @abstractmethod
    def density(self, point: FloatArray) -> FloatArray:
        """Return the density of the noise law, for root finding.

        Parameters
        ----------
        point : array
            Points, any shape.

        Returns
        -------
        array
            Density without an error bound, in the shape of `point`.
        """

    @abstractmethod
    def log_ratio(self, point: FloatArray, shift: float) -> ValueAndError:
        """Return ln of density(point - shift)/density(point), in nats, and a proved bound of its absolute error.

        The error bound covers a relative error of `shift` of up to 4 * 2^-53.
        """


@final
class NormalLaw(LocationLaw):
    """Standard normal law N(0, 1)."""

    __slots__ = ()

    @override
    def quantile(self, probability: FloatArray) -> ValueAndError:
        value = special.ndtri(probability)
        return value, NORMAL_QUANTILE_ERROR * abs(value)

    @override
    def log_cdf(self, point: FloatArray) -> ValueAndError:
        value = special.log_ndtr(point)
        # Beyond 40 the value underflows, so that the growing factor is irrelevant. The sum is exact.
        right = 0.5 * (point + abs(point))
        return value, LOG_NORMAL_CDF_ERROR * (1 + right * right) * abs(value) + 5e-324

    @override
    def density(self, point: FloatArray) -> FloatArray:
        return np.exp(-0.5 * point * point) * (1 / math.sqrt(2 * math.pi))

    @override
    def log_ratio(self, point: FloatArray, shift: float) -> ValueAndError:
        value = shift * (point - 0.5 * shift)
        return value, (12 * UNIT_ROUNDOFF * shift) * (np.abs(point) + shift)


@final
class LaplaceLaw(LocationLaw):
    """Laplace law of scale 1."""

    __slots__ = ()

    @override
    def quantile(self, probability: FloatArray) -> ValueAndError:
        # The smaller one of both tails is exact.
        magnitude = -np.log(2 * np.minimum(probability, 1 - probability))
        return np.copysign(magnitude, probability - 0.5), FUNCTION_ERROR * magnitude

    @override
    def log_cdf(self, point: FloatArray) -> ValueAndError:
        # F(t) is e^t / 2 left of 0 and 1 - e^-|t| / 2 right of 0, always the smaller expression. Left of 0 the second
        # one is above 1/2. Right of 0 its logarithm is concave and touches t - ln 2 at 0.
        right = np.log1p(-0.5 * np.exp(-abs(point)))
        value = np.minimum(point - LOG_2, right)
        return value, (4 * UNIT_ROUNDOFF) * abs(value) + (4 * FUNCTION_ERROR) * abs(right) + 5e-324

    @override
    def density(self, point: FloatArray) -> FloatArray:
        return 0.5 * np.exp(-np.abs(point))

    @override
    def log_ratio(self, point: FloatArray, shift: float) -> ValueAndError:
        value = np.minimum(np.maximum(2 * point - shift, -shift), shift)
        return value, (8 * UNIT_ROUNDOFF) * (np.abs(value) + shift)


NORMAL = NormalLaw()
LAPLACE = LaplaceLaw()
