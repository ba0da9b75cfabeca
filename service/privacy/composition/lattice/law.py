"""Two laws on a lattice of losses that bound a step: `upper` is easier for the attacker, `lower` harder.

Let X = dH1/dH0 be the likelihood ratio of a step under H0, and E the expectation under H0. D(x) = E(X - x)_+ is the
profile (delta = D at epsilon = ln x), G(x) = E(x - X)_+ and H(x) = E min(X, x). The composition of two independent
steps is a mixture with positive weights: D_12(x) = E[X_2 D_1(x/X_2)], and likewise for G and H. Bounds of a step's D, G
or H therefore hold for any number of steps, with their factors. The profile of both laws is a polygon with the nodes
x_k = e^{kh}, built from the true profile's values at the nodes (the dots):

- `upper` connects the dots (Doroshenko et al. 2022): chords lie above a convex function. - `lower` connects lowered
dots. In a cell between two nodes the profile lies above the extensions of its neighbours' chords. It is therefore at
most gap = dx P_k P_{k+1}/(P_k + P_{k+1}) below the chord (dx: width of the cell in x, P: masses of `upper`). Every dot
is lowered by the larger gap of its two cells, and the convex minorant is taken. Atoms of the loss are removed first and
moved to a node. An atom that should lie on a node may be off by roundings d. Then X' <= X e^d gives D'(x) <= e^d D(x
e^-d), and X' >= X e^-d gives G'(x) <= e^-d G(x e^d). These are a factor and a shift of the threshold (`shift`), which
add up under composition.

No proof depends on the computation of the masses. Sums over the finished laws are compared with the profile at every
node, and for `lower` at the kink of the extensions in every cell. A factor (`log_slack_...`) of the law covers the
difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from service.privacy.composition.lattice.nodes import Atoms, Lattice, LatticeNodes, MovedAtoms, log_of_rest, read_nodes
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.trade_off.abstract import AbstractTradeOff

LARGEST_LOSS = 600.0
"""Largest loss in nats, within the range of e^L."""

_ROUNDED = 1e-12
"""Relative difference of D and G at x = 1 that counts as rounding. Exact values are equal there."""


@dataclass(frozen=True, slots=True)
class LatticeLaw:
    """Law of a step's loss L on a lattice of spacing h, which bounds the true law.

    D(x) = E(X - x)_+, G(x) = E(x - X)_+ and H(x) = E min(X, x) are its functions for X = e^L under H0.

    Attributes
    ----------
    first, offset : int, float
        The losses are offset + (first + i) h.
    masses : array
        Masses under H0; H1 has e^L times these masses.
    infinite, vanishing : float
        H1-mass where H0 has none, and H0-mass where H1 has none.
    log_slack_profile, log_slack_left, log_slack_middle : float
        s for which D e^s, G e^s and H e^-s bound the true functions for an `upper` law, and D e^-s, G e^-s and H e^s
        for a `lower` law. A bound with s = inf is not known.
    support : (int, int)
        Indices of the first and the last positive one of `masses`; (0, -1) if there is none.
    """

    first: int
    offset: float
    masses: FloatArray
    infinite: float
    vanishing: float
    log_slack_profile: float
    log_slack_left: float
    log_slack_middle: float
    shift: float
    """Error bound (nats) of the losses of `lower`. Its D is evaluated further right by `shift`, its G further left."""
    support: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        some = self.masses > 0
        first = int(np.argmax(some))
        support = (first, len(some) - 1 - int(np.argmax(some[::-1]))) if some[first] else (0, -1)
        object.__setattr__(self, "support", support)

    @property
    def is_sound(self) -> bool:
        """Whether the law gives bounds: it has masses, at least one of its slacks is finite, and none is NaN.

        A slack is the logarithm of a factor between a sum over the law and the true sum.
        """
        slacks = self.log_slack_profile, self.log_slack_left, self.log_slack_middle
        return bool(self.masses.any()) and any(map(math.isfinite, slacks)) and not any(map(math.isnan, slacks))

    def losses(self, step: float) -> FloatArray:
        """Return the losses of the masses in nats on a lattice with the spacing `step`, shape (masses,)."""
        return self.offset + np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * step

    def reflected(self, step: float) -> LatticeLaw:
        """Return the law of -L under H1, where L is the loss: the step with swapped hypotheses.

        `step` is the spacing of the lattice.
        """
        last = self.first + len(self.masses) - 1
        losses = self.losses(step)
        rounding = 2 * FUNCTION_ERROR + 4 * UNIT_ROUNDOFF * (1 + float(np.abs(losses).max()))
        return LatticeLaw(
            -last,
            -self.offset,
            np.ascontiguousarray((self.masses * np.exp(losses))[::-1]),
            self.vanishing,
            self.infinite,
            self.log_slack_left + rounding,
            self.log_slack_profile + rounding,
            self.log_slack_middle + rounding,
            self.shift,
        )


def bracketing_laws(
    add: AbstractTradeOff, remove: AbstractTradeOff, atoms: Atoms, lattice: Lattice
) -> tuple[LatticeLaw, LatticeLaw]:
    """Build the laws (upper, lower) that bound a step, on the nodes of a lattice.

    Parameters
    ----------
    add, remove : AbstractTradeOff
        Curves of the step in both directions.
    atoms : sequence of (loss, H0-mass)
        Atoms of the loss, each within 16 units of rounding. `lower` removes the atoms from the profile and moves them
        to the next node towards 0, because a profile does not distinguish atoms from short pieces.
    lattice : Lattice
        Losses of the nodes.
    """
    nodes = read_nodes(add, remove, lattice)
    right, left = nodes.profile.upper[nodes.zero :], nodes.left.upper[: nodes.zero + 1]
    upper = _polygon(nodes, left, right, 1.0)
    beyond, below = float(right[-1]), math.nextafter(float(left[0] / nodes.x[0]), math.inf) if left[0] > 0 else 0.0
    moved = MovedAtoms.of(atoms, nodes, lattice, add.singular_power.lower, remove.singular_power.lower)
    rest = moved.taken_out(nodes)
    rest_masses = _polygon(
        nodes,
        np.maximum(rest.left.upper[: nodes.zero + 1], 0.0),
        np.maximum(rest.profile.upper[nodes.zero :], 0.0),
        moved.rest,
    )
    gaps = nodes.width * _harmonic(rest_masses[:-1], rest_masses[1:])
    lower = _polygon(nodes, *_lowered(rest, gaps), moved.rest)
    return (
        _checked_upper(nodes, upper, below, beyond, lattice),
        _checked_lower(nodes, rest, lower, rest_masses, moved, lattice),
    )


def _polygon(nodes: LatticeNodes, left: FloatArray, right: FloatArray, total: float) -> FloatArray:
    """Return the H0-masses of the largest convex function below given values at the nodes, with the sum `total`.

    The values are those of functions of the likelihood ratio X: `left` of G(x) = E(x - X)_+ up to x = 1, and `right` of
    D(x) = E(X - x)_+ from there on. The result has the shape (nodes,). On either side of 1 the slopes come from the
    smaller of D and G, so that nothing cancels.
    """
    width, zero = nodes.width, nodes.zero
    rising = _monotone(np.diff(left) / width[:zero], width[:zero])
    falling = _monotone(np.diff(right) / width[zero:], width[zero:])
    if total + falling[0] < rising[-1]:
        # Not convex at x = 1: the slopes are pooled across it, with some loss of accuracy on the left.
        joint = _monotone(np.concatenate([rising - total, falling]), width)
        rising, falling = joint[:zero] + total, joint[zero:]
    masses = np.empty(len(nodes.x))
    masses[0] = rising[0] - left[0] / nodes.x[0]
    masses[1:zero] = np.diff(rising)
    masses[zero] = (total + falling[0]) - rising[-1]
    masses[zero + 1 : -1] = np.diff(falling)
    masses[-1] = -falling[-1]
    return np.maximum(masses, 0.0)


def _monotone(slopes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the slopes of the largest convex function below a polygon with the given slopes, in their shape.

    `weights` are the widths of the polygon's edges.
    """
    from scipy.optimize import isotonic_regression

    regression: Any = isotonic_regression(slopes, weights=weights)
    return np.asarray(regression.x, dtype=np.float64)


def _harmonic(a: FloatArray, b: FloatArray) -> FloatArray:
    total = a + b
    return np.where(total > 0, a * b / np.where(total > 0, total, 1.0), 0.0)


def _lowered(nodes: LatticeNodes, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the values of the law `lower`: G at the nodes x <= 1, and D at the nodes x >= 1, each lowered.

    D(x) = E(X - x)_+ and G(x) = E(x - X)_+ for the likelihood ratio X. `gaps` has a number for each cell between nodes,
    and each value is lowered by the larger gap of its two cells. Values that would be negative, and sometimes the value
    before them, become 0. Both arrays include the node `nodes.zero` next to x = 1.
    """
    padded = np.concatenate([[0.0], gaps, [0.0]])
    lowering = np.maximum(padded[:-1], padded[1:]) * (1 + 1e-9)
    zero = nodes.zero
    true_right, true_left = np.maximum(nodes.profile.lower[zero:], 0.0), np.maximum(nodes.left.lower[zero::-1], 0.0)
    right, left = _ended(true_right, lowering[zero:]), _ended(true_left, lowering[zero::-1])
    # D and G must be lowered by equal amounts at x = 1, or the law would not have its mean.
    common = min(max(true_right[0] - right[0], true_left[0] - left[0]), true_right[0], true_left[0])
    right[0], left[0] = true_right[0] - common, true_left[0] - common
    for side in (right, left):
        # Rounding must not count as mass, or the law would exceed a true function that has already ended.
        side[0] = side[0] if side[0] > _ROUNDED * common else 0.0
    return left[::-1], right


def _ended(truth: FloatArray, lowering: FloatArray) -> FloatArray:
    """Return `truth` - `lowering`, and 0 from the first node where the difference is not positive, shape (nodes,).

    `truth` has values of a profile at the nodes, and `lowering` how much each value is lowered for a lower bound. The
    result is 0 one node earlier if 0 lowers the value by less than the cell needs.
    """
    values = np.maximum(truth - lowering, 0.0)
    dead = np.flatnonzero(values == 0)
    end = int(dead[0]) if len(dead) else len(values) - 1
    if end > 0 and truth[end] < lowering[end] - 1e-12 * truth[end - 1]:
        end -= 1
    values[end:] = 0.0
    return values


def _sums(
    nodes: LatticeNodes, masses: FloatArray, below: float, beyond: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return D, G and H of a law at the nodes x, as sums of positive terms, shape (nodes,) each.

    D(x) = E(X - x)_+, G(x) = E(x - X)_+ and H(x) = E min(X, x) for the likelihood ratio X. `masses` are the H0-masses
    at the nodes. `below` and `beyond` are the H0-mass at X = 0 and the H1-mass at X = inf.
    """
    width = nodes.width
    above = running_sums(masses[::-1])[::-1]  # H0-mass at this node and to its right
    up_to = below + running_sums(masses)
    profile = beyond + np.concatenate([running_sums((width * above[1:])[::-1])[::-1], [0.0]])
    left = nodes.x[0] * below + np.concatenate([[0.0], running_sums(width * up_to[:-1])])
    middle = nodes.x[0] * above[0] + np.concatenate([[0.0], running_sums(width * above[1:])])
    return profile, left, middle


def _checked_upper(
    nodes: LatticeNodes, masses: FloatArray, below: float, beyond: float, lattice: Lattice
) -> LatticeLaw:
    profile, left, middle = _sums(nodes, masses, below, beyond)
    rounding = _rounding(len(masses), lattice)
    total, mean = float(masses.sum()) + below, float((nodes.x * masses).sum()) + beyond
    # Beyond the nodes D, G and H are straight lines or end in points. Only the total masses of both hypotheses count.
    short = (
        max(_log_excess(nodes.profile.upper, profile), _size_of_log(mean)),
        max(_log_excess(nodes.left.upper, left), _size_of_log(total)),
        _log_excess(middle, nodes.middle.lower),
    )
    slacks = (max(part, 0.0) + rounding for part in short)
    return LatticeLaw(lattice.first, lattice.offset, masses, beyond, below, *slacks, shift=0.0)


def _checked_lower(
    nodes: LatticeNodes,
    rest: LatticeNodes,
    masses: FloatArray,
    rest_masses: FloatArray,
    moved: MovedAtoms,
    lattice: Lattice,
) -> LatticeLaw:
    rounding = _rounding(len(masses), lattice)
    pair = rest_masses[:-1] + rest_masses[1:]
    kinks = np.where(pair > 0, rest_masses[1:] / np.where(pair > 0, pair, 1.0), 0.5)
    over = _over(nodes, rest, _sums(nodes, masses, 0.0, 0.0), moved.rest, kinks)
    whole = masses + moved.masses
    mean, total = float((nodes.x * whole).sum()), float(whole.sum())
    # Towards x = 0 and beyond the last node the laws are straight lines, less G there (D here).
    slacks = (
        _log_of_sum(over[0], nodes.left.upper[0] / nodes.profile.lower[0], _size_of_log(mean + moved.infinite))
        + moved.slack_profile,
        _log_of_sum(over[1], nodes.profile.upper[-1] / nodes.left.lower[-1], _size_of_log(total + moved.vanishing))
        + moved.slack_left,
        log_of_rest(over[2])
        + _size_of_log(mean, 1 - moved.infinite)
        + _size_of_log(total, 1 - moved.vanishing)
        + moved.slack_middle,
    )
    rounded = (slack + moved.shift + rounding for slack in slacks)
    return LatticeLaw(
        lattice.first, lattice.offset, whole, moved.infinite, moved.vanishing, *rounded, shift=moved.shift
    )


def _rounding(nodes: int, lattice: Lattice) -> float:
    """Return a bound of the relative rounding error of sums over the masses of a law with `nodes` nodes on `lattice`.

    It covers the nodes x_k = e^{kh}, their widths, two nested sums over the masses, and the sums of all masses.
    """
    return 2 * running_sum_error(nodes) + 4 * FUNCTION_ERROR + 16 * UNIT_ROUNDOFF + lattice.blur


def _size_of_log(value: float, over: float = 1.0) -> float:
    return abs(math.log(value / over)) if value > 0 and over > 0 and value / over > 0 else math.inf


def _log_of_sum(excess: float, other: float, logarithm: float) -> float:
    return math.log1p(excess + float(other)) + logarithm


def _log_excess(least: FloatArray, most: FloatArray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(least > 0, least / np.maximum(most, 0.0), 0.0)
    return math.log(max(float(ratio.max()), 1e-300))


def _over(
    nodes: LatticeNodes,
    rest: LatticeNodes,
    law: tuple[FloatArray, FloatArray, FloatArray],
    mass: float,
    kinks: FloatArray,
) -> tuple[float, float, float]:
    """Return the relative excess of D and G of a lattice law over the true D and G, and the relative deficit of H.

    D(x) = E(X - x)_+, G(x) = E(x - X)_+ and H(x) = E min(X, x) for the likelihood ratio X. `law` holds them for the
    lattice law, and `rest` for the step without its atoms, with which they are compared. The results are relative to
    `nodes`, those of the whole step. `mass` is the H0-mass of the step without its atoms, and `kinks` are shares of the
    cells at which the functions are compared. Beyond the nodes the functions are bounded as follows. At x = 0, G = H =
    0, and D exceeds its value at the first node by at most the whole mass times x. At infinity D and H are constant,
    and G has the slope of the whole mass.
    """
    up = 1 + 16 * UNIT_ROUNDOFF
    steepest = mass * up
    at_zero = float(rest.profile.upper[0] + steepest * nodes.x[0]) * up
    d = _Convex(np.maximum(rest.profile.lower, 0.0), rest.profile.upper, at_zero, last_slope=0.0, least=0.0)
    g = _Convex(np.maximum(rest.left.lower, 0.0), rest.left.upper, 0.0, last_slope=steepest, least=0.0)
    h = _Convex(-rest.middle.upper, -rest.middle.lower, 0.0, last_slope=0.0, least=-math.inf)
    return (
        _relative_excess(law[0], d, nodes, nodes.profile.lower, kinks),
        _relative_excess(law[1], g, nodes, nodes.left.lower, kinks),
        _relative_excess(-law[2], h, nodes, nodes.middle.lower, kinks),
    )


@dataclass(frozen=True, slots=True)
class _Convex:
    """Bounds `lower` and `upper` of a convex function of x at the nodes of a lattice, shape (nodes,), and beyond them.

    `at_zero` is the largest value of the function at x = 0, `last_slope` the largest slope beyond the last node, and
    `least` a lower bound everywhere.
    """

    lower: FloatArray
    upper: FloatArray
    at_zero: float
    last_slope: float
    least: float


def _relative_excess(
    law: FloatArray, truth: _Convex, nodes: LatticeNodes, whole: FloatArray, kinks: FloatArray
) -> float:
    """Return the largest excess of a polygon over the convex function `truth`, relative to `whole` in the cell.

    The smaller value of `whole` at the two ends of the cell counts. `law` holds the polygon's values at the nodes. At a
    share `kinks` of each cell between nodes, the polygon is compared with both extensions of the neighbouring chords.
    The function lies above each extension. Straight lines that are ordered at both endpoints of an interval are ordered
    within the interval.
    """
    width = nodes.width
    # Slopes of the chords to the left (at most) and to the right (at least) of each cell, between the safe bounds.
    before = np.concatenate([[nodes.x[0]], width[:-1]])
    share = kinks * width / before
    onward = truth.lower[:-1] * (1 + share) - np.concatenate([[truth.at_zero], truth.upper[:-2]]) * share
    share = ((1 - kinks) * width)[:-1] / width[1:]
    backward = np.empty_like(onward)
    backward[:-1] = truth.lower[1:-1] * (1 + share) - truth.upper[2:] * share
    backward[-1] = truth.lower[-1] - truth.last_slope * (1 - kinks[-1]) * width[-1]
    here = law[:-1] * (1 - kinks) + law[1:] * kinks
    excess = np.maximum(
        here - np.minimum(onward, backward), np.maximum(law[:-1] - truth.lower[:-1], law[1:] - truth.lower[1:])
    )
    excess = np.where(np.maximum(law[:-1], law[1:]) <= truth.least, 0.0, excess)
    least = np.maximum(np.minimum(whole[:-1], whole[1:]), 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = np.where(excess > 0, excess / least, 0.0)
    return float(relative.max())
