"""The PMP parameter of a finite mechanism: a table of output probabilities, one row for each n-subset of 2n points.

P(a | x in D) and P(a | x not in D) are means of as many rows each. Their sums and the difference of these are rounded
once (`math.fsum`), so that what is read off them is good to a few units in the last place, however little they differ.
Rows that do not sum to 1 have to be normalised first, which moves every probability by a few units in its last place;
then logarithms of ratios and differences of probabilities are good to as many of 1 (`slack`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, final

import numpy as np

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.bayes import widened

Direction = Literal["in_over_out", "out_over_in"]

ROUNDING = 32 * UNIT_ROUNDOFF
"""Relative bound of what the few operations after rounded sums amount to."""
LEAST_NORMAL = 1e-300
SUBNORMAL = 1e-318
"""More than what thousands of products below the smallest normal double are off by."""
LARGEST_EXPONENT = 600.0
"""Up to it e^epsilon is a double, with products that are."""
NORMALISED: Final = 8 * UNIT_ROUNDOFF
"""More than what probabilities within 3 u of themselves move a log ratio by, or a sum of excesses (P - e^epsilon P')+:
3 u of P and of e^epsilon P' <= P.
"""


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that sum to 1 when rounded, as far as division by their sums makes them.

    `divided`: how many were. `off`: by how much a sum missed 1 at most. `slack`: what rounding the quotients moved.
    """

    probabilities: Sequence[Sequence[float]]
    divided: int
    off: float
    slack: float

    @staticmethod
    def of(given: Sequence[Sequence[float]]) -> Rows:
        """The rows, each divided by its sum where that is not 1."""
        sums = [math.fsum(row) for row in given]
        rows = [
            row if total == 1 else tuple(value / total for value in row) for row, total in zip(given, sums, strict=True)
        ]
        divided, off = sum(total != 1 for total in sums), max(abs(total - 1) for total in sums)
        # Below the smallest normal double a quotient is as far off as what it divides.
        tiny = any(0 < value < LEAST_NORMAL for row in given for value in row)
        return Rows(rows, divided, off, (NORMALISED + (4 * off if tiny else 0.0)) if divided else 0.0)


@final
@dataclass(frozen=True, slots=True)
class LargestRatio:
    """A largest |ln ratio| in nats, maybe infinite, and the point and output where it is attained."""

    epsilon: Enclosure
    point_index: int
    output_index: int
    direction: Direction


@final
@dataclass(frozen=True, slots=True)
class MembershipTable:
    """Sums over the subsets with and without each point of their probabilities of each output: points x outputs.

    `difference` is the first less the second, rounded once. `count`: in how many subsets a point is, and is not.
    """

    with_point: FloatArray
    without: FloatArray
    difference: FloatArray
    count: int
    slack: float

    @staticmethod
    def of(rows: Rows, subsets: Sequence[Sequence[int]]) -> MembershipTable:
        """`rows`: subsets x outputs; `subsets`: all n-subsets of 0 to 2n - 1, each once."""
        columns = list(zip(*rows.probabilities, strict=True))
        members = [frozenset(subset) for subset in subsets]
        sums: list[list[tuple[float, float, float]]] = []
        for point in range(2 * len(subsets[0])):
            signs = [1.0 if point in subset else -1.0 for subset in members]
            sums.append([_split_sums(column, signs) for column in columns])
        table = np.array(sums)
        return MembershipTable(table[:, :, 0], table[:, :, 1], table[:, :, 2], len(subsets) // 2, rows.slack)

    def epsilon(self) -> LargestRatio:
        """max over points and outputs of |ln(P(a | x in D)/P(a | x not in D))|; where both are 0 it is 0."""
        ratios = _log_ratios(np.minimum(self.with_point, self.without), np.abs(self.difference))
        point, output = np.unravel_index(int(ratios.argmax()), ratios.shape)
        direction: Direction = "in_over_out" if self.difference[point, output] >= 0 else "out_over_in"
        return LargestRatio(_around(float(ratios.max()), self.slack), int(point), int(output), direction)

    def delta(self, epsilon: float) -> Enclosure:
        """Smallest delta of (epsilon, delta)-PMP: the largest sum over outputs of (P - e^epsilon P')+, either way."""
        change = self.difference
        excess = (
            _excess(self.with_point, self.without, change, epsilon),
            _excess(self.without, self.with_point, -change, epsilon),
        )
        largest = max(float(part.sum(axis=1).max()) for part in excess) / self.count
        slack = _error(change.shape[1], epsilon) * float(np.abs(change).sum(axis=1).max()) / self.count
        return _probability(largest, slack, self.slack)

    def bayes_success(self) -> Enclosure:
        """max over points of (1 + TV)/2: the chance of the best attack on the most exposed point to be right."""
        # Rows may sum to a little more than 1.
        variation = float(np.abs(self.difference).sum(axis=1).max()) / (2 * self.count)
        low, high = max(variation - self.slack, 0.0), min(variation + self.slack, 1.0)
        return widened((1 + min(low, 1.0)) / 2, (1 + high) / 2, _evidence(self.slack))


@final
@dataclass(frozen=True, slots=True)
class AdjacentTable:
    """Probabilities of the outputs, grouped by what adjacent subsets share: groups x n + 1 subsets x outputs."""

    groups: FloatArray
    slack: float

    @staticmethod
    def of(rows: Rows, subsets: Sequence[Sequence[int]]) -> AdjacentTable:
        """`rows`: subsets x outputs; `subsets`: all n-subsets of 0 to 2n - 1, each once."""
        known = {frozenset(subset): row for subset, row in zip(subsets, rows.probabilities, strict=True)}
        size, points = len(subsets[0]), range(2 * len(subsets[0]))
        shared = [frozenset(chosen) for chosen in combinations(points, size - 1)]
        return AdjacentTable(
            np.array([[known[chosen | {point}] for point in points if point not in chosen] for chosen in shared]),
            rows.slack,
        )

    def epsilon(self) -> Enclosure:
        """The largest |ln(P(a | D)/P(a | D'))| over outputs and subsets that differ in one point; maybe infinite."""
        ratios = _log_ratios(self.groups.min(axis=1), np.ptp(self.groups, axis=1))
        return _around(float(ratios.max()), self.slack)

    def delta(self, epsilon: float) -> Enclosure:
        """The largest sum over outputs of (P(a | D) - e^epsilon P(a | D'))+ over subsets that differ in one point."""
        excess = (_excess(group[:, None], group, group[:, None] - group, epsilon) for group in self.groups)
        largest = max(float(part.sum(axis=2).max()) for part in excess)
        slack = 2 * _error(self.groups.shape[2], epsilon)
        return _probability(largest, slack, self.slack)


def _split_sums(column: Sequence[float], signs: Sequence[float]) -> tuple[float, float, float]:
    """Sums over the subsets with a point, without it, and of the first less the second, each rounded once."""
    signed = [sign * value for sign, value in zip(signs, column, strict=True)]
    return (
        math.fsum(value for value, sign in zip(column, signs, strict=True) if sign > 0),
        math.fsum(value for value, sign in zip(column, signs, strict=True) if sign < 0),
        math.fsum(signed),
    )


def _log_ratios(smaller: FloatArray, change: FloatArray) -> FloatArray:
    """ln(1 + change/smaller): infinite where only `smaller` is 0, and 0 where both are."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratios = np.where(change > 0, change / smaller, 0.0)
        beyond = np.log(change) - np.log(smaller)
    return np.where(np.isinf(ratios), beyond, np.log1p(ratios))


def _excess(first: FloatArray, second: FloatArray, difference: FloatArray, epsilon: float) -> FloatArray:
    """(p - e^epsilon p')+ for p, p' with a difference that was rounded once."""
    if epsilon <= LARGEST_EXPONENT:
        return np.maximum(difference - math.expm1(epsilon) * second, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.maximum(first - np.exp(epsilon + np.log(second)), 0.0)


def _error(terms: int, epsilon: float) -> float:
    """Bound on the error of a sum of such terms, relative to that of |p - p'|."""
    # An exponent that matters beyond LARGEST_EXPONENT is the sum of two numbers below 746.
    return ROUNDING + (terms + (4096 if epsilon > LARGEST_EXPONENT else 0)) * UNIT_ROUNDOFF


def _probability(value: float, slack: float, divided: float) -> Enclosure:
    """A probability within both slacks, exact where they are 0; rows may sum to a little more than 1."""
    slack += divided + (SUBNORMAL if value > 0 or slack > 0 else 0.0)
    return Enclosure(min(max(value - slack, 0.0), 1.0), min(value + slack, 1.0), _evidence(divided))


def _around(value: float, divided: float) -> Enclosure:
    """A number with a small relative error, and that of divided rows; 0 and infinity are exact but for the latter."""
    lower, upper = value * (1 - ROUNDING) - divided, value * (1 + ROUNDING) + divided
    return Enclosure(max(lower, 0.0), upper, _evidence(divided))


def _evidence(divided: float) -> Evidence:
    return Evidence.CERTIFIED if divided else Evidence.EXACT
