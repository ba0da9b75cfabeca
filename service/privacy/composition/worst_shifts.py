"""The supremum over all shifts of one exponential step, at many rows: which shifts can win, and what they reach.

For rows x_i = i h and shifts t = eta - r h, r = 0 ... m, the sum

    F(i, r) = high_r v_{i+r} + low_r v_{i+r+m}

has v decreasing and, between nodes, at most on a chord in e^x (`bounded_range_recursion.py`). Between *any* two shifts
t1 < t2 both branches are then below chords, and F is at most A + B s + C/s in s = e^t with C <= 0: concave, and above
both ends only where its slopes there say so, by no more than |C|/s1 (1 - e^(t1 - t2))^2. Wide cells of shifts whose
bound does not pass what some shift is known to reach are left out, which is a proof for all shifts inside; the others,
about a tenth, are computed at every node, and between nodes where all shifts are meant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from service.privacy.enclosure import FloatArray
from service.privacy.trade_off.abstract import BoolArray

TABLE: Final = 1 << 14
"""Entries of tables held at once: what stays in the processor's cache."""
ROWS: Final = 32
"""Of a block, which shares its shifts."""
NARROWEST: Final = 8
"""Nodes of a wide cell."""
GROWTH: Final = 1 / 6
"""Of wide cells, with the distance of the shift from eta: where it is small the best shift follows it closely."""
MARGIN: Final = 1e-9
"""Relative, by which cells that are left out are lower: roundings of differences are far smaller."""


@final
@dataclass(frozen=True, slots=True)
class Shifts:
    """Masses of both losses at t = eta - r h, r = 0 ... m."""

    spacing: float
    high: FloatArray
    low: FloatArray

    @staticmethod
    def of(spacing: float, m: int) -> Shifts:
        """Of a step of range m * spacing."""
        nearer = np.arange(m + 1) * spacing
        spread = -math.expm1(-m * spacing)
        low = np.exp(-nearer) * -np.expm1(nearer - m * spacing) / spread
        return Shifts(spacing, -np.expm1(-nearer) / spread, low)

    @property
    def cells(self) -> int:
        """m."""
        return len(self.high) - 1

    def edges(self) -> list[int]:
        """Of wide cells."""
        found = [0]
        while found[-1] < self.cells:
            found.append(min(found[-1] + max(NARROWEST, int(GROWTH * found[-1])), self.cells))
        return found


def largest(values: FloatArray, curvature: FloatArray | None, shifts: Shifts, count: int) -> FloatArray:
    """max F(i, r) over shifts for i = 0 ... count - 1; over all t in [0, eta] where a curvature of the cells is given.

    `values`: at least count + 2 m of them. `curvature`: |C|/s1 (1 - e^-h)^2 of the cell at i + r, from below 0 cut.
    Without it some shifts are tried, about the best.
    """
    m = shifts.cells
    size = max(TABLE // len(shifts.edges()) // ROWS, 1) * ROWS
    short = -(-count // ROWS) * ROWS + 2 * m + 1 - len(values)
    values = np.concatenate([values, np.full(max(short, 0), values[-1])])
    if curvature is not None:
        curvature = np.concatenate([curvature, np.zeros(max(short, 0) + m + 1)])
    found = np.empty(-(-count // ROWS) * ROWS)
    for start in range(0, len(found), size):
        stop = min(start + size, len(found))
        best, first, last = _winners(values[start : stop + 2 * m], shifts, stop - start, above=curvature is not None)
        _raise(best, values[start:], None if curvature is None else curvature[start:], shifts, first, last)
        found[start:stop] = best
    return found[:count]


def _winners(
    values: FloatArray, shifts: Shifts, count: int, *, above: bool
) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    """What shifts at the edges of wide cells reach, and per block the first and last node of cells that can win."""
    m, edges = shifts.cells, shifts.edges()
    heads = np.array([values[edge : edge + count] for edge in edges])
    tails = np.array([values[edge + m : edge + m + count] for edge in edges])
    table = shifts.high[edges, None] * heads + shifts.low[edges, None] * tails
    best = table.max(axis=0)
    if above:
        open_cells = _open(heads, tails, table, best, shifts)
    else:
        at = table.argmax(axis=0)
        cell = np.arange(len(edges) - 1)[:, None]
        open_cells = (cell == at) | (cell == at - 1)
    blocks: BoolArray = np.any(open_cells.reshape(len(edges) - 1, -1, ROWS), axis=2)
    places = np.array(edges)
    first, last = blocks.argmax(axis=0), len(edges) - 1 - np.flip(blocks, axis=0).argmax(axis=0)
    return best, places[first], np.where(blocks.any(axis=0), places[last], places[first])


def _open(heads: FloatArray, tails: FloatArray, table: FloatArray, best: FloatArray, shifts: Shifts) -> BoolArray:
    """Wide cells where the bound has its maximum inside, and that may be above the best."""
    h, eta = shifts.spacing, shifts.cells * shifts.spacing
    fall = np.exp(-h * np.diff(shifts.edges()))[:, None]
    most = heads[:-1] - heads[1:]
    most -= math.exp(-eta) * (tails[:-1] - tails[1:])
    most *= (1 - fall) / -math.expm1(-eta)
    most += MARGIN * np.abs(best)
    rise = table[:-1] - table[1:]
    return (rise < most) & (rise * fall > -most) & (table[1:] + most > best)


def _raise(
    best: FloatArray,
    values: FloatArray,
    curvature: FloatArray | None,
    shifts: Shifts,
    first: np.ndarray,
    last: np.ndarray,
) -> None:
    """The best of every row, with all shifts from `first` to `last` of its block."""
    order = np.argsort(last - first, kind="stable")
    order = order[(last > first)[order]]
    m, rows = shifts.cells, best.reshape(-1, ROWS)
    while len(order):
        width = int(last[order[-1]] - first[order[-1]]) + 1
        some = order[-max(TABLE // (ROWS * width), 1) :]
        order = order[: len(order) - len(some)]
        start = np.minimum(first[some], m + 1 - width)
        at = start + ROWS * some
        table = sliding_window_view(shifts.high, width)[start][:, None] * _windows(values, at, width)
        table += sliding_window_view(shifts.low, width)[start][:, None] * _windows(values, at + m, width)
        found = np.maximum(rows[some], table.max(axis=2))
        if curvature is not None:
            _raise_inside(found, table, _windows(curvature, at, width - 1), shifts.spacing)
        rows[some] = found


def _windows(values: FloatArray, at: np.ndarray, width: int) -> FloatArray:
    """values[at + row + shift] for every block, row of it and shift."""
    parts = sliding_window_view(values, ROWS + width - 1)[at]
    long, step = parts.strides
    return as_strided(parts, (len(at), ROWS, width), (long, step, step), writeable=False)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _raise_inside(best: FloatArray, table: FloatArray, most: FloatArray, h: float) -> None:
    """The maximum of A + B s - c s1/s over a cell [s1, s1 e^h], from its values at both ends, where it is inside.

    `most` = c (1 - e^-h)^2, by which it is at most above the value at s1.
    """
    fall, rest = math.exp(-h), -math.expm1(-h)
    block, row, cell = np.nonzero(table[:, :, 1:] + most > best[:, :, None])
    first, bound = table[block, row, cell + 1], most[block, row, cell]
    rise = table[block, row, cell] - first
    # The vertex is inside where the slopes at both ends say so.
    inside = (rise < bound) & (rise * fall > -bound)
    block, row, first, bound, gain = block[inside], row[inside], first[inside], bound[inside], rise[inside] * fall
    root = np.sqrt(np.maximum(bound * fall - gain * rest, 0.0)) + np.sqrt(bound)
    np.maximum.at(best, (block, row), first + ((bound + gain) / root) ** 2)
