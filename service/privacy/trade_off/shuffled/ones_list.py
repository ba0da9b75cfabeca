"""Profile of a number of ones at many thresholds, by few contours. `ones.py` has the notation.

Tests "at least J ones" of neighbouring thresholds have neighbouring J, and one contour serves all J within two standard
deviations of the mean of its tilted law. So a few contours (`ones_contour.py`) give all tests that the thresholds need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.bounded_tests import BoundedTests
from service.privacy.trade_off.shuffled.mean_form import exponential
from service.privacy.trade_off.shuffled.ones import Ones
from service.privacy.trade_off.shuffled.ones_contour import AROUND, LEAST_TILT, OnesContour

FARTHEST: Final = 3.0
"""Largest distance of the J of one contour, in standard deviations of its tilted law."""
STEEPEST: Final = 300.0
"""Largest |J - J'| s0 for two numbers J, J' of one contour with the tilt s0."""
ROUNDING: Final = 32 * UNIT_ROUNDOFF
"""Relative error of a product, of which a factor has a rounded exponential."""
WIDE: Final = 1e-6
"""Width of ln delta above which a threshold has a contour of its own."""

Bounds = tuple[FloatArray, FloatArray]
"""Lower and upper bounds, arrays of one shape."""


def ones_log_deltas(ones: Ones, epsilon: FloatArray) -> Bounds:
    """Return (lower, upper) bounds of ln delta at thresholds >= 0 (nats) below the largest loss, shape (n,)."""
    order = np.argsort(epsilon, kind="stable")
    groups = [(contour, part, *_bounds(ones, contour, part)) for contour, part in _contours(ones, epsilon[order])]
    low, high = np.empty_like(epsilon), np.empty_like(epsilon)
    low[order] = np.concatenate([each[2] for each in groups])
    high[order] = np.concatenate([each[3] for each in groups])
    return low, high


def ones_tests(ones: Ones, epsilon: FloatArray) -> BoundedTests:
    """Return about 13 tests next to the best one at each threshold >= 0 (nats) below the largest loss."""
    found = list[BoundedTests]()
    with np.errstate(all="ignore"):
        for contour, part in _contours(ones, np.sort(epsilon)):
            mass, tail, scale = contour.values(np.unique(part.starts[:, None] + part.around))
            found.append(contour.tests(mass, tail, scale))
    return BoundedTests.joined(found)


@final
@dataclass(frozen=True, slots=True)
class _Part:
    """Thresholds `epsilon` of one contour, about the best J of each in `starts`, and distances from it in `around`.

    J is the number of ones from which a test rejects H0.
    """

    epsilon: FloatArray
    starts: FloatArray
    around: FloatArray


def _contours(ones: Ones, epsilon: FloatArray) -> list[tuple[OnesContour, _Part]]:
    """Return the contours of rising thresholds, each with its thresholds."""
    tilts, means, deviations = _tilted(ones, epsilon)
    found = list[tuple[OnesContour, _Part]]()
    start = 0
    while start < len(epsilon):
        reach = min(FARTHEST * float(deviations[start]), STEEPEST / float(tilts[start]))
        stop = max(int(np.searchsorted(means, float(means[start]) + reach, side="right")), start + 1)
        middle = float(epsilon[(start + stop - 1) // 2])
        contour = OnesContour(ones.ratio, (ones.others, ones.swapped().others), middle)
        around = AROUND[np.abs(AROUND) * contour.tilt <= STEEPEST]
        found.append((contour, _Part(epsilon[start:stop], np.floor(means[start:stop]) + 1, around)))
        start = stop
    return found


def _tilted(ones: Ones, epsilon: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return about the tilt where P(J) = E Q(J) for each threshold, and the mean and deviation there; steers only.

    P and Q are the masses of the number J of ones under H1 and H0, and E = e^`epsilon`. The mean and the standard
    deviation are those of the tilted number of ones of the others.
    """
    p, rise = float(ones.ratio), float(ones.ratio - 1)
    a, b = p / (p + 1), 1 / (p + 1)
    kinds = ((ones.others, a, b), (ones.swapped().others, b, a))
    spread = math.sqrt((ones.reports - 1) * a * b)
    grown = np.expm1(epsilon)
    with np.errstate(all="ignore"):
        tilts = np.log1p((p + 1) * grown / np.maximum(rise - grown, 1e-300 * rise))
        tilts = np.minimum(tilts, 600.0)
        odds = np.exp(tilts)
        shares = [share * odds / (rest + share * odds) for _, share, rest in kinds]
    mean: FloatArray = sum(
        (count * share for (count, _, _), share in zip(kinds, shares, strict=True)), np.zeros_like(tilts)
    )
    variance = sum(
        (count * share * (1 - share) for (count, _, _), share in zip(kinds, shares, strict=True)), np.zeros_like(tilts)
    )
    return np.maximum(tilts, LEAST_TILT / max(spread, 1.0)), mean, np.sqrt(variance)


def _bounds(ones: Ones, contour: OnesContour, part: _Part) -> Bounds:
    """Return bounds of ln delta at the thresholds of one contour."""
    epsilon, around, wanted = part.epsilon, part.around, part.starts[:, None] + part.around
    numbers = np.unique(wanted)
    at = np.searchsorted(numbers, wanted)
    with np.errstate(all="ignore"):
        (mass_low, mass_high), (tail_low, tail_high), scale = contour.values(numbers)
        excess, first = (each[:, None] for each in _factors(ones, epsilon))
        low = first * mass_low[at] * (1 - ROUNDING) - excess * tail_high[at] * (1 + ROUNDING)
        high = first * mass_high[at] * (1 + ROUNDING) - excess * tail_low[at] * (1 - ROUNDING)
        best, least, most = low.argmax(axis=1), low.max(axis=1), high.max(axis=1)
        places = np.arange(len(around))
        smaller = high < least[:, None]
        proved = (smaller & (places < best[:, None])).any(axis=1) & (smaller & (places > best[:, None])).any(axis=1)
        room = 8 * UNIT_ROUNDOFF * (1 + abs(scale))
        log_low = np.where(least > 0, np.log(np.maximum(least, 1e-320)) + scale - room, -np.inf)
        log_high = np.minimum(np.log(np.maximum(most, 1e-320)) + scale + room, 0.0)
    for index in np.flatnonzero(~(proved & (log_high - log_low <= WIDE))).tolist():
        log_low[index], log_high[index] = ones.log_delta(float(epsilon[index]))
    return log_low, log_high


def _factors(ones: Ones, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return E - 1 and (p - E)/(p + 1) for E = e^`epsilon`, with relative errors of at most `ROUNDING`/2."""
    gain = float(ones.ratio - 1)  # the double of p may differ from p by more than the rounding of p - 1
    excess = np.expm1(epsilon)
    first = (gain - excess) / (gain + 2)
    for index in np.flatnonzero(2 * excess > gain).tolist():  # the difference loses digits
        numerator, unit = ones.ratio.numerator, ones.ratio.denominator
        threshold = exponential(float(epsilon[index]))
        e, of_e = threshold.numerator, threshold.denominator
        first[index] = max((numerator * of_e - e * unit) / (of_e * (numerator + unit)), 0.0)
    return excess, first
