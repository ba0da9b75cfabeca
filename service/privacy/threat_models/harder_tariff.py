"""What readings of the harder one of two curves cost: of a relaxed model's, and of the worst case."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.tariff import Prices, Tariff

LEAST_OF_LATTICES: Final = 100_000
"""From this price of a profile on, in microseconds, a curve is read off lattices."""
HULL_POINT, HULL_SPREAD, HULL_LISTED = 4, 60, 3_000
"""Profiles that a point of the hull of two such curves takes, and a list; lists of lattices take fewer new ones."""
HULL_SPREAD_OF_LATTICES: Final = 20
CROSSING, DEAREST_CROSSING = 16, 6_000_000
"""How much dearer a profile is where the line touches neither curve, so that their crossing is searched for; where it
would be dearer than this it is not refused: most lines touch a curve."""
MU_READINGS, HULL_MU = 30, 50
"""How much dearer the search for mu is where curves cross than on one of them, and on the hull than on one side."""

STATED: Final = 1 / 8
"""How much cheaper all three searches are where one of the curves is a closed form of a stated parameter."""
STATED_MU: Final = 6_000_000
"""mu where one curve is a closed form with two losses: they cross in its corners; 3 to 6 seconds were measured."""


def beside_stated(own: Tariff, worst: Tariff) -> Tariff:
    """The tariff of the worst case and the curve of a stated parameter."""
    known = harder_tariff(own, worst, STATED)
    directed, hull = (replace(each, gdp_mu=min(each.gdp_mu, STATED_MU)) for each in (known.directed, known.hull))
    return replace(known, directed=directed, hull=directed if known.is_one_curve else hull)


def harder_tariff(own: Tariff, worst: Tariff, searched: float = 1.0) -> Tariff:
    """The tariff of both curves read together, `searched`: how dear crossings and mu are to search for."""
    first, second = own.directed, worst.directed
    on_lattices = max(first.profile, second.profile) >= LEAST_OF_LATTICES
    touching = first.profile + second.profile + first.point + second.point
    profile = touching if on_lattices else max(touching, min(searched * CROSSING * touching, DEAREST_CROSSING))
    directed = Prices(
        point=first.point + second.point,
        spread=first.spread + second.spread,
        listed_point=first.listed_point + second.listed_point,
        profile=profile,
        epsilon=first.epsilon + second.epsilon + profile,
        complement=first.complement + second.complement,
        gdp_mu=(first.gdp_mu + second.gdp_mu) * (1 if on_lattices else max(searched * MU_READINGS, 1.0)),
    )
    both = own.hull
    hull = Prices(
        point=both.point + 2 * directed.point if on_lattices else HULL_POINT * touching,
        spread=(HULL_SPREAD_OF_LATTICES if on_lattices else HULL_SPREAD) * touching,
        listed_point=both.listed_point + HULL_LISTED,
        profile=2 * profile,
        epsilon=2 * directed.epsilon,
        complement=both.complement + 4 * directed.complement,
        gdp_mu=(4 if on_lattices else max(searched * HULL_MU, 1.0)) * directed.gdp_mu,
    )
    one_curve = own.is_one_curve and worst.is_one_curve
    return Tariff(base=own.base + worst.base, directed=directed, hull=directed if one_curve else hull)
