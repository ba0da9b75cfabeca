"""Lengths of fast Fourier transforms."""

from __future__ import annotations


def fast_length(size: int) -> int:
    """The next length of the form 2^a or 3 2^a."""
    power = 1 << (size - 1).bit_length()
    return 3 * power // 4 if 3 * power // 4 >= size else power
