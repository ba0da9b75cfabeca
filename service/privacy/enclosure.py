"""Enclosures: numbers with a proved lower and upper bound.

`EnclosureArray` holds arrays (results of trade-off curves), `Enclosure` one number with its evidence (results of
questions). Both hold natural logarithms of their bounds if the truth may be below the smallest double.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import cast

import numpy as np

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray

SMALLEST = 5e-324
"""The smallest positive double."""


def single(value: float) -> FloatArray:
    """Return one number as a NumPy scalar, which computes like an array of shape ().

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    numpy.float64
        A scalar with the arithmetic and functions of arrays, without the cost of an array of length one.
    """
    return cast("FloatArray", np.float64(value))


class Evidence(StrEnum):
    """Kind of proof behind `lower <= truth <= upper`, strongest first."""

    EXACT = "exact"
    """A closed form with an error of a few units in the last place."""
    PROVED = "proved"
    """Interval or ball arithmetic throughout."""
    CERTIFIED = "certified"
    """Every truncation, aliasing, quadrature and rounding error has a bound, which the enclosure includes."""
    STATISTICAL = "statistical"
    """Simulation. The enclosure holds with a stated confidence."""
    ASYMPTOTIC = "asymptotic"
    """An approximation without a bound. Both bounds are the approximation itself and must not be shown as bounds."""

    @property
    def is_certain(self) -> bool:
        """Whether two enclosures of the same number must overlap.

        Enclosures from samples or approximations need not overlap, and their bounds may be out of order.
        """
        return self not in (Evidence.STATISTICAL, Evidence.ASYMPTOTIC)

    @staticmethod
    def weakest(*parts: Evidence) -> Evidence:
        """Return the weakest of the given kinds of evidence.

        A number that is computed from several numbers has the weakest of their evidence.
        """
        return max(parts, key=_STRENGTH.index)


_STRENGTH = tuple(Evidence)
"""Strongest first."""


@dataclass(frozen=True, slots=True)
class EnclosureArray:
    """Element-wise enclosures: `lower <= truth <= upper`.

    Attributes
    ----------
    lower, upper : array of float64
        The bounds, of one shape.
    log_lower, log_upper : array or None
        Natural logarithms of these bounds. They are present if the truth may be smaller than the smallest double. Then
        `lower` is 0 or subnormal, and the logarithms represent the number.
    """

    lower: FloatArray
    upper: FloatArray
    log_lower: FloatArray | None = None
    log_upper: FloatArray | None = None

    @staticmethod
    def from_logs(log_lower: FloatArray, log_upper: FloatArray) -> EnclosureArray:
        """Return enclosures of numbers in [0, 1] from logarithms of their bounds, rounded outwards.

        Parameters
        ----------
        log_lower, log_upper : array
            Natural logarithms of the bounds, <= 0, of one shape.

        Returns
        -------
        EnclosureArray
            Bounds with these logarithms. A margin of 4 units in the last place covers the error of exp. The values 0
            and 1 stay exact.
        """
        # The tiny step covers results below the smallest normal double, where an error is absolute.
        lower = np.exp(log_lower) * (1 - 2.0**-50) - SMALLEST + 2.0**-50 * (log_lower == 0)
        upper = np.exp(log_upper) * (1 + 2.0**-50) + SMALLEST * (log_upper > -np.inf)
        return EnclosureArray(np.maximum(lower, 0.0), np.minimum(upper, 1.0), log_lower, log_upper)

    @staticmethod
    def of(number: Enclosure) -> EnclosureArray:
        """Return one enclosure as arrays of shape (1,). The method `at` is the inverse operation.

        Parameters
        ----------
        number : Enclosure
            The enclosure.

        Returns
        -------
        EnclosureArray
            Arrays of shape (1,).
        """
        logs = (None if end is None else np.array([end]) for end in (number.log_lower, number.log_upper))
        return EnclosureArray(np.array([number.lower]), np.array([number.upper]), *logs)

    @staticmethod
    def of_numbers(numbers: Sequence[Enclosure]) -> EnclosureArray:
        """Return enclosures as arrays.

        Parameters
        ----------
        numbers : sequence of Enclosure
            n enclosures.

        Returns
        -------
        EnclosureArray
            Arrays of shape (n,), with logarithms if all of the numbers have logarithms.
        """
        lower, upper = (np.array([getattr(each, name) for each in numbers]) for name in ("lower", "upper"))
        logs = ([getattr(each, name) for each in numbers] for name in ("log_lower", "log_upper"))
        return EnclosureArray(lower, upper, *(None if None in column else np.array(column) for column in logs))

    def __getitem__(self, at: IndexArray | BoolArray | slice) -> EnclosureArray:
        """Return the enclosures at the indices `at`, with logarithms if there are any."""
        logs = (None if end is None else end[at] for end in (self.log_lower, self.log_upper))
        return EnclosureArray(self.lower[at], self.upper[at], *logs)

    def clip(self, low: float, high: float) -> EnclosureArray:
        """Return the enclosures intersected with an interval that contains the truth.

        Parameters
        ----------
        low, high : float
            Endpoints of the interval.

        Returns
        -------
        EnclosureArray
            Enclosures within [low, high].
        """
        log_upper = self.log_upper
        if log_upper is not None and high > 0:
            log_upper = np.minimum(log_upper, math.log(high))
        return EnclosureArray(np.clip(self.lower, low, high), np.clip(self.upper, low, high), self.log_lower, log_upper)

    def at(self, index: int, evidence: Evidence) -> Enclosure:
        """Return one element as a single enclosure.

        Parameters
        ----------
        index : int
            Index of the element.
        evidence : Evidence
            Evidence of the enclosure.

        Returns
        -------
        Enclosure
            The element, with its logarithms if there are any.
        """
        return Enclosure(
            float(self.lower[index]),
            float(self.upper[index]),
            evidence,
            None if self.log_lower is None else float(self.log_lower[index]),
            None if self.log_upper is None else float(self.log_upper[index]),
        )


@dataclass(frozen=True, slots=True)
class DecimalEnclosure:
    """Enclosure with more digits than doubles have: decimal strings that are valid JSON numbers.

    Attributes
    ----------
    value : str
        The midpoint, rounded to nearest.
    lower, upper : str
        Bounds of the truth, rounded outwards.
    digits : int
        Largest number of significant digits of the strings.
    """

    value: str
    lower: str
    upper: str
    digits: int

    def largest(self, other: DecimalEnclosure) -> DecimalEnclosure:
        """Return the enclosure of the larger of this number and another one, with the fewer digits of both."""
        values, lowers, uppers = (
            max(pair, key=Decimal)
            for pair in ((self.value, other.value), (self.lower, other.lower), (self.upper, other.upper))
        )
        return DecimalEnclosure(values, lowers, uppers, min(self.digits, other.digits))


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Enclosure of one number, `lower <= truth <= upper`, with its evidence.

    Raises NumericalFailure if the bounds are out of order or not numbers. Results of a sample or an approximation need
    not be consistent: bounds made of two such results are put in order.

    Attributes
    ----------
    lower, upper : float
        The bounds.
    evidence : Evidence
        The kind of proof.
    log_lower, log_upper : float or None
        Natural logarithms of the bounds, if the truth may underflow.
    decimal : DecimalEnclosure or None
        More digits of the number, if the engine has them.
    """

    lower: float
    upper: float
    evidence: Evidence
    log_lower: float | None = None
    log_upper: float | None = None
    decimal: DecimalEnclosure | None = None

    def __post_init__(self) -> None:
        if self.lower <= self.upper:
            return
        if self.evidence.is_certain or not self.lower > self.upper:
            raise NumericalFailure(f"enclosure out of order: [{self.lower!r}, {self.upper!r}]")
        exchanged = (self.upper, self.lower, self.log_upper, self.log_lower)
        for name, end in zip(("lower", "upper", "log_lower", "log_upper"), exchanged, strict=True):
            object.__setattr__(self, name, end)

    def __neg__(self) -> Enclosure:
        """Return the enclosure of minus this number."""
        return Enclosure(-self.upper, -self.lower, self.evidence)

    @staticmethod
    def from_logs(log_lower: float, log_upper: float, evidence: Evidence) -> Enclosure:
        """Enclose a number in [0, 1] by logarithms of its bounds.

        Parameters
        ----------
        log_lower, log_upper : float
            Natural logarithms of the bounds, <= 0.
        evidence : Evidence
            Evidence of the enclosure.

        Returns
        -------
        Enclosure
            Bounds with these logarithms, rounded outwards by 4 ulp.
        """
        lower = 1.0 if log_lower == 0 else max(math.exp(log_lower) * (1 - 2.0**-50) - SMALLEST, 0.0)
        upper = 0.0 if log_upper == -math.inf else min(math.exp(log_upper) * (1 + 2.0**-50) + SMALLEST, 1.0)
        return Enclosure(lower, upper, evidence, log_lower, log_upper)

    @staticmethod
    def point(value: float) -> Enclosure:
        """Return the enclosure of a number that is known exactly.

        Parameters
        ----------
        value : float
            The number.

        Returns
        -------
        Enclosure
            Equal bounds with exact evidence.
        """
        return Enclosure(value, value, Evidence.EXACT)

    def intersected(self, other: Enclosure) -> Enclosure:
        """Return the intersection with another enclosure of the same number, without bounds of its logarithm.

        Parameters
        ----------
        other : Enclosure
            The other enclosure.

        Returns
        -------
        Enclosure
            The narrower enclosure.

        Raises
        ------
        NumericalFailure
            If the enclosures do not meet.
        """
        weakest = Evidence.weakest(self.evidence, other.evidence)
        return Enclosure(max(self.lower, other.lower), min(self.upper, other.upper), weakest)

    def at_most(self, most: float) -> Enclosure:
        """Return this enclosure with its upper bound reduced to a limit of the number.

        Parameters
        ----------
        most : float
            A limit that the number does not exceed.

        Returns
        -------
        Enclosure
            The enclosure with an upper bound of at most `most`.

        Raises
        ------
        NumericalFailure
            If the enclosure lies above `most`.
        """
        if self.upper <= most:
            return self
        log = self.log_upper if self.log_upper is None or most <= 0 else min(self.log_upper, math.log(most))
        return Enclosure(self.lower, most, self.evidence, self.log_lower, log)

    def within(self, low: float, high: float) -> Enclosure:
        """Return this enclosure with both bounds moved into an interval that contains the number.

        Parameters
        ----------
        low, high : float
            Endpoints of the interval.

        Returns
        -------
        Enclosure
            The enclosure within [low, high].
        """
        if low <= self.lower and self.upper <= high:
            return self
        lower, upper = min(max(self.lower, low), high), max(min(self.upper, high), low)
        return replace(self, lower=lower, upper=upper)

    def relative_width(self) -> float:
        """Return the relative width of the enclosure.

        Returns
        -------
        float
            (upper - lower)/|upper|, from the logarithms of the bounds if the bounds underflow; 0 for a point.
        """
        if self.log_lower is not None and self.log_upper is not None and self.upper < 1e-290:
            return 0.0 if self.log_upper == self.log_lower else -math.expm1(self.log_lower - self.log_upper)
        if self.lower == self.upper:
            return 0.0
        return (self.upper - self.lower) / max(abs(self.lower), abs(self.upper))
