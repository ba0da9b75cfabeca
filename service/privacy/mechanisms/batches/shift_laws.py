"""Laws of how far a record, or several, shift a query: exact, whatever their weights are in doubles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, final


@final
@dataclass(frozen=True, slots=True)
class BinomialHits:
    """Each of `trials` independent trials at `rate` in (0, 1) shifts by `apart`, if it hits."""

    trials: int
    rate: Fraction
    apart: float = 1.0


@final
@dataclass(frozen=True, slots=True)
class HypergeometricHits:
    """Each of `marked` records in a batch of `drawn` of `among` shifts by `apart`; a batch may hold none of them."""

    drawn: int
    marked: int
    among: int
    apart: float = 1.0


@final
@dataclass(frozen=True, slots=True)
class StatedWeights:
    """The weights of all shifts, in their order, as they are."""

    weights: tuple[Fraction, ...]


ShiftLaw: TypeAlias = BinomialHits | HypergeometricHits | StatedWeights


@final
@dataclass(frozen=True, slots=True)
class ExactShifts:
    """The exact noise, and the law of the shifts without the rounding of its weights."""

    noise_multiplier: Fraction
    law: ShiftLaw


def binomial_counts(trials: int, rate: Fraction) -> tuple[tuple[int, ...], int]:
    """The exact law of the number of hits of `trials` independent trials: of 0 .. trials, over one denominator."""
    hit, whole = rate.numerator, rate.denominator
    hits, missed = _powers(hit, trials), _powers(whole - hit, trials)
    return tuple(math.comb(trials, k) * hits[k] * missed[trials - k] for k in range(trials + 1)), whole**trials


def hypergeometric_counts(drawn: int, marked: int, among: int) -> tuple[tuple[int, ...], int]:
    """The exact law of the number of `marked` records in a batch of `drawn` of `among`: of 0 and more, over one
    denominator.

    It is that of the number of drawn ones among the marked: the smaller of both numbers is counted.
    """
    drawn, marked = max(drawn, marked), min(drawn, marked)
    counts = (
        math.comb(marked, hits) * math.perm(drawn, hits) * math.perm(among - drawn, marked - hits)
        for hits in range(marked + 1)
    )
    return tuple(counts), math.perm(among, marked)


def _powers(base: int, most: int) -> list[int]:
    powers = [1]
    for _ in range(most):
        powers.append(powers[-1] * base)
    return powers
