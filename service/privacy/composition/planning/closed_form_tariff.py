"""What readings of closed forms and of exact sums cost.

The two first tariffs are ceilings, measured over the whole range of all arguments: they decide what the event loop
computes itself. All others are prices.
"""

from __future__ import annotations

import math
from typing import Final

from service.privacy.composition.exact_sums.exact_runs import Responses, halves, losses_of
from service.privacy.composition.exact_sums.laplace_reach import uniforms_kept
from service.privacy.composition.planning.tariff import Prices, Tariff, one_curve

ONE_SHAPE: Final = one_curve(
    200,
    Prices(
        point=900, spread=500, listed_point=15, profile=900, epsilon=3_500, complement=1_500, gdp_mu=210_000, ratio=700
    ),
    alone=True,
)
"""One step, or Gaussian steps: a closed form, the same in both directions. mu of Gaussian DP is searched for, by a list
of points that is read again and again, and never cheap by construction.
"""

SAMPLED_STEP: Final = Tariff(
    base=300,
    directed=Prices(
        point=2_500, spread=12_000, listed_point=30, profile=1_200, epsilon=5_000, complement=4_000, gdp_mu=240_000
    ),
    hull=Prices(
        point=7_000, spread=20_000, listed_point=60, profile=1_500, epsilon=5_500, complement=8_000, gdp_mu=400_000
    ),
    alone=True,
)
"""One sampled step: a closed form for each direction."""

HUMPS: Final = Tariff(
    base=1_000,
    directed=Prices(
        point=6_000, spread=10_000, listed_point=30, profile=2_000, epsilon=10_000, complement=20_000, gdp_mu=20_000
    ),
    hull=Prices(
        point=15_000, spread=25_000, listed_point=60, profile=4_000, epsilon=20_000, complement=40_000, gdp_mu=30_000
    ),
)
"""One step of a mixture of shifted Gaussians: thresholds are searched for."""


def beside_two_points(losses: int, count: int, loss: float) -> Tariff:
    """Readings of another step, or of a sum of `count` Laplace steps of this `loss`, at two thresholds for each of the
    losses of steps that have two; a point is some sixty profiles.
    """
    profile = 200 + 4 * losses
    if count > 1:
        profile += 2 * losses * (60 + 2 * uniforms_kept(count, loss))
    prices = Prices(
        point=60 * profile,
        spread=0,
        listed_point=60 * profile,
        profile=profile,
        epsilon=60 * profile,
        complement=3_000 * profile,
        gdp_mu=400 * profile,
    )
    base = 2_000 if count == 1 else laplace_sums(count, loss).base
    return Tariff(base=base, directed=prices, hull=prices.times(3), by_profile=True)


def response_sums(run: Responses) -> Tariff:
    """Sums over about ten standard deviations of the number of true answers, fifty where rates are far apart; or, of
    different steps, one search of a list of losses for each of another, some forty times for every rate.
    """
    if len(run.answers) > 1:
        losses = max(losses_of(half) for half in halves(run.answers))
        prices = Prices(
            point=5_000 + 2 * losses,
            spread=10_000,
            listed_point=100 + 2.5 * losses,
            profile=2_000 + 2 * losses,
            epsilon=4_000 + 14 * losses,
            complement=12_000 + 50 * losses,
            gdp_mu=260_000 + 2_600 * losses,
        )
        return one_curve(100, prices)
    width = math.ceil(run.deviation) if run.answers else 0
    prices = Prices(
        point=2_500 + 3 * width,
        spread=1_000 + 8 * width,
        listed_point=6,
        profile=2_000 + 8 * width,
        epsilon=3_500 + 14 * width,
        complement=8_000 + 15 * width,
        gdp_mu=45_000 + 60 * width,
    )
    return one_curve(100, prices)


def laplace_sums(steps: int, loss: float) -> Tariff:
    """Sums of splines: coefficients once, then some hundred of their multiples for each point."""
    uniforms = uniforms_kept(steps, loss)
    listed = 60 + 2 * uniforms
    prices = Prices(
        point=4_000 + 40 * uniforms,
        spread=0,
        listed_point=listed,
        profile=2_000 + 20 * uniforms,
        epsilon=10_000 + 100 * uniforms,
        complement=100 * listed,
        gdp_mu=8_000 * listed,
    )
    return one_curve(2_000 + 10 * steps + steps * uniforms**2 // 150, prices)
