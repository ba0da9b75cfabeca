"""Lattices of a run of steps for a given accuracy, and the tilts at which they are composed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import count, islice
from weakref import WeakSet

import numpy as np

from service.privacy.composition.inversion.epsilon_caps import chernoff_caps
from service.privacy.composition.inversion.tilts import TiltGrid
from service.privacy.composition.lattice.law import LARGEST_LOSS, bracketing_laws
from service.privacy.composition.lattice.nodes import Atoms, Lattice
from service.privacy.composition.lattice.off_nodes import OffNodeLosses
from service.privacy.composition.lattice.sums import LatticePair, run_slack
from service.privacy.composition.lattice.windows import (
    ComposedLattice,
    CountedLaw,
    log_moment_in_range,
    tilted_cumulants,
    weight_rounding,
    window,
)
from service.privacy.composition.summands.abstract import RealCumulants
from service.privacy.mechanisms.abstract import TwoPointPart
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import counted_work, is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff

_COARSE_CELLS = 4096
"""Number of cells of the widest step on the coarse lattice, which only guides the search."""

_NEAR = 2
"""Distance from 0, in cells, within which all atoms of a step stay in the law.

A move to nodes towards 0 would leave almost nothing of such a step.
"""

_ATOM_CHOICES = 4000
"""Number of candidate spacings for a lattice that contains all atoms of the losses."""

_MANY_DISTANCES = 64
"""Number of distances of atoms from which on a common lattice is tried before other spacings."""

_MOST_DISTANCES = 1_000
"""Largest number of distances of atoms for which spacings are tried. No spacing divides more different distances."""

_SHORT_LOSS = 30.0
"""Nats: a lattice covers all losses up to a smaller bound. A larger bound may be almost never reached."""

LARGEST_CELLS = 1 << 20
"""Largest number of cells of all steps' laws, or of the window. It limits time and memory."""

FARTHEST_NODE = 700.0
"""Largest loss in nats for which e^loss and e^-loss are normal doubles. Larger losses occur on coarse lattices only."""

_LESS = 0.6
"""Factor for windows of coarse lattices, which are longer because of rounding to cells and to transform lengths."""

_CAP_TILTS = np.array([1.0, 1.5, 2.0, 2.7, 3.6, 4.8, 6.5, 9.0])
"""Distances of tilts from 1, in units of 1/deviation of the loss, for a first bound of epsilon."""

_COMPLEMENT_TILTS = (0.5, 0.2, 0.8)
"""Exponents of the likelihood ratio for a first bound of 1 - delta."""

KEPT_CELLS = 1 << 22
"""Largest number of cells of all cached lattices and tilted laws of a curve. The least recently used go first."""

ALL_KEPT_CELLS = 3 << 22
"""Largest number of such cells of all curves of the process together, 16 bytes each."""
_CLOCK = count()
"""Numbers that tell which run was used last."""
_LIVE: WeakSet[LatticeRuns] = WeakSet()
"""Runs of the process that are still referenced. They share the limit of memory."""


@dataclass(frozen=True, slots=True)
class LatticeStep:
    """One kind of step of a run for the lattice engine, with the number of such steps.

    Attributes
    ----------
    add, remove : AbstractTradeOff
        Curves in both directions.
    atoms : sequence of (float, float)
        Atoms of the direction `add`, which determine the lattice: loss ln(H1/H0) in nats, and mass under H0.
    count : int
        Number of such steps.
    two_point : TwoPointPart or None
        Description of a step with only two losses; None for other steps.
    """

    add: AbstractTradeOff
    remove: AbstractTradeOff
    atoms: Atoms
    count: int
    two_point: TwoPointPart | None = None

    def extent(self, log_tail_mass: float) -> tuple[float, float]:
        """Return the sizes of losses, left and right of 0, at which the step's profiles fall to e^`log_tail_mass`.

        The profile of `remove` gives the left size, and that of `add` the right size. Mass that only one hypothesis has
        is not counted. A size is at most the largest loss of the direction, and at most `LARGEST_LOSS`.
        """
        return _farthest_loss(self.remove, log_tail_mass), _farthest_loss(self.add, log_tail_mass)


def _farthest_loss(curve: AbstractTradeOff, log_tail_mass: float) -> float:
    largest = curve.largest_log_ratio.upper
    if largest <= _SHORT_LOSS:
        return max(largest, 1e-300)
    low, high = 1e-6, min(largest, LARGEST_LOSS)
    for _ in range(3):
        losses = np.geomspace(low, high, 60)
        profile = curve.profile(losses)
        logs = profile.log_upper if profile.log_upper is not None else np.log(np.maximum(profile.upper, 1e-320))
        beyond = np.flatnonzero(logs <= max(log_tail_mass, math.log(max(curve.singular_power.upper, 1e-320)) + 1e-9))
        if len(beyond) == 0:
            return high
        at = int(beyond[0])
        low, high = float(losses[max(at - 1, 0)]), float(losses[at])
    return high


@dataclass
class LatticeRun:
    """Laws of all steps of a run on one lattice of spacing `step`, which bound the run from above and from below.

    `step` is in nats. `upper` and `lower` have the bounding laws of each kind of step with its count, and `off_nodes`
    the steps whose losses lie between nodes. `composed` caches the composed laws by the tilt; None marks a tilt at
    which the composition failed. At a tilt the masses are multiplied by e^{tilt loss}.
    """

    step: float
    upper: tuple[CountedLaw, ...]
    lower: tuple[CountedLaw, ...]
    off_nodes: OffNodeLosses | None = None
    composed: dict[float, LatticePair | None] = field(default_factory=dict["float", "LatticePair | None"])

    @staticmethod
    def build(
        steps: tuple[LatticeStep, ...], off_nodes: OffNodeLosses | None, spacing: float, log_tail_mass: float
    ) -> LatticeRun | None:
        """Build the laws of all steps on a lattice with about this spacing (nats), for the add direction.

        `off_nodes` has the steps whose losses lie between nodes. The laws omit about e^log_tail_mass of the mass of the
        run.

        The result is None if the run needs too many cells, or e^loss is out of range at the outermost cells. It is also
        None if the laws of a step give no bounds, for example because the step reveals everything with a probability
        near 1.
        """
        chosen = _aligned([part.atoms for part in steps], spacing)
        steps = tuple(
            replace(part, atoms=()) if all(abs(loss) < _NEAR * chosen for loss, _ in part.atoms) else part
            for part in steps
        )
        lattices = [
            _lattice(part, chosen, extent) for part, extent in zip(steps, _extents(steps, log_tail_mass), strict=True)
        ]
        if sum(lattice.last - lattice.first for lattice in lattices) > LARGEST_CELLS:
            return None
        if any(max(-lattice.first, lattice.last) * chosen > FARTHEST_NODE for lattice in lattices):
            return None
        upper: list[CountedLaw] = []
        lower: list[CountedLaw] = []
        for part, lattice in zip(steps, lattices, strict=True):
            high, low = bracketing_laws(part.add, part.remove, part.atoms, lattice)
            if not (high.is_sound and low.is_sound):
                return None
            upper.append(CountedLaw(high, part.count))
            lower.append(CountedLaw(low, part.count))
        return LatticeRun(chosen, tuple(upper), tuple(lower), off_nodes)

    def reflected(self) -> LatticeRun | None:
        """Return the run in the other direction, with swapped hypotheses.

        The result is None if rounding leaves no mass to the cells there.
        """
        upper, lower = (
            tuple(CountedLaw(counted.law.reflected(self.step), counted.count) for counted in laws)
            for laws in (self.upper, self.lower)
        )
        if not all(counted.law.masses.any() for counted in (*upper, *lower)):
            return None
        return LatticeRun(self.step, upper, lower, self.off_nodes)

    def compose(self, tilt: float) -> LatticePair | None:
        """Compose the laws of all steps, tilted by e^{tilt loss}, for both bounds.

        The result is None if the window of losses would be too large, or the laws are out of the range of doubles.
        """
        if tilt not in self.composed:
            self.composed[tilt] = self._composed(tilt)
        return self.composed[tilt]

    def _composed(self, tilt: float) -> LatticePair | None:
        first = window(self.upper, tilt, self.step)
        second = None if first is None else window(self.lower, tilt, self.step)
        if first is None or second is None:
            return None
        size = max(first.size, second.size)
        if size * len(self.upper) > 2 * LARGEST_CELLS:
            return None
        while self.composed and self.cells + size > KEPT_CELLS:
            self.forget_oldest()
        high = ComposedLattice(self.upper, tilt, self.step, first, self.off_nodes)
        low = ComposedLattice(self.lower, tilt, self.step, second, self.off_nodes)
        return LatticePair(
            high, low, run_slack(self.upper, self.off_nodes, 1), run_slack(self.lower, self.off_nodes, -1)
        )

    def forget_oldest(self) -> None:
        """Release the composed law that was cached first. A later use composes it again, with an identical result."""
        del self.composed[next(iter(self.composed))]

    def epsilon_cap(self, delta: float) -> float:
        """Return an upper bound of epsilon(delta) without a composition; infinite if no bound is found.

        Let X be the likelihood ratio of the upper law, D(c) = E(X - e^c)_+ its profile and K(z) = ln E X^z. For any z >
        1 (Markov):

            D(c) <= E X^z sup (x - e^c)_+ x^-z = e^{K(z) - (z-1) c} (1 - 1/z)^z/(z - 1).

        The true profile is at most e^slack D + P1(an infinite loss), where e^slack is the factor by which the lattice
        law bounds the true law.
        """
        slack = run_slack(self.upper, self.off_nodes, 1)
        variance = tilted_cumulants(self.upper, 0.5, self.step, self.off_nodes)[2]
        tilts = 1 + _CAP_TILTS / max(math.sqrt(max(variance, 0.0)), self.step)
        value, error = np.array([self._log_moment(self.upper, tilt) for tilt in tilts.tolist()]).T[..., None]
        omitted = np.array([min(slack.log_infinite, 0.0)])
        return float(chernoff_caps(tilts[:, None], value + slack.profile, error, omitted, delta)[0])

    def complement_caps(self) -> list[tuple[float, float]]:
        """Return pairs (a, b) with 1 - delta(epsilon) <= e^{a + b epsilon} for each pair, without a composition.

        1 - delta(c) is H(c) = E min(X, e^c) of the likelihood ratio X under H0. As min(x, y) <= x^z y^(1 - z) for 0 <=
        z <= 1, H(c) <= e^{K(z) + (1 - z) c} with K(z) = ln E X^z. The lower law bounds H from above, with its slack.
        """
        slack = run_slack(self.lower, self.off_nodes, -1).middle
        moments = [(tilt, *self._log_moment(self.lower, tilt)) for tilt in _COMPLEMENT_TILTS]
        return [(value + error + slack, 1 - tilt) for tilt, value, error in moments]

    def _log_moment(self, laws: tuple[CountedLaw, ...], tilt: float) -> tuple[float, float]:
        """Return the log-moment ln E X^tilt of the likelihood ratio X of a run, and a bound of its rounding.

        `laws` are the upper or the lower laws of its steps on the lattice.
        """
        value = log_moment_in_range(laws, tilt, self.step)
        rounding = weight_rounding(laws, tilt, self.step)
        if self.off_nodes is None:
            return value, rounding
        rounding += self.off_nodes.rounding(tilt) + self.off_nodes.blur * tilt
        return value + self.off_nodes.cumulants(tilt)[0], rounding

    @property
    def law_cells(self) -> int:
        """Number of lattice cells of the upper laws of all kinds of steps; the lower laws have as many."""
        return sum(len(counted.law.masses) for counted in self.upper)

    @property
    def cells(self) -> int:
        """Number of lattice cells of the upper laws of all kinds of steps and of the cached composed laws."""
        return self.law_cells + sum(pair.upper.cells for pair in self.composed.values() if pair is not None)


def _extents(steps: tuple[LatticeStep, ...], log_tail_mass: float) -> list[tuple[float, float]]:
    return [part.extent(log_tail_mass - math.log(2 * part.count)) for part in steps]


def _lattice(part: LatticeStep, spacing: float, extent: tuple[float, float]) -> Lattice:
    """Return the lattice of the spacing `spacing` (nats) that covers the losses of the step `part`.

    The first atom (loss with a positive probability) lies on a node. `extent` has the sizes of the farthest losses to
    the left and to the right of 0.
    """
    first = part.atoms[0][0] if part.atoms else 0.0
    offset = first - round(first / spacing) * spacing
    left, right = (math.ceil(side / spacing) + 2 for side in extent)
    return Lattice(spacing, offset, -max(left, 3), max(right, 3))


def _aligned(atoms: list[Atoms], spacing: float) -> float:
    """Return a spacing of a lattice, at most `spacing`, that nearly divides the distances between each step's atoms.

    An atom is a loss with a positive probability.
    """
    losses = [np.array(step)[:, 0] for step in atoms if step]
    distances = np.unique(np.concatenate([np.abs(each[1:] - each[0]) for each in losses] or [np.zeros(0)]))
    sizes = distances[distances > spacing]
    common = _common_gap(distances)
    if common > 0:
        return common / math.ceil(common / spacing) if common > spacing else common * math.floor(spacing / common)
    if not 0 < len(sizes) <= _MOST_DISTANCES:
        short = 2.0 ** (math.floor(math.log2(spacing)) - 20)
        return math.floor(spacing / short) * short
    first = math.ceil(float(sizes[-1]) / spacing)
    # The candidates are spread out: short distances become multiples only if the spacing changes sufficiently.
    spread: FloatArray = np.linspace(first, max(1.5 * first, first + 2), _ATOM_CHOICES)
    multiples: FloatArray = np.round(spread)
    quotients: FloatArray = sizes[:, None] / (sizes[-1] / multiples)
    # The last atom of a step, mostly above 0, moves down to a node.
    off = np.maximum(quotients - np.floor(quotients + 1e-9 * (1 + quotients)), 0.0).max(axis=0)
    return float(sizes[-1] / multiples[int(np.argmin(np.where(off < 1e-9, 0.0, off)))])


def _common_gap(distances: FloatArray) -> float:
    """Return the gap of the lattice on which all atoms of all steps lie, or 0 if its multiples do not cover them.

    `distances` are the sorted distances of the atoms from the first atom of each step. Their smallest is the gap. Few
    distances give 0, too.
    """
    if len(distances) < _MANY_DISTANCES:
        return 0.0
    multiples: FloatArray = distances / distances[0]
    off: FloatArray = np.abs(multiples - np.rint(multiples))
    return float(distances[0]) if (off < 1e-9 * multiples).all() else 0.0


class CoarseTransform:
    """Log-moment function K(z) = ln E0 e^{zS} of a run on a coarse lattice, with the interface of `LossTransform`.

    S is the loss of the run, and E0 the expectation under H0. K chooses tilts (real exponents z at which laws are
    composed); no proof depends on K. With `reflected` the function is that of the other direction, K(1 - z).
    """

    def __init__(self, run: LatticeRun, *, reflected: bool) -> None:
        self._run, self._reflected = run, reflected

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return K(s) = ln E0 e^{sS} of the run's loss S, with K' and K'', at real `tilts` s, in their shape.

        The errors of the numbers are unknown and given as 0.
        """
        run, sign = self._run, -1.0 if self._reflected else 1.0
        there = 1 - tilts if self._reflected else tilts
        rows = np.array([tilted_cumulants(run.upper, float(tilt), run.step, run.off_nodes) for tilt in there])
        zeros = np.zeros(len(tilts))
        return RealCumulants(rows[:, 0], sign * rows[:, 1], rows[:, 2], zeros, zeros)


class LatticeRuns:
    """Lattices of a run in both directions, cached by the truncated mass and the spacing of the lattice.

    Laws are computed once and mirrored for the other direction.
    """

    def __init__(self, steps: tuple[LatticeStep, ...], off_nodes: OffNodeLosses | None) -> None:
        self.steps, self.off_nodes = steps, off_nodes
        self._coarse: dict[float, LatticeRun | None] = {}
        self._kept: dict[tuple[float, float, bool], LatticeRun | None] = {}
        self._farthest: dict[float, float] = {}
        self._work_of_a_cell = 0.0
        self._last_use = next(_CLOCK)
        _LIVE.add(self)

    def farthest(self, digits: float) -> float:
        """Return a loss size (nats) at which all profiles of all steps are at most 10^-digits.

        Mass that only one hypothesis has is not counted, and the size has a limit (`LatticeStep.extent`).
        """
        if digits not in self._farthest:
            self._farthest[digits] = max(max(part.extent(-digits * math.log(10))) for part in self.steps)
        return self._farthest[digits]

    def coarse(self, digits: float) -> LatticeRun | None:
        """Return the run on a lattice of a few thousand cells, or None.

        The result is None if there are too many cells or e^loss is out of range. The lattice ends where 10^-digits of
        mass remains, or at the largest finite e^loss.
        """
        if digits not in self._coarse:
            widest = max(max(pair) for pair in _extents(self.steps, -digits * math.log(10)))
            self._coarse[digits] = self._built(digits, widest / _COARSE_CELLS)
        return self._coarse[digits]

    def span(self, digits: float, tilt: float) -> float:
        """Return 0.6 times the estimated range (nats) of the run's loss under the law tilted by e^{tilt loss}.

        The range is that of all but a negligible tilted mass, on a lattice of a few thousand cells. The factor makes
        the estimate likely too small, but it is no proved lower bound. The run is truncated at 10^-digits of mass. The
        result is 0 if there is no such lattice (`coarse`), or the tilted law exceeds the range of doubles.
        """
        coarse = self.coarse(digits)
        part = None if coarse is None else window(coarse.upper, tilt, coarse.step)
        return 0.0 if part is None or coarse is None else _LESS * part.size * coarse.step

    def at(self, digits: float, spacing: float, *, reflected: bool) -> LatticeRun | None:
        """Return the run on a lattice of about this spacing (nats), or None.

        The result is None if there are too many cells, or if the lattice needs more work than the request has left. The
        lattice ends where 10^-digits of mass remains. `reflected` selects the remove direction. The least recently used
        runs are removed if too many cells are cached.
        """
        key = digits, spacing, reflected
        if key in self._kept:
            self._kept[key] = self._kept.pop(key)  # now the most recently used
            return self._kept[key]
        known = self._kept.get((digits, spacing, False))
        self._release(self.cells - KEPT_CELLS, None)
        while self.cells > KEPT_CELLS:
            del self._kept[next(iter(self._kept))]
        coarse = self._coarse.get(digits)
        cells = 0.0 if coarse is None else coarse.law_cells * coarse.step / spacing
        if known is None and coarse is not None and is_spent(cells * self._work_of_a_cell):
            return None
        run = known or self._built(digits, spacing)
        self._kept[digits, spacing, False] = run
        if reflected:
            self._kept[key] = None if run is None else run.reflected()
        return self._kept[key]

    def finest_composed(self, count: int, *, reflected: bool) -> list[LatticePair]:
        """Return up to `count` cached composed laws of one direction, at any tilt, finest lattice spacing first.

        `reflected` selects the remove direction.
        """
        runs = [run for (_, _, direction), run in self._kept.items() if run is not None and direction is reflected]
        pairs = (
            pair for run in sorted(runs, key=lambda run: run.step) for pair in run.composed.values() if pair is not None
        )
        return list(islice(pairs, count))

    @property
    def cells(self) -> int:
        """Number of cells of all cached lattices and composed laws."""
        return sum(run.cells for run in self._kept.values() if run is not None)

    def limit_memory(self) -> None:
        """Release composed laws of this run, and lattices of all runs of the process, as far as they exceed the limits.

        Those of the least recently used runs go first: runs of earlier requests, and of earlier points of a sweep,
        before any of the present one. So the present ones do not depend on the earlier ones.
        """
        self._last_use = next(_CLOCK)
        newest = next(reversed(self._kept.values()), None)
        self._release(self.cells - KEPT_CELLS, newest)
        excess = kept_cells() - ALL_KEPT_CELLS
        for runs in sorted(_LIVE, key=lambda each: each._last_use):  # noqa: SLF001 - the same class
            if excess <= 0:
                break
            before = runs.cells
            runs._release(excess, newest if runs is self else None)  # noqa: SLF001 - the same class
            if runs is not self and runs.cells > before - excess:
                runs._kept.clear()  # noqa: SLF001 - the same class
            excess -= before - runs.cells

    def _release(self, excess: int, newest: LatticeRun | None) -> None:
        """Release composed laws of at least `excess` cells, if there are as many, least recently used lattices first.

        The last composed law of the lattice `newest` stays; None stands for no such lattice.
        """
        for run in self._kept.values():
            while excess > 0 and run is not None and len(run.composed) > (run is newest):
                before = run.cells
                run.forget_oldest()
                excess -= before - run.cells

    def _built(self, digits: float, spacing: float) -> LatticeRun | None:
        before = counted_work()
        run = LatticeRun.build(self.steps, self.off_nodes, spacing, -digits * math.log(10))
        if run is not None:
            self._work_of_a_cell = (counted_work() - before) / max(run.law_cells, 1)
        return run


def kept_cells() -> int:
    """Return the number of cells of the cached lattices and composed laws of all runs of the process."""
    return sum(runs.cells for runs in _LIVE)


def coarse_tilt_grid(runs: LatticeRuns, digits: float, *, reflected: bool) -> TiltGrid | None:
    """Return the grid of tilts at which a run is composed, from a lattice of a few thousand cells.

    `runs` has the lattices of the run. Their laws omit a mass of 10^-digits, and `reflected` swaps the hypotheses. The
    result is None if that lattice does not exist, its loss has no finite positive variance, or no tilt is usable.
    """
    run = runs.coarse(digits)
    if run is None:
        return None
    transform = CoarseTransform(run, reflected=reflected)
    variances = transform.cumulants(np.array([0.0, 0.5, 1.0])).second
    if not (np.isfinite(variances).all() and (variances > 0).all()):
        return None
    tilt_grid = TiltGrid(transform, variances)
    return tilt_grid if tilt_grid.usable else None
