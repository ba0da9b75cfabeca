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
  s = e^t with C <= 0: concave, its maximum in the cell is known. So the sup over all t of the chords is found exactly,
  most of them by bounds that show that they do not reach it (`worst_shifts.py`);
- *from below* by the shifts t = j h, which need no values between nodes.

Where every step must show its upper loss to pass x, at x = sum eta - y with y <= min eta, the best shifts are equal:
delta = (1 - e^{-y/(k+1)})^{k+1} / prod (1 - e^-eta) (all k steps; ln(1 - e^-a) is concave). Both sides know it.

In y, the distance from the end, both branches look only at smaller y (y - u and y - u - eta, u = eta - t): what is
wanted for y <= Y asks for no more before.

Rounding: all sums are of positive terms; delta and 1 - delta are both kept, each row computed for the smaller of the
two, and every step moves both ends outwards by SLACK units. Chords widen the loss of a step by at most h^2/8 in its
variance of about eta^2/4: relative error of the standard deviation about 1/(4 m^2).
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
"""Relative error of one step: weights whose exponents (at most 750, else they vanish) carry a few roundings, a sum of
two products, and the maximum inside a cell, whose error is that of a tenth of the sum."""
TINY: Final = 2.0**-1050
"""Absolute error of a step where numbers are below the smallest normal double."""
COMPLEMENT_ERROR: Final = 4 * UNIT_ROUNDOFF
A_STEP, A_ROW = 300.0, 0.1
"""Work of a step, and of each of its rows for each root of a shift, in microseconds: most shifts are left out."""


@final
@dataclass(frozen=True, slots=True)
class NodeValues:
    """One end of a profile at x_i = i h, i = first ... n, 0 beyond: `profile` delta, and `complement` 1 - delta."""

    profile: FloatArray
    complement: FloatArray
    first: int = 0

    @property
    def last(self) -> int:
        """Index of the last node, where delta = 0."""
        return self.first + len(self.profile) - 1


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

    def step(self, before: NodeValues, multiple: int, ranges: tuple[int, ...], reach: int) -> NodeValues:
        """One more step, of range eta = multiple * h; `ranges`: of all steps up to this one, in multiples of h.

        At nodes up to `reach` cells from the end, where all that is needed is as near to the end before.
        """
        end = before.last + multiple
        first = max(end - reach, 0)
        # From here on the closed form holds.
        known = max(end - min(ranges), first)
        return _known(self, _stepped(self, before, multiple, range(first, known)), end, ranges)


def fixed_order(spacing: float, ranges: tuple[int, ...], reach: int | None = None) -> NodeValues:
    """From below: steps of these ranges (multiples of the spacing, > 0), the last of them taken last.

    The recursion goes back in time. Small ranges first is the order that tells most, as far as is known. `reach`: how
    many cells from the end are wanted, if not all.
    """
    side = Side(spacing, -1)
    values, taken = side.start(), tuple[int, ...]()
    for multiple in reversed(ranges):
        taken = (*taken, multiple)
        values = side.step(values, multiple, taken, sum(ranges) if reach is None else reach)
    return values


def any_order(spacing: float, ranges: tuple[tuple[int, int], ...], reach: int | None = None) -> NodeValues:
    """From above, for (range, count): whatever order the steps are taken in, even one chosen on the way.

    One table for every way to have some of each kind left. `reach` as in `fixed_order`.
    """
    side = Side(spacing, 1)
    tables: dict[tuple[int, ...], NodeValues] = {(0,) * len(ranges): side.start()}
    totals = [count for _, count in ranges]
    wanted = sum(multiple * count for multiple, count in ranges) if reach is None else reach
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
                found = one if found is None else _higher(found, one)
        if found is not None:
            tables[left] = found
        # States are visited in lexical order: of the first kind only the last two counts are still needed.
        if left[0] >= 2 and all(count == 0 for count in left[1:]):
            for old in [key for key in tables if key[0] < left[0] - 1]:
                del tables[old]
    return tables[tuple(totals)]


def _higher(one: NodeValues, other: NodeValues) -> NodeValues:
    return NodeValues(
        np.maximum(one.profile, other.profile), np.minimum(one.complement, other.complement), first=one.first
    )


def _stepped(side: Side, before: NodeValues, m: int, rows: range) -> NodeValues:
    """T of the profile, at these nodes."""
    shifts, count = WorstShifts.of(side.spacing, m), len(rows)
    count_work(A_STEP + A_ROW * count * math.sqrt(m))
    ends = _around(side, before, rows.start - m, rows.stop + m)
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


def _around(side: Side, before: NodeValues, start: int, stop: int) -> NodeValues:
    """The values at i = start ... stop: c(-x) = e^-x c(x), delta(-x) = (1 - e^-x) + e^-x delta(x)."""
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
    """From which row on delta is about 1/2 or less, by a few shifts."""
    m, high, low = shifts.cells, shifts.high, shifts.low
    few = sorted({0, m // 8, m // 4, m // 2, 3 * m // 4, m})
    seen = np.max([high[r] * profile[r : r + rows] + low[r] * profile[r + m : r + m + rows] for r in few], axis=0)
    return int(np.count_nonzero(seen > 0.5))


def _curvature(ends: NodeValues, h: float, m: int) -> FloatArray:
    """|C|/s (1 - e^-h)^2 at the smaller t of each cell, by the node on the left of the cell where x - t lies."""
    falls = np.where(ends.profile[:-1] > 0.5, np.diff(ends.complement), -np.diff(ends.profile))
    both = falls[: len(falls) - m] - math.exp(-m * h) * falls[m:]
    return np.maximum(both, 0.0) * (math.expm1(-h) / math.expm1(-m * h))


def _known(side: Side, found: NodeValues, end: int, ranges: tuple[int, ...]) -> NodeValues:
    """With the closed form near the end, where every step must show its upper loss."""
    away = np.arange(end - found.last - 1, -1, -1, dtype=np.float64) * side.spacing
    logs = log_end_profile(away, [multiple * side.spacing for multiple in ranges])
    moved = np.minimum(logs[0] + side.sign * logs[1], 0.0)
    known, rest = side.larger(np.exp(moved)), side.smaller(-np.expm1(moved))
    known[-1], rest[-1] = 0.0, 1.0
    return NodeValues(
        np.concatenate([found.profile, known]), np.concatenate([found.complement, rest]), first=found.first
    )


def log_end_profile(away: FloatArray, ranges: list[float]) -> tuple[FloatArray, FloatArray]:
    """(ln delta at x = sum of the ranges - away, a bound of its error) for away in [0, smallest range]; -inf at 0.

    Errors are relative to the terms, so that 1 - delta keeps its digits where it is small.
    """
    k = len(ranges)
    shift = away / (k + 1)
    eta = np.array(ranges)
    each, rests = log_rest(shift), log_rest(eta)
    # Arguments of exp are off by roundings; where they are small the logarithm is not.
    size = (k + 1) * np.where(np.isfinite(each), np.abs(each) * (2 + shift) + (shift < 1), 0.0)
    size = size + float((np.abs(rests) * (2 + eta) + (eta < 1)).sum())
    return (k + 1) * each - math.fsum(rests.tolist()), 2 * FUNCTION_ERROR * size


@np.errstate(divide="ignore")
def log_rest(a: FloatArray) -> FloatArray:
    """ln(1 - e^-a), from the smaller of both terms."""
    return np.where(a > 1, np.log1p(-np.exp(-a)), np.log(-np.expm1(-a)))
