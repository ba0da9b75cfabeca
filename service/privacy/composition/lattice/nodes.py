"""Nodes of a lattice of losses, a step's profile at the nodes, and the atoms of its loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.enclosure import SMALLEST, EnclosureArray
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.abstract import AbstractTradeOff

Atoms = tuple[tuple[float, float], ...]
"""(loss, H0-mass) of each atom of a step's loss."""

_VALUE_SLACK = 2 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF
"""Relative rounding of x = e^loss, of expm1, and of the few operations from a profile to D, G and H."""

_ATOM_SLACK = 64 * UNIT_ROUNDOFF
"""Error of an atom's contribution to D, G or H, relative to that contribution.

It covers the mass within 16 u, two elementary functions, and the sum of few atoms.
"""

FEW_ATOMS = 32
"""Number of atoms up to which each atom is evaluated at every node."""

_NEARLY = 1e-9
"""Relative distance in cells below which an atom counts as lying on a node."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Losses offset + k h in nats for first <= k <= last, with first < 0 < last and h = `step`.

    |offset| is at most h/2, so that node 0 is next to a loss of 0.
    """

    step: float
    offset: float
    first: int
    last: int

    @property
    def losses(self) -> FloatArray:
        """Losses of all nodes in nats, shape (nodes,)."""
        return self.offset + np.arange(self.first, self.last + 1, dtype=np.float64) * self.step

    @property
    def blur(self) -> float:
        """Upper bound of the rounding errors of `losses`, the computed losses of the nodes, in nats."""
        if self.offset == 0 and (self.step * 2.0**20 / 2.0 ** math.floor(math.log2(self.step))).is_integer():
            return 0.0  # short numbers: every multiple is exact
        return 4 * UNIT_ROUNDOFF * (abs(self.offset) + max(-self.first, self.last) * self.step)


@dataclass(frozen=True, slots=True)
class LatticeNodes:
    """Enclosures of a step's functions D, G and H at the nodes x_k = e^{loss_k} of a lattice, shape (nodes,) each.

    D(x) = E(X - x)_+ (`profile`), G(x) = E(x - X)_+ (`left`) and H(x) = E min(X, x) (`middle`) for the likelihood ratio
    X under H0. The enclosures hold at the exact nodes. `zero` is the index of the node next to x = 1. `losses` are the
    losses of the nodes in nats, and `step` is their distance.
    """

    losses: FloatArray
    step: float
    x: FloatArray
    zero: int
    profile: EnclosureArray
    left: EnclosureArray
    middle: EnclosureArray

    @property
    def width(self) -> FloatArray:
        """Widths x_{k+1} - x_k of the cells between neighbouring nodes, shape (nodes - 1,).

        They are computed without a difference of rounded numbers.
        """
        return self.x[:-1] * math.expm1(self.step)


_A_NODE = 0.2
"""Work of both profiles at a node, in microseconds, for closed forms."""


def read_nodes(add: AbstractTradeOff, remove: AbstractTradeOff, lattice: Lattice) -> LatticeNodes:
    """Compute enclosures of D, G and H of a step at the nodes of a lattice, from its curves `add` and `remove`.

    D(x) = E(X - x)_+ and G(x) = E(x - X)_+ for the likelihood ratio X. Each is evaluated where it is the smaller
    number, and H(x) = E min(X, x) from both.
    """
    losses = lattice.losses
    count_work(_A_NODE * len(losses))
    x, zero = np.exp(losses), -lattice.first
    right, reflected = add.profile(losses[zero:]), remove.profile(-losses[zero::-1])
    plus, minus = 1 + _VALUE_SLACK, 1 - _VALUE_SLACK
    # E(x - X)_+ = x delta_remove(-ln x). A product that underflows is not an upper bound.
    most = x[: zero + 1] * reflected.upper[::-1] * plus + SMALLEST * (reflected.upper[::-1] > 0)
    left = EnclosureArray(x[: zero + 1] * reflected.lower[::-1] * minus, most)
    head, tail, below_one = x[:zero], np.expm1(losses[zero + 1 :]), -np.expm1(losses[:zero])
    profile = EnclosureArray(
        np.concatenate([np.maximum((below_one + left.lower[:-1]) * minus, 0.0), right.lower]),
        np.concatenate([(below_one + left.upper[:-1]) * plus, right.upper]),
    )
    whole_left = EnclosureArray(
        np.concatenate([left.lower, np.maximum((tail + right.lower[1:]) * minus, 0.0)]),
        np.concatenate([left.upper, (tail + right.upper[1:]) * plus]),
    )
    middle = EnclosureArray(
        np.concatenate([head * minus - left.upper[:-1] * plus, 1 - right.upper - _VALUE_SLACK]),
        np.concatenate([head * plus - left.lower[:-1] * minus, 1 - right.lower + _VALUE_SLACK]),
    )
    return _at_exact_nodes(LatticeNodes(losses, lattice.step, x, zero, profile, whole_left, middle), lattice.blur)


def _at_exact_nodes(nodes: LatticeNodes, blur: float) -> LatticeNodes:
    """Widen the enclosures of D, G and H at the `nodes` by their changes when a loss of a node moves by `blur` nats.

    X is the likelihood ratio under H0. D(x) = E(X - x)_+, G(x) = E(x - X)_+ and H(x) = E min(X, x) have slopes of at
    most 1 in x. Convex functions are less steep than their chords further out. H is concave with H(0) = 0, so it is
    less steep than H/x.
    """
    if blur == 0:
        return nodes
    most = 1.01 * blur * nodes.x
    over = 1.01 * blur / -math.expm1(-nodes.step)
    falls = np.concatenate([[np.inf], np.maximum(nodes.profile.upper[:-1] - nodes.profile.lower[1:], 0.0) * over])
    rises = np.concatenate([np.maximum(nodes.left.upper[1:] - nodes.left.lower[:-1], 0.0) * over, [np.inf]])
    # The factor 1.01 also covers chords whose endpoints are off by `blur`.
    changes = np.minimum(falls, most), np.minimum(rises, most), np.minimum(1.01 * blur * nodes.middle.upper, most)
    ends = [
        EnclosureArray(whole.lower - change, whole.upper + change)
        for whole, change in zip((nodes.profile, nodes.left, nodes.middle), changes, strict=True)
    ]
    return LatticeNodes(nodes.losses, nodes.step, nodes.x, nodes.zero, *ends)


@dataclass(frozen=True, slots=True)
class MovedAtoms:
    """Atoms of a loss, moved towards 0 to nodes of the lattice, and the effect of the move.

    D(x) = E(X - x)_+, G(x) = E(x - X)_+ and H(x) = E min(X, x) for the likelihood ratio X under H0.

    Attributes
    ----------
    masses : array
        H0-masses of the atoms at the nodes.
    infinite, vanishing : float
        H1-mass where H0 has none, and H0-mass where H1 has none.
    rest : float
        H0-mass of the law without its atoms.
    shift : float
        Error bound (nats) of the positions of atoms that lie on a node except for rounding.
    slack_profile, slack_left, slack_middle : float
        s for which D e^-s, G e^-s and H e^s of the moved law bound the true functions. They cover the moves of all
        atoms that do not lie on a node.
    """

    unmoved: tuple[tuple[float, float], ...]
    """Pairs (loss, H0-mass) before the move."""
    masses: FloatArray
    infinite: float
    vanishing: float
    rest: float
    shift: float
    slack_profile: float
    slack_left: float
    slack_middle: float

    @staticmethod
    def of(atoms: Atoms, nodes: LatticeNodes, lattice: Lattice, infinite: float, vanishing: float) -> MovedAtoms:
        """Move the atoms (loss in nats, H0-mass) to the next node of the `lattice` towards 0.

        An atom that lies on a node except for rounding stays there, and atoms beyond the `nodes` are left out.
        `infinite` is the H1-mass where H0 has none, and `vanishing` the H0-mass where H1 has none.
        """
        masses, slack, shift = np.zeros(len(nodes.x)), [0.0, 0.0, 0.0], 0.0
        unmoved: list[tuple[float, float]] = []
        for loss, mass in atoms:
            cells = (loss - lattice.offset) / lattice.step
            nearest = round(cells)
            meant = abs(cells - nearest) <= _NEARLY * (1 + abs(cells))
            index = nearest if meant else math.floor(cells) if loss > 0 else math.ceil(cells)
            at = nodes.zero + index
            if not 0 <= at < len(nodes.x):
                continue
            masses[at] += mass
            unmoved.append((loss, mass))
            moved = abs(cells - index) * lattice.step + 32 * UNIT_ROUNDOFF * (abs(loss) + abs(lattice.offset))
            if meant:
                shift = max(shift, moved)
                continue
            # When an atom moves down, D decreases everywhere, G increases from the new node on, and H decreases.
            # `change` bounds each change.
            change = mass * math.exp(max(loss, float(nodes.losses[at]))) * math.expm1(moved) * (1 + 1e-12)
            if loss > 0:
                slack[1] += change / max(float(nodes.left.lower[at]), 1e-300)
                slack[2] += log_of_rest(change / max(float(nodes.middle.lower[at]), 1e-300))
            else:
                slack[0] += change / max(float(nodes.profile.lower[at]), 1e-300)
        rest = max(1 - math.fsum([vanishing, *(mass for _, mass in unmoved)]), 0.0)
        return MovedAtoms(tuple(unmoved), masses, infinite, vanishing, rest, shift, *slack)

    def taken_out(self, nodes: LatticeNodes) -> LatticeNodes:
        """Return the nodes with D, G and H of the law without its atoms.

        D(x) = E(X - x)_+, G(x) = E(x - X)_+ and H(x) = E min(X, x) for the likelihood ratio X under H0. The masses that
        only one hypothesis has are left out too.
        """
        read = _parts_of_few if len(self.unmoved) <= FEW_ATOMS else _parts_of_many
        parts, blurred, slack = read(nodes, self.unmoved)
        parts[0] += self.infinite
        parts[1] += self.vanishing * nodes.x
        ends: list[EnclosureArray] = []
        for whole, part in zip((nodes.profile, nodes.left, nodes.middle), parts, strict=True):
            error = slack * part + blurred
            ends.append(EnclosureArray(whole.lower - part - error, whole.upper + error - part))
        return LatticeNodes(nodes.losses, nodes.step, nodes.x, nodes.zero, *ends)


def _parts_of_few(nodes: LatticeNodes, atoms: Atoms) -> tuple[list[FloatArray], FloatArray, float]:
    """Compute D, G and H of atoms at the nodes, with an error that does not grow with the number of nodes.

    Also return the absolute error from the rounding of losses, and the relative error of each number.
    """
    parts = [np.zeros_like(nodes.x) for _ in range(3)]
    blurred = np.zeros_like(nodes.x)
    for loss, mass in atoms:
        distance = mass * nodes.x * np.expm1(loss - nodes.losses)
        parts[0] += np.maximum(distance, 0.0)
        parts[1] += np.maximum(-distance, 0.0)
        parts[2] += mass * np.minimum(nodes.x, math.exp(loss))
        # Rounding of the loss, of the node, and of their difference.
        off = 32 * UNIT_ROUNDOFF * (abs(loss) + np.abs(nodes.losses))
        blurred += off * mass * np.maximum(nodes.x, math.exp(loss))
    return parts, blurred, _ATOM_SLACK


def _parts_of_many(nodes: LatticeNodes, atoms: Atoms) -> tuple[list[FloatArray], FloatArray, float]:
    """Compute D, G and H of atoms at the nodes in time proportional to nodes plus atoms, instead of their product.

    D at a node is D at the next one, plus the mass above that times the distance of the two, plus the atoms between
    them. All terms are positive, so that their running sums keep their digits. G is the same from below.
    """
    n, x, grid = len(nodes.x), nodes.x, nodes.losses
    losses: FloatArray
    masses: FloatArray
    losses, masses = np.array(atoms).T
    next_node: IndexArray = np.searchsorted(grid, losses)

    def in_cells(weights: FloatArray) -> FloatArray:
        """Return the sum of the weights of the atoms in each cell: cell k lies below node k, and cell n beyond all."""
        cells = np.zeros(n + 1)
        np.add.at(cells, next_node, weights)
        return cells

    def below_and_above(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of the weights of all atoms up to each node, and of those above it."""
        cells = in_cells(weights)
        return running_sums(cells)[:-1], running_sums(cells[::-1])[::-1][1:]

    below, above = below_and_above(masses)
    ratio_below, ratio_above = below_and_above(masses * np.exp(losses))
    rises = in_cells(masses * np.expm1(losses - grid[next_node - 1]))[1:]
    falls = in_cells(-masses * np.expm1(losses - grid[np.minimum(next_node, n - 1)]))[:-1]
    from_above = x * (rises + np.append(above[1:], 0.0) * math.expm1(nodes.step))
    from_below = x * (falls - np.append(0.0, below[:-1]) * math.expm1(-nodes.step))
    parts = [running_sums(from_above[::-1])[::-1], running_sums(from_below), ratio_below + x * above]
    far_below, _ = below_and_above(masses * np.abs(losses))
    _, far_above = below_and_above(masses * np.exp(losses) * np.abs(losses))
    blurred = x * (far_below + np.abs(grid) * below) + far_above + np.abs(grid) * ratio_above
    summed = 2 * running_sum_error(n + 1) + int(np.bincount(next_node).max()) * UNIT_ROUNDOFF
    return parts, 32 * UNIT_ROUNDOFF * blurred, _ATOM_SLACK + summed


def log_of_rest(lost: float) -> float:
    """Return -ln(1 - `lost`) for a lost share of a probability; infinite for shares of at least 1."""
    return -math.log1p(-lost) if lost < 1 else math.inf
