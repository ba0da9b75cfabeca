"""What readings of a mechanism's curves cost, known before any work is done, so that nothing dear looks cheap.

Figures are microseconds of CPU, measured with cold caches (`benchmarks/costs.py` compares them with what it measures)
and rounded up. Too dear sends work to another process that this one could have done; too cheap holds all others up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, cast, final

from service.privacy.composition.brackets import ENGINES_OF_BRACKETS, attained, is_bracket, is_single
from service.privacy.composition.laplace_reach import can_sum, uniforms_kept
from service.privacy.composition.options import DEFAULT_OPTIONS, MIXED_TOLERANCE, EngineOptions
from service.privacy.composition.parts import contour_parts, several_exponentials, shifts_beside
from service.privacy.composition.responses import Responses, halves, losses_of, responses_of, smoothed_responses_of
from service.privacy.mechanisms.abstract import (
    AbstractMechanism,
    AbstractStep,
    GaussianPart,
    LaplacePart,
    SampledGaussianPart,
    Steps,
)
from service.privacy.mechanisms.batch_mean import BatchMean
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.mechanisms.poisson_sampled import PoissonSampled


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Of readings of one curve, each in microseconds."""

    point: int
    """Power or type II error at one rate."""
    spread: int
    """What a list of points costs beyond its points, at most: they are far apart."""
    listed_point: float
    profile: int
    """delta at an epsilon."""
    epsilon: int
    complement: int
    """The type II error at 1 - a, for an a whose complement is not a number."""
    gdp_mu: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Of all readings of a mechanism. `base`: once for every direction that is read."""

    base: int
    directed: Prices
    """Of the curve of one direction."""
    hull: Prices
    """Of the curve of both directions, which is searched for."""


_ONE_SHAPE: Final = Prices(
    point=200, spread=300, listed_point=4, profile=150, epsilon=150, complement=600, gdp_mu=6_000
)
SAME_BOTH_WAYS: Final = Tariff(base=60, directed=_ONE_SHAPE, hull=_ONE_SHAPE)
"""One step, or Gaussian steps: a closed form, the same in both directions."""

SAMPLED_STEP: Final = Tariff(
    base=100,
    directed=Prices(point=800, spread=800, listed_point=7, profile=450, epsilon=1_000, complement=4_000, gdp_mu=15_000),
    hull=Prices(
        point=2_200, spread=2_200, listed_point=12, profile=600, epsilon=1_800, complement=11_000, gdp_mu=60_000
    ),
)
"""One sampled step: a closed form for each direction."""

CONTOUR: Final = Tariff(
    base=5_500,
    directed=Prices(
        point=2_500, spread=30_000, listed_point=200, profile=2_500, epsilon=4_000, complement=500_000, gdp_mu=80_000
    ),
    hull=Prices(
        point=40_000, spread=120_000, listed_point=500, profile=6_000, epsilon=8_000, complement=900_000, gdp_mu=500_000
    ),
)
"""A run whose loss has one hump: its lines are short."""
LEAST_STEPS: Final = 100
LEAST_NOISE: Final = 0.5
LEAST_LOSS, LARGE_LOSS, LARGEST_LOSS = 0.1, 6.0, 30.0
"""Standard deviations of the loss of a run, roughly."""
SHARE_OF_A_PART: Final = 1 / 40
"""Every different step adds its own transform to each line."""
LARGE: Final = 8
"""How much dearer a run may be that gives nearly everything away."""
HARD: Final = 60
"""How much dearer a run may be whose loss is ruled by rare large jumps, or that gives everything away. Here readings
differ by a factor of a hundred, and this lies between: all of them go to another process, and few are refused."""


SEARCH_ROUNDS, SEARCH_LOOKS, SEARCH_OF_ONE = 20, 100, 250
"""Readings of each part that a point of a mixture takes; points in each; points for each further rate."""
ROUNDS_OF_A_ROOT, COMPLEMENT_READINGS, MU_ROUNDS, MU_POINTS = 15, 20, 10, 4_000
"""What else is searched for on a mixture: epsilon by profiles; complements and mu by points."""

DISCRETISED: Final = Tariff(
    base=100_000,
    directed=Prices(
        point=1_200_000,
        spread=3_000_000,
        listed_point=400,
        profile=1_200_000,
        epsilon=1_500_000,
        complement=5_000_000,
        gdp_mu=4_000_000,
    ),
    hull=Prices(
        point=5_000_000,
        spread=10_000_000,
        listed_point=1_000,
        profile=2_400_000,
        epsilon=3_000_000,
        complement=10_000_000,
        gdp_mu=12_000_000,
    ),
)
"""Lattices as fine as the default tolerance wants; a looser tolerance costs a hundredth."""
RECURSION: Final = Tariff(
    base=0,
    directed=(
        _POLYGON := Prices(
            point=3_000,
            spread=0,
            listed_point=2_000,
            profile=1_500,
            epsilon=1_500,
            complement=200_000,
            gdp_mu=8_000_000,
        )
    ),
    hull=_POLYGON,
)
"""Composed exponential steps, after the recursion: thousands of nodes for every rate."""
COARSER: Final = 1 / 4
"""What lattices for the tolerance of a mixture's components may still cost, where they must be made anew."""
ASYMPTOTIC: Final = Tariff(
    base=5_000,
    directed=Prices(
        point=1_000, spread=2_000, listed_point=10, profile=1_000, epsilon=5_000, complement=50_000, gdp_mu=500_000
    ),
    hull=Prices(
        point=10_000,
        spread=20_000,
        listed_point=40,
        profile=2_000,
        epsilon=10_000,
        complement=200_000,
        gdp_mu=1_100_000,
    ),
)
"""Series in the cumulants of the loss."""
SADDLEPOINT: Final = replace(
    ASYMPTOTIC,
    directed=replace(ASYMPTOTIC.directed, gdp_mu=3_000_000),
    hull=replace(ASYMPTOTIC.hull, gdp_mu=4_000_000),
)
"""Every point is a root of the generating function: mu takes thousands of them, and of a single sampled step more."""
SAMPLED_RUN: Final = Tariff(
    base=0,
    directed=Prices(
        point=500, spread=1_000, listed_point=10, profile=500, epsilon=5_000, complement=25_000, gdp_mu=100_000
    ),
    hull=Prices(
        point=5_000, spread=10_000, listed_point=40, profile=1_000, epsilon=10_000, complement=100_000, gdp_mu=400_000
    ),
)
"""Readings of a sample that is drawn and sorted; drawing it is priced by its size."""


def tariff(
    mechanism: AbstractMechanism,
    method: str = "auto",
    options: EngineOptions = DEFAULT_OPTIONS,
    sensitivity: float = 1.0,
) -> Tariff:
    """The prices of a mechanism by a method of `choose.METHODS`, from its description alone; nothing is allocated in
    proportion to step counts.
    """
    if isinstance(mechanism, Mixture):
        drawn = mechanism.drawn()
        if len(drawn) == 1:
            return tariff(drawn[0][1], method, options, sensitivity)
        options = options.for_parts(len(drawn))
        return mixed_tariff([tariff(part, method, options, sensitivity) for _, part in drawn])
    return _tariff(mechanism.elementary_steps(), method, options, sensitivity)


def _tariff(steps: Steps, method: str, options: EngineOptions, sensitivity: float) -> Tariff:
    if is_bracket(steps, sensitivity):
        return _bracket(steps, options, sensitivity) if method in ENGINES_OF_BRACKETS else SAME_BOTH_WAYS  # refused
    match method:
        case "auto" | "discretised" if several_exponentials(steps):
            return _adaptive_exponential(steps, options)
        case "discretised":
            return _lattices(1, options)
        case "saddlepoint":
            return SADDLEPOINT
        case "edgeworth" | "clt":
            return ASYMPTOTIC
        case "monte_carlo":
            # Imported where asked for, like the engine itself.
            from service.privacy.composition.monte_carlo import monte_carlo_cost

            both = 2 if several_exponentials(steps) else 1  # ends from different draws
            return scaled(replace(SAMPLED_RUN, base=math.ceil(monte_carlo_cost(steps, options.samples))), both)
        case "ground_truth":
            return _ground_truth(ground_truth_cost(steps, options.digits, 1))
        case "contour":
            return _contour(steps, sensitivity)
        case _:
            return _best(steps, options, sensitivity)


def _bracket(steps: Steps, options: EngineOptions, sensitivity: float) -> Tariff:
    """What is attained, in both directions, and the lattices of the pair that dominates."""
    least, most = _tariff(attained(steps, sensitivity), "auto", options, sensitivity), _lattices(len(steps), options)
    both = _summed(least.hull, most.directed)
    return Tariff(base=2 * least.base + most.base, directed=both, hull=both)


def _summed(first: Prices, second: Prices) -> Prices:
    total = {field.name: getattr(first, field.name) + getattr(second, field.name) for field in fields(Prices)}
    return Prices(**total)


def mixed_tariff(parts: Sequence[Tariff]) -> Tariff:
    """Of curves that are mixed: every point is searched for, by levels of the likelihood ratio and, on each part, the
    point of each level.
    """
    directed = _searched([part.directed for part in parts])
    hull = directed
    if any(part.hull is not part.directed for part in parts):
        both = _searched([part.hull for part in parts])
        # The hull reads points and profiles of the curves of both directions.
        hull = replace(
            both, point=3 * directed.point, spread=3 * directed.spread, listed_point=3 * directed.listed_point
        )
    return Tariff(base=sum(part.base for part in parts), directed=directed, hull=hull)


def _searched(parts: Sequence[Prices]) -> Prices:
    point = sum(SEARCH_ROUNDS * (part.point + SEARCH_LOOKS * part.listed_point) for part in parts)
    listed = sum(SEARCH_OF_ONE * part.listed_point for part in parts)
    profile = sum(part.profile for part in parts)
    return Prices(
        point=math.ceil(point),
        spread=math.ceil(point),
        listed_point=listed,
        profile=profile,
        epsilon=ROUNDS_OF_A_ROOT * profile + sum(part.epsilon for part in parts),
        complement=math.ceil(COMPLEMENT_READINGS * point),
        gdp_mu=math.ceil(MU_ROUNDS * point + MU_POINTS * listed),
    )


def _best(steps: Steps, options: EngineOptions, sensitivity: float) -> Tariff:
    if is_single(steps):
        return _of_one(steps[0][0], sensitivity)
    responses = responses_of(steps)
    if responses is not None:
        return _response_sums(responses)
    step, count = steps[0]
    if len(steps) == 1 and isinstance(step, Laplace) and can_sum(count, 1 / step.noise_multiplier):
        return _laplace_sums(count, 1 / step.noise_multiplier)
    parts = contour_parts(steps, sensitivity)
    if parts is None:
        many = smoothed_responses_of(steps)
        return _smoothed(many) if many else _beside_two_points(steps) or _lattices(len(steps), options)
    if all(isinstance(part, GaussianPart) for part, _ in parts):
        return SAME_BOTH_WAYS
    return _contour(steps, sensitivity)


def _of_one(step: AbstractStep, sensitivity: float) -> Tariff:
    """A closed form; where a direction has one of its own, twice at most (roundings of parameters on either side)."""
    if isinstance(step, PoissonSampled):
        return SAMPLED_STEP
    if not isinstance(step, BatchMean):
        return SAME_BOTH_WAYS
    known = scaled(SAMPLED_STEP, 2)
    return replace(known, directed=known.hull) if step.attained(sensitivity) is not None else known


def _beside_two_points(steps: Steps) -> Tariff | None:
    """Readings of the other step or sum at two thresholds for each of the losses; a point is some sixty profiles."""
    shifts = shifts_beside(steps, 1.0)
    if shifts is None:
        return None
    (step, count), losses = shifts
    profile = 200 + 4 * losses
    if count > 1:
        profile += 2 * losses * (60 + 2 * uniforms_kept(count, 1 / cast("Laplace", step).noise_multiplier))
    prices = Prices(
        point=60 * profile,
        spread=0,
        listed_point=60 * profile,
        profile=profile,
        epsilon=60 * profile,
        complement=3_000 * profile,
        gdp_mu=10_000 * profile,
    )
    base = 2_000 if count == 1 else _laplace_sums(count, 1 / cast("Laplace", step).noise_multiplier).base
    return Tariff(base=base, directed=prices, hull=_dearer(prices, 3))


def _response_sums(run: Responses) -> Tariff:
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
        return Tariff(base=100, directed=prices, hull=prices)
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
    return Tariff(base=100, directed=prices, hull=prices)


def _smoothed(run: Responses) -> Tariff:
    """Lines of some hundred thousand nodes, with a factor for every different response; a reading takes one or two."""
    line = 60_000 + 1_500 * len(run.answers)
    prices = Prices(
        point=2 * line,
        spread=12 * line,
        listed_point=300,
        profile=2 * line,
        epsilon=2 * line,
        complement=10 * line,
        gdp_mu=40 * line,
    )
    return Tariff(base=10_000, directed=prices, hull=prices)


def _laplace_sums(steps: int, loss: float) -> Tariff:
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
    return Tariff(base=2_000 + 10 * steps + steps * uniforms**2 // 150, directed=prices, hull=prices)


def _lattices(parts: int, options: EngineOptions) -> Tariff:
    coarser = COARSER if options.relative_tolerance >= MIXED_TOLERANCE else 1.0
    return scaled(DISCRETISED, coarser * (1 + SHARE_OF_A_PART * (parts - 1)))


def _adaptive_exponential(steps: Steps, options: EngineOptions) -> Tariff:
    """A recursion, read by itself; beside other steps, or beyond its reach, a part of a few lattices."""
    count = sum(count for step, count in steps if isinstance(step, Exponential))
    base = 30_000 + 10_000 * min(count, 100)
    if count == sum(count for _, count in steps) <= 100:
        return replace(RECURSION, base=base)
    lattices = scaled(_lattices(len(steps), options), 3 * COARSER)
    return replace(lattices, base=lattices.base + base)


def _contour(steps: Steps, sensitivity: float) -> Tariff:
    parts = [(step.part(sensitivity), count) for step, count in steps]
    sampled = [(part, count) for part, count in parts if isinstance(part, SampledGaussianPart)]
    ends = 1 if all(step.rounded(1) == step for step, _ in steps) else 2
    if not sampled:
        losses = [(part.sample_rate * part.loss, count) for part, count in parts if isinstance(part, LaplacePart)]
        losses += [(part.shift.upper, count) for part, count in parts if isinstance(part, GaussianPart)]
        return scaled(CONTOUR, LARGE if math.hypot(*(math.sqrt(n) * loss for loss, n in losses)) > LARGE_LOSS else 1)
    loss = math.sqrt(math.fsum(count * (part.sample_rate / part.noise_multiplier) ** 2 for part, count in sampled))
    noise = min(part.noise_multiplier for part, _ in sampled)
    many = sum(count for _, count in sampled) >= LEAST_STEPS
    easy = many and noise >= LEAST_NOISE and LEAST_LOSS <= loss <= LARGEST_LOSS
    hard = (LARGE if loss > LARGE_LOSS else 1) if easy else HARD
    return scaled(CONTOUR, ends * hard * (1 + SHARE_OF_A_PART * (len(sampled) - 1)))


def scaled(known: Tariff, factor: float) -> Tariff:
    """All prices times the factor."""
    if factor == 1:
        return known
    base = math.ceil(known.base * factor)
    return Tariff(base=base, directed=_dearer(known.directed, factor), hull=_dearer(known.hull, factor))


def _dearer(prices: Prices, factor: float) -> Prices:
    return replace(prices, **{field.name: math.ceil(getattr(prices, field.name) * factor) for field in fields(prices)})


GROUND_TRUTH_CLOSED: Final = 3_000
GROUND_TRUTH_LINES: Final = 250_000
GROUND_TRUTH_HARD: Final = 24
"""Microseconds of a reading in ball arithmetic at 25 digits, by a closed form or on two lines; hard ones are dearer."""


def _ground_truth(reading: int) -> Tariff:
    """A list is read number by number."""
    directed = Prices(
        point=reading,
        spread=0,
        listed_point=reading,
        profile=reading,
        epsilon=2 * reading,
        complement=60 * reading,
        gdp_mu=200 * reading,
    )
    hull = Prices(
        point=60 * reading,
        spread=0,
        listed_point=60 * reading,
        profile=2 * reading,
        epsilon=4 * reading,
        complement=120 * reading,
        gdp_mu=1_000 * reading,
    )
    return Tariff(base=0, directed=directed, hull=hull)


def ground_truth_cost(steps: Steps, digits: int, readings: int) -> int:
    """What `readings` numbers with so many digits cost in ball arithmetic, in microseconds; nothing is allocated.

    delta and a point of the curve are one reading each, epsilon two, mu of Gaussian DP about a hundred. Lines are long
    where few steps, little noise or rare sampling make the loss one of rare large jumps.
    """
    sampled = [(part, count) for step, count in steps if isinstance(part := step.part(1.0), SampledGaussianPart)]
    if not sampled or (len(steps) == 1 and steps[0][1] == 1):
        return GROUND_TRUTH_CLOSED * readings
    loss = math.sqrt(math.fsum(count * (part.sample_rate / part.noise_multiplier) ** 2 for part, count in sampled))
    noise = min(part.noise_multiplier for part, _ in sampled)
    many = sum(count for _, count in sampled) >= LEAST_STEPS
    easy = many and noise >= LEAST_NOISE and LEAST_LOSS <= loss <= LARGE_LOSS
    share = (1 + len(sampled)) / 2
    return math.ceil(GROUND_TRUTH_LINES * (1 if easy else GROUND_TRUTH_HARD) * share * digits / 25) * readings
