"""Runs of (epsilon, delta)-DP steps without further structure: their exact curves and limits.

The worst pair of such a step is a randomised response: it reveals everything with probability delta, and else has the
loss +epsilon (a true answer) or -epsilon (Kairouz, Oh, Viswanath 2015, Theorem 2.1). Randomised response is a mechanism
that attains the worst case in every step, so the curve of the run is tight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.with_singular_mass import with_singular_mass

LARGEST_DEVIATION: Final = 5_000.0
"""Largest deviation of the number of true answers of equal steps. Sums are about fifty times as long."""
MOST_SUMS: Final = 2**12
"""Largest number of sums of losses of different steps, in each of two lists."""
MOST_LOSSES: Final = 2**15
"""Largest number of different losses if most sums coincide, in each of two lists."""
ALIKE: Final = 1e-11
"""Relative remainder of an epsilon, after subtraction of a multiple, that counts as rounding."""
LARGEST_LOSS: Final = 600.0
"""Largest loss in nats. Beyond it masses leave the range of doubles."""
SMOOTHED: Final = (1e-100, 1e9)
"""Range of the largest loss, in nats, of runs with contour inversion.

Outside, the squares of tilts overflow, or the rounding of thresholds is too large.
"""
MOST_ANSWERS: Final = 900
"""Largest number of different steps. 2^-MOST_ANSWERS is a normal double."""

Kinds: TypeAlias = tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class Responses:
    """Run of (epsilon, delta)-DP steps: pairs (epsilon, count) and pairs (delta, count).

    `answers` lists each epsilon > 0 with its count, largest first, and `deltas` each delta > 0 with its count.
    """

    answers: Kinds
    deltas: Kinds

    @property
    def deviation(self) -> float:
        """Standard deviation of the number of losses +epsilon among the steps with the largest epsilon."""
        epsilon, count = self.answers[0]
        return math.sqrt(count) / (2 * math.cosh(min(epsilon / 2, 700.0)))


def responses_of(steps: Steps) -> Responses | None:
    """Return the run, if all steps are (epsilon, delta)-DP steps and the losses have few enough values for exact sums.

    The result is None otherwise. The limits are `MOST_LOSSES` values on a common lattice, and `MOST_SUMS` values else.
    """
    run = any_responses_of(steps)
    return run if run is not None and _in_reach(run) else None


def any_responses_of(steps: Steps) -> Responses | None:
    """Return the run of (epsilon, delta)-DP steps if there are no other steps, else None."""
    answers: dict[float, int] = {}
    deltas: dict[float, int] = {}
    for step, count in steps:
        part = step.two_point()
        if part is None:
            return None
        answers[part.epsilon] = answers.get(part.epsilon, 0) + count
        deltas[part.delta] = deltas.get(part.delta, 0) + count
    answers.pop(0.0, None)
    deltas.pop(0.0, None)
    return Responses(tuple(sorted(answers.items(), reverse=True)), tuple(sorted(deltas.items())))


def _in_reach(run: Responses) -> bool:
    if len(run.answers) <= 1:
        return not run.answers or run.deviation <= LARGEST_DEVIATION
    if sum(epsilon * count for epsilon, count in run.answers) > LARGEST_LOSS:
        return False
    if sum(count for _, count in run.answers) > MOST_ANSWERS:
        return False
    return all(map(_are_few, halves(run.answers)))


def _are_few(kinds: Kinds) -> bool:
    losses = losses_of(kinds)
    return losses <= (MOST_LOSSES if losses < _sums_of(kinds) else MOST_SUMS)


def _sums_of(kinds: Kinds) -> int:
    return math.prod(count + 1 for _, count in kinds)


def losses_of(kinds: Kinds) -> int:
    """Return an upper bound of the number of different sums of losses +-epsilon, for kinds (epsilon, count).

    The bound counts all combinations of signs, kind by kind. If there are more than `MOST_SUMS` of them and the
    epsilons have a common divisor up to rounding, it counts the multiples of this divisor that sums may reach.
    """
    every = _sums_of(kinds)
    if every <= MOST_SUMS:
        return every
    unit = _unit(tuple(epsilon for epsilon, _ in kinds), sum(epsilon * count for epsilon, count in kinds))
    return every if unit is None else 1 + sum(count * round(epsilon / unit) for epsilon, count in kinds)


def _unit(epsilons: tuple[float, ...], largest: float) -> float | None:
    """Return an approximate common divisor of all epsilons (Euclid's algorithm), or None.

    The approximation changes sums of losses up to `largest` only by their rounding.

    The result is None if the divisor is below `largest`/2^15, or if an epsilon is no multiple of it up to 8 units of
    rounding.
    """
    unit, least = epsilons[0], largest / MOST_LOSSES
    for epsilon in epsilons[1:]:
        rest = epsilon
        while rest > ALIKE * epsilon:
            unit, rest = rest, abs(unit - rest * round(unit / rest))
            if unit < least:
                return None
    unit = epsilons[0] / round(epsilons[0] / unit)
    off = max(abs(epsilon - unit * round(epsilon / unit)) / epsilon for epsilon in epsilons)
    return unit if off <= 8 * UNIT_ROUNDOFF else None


def halves(kinds: Kinds) -> tuple[Kinds, Kinds]:
    """Split the kinds (epsilon, count) into two lists with about as many sums of losses +-epsilon each."""
    lists: tuple[list[tuple[float, int]], list[tuple[float, int]]] = ([], [])
    sizes = [1, 1]
    for kind in sorted(kinds, key=lambda kind: -kind[1]):
        smaller = int(sizes[1] < sizes[0])
        lists[smaller].append(kind)
        sizes[smaller] *= kind[1] + 1
    return tuple(lists[0]), tuple(lists[1])


def smoothed_responses_of(steps: Steps) -> Responses | None:
    """Return the run of (epsilon, delta)-DP steps, if its losses have too many values for exact sums, else None.

    Contour inversion with a little additional Gaussian noise serves such runs, if the sum of all epsilons lies within
    `SMOOTHED`. The result is also None for other steps.
    """
    run = any_responses_of(steps)
    if run is None or _in_reach(run):
        return None
    return run if SMOOTHED[0] <= sum(epsilon * count for epsilon, count in run.answers) <= SMOOTHED[1] else None


def smoothed_curve(run: Responses) -> AbstractTradeOff:
    """Return the curve, its own inverse, of a run of (epsilon, delta)-DP steps, by contour inversion.

    A little additional Gaussian noise gives the loss a density; the bounds allow for this noise.
    """
    from service.privacy.composition.exact_sums.smoothed_responses import SmoothedResponses

    return with_singular_mass(SmoothedResponses(run.answers), run.deltas)


def response_curve(run: Responses) -> AbstractTradeOff:
    """Return the curve, its own inverse, of a run of (epsilon, delta)-DP steps, by exact sums."""
    from service.privacy.composition.exact_sums.different_responses import DifferentResponses
    from service.privacy.composition.exact_sums.equal_responses import EqualResponses

    curve: AbstractTradeOff
    match run.answers:
        case ():
            curve = ApproximateDpTradeOff(0.0, 0.0)
        case ((epsilon, 1),):
            curve = ApproximateDpTradeOff(epsilon, 0.0)
        case ((epsilon, count),):
            curve = EqualResponses(count, epsilon)
        case _:
            curve = DifferentResponses(*halves(run.answers))
    return with_singular_mass(curve, run.deltas)
