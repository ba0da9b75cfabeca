"""List of all outcomes of a mean form (`mean_form.py`) with few reports, as a law of the privacy loss.

The counts N_i have the multinomial mass W(N) under the reference measure, and the masses W(N) A/n and W(N) B/n with A =
sum N_i alpha_i and B = sum N_i beta_i. The loss is ln A - ln B.
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.shuffled.mean_form import MeanForm

A_OUTCOME = 0.2
"""Work of an outcome, in microseconds."""


def listed_mean(form: MeanForm) -> AtomicLaw:
    """Return the law of the loss of a mean form.

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


def law_of_outcomes(log_absent: FloatArray, log_present: FloatArray, error: float, is_symmetric: bool) -> AtomicLaw:
    """Return the law of the loss from the masses of all outcomes.

    Parameters
    ----------
    log_absent, log_present : array, shape (n,)
        ln of the masses under both hypotheses.
    error : float
        Bound of the errors of the logarithms.
    is_symmetric : bool
        Whether swapped hypotheses give the same law exactly.

    Returns
    -------
    AtomicLaw
        Losses within 64 roundings of their largest are one value: the largest of them.
    """
    loss = log_present - log_absent
    order = np.argsort(-loss, kind="stable")
    loss, masses = loss[order], [log_absent[order], log_present[order]]
    reach = max(float(np.abs(loss).max()), 1e-300)
    starts = np.concatenate([[True], -np.diff(loss) > 64 * UNIT_ROUNDOFF * (1 + reach)])
    index = np.flatnonzero(starts)
    spread = float((loss[index] - loss[np.append(index[1:], len(loss)) - 1]).max())
    absent, present = (np.logaddexp.reduceat(each, index) for each in masses)
    losses = loss[index]
    terms = int(np.diff(np.append(index, len(loss))).max())
    more = (terms + 8) * 8 * UNIT_ROUNDOFF
    position = 2 * error + spread + 4 * UNIT_ROUNDOFF * (1 + reach)
    return AtomicLaw(
        losses,
        losses[:-1] - losses[1:],
        absent,
        present,
        position,
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
