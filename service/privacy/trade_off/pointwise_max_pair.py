"""Trade-off curves of an attacker whom two theorems bound: the smaller power at every rate, in both directions."""

from __future__ import annotations

from service.privacy.trade_off.combinators.bracketed import map_bracket
from service.privacy.trade_off.combinators.pointwise_max import PointwiseMax
from service.privacy.trade_off.pair import TradeOffPair


def pointwise_max_of(relaxed: TradeOffPair, worst: TradeOffPair, note: str, bracket: str) -> TradeOffPair:
    """Return the curves of an attacker who is bound by a relaxed model and by the worst case.

    Parameters
    ----------
    relaxed, worst : TradeOffPair
        Curves of the relaxed model, and of the worst case.
    note, bracket : str
        Additional note of the result, and the sentence that names both theorems.

    Returns
    -------
    TradeOffPair
        Curves in both directions.

    Notes
    -----
    The result encloses the smaller of the two upper bounds on the power. No pair of data sets is known to attain this
    bound where the worst case determines it. So the result is a bracket.
    """
    add = map_bracket(PointwiseMax, relaxed.add, worst.add)
    sources = "; ".join(dict.fromkeys(f"{relaxed.source}; {worst.source}".split("; ")))
    sentences = dict.fromkeys(each for each in (relaxed.bracket, worst.bracket, bracket) if each is not None)
    return TradeOffPair(
        add,
        add if relaxed.add is relaxed.remove and worst.add is worst.remove else add.reversed(),
        sources,
        (*relaxed.notes, note),
        worst_case=worst,
        bracket=" ".join(sentences),
        second=worst.second,
    )
