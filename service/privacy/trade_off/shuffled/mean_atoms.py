"""List of the outcomes of a mean form (`mean_form.py`) as a law of the privacy loss.

The counts N_i have the multinomial mass W(N) under the reference measure, and the masses W(N) A/n and W(N) B/n with A =
sum N_i alpha_i and B = sum N_i beta_i. The loss is ln A - ln B. With few reports, all outcomes are listed.

**Rare categories.** With many reports, nearly all of them may be in one category. Let r be the probability of all other
categories, which are rare. Only outcomes with at most m rare reports are listed. Under both hypotheses one report, at a
random place, has a law of its own, and the other n - 1 are in rare categories with probability r each. More than m rare
reports need at least m of these, so that the masses that are left out are at most C(n - 1, m) r^m <= (n r)^m/m!.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.shuffled.mean_form import MeanForm

A_OUTCOME: Final = 0.2
"""Work of an outcome, in microseconds."""
MOST_OUTCOMES: Final = 6_000
"""Largest number of outcomes of a pair that are listed: about 5 milliseconds."""
MOST_RARE: Final = 200
"""Largest number of rare reports of the outcomes that are listed."""
FAINT: Final = -200.0
"""ln of the largest mass of a single outcome that is left out."""
SMALLEST_DROPPED, LARGEST_DROPPED = -200.0, -150.0
"""ln of the mass below which no further outcomes are listed, and of the largest mass that may be left out."""


def listed_mean(form: MeanForm) -> AtomicLaw:
    """Return the law of the loss of a pair of laws of report counts (mean form), by listing all outcomes.

    Parameters
    ----------
    form : MeanForm
        Pair of laws with few outcomes.

    Returns
    -------
    AtomicLaw
        Every value of the loss. Values that differ by rounding only are one value.
    """
    count_work(A_OUTCOME * form.outcomes)
    counts = _counts(form.reports, len(form.weights)).astype(np.float64)
    weights, present, absent = (
        np.array([float(each) for each in values]) for values in (form.weights, form.present, form.absent)
    )
    numbers = np.arange(1, form.reports + 1, dtype=np.float64)
    factorials = np.concatenate([[0.0], running_sums(np.log(numbers))])
    terms = counts * np.log(weights) - factorials[counts.astype(np.intp)]
    reference = factorials[-1] + terms.sum(axis=1)
    some = counts @ (present + absent) > 0
    counts, reference = counts[some], reference[some]
    logs = [np.log(counts @ ratios) for ratios in (absent, present)]
    size = float(factorials[-1] * 2 + np.abs(terms).sum(axis=1).max() + max(np.abs(each).max() for each in logs))
    error = size * (running_sum_error(form.reports) + 2 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF)
    error += 2 * FUNCTION_ERROR + 4 * form.reports * UNIT_ROUNDOFF
    log_n = math.log(form.reports)
    return law_of_outcomes(reference + logs[0] - log_n, reference + logs[1] - log_n, error, form.is_symmetric)


def rare_reports(form: MeanForm) -> int | None:
    """Return a number m: outcomes with at most m reports outside the most likely category are to be listed.

    The mass of all other outcomes is negligible. The result is None if this needs too many outcomes.
    """
    log_rare = math.log(form.reports * float(1 - max(form.weights)))
    best = None
    for m in range(1, MOST_RARE):
        log_dropped = m * log_rare - math.lgamma(m + 1)
        if math.comb(m + len(form.weights) - 1, m) > MOST_OUTCOMES:
            break
        if log_dropped < LARGEST_DROPPED:
            best = m
        if log_dropped < SMALLEST_DROPPED:
            break
    return best


def listed_rare(form: MeanForm, m: int) -> AtomicLaw:
    """Return the law of the loss for a pair of laws of many reports, nearly all of which are in one category.

    Parameters
    ----------
    form : MeanForm
        Pair of laws.
    m : int
        Largest number of reports in the other categories of the listed outcomes, as by `rare_reports`.

    Returns
    -------
    AtomicLaw
        Every listed value of the loss. Values that differ by rounding only are one value.
    """
    count_work(A_OUTCOME * math.comb(m + len(form.weights) - 1, m))
    common = form.weights.index(max(form.weights))
    rare = [index for index in range(len(form.weights)) if index != common]
    counts = _counts(m, len(form.weights))[:, : len(rare)].astype(np.float64)
    total, share = counts.sum(axis=1), float(1 - form.weights[common])
    numbers = np.arange(m + 1, dtype=np.float64)
    factorials = np.concatenate([[0.0], running_sums(np.log(numbers[1:]))])
    places = np.concatenate([[0.0], running_sums(np.log(form.reports - numbers[:-1]))])
    log_weights = np.array([math.log(form.weights[index]) for index in rare])
    terms = counts * log_weights - factorials[counts.astype(np.intp)]
    others = (form.reports - total) * math.log1p(-share)
    reference = places[total.astype(np.intp)] + others + terms.sum(axis=1)
    means = [_mean_ratios(form, values, common, rare, counts) for values in (form.absent, form.present)]
    differences = tuple(one - other for one, other in zip(form.present, form.absent, strict=True))
    change, size = (
        _mean_ratios(form, each, common, rare, counts) for each in (differences, tuple(map(abs, differences)))
    )
    sizes = places[total.astype(np.intp)] + np.abs(terms).sum(axis=1) + np.abs(others)
    with np.errstate(divide="ignore"):
        logs = np.log(means)
    kept = reference + logs.max(axis=0) > FAINT
    absent, change, size, reference, sizes = (each[kept] for each in (means[0], change, size, reference, sizes))
    logs = logs[:, kept]
    ratio = change / absent
    near = np.abs(ratio) < 0.5
    loss = np.where(near, np.log1p(np.where(near, ratio, 0.0)), logs[1] - logs[0])
    off = np.where(near, 16 * UNIT_ROUNDOFF * size / absent, 2 * FUNCTION_ERROR * (1 + np.abs(logs).sum(axis=0)))
    position = float((off + 2 * FUNCTION_ERROR * np.abs(loss)).max())
    error = (FUNCTION_ERROR + running_sum_error(m + 1) + 8 * UNIT_ROUNDOFF) * sizes
    error += 4 * FUNCTION_ERROR * (1 + np.abs(logs).max(axis=0)) + 4 * UNIT_ROUNDOFF * (m + form.reports * share)
    log_dropped = m * math.log(form.reports * share) - math.lgamma(m + 1)
    law = law_of_outcomes(
        reference + logs[0], reference + logs[1], float(error.max()), form.is_symmetric, (loss, position)
    )
    ends = -math.log(form.swapped().largest_ratio), math.log(form.largest_ratio)
    return replace(
        law,
        dropped=math.exp(max(log_dropped + 1, -740.0)) + len(total) * math.exp(FAINT),
        extremes=(min(ends[0], float(law.losses[-1])), max(ends[1], float(law.losses[0]))),
    )


def _mean_ratios(
    form: MeanForm, ratios: Sequence[Fraction], common: int, rare: Sequence[int], counts: FloatArray
) -> FloatArray:
    """Return, for each outcome, the mean over all reports of the entry of `ratios` that belongs to their category.

    `counts`, shape (outcomes, rare categories), are the reports in the `rare` categories. The others are in `common`.
    """
    rest = (form.reports - counts.sum(axis=1)) / form.reports * float(ratios[common])
    # Products are rounded before the sum, so that opposite ones cancel exactly.
    return rest + (counts * np.array([float(ratios[index] / form.reports) for index in rare])).sum(axis=1)


def law_of_outcomes(
    log_absent: FloatArray,
    log_present: FloatArray,
    error: float,
    is_symmetric: bool,
    losses: tuple[FloatArray, float] | None = None,
) -> AtomicLaw:
    """Return the law of the loss from ln of the masses of all n outcomes under both hypotheses, shape (n,).

    `error` bounds the absolute errors of the logarithms. `is_symmetric` states whether swapped hypotheses give the
    same law exactly. `losses` are the losses, shape (n,), and a bound of their absolute errors in nats; by default
    they follow from the masses. Losses within 64 roundings of their largest are one value: the largest of them.
    """
    loss, off = losses or (log_present - log_absent, 2 * error + 4 * UNIT_ROUNDOFF)
    order = np.argsort(-loss, kind="stable")
    loss, masses = loss[order], [log_absent[order], log_present[order]]
    reach = max(float(np.abs(loss).max()), 1e-300)
    starts = np.concatenate([[True], -np.diff(loss) > 64 * UNIT_ROUNDOFF * reach + min(16 * off, 64 * UNIT_ROUNDOFF)])
    index = np.flatnonzero(starts)
    spread = float((loss[index] - loss[np.append(index[1:], len(loss)) - 1]).max())
    absent, present = (np.logaddexp.reduceat(each, index) for each in masses)
    losses_of_law = loss[index]
    terms = int(np.diff(np.append(index, len(loss))).max())
    more = (terms + 8) * 8 * UNIT_ROUNDOFF
    return AtomicLaw(
        losses_of_law,
        losses_of_law[:-1] - losses_of_law[1:],
        absent,
        present,
        off + spread + 4 * UNIT_ROUNDOFF * reach,
        error + more + 8 * UNIT_ROUNDOFF * float(np.abs(absent).max()),
        is_symmetric=is_symmetric,
    )


def _counts(reports: int, categories: int) -> np.ndarray:
    """Return all vectors of counts >= 0 with the sum `reports`; shape (outcomes, categories)."""
    if categories == 1:
        return np.array([[reports]])
    parts: list[np.ndarray] = []
    for first in range(reports + 1):
        rest = _counts(reports - first, categories - 1)
        parts.append(np.concatenate([np.full((len(rest), 1), first), rest], axis=1))
    return np.concatenate(parts)
