"""Privacy parameters proved by the counts of an attack, from Clopper-Pearson bounds of its rates.

All numbers hold with the stated confidence: both rates lie in their intervals simultaneously (Bonferroni over both
intervals and both bounds of each).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import OutOfDomain

TAIL_MARGIN = 1e-9
"""Relative margin of scipy's incomplete beta function below the tail, much larger than its error."""
FIRST_STEP = 2.0**-50
QUANTILE_ERROR = 1e-13
"""Assumed relative error of scipy's normal quantile and of the logarithms."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Confidence interval of a success rate and of its complement.

    Attributes
    ----------
    estimate : float
        Share of successes.
    lower, upper : float
        Bounds of the rate.
    complement_lower, complement_upper : float
        Bounds of 1 - rate, computed without the rounding error of the difference.
    """

    estimate: float
    lower: float
    upper: float
    complement_lower: float
    complement_upper: float

    def reversed(self) -> Rate:
        """Return the interval of the failure rate, 1 - rate."""
        return Rate(
            estimate=1 - self.estimate,
            lower=self.complement_lower,
            upper=self.complement_upper,
            complement_lower=self.lower,
            complement_upper=self.upper,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Confidence region of the two rates of an attack.

    Attributes
    ----------
    true_positive_rate, false_positive_rate : Rate
        Intervals that contain both true rates simultaneously, with the confidence of the region.
    """

    true_positive_rate: Rate
    false_positive_rate: Rate

    def reversed(self) -> Region:
        """Return the region of rates of the attack that makes the opposite decisions."""
        return Region(
            true_positive_rate=self.true_positive_rate.reversed(),
            false_positive_rate=self.false_positive_rate.reversed(),
        )

    def oriented(self) -> tuple[Region, Region]:
        """Return this region of an attack's rates, and the region of the attack that makes the opposite decisions.

        Bounds of privacy parameters take the larger result of both.
        """
        return self, self.reversed()


def region(true_positives: int, members: int, false_positives: int, non_members: int, confidence: float) -> Region:
    """Build the confidence region of both rates of an attack from two Clopper-Pearson intervals.

    Parameters
    ----------
    true_positives, members, false_positives, non_members : int
        Counts up to 1e9.
    confidence : float
        Simultaneous confidence in (0, 1).

    Returns
    -------
    Region
        Intervals of the true positive rate and of the false positive rate, each with the error probability (1 -
        confidence)/2.

    Raises
    ------
    OutOfDomain
        If `members` or `non_members` is below 1, or a number of positives is not between 0 and the number of its
        records.

    Notes
    -----
    The bounds are rounded outwards by a relative amount of at most 1e-8. Tests compare them with exact sums up to 40
    trials and with closed forms at 1e9.

    References
    ----------
    Clopper and Pearson 1934; Bonferroni for the two rates.
    """
    tail = (1 - confidence) / 4
    return Region(
        true_positive_rate=clopper_pearson(true_positives, members, tail, "members", "true_positives"),
        false_positive_rate=clopper_pearson(false_positives, non_members, tail, "non_members", "false_positives"),
    )


def clopper_pearson(
    successes: int, trials: int, tail: float, trials_name: str = "trials", successes_name: str = "successes"
) -> Rate:
    """Return the Clopper-Pearson interval of a rate, given `successes` out of `trials`.

    The interval is wrong with probability at most `tail` on either side. `lower` solves P(Bin(trials, p) >= successes)
    = tail for p, and `upper` solves P(Bin(trials, p) <= successes) = tail. Raises OutOfDomain for impossible counts,
    with the names `trials_name` and `successes_name`.
    """
    if trials < 1:
        raise OutOfDomain(trials_name, trials, "at least 1")
    if not 0 <= successes <= trials:
        raise OutOfDomain(successes_name, successes, f"from 0 to {trials_name}")
    failures = trials - successes
    return Rate(
        estimate=successes / trials,
        lower=_lower_end(successes, trials, tail),
        upper=_upper_end(successes, trials, tail),
        complement_lower=_lower_end(failures, trials, tail),
        complement_upper=_upper_end(failures, trials, tail),
    )


def _lower_end(successes: int, trials: int, tail: float) -> float:
    from scipy.special import betainc, betaincinv

    if successes == 0:
        return 0.0
    parameters = float(successes), float(trials - successes + 1)
    end = float(betaincinv(*parameters, tail * (1 - 2 * TAIL_MARGIN)))
    step = FIRST_STEP
    while float(betainc(*parameters, end)) > tail * (1 - TAIL_MARGIN):
        end, step = end * (1 - step), 2 * step
    return end


def _upper_end(successes: int, trials: int, tail: float) -> float:
    from scipy.special import betaincc, betainccinv

    if successes == trials:
        return 1.0
    parameters = float(successes + 1), float(trials - successes)
    end = float(betainccinv(*parameters, tail * (1 - 2 * TAIL_MARGIN)))
    step = FIRST_STEP
    while end < 1 and float(betaincc(*parameters, end)) > tail * (1 - TAIL_MARGIN):
        end, step = min(end * (1 + step), 1.0), 2 * step
    return end


def gdp_mu(rates: Region) -> Enclosure:
    """Return the smallest mu for which mu-GDP allows the attack's true rates.

    Parameters
    ----------
    rates : Region
        Confidence region of the true and the false positive rate.

    Returns
    -------
    Enclosure
        With the confidence of the region, the mechanism is not mu-GDP for any mu below `lower`.

    Notes
    -----
    mu is Phi^-1(TPR) - Phi^-1(FPR) for the true and the false positive rate, or that value for the opposite decisions,
    if larger. The error is below 1e-10 for rates of at least 1e-9 (tested).

    References
    ----------
    Dong, Roth, Su 2022, the trade-off curve G_mu.
    """
    ends = [_mu(side.true_positive_rate, side.false_positive_rate) for side in rates.oriented()]
    return Enclosure(max(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends)), Evidence.STATISTICAL)


def epsilon(rates: Region, delta: float) -> Enclosure:
    """Return the smallest epsilon (nats) for which (epsilon, delta)-DP allows the attack's true rates.

    Parameters
    ----------
    rates : Region
        Confidence region of the true and the false positive rate.
    delta : float
        In [0, 1].

    Returns
    -------
    Enclosure
        With the confidence of the region, the mechanism is not (epsilon, delta)-DP for any epsilon below `lower`.

    Notes
    -----
    TPR and FPR are the true and the false positive rate. epsilon is the largest of 0, ln((TPR - delta)/FPR) and ln((1 -
    FPR - delta)/(1 - TPR)), for the attack and for the opposite decisions. The error is below 1e-11 (tested at rates of
    a few percent).

    References
    ----------
    Kairouz, Oh, Viswanath 2015, Theorem 2.1.
    """
    ends: list[tuple[float, float]] = []
    for side in rates.oriented():
        hits, alarms = side.true_positive_rate, side.false_positive_rate
        ends.append((_ratio(hits.lower - delta, alarms.upper, -1), _ratio(hits.upper - delta, alarms.lower, 1)))
        misses, passes = hits.reversed(), alarms.reversed()
        ends.append((_ratio(passes.lower - delta, misses.upper, -1), _ratio(passes.upper - delta, misses.lower, 1)))
    return Enclosure(max(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends)), Evidence.STATISTICAL)


def _ratio(numerator: float, denominator: float, sign: int) -> float:
    """Return ln(numerator/denominator), rounded down (`sign` -1) or up (1).

    The result is -inf if the numerator is not positive, otherwise inf if the denominator is 0.
    """
    if numerator <= 0:
        return -math.inf
    if denominator == 0:
        return math.inf
    # The numerator results from a subtraction of delta, with a rounding error relative to numbers up to 1.
    error = 2.0**-52 / numerator + QUANTILE_ERROR
    high, low = math.log(numerator), math.log(denominator)
    return high - low + sign * (error + QUANTILE_ERROR * (abs(high) + abs(low)))


def _mu(hits: Rate, alarms: Rate) -> tuple[float, float]:
    low = _difference(
        _quantile(hits.lower, hits.complement_upper), _quantile(alarms.upper, alarms.complement_lower), -1
    )
    high = _difference(
        _quantile(hits.upper, hits.complement_lower), _quantile(alarms.lower, alarms.complement_upper), 1
    )
    return low, high


def _quantile(rate: float, complement: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(rate)) if rate < complement else -float(ndtri(complement))


def _difference(larger: float, smaller: float, sign: int) -> float:
    if math.isinf(larger) or math.isinf(smaller):
        return larger if math.isinf(larger) else -smaller
    return larger - smaller + sign * QUANTILE_ERROR * (1 + abs(larger) + abs(smaller))
