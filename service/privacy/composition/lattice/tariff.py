"""What readings of lattices cost, of any composed steps and of several exponential ones."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.planning.tariff import Prices, Tariff, one_curve
from service.privacy.mechanisms.abstract import (
    AbstractStep,
    GaussianMixturePart,
    GaussianPart,
    LaplacePart,
    SampledGaussianPart,
    Steps,
    TwoPointPart,
)
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.poisson_sampled import PoissonSampled

DISCRETISED: Final = Tariff(
    base=30_000,
    directed=Prices(
        point=190_000,
        spread=900_000,
        listed_point=400,
        profile=150_000,
        epsilon=225_000,
        complement=600_000,
        gdp_mu=1_500_000,
        ratio=25_000,
    ),
    hull=Prices(
        point=600_000,
        spread=2_400_000,
        listed_point=1_000,
        profile=225_000,
        epsilon=450_000,
        complement=1_700_000,
        gdp_mu=5_000_000,
        ratio=25_000,
    ),
)
"""Price of one step, on lattices as fine as the default tolerance wants."""
LONG, LONGEST = 60, 200
"""Steps for which lattices are twice as long as for one, and from which on they are as long as they may be."""
LARGEST_LOSS: Final = 40.0
REVEALED: Final = 1 / 10
"""How much cheaper lattices are of a run with a step whose loss, in standard deviations, roughly, is larger."""
WEAK, MOST_SAMPLED = 1e-6, 100
SAMPLED_MU: Final = 8_000_000
"""mu of few steps all of which are sampled: every point is looked for on lattices of its own."""
WEAK_MU: Final = 10_000_000
"""The same where losses, though they may be large, are next to never: no lattice finds its threshold at once."""
LONGEST_MU, LONGEST_LIST, LISTED_POINT = 7_000_000, 3_600_000, 1_000
"""mu, and lists, of runs however long: between 6 and 16 seconds, and up to 5, were measured."""
RECURSION: Final = Prices(
    point=3_000, spread=0, listed_point=2_000, profile=300, epsilon=300, complement=200_000, gdp_mu=200_000
)
"""Composed exponential steps, after the recursion: thousands of nodes for every rate."""
LONGEST_RECURSION: Final = 100
RECURSION_BASE, RECURSION_STEP = 5_000, 5_000
REFINED, REFINED_FROM, REFINED_TO = 2.8, 12_000, 8
"""How much dearer a recursion of one epsilon is that is refined: by epsilon times squared steps, and over steps."""
RECURSION_TABLE, MOST_TABLES = 1_000, 4_000
"""Of several epsilons: each step from every table of what is left; with more tables some are taken apart."""
FINER: Final = 4.0
"""How much dearer lattices are for a tolerance below the default."""
COMPONENTS: Final = 0.75
"""What lattices beside a recursion cost."""
LISTS_BESIDE: Final = 6.0
"""How much dearer long lists in both directions are there: most rates get a tilt of their own, on both sides."""
SHARE_OF_A_PART: Final = 1 / 10


def lattices(steps: Steps, options: EngineOptions) -> Tariff:
    """Tariff of any steps."""
    count = min(sum(count for _, count in steps), LONGEST)
    factor = (1 + count / LONG) * (1 + SHARE_OF_A_PART * (len(steps) - 1))
    losses = [(_loss(step), count) for step, count in steps]
    revealed = any(loss > LARGEST_LOSS for loss, _ in losses)
    if revealed:
        factor *= REVEALED
    if options.relative_tolerance < DEFAULT_OPTIONS.relative_tolerance:
        factor *= FINER
    known = _limited(DISCRETISED.scaled(factor))
    if revealed or count > MOST_SAMPLED or not all(isinstance(step, PoissonSampled) for step, _ in steps):
        return known
    deviation = math.sqrt(math.fsum(count * loss**2 for loss, count in losses))
    searched = WEAK_MU if deviation < WEAK else SAMPLED_MU
    directed, hull = (replace(prices, gdp_mu=searched) for prices in (known.directed, known.hull))
    return replace(known, directed=directed, hull=hull)


def _limited(known: Tariff) -> Tariff:
    """Searches and lists are no dearer than this, however long the run."""

    def limited(prices: Prices) -> Prices:
        return replace(
            prices,
            spread=min(prices.spread, LONGEST_LIST),
            listed_point=min(prices.listed_point, LISTED_POINT),
            gdp_mu=min(prices.gdp_mu, LONGEST_MU),
        )

    return replace(known, directed=limited(known.directed), hull=limited(known.hull))


def _loss(step: AbstractStep) -> float:
    """About the standard deviation of the loss of a step; of one without a known part, its number of nats."""
    part = step.part()
    match part:
        case GaussianPart():
            loss = part.shift.upper
        case SampledGaussianPart():
            loss = part.sample_rate / part.noise_multiplier
        case LaplacePart():
            loss = part.sample_rate * part.loss
        case GaussianMixturePart():
            loss = part.mean_shift
        case TwoPointPart():
            loss = part.epsilon
        case _:
            loss = float(step.epsilon) if isinstance(step, Exponential) else 0.0
    return min(loss, 1e100)


def adaptive_exponential(steps: Steps, options: EngineOptions) -> Tariff:
    """A recursion, read by itself; beside other steps, or beyond its reach, a part of a few lattices."""
    count = sum(count for step, count in steps if isinstance(step, Exponential))
    base = _recursion([(float(step.epsilon), count) for step, count in steps if isinstance(step, Exponential)])
    if count == sum(count for _, count in steps) <= LONGEST_RECURSION:
        return one_curve(base, RECURSION)
    known = lattices(steps, options).scaled(COMPONENTS)
    hull = replace(known.hull, spread=LISTS_BESIDE * known.hull.spread)
    return replace(known, base=known.base + base, hull=hull)


def _recursion(groups: list[tuple[float, int]]) -> float:
    """The base of (epsilon, count), which once is one grid, refined where epsilon is large, or a table of each rest."""
    taken = min(sum(count for _, count in groups), LONGEST_RECURSION)
    base = RECURSION_BASE + RECURSION_STEP * taken
    counts = Counter[float]()
    for epsilon, count in groups:
        if epsilon > 0:
            counts[epsilon] += count
    if len(counts) > 1:
        tables = math.prod(min(count, MOST_TABLES) + 1 for count in counts.values())
        return base + RECURSION_TABLE * len(counts) * min(tables, MOST_TABLES)
    refined = taken > 1 and REFINED_FROM / taken**2 < max(counts, default=0.0) < REFINED_TO * taken
    return base * REFINED if refined else base
