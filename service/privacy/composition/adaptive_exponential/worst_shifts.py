"""Supremum over all shifts of an exponential step at many losses (rows): shifts that may be optimal, and their values.

A step of range eta = m h with the shift t has the loss t or t - eta. For rows x_i = i h and shifts t = eta - r h, r = 0
... m, the new profile at x_i is the maximum over r of

    F(i, r) = high_r v_{i+r} + low_r v_{i+r+m}.

high_r and low_r are the H1-masses of both losses, and v the earlier profile at the nodes, with an index that starts m
nodes to the left. The values v decrease. Between nodes they are below a chord in z = e^x (`recursion.py`), because the
bounded function is convex. Two consequences exclude most shifts, with proof:

- Between any two shifts t1 < t2 both branches are below chords, and F is at most A + B s + C/s in s = e^t with C <= 0.
  This function is concave, and exceeds its values at both endpoints only if its slopes there allow that. The slopes
  therefore bound wide cells of shifts.
- At a fixed shift, the function that F bounds is convex in z. Between two rows it is below their chord. Suppose that a
  cell of shifts is below some shift at two rows, by at least the distance of that shift from its own chord. Then the
  cell is below the shift at all rows between.

The remaining shifts are about as close to the best shift as cells are wide. They are computed at every row and node. If
all shifts count, the maxima inside the cells between nodes are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

TABLE: Final = 1 << 15
"""Largest number of table entries in memory, which fit into the processor's cache."""
ROWS: Final = 16
"""Number of rows of a block. The rows of a block share their shifts."""
FEW: Final = 40
"""Largest number of shifts without an exclusion, which would cost as much as the evaluation."""
NARROWEST: Final = 4
"""Smallest number of nodes of a wide cell."""
GROWTH: Final = 1 / 16
"""Growth of wide cells with the distance of the shift from eta. Near eta the cells must be narrow."""
MARGIN: Final = 1e-9
"""Relative margin by which excluded cells are lower. Rounding errors are much smaller."""
ROUNDING: Final = 16 * UNIT_ROUNDOFF
"""Rounding of a difference of values, relative to the larger."""


@final
@dataclass(frozen=True, slots=True)
class WorstShifts:
    """H1-masses of both losses of an exponential step with the shifts t = eta - r h, r = 0 ... m.

    The step has the range eta = m h with the grid spacing h. `high` belongs to the loss t and `low` to the loss t -
    eta, shape (m + 1,) each.
    """

    spacing: float
    high: FloatArray
    low: FloatArray

    @staticmethod
    def of(spacing: float, m: int) -> WorstShifts:
        """Compute the masses of a step whose losses have the range m * spacing."""
        nearer = np.arange(m + 1) * spacing
        spread = -math.expm1(-m * spacing)
        low = np.exp(-nearer) * -np.expm1(nearer - m * spacing) / spread
        return WorstShifts(spacing, -np.expm1(-nearer) / spread, low)

    @property
    def cells(self) -> int:
        """Number m of grid cells in the range of the step's losses."""
        return len(self.high) - 1

    def edges(self) -> np.ndarray:
        """Return the increasing indices r, from 0 to m, that divide the shifts into wide cells of several shifts each.

        The shift with the index r is t = eta - r h, where eta is the range of the losses, h the grid spacing and m =
        eta/h.
        """
        return _edges(self.cells)


@lru_cache(maxsize=16)
def _edges(m: int) -> np.ndarray:
    found = [0]
    while found[-1] < m:
        found.append(min(found[-1] + max(NARROWEST, int(GROWTH * found[-1])), m))
    return np.array(found)


def largest(values: FloatArray, curvature: FloatArray | None, shifts: WorstShifts, count: int) -> FloatArray:
    """Compute max over shifts r of F(i, r) = high_r v_{i+r} + low_r v_{i+r+m} for the rows i = 0 ... count - 1.

    high and low are the H1-masses of the two losses of a step with shift index r, and m is the number of grid cells in
    the range of the losses.

    Parameters
    ----------
    values : array
        v, the profile before the step at the nodes, at least count + 2 m numbers.
    curvature : array or None
        Bounds of the rise of F above the nodes within a cell of shifts, at the index i + r (`most` of `_vertex`). With
        it the maximum is over all shifts t in [0, eta]. None for a maximum over some shifts near the best.
    shifts : WorstShifts
        Masses of the losses.
    count : int
        Number of rows.
    """
    blocks, m = -(-count // ROWS), shifts.cells
    # Values beyond the last are at most the last value.
    short = (blocks + 1) * ROWS + 2 * m - len(values)
    values = np.concatenate([values, np.full(max(short, 0), values[-1])])
    if curvature is not None:
        curvature = np.concatenate([curvature, np.zeros(max(short, 0) + m)])
    if m < FEW:
        first, last, best = np.zeros(blocks, dtype=np.int64), np.full(blocks, m), np.full((blocks, ROWS), -np.inf)
    else:
        first, last, best = _optimal_ranges(values, shifts, blocks, above=curvature is not None)
    _update_best(best, values, curvature, shifts, first, last)
    return best.ravel()[:count]


def _optimal_ranges(
    values: FloatArray, shifts: WorstShifts, blocks: int, *, above: bool
) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """Return the first and last shift that may be optimal for each block of rows, and F at one good shift of the block.

    F(i, r) = high_r v_{i+r} + low_r v_{i+r+m} is the new profile in row i for the shift r, from the profile v =
    `values` before the step, whose range is m cells. The first two results have the shape (blocks,), and the third has
    the shape (blocks, ROWS). With `above`, the optimum over all shifts t is proved to lie between the first and the
    last shift, as upper bounds need. Otherwise the range is a guess.
    """
    m, edges = shifts.cells, shifts.edges()
    rows = ROWS * np.arange(blocks + 1)
    heads, tails = values[edges[:, None] + rows], values[edges[:, None] + (rows + m)]
    table = shifts.high[edges, None] * heads + shifts.low[edges, None] * tails
    best = table.argmax(axis=0)
    tried = edges[best[:-1]]
    at = rows[:-1] + tried
    known = shifts.high[tried, None] * sliding_window_view(values, ROWS + 1)[at]
    known += shifts.low[tried, None] * sliding_window_view(values, ROWS + 1)[at + m]
    if not above:
        left, right = np.minimum(best[:-1], best[1:]) - 1, np.maximum(best[:-1], best[1:]) + 1
        return edges[np.maximum(left, 0)], edges[np.minimum(right, len(edges) - 1)], known[:, :-1].copy()
    upper = _cell_bounds(heads, tails, table, shifts)
    nearer = np.expm1(-shifts.spacing * np.arange(ROWS, -1, -1)) / math.expm1(-shifts.spacing * ROWS)
    chord = known[:, :1] * nearer + known[:, -1:] * (1 - nearer)
    gap = (chord - known).max(axis=1) + MARGIN * np.abs(known).max(axis=1)
    open_cells = (upper[:, :-1] > known[:, 0] - gap) | (upper[:, 1:] > known[:, -1] - gap)
    first, last = open_cells.argmax(axis=0), len(edges) - 1 - np.flip(open_cells, axis=0).argmax(axis=0)
    return edges[first], edges[last], known[:, :-1].copy()


@np.errstate(invalid="ignore", divide="ignore")
def _cell_bounds(heads: FloatArray, tails: FloatArray, table: FloatArray, shifts: WorstShifts) -> FloatArray:
    """Return upper bounds of F in each wide cell of shifts, from the values at its edges, shape (edges - 1, rows).

    F(i, r) = high_r v_{i+r} + low_r v_{i+r+m} is the new profile in row i for the shift r, from the earlier profile v.
    `heads`, `tails` and `table` are v_{i+r}, v_{i+r+m} and F at the edges, shape (edges, rows).
    """
    eta = shifts.cells * shifts.spacing
    width = shifts.spacing * np.diff(shifts.edges())[:, None]
    most = (heads[:-1] - heads[1:]) - math.exp(-eta) * (tails[:-1] - tails[1:]) + ROUNDING * np.abs(heads[:-1])
    most = np.maximum(most, 0.0) * (np.expm1(-width) / math.expm1(-eta))
    inside, above = _vertex(table[:-1] - table[1:], most, width)
    return np.maximum(np.maximum(table[:-1], table[1:]), table[1:] + np.where(inside, above, 0.0))


def _update_best(
    best: FloatArray,
    values: FloatArray,
    curvature: FloatArray | None,
    shifts: WorstShifts,
    first: np.ndarray,
    last: np.ndarray,
) -> None:
    """Update the maximum of F at every row, `best`, in place by all shifts from `first` to `last` of the row's block.

    F is the new profile in a row for one shift, from the earlier profile `values`. `best` has the maximum so far at
    each row. `first` and `last` have the shape (blocks,), for blocks of ROWS rows. `curvature` bounds F inside a cell
    of shifts (None: not needed).
    """
    order = np.argsort(last - first, kind="stable")
    order = order[(last > first)[order]]
    m, rows = shifts.cells, best.reshape(-1, ROWS)
    while len(order):
        width = int(last[order[-1]] - first[order[-1]]) + 1
        some = order[-max(TABLE // (ROWS * width), 1) :]
        order = order[: len(order) - len(some)]
        start = np.minimum(first[some], m + 1 - width)
        at = start + ROWS * some
        shift = (start[:, None] + np.arange(width))[:, None]
        table = shifts.high[shift] * _windows(values, at, width)
        table += shifts.low[shift] * _windows(values, at + m, width)
        found = np.maximum(rows[some], table.max(axis=2))
        if curvature is not None:
            _update_inside_cells(found, table, _windows(curvature, at, width - 1), shifts.spacing)
        rows[some] = found


def _windows(values: FloatArray, at: np.ndarray, width: int) -> FloatArray:
    """Return `values`[`at` + row + shift] for every block, row of the block and shift.

    The result has the shape (blocks, ROWS, width), for blocks that begin at the indices `at`, ROWS rows in a block and
    `width` shifts.
    """
    parts = values[at[:, None] + np.arange(ROWS + width - 1)]
    long, step = parts.strides
    return np.ndarray((len(at), ROWS, width), buffer=parts, strides=(long, step, step))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _update_inside_cells(best: FloatArray, table: FloatArray, most: FloatArray, h: float) -> None:
    """Update `best`, the maxima at the rows, with the maxima inside cells between neighbouring shifts.

    `best` has the shape (blocks, ROWS). `table` has the values at n shifts, shape (blocks, ROWS, n), and `most` an
    upper bound of the increase inside each cell, shape (blocks, ROWS, n - 1). h is the width of a cell in nats.
    """
    block, row, cell = np.nonzero(table[:, :, 1:] + most > best[:, :, None])
    first = table[block, row, cell + 1]
    inside, above = _vertex(table[block, row, cell] - first, most[block, row, cell], np.array(h))
    np.maximum.at(best, (block[inside], row[inside]), first[inside] + above[inside])


def _vertex(rise: FloatArray, most: FloatArray, width: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return whether A + B s - c s1/s has its maximum inside the cell [s1, s1 e^width], and its height above s1.

    A, B and c are coefficients, which `rise`, `most` and the edge s1 determine. The height is the maximum less the
    value at s1. The function bounds a profile over shifts t with s = e^t. `rise` is the increase to the other edge, and
    `most` = c (1 - e^-width)^2 bounds the height. Both results have the common shape of the arguments.
    """
    fall, rest = np.exp(-width), -np.expm1(-width)
    gain = rise * fall
    root = np.sqrt(np.maximum(most * fall - gain * rest, 0.0)) + np.sqrt(most)
    # The vertex is inside if the slopes at both edges have opposite signs.
    return (rise < most) & (gain > -most), ((most + gain) / root) ** 2
