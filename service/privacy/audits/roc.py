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
    """Empirical ROC curve of an attack: rates at decreasing thresholds of its score.

    Attributes
    ----------
    thresholds : array, shape (cutoffs,)
        Decreasing thresholds. A record with at least this score is classified as a member.
    false_positive_rate, true_positive_rate : array, shape (cutoffs,)
        Shares of non-members and members with a score of at least the threshold.
    false_positive_half_width, true_positive_half_width : float
        With the stated confidence all true rates lie within these distances, simultaneously at every threshold.
    """

    thresholds: FloatArray
    false_positive_rate: FloatArray
    true_positive_rate: FloatArray
    false_positive_half_width: float
    true_positive_half_width: float

    def false_positive_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return confidence bounds of the false positive rate at each threshold.

        With the stated confidence they hold simultaneously, at all thresholds and for both rates.

        Returns
        -------
        (array, array)
            Lower and upper bounds, shape (cutoffs,).
        """
        return _band(self.false_positive_rate, self.false_positive_half_width)

    def true_positive_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return confidence bounds of the true positive rate at each threshold.

        With the stated confidence they hold simultaneously, at all thresholds and for both rates.

        Returns
        -------
        (array, array)
            Lower and upper bounds, shape (cutoffs,).
        """
        return _band(self.true_positive_rate, self.true_positive_half_width)


def _band(rate: FloatArray, half_width: float) -> tuple[FloatArray, FloatArray]:
    return np.maximum(rate - half_width, 0.0), np.minimum(rate + half_width, 1.0)


def empirical_roc(
    member_scores: FloatArray, non_member_scores: FloatArray, confidence: float, cutoffs: int
) -> EmpiricalRoc:
    """Compute the empirical ROC curve of an attack with simultaneous confidence bands.

    Parameters
    ----------
    member_scores, non_member_scores : array, shape (m,)
        Independent scores, at least one of each class.
    confidence : float
        Simultaneous confidence of both bands.
    cutoffs : int
        Largest number of thresholds. Thresholds are chosen so that rates are spread evenly, on a logarithmic and on a
        linear scale.

    Returns
    -------
    EmpiricalRoc
        Rates and half-widths of the bands.

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
    """Return the Kolmogorov distance of p-values from the uniform law, with its critical value.

    Parameters
    ----------
    p_values : array, shape (m,)
        Independent p-values with the empirical distribution function F_m.

    Returns
    -------
    (float, float)
        sup|F_m(p) - p|, and its critical value at 1 % for uniform p-values.

    Notes
    -----
    The critical value is the limit for large m, 1.6276/sqrt(m), which is conservative for smaller m. Source: Kolmogorov
    1933.
    """
    rising = np.sort(p_values)
    ranks = np.arange(rising.size + 1) / rising.size
    distance = max(float(np.max(ranks[1:] - rising)), float(np.max(rising - ranks[:-1])))
    return distance, KOLMOGOROV_1_PERCENT / math.sqrt(rising.size)
