"""Sizes of chunks (ranges of points of a job) and priority classes of jobs, for both backends.

A chunk should take about 0.5 s of CPU time and at most 1 s of wall-clock time. Shorter chunks would spend much of the
time on dispatching, and their points would share fewer intermediate results. Longer chunks would delay progress, lose
more work when a worker dies, and block small jobs. Estimated costs determine the first chunk. They can be wrong by a
large factor, so the first chunks are short, and measured times determine the later ones.
"""

from __future__ import annotations

from typing import Final

from service.execution.worker_admission import COST_UNITS_PER_SECOND
from service.resources.abstract import BLOCK_POINTS

TARGET_SECONDS: Final = 0.5
MAX_STRETCH: Final = 2.0
"""Largest ratio of wall-clock time to CPU time that is attributed to other load. Beyond it, chunks become shorter."""
CHUNK_LIMIT_SECONDS: Final = 8.0
"""Time limit of a chunk of several points. Two chunks of half the size replace a chunk that exceeds the limit."""
FIRST_SHARE: Final = 0.25
MAX_CHUNK_POINTS: Final = 2_000
"""Largest number of points of a chunk. Their lines take about a megabyte of memory at once."""
MAX_GROWTH: Final = 2.0
MIN_BLOCK_SHARE: Final = 0.25
"""Share of a block from which on a chunk is extended to a full block. The first chunk of most sweeps is one block."""
NEWEST_WEIGHT: Final = 0.3
"""Weight of the newest measurement in the exponential mean."""
MAX_TRIES: Final = 3
"""Largest number of attempts for a chunk whose worker dies. Afterwards its points fail."""
LOWEST_CLASS_COST: Final = 2 * COST_UNITS_PER_SECOND
"""Upper end of the first priority class, as estimated cost of the dispatched points."""


def initial_size(cost: int, total: int, most: int) -> int:
    """Return the number of points, at most `most`, of the first chunk of a job with `total` points.

    `cost` is the estimated cost of all points in microseconds of CPU time. The chunk should take about 0.125 s, and has
    at least one point. A chunk is a range of points that one process computes.
    """
    seconds = max(cost / COST_UNITS_PER_SECOND / total, 1e-9)
    return _align_to_blocks(FIRST_SHARE * TARGET_SECONDS / seconds, most)


def next_size(before: int, seconds_per_point: float, most: int) -> int:
    """Return the number of points of a job's next chunk, at most `most`, after a chunk of `before` points.

    `seconds_per_point` is the mean measured time of a point of the job. The chunk should take about 0.5 s, and has at
    most twice `before` points.
    """
    return _align_to_blocks(min(TARGET_SECONDS / max(seconds_per_point, 1e-9), MAX_GROWTH * before), most)


def smoothed_seconds(before: float | None, seconds: float, cpu_seconds: float, points: int) -> float:
    """Update the mean number of seconds per point of a job with the measured times of a chunk.

    `before` is the previous mean, or None before the first chunk. The newest chunk has weight 0.3 in the mean.
    `seconds` of wall-clock time and `cpu_seconds` were measured for all `points` of the chunk. CPU time counts, or half
    the wall-clock time if that is longer: on a busy machine chunks wait for a processor, and shorter chunks would not
    help.
    """
    newest = max(cpu_seconds, seconds / MAX_STRETCH) / points
    return newest if before is None else (1 - NEWEST_WEIGHT) * before + NEWEST_WEIGHT * newest


def priority_class(work: float) -> int:
    """Return the priority class of a job from `work`, the estimated cost of the points already given to workers.

    The cost is in microseconds of CPU time. Class 0 ends at two seconds, and class n at 2^n times this cost. Lower
    classes run first, and the jobs of a class one after the other.
    """
    return int(work / LOWEST_CLASS_COST).bit_length()


def chunk_end(start: int, size: int, total: int) -> int:
    """Return the index after the last point of a chunk that begins at the point `start`.

    The chunk has up to `size` of the `total` points of the job. A chunk that reaches neither the last point nor the end
    of a block is shortened to the last block boundary within it, if there is one. The points of a block are evaluated
    together and share intermediate results.
    """
    stop = min(start + size, total)
    last_block = stop - stop % BLOCK_POINTS
    return last_block if start < last_block and stop < total else stop


def _align_to_blocks(points: float, most: int) -> int:
    # Points of a block are evaluated together, so that chunks of whole blocks compute the intermediate results of each
    # block once.
    found = max(1, min(int(points), most))
    if found < BLOCK_POINTS * MIN_BLOCK_SHARE or most < BLOCK_POINTS:
        return found
    return max(BLOCK_POINTS, found - found % BLOCK_POINTS)
