"""Trade-off curves of the best of K runs from those of one run: lower bounds by attacks, upper bounds by a theorem."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.extreme_of import EasiestOf, TighterOf
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.selection.attacks import GUESSING, attacked
from service.privacy.trade_off.selection.far_attacks import NEAREST, FarAttacks
from service.privacy.trade_off.selection.given_count import deltas_given_count
from service.privacy.trade_off.selection.nodes import Nodes
from service.privacy.trade_off.selection.scaled import ScaledTradeOff
from service.privacy.trade_off.selection.supporting_lines import BetweenLines
from service.privacy.trade_off.selection.trial import LARGEST, TrialCurve
from service.privacy.trade_off.selection.trial_counts import SLACK, TrialCounts
from service.privacy.trade_off.selection.upper_bound import SelectionBound

FAINT, PLAIN = 1e-15, 0.9
"""Range of delta in which most attacks are searched."""
FEW, MANY = 60, 250
"""Numbers of log slopes over the whole range, and in this range."""
NEAR_ONE = 48
"""Number of log slopes below this range, where the upper bound is near 1, and attacks may be much weaker."""


@final
class TrialCurves:
    """Curves of one run, evaluated once for all selections of the run.

    Parameters
    ----------
    pair : TradeOffPair
        Trade-off curves of one run.
    attacks : sequence of TradeOffPair
        Curves of one run, each attained as a whole by one choice of data sets: lower bounds. Often `pair` alone.
    """

    def __init__(self, pair: TradeOffPair, attacks: Sequence[TradeOffPair]) -> None:
        self.pair = pair
        self.ahead = TrialCurve(dominating(pair.add))
        self.back = self.ahead if pair.add is pair.remove else TrialCurve(dominating(pair.remove))
        self.runs = tuple(attacks)

    @cached_property
    def attacks(self) -> list[tuple[Nodes, Nodes]]:
        """Points of the attained curves of one run, each in the add and in the remove direction."""
        found: list[tuple[Nodes, Nodes]] = []
        for each in self.runs:
            ahead = self._attained(each.add)
            found.append((ahead, ahead if each.add is each.remove else self._attained(each.remove)))
        return found

    def _attained(self, curve: AbstractTradeOff) -> Nodes:
        known = attained(curve)
        shared = (trial for trial in (self.ahead, self.back) if trial.curve is known)
        return next(shared, TrialCurve(known)).nodes


def selected_curve(
    trials: TrialCurves, counts: TrialCounts, composed: Callable[[int], TradeOffPair] | None = None
) -> Bracketed:
    """Return the curve of the best of K runs in the add direction; its inverse is the curve of the remove direction.

    Parameters
    ----------
    trials : TrialCurves
        Curves of one run.
    counts : TrialCounts
        Law of K.
    composed : callable or None
        Function of n that returns the curves of n composed runs, for further upper bounds. It is called with K alone if
        K is fixed.

    Returns
    -------
    Bracketed
        Attacks on scores below, the smallest of several upper bounds above.
    """
    lines = [_lines(trials.ahead, counts, None if composed is None else lambda n: composed(n).add)]
    if trials.back is not trials.ahead:
        lines.append(_lines(trials.back, counts, None if composed is None else lambda n: composed(n).remove))
    above: list[AbstractTradeOff] = [BetweenLines.of(lines[0], lines[-1], trials.pair.add.method)]
    if counts.fixed is None and counts.log_least_slope > -math.inf:
        above.append(ScaledTradeOff(trials.ahead.curve, counts.mean_count, counts.log_least_slope, counts.nothing))
    if counts.fixed is not None and composed is not None:
        above.append(dominating(composed(counts.fixed).add))
    slopes = np.unique(np.concatenate([_slopes(*known) for known in lines]))
    first, second = (slopes[slopes <= known[-1]] for known, _ in (lines[0], lines[-1]))
    tests: list[AbstractTradeOff] = [attacked(ahead, back, counts, first, second) for ahead, back in trials.attacks]
    if max(known[-1] for known, _ in lines) >= LARGEST and counts.nothing == 0:
        # Attacks on scores are not searched beyond. A score that says nothing releases the output of one run.
        tests += [attained(each.add) for each in trials.runs]
    farthest = (counts.fixed or 0) * max(trial.profile[0][-1] for trial in (trials.ahead, trials.back))
    if max(farthest, *(known[-1] for known, _ in lines)) >= NEAREST:
        runs = zip(trials.runs, trials.attacks, strict=True)
        tests += [FarAttacks(attained(each.add), counts, ahead, back) for each, (ahead, back) in runs]
    below = EasiestOf(tuple(tests)) if len(tests) > 1 else tests[0] if tests else GUESSING
    return Bracketed(below, TighterOf(above) if len(above) > 1 else above[0])


def _lines(
    trial: TrialCurve, counts: TrialCounts, composed: Callable[[int], AbstractTradeOff] | None
) -> tuple[FloatArray, FloatArray]:
    """Return rising epsilons (nats), and upper bounds of delta of the best of K runs in one direction.

    The bounds are the smallest of all that are known. `trial` is the curve of one run, `counts` the law of K, and
    `composed` returns the curve of n composed runs, or is None if it is unknown. The best of K runs is a function of
    the outputs of all runs, so that delta(0) is at most E K times that of one run. No delta exceeds P(K >= 1), because
    "nothing is released" has the same probability under both laws.
    """
    epsilons, deltas = SelectionBound(trial, counts).lines()
    deltas = np.minimum(deltas, counts.something * (1 + SLACK))
    if counts.fixed is not None:
        return epsilons, deltas
    deltas = np.minimum(deltas, counts.mean_count * trial.curve.profile_at(0.0).upper * (1 + SLACK))
    given = None if composed is None else deltas_given_count(counts, composed, epsilons)
    return epsilons, deltas if given is None else np.minimum(deltas, given)


def dominating(curve: AbstractTradeOff) -> AbstractTradeOff:
    """Return the curve that bounds `curve` from above: the curve itself if it is known exactly."""
    return curve.dominating if isinstance(curve, Bracketed) else curve


def attained(curve: AbstractTradeOff) -> AbstractTradeOff:
    """Return the curve that bounds `curve` from below: the curve itself if it is known exactly."""
    return curve.attained if isinstance(curve, Bracketed) else curve


def _slopes(epsilons: FloatArray, deltas: FloatArray) -> FloatArray:
    """Return the log slopes (nats, rising) for which attacks are searched: most where delta is neither tiny nor near 1.

    `epsilons` (nats, rising) and `deltas` are points of the profile that bounds the selection from above.
    """
    middle = np.flatnonzero((deltas - deltas[-1] > FAINT) & (deltas < PLAIN))
    first, last = (int(middle[0]), int(middle[-1])) if middle.size else (0, 0)
    chosen: list[FloatArray] = [np.linspace(0, len(epsilons) - 1, FEW), np.linspace(first, last, MANY)]
    near_one: FloatArray = np.linspace(0.0, float(epsilons[first]), NEAR_ONE)
    found: FloatArray = epsilons[np.concatenate(chosen).astype(int)]
    return np.unique(np.concatenate((found, near_one)))
