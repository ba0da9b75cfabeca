"""Empirical ROC of an attack with simultaneous confidence bands, and a test of p-values against the uniform law.

A score increases with the suspicion of membership. A record is classified as a member if its score is at least the
threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray

KOLMOGOROV_1_PERCENT: Final = 1.6276
"""99 % quantile of the limit law of sqrt(m) sup|F_m - F|."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmpiricalRoc:
    """Shares of members and non-members with a score of at least each decreasing threshold; shape (cutoffs,).

    With the stated confidence all true rates lie within the half-widths, simultaneously at every threshold.
    """

    thresholds: FloatArray
    false_positive_rate: FloatArray
    true_positive_rate: FloatArray
    false_positive_half_width: float
    true_positive_half_width: float

    def false_positive_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of the false positive rate."""
        return _band(self.false_positive_rate, self.false_positive_half_width)

    def true_positive_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of the true positive rate."""
        return _band(self.true_positive_rate, self.true_positive_half_width)


def _band(rate: FloatArray, half_width: float) -> tuple[FloatArray, FloatArray]:
    return np.maximum(rate - half_width, 0.0), np.minimum(rate + half_width, 1.0)


def empirical_roc(
    member_scores: FloatArray, non_member_scores: FloatArray, confidence: float, cutoffs: int
) -> EmpiricalRoc:
    """Compute the ROC at up to `cutoffs` thresholds, for rates with equal ratios and for equally spaced rates.

    Parameters
    ----------
    member_scores, non_member_scores : array, shape (m,)
        Independent scores, at least one of each class.
    confidence : float
        Simultaneous confidence of both bands.
    cutoffs : int
        Largest number of thresholds.

    Notes
    -----
    The half-width is sqrt(ln(4/(1 - confidence))/(2 m)) for each class of m scores.

    References
    ----------
    Dvoretzky, Kiefer, Wolfowitz 1956 with the constant of Massart 1990, each class at level (1 - confidence)/2.
    """
    members, others = np.sort(member_scores), np.sort(non_member_scores)
    thresholds = _thresholds(others, cutoffs)
    return EmpiricalRoc(
        thresholds=thresholds,
        false_positive_rate=_share_above(others, thresholds),
        true_positive_rate=_share_above(members, thresholds),
        false_positive_half_width=_half_width(others.size, confidence),
        true_positive_half_width=_half_width(members.size, confidence),
    )


def _thresholds(rising: FloatArray, cutoffs: int) -> FloatArray:
    even = np.linspace(1, rising.size, math.ceil(cutoffs / 2))
    ratios = np.geomspace(1, rising.size, cutoffs // 2)
    counts = np.unique(np.rint(np.concatenate((even, ratios))).astype(np.int64))
    return np.unique(rising[rising.size - counts])[::-1]


def _share_above(rising: FloatArray, thresholds: FloatArray) -> FloatArray:
    return (rising.size - np.searchsorted(rising, thresholds, side="left")) / rising.size


def _half_width(count: int, confidence: float) -> float:
    return math.sqrt(math.log(4 / (1 - confidence)) / (2 * count))


def distance_from_uniform(p_values: FloatArray) -> tuple[float, float]:
    """Return sup|F_m(p) - p| of p-values, shape (m,), and its critical value at 1 % for uniform p-values.

    The critical value is the limit for large m, 1.6276/sqrt(m), which is conservative for smaller m. Source: Kolmogorov
    1933.
    """
    rising = np.sort(p_values)
    ranks = np.arange(rising.size + 1) / rising.size
    distance = max(float(np.max(ranks[1:] - rising)), float(np.max(rising - ranks[:-1])))
    return distance, KOLMOGOROV_1_PERCENT / math.sqrt(rising.size)
