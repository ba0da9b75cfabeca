"""Trade-off curves of the best of K runs from those of one run: lower bounds by attacks, upper bounds by a theorem."""

from __future__ import annotations

from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.selection.attacks import attacked
from service.privacy.trade_off.selection.nodes import Nodes, nodes_of
from service.privacy.trade_off.selection.supporting_lines import BetweenLines
from service.privacy.trade_off.selection.trial_counts import TrialCounts
from service.privacy.trade_off.selection.upper_bound import SelectionBound


def selected_curve(one: TradeOffPair, counts: TrialCounts) -> Bracketed:
    """Return the curve of the best of K runs in the add direction; its inverse is the curve of the remove direction.

    Parameters
    ----------
    one : TradeOffPair
        Trade-off curves of one run.
    counts : TrialCounts
        Law of K.

    Returns
    -------
    Bracketed
        Attacks on scores below, the theorem of `upper_bound.py` above.
    """
    symmetric = one.add is one.remove
    ahead = SelectionBound(_side(one.add, "dominating"), counts)
    back = ahead if symmetric else SelectionBound(_side(one.remove, "dominating"), counts)
    lines = [(each.thresholds, each.deltas(each.thresholds)) for each in ((ahead,) if symmetric else (ahead, back))]
    above = BetweenLines.of(lines[0], lines[-1])
    nodes = [_attained_nodes(curve, bound) for curve, bound in ((one.add, ahead), (one.remove, back))]
    below = attacked(nodes[0], nodes[1], counts, lines[0][0])
    return Bracketed(below, above)


def _side(curve: AbstractTradeOff, name: str) -> AbstractTradeOff:
    return getattr(curve, name) if isinstance(curve, Bracketed) else curve


def _attained_nodes(curve: AbstractTradeOff, bound: SelectionBound) -> Nodes:
    """Return points of the curve that some choice attains for one run: those of `bound` if its curve is attained."""
    return nodes_of(curve.attained) if isinstance(curve, Bracketed) else bound.nodes
