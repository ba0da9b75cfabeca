"""The tighter of several curves that all bound one worst case from above."""

from __future__ import annotations

from typing import final

from service.privacy.trade_off.combinators.extreme_of import ExtremeOf


@final
class TighterOf(ExtremeOf):
    """Curve with the smallest power, profile and epsilon of several curves that all dominate one worst case.

    Upper bounds of these numbers hold for the worst case, because each of the `curves` is at least as easy to attack.
    """

    is_strongest = False
