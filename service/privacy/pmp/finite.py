"""Parameter of practical membership privacy (PMP) of a finite mechanism, given by a table of output probabilities.

The table has a row for each n-subset of 2n points. P(a | x in D) and P(a | x not in D) are means of equally many rows.
`math.fsum` rounds each sum, and the difference of both sums, once. Results are therefore accurate to a few units in the
last place, however small the difference is. Rows that do not sum to 1 are normalised first, which changes each
probability by a few units in the last place. Logarithms of ratios and differences of probabilities then have an
absolute error of a few units of rounding (`slack`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, final

import numpy as np

from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.bayes import widened

Direction = Literal["in_over_out", "out_over_in"]

ROUNDING = 32 * UNIT_ROUNDOFF
"""Relative error bound of the few operations after the rounded sums."""
LEAST_NORMAL = 1e-300
SUBNORMAL = 1e-318
"""Upper bound of the total error of thousands of products below the smallest normal double."""
LARGEST_EXPONENT = 600.0
"""Largest epsilon for which e^epsilon and its products are finite doubles."""
NORMALISED: Final = 8 * UNIT_ROUNDOFF
"""Error bound of a log ratio, or of a sum of excesses (P - e^epsilon P')+, of normalised rows.

The probabilities have relative errors of 3 u, and e^epsilon P' <= P where the excess is positive.
"""


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of output probabilities of a finite mechanism, divided by their sums.

    Attributes
    ----------
    probabilities : sequence of rows
        Rows that sum to 1 up to rounding.
    divided : int
        Number of rows that did not sum to 1.
    off : float
        Largest |sum - 1| of the given rows.
    slack : float
        Absolute error of log ratios and excesses by the division; 0 without a division.
    """

    probabilities: Sequence[Sequence[float]]
    divided: int
    off: float
    slack: float

    @staticmethod
    def of(given: Sequence[Sequence[float]]) -> Rows:
        """Return rows of probabilities, each divided by its sum if the sum is not 1."""
        sums = [math.fsum(row) for row in given]
        rows = [
            row if total == 1 else tuple(value / total for value in row) for row, total in zip(given, sums, strict=True)
        ]
        divided, off = sum(total != 1 for total in sums), max(abs(total - 1) for total in sums)
        # A quotient below the smallest normal double has the absolute error of its numerator.
        tiny = any(0 < value < LEAST_NORMAL for row in given for value in row)
        return Rows(rows, divided, off, (NORMALISED + (4 * off if tiny else 0.0)) if divided else 0.0)


@final
@dataclass(frozen=True, slots=True)
class LargestRatio:
    """Largest |ln(P(a | x in D)/P(a | x not in D))| over points x and outputs a.

    `epsilon` encloses it in nats and may be infinite. `point_index` and `output_index` are those of x and a that attain
    it, and `direction` says which of both probabilities is larger.
    """

    epsilon: Enclosure
    point_index: int
    output_index: int
    direction: Direction


@final
@dataclass(frozen=True, slots=True)
class MembershipTable:
    """Output probabilities of a finite mechanism, summed over the subsets with and without each point.

    Attributes
    ----------
    with_point, without : array, shape (points, outputs)
        Both sums.
    difference : array, shape (points, outputs)
        `with_point` less `without`, rounded once.
    count : int
        Number of subsets with a point, and of subsets without it.
    slack : float
        Absolute error of log ratios and excesses by the division of rows.
    """

    with_point: FloatArray
    without: FloatArray
    difference: FloatArray
    count: int
    slack: float

    @staticmethod
    def of(rows: Rows, subsets: Sequence[Sequence[int]]) -> MembershipTable:
        """Sum `rows` (subsets x outputs) over the subsets with and without each point.

        `subsets` are all subsets of n of the 2 n points 0, 1, ..., in the order of the rows.
        """
        columns = list(zip(*rows.probabilities, strict=True))
        members = [frozenset(subset) for subset in subsets]
        sums: list[list[tuple[float, float, float]]] = []
        for point in range(2 * len(subsets[0])):
            signs = [1.0 if point in subset else -1.0 for subset in members]
            sums.append([_split_sums(column, signs) for column in columns])
        table = np.array(sums)
        return MembershipTable(table[:, :, 0], table[:, :, 1], table[:, :, 2], len(subsets) // 2, rows.slack)

    def epsilon(self) -> LargestRatio:
        """Return the PMP parameter, the maximum over points x and outputs a of |ln(P(a | x in D)/P(a | x not in D))|.

        A ratio of 0/0 counts as 1. PMP is practical membership privacy: the attacker does not know which records were
        drawn.
        """
        ratios = _log_ratios(np.minimum(self.with_point, self.without), np.abs(self.difference))
        point, output = np.unravel_index(int(ratios.argmax()), ratios.shape)
        direction: Direction = "in_over_out" if self.difference[point, output] >= 0 else "out_over_in"
        return LargestRatio(_enclose(float(ratios.max()), self.slack), int(point), int(output), direction)

    def delta(self, epsilon: float) -> Enclosure:
        """Return the smallest delta of (epsilon, delta)-practical membership privacy (PMP).

        Parameters
        ----------
        epsilon : float
            epsilon >= 0, nats.

        Returns
        -------
        Enclosure
            The largest sum over outputs of (P - e^epsilon P')+ over points, in both directions. P and P' are the output
            probabilities with and without a point.
        """
        change = self.difference
        excess = (
            _excess(self.with_point, self.without, change, epsilon),
            _excess(self.without, self.with_point, -change, epsilon),
        )
        largest = max(float(part.sum(axis=1).max()) for part in excess) / self.count
        slack = _error(change.shape[1], epsilon) * float(np.abs(change).sum(axis=1).max()) / self.count
        return _probability(largest, slack, self.slack)

    def bayes_success(self) -> Enclosure:
        """Return the success probability of the best attack on the most exposed point.

        Returns
        -------
        Enclosure
            (1 + TV)/2, where TV is the total variation distance of the laws with and without the point.
        """
        # Rows may sum to a little more than 1.
        variation = float(np.abs(self.difference).sum(axis=1).max()) / (2 * self.count)
        low, high = max(variation - self.slack, 0.0), min(variation + self.slack, 1.0)
        return widened((1 + min(low, 1.0)) / 2, (1 + high) / 2, _evidence(self.slack))


@final
@dataclass(frozen=True, slots=True)
class AdjacentTable:
    """Output probabilities of a finite mechanism, grouped by the n - 1 points that adjacent subsets share.

    Attributes
    ----------
    groups : array, shape (groups, n + 1 subsets, outputs)
        The probabilities.
    slack : float
        Absolute error of log ratios and excesses by the division of rows.
    """

    groups: FloatArray
    slack: float

    @staticmethod
    def of(rows: Rows, subsets: Sequence[Sequence[int]]) -> AdjacentTable:
        """Group `rows` (subsets x outputs) by the n - 1 points that adjacent subsets share.

        `subsets` are all subsets of n of the 2 n points 0, 1, ..., in the order of the rows.
        """
        known = {frozenset(subset): row for subset, row in zip(subsets, rows.probabilities, strict=True)}
        size, points = len(subsets[0]), range(2 * len(subsets[0]))
        shared = [frozenset(chosen) for chosen in combinations(points, size - 1)]
        return AdjacentTable(
            np.array([[known[chosen | {point}] for point in points if point not in chosen] for chosen in shared]),
            rows.slack,
        )

    def epsilon(self) -> Enclosure:
        """Return the epsilon of pure differential privacy between adjacent subsets.

        Returns
        -------
        Enclosure
            The largest |ln(P(a | D)/P(a | D'))| over outputs a and adjacent subsets D, D', in nats; possibly infinite.
        """
        ratios = _log_ratios(self.groups.min(axis=1), np.ptp(self.groups, axis=1))
        return _enclose(float(ratios.max()), self.slack)

    def delta(self, epsilon: float) -> Enclosure:
        """Return the smallest delta of (epsilon, delta)-DP between adjacent subsets.

        Parameters
        ----------
        epsilon : float
            epsilon >= 0, nats.

        Returns
        -------
        Enclosure
            The largest sum over outputs a of (P(a | D) - e^epsilon P(a | D'))+ over adjacent subsets D, D'.
        """
        excess = (_excess(group[:, None], group, group[:, None] - group, epsilon) for group in self.groups)
        largest = max(float(part.sum(axis=2).max()) for part in excess)
        slack = 2 * _error(self.groups.shape[2], epsilon)
        return _probability(largest, slack, self.slack)


def _split_sums(column: Sequence[float], signs: Sequence[float]) -> tuple[float, float, float]:
    """Return the sum over subsets with a point, the sum over those without it, and their difference, each rounded once.

    `column` has a probability for each subset, and `signs` 1 for subsets with the point and -1 for others.
    """
    signed = [sign * value for sign, value in zip(signs, column, strict=True)]
    return (
        math.fsum(value for value, sign in zip(column, signs, strict=True) if sign > 0),
        math.fsum(value for value, sign in zip(column, signs, strict=True) if sign < 0),
        math.fsum(signed),
    )


def _log_ratios(smaller: FloatArray, change: FloatArray) -> FloatArray:
    """Return ln(1 + `change`/`smaller`); infinite if only `smaller` is 0, and 0 if both are 0.

    A positive `change` has a positive result, also where the quotient underflows.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratios = np.where(change > 0, np.maximum(change / smaller, SMALLEST), 0.0)
        beyond = np.log(change) - np.log(smaller)
    return np.where(np.isinf(ratios), beyond, np.log1p(ratios))


def _excess(first: FloatArray, second: FloatArray, difference: FloatArray, epsilon: float) -> FloatArray:
    """Return the positive part of p - e^`epsilon` p' for the probabilities p = `first` and p' = `second`.

    `difference` is p - p', rounded once.
    """
    if epsilon <= LARGEST_EXPONENT:
        return np.maximum(difference - math.expm1(epsilon) * second, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.maximum(first - np.exp(epsilon + np.log(second)), 0.0)


def _error(terms: int, epsilon: float) -> float:
    """Return the error bound of a sum of `terms` positive parts of p - e^`epsilon` p', relative to the sum of |p - p'|.

    p and p' are probabilities of an output.
    """
    # Beyond LARGEST_EXPONENT, a relevant exponent is the sum of two numbers below 746.
    return ROUNDING + (terms + (4096 if epsilon > LARGEST_EXPONENT else 0)) * UNIT_ROUNDOFF


def _probability(value: float, slack: float, divided: float) -> Enclosure:
    """Enclose a probability `value` with the absolute errors `slack` and `divided`; exact if both are 0.

    Rows may sum to a little more than 1, so both bounds are limited to [0, 1].
    """
    slack += divided + (SUBNORMAL if value > 0 or slack > 0 else 0.0)
    return Enclosure(min(max(value - slack, 0.0), 1.0), min(value + slack, 1.0), _evidence(divided))


def _enclose(value: float, divided: float) -> Enclosure:
    """Enclose a number `value` with rounding errors and the absolute error `divided` of normalised rows.

    The values 0 and infinity are exact apart from the error of normalised rows. A quotient below the smallest normal
    double has the absolute error `SMALLEST`.
    """
    slack = divided + (SMALLEST if 0 < value < LEAST_NORMAL else 0.0)
    lower, upper = value * (1 - ROUNDING) - slack, value * (1 + ROUNDING) + slack
    return Enclosure(max(lower, 0.0), upper, _evidence(divided))


def _evidence(divided: float) -> Evidence:
    return Evidence.CERTIFIED if divided else Evidence.EXACT
