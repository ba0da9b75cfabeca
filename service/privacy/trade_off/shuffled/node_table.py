"""Enclosures of a privacy profile at nodes: bounds between the nodes, and laws on a lattice of losses.

delta is convex in x = e^eps. So it lies below the chord of upper bounds at two neighbouring nodes, and above the
extended lines of the neighbouring cells, each through an upper and a lower bound (`enclosed/convex.py`).

**Laws.** A convex function that is linear between nodes is the profile of a law at the nodes: the mass under H0 is the
change of its slope in x. The largest convex function below the upper bounds is not below delta, so its law dominates
(connecting the dots). Consider the chord of lower bounds between two nodes. Let a be its excess over the line from the
left at the right node, and b its excess over the line from the right at the left node. The chord exceeds the larger
line by at most a b/(a + b). If both lower bounds of every cell are reduced by that much, all chords are below delta,
and so is the largest convex function below the reduced bounds. A pair with a profile nowhere above that of another pair
is a function of its outcomes and independent random numbers (Blackwell's theorem). So this law is attained.

For x < 1, delta(1/x) = 1 - 1/x + delta'(x)/x with the profile delta' of the swapped hypotheses, whose masses under H1
follow in the same way. The slope at x = 1 changes by 1 - delta(1) - s - s' with the falls s, s' of both first cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.atomic_law import AtomicLaw

SLACK: Final = 16 * FUNCTION_ERROR
ENDS: Final = 1e-200
"""Smallest delta at the last node for which the law reaches to the largest loss."""
LEAST_STEP: Final = 1e-290
"""Smallest distance of nodes, nats, whose multiples have digits."""
FAINTEST: Final = 1e-290
"""Smallest mass of a node of a law."""
LEAST_TURN: Final = 1e-8
"""Smallest fall of the slope at a vertex of a law, relative to the slope: its mass has digits."""


@final
@dataclass(frozen=True)
class NodeTable:
    """Enclosures of ln delta, for the privacy profile delta of a curve, at rising nodes from 0 to the largest loss.

    Attributes
    ----------
    nodes : array, shape (n,)
        Losses in nats; the last one is the largest loss.
    low, high : array, shape (n,)
        Bounds of ln delta.
    step : float
        Unit of `places`, nats.
    places : array of int, shape (n - 1,)
        All nodes but the last, in multiples of `step`.
    """

    nodes: FloatArray
    low: FloatArray
    high: FloatArray
    step: float
    places: IndexArray

    @np.errstate(all="ignore")
    def log_ends(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of ln delta at each `epsilon` >= 0."""
        nodes, last = self.nodes, len(self.nodes) - 2
        cell = np.clip(np.searchsorted(nodes, epsilon, side="right") - 1, 0, last)
        # Values relative to the upper bound at the left node, so that nothing underflows.
        scale = self.high[cell]
        width = np.expm1(nodes[cell + 1] - nodes[cell])
        share = np.clip(np.expm1(epsilon - nodes[cell]) / width, 0.0, 1.0)
        right_high = np.exp(self.high[cell + 1] - scale)
        most = (1 - share + share * right_high) * (1 + SLACK)
        before, after = np.maximum(cell - 1, 0), np.minimum(cell + 2, last + 1)
        left_low, right_low = np.exp(self.low[cell] - scale), np.exp(self.low[cell + 1] - scale)
        run = -np.expm1(nodes[before] - nodes[cell])
        fall = np.maximum(np.exp(self.high[before] - scale) - left_low, 0.0)
        onward = left_low - fall * np.expm1(epsilon - nodes[cell]) / run
        rise = np.maximum(right_low - np.exp(self.high[after] - scale), 0.0)
        ahead = np.expm1(nodes[after] - nodes[cell + 1])
        back = right_low + rise * -np.expm1(epsilon - nodes[cell + 1]) / ahead
        onward = np.where(cell > 0, onward, right_low)
        back = np.where(cell < last, back, 0.0)
        least = np.fmax(np.fmax(onward, back), right_low) * (1 - SLACK) - SLACK * SLACK
        beyond = epsilon >= nodes[-1]
        low = np.where(beyond | ~(least > 0), -np.inf, np.log(np.maximum(least, 1e-320)) + scale)
        return low, np.where(beyond, -np.inf, np.log(most) + scale)


@np.errstate(all="ignore")
def listed_law(right: NodeTable, left: NodeTable, side: int) -> AtomicLaw | None:
    """Return a law of losses at nodes that is no easier (`side` -1) or no harder (1) to attack than the curve.

    `right` and `left` are tables of the profile of the curve and of that of the swapped hypotheses, with one step.
    The losses are multiples of this step. None if the bounds of the tables leave no mass to the nodes.
    """
    if right.step < LEAST_STEP or left.step < LEAST_STEP:
        return None
    halves = [_half(right, side)] if right is left else [_half(right, side), _half(left, side)]
    first, second = halves[0], halves[-1]
    if not all(len(half.places) and np.isfinite(half.logs).all() for half in halves):
        return None
    at_zero = max(first.at_zero, second.at_zero) if side > 0 else min(first.at_zero, second.at_zero)
    if side < 0:  # both halves have the same delta(0), so that the masses of each hypothesis sum to 1
        first, second = first.scaled(at_zero), second.scaled(at_zero)
        excess = at_zero + first.fall + second.fall - 1
        if excess > 0:
            # Together the halves are not convex at eps = 0. Without mass at the smallest losses both are lower.
            first, second = first.without(excess / 2, right.step), second.without(excess / 2, right.step)
            if not (len(first.places) and len(second.places)):
                return None
            at_zero = min(first.at_zero, second.at_zero)
            first, second = first.scaled(at_zero), second.scaled(at_zero)
    middle = math.log(max(1 - at_zero - first.fall - second.fall, FAINTEST))
    losses = [right.step * half.places for half in (first, second)]
    absent = np.concatenate([first.logs[::-1], [middle], second.logs + losses[1]])
    present = np.concatenate([(first.logs + losses[0])[::-1], [middle], second.logs])
    reach = float(max(losses[0][-1], losses[1][-1]))
    return AtomicLaw(
        np.concatenate([losses[0][::-1], [0.0], -losses[1]]),
        right.step * np.concatenate([np.diff(first.places, prepend=0)[::-1], np.diff(second.places, prepend=0)]),
        absent,
        present,
        4 * UNIT_ROUNDOFF * reach,
        max(first.error, second.error),
        2 * max(first.rest, second.rest),
        is_symmetric=right is left,
    )


@final
@dataclass(frozen=True)
class _Half:
    """Part with losses > 0 of a law whose profile is a polygon in x = e^eps.

    `places` are the losses in multiples of the step, and `logs` ln of their masses under H0. `at_zero` is the profile
    at eps = 0, and `fall` minus its slope in x there. `error` bounds the relative error of the masses, and `rest` the
    mass that is left out.
    """

    places: IndexArray
    logs: FloatArray
    at_zero: float
    fall: float
    error: float
    rest: float

    def scaled(self, at_zero: float) -> _Half:
        """Return the part with a multiple of the profile, such that it is `at_zero` at eps = 0; at most this profile.

        A multiple of a convex function is convex, so that it is the profile of a law.
        """
        factor = at_zero / self.at_zero
        logs = self.logs + math.log(factor)
        return replace(self, logs=logs, at_zero=at_zero, fall=factor * self.fall)

    def without(self, mass: float, step: float) -> _Half:
        """Return the part without the H0-mass `mass` at its smallest losses; `step` is the distance of the nodes.

        Masses of which hardly anything would be left are left out, so that the others lose two digits at most.
        """
        masses = np.exp(self.logs)
        left = masses - np.clip(mass - (np.cumsum(masses) - masses), 0.0, masses)
        kept = left > 0.01 * masses
        places, left = self.places[kept], left[kept]
        at_zero, fall = float(left @ np.expm1(step * places)), float(left.sum())
        return replace(self, places=places, logs=np.log(left), at_zero=at_zero, fall=fall, error=100 * self.error)


def _half(table: NodeTable, side: int) -> _Half:
    places, values = table.places, np.exp(np.maximum((table.high if side > 0 else table.low)[:-1], -690.0))
    if side < 0:
        reduced = values - _excess(table, values)
        values = np.where((reduced > 0) & (table.low[:-1] > -690), reduced, 0.0)
        values[-1] = 0.0
    elif values[-1] > ENDS:
        # The profile is 0 at the first node beyond the largest loss.
        places = np.append(places, math.floor(float(table.nodes[-1]) / table.step * (1 + 1e-12)) + 1)
        values = np.append(values, 0.0)
    nodes = np.asarray(table.step * places, dtype=np.float64)
    x = np.exp(nodes)
    kept = [0]
    for index in range(1, len(nodes)):
        while len(kept) > 1 and _is_above(nodes, values, kept[-2], kept[-1], index):
            kept.pop()
        kept.append(index)
    at = np.array(kept)
    slope = _slopes(table.step, places[at], values[at])
    while side > 0:
        # Without a vertex the polygon is higher. The mass of a vertex that is nearly on a line has no digits.
        unclear = np.flatnonzero(slope[:-2] - slope[1:-1] < LEAST_TURN * slope[:-2]) + 1
        if not unclear.size:
            break
        at = np.delete(at, unclear[np.append([True], np.diff(unclear) > 1)])
        slope = _slopes(table.step, places[at], values[at])
    masses = slope[:-1] - slope[1:]
    some = masses > (FAINTEST if side > 0 else np.maximum(LEAST_TURN * slope[:-1], FAINTEST))
    lost = np.where(some | (side > 0), 0.0, masses)  # a profile without a mass is lower
    error = 16 * UNIT_ROUNDOFF * float((slope[:-1][some] / masses[some]).max(initial=0.0)) + SLACK
    rest = float(values[-1]) + len(nodes) * FAINTEST * float(x[-1])
    at_zero, fall = float(values[0] - lost @ np.expm1(nodes[at[1:]])), float(slope[0] - lost.sum())
    return _Half(places[at[1:]][some], np.log(masses[some]), at_zero, fall, error, rest)


def _slopes(step: float, places: IndexArray, values: FloatArray) -> FloatArray:
    """Return minus the slopes in e^eps of the polygon through `values` at multiples of `step`, and 0 at the end."""
    run = np.exp(step * places[:-1]) * np.expm1(step * np.diff(places))
    return np.append((values[:-1] - values[1:]) / run, 0.0)


def _excess(table: NodeTable, low: FloatArray) -> FloatArray:
    """Return by how much lower bounds at the nodes must be reduced, so that their chords are below the profile.

    `low` has the lower bounds of delta (not its logarithm) at all nodes of `table` but the last. The result has the
    same shape.
    """
    gaps = np.diff(table.nodes[:-1])
    high = np.exp(np.maximum(table.high[:-1], -690.0))
    wide, narrow = np.expm1(gaps), -np.expm1(-gaps)
    # Lines beyond a cell, at the far node of the next cell, and the other way around.
    onward = low[1:-1] - np.maximum(high[:-2] - low[1:-1], 0.0) * wide[1:] / narrow[:-1]
    back = low[1:-1] + np.maximum(low[1:-1] - high[2:], 0.0) * narrow[:-1] / wide[1:]
    from_left = np.concatenate([[np.inf], np.maximum(low[2:] - onward, 0.0)])
    from_right = np.concatenate([np.maximum(low[:-2] - back, 0.0), [np.inf]])
    with np.errstate(invalid="ignore", divide="ignore"):
        cells = np.where(
            np.isinf(from_left),
            from_right,
            np.where(np.isinf(from_right), from_left, from_left * from_right / (from_left + from_right)),
        )
    cells = np.where(np.isnan(cells), 0.0, cells) * (1 + 1e-9)
    return np.maximum(np.concatenate([[0.0], cells]), np.concatenate([cells, [0.0]])) + SLACK * low


def _is_above(nodes: FloatArray, value: FloatArray, left: int, middle: int, right: int) -> bool:
    """Return whether the point with the index `middle` lies on or above the line through two other points.

    The points are (e^node, value); `left` and `right` are the indices of the two points. Differences of nodes stay
    positive where all e^node round to 1.
    """
    share = math.expm1(nodes[middle] - nodes[left]) / math.expm1(nodes[right] - nodes[left])
    return bool(value[middle] >= (1 - share) * value[left] + share * value[right])
