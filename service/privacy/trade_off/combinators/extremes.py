"""The smaller and the larger one of two enclosed numbers: each end is that of the ends, element by element."""

from __future__ import annotations

import numpy as np

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.enclosed.logs import log_ends


def smallest(first: Enclosure, second: Enclosure) -> Enclosure:
    """min(first, second); without decimals."""
    logs = [
        None if one is None or other is None else min(one, other)
        for one, other in ((first.log_lower, second.log_lower), (first.log_upper, second.log_upper))
    ]
    ends = min(first.lower, second.lower), min(first.upper, second.upper)
    return Enclosure(*ends, Evidence.weakest(first.evidence, second.evidence), logs[0], logs[1])


def largest(first: Enclosure, second: Enclosure) -> Enclosure:
    """max(first, second), with decimals where both have them."""
    logs = [
        None if one is None or other is None else max(one, other)
        for one, other in ((first.log_lower, second.log_lower), (first.log_upper, second.log_upper))
    ]
    ends = max(first.lower, second.lower), max(first.upper, second.upper)
    decimals = first.decimal, second.decimal
    decimal = None if decimals[0] is None or decimals[1] is None else decimals[0].largest(decimals[1])
    return Enclosure(*ends, Evidence.weakest(first.evidence, second.evidence), logs[0], logs[1], decimal)


def smaller_in_logs(first: EnclosureArray, second: EnclosureArray) -> EnclosureArray:
    """min(first, second), with logarithms of all ends."""
    (one_low, one_high), (other_low, other_high) = log_ends(first), log_ends(second)
    return EnclosureArray(
        np.minimum(first.lower, second.lower),
        np.minimum(first.upper, second.upper),
        np.minimum(one_low, other_low),
        np.minimum(one_high, other_high),
    )


def larger_in_logs(first: EnclosureArray, second: EnclosureArray) -> EnclosureArray:
    """max(first, second), with logarithms of all ends."""
    (one_low, one_high), (other_low, other_high) = log_ends(first), log_ends(second)
    return EnclosureArray(
        np.maximum(first.lower, second.lower),
        np.maximum(first.upper, second.upper),
        np.maximum(one_low, other_low),
        np.maximum(one_high, other_high),
    )


def larger(first: EnclosureArray, second: EnclosureArray) -> EnclosureArray:
    """max(first, second), with logarithms where both have them."""
    logs: list[FloatArray | None] = [None, None]
    if first.log_lower is not None and second.log_lower is not None:
        logs[0] = np.maximum(first.log_lower, second.log_lower)
    if first.log_upper is not None and second.log_upper is not None:
        logs[1] = np.maximum(first.log_upper, second.log_upper)
    return EnclosureArray(np.maximum(first.lower, second.lower), np.maximum(first.upper, second.upper), *logs)
