"""Laws of the total loss of steps with finitely many losses, by direct convolution of masses.

The losses of a run are on the lattice of its steps. Outcomes with a loss L >= 0 have masses that are convolved under
H1, and outcomes with a loss L < 0 masses that are convolved under H0. The other hypothesis has e^-L or e^L times these
masses, which is less. So the probability that a convolution leaves out bounds what is left out under both hypotheses,
however far apart they are. Steps on lattices with no common multiple add up by all pairs of losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.scaled_masses import NEGLIGIBLE, ScaledMasses

ON_LATTICE: Final = 1e-13
"""Largest relative distance of a gap from a multiple of the smallest gap that counts as rounding."""
MOST_CELLS: Final = 1 << 16
"""Largest number of cells of the lattice of one law, and of the law of steps on one lattice."""
MOST_PRODUCTS: Final = 2.5e9
"""Largest number of products of all convolutions: about 0.5 seconds."""
MOST_PAIRS: Final = MOST_CELLS * 4
"""Largest number of pairs of losses of steps on different lattices."""
PRODUCTS_OF_A_PAIR: Final = 100.0
"""Cost of a pair of losses on different lattices, in products of a convolution."""
DEEPEST: Final = math.sqrt(-2 * NEGLIGIBLE)
"""Standard deviations that masses above e^`NEGLIGIBLE` reach on either side, approximately."""

Kinds = Sequence[tuple[AtomicLaw, int]]


@final
@dataclass(frozen=True, slots=True)
class _Part:
    """Equal steps on a lattice of losses.

    Attributes
    ----------
    law : AtomicLaw
        Law of the loss of one step.
    count : int
        Number of steps.
    index : array of int, shape (n,)
        Distance of each loss from the largest one, in cells (multiples of the spacing of the lattice).
    """

    law: AtomicLaw
    count: int
    index: IndexArray

    @property
    def reach(self) -> int:
        """Distance between the largest and the smallest total loss of the equal steps, in cells."""
        return self.count * int(self.index[-1])

    @property
    def centre(self) -> int:
        """Index, in the losses of one step, of the loss nearest to 0."""
        return int(np.abs(self.law.losses).argmin())

    def variance(self, logs: FloatArray) -> float:
        """Return the variance of the total loss in squared cells; the masses of one step are e^`logs`, shape (n,)."""
        weights = np.exp(logs)
        mean = float(weights @ self.index) / float(weights.sum())
        return self.count * float(weights @ (self.index - mean) ** 2) / float(weights.sum())

    def position_error(self, spacing: float) -> float:
        """Return a bound (nats) of the distance of each true loss of one step from its node of the lattice.

        `spacing` is the distance of neighbouring nodes in nats.
        """
        losses, centre = self.law.losses, self.centre
        nodes = losses[centre] + spacing * (self.index[centre] - self.index)
        size = float(np.abs(losses).max()) + spacing * int(self.index[-1])
        return self.law.position_error + float(np.abs(nodes - losses).max()) + 4 * UNIT_ROUNDOFF * size


@final
@dataclass(frozen=True, slots=True)
class _Lattice:
    """Steps whose losses are on lattices with the common spacing `spacing` (nats)."""

    spacing: float
    parts: tuple[_Part, ...]

    @property
    def is_symmetric(self) -> bool:
        """Whether swapped hypotheses give the same law exactly."""
        return all(part.law.is_symmetric for part in self.parts)

    def cells(self) -> float:
        """Return about how many cells (multiples of the spacing) hold the total loss, without tiny masses."""
        return max(self._cells(self.parts, side) for side in ("log_absent", "log_present"))

    def products(self) -> float:
        """Return about how many multiplications the convolutions for the law of the total loss need."""
        return sum(self._products(side) for side in ("log_absent", "log_present")[self.is_symmetric :])

    def _cells(self, parts: Sequence[_Part], side: str) -> float:
        deviation = math.sqrt(sum(part.variance(getattr(part.law, side)) for part in parts))
        largest = max(float(part.index[-1]) for part in parts)
        return min(sum(float(part.reach) for part in parts) + 1, 2 * DEEPEST * deviation + largest + 1)

    def _products(self, side: str) -> float:
        total = 0.0
        for number, part in enumerate(self.parts):
            own = self._cells([part], side)
            halves = (_Part(part.law, part.count >> bit, part.index) for bit in range(1, part.count.bit_length()))
            total += sum(self._cells([half], side) ** 2 for half in halves)
            total += own * self._cells(self.parts[:number], side) if number else 0.0
        return total

    def total(self) -> AtomicLaw:
        """Return the law of the total loss of all steps."""
        whole = sum(part.reach for part in self.parts)
        under_zero = self._sums("log_absent")
        under_one = under_zero.mirrored(whole) if self.is_symmetric else self._sums("log_present")
        anchors = [part.count * float(part.law.losses[part.centre]) for part in self.parts]
        base = math.fsum(anchors)
        zero = sum(part.count * int(part.index[part.centre]) for part in self.parts)
        first, second = under_one.integers, under_zero.integers
        high, low = (base + self.spacing * (zero - each).astype(np.float64) for each in (first, second))
        upper, lower = high >= 0, low < 0
        index = np.concatenate([first[upper], second[lower]])
        losses = np.concatenate([high[upper], low[lower]])
        present = np.concatenate([under_one.logs[upper], under_zero.logs[lower] + low[lower]])
        absent = np.concatenate([under_one.logs[upper] - high[upper], under_zero.logs[lower]])
        position = sum(part.count * part.position_error(self.spacing) for part in self.parts)
        position += 4 * UNIT_ROUNDOFF * (float(np.abs(losses).max()) + math.fsum(map(abs, anchors)))
        lost = sum(part.count * part.law.dropped for part in self.parts) + under_zero.lost + under_one.lost
        return _law(
            losses,
            self.spacing * np.diff(index),
            absent,
            present,
            position,
            max(under_zero.relative, under_one.relative),
            lost * (1 + 1e-9),
            tuple((part.law, part.count) for part in self.parts),
        )

    def _sums(self, side: str) -> ScaledMasses:
        """Return the law of the distance in cells of the total loss from the largest total loss.

        `side` is "log_absent" (under H0) or "log_present" (under H1).
        """
        powers = [
            ScaledMasses.of(part.index, getattr(part.law, side), part.law.mass_error).sum_of(part.count)
            for part in self.parts
        ]
        total = powers[0]
        for power in powers[1:]:
            total = total.plus(power)
        return total


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


def _joined(first: _Lattice, second: _Lattice) -> _Lattice | None:
    """Return the steps of both lattices on the lattice of `first`, which has the smaller spacing, or None.

    The result is None if the spacing of `second` is no multiple, or if the joint convolution has too many cells or
    costs more than both lattices apart.
    """
    ratio = second.spacing / first.spacing
    times = round(ratio)
    if times > MOST_CELLS or abs(ratio - times) > ON_LATTICE * times:
        return None
    coarse = tuple(_Part(part.law, part.count, times * part.index) for part in second.parts)
    both = _Lattice(first.spacing, (*first.parts, *coarse))
    apart = first.products() + second.products() + PRODUCTS_OF_A_PAIR * first.cells() * second.cells()
    return both if both.cells() <= MOST_CELLS and both.products() <= apart else None


def _gathered(kinds: Kinds) -> tuple[list[_Lattice], list[AtomicLaw]] | None:
    """Return the lattices of a run, and the laws of single steps whose losses are on no lattice.

    The result is None if several equal steps have losses on no lattice.
    """
    lattices: list[_Lattice] = []
    alone: list[AtomicLaw] = []
    for law, count in kinds:
        found = lattice_of(law)
        if found is not None:
            lattices.append(_Lattice(found[0], (_Part(law, count, found[1]),)))
        elif count > 1:
            return None
        else:
            alone.append(law)
    kept: list[_Lattice] = []
    for each in sorted(lattices, key=lambda lattice: lattice.spacing):
        for place, known in enumerate(kept):
            both = _joined(known, each)
            if both is not None:
                kept[place] = both
                break
        else:
            kept.append(each)
    return kept, alone


def products(kinds: Kinds) -> float:
    """Return about how many multiplications the convolutions for the law of the total loss need.

    Parameters
    ----------
    kinds : sequence of (AtomicLaw, int)
        Law of the loss of a step, and number of such steps.

    Returns
    -------
    float
        Number of multiplications. It is infinite for several equal steps whose losses are on no lattice, and for too
        many cells or pairs of losses.
    """
    found = _gathered(kinds)
    if found is None:
        return math.inf
    lattices, alone = found
    pairs = _values(lattices, alone) if len(lattices) + len(alone) > 1 else 0.0
    if pairs > MOST_PAIRS or any(lattice.cells() > MOST_CELLS for lattice in lattices):
        return math.inf
    return sum(lattice.products() for lattice in lattices) + PRODUCTS_OF_A_PAIR * pairs


def values(kinds: Kinds) -> float:
    """Return about how many values the total loss of a run has.

    Parameters
    ----------
    kinds : sequence of (AtomicLaw, int)
        Law of the loss of a step, and number of such steps.

    Returns
    -------
    float
        Number of values; infinite for runs that are not in reach of direct convolution.
    """
    found = _gathered(kinds) if in_reach(kinds) else None
    return math.inf if found is None else _values(*found)


def _values(lattices: Sequence[_Lattice], alone: Sequence[AtomicLaw]) -> float:
    """Return about how many values the total loss has.

    This is the product of the numbers of cells of all `lattices` and of losses of the steps `alone`, on no lattice.
    """
    return math.prod([*(lattice.cells() for lattice in lattices), *(float(law.size) for law in alone)])


def in_reach(kinds: Kinds) -> bool:
    """Return whether direct convolution gives the law of the total loss of a run at little cost.

    `kinds` has (law of a step, number of such steps).
    """
    return products(kinds) <= MOST_PRODUCTS


def total_law(kinds: Kinds) -> AtomicLaw:
    """Return the law of the total loss of independent steps; `kinds` has (law of a step, number of such steps).

    Raises
    ------
    ValueError
        For several equal steps whose losses are on no lattice.
    """
    if len(kinds) == 1 and kinds[0][1] == 1:
        return kinds[0][0]
    found = _gathered(kinds)
    if found is None:
        raise ValueError("equal steps have losses on no lattice")
    lattices, alone = found
    total, *parts = [*(lattice.total() for lattice in lattices), *alone]
    for part in parts:
        total = _sum_of(total, part)
    return total


def _law(
    losses: FloatArray,
    gaps: FloatArray,
    absent: FloatArray,
    present: FloatArray,
    position: float,
    relative: float,
    lost: float,
    parts: Kinds,
) -> AtomicLaw:
    """Return the law with the losses `losses`, whose masses have the logarithms `absent` and `present`.

    `gaps` are the differences of the losses. `position` bounds the absolute error of each loss (nats), and `relative`
    the relative error of each mass before the roundings here. `lost` bounds the left-out probability, and `parts` are
    the laws of the steps with their counts.
    """
    smallest = math.fsum(count * part.smallest for part, count in parts)
    largest = math.fsum(count * part.largest for part, count in parts)
    is_whole = smallest >= losses[-1] - position and largest <= losses[0] + position
    size = float(max(np.abs(absent).max(), np.abs(present).max()) + np.abs(losses).max())
    return AtomicLaw(
        losses,
        gaps,
        absent,
        present,
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
    reach_of_logs = 8 + float(np.abs(both).max())
    terms = np.diff(np.append(starts, order.size))
    tops = np.maximum.reduceat(both, starts)
    sums = np.add.reduceat(np.exp(both - np.repeat(tops, terms)), starts)
    losses, both = losses[starts], tops + np.log(sums)
    return _law(
        losses,
        losses[:-1] - losses[1:],
        both - 0.5 * losses,
        both + 0.5 * losses,
        first.position_error + second.position_error + 72 * UNIT_ROUNDOFF * reach,
        first.mass_error + second.mass_error + (float(terms.max()) + 4 * reach_of_logs) * UNIT_ROUNDOFF,
        (first.dropped + second.dropped) * (1 + 4 * UNIT_ROUNDOFF),
        ((first, 1), (second, 1)),
    )
