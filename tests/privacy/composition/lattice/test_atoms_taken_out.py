"""Functions D, G and H of atoms at the nodes of a lattice, against 60 digits, for few atoms and for many."""

# pyright: basic

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.random import Generator

from service.privacy.composition.lattice import nodes as lattice_nodes
from service.privacy.composition.lattice.nodes import Lattice, LatticeNodes, MovedAtoms
from service.privacy.enclosure import EnclosureArray

DIGITS = 60
WIDEST = 5e-13
"""Largest error, relative to the functions of the atoms times one plus the size of the losses."""


def nodes_of(lattice: Lattice) -> LatticeNodes:
    """Return nodes at which D, G and H of the whole law are 0, so that those of the atoms remain, negated."""
    losses = lattice.losses
    nothing = EnclosureArray(np.zeros_like(losses), np.zeros_like(losses))
    return LatticeNodes(losses, lattice.step, np.exp(losses), -lattice.first, nothing, nothing, nothing)


def drawn_atoms(random: Generator, lattice: Lattice, count: int) -> tuple[tuple[float, float], ...]:
    """Draw losses and masses. Some losses are nodes, some are equal, and some are next to a node or beyond all."""
    losses = random.uniform(lattice.losses[0] - lattice.step, lattice.losses[-1] + lattice.step, count)
    exact = random.random(count) < 0.3
    losses[exact] = random.choice(lattice.losses, int(exact.sum()))
    losses[random.random(count) < 0.2] = losses[0]
    losses[random.random(count) < 0.1] += 1e-15
    masses = random.random(count) ** random.choice([1, 50])
    return tuple(zip(losses.tolist(), (masses / masses.sum()).tolist(), strict=True))


def exact_values(lattice: Lattice, atoms: tuple[tuple[float, float], ...], index: int) -> list[mpf]:
    node = mpmath.exp(mpf(lattice.offset) + (lattice.first + index) * mpf(lattice.step))
    ratios = [(mpmath.exp(mpf(loss)), mpf(mass)) for loss, mass in atoms]
    return [
        mpmath.fsum(mass * max(ratio - node, mpf(0)) for ratio, mass in ratios),
        mpmath.fsum(mass * max(node - ratio, mpf(0)) for ratio, mass in ratios),
        mpmath.fsum(mass * min(ratio, node) for ratio, mass in ratios),
    ]


@pytest.mark.parametrize("few", [0, 10**9])
@pytest.mark.parametrize("seed", range(8))
def test_atoms_are_enclosed(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice_nodes, "FEW_ATOMS", few)
    random = np.random.default_rng(seed)
    step = float(random.choice([1e-3, 0.1, 1.0, 1 / 3]))
    lattice = Lattice(step, float(random.choice([0.0, step / 3])), -int(random.integers(5, 300)), 250)
    atoms = drawn_atoms(random, lattice, int(random.choice([1, 5, 200])))
    infinite, vanishing = 0.25, 0.125
    nodes = nodes_of(lattice)
    found = MovedAtoms(atoms, np.zeros_like(nodes.x), infinite, vanishing, 0.0, 0.0, 0.0, 0.0, 0.0).taken_out(nodes)
    functions = found.profile, found.left, found.middle
    with mpmath.workdps(DIGITS):
        for index in random.choice(len(nodes.x), 12):
            true = exact_values(lattice, atoms, int(index))
            true[0] += infinite
            true[1] += vanishing * mpmath.exp(mpf(lattice.offset) + (lattice.first + int(index)) * mpf(lattice.step))
            scale = 1 + max(abs(loss) for loss, _ in atoms) + abs(nodes.losses[index])
            largest = max(1.0, float(nodes.x[index])) * (1 + max(float(np.exp(loss)) for loss, _ in atoms))
            for function, value in zip(functions, true, strict=True):
                assert function.lower[index] <= -value <= function.upper[index]
                assert function.upper[index] - function.lower[index] <= WIDEST * scale * largest


def test_many_atoms_have_the_values_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(9)
    lattice = Lattice(0.05, 0.01, -400, 300)
    nodes, atoms = nodes_of(lattice), drawn_atoms(random, lattice, 64)
    moved = MovedAtoms(atoms, np.zeros_like(nodes.x), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    ends = []
    for few in (0, 64):
        monkeypatch.setattr(lattice_nodes, "FEW_ATOMS", few)
        found = moved.taken_out(nodes)
        ends.append([(each.lower + each.upper) / 2 for each in (found.profile, found.left, found.middle)])
    for many, one_by_one in zip(*ends, strict=True):
        np.testing.assert_allclose(many, one_by_one, rtol=1e-12, atol=1e-15)
