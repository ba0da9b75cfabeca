"""Two laws on a lattice of losses that bracket one step: `upper` is easier for the attacker, `lower` harder.

X = dH1/dH0 under H0. With D(x) = E(X - x)_+ (the profile), G(x) = E(x - X)_+ and H(x) = E min(X, x) the composition of
two independent steps is a mixture with positive weights, D_12(x) = E0[X_2 D_1(x/X_2)], and the same for G and H: bounds of
one step's D, G or H carry over to any number of steps, factors included. Both laws are polygons of the profile on the
nodes x_k = e^{kh}, built from nothing but its values there:

- `upper` connects the dots (Doroshenko et al. 2022): chords lie above a convex function.
- `lower` connects lowered dots. In a cell the profile lies above the extensions of its neighbours' chords, hence at most
  gap = dx P_k P_{k+1}/(P_k + P_{k+1}) below the chord (P: masses of `upper`); every dot is lowered by the gaps of both its cells,
  and the convex minorant is taken.

Nothing rests on how the masses were computed: sums over the finished laws are compared with the profile at every node, and
for `lower` at the kink of the extensions in every cell. What is missing is a factor (`slack_...`) of the law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.enclosure import Bounds, FloatArray
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.trade_off.abstract import AbstractTradeOff

LARGEST_LOSS = 600.0
"""Nats: losses beyond are out of the range of e^L."""


Atoms = tuple[tuple[float, float], ...]
"""(loss, H0-mass) of each atom of a step's loss."""


@dataclass(frozen=True, slots=True)
class LatticeLaw:
    """Masses under H0 at losses offset + (first + i) h; H1 has e^L times as much there. Where the other hypothesis has nothing H1
    has the mass `infinite` and H0 the mass `vanishing`.

    `log_slack_profile`, `log_slack_left`, `log_slack_middle`: s with D e^s, G e^s, H e^-s beyond the truth for `upper`, and
    D e^-s, G e^-s, H e^s for `lower`.
    """

    first: int
    offset: float
    masses: FloatArray
    infinite: float
    vanishing: float
    log_slack_profile: float
    log_slack_left: float
    log_slack_middle: float

    def losses(self, step: float) -> FloatArray:
        """The losses of the masses on a lattice with this spacing."""
        return self.offset + (self.first + np.arange(len(self.masses))) * step

    def mirrored(self, step: float) -> LatticeLaw:
        """The law of -L with the hypotheses exchanged: the step in the other direction."""
        last = self.first + len(self.masses) - 1
        losses = self.losses(step)
        rounding = 2 * FUNCTION_ERROR + 4 * UNIT_ROUNDOFF * (1 + float(np.abs(losses).max()))
        return LatticeLaw(
            -last,
            -self.offset,
            (self.masses * np.exp(losses))[::-1],
            self.vanishing,
            self.infinite,
            self.log_slack_left + rounding,
            self.log_slack_profile + rounding,
            self.log_slack_middle + rounding,
        )


@dataclass(frozen=True, slots=True)
class Lattice:
    """Losses offset + k h, first <= k <= last with first < 0 < last; |offset| <= h/2 puts node 0 next to a loss of 0."""

    step: float
    offset: float
    first: int
    last: int

    @property
    def losses(self) -> FloatArray:
        """All nodes."""
        return self.offset + np.arange(self.first, self.last + 1) * self.step

    @property
    def blur(self) -> float:
        """What the rounding of the losses may change relative to D or G, which fall by about h of themselves in a cell."""
        if self.offset == 0 and (self.step * 2.0**20 / 2.0 ** math.floor(math.log2(self.step))).is_integer():
            return 0.0  # short numbers: every multiple is exact
        return 4 * UNIT_ROUNDOFF * (abs(self.offset) / self.step + max(-self.first, self.last))


@dataclass(frozen=True, slots=True)
class _Nodes:
    """x_k and the enclosures of D, G, H there; `zero` is the index of the node next to x = 1."""

    losses: FloatArray
    step: float
    x: FloatArray
    zero: int
    profile: Bounds
    left: Bounds
    middle: Bounds

    @property
    def width(self) -> FloatArray:
        """x_{k+1} - x_k; a difference of rounded numbers would have lost its last digits."""
        return self.x[:-1] * math.expm1(self.step)


def bracketing_laws(
    add: AbstractTradeOff, remove: AbstractTradeOff, atoms: Atoms, lattice: Lattice
) -> tuple[LatticeLaw, LatticeLaw]:
    """(upper, lower) of one step on the nodes of a lattice.

    `atoms`: (loss, H0-mass) of the atoms of the loss, within 16 u of both. `lower` takes them out of the profile, which
    would not show that they are no short pieces, and moves them to the next node towards 0.
    """
    nodes = _read_nodes(add, remove, lattice)
    right, left = nodes.profile.upper[nodes.zero :], nodes.left.upper[: nodes.zero + 1]
    upper = _polygon(nodes, left, right, 1.0)
    beyond, below = float(right[-1]), float(left[0] / nodes.x[0])
    moved = MovedAtoms.of(atoms, nodes, lattice)
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


def _read_nodes(add: AbstractTradeOff, remove: AbstractTradeOff, lattice: Lattice) -> _Nodes:
    losses = lattice.losses
    x = np.exp(losses)
    zero = -lattice.first
    right = add.profile(losses[zero:])
    mirrored = remove.profile(-losses[zero::-1])
    # E(x - X)_+ = x delta_remove(-ln x); 8 u for x and the product.
    slack = 8 * UNIT_ROUNDOFF
    left = Bounds(
        x[: zero + 1] * mirrored.lower[::-1] * (1 - slack), x[: zero + 1] * mirrored.upper[::-1] * (1 + slack)
    )
    tail, head = x[zero + 1 :], x[:zero]
    plus, minus = 1 + slack, 1 - slack
    profile = Bounds(
        np.concatenate([((1 - head) + left.lower[:-1]) * minus, right.lower]),
        np.concatenate([((1 - head) + left.upper[:-1]) * plus, right.upper]),
    )
    both = Bounds(
        np.concatenate([left.lower, ((tail - 1) + right.lower[1:]) * minus]),
        np.concatenate([left.upper, ((tail - 1) + right.upper[1:]) * plus]),
    )
    middle = Bounds(
        np.concatenate([(head - left.upper[:-1]) * minus - slack * left.upper[:-1], 1 - right.upper - slack]),
        np.concatenate([(head - left.lower[:-1]) * plus + slack * left.upper[:-1], 1 - right.lower + slack]),
    )
    return _Nodes(losses, lattice.step, x, zero, profile, both, middle)


def _polygon(nodes: _Nodes, left: FloatArray, right: FloatArray, total: float) -> FloatArray:
    """H0-masses at the nodes of the largest convex function below the dots: G up to x = 1, D from there on; `total` in all.

    Slopes on either side of 1 are those of the small one of the two functions, so that nothing cancels.
    """
    from scipy.optimize import isotonic_regression

    width, zero = nodes.width, nodes.zero
    rising = isotonic_regression(np.diff(left) / width[:zero], weights=width[:zero]).x
    falling = isotonic_regression(np.diff(right) / width[zero:], weights=width[zero:]).x
    if total + falling[0] < rising[-1]:
        # Not convex at x = 1: pooled across it, at the price of some digits on the left.
        joint = isotonic_regression(np.concatenate([rising - total, falling]), weights=width).x
        rising, falling = joint[:zero] + total, joint[zero:]
    masses = np.empty(len(nodes.x))
    masses[0] = rising[0] - left[0] / nodes.x[0]
    masses[1:zero] = np.diff(rising)
    masses[zero] = (total + falling[0]) - rising[-1]
    masses[zero + 1 : -1] = np.diff(falling)
    masses[-1] = -falling[-1]
    return np.maximum(masses, 0.0)


def _harmonic(a: FloatArray, b: FloatArray) -> FloatArray:
    total = a + b
    return np.where(total > 0, a * b / np.where(total > 0, total, 1.0), 0.0)


def _lowered(nodes: _Nodes, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The dots of `lower`: G up to x = 1 and D from there on, less the gaps, 0 from shortly before they would be negative."""
    padded = np.concatenate([[0.0], gaps, [0.0]])
    lowering = (padded[:-1] + padded[1:]) * (1 + 1e-9)
    zero = nodes.zero
    right = _ended(nodes.profile.lower[zero:], lowering[zero:])
    left = _ended(nodes.left.lower[zero::-1], lowering[zero::-1])
    return left[::-1], right


def _ended(truth: FloatArray, lowering: FloatArray) -> FloatArray:
    """truth - lowering, and 0 from where that is not positive; one node earlier where 0 lowers less than the cell needs."""
    values = np.maximum(truth - lowering, 0.0)
    dead = np.flatnonzero(values == 0)
    end = int(dead[0]) if len(dead) else len(values) - 1
    if end > 0 and truth[end] < lowering[end] - 1e-12 * truth[end - 1]:
        end -= 1
    values[end:] = 0.0
    return values


def _sums(nodes: _Nodes, masses: FloatArray, below: float, beyond: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """D, G, H of a law at the nodes, as sums of positive terms."""
    width = nodes.width
    above = running_sums(masses[::-1])[::-1]  # H0-mass at this node and to its right
    up_to = below + running_sums(masses)
    profile = beyond + np.concatenate([running_sums((width * above[1:])[::-1])[::-1], [0.0]])
    left = nodes.x[0] * below + np.concatenate([[0.0], running_sums(width * up_to[:-1])])
    middle = nodes.x[0] * above[0] + np.concatenate([[0.0], running_sums(width * above[1:])])
    return profile, left, middle


def _checked_upper(nodes: _Nodes, masses: FloatArray, below: float, beyond: float, lattice: Lattice) -> LatticeLaw:
    profile, left, middle = _sums(nodes, masses, below, beyond)
    rounding = 2 * running_sum_error(len(masses)) + 16 * UNIT_ROUNDOFF + lattice.blur
    total = float(masses.sum())
    short = (
        max(_log_excess(nodes.profile.upper, profile), -math.log(float((nodes.x * masses).sum()) + beyond)),
        max(_log_excess(nodes.left.upper, left), -math.log(total + below)),
        _log_excess(middle, nodes.middle.lower),
    )
    slacks = (max(part, 0.0) + rounding for part in short)
    return LatticeLaw(lattice.first, lattice.offset, masses, beyond, below, *slacks)


def _checked_lower(
    nodes: _Nodes, rest: _Nodes, masses: FloatArray, rest_masses: FloatArray, moved: MovedAtoms, lattice: Lattice
) -> LatticeLaw:
    sums = _sums(nodes, masses, 0.0, 0.0)
    rounding = 2 * running_sum_error(len(masses)) + 32 * UNIT_ROUNDOFF + lattice.blur
    pair = rest_masses[:-1] + rest_masses[1:]
    at = np.where(pair > 0, rest_masses[1:] / np.where(pair > 0, pair, 1.0), 0.5)  # the kink, as a share of the cell
    whole = masses + moved.masses
    mean = float((nodes.x * whole).sum())
    over = (
        _log_over(sums[0], rest.profile, nodes.profile.lower, nodes.width, at, sign=1) + moved.slack_profile,
        _log_over(sums[1], rest.left, nodes.left.lower, nodes.width, at, sign=1) + moved.slack_left,
        max(_log_over(sums[2], rest.middle, nodes.middle.lower, nodes.width, at, sign=-1), -math.log(mean))
        + max(-math.log(float(whole.sum())), 0.0)
        + moved.slack_middle,
    )
    slacks = (max(part, 0.0) + rounding for part in over)
    return LatticeLaw(lattice.first, lattice.offset, whole, 0.0, 0.0, *slacks)


def _log_excess(least: FloatArray, most: FloatArray) -> float:
    """The largest ln(least/most), where least may not exceed most; infinite where only `most` vanishes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(least > 0, least / np.maximum(most, 0.0), 0.0)
    return math.log(max(float(ratio.max()), 1e-300))


def _log_over(
    law: FloatArray, truth: Bounds, whole: FloatArray, width: FloatArray, at: FloatArray, *, sign: int
) -> float:
    """By how much a polygon is above a convex function (sign 1) or below a concave one (-1), relative to `whole`, as ln.

    At a share `at` of each cell it is compared with both extensions of the neighbouring chords, each of which the function
    lies above (below); lines that are ordered at both ends of an interval are ordered on it.
    """
    safe, other = (truth.lower, truth.upper) if sign > 0 else (truth.upper, truth.lower)
    here = law[:-1] * (1 - at) + law[1:] * at
    onward, backward = np.full(len(width), sign * np.inf), np.full(len(width), sign * np.inf)
    share = (at * width)[1:] / width[:-1]
    onward[1:] = safe[1:-1] * (1 + share) - other[:-2] * share
    share = ((1 - at) * width)[:-1] / width[1:]
    backward[:-1] = safe[1:-1] * (1 + share) - other[2:] * share
    bound = np.minimum(onward, backward) if sign > 0 else np.maximum(onward, backward)
    if sign > 0:  # D and G are not negative, whatever the rounding of their difference from atoms says
        safe, bound = np.maximum(safe, 0.0), np.maximum(bound, 0.0)
    excess = np.concatenate([sign * (law - safe), sign * (here - bound)])
    scale = np.concatenate([whole, np.minimum(whole[:-1], whole[1:])])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(excess > 0, excess / np.maximum(scale, 0.0), 0.0)
    return math.log1p(float(relative.max()))


@dataclass(frozen=True, slots=True)
class MovedAtoms:
    """Atoms of a loss at nodes of the lattice, moved towards 0, what is left beside them, and what the move may change.

    Towards 0 the profile of an atom at X > 1 and G of one at X < 1 only fall; what rises, and H, is at most the mass
    times the distance, relative to the whole function there.
    """

    places: tuple[tuple[float, float], ...]
    """(loss, H0-mass) before the move."""
    masses: FloatArray
    rest: float
    slack_profile: float
    slack_left: float
    slack_middle: float

    @staticmethod
    def of(atoms: Atoms, nodes: _Nodes, lattice: Lattice) -> MovedAtoms:
        """The atoms that lie within the nodes."""
        masses, slack = np.zeros(len(nodes.x)), [0.0, 0.0, 0.0]
        places: list[tuple[float, float]] = []
        for loss, mass in atoms:
            cells = (loss - lattice.offset) / lattice.step
            near = round(cells)
            off = abs(cells - near) > 1e-9 * (1 + abs(cells))
            at = nodes.zero + (near if not off else math.floor(cells) if loss > 0 else math.ceil(cells))
            if not 0 <= at < len(nodes.x):
                continue
            moved = abs(cells - (at - nodes.zero)) * lattice.step + 32 * UNIT_ROUNDOFF * abs(loss)
            change = mass * math.exp(loss) * math.expm1(moved) * (1 + 1e-12)
            masses[at] += mass
            places.append((loss, mass))
            slack[0] += change / max(float(nodes.profile.lower[at - 1]), 1e-300)
            slack[1] += change / max(float(nodes.left.lower[min(at + 1, len(nodes.x) - 1)]), 1e-300)
            slack[2] += change / max(float(nodes.middle.lower[at]), 1e-300)
        return MovedAtoms(tuple(places), masses, max(1 - math.fsum(mass for _, mass in places), 0.0), *slack)

    def taken_out(self, nodes: _Nodes) -> _Nodes:
        """The same nodes with D, G and H of the rest of the law."""
        parts = [np.zeros_like(nodes.x) for _ in range(3)]
        blurred = np.zeros_like(nodes.x)
        for loss, mass in self.places:
            distance = mass * nodes.x * np.expm1(loss - nodes.losses)
            parts[0] += np.maximum(distance, 0.0)
            parts[1] += np.maximum(-distance, 0.0)
            parts[2] += mass * np.minimum(nodes.x, math.exp(loss))
            blurred += 32 * UNIT_ROUNDOFF * abs(loss) * mass * nodes.x
        ends: list[Bounds] = []
        for whole, part in zip((nodes.profile, nodes.left, nodes.middle), parts, strict=True):
            slack = 32 * UNIT_ROUNDOFF * part + blurred
            ends.append(Bounds(whole.lower - part - slack, whole.upper - part + slack))
        return _Nodes(nodes.losses, nodes.step, nodes.x, nodes.zero, *ends)
