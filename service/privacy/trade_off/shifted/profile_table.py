"""Table of an approximate privacy profile that guides searches; no bound relies on the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray

FIRST: Final = 256
"""Count of intervals before the first refinement."""
CLOSE: Final = 1e-6
"""Relative error of ln delta at which an interval is not halved."""
SHORT: Final = 1e-9
"""Smallest interval in nats, over 1 + |eps|. Next to the largest loss a profile falls without limit."""
FAINTEST: Final = -1_000.0
"""Smallest ln delta that is refined."""
MOST: Final = 1 << 16
Entries = tuple[FloatArray, FloatArray, FloatArray]


@final
class ProfileTable:
    """Approximation of ln delta(eps) by cubic interpolation between nodes with known slopes.

    delta(eps) is the privacy profile of a curve, and eps is in nats.
    """

    def __init__(self, entries: Callable[[FloatArray], Entries], low: float, high: float) -> None:
        """Build the table over thresholds in [low, high].

        `entries` returns eps, ln delta and its slope at rising thresholds.
        """
        at = np.linspace(low, high, FIRST + 1)
        known = np.stack(entries(at))
        open_still = np.ones(FIRST, dtype=bool)
        while open_still.any() and len(at) < MOST:
            left = np.flatnonzero(open_still)
            middle = 0.5 * (at[left] + at[left + 1])
            found = np.stack(entries(middle))
            off = np.abs(_between(known[:, left], known[:, left + 1], found[0]) - found[1])
            again = off > CLOSE * (1 + np.abs(found[1]))
            again &= known[0, left + 1] - known[0, left] > SHORT * (1 + np.abs(found[0]))
            again &= known[1, left] > FAINTEST
            open_still[left] = again
            open_still = np.insert(open_still, left + 1, again)
            at, known = np.insert(at, left + 1, middle), np.insert(known, left + 1, found, axis=1)
        rising = np.flatnonzero(np.isfinite(known).all(axis=0))
        rising = rising[np.append(True, np.diff(np.maximum.accumulate(known[0, rising])) > 0)]
        self._known = known[:, rising]

    def log_profile(self, epsilon: FloatArray) -> FloatArray:
        """Return approximate ln of the privacy profile at `epsilon` from the table, at infinite epsilons too.

        Left of the table the profile is taken as 1 - e^eps, and right of the table its logarithm as linear.
        """
        known = self._known
        inside = np.clip(epsilon, known[0, 0], known[0, -1])
        place = np.clip(np.searchsorted(known[0], inside, side="right"), 1, known.shape[1] - 1)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            read = _between(known[:, place - 1], known[:, place], inside)
            read = np.where(epsilon < known[0, 0], np.log(-np.expm1(np.minimum(epsilon, 0.0))), read)
            after = known[1, -1] + known[2, -1] * (epsilon - known[0, -1])
        return np.minimum(np.where(epsilon > known[0, -1], after, read), 0.0)


def _between(left: FloatArray, right: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Return the cubic (Hermite) interpolation at `epsilon` between the nodes `left` and `right`.

    The rows of a node are eps, the value and the slope of ln delta, the logarithm of the privacy profile.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        width = right[0] - left[0]
        share = np.where(width > 0, (epsilon - left[0]) / width, 0.0)
        rise = right[1] - left[1]
        bend_left, bend_right = width * left[2] - rise, rise - width * right[2]
        return left[1] + share * rise + share * (1 - share) * ((1 - share) * bend_left + share * bend_right)
