"""Membership inference by an attacker with a prior: accuracy, predictive values, advantage.

p is the prior probability that the record was used, independent of the other records; alpha is the false positive rate.
The formulas follow Thudi et al. 2022 (pure DP). For general curves the curve bounds the likelihoods of the attacker:
among all tests of rate alpha the true positive rate lies between f(1 - alpha) and 1 - f(alpha).

All bounds are those of the curve, moved outwards by the rounding error of the formula. They hold against 700 digits on
curves of pure DP with epsilon up to 1e6, and p and alpha from 1e-300 to within 1e-16 of 1
(`tests/privacy/questions/test_membership_ranges.py`). Their distance is below 3e-8 of a value above 1e-290. All
functions raise OutOfDomain for a p or an alpha outside [0, 1].
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.bayes import Odds, posterior, posterior_at_log_ratio, widened
from service.privacy.questions.complement import power_at_complement, type_two_error_at_complement
from service.privacy.questions.reading import Reading, SafeEnd, check_probabilities
from service.privacy.trade_off.abstract import AbstractTradeOff

Side = Literal["at_most", "at_least"]

THUDI = "Thudi et al. 2022 (Bounding Membership Inference), Theorem 1 and Corollary 1, for any trade-off curve"
ADVANTAGE = "advantage = delta(0), the total variation distance"
BAYES = "largest Bayes accuracy = (1 - p) + p delta(ln((1 - p)/p)), by the convex conjugate"
LIMIT_OF_NEGATIVES = "At false positive rate 1 the attack calls nobody a non-member. The value is a limit."
LIMIT = "At false positive rate 0 the attack calls nobody a member. The value is the limit for small rates."


UNBOUNDED: Final = (
    "The value is always {value} for this mechanism, because likelihood ratios are unbounded and "
    "rare outputs settle membership. Send {question} with a false_positive_rate for the success "
    "of an attack with typical outputs."
)


def advantage(curve: AbstractTradeOff) -> Reading:
    """Return the membership advantage, the largest power - alpha over all false positive rates alpha.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.

    Returns
    -------
    Reading
        The advantage delta(0) in [0, 1]. The upper bound never overstates privacy.
    """
    return Reading(curve.profile_at(0.0), "upper", ADVANTAGE)


def attack_accuracy(curve: AbstractTradeOff, prior: float, false_positive_rate: float | None = None) -> Reading:
    """Return the largest accuracy of a membership attack, at a given false positive rate or at the best one.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    prior : float
        Probability p of membership, in [0, 1].
    false_positive_rate : float, optional
        Rate alpha of the attack, in [0, 1]; None for the best rate.

    Returns
    -------
    Reading
        The accuracy in [0, 1]. The upper bound never overstates privacy.

    Notes
    -----
    At a given rate the accuracy is p power + (1 - p)(1 - alpha). The largest accuracy over all rates is (1 - p) + p
    delta(ln((1 - p)/p)). For p > 1/2 the symmetric formula p + (1 - p) delta_swapped(ln(p/(1 - p))) uses the profile of
    the swapped hypotheses. All terms are positive. The accuracy is exactly 1 for p = 0 and p = 1.
    """
    check_probabilities(prior=prior)
    if false_positive_rate is None:
        return Reading(_bayes_accuracy(curve, prior), "upper", BAYES)
    check_probabilities(false_positive_rate=false_positive_rate)
    power = curve.power_at(false_positive_rate)
    correct = (1 - prior) * (1 - false_positive_rate)
    if prior in (0.0, 1.0):
        lower, upper = (correct, correct) if prior == 0 else (power.lower, power.upper)
        value = Enclosure(lower, upper, curve.evidence) if prior == 1 else widened(lower, upper, curve.evidence)
    else:
        value = widened(prior * power.lower + correct, prior * power.upper + correct, curve.evidence)
    return Reading(value, "upper", "p power + (1 - p)(1 - alpha)")


def positive_predictive_value(
    curve: AbstractTradeOff, prior: float, false_positive_rate: float | None = None, side: Side = "at_most"
) -> Reading:
    """Return the largest or smallest positive predictive value, P(member | attacker says member).

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    prior : float
        Probability p of membership, in [0, 1].
    false_positive_rate : float, optional
        Rate alpha of the attack, in [0, 1]; None for the supremum or infimum over all rates.
    side : {"at_most", "at_least"}
        The largest or the smallest value.

    Returns
    -------
    Reading
        The probability. The upper bound ("at_most") or the lower bound ("at_least") never overstates privacy.

    Notes
    -----
    At rate alpha the value is at most p power/(p power + (1 - p) alpha) and at least p f(1 - alpha)/(p f(1 - alpha) +
    (1 - p) alpha). Over all rates it is p e^L/(p e^L + 1 - p) at the extreme log-likelihood ratios L. At rate 0 the
    quotient is 0/0 unless the power is positive there. Then the answer is the limit of small rates, with a note. The
    value is 0 for p = 0 and 1 for p = 1.
    """
    check_probabilities(prior=prior)
    safe: SafeEnd = "upper" if side == "at_most" else "lower"
    if prior in (0.0, 1.0):
        return Reading(Enclosure.point(prior), safe, THUDI)
    check_probabilities(false_positive_rate=false_positive_rate or 0.0)
    if not false_positive_rate:
        ratio = largest_log_ratio(curve) if side == "at_most" else _inf_ratio(curve)
        notes = () if false_positive_rate is None else (LIMIT,)
        notes += unbounded(ratio, "1" if side == "at_most" else "0", "positive_predictive_value")
        found = posterior_at_log_ratio(Odds.of(prior), ratio)
        return Reading(_on_side(found, prior, side), safe, THUDI, notes)
    alpha = Enclosure.point(false_positive_rate)
    if side == "at_most":
        truth = curve.power_at(false_positive_rate)
    else:
        truth = type_two_error_at_complement(curve, false_positive_rate)
    return Reading(_on_side(posterior(Odds.of(prior), truth, alpha), prior, side), safe, THUDI)


def negative_predictive_value(
    curve: AbstractTradeOff, prior: float, false_positive_rate: float | None = None, side: Side = "at_most"
) -> Reading:
    """Return the largest or smallest negative predictive value, P(no member | attacker says no member).

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    prior : float
        Probability p of membership, in [0, 1].
    false_positive_rate : float, optional
        Rate alpha of the attack, in [0, 1]; None for the supremum or infimum over all rates.
    side : {"at_most", "at_least"}
        The largest or the smallest value.

    Returns
    -------
    Reading
        The probability. The upper bound ("at_most") or the lower bound ("at_least") never overstates privacy.

    Notes
    -----
    At rate alpha the value is at most (1 - p)(1 - alpha)/((1 - p)(1 - alpha) + p f(alpha)). The smallest value has 1 -
    f(1 - alpha) in the place of f(alpha). Over all rates the value is (1 - p)/((1 - p) + p e^L) at the extreme
    log-likelihood ratios L. At rate 1 the attack calls nobody a non-member. Then the answer is the limit, with a note.
    The value is 1 for p = 0 and 0 for p = 1.
    """
    check_probabilities(prior=prior)
    safe: SafeEnd = "upper" if side == "at_most" else "lower"
    if prior in (0.0, 1.0):
        return Reading(Enclosure.point(1 - prior), safe, THUDI)
    check_probabilities(false_positive_rate=false_positive_rate or 0.0)
    if false_positive_rate in (None, 1):
        ratio = _inf_ratio(curve) if side == "at_most" else largest_log_ratio(curve)
        notes = () if false_positive_rate is None else (LIMIT_OF_NEGATIVES,)
        notes += unbounded(ratio, "1" if side == "at_most" else "0", "negative_predictive_value")
        found = posterior_at_log_ratio(Odds.of(prior).reversed(), -ratio)
        return Reading(_on_side(found, _rest(prior, side), side), safe, THUDI, notes)
    if side == "at_most":
        miss = curve.type_two_error(np.array([false_positive_rate])).at(0, curve.evidence)
    else:
        miss = power_at_complement(curve, false_positive_rate)
    found = posterior(Odds.of(prior).reversed(), widened_rest(false_positive_rate), miss)
    return Reading(_on_side(found, _rest(prior, side), side), safe, THUDI)


def advantage_over_prior(curve: AbstractTradeOff, prior: float) -> Reading:
    """Return the advantage over the prior p, 2 (largest positive predictive value - p).

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    prior : float
        Probability p of membership, in [0, 1].

    Returns
    -------
    Reading
        The advantage in [0, 2]. The upper bound never overstates privacy.

    Notes
    -----
    With L the largest log-likelihood ratio and the positive predictive value PPV = p/(p + (1 - p) e^-L), the value is 2
    PPV (1 - p)(1 - e^-L).
    """
    check_probabilities(prior=prior)
    ratio = largest_log_ratio(curve)
    source = "Thudi et al. 2022, Equation 5, for any trade-off curve"
    if prior in (0.0, 1.0) or ratio.upper <= 0:
        return Reading(Enclosure.point(0.0), "upper", source)
    ppv = posterior_at_log_ratio(Odds.of(prior), ratio)
    lower = 2 * ppv.lower * ((1 - prior) * -math.expm1(-max(ratio.lower, 0.0)))
    upper = 2 * ppv.upper * ((1 - prior) * -math.expm1(-ratio.upper))
    value = widened(lower, upper, ratio.evidence, largest=2 * _rest_above(prior))
    return Reading(value, "upper", source, unbounded(ratio, "2 (1 - prior)", "positive_predictive_value"))


def _on_side(found: Enclosure, before: float, side: Side) -> Enclosure:
    """Return the enclosure `found` of a posterior probability, limited by the prior `before`.

    It is at least the prior for the best attack, and at most the prior for the worst attack (`side` "at_least").
    """
    return found.within(before, 1.0) if side == "at_most" else found.within(0.0, before)


def _rest(prior: float, side: Side) -> float:
    """Return 1 - `prior`, rounded down; rounded up for `side` "at_most", where the value is an upper limit."""
    above = _rest_above(prior)
    return above if side == "at_least" or 1 - above == prior else math.nextafter(above, 0.0)


def _rest_above(prior: float) -> float:
    """Return the smallest double that is at least 1 - `prior`, which no advantage over the prior exceeds."""
    rest = 1 - prior
    return rest if 1 - rest <= prior else math.nextafter(rest, 2.0)


def unbounded(log_ratio: Enclosure, value: str, question: str) -> tuple[str, ...]:
    """Return the note that all mechanisms with an infinite likelihood ratio have the same answer, or an empty tuple.

    `log_ratio` encloses ln of the likelihood ratio; the result is empty if the ratio is finite. `value` is the answer
    in words, and `question` its name.
    """
    surely = log_ratio.lower == math.inf or log_ratio.upper == -math.inf
    return (UNBOUNDED.format(value=value, question=question),) if surely else ()


def widened_rest(rate: float) -> Enclosure:
    """Enclose 1 - `rate`; the rounded difference is within half an ulp (unit in the last place)."""
    rest = 1 - rate
    if 1 - rest == rate:
        return Enclosure.point(rest)
    return Enclosure(rest * (1 - UNIT_ROUNDOFF * 2), min(rest * (1 + UNIT_ROUNDOFF * 2), 1.0), Evidence.EXACT)


def largest_log_ratio(curve: AbstractTradeOff) -> Enclosure:
    """Return the largest log-likelihood ratio of a curve, ln sup power/alpha over all false positive rates.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.

    Returns
    -------
    Enclosure
        The ratio in nats; infinite if H1 has mass outside H0.
    """
    largest, singular = curve.largest_log_ratio, curve.singular_power
    if singular.lower > 0:
        return Enclosure.point(math.inf)
    return Enclosure(largest.lower, math.inf, largest.evidence) if singular.upper > 0 else largest


def _bayes_accuracy(curve: AbstractTradeOff, prior: float) -> Enclosure:
    if prior in (0.0, 1.0):
        return Enclosure.point(1.0)
    larger = max(prior, 1 - prior)
    smaller = min(prior, 1 - prior)
    read = curve if prior <= 0.5 else curve.reversed()
    threshold = abs(Odds.of(prior).log()) if prior != 0.5 else 0.0
    slack = 8 * UNIT_ROUNDOFF * (1 + threshold) if prior != 0.5 else 0.0
    profile = read.profile(np.array([threshold + slack, max(threshold - slack, 0.0)]))
    lower, upper = float(profile.lower[0]), float(profile.upper[1])
    value = widened(larger + smaller * lower, larger + smaller * upper, curve.evidence)
    return value.within(prior if prior > 0.5 else _rest(prior, "at_most"), 1.0)


def _inf_ratio(curve: AbstractTradeOff) -> Enclosure:
    """Return the smallest log-likelihood ratio (nats) of a curve; minus infinity where H0 has mass outside H1."""
    smallest, singular = curve.smallest_log_ratio, curve.reversed().singular_power
    if singular.lower > 0:
        return Enclosure.point(-math.inf)
    return Enclosure(-math.inf, smallest.upper, smallest.evidence) if singular.upper > 0 else smallest
