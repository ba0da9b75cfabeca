"""Runs of steps that are (epsilon, delta)-DP and no more: which of them have exact curves, and what these are.

For the worst pair such a step is a randomised response that with probability delta tells everything (Kairouz, Oh,
Viswanath 2015, Theorem 2.1); both are attained by that mechanism in every step, so that the run's curve is tight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.privacy.mechanisms.abstract import Steps
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.with_singular_mass import SingularMass, WithSingularMass

LARGEST_DEVIATION: Final = 5_000.0
"""Of the number of true answers of equal steps: sums are about fifty times as long."""
MOST_LOSSES: Final = 2**12
"""Of different steps, in each of two lists."""
LARGEST_LOSS: Final = 600.0
"""Nats: beyond it masses leave the range of doubles."""
MOST_ANSWERS: Final = 900
"""Of different steps: 2^-this is a normal double."""

Kinds: TypeAlias = tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class Responses:
    """A run: how often each epsilon > 0 occurs, largest first, and each delta > 0."""

    answers: Kinds
    deltas: Kinds

    @property
    def deviation(self) -> float:
        """Of the number of true answers where all epsilons are equal."""
        epsilon, count = self.answers[0]
        return math.sqrt(count) / (2 * math.cosh(min(epsilon / 2, 700.0)))


def responses_of(steps: Steps) -> Responses | None:
    """The run, if it consists of such steps alone and its curve is in reach of exact sums."""
    answers: dict[float, int] = {}
    deltas: dict[float, int] = {}
    for step, count in steps:
        if not isinstance(step, PureDp | ApproximateDp):
            return None
        delta = float(step.delta) if isinstance(step, ApproximateDp) else 0.0
        answers[float(step.epsilon)] = answers.get(float(step.epsilon), 0) + count
        deltas[delta] = deltas.get(delta, 0) + count
    answers.pop(0.0, None)
    deltas.pop(0.0, None)
    run = Responses(tuple(sorted(answers.items(), reverse=True)), tuple(sorted(deltas.items())))
    return run if _in_reach(run) else None


def _in_reach(run: Responses) -> bool:
    if len(run.answers) <= 1:
        return not run.answers or run.deviation <= LARGEST_DEVIATION
    if sum(epsilon * count for epsilon, count in run.answers) > LARGEST_LOSS:
        return False
    if sum(count for _, count in run.answers) > MOST_ANSWERS:
        return False
    return max(math.prod(count + 1 for _, count in half) for half in halves(run.answers)) <= MOST_LOSSES


def halves(kinds: Kinds) -> tuple[Kinds, Kinds]:
    """The kinds in two lists, with about as many sums of losses each."""
    lists: tuple[list[tuple[float, int]], list[tuple[float, int]]] = ([], [])
    sizes = [1, 1]
    for kind in sorted(kinds, key=lambda kind: -kind[1]):
        smaller = int(sizes[1] < sizes[0])
        lists[smaller].append(kind)
        sizes[smaller] *= kind[1] + 1
    return tuple(lists[0]), tuple(lists[1])


def response_curve(run: Responses) -> AbstractTradeOff:
    """The curve of a run in reach, its own inverse."""
    from service.privacy.composition.equal_responses import EqualResponses

    curve: AbstractTradeOff = ApproximateDpTradeOff(0.0, 0.0)
    if len(run.answers) > 1:
        from service.privacy.composition.different_responses import DifferentResponses

        curve = DifferentResponses(*halves(run.answers))
    for epsilon, count in run.answers if len(run.answers) == 1 else ():
        curve = ApproximateDpTradeOff(epsilon, 0.0) if count == 1 else EqualResponses(count, epsilon)
    return WithSingularMass(curve, SingularMass.of(run.deltas)) if run.deltas else curve
