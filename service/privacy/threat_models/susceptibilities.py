"""Chi-square law of susceptibilities for Gaussian gradients, between two laws of finitely many values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.law import NoncentralChiSquare

CELLS, FEW_CELLS = 64, 3
"""Count of intervals of susceptibilities: for closed forms, and for curves that are composed on their own lattices."""
LOWEST_SCORE, HIGHEST_SCORE = -3.0, 8.0
"""Normal scores of the first and last endpoint. Less than 1e-15 of all records have a larger susceptibility."""
EVERYTHING: Final = math.inf
"""Susceptibility of a record that is recognised for certain."""


@dataclass(frozen=True, slots=True)
class ChiSquarePopulation:
    """Two laws of finitely many susceptibilities, stochastically above (`above`) and below (`below`) a chi-square law.

    Each maps a susceptibility to its share of the records. For every k, the share of values up to k in `above` is at
    most the share in the law, and the share in `below` is at least the share in the law.
    """

    above: dict[float, Fraction]
    below: dict[float, Fraction]


def chi_square_population(dimension: int, cells: int) -> ChiSquarePopulation:
    """Return two laws of finitely many susceptibilities, on both sides of a chi-square law.

    The chi-square law has `dimension` degrees of freedom. The values are endpoints of `cells` intervals, with masses
    from enclosures of the distribution function.
    """
    scores = np.linspace(LOWEST_SCORE, HIGHEST_SCORE, cells)
    # Endpoints by the cube root of Wilson and Hilferty of normal scores. Every choice of endpoints is valid.
    spread = 2 / (9 * dimension)
    ends = np.unique(np.maximum(dimension * np.maximum(1 - spread + scores * math.sqrt(spread), 0.0) ** 3, 1e-9))
    tails = NoncentralChiSquare(float(dimension), 0.0).log_tails(ends)
    at_least = _distribution(tails.lower_low, tails.upper_high, -1)
    at_most = _distribution(tails.lower_high, tails.upper_low, 1)
    places: list[float] = ends.tolist()
    return ChiSquarePopulation(
        above=_masses([*places, EVERYTHING], [*at_least, Fraction(1)]),
        below=_masses([0.0, *places], [*at_most, Fraction(1)]),
    )


def chi_square_reach(dimension: int) -> float:
    """Return about the largest susceptibility of a population.

    The chi-square law of susceptibilities has `dimension` degrees of freedom, and its mass beyond the result is about
    that of a normal law beyond HIGHEST_SCORE.
    """
    spread = 2 / (9 * dimension)
    return dimension * (1 - spread + HIGHEST_SCORE * math.sqrt(spread)) ** 3


def _distribution(log_lower_tail: FloatArray, log_upper_tail: FloatArray, side: int) -> list[Fraction]:
    """Return bounds (`side` -1: lower, 1: upper) of P(K <= k) at each value k, from the smaller tail.

    K is a random susceptibility. `log_lower_tail` and `log_upper_tail` are ln of bounds of P(K <= k) and P(K > k) at
    the values k.
    """
    outward = 2.0**-50 * side
    head, rest = np.exp(log_lower_tail) * (1 + outward), np.exp(log_upper_tail) * (1 - outward)
    return [
        Fraction(below) if below < 0.5 else 1 - Fraction(beyond)
        for below, beyond in zip(head.tolist(), rest.tolist(), strict=True)
    ]


def _masses(places: list[float], distribution: list[Fraction]) -> dict[float, Fraction]:
    masses = {
        place: after - before
        for place, before, after in zip(places, [Fraction(0), *distribution], distribution, strict=False)
    }
    return {place: mass for place, mass in masses.items() if mass > 0}
