"""What is left to an attacker whom two theorems bound: at every rate the smaller power, in both directions."""

from __future__ import annotations

from service.privacy.trade_off.combinators.bracketed import map_bracket
from service.privacy.trade_off.combinators.pointwise_max import PointwiseMax
from service.privacy.trade_off.pair import TradeOffPair


def pointwise_max_of(relaxed: TradeOffPair, worst: TradeOffPair, note: str, bracket: str) -> TradeOffPair:
    """The curves of an attacker bound by those of a relaxed model and by the worst case, which stays at hand.

    The truth served is the larger bound on what is hidden that both theorems give together: the smaller of two upper
    bounds on the power, enclosed. No choice that the request leaves open is known to attain it where the second one
    rules, so it is a bracket, of which `bracket` names both theorems.
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
