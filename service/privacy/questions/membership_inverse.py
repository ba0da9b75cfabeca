"""Inverse membership questions: the epsilon, prior or sampling rate that keeps a promise about membership.

The answers invert closed forms of pure DP. Epsilon (nats) stands for the largest log-likelihood ratio of a curve, so
the inverses hold for every curve with a finite ratio. Answers are largest values, so their lower bound is safe. The
answer None means that not even epsilon 0 surely keeps the promise.

Both bounds hold against 700 digits for epsilon up to 1e6, probabilities from 1e-300 to within 1e-16 of 1, and up to
1e12 deletions (`tests/privacy/questions/test_membership_ranges.py`). Their relative distance is below 1e-13 for
`largest_epsilon` and below 1e-10 for the epsilon of deletions. For a prior or a rate above 1e-290 the distance is below
3e-8. All functions raise OutOfDomain for a probability outside [0, 1], a negative or infinite epsilon, and fewer than
one deletion.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.questions.bayes import SLACK, Odds, posterior_at_log_ratio, widened
from service.privacy.questions.reading import Reading, check_probabilities

ACCURACY: Final = "Thudi et al. 2022, Theorem 1: positive accuracy a <= p/(p + (1 - p) e^-eps), solved for {unknown}"
SUBSAMPLING: Final = "Thudi et al. 2022, Theorem 1 and section 4.2, solved for the rate: T = a/(a + (1 - a) e^eps)"
ADVANTAGE: Final = "Thudi et al. 2022, Equation 5: 2 (positive accuracy - p) is largest at p = 1/(1 + e^{eps/2})"
DELETIONS: Final = (
    "Thudi et al. 2022, section 6, with the right lower bound: (1 + e^{+eps} p/(1 - p))^-m >= B, solved for "
)
NO_ADVANTAGE: Final = "At epsilon 0 the advantage is 0 at every prior."
BITS: Final = 320
LOST: Final = 1e-90
"""Bound of the absolute error of numbers up to 1 with `BITS` bits. 1 - B^{1/m} is at least 1e-28 here."""
LARGEST_EXACT_POWER: Final = 64
"""Largest count of deletions for which exact arithmetic decides (1 - p)^m >= B where rounding leaves it open."""


def largest_epsilon(positive_predictive_value: float, prior: float) -> Reading | None:
    """Return the largest eps for which no positive predictive value P(member | attacker says member) exceeds a.

    u = 2^-53 is the unit of rounding.

    Parameters
    ----------
    positive_predictive_value : float
        The allowed probability a, in [0, 1].
    prior : float
        Probability p of membership, in [0, 1].

    Returns
    -------
    Reading or None
        Epsilon logit a - logit p in nats with relative error at most 32 u, however close a is to p. Infinite for a = 1
        or p = 0. None for a < p.
    """
    target = positive_predictive_value
    check_probabilities(positive_predictive_value=target, prior=prior)
    source = ACCURACY.format(unknown="epsilon")
    if target == 1 or prior == 0:
        return Reading(Enclosure.point(math.inf), "lower", source)
    if target < prior:
        return None
    value = _gap_of_logits(target - prior, prior, 1 - target)
    return Reading(_around(value), "lower", source)


def largest_sampling_rate(positive_predictive_value: float, epsilon: float) -> Reading:
    """Return the largest rate of sampling the data set before an eps-DP release that keeps a promise.

    At this rate no P(member | attacker says member) exceeds a.

    Parameters
    ----------
    positive_predictive_value : float
        The allowed probability a, in [0, 1].
    epsilon : float
        Finite, >= 0, in nats.

    Returns
    -------
    Reading
        The rate a/(a + (1 - a) e^eps). The lower bound never overstates privacy.
    """
    target = positive_predictive_value
    check_probabilities(positive_predictive_value=target)
    _check_epsilon(epsilon)
    if target in (0.0, 1.0):
        return Reading(Enclosure.point(target), "lower", SUBSAMPLING)
    return Reading(posterior_at_log_ratio(Odds.of(target), Enclosure.point(-epsilon)), "lower", SUBSAMPLING)


def prior_of_largest_advantage(epsilon: float) -> tuple[Reading, Reading]:
    """Return the prior at which the advantage over the prior is largest, and this advantage.

    Parameters
    ----------
    epsilon : float
        Finite, >= 0, in nats.

    Returns
    -------
    (Reading, Reading)
        The prior p = 1/(1 + e^{eps/2}) that maximises 2 (largest positive predictive value - p), and the maximum 2
        tanh(eps/4).
    """
    _check_epsilon(epsilon)
    notes = (NO_ADVANTAGE,) if epsilon == 0 else ()
    prior = posterior_at_log_ratio(Odds(0.5, 0.5), Enclosure.point(-epsilon / 2))
    advantage = 2 * math.tanh(epsilon / 4)
    return (
        Reading(prior, "upper", ADVANTAGE, notes),
        Reading(widened(advantage, advantage, Evidence.EXACT, largest=2.0), "upper", ADVANTAGE),
    )


def largest_epsilon_for_deletions(prior: float, confidence: float, deletions: int) -> Reading | None:
    """Return the largest eps with a deletion capacity of at least m at confidence B.

    The capacity is the number of records that, whatever an eps-DP release shows, were all not used with probability at
    least B. u = 2^-53 is the unit of rounding.

    Parameters
    ----------
    prior : float
        Probability p that a record was used, in [0, 1].
    confidence : float
        The required probability B, in [0, 1].
    deletions : int
        The capacity m, at least 1.

    Returns
    -------
    Reading or None
        ln((B^{-1/m} - 1) (1 - p)/p) in nats. Infinite for p = 0 or B = 0. None for p = 1 or B = 1, and where (1 - p)^m
        < B.

    Notes
    -----
    The relative error is at most 64 u plus the error of B^{1/m}, which is 10 u |ln B|/m. This holds however close the
    prior is to 0 or 1, and (1 - p)^m to B.
    """
    check_probabilities(prior=prior, confidence=confidence)
    _check_deletions(deletions)
    source = DELETIONS + "epsilon"
    if prior == 0 or confidence == 0:
        return Reading(Enclosure.point(math.inf), "lower", source)
    if confidence == 1 or prior == 1:
        return None
    if deletions == 1:
        gap = math.fsum((1.0, -confidence, -prior))
        return None if gap < 0 else Reading(_around(_gap_of_logits(gap, prior, confidence)), "lower", source)
    low, high = _gap_of_root(prior, confidence, deletions)
    if low < 0:
        # Without any release, the m records were all not used with probability (1 - prior)^m.
        is_exact = high >= 0 and deletions <= LARGEST_EXACT_POWER
        if not (is_exact and (1 - Fraction(prior)) ** deletions >= Fraction(confidence)):
            return None
    root = _root(confidence, deletions)[1]
    lower = _gap_of_logits(max(low, 0.0), prior, root.upper)
    upper = _gap_of_logits(high, prior, root.lower)
    return Reading(Enclosure(_around(lower).lower, _around(upper).upper, Evidence.EXACT), "lower", source)


def largest_prior_for_deletions(epsilon: float, confidence: float, deletions: int) -> Reading:
    """Return the largest prior with a deletion capacity of at least m at confidence B.

    The capacity is the number of records that, whatever an eps-DP release shows, were all not used with probability at
    least B. u = 2^-53 is the unit of rounding.

    Parameters
    ----------
    epsilon : float
        Finite, >= 0, in nats.
    confidence : float
        The required probability B, in [0, 1].
    deletions : int
        The capacity m, at least 1.

    Returns
    -------
    Reading
        (1 - r)/((1 - r) + r e^eps) with r = B^{1/m}. The lower bound never overstates privacy.

    Notes
    -----
    For m = 1 the prior is one minus the largest positive accuracy at a prior of B, with relative error at most 32 u.
    """
    check_probabilities(confidence=confidence)
    _check_deletions(deletions)
    _check_epsilon(epsilon)
    source = DELETIONS + "the prior"
    if confidence in (0.0, 1.0):
        return Reading(Enclosure.point(1 - confidence), "lower", source)
    ratio = Enclosure.point(-epsilon)
    if deletions == 1:
        return Reading(posterior_at_log_ratio(Odds.of(confidence).reversed(), ratio), "lower", source)
    most, least = _root(confidence, deletions)
    low = posterior_at_log_ratio(Odds(most.lower, least.upper), ratio)
    high = posterior_at_log_ratio(Odds(most.upper, least.lower), ratio)
    value = Enclosure(low.lower, high.upper, Evidence.EXACT, low.log_lower, high.log_upper)
    return Reading(value, "lower", source)


def _gap_of_logits(gap: float, low: float, rest: float) -> float:
    """Return logit(low + gap) - logit(low) as a sum of two terms >= 0, where logit(p) is ln(p/(1 - p)).

    `gap` is at least 0, and `rest` is 1 - low - gap.
    """
    return _log_of_sum_over(low, gap) + _log_of_sum_over(rest, gap)


def _log_of_sum_over(base: float, gap: float) -> float:
    share = gap / base
    # If the quotient overflows, the base is below 1e-300 and its logarithm is far from the logarithm of the sum.
    return math.log1p(share) if math.isfinite(share) else math.log(base + gap) - math.log(base)


def _around(value: float) -> Enclosure:
    """Enclose `value`, a computed difference of ln(p/(1 - p)) at two probabilities p, within its rounding error."""
    step = SMALLEST if value > 0 else 0.0
    return Enclosure(max(value * (1 - SLACK) - step, 0.0), value * (1 + SLACK) + step, Evidence.EXACT)


def _gap_of_root(prior: float, confidence: float, deletions: int) -> tuple[float, float]:
    """Return (lower, upper) bounds of 1 - c^{1/m} - p, with `BITS` bits of precision.

    p is `prior`, c `confidence` and m `deletions`. The difference may cancel, so that doubles are not enough.
    """
    import mpmath

    package: Any = mpmath  # has no types
    library = package.libmp
    exponent = library.mpf_div(
        library.mpf_log(library.from_float(confidence), BITS, "n"), library.from_int(deletions), BITS, "n"
    )
    rest = library.mpf_sub(library.fone, library.mpf_exp(exponent, BITS, "n"), BITS, "n")
    gap = float(library.to_float(library.mpf_sub(rest, library.from_float(prior), BITS, "n")))
    slack = 2 * UNIT_ROUNDOFF * abs(gap) + LOST
    return gap - slack, gap + slack


def _root(confidence: float, deletions: int) -> tuple[Enclosure, Enclosure]:
    """Return enclosures of 1 - r and of r = c^{1/m}, for c = `confidence` in (0, 1) and m = `deletions`."""
    exponent = math.log(confidence) / deletions  # within 9 u
    rest, root = -math.expm1(exponent), math.exp(exponent)
    rest_error = FUNCTION_ERROR + 10 * UNIT_ROUNDOFF
    root_error = FUNCTION_ERROR + 10 * UNIT_ROUNDOFF * abs(exponent)
    return (
        Enclosure(rest * (1 - rest_error), rest * (1 + rest_error), Evidence.EXACT),
        Enclosure(root * (1 - root_error), root * (1 + root_error), Evidence.EXACT),
    )


def _check_epsilon(epsilon: float) -> None:
    if not 0 <= epsilon < math.inf:
        raise OutOfDomain("epsilon", epsilon, "a finite number that is not negative")


def _check_deletions(deletions: int) -> None:
    if deletions < 1:
        raise OutOfDomain("deletions", deletions, "at least 1")
