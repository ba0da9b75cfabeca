"""The profile of a run, read off its lines."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.readings.profile import read_profile
from service.privacy.composition.inversion.run import CUT_DIGITS
from service.privacy.composition.inversion.run_lines import HOPELESS, SLACK_OF_LISTS, RunLines, shared, without
from service.privacy.enclosure import Bounds
from service.privacy.numerics.arrays import FloatArray, IndexArray

_UNKNOWN_DEPTH = 23.0
"""Nats below its upper bound at which a delta is looked for of which no lower bound is known."""

_SLACK_OF_ROUGH_LISTS, _ROUGH_DIGITS = 11.0, 6.0
"""Nats (five digits) that a place of a list may lose for the sake of fewer lines where few digits are asked for, which
lie so many above the cut; what is wide is not read again.
"""


@np.errstate(all="ignore")
def read_profiles(lines: RunLines, epsilon: FloatArray) -> Bounds:
    """delta at finite epsilons, as narrow as lines can make it."""
    known = straight_profile(lines, epsilon, bent=True)
    return Bounds.from_logs(known.lower[0], known.upper[0])


def _read_bent(lines: RunLines, places: IndexArray, epsilon: FloatArray, known: Readings) -> None:
    """Tighten ln delta at some places by a bent contour for each."""
    for place in places:
        if lines.bent is None:
            return
        level = max(float(known.lower[0, place]), float(known.upper[0, place]) - _UNKNOWN_DEPTH)
        known.tighten(np.array([place]), lines.bent.profile(float(epsilon[place]), level))


@np.errstate(all="ignore")
def read_roughly(lines: RunLines, epsilon: FloatArray, rate: float) -> Bounds:
    """By the fewest lines that reach all of them, on the cut that the point is read at, or a deeper one."""
    beyond = epsilon >= lines.largest_log_ratio.upper
    known = Readings(np.full((1, len(epsilon)), -np.inf), np.where(beyond, -np.inf, 0.0)[None])
    places = np.flatnonzero(~beyond)
    order = lines.run.cuts(min(rate, 1 - rate), abs(float(ndtri(rate))))
    for cut in order if len(places) else ():
        digits, grid = CUT_DIGITS[cut], lines.grid(CUT_DIGITS[cut])
        if grid is not None:
            tilts = grid.beyond_the_poles(epsilon[places], _SLACK_OF_ROUGH_LISTS)
            deep = min(tilt.log_profile for tilt in tilts) > (_ROUGH_DIGITS - digits) * math.log(10)
            if (deep and grid.reaches(epsilon[places]).all()) or cut == order[-1]:
                lines.read(None, tilts, places, known, lambda line, at: read_profile(line, epsilon[at]))
                break
    return Bounds.from_logs(known.lower[0], known.upper[0])


def straight_profile(lines: RunLines, epsilon: FloatArray, *, bent: bool = False) -> Readings:
    """ln delta by straight lines and the bounds that need no line; `bent`: by bent contours, too, where these are
    wide.
    """
    beyond = epsilon >= lines.largest_log_ratio.upper
    known = Readings(np.full((1, len(epsilon)), -np.inf), np.where(beyond, -np.inf, 0.0)[None])
    inside = np.flatnonzero(~beyond)
    orders = lines.run.cut_orders_for_thresholds(epsilon)
    if len(inside) > 1:
        cuts = shared(orders)
        for cut in sorted({int(cut) for cut in cuts[inside]}):
            _read_at(lines, cut, inside[cuts[inside] == cut], epsilon, known, SLACK_OF_LISTS)
        inside = inside[known.width()[inside] > lines.good_width]
    read = inside[:0]
    for attempt in range(orders.shape[1]):
        cuts = orders[:, attempt]
        ended = [
            _read_at(lines, cut, inside[cuts[inside] == cut], epsilon, known)
            for cut in sorted({int(cut) for cut in cuts[inside]})
        ]
        if bent and attempt == 1:
            read = lines.wide(known, 1, HOPELESS)
            read = read[np.isin(read, inside)] if len(read) else read
            _read_bent(lines, read, epsilon, known)
        inside = inside[known.width()[inside] > lines.good_width]
        if len(inside) == 0 or not all(ended):
            break
    if len(inside):
        _read_far_humps(lines, inside, epsilon, known)
        known.tighten(inside, lines.fallback.profile(epsilon[inside]))
    if bent:
        _read_bent(lines, without(lines.wide(known, 1), read), epsilon, known)
    return known


def _read_far_humps(lines: RunLines, places: IndexArray, epsilon: FloatArray, known: Readings) -> None:
    """Among humps far apart lines through saddle points have no end; one near the core has, at the price of digits,
    and reads far thresholds that jumps of little chance decide.
    """
    grid = lines.grid(CUT_DIGITS[0]) if lines.run.is_straight else None
    places = places[known.width(1)[places] > lines.accuracy.deformed]
    tilt = grid.near_core() if grid is not None and len(places) else None
    if tilt is not None:
        known.tighten(places, read_profile(tilt.line, epsilon[places]))


def _read_at(
    lines: RunLines, cut: int, places: IndexArray, epsilon: FloatArray, known: Readings, slack: float = 0.0
) -> bool:
    """Read the profile at some places on the lines of one cut, where it is deep enough and the grid reaches; with
    `slack` on few lines, and on no neighbours of these.

    False where lines have no end.
    """
    grid = lines.grid(CUT_DIGITS[cut])
    if grid is None or len(places) == 0:
        return True
    tilts = grid.for_thresholds(epsilon[places], slack)
    # Deep enough: the cut lies 11 digits below delta (about; what it leaves out is in the enclosure in any case).
    deep = np.array([tilt.log_profile for tilt in tilts]) > (11 - CUT_DIGITS[cut]) * math.log(10)
    ready = (deep & grid.reaches(epsilon[places])) | (cut == len(CUT_DIGITS) - 1)
    chosen = [tilt for tilt, is_ready in zip(tilts, ready, strict=True) if is_ready]
    beside = grid if slack == 0 else None
    return lines.read(beside, chosen, places[ready], known, lambda line, at: read_profile(line, epsilon[at]))
