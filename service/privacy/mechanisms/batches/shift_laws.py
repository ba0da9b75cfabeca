"""Exact laws of the shift that one or several records cause, without rounding of the weights."""

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
    """Law of the shift that several records cause together.

    On both sides of the largest weight, the weights of positions decrease faster than geometrically.

    A *position* is a number of hits 0, 1, ..., or an index into a list of shifts. A subclass defines `places`,
    `places_of`, `odds` and `unshifted`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def places(self) -> range:
        """Positions (numbers of hits, or indices of shifts) with a positive weight, however small."""

    @abstractmethod
    def places_of(self, shifts: Shifts) -> range:
        """Return the positions of `shifts` in the law, where the shifts are ascending neighbours.

        A position is a number of hits (sampled records of the group), or an index into a list of shifts.
        """

    @abstractmethod
    def odds(self, place: int) -> Fraction:
        """Return the weight of the position after `place`, divided by the weight of the position `place`.

        A position is a number of hits (sampled records of the group), or an index into a list of shifts.
        """

    @abstractmethod
    def unshifted(self, shifts: Shifts) -> tuple[Fraction, int]:
        """Return (x, n) where x^n is exactly the probability that the shift is 0.

        `shifts` are the shifts that have a weight in the mixture, in the order of the law's positions.
        """

    def largest(self, shifts: Shifts) -> Fraction:
        """Return the largest shift of the law, whatever its weight.

        `shifts` are the shifts that have a weight in the mixture.
        """
        return Fraction(shifts[-1])


class HitsLaw(ShiftLaw):
    """Law of the number of hits (sampled records of the group), each of which shifts the sum by `apart`.

    A subclass defines `apart`, `counts`, `places`, `odds` and `unshifted`.
    """

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
    """Binomial law of hits in independent trials.

    Attributes
    ----------
    trials : int
        Number of trials.
    rate : Fraction
        Probability of a hit, in (0, 1).
    apart : float
        Shift of the sum for each hit.
    """

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
    """Law of the number of `marked` records in a batch of `drawn` out of `among` records; the batch may hold none.

    Each hit shifts the sum by `apart`.
    """

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
        # The law is symmetric in drawn and marked records, so that the smaller number is counted.
        drawn, marked = max(self.drawn, self.marked), min(self.drawn, self.marked)
        weights = (
            math.comb(marked, hits) * math.perm(drawn, hits) * math.perm(self.among - drawn, marked - hits)
            for hits in range(marked + 1)
        )
        return tuple(weights), math.perm(self.among, marked)


@final
@dataclass(frozen=True, slots=True)
class StatedWeights(ShiftLaw):
    """Law with the stated weights of all shifts, in the order of the shifts."""

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
    """Pair of laws N(0, 1) and sum w_i N(s_i/sigma, 1) without rounding.

    The noise sigma is exact, and the weights w_i are those of `law`.

    `shifts` s_i >= 0 ascend; other shifts of the law are omitted. With `mirrored`, the mirror image of the mixture
    replaces N(0, 1).
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
