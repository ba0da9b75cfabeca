"""The tighter of several curves that all bound one worst case from above."""

from __future__ import annotations

from typing import final

from service.privacy.trade_off.combinators.extreme_of import ExtremeOf


@final
class TighterOf(ExtremeOf):
    """Smallest number of several curves, each of which is at least as easy to attack as a worst case.

    The `curves` dominate one worst case. The upper bounds of their powers, deltas and epsilons hold for it.
    """

    is_strongest = False
