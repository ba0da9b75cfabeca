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


def binomial_weights(trials: int, rate: Fraction) -> tuple[Fraction, ...]:
    """The exact law of the number of hits of `trials` independent trials: weights of 0 .. trials."""
    # One denominator for all, so that nothing is cancelled on the way.
    hit, whole = rate.numerator, rate.denominator
    return tuple(
        Fraction(math.comb(trials, hits) * hit**hits * (whole - hit) ** (trials - hits), whole**trials)
        for hits in range(trials + 1)
    )


def rounded_binomial_weights(trials: int, rate: Fraction) -> tuple[float, ...]:
    """`binomial_weights`, each correctly rounded: a quotient of integers, whose common divisors nobody looks for."""
    hit, whole = rate.numerator, rate.denominator
    missed, total = whole - hit, whole**trials
    return tuple(math.comb(trials, hits) * hit**hits * missed ** (trials - hits) / total for hits in range(trials + 1))


def hypergeometric_weights(drawn: int, marked: int, among: int) -> tuple[Fraction, ...]:
    """The exact law of the number of `marked` records in a batch of `drawn` of `among`, which leaves room for it.

    It is that of the number of drawn ones among the marked: the smaller of both numbers is counted.
    """
    drawn, marked = max(drawn, marked), min(drawn, marked)
    weight = Fraction(1)
    for other in range(marked):
        weight *= Fraction(among - drawn - other, among - other)
    weights = [weight]
    for hits in range(min(drawn, marked)):
        weight *= Fraction((marked - hits) * (drawn - hits), (hits + 1) * (among - marked - drawn + hits + 1))
        weights.append(weight)
    return tuple(weights)
