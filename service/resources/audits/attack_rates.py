"""Empirical ROC curves in the format of responses, and the position of their bands relative to a theory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from api_schemas.attack_rates import MeasuredRates, MeasuredRoc, TheoryPowers, Verdict
from service.privacy.audits.roc import EmpiricalRoc
from service.privacy.numerics.arrays import FloatArray

PowerEnds = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Function from false positive rates to lower and upper bounds of the power in theory."""


def measured_roc(roc: EmpiricalRoc, members: int, non_members: int, confidence: float) -> MeasuredRoc:
    """Return an empirical ROC curve with its confidence bands, in the format of responses.

    `members` and `non_members` are the numbers of scores of members and of non-members. `confidence` is the probability
    with which the bands hold.
    """
    return MeasuredRoc(
        thresholds=tuple(roc.thresholds.tolist()),
        false_positive_rate=_columns(roc.false_positive_rate, roc.false_positive_ends()),
        true_positive_rate=_columns(roc.true_positive_rate, roc.true_positive_ends()),
        confidence=confidence,
        members=members,
        non_members=non_members,
    )


def _columns(estimate: FloatArray, ends: tuple[FloatArray, FloatArray]) -> MeasuredRates:
    return MeasuredRates(estimate=estimate.tolist(), lower=ends[0].tolist(), upper=ends[1].tolist())


def against_theory(roc: EmpiricalRoc, power: PowerEnds) -> tuple[TheoryPowers, Verdict, bool]:
    """Return (theory at the measured rates, verdict, whether the attack is weaker than the theory).

    The theory is the largest power at a false positive rate, of which `power` returns bounds. `roc` has the measured
    rates with confidence intervals at each threshold. The verdict is above the bound if, at some threshold, the lower
    confidence bound of the true positive rate exceeds the upper bound of the theory at the upper confidence bound of
    the false positive rate. The attack is weaker if, at some threshold, the upper confidence bound of the true positive
    rate is below the lower bound of the theory at the lower confidence bound of the false positive rate.
    """
    lower, upper = power(roc.false_positive_rate)
    least, most = roc.true_positive_ends()
    first, last = roc.false_positive_ends()
    above = bool(np.any(least > power(last)[1]))
    below = bool(np.any(most < power(first)[0]))
    powers = TheoryPowers(lower=lower.tolist(), upper=upper.tolist())
    return powers, "above_the_bound" if above else "consistent", below
