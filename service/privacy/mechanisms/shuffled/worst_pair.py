"""Worst case of several attained pairs of laws of shuffled reports, as a pair of trade-off curves."""

from __future__ import annotations

from typing import Final

from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shuffled.curves import WorstCurve

BRACKET_AT_RATES: Final = (
    "bracket: at a false positive rate, one data set and one order of the hypotheses attain the lower bound of the "
    "power. The upper bound is the concave envelope of the powers of all of them, which no single one need attain."
)


def worst_pair(curves: tuple[AbstractTradeOff, ...], source: str) -> TradeOffPair:
    """Return the worst case of several attained pairs of laws.

    Parameters
    ----------
    curves : tuple of AbstractTradeOff
        Curves of the pairs in both directions.
    source : str
        Theorem of the curves.

    Returns
    -------
    TradeOffPair
        The same curve for both directions.
    """
    worst = WorstCurve(curves)
    return TradeOffPair(worst, worst, source, bracket_at_rates=BRACKET_AT_RATES if len(worst.curves) > 1 else None)
