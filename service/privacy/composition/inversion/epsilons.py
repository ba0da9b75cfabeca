"""epsilon of a run at a delta: a root of its profile on a line, proved from both sides, or by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.epsilon_caps import epsilon_cap
from service.privacy.composition.inversion.profiles import straight_profile
from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.readings.roots import prove_root, solve_profile
from service.privacy.composition.inversion.run import CUT_DIGITS
from service.privacy.composition.inversion.run_lines import EVIDENCE, HOPELESS, RunLines
from service.privacy.composition.inversion.tilts import Tilt, TiltGrid
from service.privacy.enclosure import Enclosure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import is_spent

_ROUNDS, _FEW_ROUNDS = 60, 20
"""Rounds of bisections for an epsilon; few where no line has an end, and all readings are wide."""

_LARGEST_EPSILON = 1e24
"""Nats: farther no upper end is looked for. That of all Gaussian steps without sampling is about mu^2/2."""

_SHARED = 0.1
"""A width above this part of a good one, off a line that others share: it is read on the best line for it, too."""

_MANY_NODES = 256
"""Several times those of a line without rare jumps."""


@np.errstate(all="ignore")
def read_epsilon(lines: RunLines, delta: float) -> Enclosure:
    """The smallest eps >= 0 with delta(eps) <= delta in (0, 1), as narrow as lines can make it."""
    best: Enclosure | None = None
    wide = lines.accuracy.deformed
    rounds, tried = _FEW_ROUNDS, False
    order = lines.run.cuts(delta, abs(float(ndtri(delta))))
    for attempt, cut in enumerate(order):
        if is_spent():
            break
        grid = lines.grid(CUT_DIGITS[cut])
        if grid is None:
            continue
        tilt = grid.for_delta(delta)
        if not lines.has_end(tilt):
            rounds = _FEW_ROUNDS
            break
        rounds = _ROUNDS if tilt.line.ends.all() else rounds
        found = epsilon_on_line(grid, delta, lines.good_width)
        if lines.run.is_straight and (found is None or found.relative_width() > wide):
            nearer = _near_core(grid, tilt, delta)
            found = nearer if found is None or nearer is None else found.intersected(nearer)
        if found is not None:
            best = found if best is None else best.intersected(found)
            # Where jumps to several shifts make a line long, a deeper cut has more of them, and a longer one.
            long = lines.run.is_straight and tilt.line.nodes > _MANY_NODES
            if best.relative_width() <= (wide if long else lines.good_width):
                return best
        hopeless = attempt >= min(1, len(order) - 1) and (best is None or best.relative_width() > HOPELESS)
        if hopeless and lines.bent is not None and not tried:
            tried = True
            bounded = best or Enclosure(0.0, epsilon_cap(lines, delta), EVIDENCE)
            found = _on_bent_contours(lines, delta, bounded) if bounded.upper < math.inf else None
            if found is not None and found.relative_width() <= wide:
                return found
    if best is None:
        best = _by_bisection(lines, delta, min(rounds, _FEW_ROUNDS) if is_spent() else rounds)
    if best.relative_width() > wide and lines.bent is not None and best.upper > 0 and not is_spent():
        best = _on_bent_contours(lines, delta, best) or best
    return best


def _on_bent_contours(lines: RunLines, delta: float, known: Enclosure) -> Enclosure | None:
    """By bent contours, within what is known already; None where they prove nothing."""
    proved = None if lines.bent is None else lines.bent.epsilon(delta, known.lower, known.upper)
    return None if proved is None else known.intersected(Enclosure(*proved, EVIDENCE))


def epsilon_on_line(grid: TiltGrid, delta: float, good_width: float) -> Enclosure | None:
    """Root of delta(eps) = delta on the nearest line, proved from both sides; None where the line cannot."""
    tilt = grid.for_delta(delta)
    level = np.array([delta])
    threshold = solve_profile(tilt.line, level)
    if not 0 < threshold[0] < math.inf:
        return None
    nearest = grid.for_root(tilt, float(threshold[0]))
    if nearest is not tilt:
        tilt, threshold = nearest, solve_profile(nearest.line, level)
    found = _proved(tilt, threshold, level)
    if 0 < threshold[0] < math.inf and (found is None or found.relative_width() > _SHARED * good_width):
        best = grid.for_thresholds(threshold, shared=False)[0]
        if best is not tilt and best.theta > 0:
            other = _proved(best, solve_profile(best.line, level), level)
            return other if found is None else found if other is None else found.intersected(other)
    return found


def _proved(tilt: Tilt, threshold: FloatArray, level: FloatArray) -> Enclosure | None:
    """Ends around an approximate root on a line; None where there is none, or nothing is proved."""
    if not 0 < threshold[0] < math.inf:
        return None
    lower, upper = prove_root(tilt.line, threshold, level)
    return None if math.isnan(lower[0]) else Enclosure(float(lower[0]), float(upper[0]), EVIDENCE)


def _near_core(grid: TiltGrid, tilt: Tilt, delta: float) -> Enclosure | None:
    """The same on a line nearer to the core, as far humps are read (`profiles.py`)."""
    nearer, level = grid.near_core(tilt.theta), np.array([delta])
    return None if nearer is None else _proved(nearer, solve_profile(nearer.line, level), level)


def _by_bisection(lines: RunLines, delta: float, rounds: int) -> Enclosure:
    """The same from the enclosures of the profile by straight lines, however wide: one bisection for each end."""
    level = math.log(delta)
    slack = 1e-15 * (1 + abs(level))
    if straight_profile(lines, np.zeros(1)).upper[0, 0] <= level - slack:
        return Enclosure(0.0, 0.0, EVIDENCE)
    high = 1e-12
    while straight_profile(lines, np.array([high])).upper[0, 0] > level - slack:
        high *= 16
        if high > _LARGEST_EPSILON:
            return Enclosure(0.0, math.inf, EVIDENCE)
    upper = _bisect(lines, lambda known: known.upper[0, 0] <= level - slack, 0.0, high, rounds)[1]
    lower = _bisect(lines, lambda known: known.lower[0, 0] <= level + slack, 0.0, upper, rounds)[0]
    return Enclosure(lower, upper, EVIDENCE)


def _bisect(
    lines: RunLines, small: Callable[[Readings], np.bool_], low: float, high: float, rounds: int
) -> tuple[float, float]:
    """Shrink [low, high] to 1e-12 of high; small(profile(high)) stays true, small(profile(low)) false or low 0."""
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        if small(straight_profile(lines, np.array([middle]))):
            high = middle
        else:
            low = middle
        if high - low <= 1e-12 * high:
            break
    return low, high
