"""Trade-off curves of the best of K runs from those of one run: lower bounds by attacks, upper bounds by a theorem."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.easiest import EasiestOf
from service.privacy.trade_off.combinators.tighter_of import TighterOf
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.selection.attacks import GUESSING, attacked
from service.privacy.trade_off.selection.nodes import Nodes, nodes_of
from service.privacy.trade_off.selection.supporting_lines import BetweenLines
from service.privacy.trade_off.selection.trial_counts import TrialCounts
from service.privacy.trade_off.selection.upper_bound import SelectionBound

FAINT, PLAIN = 1e-15, 0.9
"""Range of delta in which most attacks are searched."""
FEW, MANY = 60, 250
"""Numbers of log slopes over the whole range, and in this range."""
NEAR_ONE = 48
"""Number of log slopes below this range, where the upper bound is near 1, and attacks may be much weaker."""


def selected_curve(
    one: TradeOffPair, counts: TrialCounts, attacks: Sequence[TradeOffPair], composed: TradeOffPair | None = None
) -> Bracketed:
    """Return the curve of the best of K runs in the add direction; its inverse is the curve of the remove direction.

    Parameters
    ----------
    one : TradeOffPair
        Trade-off curves of one run.
    counts : TrialCounts
        Law of K.
    attacks : sequence of TradeOffPair
        Curves of one run, each attained as a whole by one choice of data sets: lower bounds. Often `one` alone.
    composed : TradeOffPair or None
        Curves of the composition of all runs, for a fixed K. They are a second upper bound.

    Returns
    -------
    Bracketed
        Attacks on scores below, the theorem of `upper_bound.py` above.
    """
    symmetric = one.add is one.remove
    ahead = SelectionBound(dominating(one.add), counts)
    back = ahead if symmetric else SelectionBound(dominating(one.remove), counts)
    lines = [each.lines() for each in ((ahead,) if symmetric else (ahead, back))]
    above: AbstractTradeOff = BetweenLines.of(lines[0], lines[-1], one.add.method)
    if composed is not None:
        above = TighterOf((above, dominating(composed.add)))
    slopes = _slopes(*lines[0])
    tests = [
        attacked(_attained_nodes(each.add, ahead), _attained_nodes(each.remove, back), counts, slopes)
        for each in attacks
    ]
    return Bracketed(EasiestOf(tuple(tests)) if len(tests) > 1 else tests[0] if tests else GUESSING, above)


def dominating(curve: AbstractTradeOff) -> AbstractTradeOff:
    """Return the curve that bounds `curve` from above: the curve itself if it is known exactly."""
    return curve.dominating if isinstance(curve, Bracketed) else curve


def _attained_nodes(curve: AbstractTradeOff, bound: SelectionBound) -> Nodes:
    """Return points of `curve`, or of its attained lower bound; those that `bound` has of this curve are used again."""
    return bound.grid if curve is bound.curve else nodes_of(curve.attained if isinstance(curve, Bracketed) else curve)


def _slopes(epsilons: FloatArray, deltas: FloatArray) -> FloatArray:
    """Return the log slopes for which attacks are searched: most where delta is neither tiny nor near 1."""
    middle = np.flatnonzero((deltas - deltas[-1] > FAINT) & (deltas < PLAIN))
    first, last = (int(middle[0]), int(middle[-1])) if middle.size else (0, 0)
    chosen: list[FloatArray] = [np.linspace(0, len(epsilons) - 1, FEW), np.linspace(first, last, MANY)]
    near_one: FloatArray = np.linspace(0.0, float(epsilons[first]), NEAR_ONE)
    found: FloatArray = epsilons[np.concatenate(chosen).astype(int)]
    return np.unique(np.concatenate((found, near_one)))
