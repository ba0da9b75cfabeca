"""Runs of steps that are (epsilon, delta)-DP and no more: which of them have exact curves, and what these are.

For the worst pair such a step is a randomised response that with probability delta tells everything (Kairouz, Oh,
Viswanath 2015, Theorem 2.1); both are attained by that mechanism in every step, so that the run's curve is tight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from service.privacy.mechanisms.abstract import Steps
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.with_singular_mass import SingularMass, WithSingularMass

LARGEST_DEVIATION: Final = 5_000.0
"""Of the number of true answers: sums are about fifty times as long."""


@dataclass(frozen=True, slots=True)
class Responses:
    """A run: how often each epsilon > 0 occurs, largest first, and each delta > 0."""

    answers: tuple[tuple[float, int], ...]
    deltas: tuple[tuple[float, int], ...]

    @property
    def deviation(self) -> float:
        """Of the number of true answers where all epsilons are equal."""
        (epsilon, count), *_ = self.answers
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
    return False


def response_curve(run: Responses) -> AbstractTradeOff:
    """The curve of a run in reach, its own inverse."""
    from service.privacy.composition.equal_responses import EqualResponses

    curve: AbstractTradeOff
    if not run.answers:
        curve = ApproximateDpTradeOff(0.0, 0.0)
    else:
        ((epsilon, count),) = run.answers
        curve = ApproximateDpTradeOff(epsilon, 0.0) if count == 1 else EqualResponses(count, epsilon)
    return WithSingularMass(curve, SingularMass.of(run.deltas)) if run.deltas else curve
