"""Trade-off curves of the best of K runs from those of one run: lower bounds by attacks, upper bounds by a theorem."""

from __future__ import annotations

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.selection.attacks import attacked
from service.privacy.trade_off.selection.nodes import Nodes, nodes_of
from service.privacy.trade_off.selection.supporting_lines import BetweenLines
from service.privacy.trade_off.selection.trial_counts import TrialCounts
from service.privacy.trade_off.selection.upper_bound import LARGEST, SelectionBound

FAINT, PLAIN = 1e-15, 0.9
"""Range of delta in which most attacks are searched."""
FEW, MANY = 60, 250
"""Numbers of log slopes over the whole range, and in this range."""


def selected_curve(one: TradeOffPair, counts: TrialCounts, composed: TradeOffPair | None = None) -> Bracketed:
    """Return the curve of the best of K runs in the add direction; its inverse is the curve of the remove direction.

    Parameters
    ----------
    one : TradeOffPair
        Trade-off curves of one run.
    counts : TrialCounts
        Law of K.
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
    if composed is not None:
        limits = (composed.add, composed.remove) if not symmetric else (composed.add,)
        lines = [_limited(*each, dominating(limit)) for each, limit in zip(lines, limits, strict=True)]
    above = BetweenLines.of(lines[0], lines[-1])
    nodes = [_attained_nodes(curve, bound) for curve, bound in ((one.add, ahead), (one.remove, back))]
    return Bracketed(attacked(nodes[0], nodes[1], counts, _slopes(*lines[0])), above)


def dominating(curve: AbstractTradeOff) -> AbstractTradeOff:
    """Return the curve that bounds `curve` from above: the curve itself if it is known exactly."""
    return curve.dominating if isinstance(curve, Bracketed) else curve


def _limited(epsilons: FloatArray, deltas: FloatArray, limit: AbstractTradeOff) -> tuple[FloatArray, FloatArray]:
    """Return bounds of delta at these epsilons that the curve `limit` bounds, too, and at its largest loss."""
    most = limit.largest_log_ratio.upper
    limited = limit.profile(epsilons).upper
    inside = np.flatnonzero((limited - limited[-1] > FAINT) & (limited < PLAIN))
    first, last = (int(inside[0]), int(inside[-1])) if inside.size else (0, 0)
    more: FloatArray = np.linspace(float(epsilons[first]), float(epsilons[last]), MANY)
    if epsilons[0] < most < LARGEST:
        more = np.concatenate((more, np.array([most])))
    places, order = np.unique(np.concatenate((epsilons, more)), return_index=True)
    bounds = np.concatenate((np.minimum(deltas, limited), limit.profile(more).upper))
    return places, bounds[order]


def _attained_nodes(curve: AbstractTradeOff, bound: SelectionBound) -> Nodes:
    """Return points of the curve that some choice attains for one run: those of `bound` if its curve is attained."""
    return nodes_of(curve.attained) if isinstance(curve, Bracketed) else bound.grid


def _slopes(epsilons: FloatArray, deltas: FloatArray) -> FloatArray:
    """Return the log slopes for which attacks are searched: most where delta is neither tiny nor near 1."""
    middle = np.flatnonzero((deltas - deltas[-1] > FAINT) & (deltas < PLAIN))
    first, last = (int(middle[0]), int(middle[-1])) if middle.size else (0, 0)
    chosen: list[FloatArray] = [np.linspace(0, len(epsilons) - 1, FEW), np.linspace(first, last, MANY)]
    return epsilons[np.unique(np.concatenate(chosen).astype(int))]
