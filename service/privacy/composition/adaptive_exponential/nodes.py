"""Grids of the recursion over exponential steps, and the nodes of their trade-off curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from service.privacy.composition.adaptive_exponential.fixed_shifts import Groups
from service.privacy.composition.adaptive_exponential.recursion import (
    NodeValues,
    any_order,
    fixed_order,
    log_end_profile,
)
from service.privacy.enclosure import SMALLEST
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_separately, count_work
from service.privacy.trade_off.symmetric_polygon import PolygonBounds, SymmetricPolygon

MOST_CELLS: Final = 512
FEWEST_CELLS: Final = 8
"""Smallest number of cells of the largest epsilon."""
MOST_TABLES: Final = 4_000
"""Largest number of tables, one for each combination of remaining steps of each kind."""
WORST_ROUNDING: Final = 5e-3
"""Largest relative rounding of an epsilon to a multiple of the spacing. Other steps are excluded from the recursion."""
END_NODES: Final = 400
"""Number of nodes in the range of the closed form, in geometric order towards the largest loss."""
END_PITCH, END_REACH = 0.045, 16.0
"""Spacing of further nodes in units of sqrt(k + 1), and their range in units of k + 1, for k steps."""
NEAREST_END: Final = 1e-9
"""Smallest distance of a node from the largest loss, as a share of that loss."""
WIDEST: Final = 6e-4
"""Largest width of delta at a node, for steps of equal epsilon. Between nodes the width is up to 1.5 times as large."""
SURE: Final = 6e-4
"""Smallest 1 - delta at which the grid is refined."""
FINER: Final = 0.93
"""Safety factor of the spacing that should reach the width. The width is proportional to the squared spacing."""
LARGE, EXCESS = 100.0, 0.45
"""Epsilon beyond which grids of the whole range are too coarse for this estimate, and exponent of the correction."""
KEPT_POLYGONS: Final = 16
"""Number of cached polygons, each of up to 2 MB."""


@dataclass(frozen=True, slots=True)
class GroupGrid:
    """Grid of losses for a recursion: the spacing, and the epsilon of each group of equal steps in multiples of it.

    The multiples are rounded up (`above`) for upper bounds of delta, and down (`below`) for lower bounds.
    """

    spacing: float
    above: tuple[int, ...]
    below: tuple[int, ...]


def grid_for(groups: Groups, tolerance: float = 0.0) -> GroupGrid | None:
    """Return the grid of losses (nats) for a recursion over groups (epsilon, count) of exponential steps.

    The result is None if the recursion would have too many tables, if its work limit allows too few cells, or if every
    grid rounds some epsilon by more than WORST_ROUNDING, relatively. `tolerance` is the relative width of delta to
    reach. With 0, the grid is as fine as these limits allow.
    """
    tables = math.prod(count + 1 for _, count in groups)
    largest = max(epsilon for epsilon, _ in groups)
    steps = sum(count for _, count in groups)
    if tables > MOST_TABLES:
        return None
    # Rows times shifts of all tables, for a single cell in the largest epsilon.
    shares = [(epsilon / largest, count) for epsilon, count in groups]
    total = sum(share * count for share, count in shares)
    work = tables * (0.5 * total + 1) * sum(share for share, _ in shares)
    wanted = max(math.sqrt(4 * (1 + math.log(steps)) / max(tolerance, 1e-12)), FEWEST_CELLS)
    cells = min(int(math.sqrt(4e6 * (1 + steps / 25) / work)), MOST_CELLS, math.ceil(wanted))
    if cells < FEWEST_CELLS:
        return None
    if len(groups) == 1:
        return GroupGrid(largest / cells, (cells,), (cells,))
    ratios = np.array([share for share, _ in shares])
    choices = np.arange(cells, max(cells // 2, FEWEST_CELLS) - 1, -1, dtype=np.float64)
    multiples: FloatArray = choices[:, None] * ratios
    off = np.abs(multiples - np.round(multiples)) / multiples
    off = np.where(off < 8 * UNIT_ROUNDOFF, 0.0, off)
    chosen = int(np.argmin((off * (np.round(multiples) >= 1) + 1.0 * (multiples < 1)).max(axis=1)))
    if off[chosen].max() > WORST_ROUNDING or multiples[chosen].min() < 1:
        return None
    rows = [(float(multiple), float(error)) for multiple, error in zip(multiples[chosen], off[chosen], strict=True)]
    return GroupGrid(
        largest / int(choices[chosen]),
        tuple(math.ceil(multiple) if error else round(multiple) for multiple, error in rows),
        tuple(math.floor(multiple) if error else round(multiple) for multiple, error in rows),
    )


def curve_of(groups: Groups, tolerance: float) -> SymmetricPolygon:
    """Return the curve of exponential steps in groups (epsilon, count), as a polygon with lower and upper bounds.

    An adversary chooses the position of each step's loss interval. The nodes are those of the recursions `fixed_order`
    (lower bounds) and `any_order` (upper bounds). Near the largest loss, delta has a closed form with further nodes.
    The work counts against the limit of the request even if the curve is cached. `tolerance` is the relative width of
    delta that the grid aims at. Raises NumericalFailure if no grid serves the groups.
    """
    found, work = _curve_of(groups, tolerance)
    count_work(work)
    return found


@lru_cache(maxsize=KEPT_POLYGONS)
def _curve_of(groups: Groups, tolerance: float) -> tuple[SymmetricPolygon, float]:
    with count_separately() as work:
        found = _build_curve(groups, tolerance)
    return found, work.done


def _build_curve(groups: Groups, tolerance: float) -> SymmetricPolygon:
    grid = grid_for(groups, tolerance) or grid_for(groups)  # coarse grids may round too much
    if grid is None:
        raise NumericalFailure("a run of exponential steps that no grid serves")
    ranges = [epsilon for epsilon, count in groups for _ in range(count)]
    largest, least = math.fsum(ranges), min(ranges)
    inside, values = _nodes_below_end(groups, grid)
    spacing, target = grid.spacing, max(WIDEST, tolerance)
    for share in (min((LARGE / least) ** EXCESS, 1.0), 1.0, 1.0) if len(groups) == 1 else ():
        width = float((values[1] - values[0]).max(initial=0.0))
        if width <= target:
            break
        spacing *= share * FINER * math.sqrt(target / width)
        inside, values, spacing = _refined(groups, inside, values, spacing)
    ends, closed = _end_nodes(spacing, ranges)
    last = np.array([[0.0], [0.0], [1.0], [1.0]])
    return SymmetricPolygon(
        np.concatenate([inside, ends, [largest]]),
        PolygonBounds(*np.concatenate([values, closed, last], axis=1)),
    )


def _nodes_below_end(
    groups: Groups, grid: GroupGrid, cells_from_end: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the nodes (losses in nats) below the range of the closed form, and bounds of delta and 1 - delta there.

    The bounds have the shape (4, nodes): lower and upper bound of delta, then lower and upper bound of 1 - delta.
    `groups` has pairs (epsilon, count) of exponential steps. `cells_from_end` is the largest distance of a node from
    the largest loss, in grid cells; None means no limit.
    """
    counts = [count for _, count in groups]
    high = any_order(grid.spacing, tuple(zip(grid.above, counts, strict=True)), cells_from_end)
    each = tuple(n for n, count in zip(grid.below, counts, strict=True) for _ in range(count))
    low = _padded(fixed_order(grid.spacing, each, cells_from_end), len(high.profile))
    nodes = (high.first + np.arange(len(high.profile), dtype=np.float64)) * grid.spacing
    largest, least = math.fsum(epsilon * count for epsilon, count in groups), min(epsilon for epsilon, _ in groups)
    kept = nodes < largest - least * (1 + 1e-9)
    return nodes[kept], np.array([low.profile, high.profile, high.complement, low.complement])[:, kept]


def _padded(values: NodeValues, count: int) -> NodeValues:
    short = count - len(values.profile)
    return NodeValues(
        np.concatenate([values.profile, np.zeros(short)]),
        np.concatenate([values.complement, np.ones(short)]),
        first=values.first,
    )


def _refined(
    groups: Groups, nodes: FloatArray, values: FloatArray, spacing: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return nodes (losses) and bounds on a finer grid where delta is not close to 1, and the finer spacing in nats.

    The given `nodes` stay where delta is close to 1, left of the finer ones. The bounds and the old `values`, shape (4,
    nodes), are lower and upper bound of delta, then those of 1 - delta. `groups` has a single pair (epsilon, count):
    the run has equal steps.
    """
    ((epsilon, count),) = groups
    cells = math.ceil(epsilon / spacing)
    spacing = epsilon / cells
    # 1 - delta increases with x.
    seam = int(np.searchsorted(values[3], SURE))
    start = float(nodes[max(seam - 1, 0)])
    cells_from_end = math.ceil((epsilon * count - start) / spacing) if seam > 0 else cells * count
    finer, found = _nodes_below_end(groups, GroupGrid(spacing, (cells,), (cells,)), cells_from_end)
    outside = nodes < finer[0] * (1 - 1e-9)
    return np.concatenate([nodes[outside], finer]), np.concatenate([values[:, outside], found], axis=1), spacing


def _end_nodes(spacing: float, ranges: list[float]) -> tuple[FloatArray, FloatArray]:
    """Return nodes (losses) in the range of the profile's closed form (`log_end`), and bounds of the profile there.

    `ranges` are the epsilons of all steps. The closed form holds at losses whose distance from the largest loss is at
    most the smallest epsilon. The rows of bounds are lower and upper bounds of delta, then of 1 - delta. `spacing` is
    the distance of grid points in nats.
    """
    largest, least, scale = math.fsum(ranges), min(ranges), 1.0 + len(ranges)
    near, pitch = largest * NEAREST_END, min(spacing, END_PITCH * math.sqrt(scale))
    even = pitch * np.arange(1, math.ceil(min(least, END_REACH * scale) / pitch))
    far = spacing * np.arange(1, math.ceil(least / spacing))
    away = np.unique(np.concatenate([np.geomspace(near, spacing, END_NODES), even, far, [least]]))[::-1]
    ends = largest - away[(away > 0.999 * near) & (away <= least)]
    ends = ends[np.concatenate([[True], np.diff(ends) > 0.25 * near])]
    logs = log_end(ends, ranges)
    low, high = np.exp(logs[0]) * (1 - FUNCTION_ERROR), np.exp(logs[1]) * (1 + FUNCTION_ERROR) + SMALLEST
    rests = -np.expm1(logs[1]) * (1 - FUNCTION_ERROR), -np.expm1(logs[0]) * (1 + FUNCTION_ERROR)
    return ends, np.array([low, np.minimum(high, 1.0), rests[0], np.minimum(rests[1], 1.0)])


def log_end(x: FloatArray, ranges: list[float]) -> tuple[FloatArray, FloatArray]:
    """Return bounds of ln delta at losses x (nats) that are at most the smallest epsilon below the largest loss.

    The bounds are lower and upper, in the shape of x. `ranges` are the epsilons of all steps. x may have an error of 2
    units of rounding times the largest loss.
    """
    largest = math.fsum(ranges)
    error = 4 * UNIT_ROUNDOFF * largest
    bounds: list[FloatArray] = []
    for sign in (-1, 1):
        away = np.clip(largest - x + sign * error, 0.0, min(ranges) + error)
        logs, rounding = log_end_profile(away, ranges)
        bounds.append(np.minimum(logs + sign * np.where(np.isfinite(logs), rounding, 0.0), 0.0))
    return bounds[0], bounds[1]
