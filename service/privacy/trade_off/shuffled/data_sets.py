"""Laws of k-ary randomised response for every data set of a few persons, by listing all reports.

Every report is the own value with probability p/(p + k - 1), and each other value with probability 1/(p + k - 1). The
own value is 0 under H1 and 1 under H0. Shuffled reports are their numbers of each value. Renaming values does not
change a curve. So data sets of the others matter only up to the order of the values 2, ..., k - 1, and exchanging 0 and
1 swaps the hypotheses.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb, log

import numpy as np

from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.shuffled.mean_atoms import law_of_outcomes

MOST_PRODUCTS = 60_000
"""Largest number of products for which all data sets are listed: about 30 milliseconds."""
LEAST_MASS = 600.0
"""Nats: outcomes are listed if none has a probability below e^-LEAST_MASS."""

Counts = tuple[int, ...]


def data_sets(others: int, options: int) -> Iterator[Counts]:
    """Yield, for each data set, how many of `others` persons hold each of `options` values.

    The first number is at least the second, and the further numbers fall, because renamed values have equal curves.
    """
    for first in range(others + 1):
        for second in range(min(first, others - first) + 1):
            rest = others - first - second
            for further in _falling(rest, options - 2, rest):
                yield (first, second, *further)


def _falling(total: int, parts: int, most: int) -> Iterator[Counts]:
    if parts == 0:
        if total == 0:
            yield ()
        return
    for head in range(min(total, most), -(-total // parts) - 1, -1):
        for tail in _falling(total - head, parts - 1, head):
            yield (head, *tail)


def can_list(reports: int, options: int, epsilon: float) -> bool:
    """Return whether the laws of all data sets of `reports` persons and `options` values are listed at little cost.

    `epsilon` is eps0, nats. Laws are not listed if probabilities of outcomes would underflow.
    """
    if reports > 60 or options > 60 or reports * (epsilon + log(options)) > LEAST_MASS:
        return False
    products = reports * options * comb(reports + options - 1, options - 1)
    return all(number * products <= MOST_PRODUCTS for number, _ in enumerate(data_sets(reports - 1, options), 1))


@lru_cache(maxsize=8)
def listed_responses(reports: int, options: int, ratio: float, error: float) -> tuple[AtomicLaw, ...]:
    """Return the law of the loss for every data set of the others.

    Parameters
    ----------
    reports, options : int
        Number n of reports, and number k of values.
    ratio, error : float
        p = e^eps0 and its relative error.

    Returns
    -------
    tuple of AtomicLaw
        Laws of the own value 0 (H1) against the own value 1 (H0).
    """
    found: list[AtomicLaw] = []
    for others in data_sets(reports - 1, options):
        known = {(0,) * options: 1.0}
        for value, count in enumerate(others):
            for _ in range(count):
                known = _with_report(known, value, ratio)
        present, absent = _with_report(known, 0, ratio), _with_report(known, 1, ratio)
        count_work(0.5 * reports * len(present) * options)
        logs = [np.log(np.array([law[counts] for counts in present])) for law in (absent, present)]
        relative = 2 * reports * error + (options + 6) * reports * UNIT_ROUNDOFF + 2 * FUNCTION_ERROR
        relative += FUNCTION_ERROR * float(max(np.abs(each).max() for each in logs))
        found.append(law_of_outcomes(logs[0], logs[1], relative, others[0] == others[1]))
    return tuple(found)


def _with_report(known: dict[Counts, float], value: int, ratio: float) -> dict[Counts, float]:
    """Return the law of the counts with one more report of a person who holds `value`.

    `known` is the law without this report, and `ratio` is e^epsilon.
    """
    options = len(next(iter(known)))
    other = 1 / (ratio + options - 1)
    chances = [ratio * other if each == value else other for each in range(options)]
    found: dict[Counts, float] = {}
    for counts, mass in known.items():
        for each, chance in enumerate(chances):
            more = (*counts[:each], counts[each] + 1, *counts[each + 1 :])
            found[more] = found.get(more, 0.0) + mass * chance
    return found
