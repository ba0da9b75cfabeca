"""The worst case over adaptively chosen exponential mechanisms: a recursion over profiles, bounded from both sides.

A step of range eta (nats) whose shift the adversary sets to t in [0, eta] has two losses, t with the H1-mass
P(t) = (e^eta - e^t)/(e^eta - 1) and t - eta with the rest: E0 e^L = 1 fixes P, and no loss in [t - eta, t] tells more,
since e^l delta(x - l) is convex in e^l. When the shift may depend on what the steps before have shown,

    delta_k(x) = (T delta_{k-1})(x) = sup_t P(t) delta_{k-1}(x - t) + (1 - P(t)) delta_{k-1}(x - t + eta),
    delta_0(x) = (1 - e^x)_+

(Dong, Durfee, Rogers 2020, optimal composition for exponential mechanisms). A pair with shift t is one with shift
eta - t when the hypotheses are exchanged, so that c = 1 - delta has c(-x) = e^-x c(x), and nodes x_i = i h >= 0 do,
with eta = m h. Profiles are convex in z = e^x, which bounds both sides between nodes:

- *from above* by chords in z. For t between nodes both branches are on chords, and the expression is A + B s + C/s in
  s = e^t with C <= 0: concave, its maximum in the cell is known. So the sup over all t of the chords is found exactly;
- *from below* by the shifts t = j h, which need no values between nodes.

Where every step must show its upper loss to pass x, at x = sum eta - y with y <= min eta, the best shifts are equal:
delta = (1 - e^{-y/(k+1)})^{k+1} / prod (1 - e^-eta) (all k steps; ln(1 - e^-a) is concave). Both sides know it.

Rounding: all sums are of positive terms; delta and 1 - delta are both kept, each row computed for the smaller of the
two, and every step moves both ends outwards by SLACK units. Chords widen the loss of a step by at most h^2/8 in its
variance of about eta^2/4: relative error of the standard deviation about 1/(4 m^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

SLACK: Final = 16 * FUNCTION_ERROR + 4 * 750 * UNIT_ROUNDOFF
"""Relative error of one step: weights whose exponents (at most 750, else they vanish) carry a few roundings, a sum of
two products, and the maximum inside a cell, whose error is that of a tenth of the sum."""
TINY: Final = 2.0**-1050
"""Absolute error of a step where numbers are below the smallest normal double."""
COMPLEMENT_ERROR: Final = 4 * UNIT_ROUNDOFF
BLOCK: Final = 1 << 16
"""Entries of the tables of shifts held at once: what stays in the processor's cache."""


@final
@dataclass(frozen=True, slots=True)
class NodeValues:
    """One end of a profile at x_i = i h, i = 0 ... n, 0 beyond: `profile` delta, and `complement` 1 - delta."""

    profile: FloatArray
    complement: FloatArray


@final
@dataclass(frozen=True, slots=True)
class Side:
    """Which end is computed: `sign` 1 for delta from above and 1 - delta from below, -1 for the reverse."""

    spacing: float
    sign: int

    def larger(self, values: FloatArray) -> FloatArray:
        """The values of delta moved to this side."""
        return np.clip(values * (1 + self.sign * SLACK) + self.sign * TINY, 0.0, 1.0)

    def smaller(self, values: FloatArray) -> FloatArray:
        """The values of 1 - delta moved to this side."""
        return np.clip(values * (1 - self.sign * SLACK) - self.sign * TINY, 0.0, 1.0)

    def complements(self, of_profile: FloatArray) -> FloatArray:
        """1 - delta from delta."""
        return np.clip((1 - of_profile) - self.sign * COMPLEMENT_ERROR, 0.0, 1.0)

    def profiles(self, of_complement: FloatArray) -> FloatArray:
        """delta from 1 - delta."""
        return np.clip((1 - of_complement) + self.sign * COMPLEMENT_ERROR, 0.0, 1.0)

    def start(self) -> NodeValues:
        """No steps: delta = 0 from x = 0 on."""
        return NodeValues(np.zeros(1), np.ones(1))

    def step(self, before: NodeValues, multiple: int, ranges: tuple[int, ...]) -> NodeValues:
        """One more step, of range eta = multiple * h; `ranges`: of all steps up to this one, in multiples of h."""
        return _known(self, _stepped(self, before, multiple), ranges)


def fixed_order(spacing: float, ranges: tuple[int, ...]) -> NodeValues:
    """From below: steps of these ranges (multiples of the spacing, > 0), the last of them taken last.

    The recursion goes back in time. Small ranges first is the order that tells most, as far as is known.
    """
    side, values = Side(spacing, -1), None
    taken: tuple[int, ...] = ()
    for multiple in reversed(ranges):
        taken = (*taken, multiple)
        values = side.step(values or side.start(), multiple, taken)
    return values or side.start()


def any_order(spacing: float, ranges: tuple[tuple[int, int], ...]) -> NodeValues:
    """From above, for (range, count): whatever order the steps are taken in, even one chosen on the way.

    One table for every way to have some of each kind left.
    """
    side = Side(spacing, 1)
    tables: dict[tuple[int, ...], NodeValues] = {(0,) * len(ranges): side.start()}
    totals = [count for _, count in ranges]
    for state in np.ndindex(*(count + 1 for count in totals)):
        left = tuple(int(count) for count in state)
        if sum(left) == 0:
            continue
        taken = tuple(multiple for (multiple, _), count in zip(ranges, left, strict=True) for _ in range(count))
        found: NodeValues | None = None
        for kind, (multiple, _) in enumerate(ranges):
            if left[kind]:
                before = tables[(*left[:kind], left[kind] - 1, *left[kind + 1 :])]
                one = side.step(before, multiple, taken)
                found = one if found is None else _higher(found, one)
        if found is not None:
            tables[left] = found
        # States are visited in lexical order: of the first kind only the last two counts are still needed.
        if left[0] >= 2 and all(count == 0 for count in left[1:]):
            for old in [key for key in tables if key[0] < left[0] - 1]:
                del tables[old]
    return tables[tuple(totals)]


def _higher(one: NodeValues, other: NodeValues) -> NodeValues:
    return NodeValues(np.maximum(one.profile, other.profile), np.minimum(one.complement, other.complement))


def _stepped(side: Side, before: NodeValues, m: int) -> NodeValues:
    """T of the profile, at the nodes up to its new end."""
    h, n = side.spacing, len(before.profile) - 1
    rows = n + m + 1
    ends = _extended(side, before, m, rows)
    nearer = np.arange(m + 1) * h  # eta - t: the table has t falling from eta to 0
    spread = -math.expm1(-m * h)
    high = -np.expm1(-nearer) / spread
    low = np.exp(-nearer) * -np.expm1(nearer - m * h) / spread
    profile, complement = np.empty(rows), np.empty(rows)
    split = _split(ends.profile, high, low, rows, m)
    curvature = _curvature(ends, h, m) if side.sign > 0 else None
    complement[:split] = side.smaller(-_largest(-ends.complement, curvature, high, low, h, range(split)))
    profile[:split] = side.profiles(complement[:split])
    profile[split:] = side.larger(_largest(ends.profile, curvature, high, low, h, range(split, rows)))
    complement[split:] = side.complements(profile[split:])
    return NodeValues(profile, complement)


def _extended(side: Side, before: NodeValues, m: int, rows: int) -> NodeValues:
    """The values at i = -m ... rows + m: c(-x) = e^-x c(x), delta(-x) = (1 - e^-x) + e^-x delta(x)."""
    after = rows + m + 1 - len(before.profile)
    profile = np.concatenate([before.profile, np.zeros(after)])
    complement = np.concatenate([before.complement, np.ones(after)])
    x = side.spacing * np.arange(m, 0, -1)
    fall = np.exp(-x)
    return NodeValues(
        np.concatenate([side.larger(-np.expm1(-x) + fall * profile[m:0:-1]), profile]),
        np.concatenate([side.smaller(fall * complement[m:0:-1]), complement]),
    )


def _split(profile: FloatArray, high: FloatArray, low: FloatArray, rows: int, m: int) -> int:
    """From which row on delta is about 1/2 or less, by a few shifts."""
    few = sorted({0, m // 8, m // 4, m // 2, 3 * m // 4, m})
    seen = np.max([high[r] * profile[r : r + rows] + low[r] * profile[r + m : r + m + rows] for r in few], axis=0)
    return int(np.count_nonzero(seen > 0.5))


def _curvature(ends: NodeValues, h: float, m: int) -> FloatArray:
    """|C|/s (1 - e^-h)^2 at the smaller t of each cell, by the node on the left of the cell where x - t lies."""
    falls = np.where(ends.profile[:-1] > 0.5, np.diff(ends.complement), -np.diff(ends.profile))
    both = falls[: len(falls) - m] - math.exp(-m * h) * falls[m:]
    return np.maximum(both, 0.0) * (math.expm1(-h) / math.expm1(-m * h))


def _largest(
    values: FloatArray, curvature: FloatArray | None, high: FloatArray, low: FloatArray, h: float, rows: range
) -> FloatArray:
    """sup over t at each row: at the nodes, and inside the cells where a curvature is given."""
    m = len(high) - 1
    found = np.empty(len(rows))
    size = max(BLOCK // (m + 1), 1)
    for start in range(rows.start, rows.stop, size):
        stop = min(start + size, rows.stop)
        windows = sliding_window_view(values[start : stop + 2 * m], m + 1)
        table = high * windows[: stop - start]
        table += low * windows[m : m + stop - start]
        best = table.max(axis=1)
        if curvature is not None:
            cells = sliding_window_view(curvature[start : stop + m - 1], m)
            _raise_inside(best, table, cells, h)
        found[start - rows.start : stop - rows.start] = best
    return found


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _raise_inside(best: FloatArray, table: FloatArray, most: FloatArray, h: float) -> None:
    """The maximum of A + B s - c s1/s over a cell [s1, s1 e^h], from its values at both ends, where it is inside.

    `most` = c (1 - e^-h)^2, by which it is at most above the value at s1.
    """
    fall, rest = math.exp(-h), -math.expm1(-h)
    row, cell = np.nonzero(table[:, 1:] + most > best[:, None])
    first, bound = table[row, cell + 1], most[row, cell]
    rise = table[row, cell] - first
    # The vertex is inside where the slopes at both ends say so.
    inside = (rise < bound) & (rise * fall > -bound)
    row, first, bound, gain = row[inside], first[inside], bound[inside], rise[inside] * fall
    root = np.sqrt(np.maximum(bound * fall - gain * rest, 0.0)) + np.sqrt(bound)
    np.maximum.at(best, row, first + ((bound + gain) / root) ** 2)


def _known(side: Side, found: NodeValues, ranges: tuple[int, ...]) -> NodeValues:
    """With the closed form near the end, where every step must show its upper loss."""
    total, least = sum(ranges), min(ranges)
    first = max(total - least, 0)
    away = np.arange(total - first, -1, -1, dtype=np.float64) * side.spacing
    logs = log_end_profile(away, [multiple * side.spacing for multiple in ranges])
    moved = np.exp(np.minimum(logs[0] + side.sign * logs[1], 0.0))
    known = side.larger(moved)
    profile, complement = found.profile.copy(), found.complement.copy()
    closer: Callable[..., FloatArray] = np.minimum if side.sign > 0 else np.maximum
    further: Callable[..., FloatArray] = np.maximum if side.sign > 0 else np.minimum
    profile[first:] = closer(profile[first:], known)
    complement[first:] = further(complement[first:], side.complements(known))
    profile[-1], complement[-1] = 0.0, 1.0
    return NodeValues(profile, complement)


def log_end_profile(away: FloatArray, ranges: list[float]) -> tuple[FloatArray, FloatArray]:
    """(ln delta at x = sum of the ranges - away, a bound of its error) for away in [0, smallest range]; -inf at 0."""
    k = len(ranges)
    with np.errstate(divide="ignore"):
        each = np.log(-np.expm1(-away / (k + 1)))
    rest = math.fsum(math.log(-math.expm1(-eta)) for eta in ranges)
    size = (k + 1) * (2 + np.where(np.isfinite(each), np.abs(each), 0.0)) + sum(
        1 + abs(math.log(-math.expm1(-eta))) for eta in ranges
    )
    return (k + 1) * each - rest, 2 * FUNCTION_ERROR * size
