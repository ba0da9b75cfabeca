"""How many points a piece has, and whose turn it is: the same for both backends.

A piece takes about half a second of CPU, and a second by the clock at most: long enough that handing it over costs
nothing and its points share what they need, short enough that progress is seen, that little is lost with a worker, and
that a small job passes a large one soon. Prices say how many points that are before anything is known, and may be wrong
by a lot: so the first pieces are short, and what was measured decides.
"""

from __future__ import annotations

from typing import Final

from service.computations.abstract import BLOCK_POINTS
from service.execution.worker_admission import COST_UNITS_PER_SECOND

TARGET_SECONDS: Final = 0.5
LARGEST_STRETCH: Final = 2.0
"""By the clock over CPU: pieces that are stretched more are made shorter."""
PIECE_LIMIT_SECONDS: Final = 8.0
"""A piece of several points is ended after this, and its halves take its place."""
FIRST_SHARE: Final = 0.25
LARGEST_PIECE: Final = 2_000
"""Points: their lines are about a megabyte, which whoever sends or reads them holds at once."""
GROWTH: Final = 2.0
LEAST_OF_A_BLOCK: Final = 0.25
"""Pieces from this share of a block on are made whole blocks: the first piece of most sweeps is one."""
NEWEST: Final = 0.3
"""Weight of the newest measurement."""
LARGEST_TRIES: Final = 3
"""So often a piece is begun whose worker dies; then its points have a problem."""
SMALLEST_CLASS: Final = 2 * COST_UNITS_PER_SECOND
"""Work of a job that belongs to the first class."""


def first_points(cost: int, total: int, most: int) -> int:
    """Points of the first piece."""
    seconds = max(cost / COST_UNITS_PER_SECOND / total, 1e-9)
    return _within(FIRST_SHARE * TARGET_SECONDS / seconds, most)


def next_points(before: int, seconds_per_point: float, most: int) -> int:
    """Points of the next piece, where one of `before` points was made last."""
    return _within(min(TARGET_SECONDS / max(seconds_per_point, 1e-9), GROWTH * before), most)


def measured(before: float | None, seconds: float, cpu_seconds: float, points: int) -> float:
    """Seconds for one point, as far as is known, from what a piece took by the clock and of CPU.

    On a busy machine a piece waits for a processor; short ones would make that worse, as points that are read together
    share what they need.
    """
    newest = max(cpu_seconds, seconds / LARGEST_STRETCH) / points
    return newest if before is None else (1 - NEWEST) * before + NEWEST * newest


def work_class(work: float) -> int:
    """Return the class of a job whose points given out are estimated at this work; the least comes first. A class has
    twice the work of the one before: jobs of a class are computed one after the other, not all at once.
    """
    return int(work / SMALLEST_CLASS).bit_length()


def end_of_piece(start: int, size: int, total: int) -> int:
    """Return where a piece of about `size` points ends: at a block of the sweep, if one ends in it."""
    stop = min(start + size, total)
    last_block = stop - stop % BLOCK_POINTS
    return last_block if start < last_block and stop < total else stop


def _within(points: float, most: int) -> int:
    """A few points, or whole blocks of a sweep: what pieces that begin and end with one compute is computed once."""
    found = max(1, min(int(points), most))
    if found < BLOCK_POINTS * LEAST_OF_A_BLOCK or most < BLOCK_POINTS:
        return found
    return max(BLOCK_POINTS, found - found % BLOCK_POINTS)
