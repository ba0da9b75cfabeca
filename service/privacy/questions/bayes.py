"""Posterior probabilities with outward rounding: the arithmetic that the membership questions share."""

from __future__ import annotations

import math

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

SLACK = 16 * UNIT_ROUNDOFF
TINY = 1e-322


def posterior(shift: float, likelihood: Enclosure, other: Enclosure) -> Enclosure:
    """p likelihood / (p likelihood + (1 - p) other), likelihoods in [0, 1] and not both 0; `shift` = ln(p/(1 - p)).

    Rises with `likelihood` and falls with `other`; computed from the logarithm of the odds, so nothing underflows.
    """
    ends: list[float] = []
    for side, first, second in (
        (-1, log_end(likelihood, -1), log_end(other, 1)),
        (1, log_end(likelihood, 1), log_end(other, -1)),
    ):
        if first == second == -math.inf:
            ends.append(-math.inf if side < 0 else math.inf)
            continue
        odds = shift + (first - second)
        if math.isfinite(odds):
            odds += side * SLACK * (1 + abs(shift) + abs(first) + abs(second))
        ends.append(odds)
    return from_log_odds(ends[0], ends[1], Evidence.weakest(likelihood.evidence, other.evidence))


def posterior_at_log_ratio(shift: float, log_ratio: Enclosure) -> Enclosure:
    """p e^L / (p e^L + 1 - p), L in nats, infinite ends allowed; `shift` = ln(p/(1 - p)), finite."""
    slack = SLACK * (1 + abs(shift))
    lower = log_ratio.lower + shift - (slack + SLACK * abs(log_ratio.lower) if math.isfinite(log_ratio.lower) else 0.0)
    upper = log_ratio.upper + shift + (slack + SLACK * abs(log_ratio.upper) if math.isfinite(log_ratio.upper) else 0.0)
    return from_log_odds(lower, upper, log_ratio.evidence)


def from_log_odds(lower: float, upper: float, evidence: Evidence) -> Enclosure:
    """The probability whose log odds lie in [lower, upper], rounded outwards; exact at infinite odds."""
    return Enclosure(
        _logistic(lower, -1),
        _logistic(upper, 1),
        evidence,
        -softplus(-lower) * (1 + SLACK),
        -softplus(-upper) * (1 - SLACK),
    )


def widened(lower: float, upper: float, evidence: Evidence, largest: float = 1.0) -> Enclosure:
    """[lower, upper] rounded outwards by a few ulps, within [0, largest]."""
    return Enclosure(
        max(lower * (1 - SLACK) - TINY, 0.0),
        min(upper * (1 + SLACK) + TINY, largest),
        evidence,
    )


def log_odds(prior: float) -> float:
    """ln(prior/(1 - prior)), within 4 u (1 + |value|)."""
    return math.log(prior / (1 - prior)) if 0.3 < prior < 0.7 else math.log(prior) - math.log1p(-prior)


def log_end(value: Enclosure, side: int) -> float:
    """Natural logarithm of one end of an enclosure, within 4 u (1 + |ln|); minus infinity for 0."""
    log, end = (value.log_lower, value.lower) if side < 0 else (value.log_upper, value.upper)
    if log is not None and end < 1e-290:
        return log
    return math.log(end) if end > 0 else -math.inf


def softplus(x: float) -> float:
    """ln(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x))) if math.isfinite(x) else max(x, 0.0)


def _logistic(odds: float, side: int) -> float:
    if math.isinf(odds):
        return 1.0 if odds > 0 else 0.0
    tail = math.exp(-abs(odds))
    value = 1 / (1 + tail) if odds >= 0 else tail / (1 + tail)
    return min(max(value * (1 + side * SLACK) + side * TINY, 0.0), 1.0)
