"""Posterior probabilities with outward rounding: arithmetic that the membership questions share."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

SLACK: Final = 16 * UNIT_ROUNDOFF
ODDS_SLACK: Final = 24 * UNIT_ROUNDOFF
"""Relative error of a probability that is computed from its odds, a product of two exponentials and two quotients."""
TINY: Final = 1e-322
LEAST_NORMAL, LARGEST_NORMAL = 1e-306, 1e306
"""Range in which products and quotients have relative errors of at most half an ulp."""
LARGEST_EXPONENT: Final = 1400.0
"""Largest exponent L for which e^(L/2) is a normal double."""


class Odds(NamedTuple):
    """Prior odds as a pair of probabilities, because their quotient may not be a double.

    Attributes
    ----------
    favourable, against : float
        Probabilities p and 1 - p.
    """

    favourable: float
    against: float

    @staticmethod
    def of(prior: float) -> Odds:
        """Return the odds `prior` to 1 - `prior`, 0 < `prior` < 1.

        The double 1 - `prior` is within half an ulp (unit in the last place).
        """
        return Odds(prior, 1 - prior)

    def reversed(self) -> Odds:
        """Return the odds of the opposite event, 1 - p to p, for the probability p of the event."""
        return Odds(self.against, self.favourable)

    def log(self) -> float:
        """Return the natural logarithm of the odds.

        Returns
        -------
        float
            ln(p/(1 - p)) for the probability p, within 4 u (1 + |value|), u = 2^-53.
        """
        if 0.3 < self.favourable < 0.7:
            return math.log(self.favourable / self.against)
        if self.favourable < self.against:
            return math.log(self.favourable) - math.log1p(-self.favourable)
        return math.log1p(-self.against) - math.log(self.against)


class _End(NamedTuple):
    """Lower or upper bound of a probability (`value`), with its natural logarithm (`log`)."""

    value: float
    log: float


def posterior(odds: Odds, likelihood: Enclosure, other: Enclosure) -> Enclosure:
    """Return p likelihood / (p likelihood + (1 - p) other) for likelihoods in [0, 1] that are not both 0.

    `odds` are the prior odds p to 1 - p. The result has logarithms; it rises with `likelihood` and falls with `other`.
    The relative error of the bounds is at most 24 u, u = 2^-53, where the odds are normal doubles. Elsewhere the
    computation uses the logarithm of the odds, so that nothing underflows.
    """
    ends = [
        _end_at_likelihoods(odds, likelihood, other, -1, 1),
        _end_at_likelihoods(odds, likelihood, other, 1, -1),
    ]
    return _enclosure(ends[0], ends[1], Evidence.weakest(likelihood.evidence, other.evidence))


def posterior_at_log_ratio(odds: Odds, log_ratio: Enclosure) -> Enclosure:
    """Return the posterior probability p e^L/(p e^L + 1 - p) at a log-likelihood ratio L.

    Parameters
    ----------
    odds : Odds
        Prior odds p to 1 - p.
    log_ratio : Enclosure
        L in nats. Infinite bounds are allowed.

    Returns
    -------
    Enclosure
        The probability, as accurate as that of `posterior`.
    """
    ends = _end_at_log_ratio(odds, log_ratio.lower, -1), _end_at_log_ratio(odds, log_ratio.upper, 1)
    return _enclosure(ends[0], ends[1], log_ratio.evidence)


def widened(lower: float, upper: float, evidence: Evidence, largest: float = 1.0) -> Enclosure:
    """Return [lower, upper] rounded outwards by a few units in the last place.

    Parameters
    ----------
    lower, upper : float
        Bounds before rounding.
    evidence : Evidence
        Evidence of the result.
    largest : float
        Upper limit of the result; 0 is the lower limit.

    Returns
    -------
    Enclosure
        Bounds within [0, largest].
    """
    return Enclosure(
        max(lower * (1 - SLACK) - TINY, 0.0),
        min(upper * (1 + SLACK) + TINY, largest),
        evidence,
    )


def log_end(value: Enclosure, side: int) -> float:
    """Return the natural logarithm of the lower (`side` < 0) or upper bound of the enclosure `value`; -inf for 0.

    The error is at most 4 u (1 + |ln|), u = 2^-53.
    """
    log, end = (value.log_lower, value.lower) if side < 0 else (value.log_upper, value.upper)
    if log is not None and end < 1e-290:
        return log
    return math.log(end) if end > 0 else -math.inf


def softplus(x: float) -> float:
    """Return ln(1 + e^x), without overflow for large x."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x))) if math.isfinite(x) else max(x, 0.0)


def _end_at_likelihoods(odds: Odds, likelihood: Enclosure, other: Enclosure, side: int, other_side: int) -> _End:
    first, second = log_end(likelihood, side), log_end(other, other_side)
    if first == second == -math.inf:
        return _from_log_odds(side * math.inf, side)
    if _normal(*(_plain_end(likelihood, side), _plain_end(other, other_side))):
        value = _product(odds, _plain_end(likelihood, side) / _plain_end(other, other_side))
        if value is not None:
            return _from_odds(value, side)
    shift = odds.log()
    total = shift + (first - second)
    if math.isfinite(total):
        total += side * SLACK * (1 + abs(shift) + abs(first) + abs(second))
    return _from_log_odds(total, side)


def _end_at_log_ratio(odds: Odds, log_ratio: float, side: int) -> _End:
    if abs(log_ratio) <= LARGEST_EXPONENT:
        half = math.exp(log_ratio / 2)
        value = _product(odds, half, half)
        if value is not None:
            return _from_odds(value, side)
    if math.isinf(log_ratio):
        return _from_log_odds(log_ratio, side)
    shift = odds.log()
    return _from_log_odds(shift + log_ratio + side * SLACK * (1 + abs(shift) + abs(log_ratio)), side)


def _plain_end(value: Enclosure, side: int) -> float:
    return value.lower if side < 0 else value.upper


def _product(odds: Odds, *factors: float) -> float | None:
    """Return the prior `odds` times the `factors`, or None if a number leaves the range of normal doubles.

    Outside this range, rounding could exceed half a unit in the last place.
    """
    value = odds.favourable / odds.against if odds.against > LEAST_NORMAL else math.inf
    for factor in factors:
        if not _normal(value, factor):
            return None
        value *= factor
    return value if _normal(value) else None


def _normal(*values: float) -> bool:
    return all(LEAST_NORMAL < value < LARGEST_NORMAL for value in values)


def _from_odds(odds: float, side: int) -> _End:
    """Return the probability `odds`/(1 + `odds`) with its logarithm, rounded down (`side` -1) or up (1).

    The odds are normal doubles.
    """
    value = (odds / (1 + odds) if odds < 1 else 1 / (1 + 1 / odds)) * (1 + side * ODDS_SLACK)
    return _End(min(value, 1.0), -math.log1p(1 / odds) * (1 - side * ODDS_SLACK))


def _from_log_odds(odds: float, side: int) -> _End:
    """Return the probability 1/(1 + e^-`odds`) with its logarithm, rounded down (`side` -1) or up (1).

    `odds` are log odds in nats. Infinite ones are exact.
    """
    if math.isinf(odds):
        return _End(1.0, 0.0) if odds > 0 else _End(0.0, -math.inf)
    tail = math.exp(-abs(odds))
    value = 1 / (1 + tail) if odds >= 0 else tail / (1 + tail)
    log = min(-softplus(-odds) * (1 - side * SLACK) + side * SMALLEST, 0.0)
    return _End(min(max(value * (1 + side * SLACK) + side * TINY, 0.0), 1.0), log)


def _enclosure(lower: _End, upper: _End, evidence: Evidence) -> Enclosure:
    return Enclosure(lower.value, upper.value, evidence, lower.log, upper.log)
