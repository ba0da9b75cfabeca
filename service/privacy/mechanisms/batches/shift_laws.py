"""Laws of how far a record, or several, shift a query: exact, whatever their weights are in doubles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, final

from typing_extensions import override

Shifts: TypeAlias = Sequence[Fraction | float]


class ShiftLaw(ABC):
    """A law of places 0, 1, ..., whose weights fall ever faster on either side: of hits, or of a list of shifts."""

    __slots__ = ()

    @property
    @abstractmethod
    def places(self) -> range:
        """Places with a weight, however small."""

    @abstractmethod
    def places_of(self, shifts: Shifts) -> range:
        """Return the places of these ascending shifts, which are neighbours."""

    @abstractmethod
    def odds(self, place: int) -> Fraction:
        """Return the weight of the next place over that of this one."""

    @abstractmethod
    def unshifted(self, shifts: Shifts) -> tuple[Fraction, int]:
        """Return (x, n) with the probability x^n of no shift at all; `shifts`: those that have weights of their own."""

    def largest(self, shifts: Shifts) -> Fraction:
        """Return the largest shift, whatever its weight."""
        return Fraction(shifts[-1])


class HitsLaw(ShiftLaw):
    """A law of the number of hits, each of which shifts by `apart`."""

    __slots__ = ()
    apart: float

    @override
    def places_of(self, shifts: Shifts) -> range:
        return range(round(shifts[0] / self.apart), round(shifts[-1] / self.apart) + 1)

    @override
    def largest(self, shifts: Shifts) -> Fraction:
        return self.places[-1] * Fraction(self.apart)

    @abstractmethod
    def counts(self) -> tuple[tuple[int, ...], int]:
        """Return the weights of 0, 1, ... hits as integers, and their common denominator."""


@final
@dataclass(frozen=True, slots=True)
class BinomialHits(HitsLaw):
    """Each of `trials` independent trials at `rate` in (0, 1) shifts by `apart`, if it hits."""

    trials: int
    rate: Fraction
    apart: float = 1.0

    @property
    @override
    def places(self) -> range:
        return range(self.trials + 1)

    @override
    def odds(self, place: int) -> Fraction:
        return self.rate / (1 - self.rate) * Fraction(self.trials - place, place + 1)

    @override
    def unshifted(self, shifts: Shifts) -> tuple[Fraction, int]:
        return 1 - self.rate, self.trials

    @override
    def counts(self) -> tuple[tuple[int, ...], int]:
        hit, whole = self.rate.numerator, self.rate.denominator
        hits, missed = _powers(hit, self.trials), _powers(whole - hit, self.trials)
        weights = tuple(math.comb(self.trials, k) * hits[k] * missed[self.trials - k] for k in self.places)
        return weights, whole**self.trials


@final
@dataclass(frozen=True, slots=True)
class HypergeometricHits(HitsLaw):
    """Each of `marked` records in a batch of `drawn` of `among` shifts by `apart`; a batch may hold none of them."""

    drawn: int
    marked: int
    among: int
    apart: float = 1.0

    @property
    @override
    def places(self) -> range:
        return range(max(self.drawn + self.marked - self.among, 0), min(self.drawn, self.marked) + 1)

    @override
    def odds(self, place: int) -> Fraction:
        rest = self.among - self.drawn - self.marked
        return Fraction((self.marked - place) * (self.drawn - place), (place + 1) * (rest + place + 1))

    @override
    def unshifted(self, shifts: Shifts) -> tuple[Fraction, int]:
        counts, whole = self.counts()
        return Fraction(counts[0], whole), 1

    @override
    def counts(self) -> tuple[tuple[int, ...], int]:
        # It is the law of the number of drawn ones among the marked: the smaller of both numbers is counted.
        drawn, marked = max(self.drawn, self.marked), min(self.drawn, self.marked)
        weights = (
            math.comb(marked, hits) * math.perm(drawn, hits) * math.perm(self.among - drawn, marked - hits)
            for hits in range(marked + 1)
        )
        return tuple(weights), math.perm(self.among, marked)


@final
@dataclass(frozen=True, slots=True)
class StatedWeights(ShiftLaw):
    """The weights of all shifts, in their order, as they are."""

    weights: tuple[Fraction, ...]

    @property
    @override
    def places(self) -> range:
        return range(len(self.weights))

    @override
    def places_of(self, shifts: Shifts) -> range:
        return self.places

    @override
    def odds(self, place: int) -> Fraction:
        return self.weights[place + 1] / self.weights[place]

    @override
    def unshifted(self, shifts: Shifts) -> tuple[Fraction, int]:
        return self.weights[0] if shifts[0] == 0 else Fraction(0), 1


@dataclass(frozen=True, slots=True)
class ExactShifts:
    """N(0, 1) against sum w_i N(s_i/sigma, 1) with exact noise sigma and weights w_i of a law.

    `shifts` s_i >= 0 ascend: those that have a weight of their own. `mirrored`: the mirror image of the mixture takes
    the place of N(0, 1).
    """

    noise_multiplier: Fraction
    law: ShiftLaw
    shifts: tuple[Fraction | float, ...]
    mirrored: bool = False


def _powers(base: int, most: int) -> list[int]:
    powers = [1]
    for _ in range(most):
        powers.append(powers[-1] * base)
    return powers
