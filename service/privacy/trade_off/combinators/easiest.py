"""Curve of the strongest of several attacks at every rate."""

from __future__ import annotations

from typing import final

from service.privacy.trade_off.combinators.extreme_of import ExtremeOf


@final
class EasiestOf(ExtremeOf):
    """Curve min(f_1, f_2, ...) of the type II errors of several attacks, the strongest at each rate.

    The minimum need not be convex. Each curve is that of one choice of data sets and of one attack on it. So the worst
    case is at least as easy to attack as each of them. The power, the profile and the epsilon of this curve are lower
    bounds of those of the worst case.
    """

    is_strongest = True
