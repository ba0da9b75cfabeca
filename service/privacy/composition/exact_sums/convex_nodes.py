"""Bounds of a convex function between its nodes, and of its minima, from lower and upper bounds at the nodes.

V is convex in x = e^c. Its bounds are known at nodes c_k with equal spacing h, in units of e^{scale - slope c}. Between
nodes V is below the chord of its upper bounds. The straight line through its upper bound at a node and its lower bound
at the next node is below V beyond the next node. Every cell between two nodes therefore has two straight lines below V,
from the left and from the right. Cells are so short that lines through nodes slightly further away are almost as tight.
All sums use the unit of a single node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

LAG: Final = 2
"""Distance of the nodes of a straight line. A larger distance reduces the effect of the gap between both bounds."""
SLACK: Final = 16 * FUNCTION_ERROR + 64 * UNIT_ROUNDOFF
"""Rounding of the few operations of an evaluation, relative to its largest term."""


class Minimum(NamedTuple):
    """Minimum over c of V(c) + t e^c, for a number t and a function V that is convex in e^c.

    `lower` and `upper` bound ln of the modulus of the minimum, which is at a threshold c with `left` <= c <= `right`.
    """

    lower: float
    upper: float
    left: float
    right: float


@final
@dataclass(frozen=True)
class ConvexNodes:
    """Bounds `lower` <= V <= `upper` of a function V, convex in x = e^c, at nodes c_k of spacing h.

    The bounds at c are in units of e^{scale - slope c}, the unit of the node. All arrays have the shape (nodes,). A
    cell is the interval between two neighbouring nodes. `error` bounds the error of the logarithm of the unit. `rises`
    is whether V increases with c, and `positive` whether the minima of V are positive.
    """

    c: FloatArray
    h: float
    lower: FloatArray
    upper: FloatArray
    scale: float
    slope: float
    error: float
    rises: bool = False
    positive: bool = True

    @cached_property
    def _step(self) -> float:
        """Factor e^{slope h} between the unit e^{scale - slope c} of a node c and that of the next node, c + h."""
        return math.exp(self.slope * self.h)

    @cached_property
    def onward(self) -> FloatArray:
        """Slopes of straight lines in x = e^c through each node that lie below V to its right, shape (nodes,).

        c is a threshold. The slopes refer to e^{c - c_k} and the unit of the node c_k. The value is -inf where no line
        is known.

        V is the convex function whose bounds at the nodes are known, and the line of a node passes through its lower
        bound there.
        """
        found = np.full_like(self.c, -np.inf)
        before = self.upper[:-LAG] * self._step**LAG
        found[LAG:] = (self.lower[LAG:] - before) / -math.expm1(-LAG * self.h)
        found[LAG:] -= SLACK * (np.abs(self.lower[LAG:]) + np.abs(before)) / (LAG * self.h)
        return found

    @cached_property
    def backward(self) -> FloatArray:
        """Slopes of straight lines in x = e^c through each node that lie below V to its left, shape (nodes,).

        V is the convex function whose bounds at the nodes are known, and the line of a node passes through its lower
        bound there. c is a threshold. The slopes refer to e^{c - c_k} and the unit of the node c_k. The value is +inf
        where no line is known.
        """
        found = np.full_like(self.c, np.inf)
        after = self.upper[LAG:] * self._step**-LAG
        found[:-LAG] = (after - self.lower[:-LAG]) / math.expm1(LAG * self.h)
        found[:-LAG] += SLACK * (np.abs(self.lower[:-LAG]) + np.abs(after)) / (LAG * self.h)
        return found

    def between(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of V at thresholds c = `at` within the inner nodes, in the shape of `at`.

        V is the convex function whose bounds at the nodes are known. Both are in the unit of the node to the left of
        each threshold.
        """
        left = self.cell(at)
        share = np.expm1(at - self.c[left]) / math.expm1(self.h)
        right = self.upper[left + 1] / self._step
        upper = (1 - share) * self.upper[left] + share * right
        x = np.expm1(at - self.c[left])
        first = self.lower[left] + self.onward[left] * x
        back = self.backward[left + 1] / self._step * math.exp(-self.h)
        second = self.lower[left + 1] / self._step - back * (math.expm1(self.h) - x)
        lower = np.fmax(first, second)
        return lower - SLACK * np.abs(lower), upper + SLACK * (np.abs(self.upper[left]) + np.abs(right))

    def cell(self, at: FloatArray) -> IndexArray:
        """Return the index of the node to the left of each threshold, in the shape of `at`.

        The nodes are the thresholds at which bounds of the convex function are known.
        """
        return np.clip(np.searchsorted(self.c, at, side="right") - 1, 0, len(self.c) - 2)

    def unit(self, node: IndexArray) -> FloatArray:
        """Return scale - slope c, ln of the unit of V, at the nodes c with the indices `node`, in their shape.

        V is the convex function whose bounds at the nodes are known.
        """
        return self.scale - self.slope * self.c[node]

    def minimum(self, log_rate: float) -> tuple[Minimum | None, int]:
        """Return `(bounds, side)` of |min V +- e^log_rate e^c| over all c, with the sign opposite to that of V's slope.

        V is a function of thresholds c, convex in e^c, whose bounds at the nodes are known. `bounds` is None if the
        minimum is not proved to be at an inner node. Then `side` says where the minimum may be: -1 left of the nodes, 1
        right of them, 0 unknown. Otherwise `side` is 0. Left of a node where the line to its left decreases, and right
        of a node where the line to its right increases, there is no smaller value.
        """
        sign = -1.0 if self.rises else 1.0
        falls = int(np.searchsorted(self._falling, -sign * log_rate, side="right")) - 1
        rises = int(np.searchsorted(self._rising, -sign * log_rate, side="left"))
        if falls < 0 or rises >= len(self.c):
            return None, int(falls >= 0) - int(rises < len(self.c))
        first, last = min(falls, rises), max(falls, rises)
        nodes = np.arange(first, last + 1)
        rate = sign * np.exp(np.minimum(log_rate + self.c[nodes] - self.unit(nodes), 700.0))
        size = (SLACK + 2 * self.error) * (np.abs(rate) + np.abs(self.lower[nodes]) + np.abs(self.upper[nodes]))
        high = self._logs(self.upper[nodes] + rate + size, nodes)
        ends = self._logs((self.lower[nodes] + rate - size)[[0, -1]], nodes[[0, -1]])
        inner = self._logs(self._cells(nodes[:-1], rate[:-1]) - size[:-1], nodes[:-1])
        low = np.concatenate((ends, inner))
        left, right = float(self.c[first]), float(self.c[last])
        if self.positive:
            return Minimum(float(low.min()), float(high.min()), left, right), 0
        return Minimum(float(high.max()), float(low.max()), left, right), 0

    def crossing(self, level: float, rounding: float) -> tuple[float, float]:
        """Return `(left, right)`: thresholds where a decreasing V is proved to be above, and below, `level`.

        `level` is a value of V in the unit 1, of either sign but not 0. `rounding` is the error of the logarithm of the
        units of the nodes. A threshold is -inf or inf if no node proves it.

        V is a function of thresholds c, convex in e^c, whose bounds at the nodes are known.
        """
        log_level, sign = math.log(abs(level)), math.copysign(1.0, level)
        sure = sign * math.exp(min(rounding, 1.0)), sign * math.exp(-min(rounding, 1.0))
        most, least = max(sure), min(sure)
        levels = np.exp(np.clip(log_level - self.unit(np.arange(len(self.c))), -700.0, 700.0))
        above = np.flatnonzero(self.lower > most * levels)
        below = np.flatnonzero(self.upper < least * levels)
        left, right = -math.inf, math.inf
        if len(above):
            last = int(above[-1])
            left = self._last_above(last, most * levels) if last < len(self.c) - 1 else float(self.c[-1])
        if len(below) and below[0] == 0:
            right = float(self.c[0])
        elif len(below):
            at = int(below[0]) - 1
            high, low = self.upper[at] - least * levels[at], self.upper[at + 1] / self._step - least * levels[at]
            share = min(max(high / (high - low), 0.0), 1.0) if high > low else 1.0
            right = float(self.c[at] + math.log1p(share * math.expm1(self.h)) + SLACK * self.h)
        return left, right

    def _last_above(self, at: int, levels: FloatArray) -> float:
        """Return the threshold up to which V is proved to be above `levels`, in the cell right of the node `at`.

        V is a function of thresholds c, convex in e^c. Straight lines below V, through the nodes on both sides of the
        cell, decrease to the levels. `levels` are in the units of the nodes, shape (nodes,).
        """
        width, x = math.expm1(self.h), 0.0
        back = self.backward[at + 1] / self._step * math.exp(-self.h)
        if -math.inf < self.onward[at] < 0:
            x = max(x, (levels[at] - self.lower[at]) / self.onward[at])
        if back < 0:
            x = max(x, width + (levels[at] - self.lower[at + 1] / self._step) / back)
        x = min(x, width)
        return float(self.c[at] + math.log1p(x) - SLACK * self.h)

    def _logs(self, values: FloatArray, nodes: IndexArray) -> FloatArray:
        """Return ln |values| at the nodes with the indices `nodes`, in their shape.

        `values` are in the units of the nodes, and the result has the unit 1. The result is -inf for values whose sign
        is not that of the minima (`positive`).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.maximum(values if self.positive else -values, 0.0)) + self.unit(nodes)

    def _cells(self, left: IndexArray, rate: FloatArray) -> FloatArray:
        """Return lower bounds of V + rate e^{c - c_k} in the cells right of the nodes c_k with the indices `left`.

        V is a function of thresholds c, convex in e^c. Two lines below V are known in each cell, one from each of its
        nodes. The bound is the value where both lines cross, in the unit of the left node. The result has the shape of
        `left`.
        """
        width = math.expm1(self.h)
        rising, falling = self.onward[left] + rate, self.backward[left + 1] / self._step * math.exp(-self.h) + rate
        here, there = self.lower[left] + rate, self.lower[left + 1] / self._step + rate * math.exp(self.h)
        with np.errstate(all="ignore"):
            meet = (here - there + falling * width) / (falling - rising)
        meet = np.clip(np.where(np.isfinite(meet), meet, 0.0), 0.0, width)
        with np.errstate(invalid="ignore"):
            first, second = here + rising * meet, there + falling * (meet - width)
        met = np.fmax(np.where(np.isfinite(first), first, -np.inf), np.where(np.isfinite(second), second, -np.inf))
        # A line that increases from its own node has its minimum there.
        return np.fmax(np.fmax(np.where(rising >= 0, here, -np.inf), np.where(falling <= 0, there, -np.inf)), met)

    @cached_property
    def _falling(self) -> FloatArray:
        """Smallest slope of the lines to the left of each node and of all later nodes, shape (nodes,).

        A line passes through the bound of a convex function at a node and lies below the function. Slopes are given as
        the numbers that `_keys` returns.
        """
        keys = self._keys(self.backward, 1)
        return np.minimum.accumulate(keys[::-1])[::-1]

    @cached_property
    def _rising(self) -> FloatArray:
        """Largest slope of the lines to the right of each node and of all earlier nodes, shape (nodes,).

        A line passes through the bound of a convex function at a node and lies below the function. Slopes are given as
        the numbers that `_keys` returns.
        """
        return np.maximum.accumulate(self._keys(self.onward, -1))

    def _keys(self, slopes: FloatArray, side: int) -> FloatArray:
        """Return for each of the `slopes` of V in x = e^c a number that increases with the slope, shape (nodes,).

        V is the convex function whose bounds at the nodes are known. The number is ln |slope| up to its sign, without
        the units of the nodes. Rounding makes it larger (`side` 1) or smaller (-1).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.abs(slopes)) + self.unit(np.arange(len(self.c))) - self.c
        logs = np.where(slopes > 0, logs, -np.inf) if self.rises else np.where(slopes < 0, -logs, np.inf)
        logs = np.where(np.isneginf(slopes), -np.inf, np.where(np.isposinf(slopes), np.inf, logs))
        rounding = self.error + SLACK * (1 + abs(self.scale) + (np.abs(self.slope) + 1) * np.abs(self.c))
        return logs + side * rounding
