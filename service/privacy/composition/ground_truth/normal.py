"""Tails of the normal law in ball arithmetic."""

from __future__ import annotations

from flint import arb


def normal_tail(x: arb) -> arb:
    """P(N(0, 1) > x).

    Between its values at the ends of the ball, which are exact numbers: far out the library's own bound for a ball
    is relative to 1, not to the tail.
    """
    scaled = x / arb(2).sqrt()
    return scaled.lower().erfc().union(scaled.upper().erfc()) / 2
