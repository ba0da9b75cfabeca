"""Efficient lengths of fast Fourier transforms."""

from __future__ import annotations


def fast_length(size: int) -> int:
    """Return the smallest fast length >= `size` of a Fourier transform: 2^a, 3 2^a, 5 2^a, 9 2^a or 15 2^a."""
    power = 1 << (size - 1).bit_length()
    return next((part for share in (9, 10, 12, 15) if (part := share * power // 16) >= size and power >= 16), power)
