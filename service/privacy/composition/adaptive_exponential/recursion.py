"""Worst case over adaptively chosen exponential mechanisms: a recursion over profiles with upper and lower bounds.

A profile delta(x) is E0(e^L - e^x)_+ of the total loss L (delta at epsilon = x). Consider a step of range eta (nats),
whose shift the adversary sets to t in [0, eta]. It has two losses. The loss t has the H1-mass P(t) = (e^eta -
e^t)/(e^eta - 1), and the loss t - eta has the rest. The condition E0 e^L = 1 determines P. A further loss l in (t -
eta, t) does not reveal more, because e^l delta(x - l) is convex in e^l. If the shift may depend on earlier results, the
profiles after k steps satisfy (Dong, Durfee, Rogers 2020, optimal composition for exponential mechanisms):

    delta_k(x) = (T delta_{k-1})(x) = sup_t P(t) delta_{k-1}(x - t) + (1 - P(t)) delta_{k-1}(x - t + eta);
    delta_0(x) = (1 - e^x)_+.

With swapped hypotheses, the pair with shift t becomes the pair with shift eta - t. So c = 1 - delta satisfies c(-x) =
e^-x c(x), and nodes x_i = i h >= 0 suffice, with eta = m h. Profiles are convex in z = e^x, which bounds both sides
between nodes:

- The upper bound uses chords in z. For t between nodes both branches are on chords, and the expression is A + B s + C/s
in s = e^t with C <= 0. It is concave, and its maximum in the cell is known. The supremum of the chords over all t is
therefore exact. Most shifts are excluded by bounds that prove that they do not reach it (`worst_shifts.py`).
- The lower bound uses the shifts t = j h, which need no values between nodes.

At x = sum eta - y with y <= min eta, every step must have its upper loss to pass x, and the best shifts are equal. With
k steps, delta = (1 - e^{-y/(k+1)})^{k+1} / prod (1 - e^-eta), because ln(1 - e^-a) is concave. Both bounds use this
closed form.

Let y be the distance from the largest loss. Both branches depend only on smaller distances (y - u and y - u - eta with
u = eta - t). So results for y <= Y need only y <= Y in earlier steps.

Rounding: all sums have positive terms. Both delta and 1 - delta are stored. Each row is computed for the smaller of the
two. Every step moves both bounds outwards by SLACK units. Chords increase the variance of a step's loss, about eta^2/4,
by at most h^2/8. The relative error of the standard deviation is about 1/(4 m^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.composition.adaptive_exponential.worst_shifts import WorstShifts, largest
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work

SLACK: Final = 16 * FUNCTION_ERROR + 4 * 750 * UNIT_ROUNDOFF
"""Relative error of a step.

It covers weights whose exponents have a few roundings, a sum of two products, and the maximum inside a cell. Exponents
are at most 750, because other weights vanish. The maximum has the error of a tenth of the sum.
"""
TINY: Final = 2.0**-1050
"""Absolute error of a step for numbers below the smallest normal double."""
COMPLEMENT_ERROR: Final = 4 * UNIT_ROUNDOFF
A_STEP, A_ROW = 300.0, 0.1
"""Work of a step, and of each row per square root of its shifts, in microseconds. Most shifts are excluded."""


@final
@dataclass(frozen=True, slots=True)
class NodeValues:
    """Bounds of a profile delta(x) at the nodes x_i = i h for i = first ... n; the profile is 0 beyond.

    h is the spacing of the grid in nats. `profile` bounds delta, and `complement` bounds 1 - delta, shape (nodes,)
    each.
    """

    profile: FloatArray
    complement: FloatArray
    first: int = 0

    @property
    def last(self) -> int:
        """Index n of the last node, where the profile delta is 0."""
        return self.first + len(self.profile) - 1


@final
@dataclass(frozen=True, slots=True)
class Side:
    """Direction of the bounds of profiles on a grid of losses with this spacing (nats).

    `sign` is 1 for upper bounds of delta and lower bounds of 1 - delta, and -1 for lower bounds of delta and upper
    bounds of 1 - delta.
    """

    spacing: float
    sign: int

    def larger(self, values: FloatArray) -> FloatArray:
        """Return values of the profile delta rounded to the safe side: up for upper bounds, down for lower bounds.

        The result has the shape of `values`.
        """
        return np.clip(values * (1 + self.sign * SLACK) + self.sign * TINY, 0.0, 1.0)

    def smaller(self, values: FloatArray) -> FloatArray:
        """Return values of 1 - delta rounded to the safe side: down for upper bounds of delta, up for lower bounds.

        The result has the shape of `values`.
        """
        return np.clip(values * (1 - self.sign * SLACK) - self.sign * TINY, 0.0, 1.0)

    def complements(self, of_profile: FloatArray) -> FloatArray:
        """Return bounds of 1 - delta from bounds of delta, `of_profile`, rounded to the safe side as by `smaller`.

        The result has the shape of `of_profile`.
        """
        return np.clip((1 - of_profile) - self.sign * COMPLEMENT_ERROR, 0.0, 1.0)

    def profiles(self, of_complement: FloatArray) -> FloatArray:
        """Return bounds of delta from bounds of 1 - delta, `of_complement`, rounded to the safe side as by `larger`.

        The result has the shape of `of_complement`.
        """
        return np.clip((1 - of_complement) + self.sign * COMPLEMENT_ERROR, 0.0, 1.0)

    def start(self) -> NodeValues:
        """Return the profile without any step: delta(x) = 0 at all losses x >= 0."""
        return NodeValues(np.zeros(1), np.ones(1))

    def step(self, before: NodeValues, multiple: int, ranges: tuple[int, ...], cells_from_end: int) -> NodeValues:
        """Return the bounds of the profile after one more step, whose losses have the range eta = multiple * h.

        h is the spacing of the grid. `ranges` are the ranges of all steps including the new one, in multiples of h. The
        result covers nodes up to `cells_from_end` cells from the largest loss, and `before` covers as many.
        """
        end = before.last + multiple
        first = max(end - cells_from_end, 0)
        # The closed form holds from this node on.
        known = max(end - min(ranges), first)
        return _with_closed_form(self, _after_step(self, before, multiple, range(first, known)), end, ranges)


def fixed_order(spacing: float, ranges: tuple[int, ...], cells_from_end: int | None = None) -> NodeValues:
    """Compute lower bounds of the profile for steps of these ranges (multiples of the spacing, > 0), in this order.

    The recursion goes back in time, from the last step. Small ranges first is the most revealing known order.
    `cells_from_end` limits the cells from the largest loss; None means all cells.
    """
    side = Side(spacing, -1)
    values, taken = side.start(), tuple[int, ...]()
    for multiple in reversed(ranges):
        taken = (*taken, multiple)
        values = side.step(values, multiple, taken, sum(ranges) if cells_from_end is None else cells_from_end)
    return values


def any_order(spacing: float, ranges: tuple[tuple[int, int], ...], cells_from_end: int | None = None) -> NodeValues:
    """Compute upper bounds of the profile for (range, count) pairs in any order, even one chosen during the run.

    Ranges of losses are multiples of the spacing. There is a table for each combination of remaining steps of each
    kind. `cells_from_end` limits the cells from the largest loss; None means all cells.
    """
    side = Side(spacing, 1)
    tables: dict[tuple[int, ...], NodeValues] = {(0,) * len(ranges): side.start()}
    totals = [count for _, count in ranges]
    wanted = sum(multiple * count for multiple, count in ranges) if cells_from_end is None else cells_from_end
    for state in np.ndindex(*(count + 1 for count in totals)):
        left = tuple(int(count) for count in state)
        if sum(left) == 0:
            continue
        taken = tuple(multiple for (multiple, _), count in zip(ranges, left, strict=True) for _ in range(count))
        found: NodeValues | None = None
        for kind, (multiple, _) in enumerate(ranges):
            if left[kind]:
                before = tables[(*left[:kind], left[kind] - 1, *left[kind + 1 :])]
                one = side.step(before, multiple, taken, wanted)
                found = one if found is None else _larger_profile(found, one)
        if found is not None:
            tables[left] = found
        # States are visited in lexical order, so only the last two counts of the first kind are still needed.
        if left[0] >= 2 and all(count == 0 for count in left[1:]):
            for old in [key for key in tables if key[0] < left[0] - 1]:
                del tables[old]
    return tables[tuple(totals)]


def _larger_profile(one: NodeValues, other: NodeValues) -> NodeValues:
    return NodeValues(
        np.maximum(one.profile, other.profile), np.minimum(one.complement, other.complement), first=one.first
    )


def _after_step(side: Side, before: NodeValues, m: int, rows: range) -> NodeValues:
    """Return the profile after one more step of range m cells, at the nodes `rows`, without the closed form.

    The step has two losses, t and t - eta, and the result is the worst case over the shifts t. `before` is the profile
    delta(x) at the nodes before the step, and eta is m cells. `side` chooses upper or lower bounds and rounds
    accordingly.
    """
    shifts, count = WorstShifts.of(side.spacing, m), len(rows)
    count_work(A_STEP + A_ROW * count * math.sqrt(m))
    ends = _extended(side, before, rows.start - m, rows.stop + m)
    profile, complement = np.empty(count), np.empty(count)
    split = _split(ends.profile, shifts, count)
    curvature = _curvature(ends, side.spacing, m) if side.sign > 0 else None
    if split:
        complement[:split] = side.smaller(-largest(-ends.complement, curvature, shifts, split))
        profile[:split] = side.profiles(complement[:split])
    if split < count:
        lower = None if curvature is None else curvature[split:]
        profile[split:] = side.larger(largest(ends.profile[split:], lower, shifts, count - split))
        complement[split:] = side.complements(profile[split:])
    return NodeValues(profile, complement, rows.start)


def _extended(side: Side, before: NodeValues, start: int, stop: int) -> NodeValues:
    """Return the profile delta at the nodes x_i = i h, i = `start` ... `stop`, where i may be negative.

    h is the spacing of the grid in nats. c = 1 - delta satisfies c(-x) = e^-x c(x), so that delta(-x) = (1 - e^-x) +
    e^-x delta(x). `before` has the profile for i >= 0, and `side` rounds outwards.
    """
    if start < before.first:
        turned = -start + 1
        x = side.spacing * np.arange(-start, 0, -1)
        fall = np.exp(-x)
        short = max(turned - len(before.profile), 0)
        profile = np.concatenate([before.profile, np.zeros(short)])
        complement = np.concatenate([before.complement, np.ones(short)])
        profile = np.concatenate([side.larger(-np.expm1(-x) + fall * profile[turned - 1 : 0 : -1]), profile])
        complement = np.concatenate([side.smaller(fall * complement[turned - 1 : 0 : -1]), complement])
        before = NodeValues(profile, complement, start)
    after = max(stop - before.last, 0)
    kept = slice(start - before.first, stop + 1 - before.first)
    return NodeValues(
        np.concatenate([before.profile, np.zeros(after)])[kept],
        np.concatenate([before.complement, np.ones(after)])[kept],
        start,
    )


def _split(profile: FloatArray, shifts: WorstShifts, rows: int) -> int:
    """Return the first of `rows` rows (nodes) at which the new profile delta is about 1/2 or less; `rows` if none.

    `profile` is delta before the step, from m nodes left of the first row on, for a step of the range m cells. The
    estimate uses a few of the `shifts` of the step's losses. The split decides whether rounding is relative to delta or
    to 1 - delta. Bounds are valid for every split.
    """
    m, high, low = shifts.cells, shifts.high, shifts.low
    few = sorted({0, m // 8, m // 4, m // 2, 3 * m // 4, m})
    seen = np.max([high[r] * profile[r : r + rows] + low[r] * profile[r + m : r + m + rows] for r in few], axis=0)
    return int(np.count_nonzero(seen > 0.5))


def _curvature(ends: NodeValues, h: float, m: int) -> FloatArray:
    """Return |C|/s (1 - e^-h)^2 for each cell of shifts t of width h, at the smaller t of the cell.

    For shifts inside the cell, the profile after the step, bounded by chords, is A + B s + C/s with s = e^t and
    coefficients A, B, C. `ends` is the profile before the step, and `m` is the range of the step in cells. The result
    has one number for each node of `ends` but the last m + 1: the node to the left of x - t, for the loss x after the
    step.
    """
    falls = np.where(ends.profile[:-1] > 0.5, np.diff(ends.complement), -np.diff(ends.profile))
    both = falls[: len(falls) - m] - math.exp(-m * h) * falls[m:]
    return np.maximum(both, 0.0) * (math.expm1(-h) / math.expm1(-m * h))


def _with_closed_form(side: Side, found: NodeValues, end: int, ranges: tuple[int, ...]) -> NodeValues:
    """Append the closed form of the profile delta near the largest loss of a run of exponential steps.

    A step has two losses. Near the largest loss of the run, every step has the larger one. `end` is the index of the
    largest loss on the grid, and `ranges` are the differences of both losses of each step, in multiples of the grid
    spacing. `found` has the profile at smaller losses, and `side` rounds outwards.
    """
    away = np.arange(end - found.last - 1, -1, -1, dtype=np.float64) * side.spacing
    logs = log_end_profile(away, [multiple * side.spacing for multiple in ranges])
    moved = np.minimum(logs[0] + side.sign * logs[1], 0.0)
    known, rest = side.larger(np.exp(moved)), side.smaller(-np.expm1(moved))
    known[-1], rest[-1] = 0.0, 1.0
    return NodeValues(
        np.concatenate([found.profile, known]), np.concatenate([found.complement, rest]), first=found.first
    )


def log_end_profile(away: FloatArray, ranges: list[float]) -> tuple[FloatArray, FloatArray]:
    """Return ln delta at a distance `away` below the largest loss, and a bound of its absolute error.

    Both have the shape of `away`. `ranges` are the ranges of all steps in nats, and the largest loss is their sum.
    `away` is in [0, smallest range]. The logarithm is -inf at 0. The error is proportional to the terms of the
    logarithm, so that a small 1 - delta keeps its relative accuracy.
    """
    k = len(ranges)
    shift = away / (k + 1)
    eta = np.array(ranges)
    each, rests = log_rest(shift), log_rest(eta)
    # The arguments of exp have rounding errors. For small arguments the logarithm is large.
    size = (k + 1) * np.where(np.isfinite(each), np.abs(each) * (2 + shift) + (shift < 1), 0.0)
    size = size + float((np.abs(rests) * (2 + eta) + (eta < 1)).sum())
    return (k + 1) * each - math.fsum(rests.tolist()), 2 * FUNCTION_ERROR * size


@np.errstate(divide="ignore")
def log_rest(a: FloatArray) -> FloatArray:
    """Return ln(1 - e^-a) for a >= 0, by the formula that loses no digits, in the shape of a."""
    return np.where(a > 1, np.log1p(-np.exp(-a)), np.log(-np.expm1(-a)))
