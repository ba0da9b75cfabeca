"""Minimum and maximum of two enclosed numbers, from their bounds, element by element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from service.privacy.enclosure import DecimalEnclosure, Enclosure, EnclosureArray, Evidence


def smallest(first: Enclosure, second: Enclosure) -> Enclosure:
    """Return the enclosure of the smaller of two numbers, without the extra digits of a `DecimalEnclosure`."""
    return _of_ends(min, first, second)


def largest(first: Enclosure, second: Enclosure) -> Enclosure:
    """Return the enclosure of the larger of two numbers.

    If both have bounds with more digits than doubles (`decimal`), the result has such bounds, too.

    Parameters
    ----------
    first, second : Enclosure
        Both numbers.

    Returns
    -------
    Enclosure
        The larger number.
    """
    one, other = first.decimal, second.decimal
    return _of_ends(max, first, second, None if one is None or other is None else one.largest(other))


def _of_ends(
    pick: Callable[[float, float], float], first: Enclosure, second: Enclosure, decimal: DecimalEnclosure | None = None
) -> Enclosure:
    log_lower, log_upper = (
        None if one is None or other is None else pick(one, other)
        for one, other in ((first.log_lower, second.log_lower), (first.log_upper, second.log_upper))
    )
    ends = pick(first.lower, second.lower), pick(first.upper, second.upper)
    return Enclosure(*ends, Evidence.weakest(first.evidence, second.evidence), log_lower, log_upper, decimal)


def smaller(first: EnclosureArray, second: EnclosureArray) -> EnclosureArray:
    """Return the enclosures of the smaller of two numbers, element by element, with logarithms if both have them."""
    return _of_arrays(np.minimum, first, second)


def larger(first: EnclosureArray, second: EnclosureArray) -> EnclosureArray:
    """Return the enclosures of the larger of two numbers, element by element, with logarithms if both have them.

    Parameters
    ----------
    first, second : EnclosureArray
        Both lists of numbers, of one shape.

    Returns
    -------
    EnclosureArray
        The larger numbers.
    """
    return _of_arrays(np.maximum, first, second)


def _of_arrays(pick: np.ufunc, first: EnclosureArray, second: EnclosureArray) -> EnclosureArray:
    logs = (
        None if one is None or other is None else pick(one, other)
        for one, other in ((first.log_lower, second.log_lower), (first.log_upper, second.log_upper))
    )
    return EnclosureArray(pick(first.lower, second.lower), pick(first.upper, second.upper), *logs)
