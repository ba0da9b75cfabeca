"""Laws of the total loss of steps with finitely many losses, by direct convolution of positive masses.

A law is stored by its masses at the tilt 1/2, w = sqrt(dP0 dP1) = dP0 e^{L/2}. Masses of both hypotheses follow as
w e^{-L/2} and w e^{L/2}, and their range is halved. Sums of products of positive numbers keep relative digits: N steps
cost about log2 N convolutions, and masses below `FAINTEST` are dropped. The dropped probabilities of both hypotheses
add up over the steps, because each convolution multiplies them by a probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.lattice_masses import folded
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.distant_atom_sums import DistantAtoms

FAINTEST: Final = 1e-140
"""Smallest mass that is kept, relative to the largest. Products of two such masses are normal doubles."""
ON_LATTICE: Final = 1e-13
"""Largest relative distance of a gap from a multiple of the smallest gap that counts as rounding."""
MOST_CELLS: Final = 1 << 16
"""Largest number of cells of the lattice of one law, and of the law of equal steps."""
MOST_PRODUCTS: Final = 3e8
"""Largest number of products of all convolutions: about 0.3 seconds."""
DEEPEST: Final = 26.0
"""Standard deviations that masses above `FAINTEST` reach on either side, approximately."""
PRODUCTS_PER_MICROSECOND: Final = 1500.0
SMALLEST_EXPONENT: Final = -700.0
"""Smallest logarithm of a mass, relative to the largest, whose exponential is a normal double."""
MOST_LOST: Final = 1e-60
"""Dropped probability above which sums use logarithms of masses, if that is inexpensive."""

Kinds = Sequence[tuple[AtomicLaw, int]]


@final
@dataclass(frozen=True, slots=True)
class HalfTilted:
    """Law on a lattice at the tilt 1/2: the losses are top - step k, with the masses e^log_scale w_k.

    Attributes
    ----------
    top, step : float
        Largest loss, and spacing, in nats.
    masses : array, shape (cells,)
        w_k, the largest about 1.
    log_scale : float
        ln of the scale of the masses.
    relative : float
        Relative error of the masses.
    lost : float
        Upper bound of the dropped probability of either hypothesis.
    """

    top: float
    step: float
    masses: FloatArray
    log_scale: float
    relative: float
    lost: float

    @property
    def losses(self) -> FloatArray:
        """Losses of all cells, nats, descending."""
        return self.top - self.step * np.arange(len(self.masses), dtype=np.float64)

    def plus(self, other: HalfTilted) -> HalfTilted:
        """Return the law of the sum of two independent losses on lattices of one spacing."""
        count_work(len(self.masses) * len(other.masses) / PRODUCTS_PER_MICROSECOND)
        terms = min(len(self.masses), len(other.masses)) + 8
        return HalfTilted(
            self.top + other.top,
            self.step,
            np.convolve(self.masses, other.masses),
            self.log_scale + other.log_scale,
            self.relative + other.relative + terms * UNIT_ROUNDOFF,
            (self.lost + other.lost) * (1 + 4 * UNIT_ROUNDOFF),
        )

    def trimmed(self) -> HalfTilted:
        """Return the law with a largest mass of 1, without masses below `FAINTEST`."""
        largest = float(self.masses.max())
        masses = self.masses / largest
        log_scale = self.log_scale + math.log(largest)
        faint = (masses < FAINTEST) & (masses > 0)
        kept = np.flatnonzero(~faint & (masses > 0))
        lost = self.lost
        if faint.any():
            logs = np.log(masses[faint]) + log_scale
            half = 0.5 * self.losses[faint]
            lost += float(max(np.exp(logs + half).sum(), np.exp(logs - half).sum())) * (1 + 1e-9)
        start, stop = int(kept[0]), int(kept[-1]) + 1
        inside = np.where(faint, 0.0, masses)[start:stop]
        relative = self.relative + 4 * UNIT_ROUNDOFF
        return HalfTilted(self.top - start * self.step, self.step, inside, log_scale, relative, lost)


def lattice_of(law: AtomicLaw) -> tuple[float, IndexArray] | None:
    """Return the lattice of all losses of a law, or None if they have no common spacing.

    Parameters
    ----------
    law : AtomicLaw
        Law with n losses.

    Returns
    -------
    (float, array of int) or None
        Spacing in nats, and the distance of each loss from the largest one in cells, shape (n,).
    """
    if law.size == 1:
        return 1.0, np.zeros(1, dtype=np.intp)
    spacing = float(law.gaps.min())
    if not spacing > 0:
        return None
    cells = law.gaps / spacing
    whole = np.rint(cells)
    if whole.sum() > MOST_CELLS or np.any(np.abs(cells - whole) > ON_LATTICE * whole):
        return None
    return spacing, np.concatenate([[0], np.cumsum(whole.astype(np.intp))])


def _half_tilted(law: AtomicLaw) -> HalfTilted | None:
    lattice = lattice_of(law)
    if lattice is None:
        return None
    spacing, index = lattice
    logs = 0.5 * (law.log_absent + law.log_present)
    top = float(logs.max())
    masses = np.zeros(int(index[-1]) + 1)
    masses[index] = np.exp(logs - top)
    size = float(np.abs(logs).max())
    relative = law.mass_error + FUNCTION_ERROR + 4 * UNIT_ROUNDOFF * size
    faint = logs < top + SMALLEST_EXPONENT
    masses[index[faint]] = 0.0
    lost = max(float(np.exp(each[faint]).sum()) for each in (law.log_absent, law.log_present)) * (1 + 1e-9)
    return HalfTilted(float(law.losses[0]), spacing, masses, top, relative, law.dropped + lost)


def products(law: AtomicLaw, count: int) -> float:
    """Return about how many products the law of equal steps needs.

    Parameters
    ----------
    law : AtomicLaw
        Law of the loss of one step.
    count : int
        Number of steps.

    Returns
    -------
    float
        Number of products; 0 for a single step off a lattice, and infinite for several such steps.
    """
    lattice = lattice_of(law)
    if lattice is None:
        return 0.0 if count == 1 else math.inf
    index = lattice[1]
    logs = 0.5 * (law.log_absent + law.log_present)
    weights = np.exp(logs - float(logs.max()))
    mean = float(weights @ index) / float(weights.sum())
    deviation = math.sqrt(float(weights @ (index - mean) ** 2) / float(weights.sum()) * count)
    cells = min(count * float(index[-1]) + 1, 2 * DEEPEST * deviation + float(index[-1]) + 1)
    return math.inf if cells > MOST_CELLS else 0.35 * cells * cells


def in_reach(kinds: Kinds) -> bool:
    """Return whether direct convolution gives the law of the total loss of a run at little cost.

    `kinds` has (law of a step, number of such steps).
    """
    if sum(products(law, count) for law, count in kinds) > MOST_PRODUCTS:
        return False
    sizes: dict[float, float] = {}
    for law, count in kinds:
        lattice = lattice_of(law)
        key = -float(len(sizes)) if lattice is None else round(math.log(lattice[0]), 9)
        own = law.size if lattice is None else count * float(lattice[1][-1]) + 1
        sizes[key] = sizes.get(key, 1.0) + own
    return math.prod(sizes.values()) <= (MOST_CELLS * 4 if len(sizes) > 1 else math.inf)


def total_law(kinds: Kinds) -> AtomicLaw:
    """Return the law of the total loss of independent steps; `kinds` has (law of a step, number of such steps)."""
    parts = [_equal_steps(law, count) for law, count in kinds]
    total = parts[0]
    for part in parts[1:]:
        total = _sum_of(total, part)
    return total


def _equal_steps(law: AtomicLaw, count: int) -> AtomicLaw:
    single = _half_tilted(law)
    if count == 1 or single is None:
        return law
    power = folded(single.trimmed(), count, HalfTilted.plus, lambda one, _: one.trimmed())
    if power.lost > MOST_LOST and (found := _distant(law, count)) is not None:
        return found
    some = power.masses > 0
    position = count * law.position_error + 4 * UNIT_ROUNDOFF * float(np.abs(power.losses).max() + count * power.step)
    return _untilted(
        power.losses[some],
        power.step * np.diff(np.flatnonzero(some)),
        np.log(power.masses[some]) + power.log_scale,
        position,
        power.relative + count * 2 * UNIT_ROUNDOFF,
        power.lost,
        ((law, count),),
    )


def _distant(law: AtomicLaw, count: int) -> AtomicLaw | None:
    """Return the law of `count` equal steps with large losses, or None with too many losses or no smaller lost mass."""
    lattice = lattice_of(law)
    if lattice is None:
        return None
    spacing, index = lattice
    logs = 0.5 * (law.log_absent + law.log_present)
    relative = law.mass_error + 4 * UNIT_ROUNDOFF * float(np.abs(logs).max())
    total = DistantAtoms(float(law.losses[0]), spacing, index, logs, relative, law.dropped).sum_of(count)
    if total is None:
        return None
    reach = float(np.abs(total.losses).max() + count * spacing)
    return _untilted(
        total.losses,
        spacing * np.diff(total.index).astype(np.float64),
        total.logs,
        count * law.position_error + 4 * UNIT_ROUNDOFF * reach,
        total.relative,
        total.lost,
        ((law, count),),
    )


def _untilted(
    losses: FloatArray,
    gaps: FloatArray,
    logs: FloatArray,
    position: float,
    relative: float,
    lost: float,
    parts: Kinds,
) -> AtomicLaw:
    """Return the law with the losses `losses`, from its masses e^`logs` at the tilt 1/2.

    `gaps` are the differences of the losses, `position` and `relative` the errors of losses and masses, `lost` the
    dropped probability, and `parts` the laws of the steps with their counts.
    """
    smallest = math.fsum(count * part.smallest for part, count in parts)
    largest = math.fsum(count * part.largest for part, count in parts)
    is_whole = smallest >= losses[-1] - position and largest <= losses[0] + position
    size = float(np.abs(logs).max() + np.abs(losses).max())
    return AtomicLaw(
        losses,
        gaps,
        logs - 0.5 * losses,
        logs + 0.5 * losses,
        position_error=position,
        mass_error=relative + position + 4 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF * size,
        dropped=lost,
        is_unbounded=any(part.is_unbounded for part, _ in parts),
        is_symmetric=all(part.is_symmetric for part, _ in parts),
        extremes=None if is_whole else (smallest, largest),
    )


def _sum_of(first: AtomicLaw, second: AtomicLaw) -> AtomicLaw:
    """Return the law of the sum of two independent losses, of all pairs of values."""
    losses = (first.losses[:, None] + second.losses).ravel()
    logs = [0.5 * (law.log_absent + law.log_present) for law in (first, second)]
    both = (logs[0][:, None] + logs[1]).ravel()
    order = np.argsort(-losses, kind="stable")
    losses, both = losses[order], both[order]
    # Sums that differ by rounding only are one value: the largest number of their cell of 64 roundings.
    reach = float(np.abs(losses).max())
    cell = np.floor(losses / max(64 * UNIT_ROUNDOFF * reach, SMALLEST))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(cell) != 0]))
    losses, both = losses[starts], np.logaddexp.reduceat(both, starts)
    position = first.position_error + second.position_error + 72 * UNIT_ROUNDOFF * reach
    return _untilted(
        losses,
        losses[:-1] - losses[1:],
        both,
        position,
        first.mass_error + second.mass_error + (order.size / len(starts) + 8) * 16 * UNIT_ROUNDOFF,
        (first.dropped + second.dropped) * (1 + 4 * UNIT_ROUNDOFF),
        ((first, 1), (second, 1)),
    )
