"""Laws of the number of trials, as probability generating functions.

Let K be the number of trials and phi(z) = E z^K, for z in [0, 1]. phi, phi' and phi'' are non-negative and do not
decrease. Arguments near 1 are given with their complement `rest` = 1 - z, so that no digits cancel. All methods take
and return arrays of one shape. Their relative error is at most `SLACK`, which also covers the rounding of parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.numerics.arrays import FloatArray

SLACK: Final = 1e-11
"""Relative error of all numbers of a law. Exponents are below 1e3, and are products of at most 1e6 and a logarithm."""

LEAST: Final = 1e-17
"""Smallest t = -ln g. The law with a mean of 1 is closer to it than rounding."""
LEAST_SHAPE: Final = 1e-20
"""Size of a shape below which the law is the logarithmic one, up to rounding: t is at most 690."""


class TrialCounts(ABC):
    """Law of the number K of trials, which does not depend on the data.

    A trial is one run of a mechanism; the best output of all trials is released. phi(z) = E z^K is the generating
    function of K.
    """

    @property
    def fixed(self) -> int | None:
        """The number of trials if it is fixed, and None if it is random.

        Bounds for a random number rely on equal laws of all trials.
        """
        return None

    @property
    def mean_count(self) -> float:
        """Mean E K of the number K of trials."""
        return float(self.slope(np.ones(1), np.zeros(1))[0])

    @property
    def least_slope(self) -> float:
        """Probability P(K = 1) of exactly one trial: phi'(0) for the generating function phi(z) = E z^K."""
        return float(self.slope(np.zeros(1), np.ones(1))[0])

    @property
    def log_least_slope(self) -> float:
        """ln P(K = 1), also where this probability is below the smallest double."""
        least = self.least_slope
        return math.log(least) if least > 0 else -math.inf

    @property
    def something(self) -> float:
        """Probability P(K >= 1) that there is a trial, without cancellation where it is tiny."""
        return float(self.rise(np.ones(1), np.zeros(1), np.ones(1))[0])

    @property
    @abstractmethod
    def nothing(self) -> float:
        """Probability P(K = 0) that there is no trial, so that nothing is released."""

    @abstractmethod
    def slope(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the derivative phi'(z) of the generating function phi(z) = E z^K of the number K of trials.

        Parameters
        ----------
        z, rest : array of shape (n,)
            Arguments in [0, 1] and their complements.

        Returns
        -------
        array of shape (n,)
            The derivative, which does not decrease.
        """

    @abstractmethod
    def curvature(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the second derivative phi''(z) of the generating function phi(z) = E z^K of the number K of trials.

        Parameters
        ----------
        z, rest : array of shape (n,)
            Arguments in [0, 1] and their complements.

        Returns
        -------
        array of shape (n,)
            The second derivative, which does not decrease.
        """

    @abstractmethod
    def growth(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the derivative of ln phi''(z), for the generating function phi(z) = E z^K of the number K of trials.

        Parameters
        ----------
        z, rest : array of shape (n,)
            Arguments in [0, 1] and their complements.

        Returns
        -------
        array of shape (n,)
            The derivative, which is non-negative and monotone.
        """

    @abstractmethod
    def ratio(self, n: FloatArray) -> FloatArray:
        """Return P(K = n + 1)/P(K = n) for integers n >= 1, which is monotone in n.

        Parameters
        ----------
        n : array of shape (m,)
            Numbers of trials. The ratio at 1e300 is the limit for large n.

        Returns
        -------
        array of shape (m,)
            Ratios of the probabilities of the number K of trials.
        """

    @abstractmethod
    def rise(self, z: FloatArray, rest: FloatArray, step: FloatArray) -> FloatArray:
        """Return phi(z) - phi(z - step) without cancellation, phi(z) = E z^K for the number K of trials.

        Parameters
        ----------
        z, rest : array of shape (n,)
            Arguments in [0, 1] and their complements.
        step : array of shape (n,)
            Differences in [0, z].

        Returns
        -------
        array of shape (n,)
            The probability that the best of K uniform scores is in an interval of length `step` below z.
        """


@final
@dataclass(frozen=True)
class NegativeBinomialCounts(TrialCounts):
    """Negative binomial law, truncated to K >= 1, with mean `mean` > 1, shape s and a parameter g in (0, 1).

    The generating function is phi(z) = ((1 - (1-g) z)^-s - 1)/(g^-s - 1), and ln(1 - (1-g) z)/ln g for s = 0. The mean
    is ((1-g)/g) s/(1 - g^s), which falls from infinity to 1 as g rises from 0 to 1. Shape 1 is the geometric law.
    """

    mean: float
    shape: float

    @cached_property
    def _minus_log_g(self) -> float:
        """Value t = -ln g > 0 of the parameter g at which the law has its mean, within a few units of rounding."""
        if self.shape == 1:
            return math.log(self.mean)
        from scipy.optimize import brentq

        def excess(t: float) -> float:
            share = t if self.shape == 0 else -math.expm1(-self.shape * t) / self.shape
            return math.log(math.expm1(t) / share / self.mean)

        if excess(LEAST) >= 0:
            return LEAST
        return float(brentq(excess, LEAST, 690.0, xtol=1e-300, rtol=4 * np.finfo(float).eps))

    @cached_property
    def _log_scale(self) -> float:
        """ln of a = s/(g^-s - 1), or of a = 1/(-ln g) for s = 0, with the shape s and the parameter g.

        The generating function phi of the number of trials has phi'(z) = (1 - g) a (1 - (1 - g) z)^(-s - 1).
        """
        t, s = self._minus_log_g, self.shape
        if s == 0:
            return -math.log(t)
        if s < 0:
            return math.log(-s) - math.log(-math.expm1(s * t))
        return math.log(s) - s * t - math.log(-math.expm1(-s * t))

    @property
    def _share(self) -> float:
        return -math.expm1(-self._minus_log_g)  # 1 - g

    def _log_base(self, rest: FloatArray) -> FloatArray:
        """Return ln(1 - (1-g) z) = ln(g + (1-g) rest) for the parameter g and `rest` = 1 - z."""
        return np.log(math.exp(-self._minus_log_g) + self._share * rest)

    @property
    @override
    def nothing(self) -> float:
        return 0.0

    @override
    def slope(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        return self._share * np.exp(self._log_scale - (self.shape + 1) * self._log_base(rest))

    @override
    def curvature(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        most = (self.shape + 1) * self._share**2
        return most * np.exp(self._log_scale - (self.shape + 2) * self._log_base(rest))

    @override
    def growth(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        return (self.shape + 2) * self._share * np.exp(-self._log_base(rest))

    @override
    def ratio(self, n: FloatArray) -> FloatArray:
        return self._share * ((n + self.shape) / (n + 1))

    @override
    def rise(self, z: FloatArray, rest: FloatArray, step: FloatArray) -> FloatArray:
        base = self._log_base(rest)
        apart = np.log1p(self._share * step * np.exp(-base))
        s = self.shape
        return np.exp(self._log_scale - s * base) * (apart if s == 0 else -np.expm1(-s * apart) / s)


@final
@dataclass(frozen=True)
class BinomialCounts(TrialCounts):
    """Binomial law of the number of trials: each of n = `count` trials is run with probability p = `probability`.

    The generating function is phi(z) = (1 - p (1 - z))^n. With probability 1 the number of trials is fixed.
    """

    count: int
    probability: float

    @property
    @override
    def fixed(self) -> int | None:
        return self.count if self.probability == 1 else None

    @property
    @override
    def nothing(self) -> float:
        return 0.0 if self.probability == 1 else math.exp(self.count * math.log1p(-self.probability))

    @property
    @override
    def log_least_slope(self) -> float:
        if self.probability == 1:
            return 0.0 if self.count == 1 else -math.inf
        return math.log(self.count * self.probability) + (self.count - 1) * math.log1p(-self.probability)

    @override
    def slope(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        return self.count * self.probability * self._at(z, rest, self.count - 1)

    @override
    def curvature(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        n, p = self.count, self.probability
        return n * (n - 1) * p**2 * self._at(z, rest, n - 2)

    @override
    def growth(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        p = self.probability
        with np.errstate(divide="ignore"):
            return max(self.count - 2, 0) * p / np.where(z < 0.5, (1 - p) + p * z, 1 - p * rest)

    @override
    def ratio(self, n: FloatArray) -> FloatArray:
        return np.maximum(self.count - n, 0.0) / (n + 1) * (self.probability / (1 - self.probability))

    def _at(self, z: FloatArray, rest: FloatArray, exponent: int) -> FloatArray:
        """Return (1 - p (1 - z))^exponent, p the probability of a trial; 1 for exponent 0, 0 for negative exponents."""
        if exponent <= 0:
            return np.full_like(rest, float(exponent == 0))
        p = self.probability
        with np.errstate(divide="ignore"):
            # Where p (1 - z) is at least 1/2, so is p, and 1 - p is exact.
            return np.exp(exponent * np.where(p * rest < 0.5, np.log1p(-p * rest), np.log((1 - p) + p * z)))

    @override
    def rise(self, z: FloatArray, rest: FloatArray, step: FloatArray) -> FloatArray:
        n, p = self.count, self.probability
        base = np.where(z < 0.5, (1 - p) + p * z, 1 - p * rest)
        with np.errstate(divide="ignore", invalid="ignore"):
            lost = np.minimum(np.where(base > 0, p * step / base, 0.0), 1.0)
            return self._at(z, rest, n) * -np.expm1(n * np.log1p(-lost))


@final
@dataclass(frozen=True)
class PoissonCounts(TrialCounts):
    """Poisson law of the number of trials with mean m > 0, and the generating function phi(z) = e^(-m (1 - z))."""

    mean: float

    @property
    @override
    def nothing(self) -> float:
        return math.exp(-self.mean)

    @property
    @override
    def log_least_slope(self) -> float:
        return math.log(self.mean) - self.mean

    @override
    def slope(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        return self.mean * np.exp(-self.mean * rest)

    @override
    def curvature(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        return self.mean**2 * np.exp(-self.mean * rest)

    @override
    def growth(self, z: FloatArray, rest: FloatArray) -> FloatArray:
        return np.full_like(z, self.mean)

    @override
    def ratio(self, n: FloatArray) -> FloatArray:
        return self.mean / (n + 1)

    @override
    def rise(self, z: FloatArray, rest: FloatArray, step: FloatArray) -> FloatArray:
        return np.exp(-self.mean * rest) * -np.expm1(-self.mean * step)
