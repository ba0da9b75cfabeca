"""Cost models of the engines, measured in a warm process, and how costs grow with the run.

`CEILING_OF_ONE_CURVE` and `CEILING_OF_SAMPLED_STEP` are upper limits over the whole range of all arguments. All other
numbers are estimates.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Final

from service.privacy.composition.exact_sums.exact_runs import Responses, halves, losses_of
from service.privacy.composition.exact_sums.laplace_reach import uniforms_kept
from service.privacy.composition.inversion.loss_shape import is_direct, shape_of
from service.privacy.composition.lattice.law import LARGEST_LOSS
from service.privacy.composition.planning.cost_model import Ceiling, CostModel, ReadingCosts, summed
from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.planning.parts import Counted, exponentials, listed_laws
from service.privacy.mechanisms.abstract import (
    AbstractStep,
    LaplacePart,
    Steps,
    TwoPointPart,
)
from service.privacy.mechanisms.batches.batch_mean import BatchMean
from service.privacy.mechanisms.batches.batch_seen import BatchSeen
from service.privacy.mechanisms.stated_divergences import DominatingPolygon, StatedDivergences
from service.privacy.trade_off.atom_sums import Kinds, products
from service.privacy.trade_off.scaled_masses import PRODUCTS_PER_MICROSECOND

# Engine                         build  evaluate  per point, in microseconds
ONE_CURVE: Final = CostModel(50, 250, 5, one_curve=True, search_mu=4_000)
ATOMS: Final = CostModel(2_000, 250, 5, one_curve=True, search_mu=12_000, limits_need_curve=True)
"""One step with listed losses. Making the list takes up to 40 ms for steps with many losses."""
SAMPLED_STEP: Final = CostModel(100, 600, 10, search_mu=8_000)
MIXTURE_STEP: Final = CostModel(1_000, 8_000, 40)
MOST_LAW_WORK: Final = 3_000.0
"""Microseconds that the laws of a run's steps may cost for a plan to ask for them."""
READS_OF_A_LAW: Final = 6
"""About how often a plan and its engine evaluate the law of a step."""
STATED_CLASS: Final = CostModel(200, 3_000, 500)
"""One record of a class of mechanisms, whose points are computed in ball arithmetic."""
SHUFFLED_STEP: Final = CostModel(2_000, 15_000, 4_000)
"""One round of shuffled reports, by contours."""
TABLES: Final = CostModel(300_000, 500, 10)
"""Laws of the losses of shuffled reports, from tables."""
SUMS_OF_EPOCHS: Final = CostModel(50_000, 250, 5)
CONTOUR: Final = CostModel(1_000, 7_000, 20)
CONTOURS_OF_MU: Final = 50_000.0
"""Cost of the thresholds of the search for mu, each with its own contour, unless the run reveals nearly everything."""
TWO_STEPS: Final = CostModel(3_000, 170_000, 5_000)
LATTICES: Final = CostModel(6_000, 18_000, 80, search_mu=1_000_000, tilts=12.0)
"""Points of mu deep in the tails need additional lattices (`search_mu`)."""
LONGEST_SEARCH: Final = 1_500_000
"""Largest cost of the search for mu, however long the run: the search ends with the allowance of work."""
RECURSION: Final = CostModel(4_000, 1_000, 600, one_curve=True)
SERIES: Final = CostModel(2_500, 300, 4, reuse=1)
SADDLEPOINT: Final = CostModel(9_000, 7_000, 120)
SAMPLED_RUN: Final = CostModel(0, 500, 10)
BALLS_OF_CLOSED_FORM: Final = CostModel(0, 2_000, 1_000, reuse=1)
BALLS: Final = CostModel(300_000, 8_000, 40_000, reuse=1)

_NEVER_INLINE: Final = math.inf
_CEILING_OF_ONE: Final = ReadingCosts(
    point=900,
    list_start=500,
    listed_point=15,
    profile=900,
    epsilon=3_500,
    complement=1_500,
    gdp_mu=_NEVER_INLINE,
    limit=700,
)
CEILING_OF_ONE_CURVE: Final = Ceiling(200, _CEILING_OF_ONE, _CEILING_OF_ONE)
"""Ceiling of one step or of Gaussian steps: a closed form, equal in both directions."""
CEILING_OF_SAMPLED_STEP: Final = Ceiling(
    300,
    ReadingCosts(
        point=2_500,
        list_start=12_000,
        listed_point=30,
        profile=1_200,
        epsilon=5_000,
        complement=4_000,
        gdp_mu=_NEVER_INLINE,
        limit=1_000,
    ),
    ReadingCosts(
        point=7_000,
        list_start=20_000,
        listed_point=60,
        profile=1_500,
        epsilon=5_500,
        complement=8_000,
        gdp_mu=_NEVER_INLINE,
        limit=1_000,
    ),
)
"""Ceiling of one sampled step: a closed form for each direction."""

LONGER, MOST_TIMES_LONGER, LEAST_HITS = 1.0, 6.0, 0.1
"""Ratio of the cost of a contour to that of a short one, for a loss with rare large jumps.

The first number holds where the record is expected to be used once. The ratio grows for runs that use it less, up to
the second number; the third is the smallest expected number of uses.
"""
VERY_FEW, OF_VERY_FEW = 10, 10.0
"""Number of equal steps up to which the modes of such a loss are separate, and the ratio of their cost."""
MOST_PARTS: Final = 64
"""Maximal number of different steps that each add their own transform to a contour. More steps share sums."""
SEVERAL_LATTICES: Final = 3.0
"""Ratio of the cost of lattices for runs that contours cannot serve: many numbers need several lattices and tilts."""
SMALL_LOSS, MU_OF_SMALL_LOSS = 1e-4, 100_000.0
"""Largest loss (nats) of a single step whose curve is nearly a straight line, and the cost of the search for its mu."""
OF_BATCH_MEANS: Final = 8.0
"""Further ratio for batches of a fixed size: where a record is replaced, two pairs of laws bound each number, and the
lattices of each are read in both directions."""
BESIDE_EXPONENTIALS, OF_MANY_EXPONENTIALS, MU_OF_MANY_EXPONENTIALS = 3.0, 14.0, 4.0
"""Ratios of the cost of lattices beside an adaptive composition, whose two bounds each have their own law: beside few
steps, and beside as many as a recursion takes. The last ratio is that of the search for mu beside many steps."""
FINER, FINEST = 0.25, 10.0
"""Power of the ratio of the default tolerance to a smaller one with which the cost of lattices grows, and the largest
ratio of that cost: lattices end at a largest size."""
SHARE_OF_A_PART: Final = 1 / 10
"""Share of the cost that every further kind of step adds."""
CLASS_ON_LATTICE: Final = 400_000
"""Cost of the lattice law of a step with stated divergences, whose curve is computed in ball arithmetic."""
LITTLE_NOISE, BESIDE_LITTLE_NOISE = 0.02, 450_000
"""Noise of sampled steps below which contours are always wide, and the cost of the second engine for such a run."""
OF_LISTED_LOSSES: Final = 4.0
"""Ratio of the cost of saddle points of steps with listed losses to that of other steps."""
LONGEST_RECURSION, MOST_TABLES, TABLE = 100, 4_000, 1_000
"""Maximal number of steps of a recursion; number and cost of tables of runs with several epsilons."""
CHUNK, DRAWN_CHUNK = 2**18, 20_000
"""Number of draws of a chunk, and its cost."""
LEAST_STEPS, LEAST_NOISE, LEAST_LOSS, LARGE_LOSS = 100, 0.5, 0.1, 6.0
"""Ranges of steps, noise and standard deviation of the loss of runs with short contours in ball arithmetic."""
WEAK_LOSS: Final = 1e-6
"""Standard deviation of the loss below which these contours are short for all shifts."""
TERMS_AT_ONCE: Final = 20
"""Number of shifts of a mixture that cost as much as the rest of its evaluation."""
LONG_BALLS: Final = 10.0
"""Ratio of the cost of other contours in ball arithmetic."""


def mixture_of_shifts(losses: int, count: int, loss: float) -> CostModel:
    """Return the cost of one step, or of `count` Laplace steps, composed with steps of the losses +-epsilon.

    Costs are in microseconds of CPU time. `loss` is the largest loss (nats) of a Laplace step, and `losses` the number
    of sums of the +-epsilon. The curve is evaluated at two thresholds for each of these sums.
    """
    profile = 200.0 + 4 * losses
    if count > 1:
        profile += 2 * losses * (60 + 2 * uniforms_kept(count, loss))
    build = 2_000.0 if count == 1 else laplace_sums(count, loss).build
    return CostModel(build, 10 * profile, 3 * profile)


def response_sums(run: Responses) -> CostModel:
    """Return the cost of exact sums of the losses of (epsilon, delta)-DP steps, the randomised responses of `run`.

    Costs are in microseconds of CPU time. Equal steps need sums over about ten standard deviations of the number of
    true answers. Different steps need a search in a list of losses.
    """
    if len(run.answers) > 1:
        losses = max(losses_of(half) for half in halves(run.answers))
        return CostModel(100, 2_000 + 2 * losses, 100 + 2.5 * losses, one_curve=True)
    width = math.ceil(run.deviation) if run.answers else 0
    return CostModel(100, 1_500 + 4 * width, 5 + width / 100, one_curve=True, search_mu=80_000)


def laplace_sums(steps: int, loss: float) -> CostModel:
    """Return the cost of exact sums for `steps` Laplace steps with the largest loss `loss` (nats) each.

    Costs are in microseconds of CPU time. The coefficients of splines are computed once, then some hundred multiples of
    them for each point.
    """
    uniforms = uniforms_kept(steps, loss)
    build = 2_000 + 10 * steps + steps * uniforms**2 // 150
    return CostModel(build, 4_000 + 20 * uniforms, 20 + 0.6 * uniforms, one_curve=True, search_mu=100_000)


def contour(parts: tuple[Counted, ...], roundings: int, *, beside_lattices: bool) -> CostModel:
    """Return the cost of contour inversion for the parts (step description, count) of a run.

    Costs are in microseconds of CPU time. `roundings` is 2 if the parameters, rounded down and up to doubles, are
    evaluated separately, else 1. `beside_lattices` is whether lattices supplement the contours.
    """
    shape, hits = shape_of(parts)
    steps = sum(count for _, count in parts)
    if steps == 2 and beside_lattices and (shape == "jumps" or is_direct(parts)):
        return TWO_STEPS
    longer = 1.0
    if shape == "jumps":
        few = len(parts) == 1 and steps <= VERY_FEW
        longer = OF_VERY_FEW if few else min(max(LONGER / max(hits, LEAST_HITS), 1.0), MOST_TIMES_LONGER)
    model = replace(CONTOUR, search_mu=0.0 if shape == "everything" else CONTOURS_OF_MU)
    model = model.scaled(roundings * longer * math.sqrt(min(len(parts), MOST_PARTS)))
    jumps = [part.jump for part, _ in parts if part.decays and part.jump]
    if beside_lattices and any(noise < LITTLE_NOISE for noise, _ in jumps):
        return replace(model, evaluate=model.evaluate + BESIDE_LITTLE_NOISE)
    return model


def smoothed(different: int) -> CostModel:
    """Return the cost of `different` kinds of randomised responses composed with a little Gaussian noise.

    The run is computed by contour inversion, and costs are in microseconds of CPU time. Contours have some 100,000
    nodes.
    """
    return CostModel(10_000, 80_000 + 3_000 * different, 300, one_curve=True)


def listed(losses: int) -> CostModel:
    """Return the cost of steps with `losses` different losses, off a lattice, with a little Gaussian noise.

    The run is computed by contour inversion, and costs are in microseconds of CPU time.
    """
    return CostModel(10_000, 50_000 + 50 * losses, 300, one_curve=True)


def law_work(steps: Steps) -> float:
    """Return about how many microseconds the laws of a run's different steps cost, each evaluated once."""
    return math.fsum(step.law_work for step, _ in steps)


def expensive_laws(steps: Steps) -> CostModel:
    """Return the cost of the laws of a run that is planned when its curves are first needed.

    The cost is in microseconds of CPU time.
    """
    return CostModel(READS_OF_A_LAW * law_work(steps), 0, 0)


def lattices(steps: Steps, options: EngineOptions) -> CostModel:
    """Return the cost, in microseconds of CPU time, of the lattice engine for any steps.

    The engine rounds the losses of the steps to a lattice, whose size follows from `options.relative_tolerance`. Equal
    steps are a power of one transform, so that their number does not change the cost.
    """
    finer = max(DEFAULT_OPTIONS.relative_tolerance / options.relative_tolerance, 1.0) ** FINER
    model = LATTICES.scaled(min(finer, FINEST) * (1 + SHARE_OF_A_PART * (len(steps) - 1)))
    classes = sum(isinstance(step, DominatingPolygon | StatedDivergences) for step, _ in steps)
    model = replace(model, build=model.build + CLASS_ON_LATTICE * classes, limits_need_curve=classes > 0)
    search = 0.0 if any(map(_reveals_all, (step for step, _ in steps))) else min(model.search_mu, LONGEST_SEARCH)
    return replace(model, search_mu=search)


def alone_on_lattices(steps: Steps, options: EngineOptions) -> CostModel:
    """Return the cost, in microseconds of CPU time, of the lattice engine for steps that contours cannot serve.

    `options.relative_tolerance` is the relative width of enclosures aimed at.
    """
    model = lattices(steps, options)
    if model.search_mu == 0.0:  # nearly everything is revealed
        return model
    several = SEVERAL_LATTICES * (OF_BATCH_MEANS if any(isinstance(step, BatchMean) for step, _ in steps) else 1.0)
    return replace(model, evaluate=several * model.evaluate, per_point=several * model.per_point)


def _reveals_all(step: AbstractStep) -> bool:
    """Return whether nearly all losses of a step are beyond the range of lattices.

    No Gaussian-DP mu is then searched for.
    """
    if step.law_work > MOST_LAW_WORK:
        return False
    match step.covered():
        case LaplacePart() as part:
            return part.sample_rate * part.loss > LARGEST_LOSS
        case TwoPointPart() as part:
            return part.epsilon > LARGEST_LOSS
        case None:
            return isinstance(step, BatchSeen) or (step.adaptive_range or 0.0) > LARGEST_LOSS
        case part:
            return part.spread > LARGEST_LOSS


def adaptive_exponential(steps: Steps, options: EngineOptions) -> CostModel:
    """Return the cost, in microseconds of CPU time, of a run with several exponential steps.

    The engine is a recursion, and lattices if the run has other steps or too many exponential steps. `options` has the
    relative width aimed at.
    """
    counts = Counter[float]()
    for epsilon, count in exponentials(steps):
        counts[epsilon] += count
    taken = min(counts.total(), LONGEST_RECURSION)
    tables = min(math.prod(min(count, MOST_TABLES) + 1 for count in counts.values()), MOST_TABLES)
    build = TABLE * len(counts) * tables if len(counts) > 1 else RECURSION.build * taken
    known = CostModel(build, RECURSION.evaluate, RECURSION.per_point, one_curve=True)
    alone = counts.total() == sum(count for _, count in steps) <= LONGEST_RECURSION
    if alone:
        return known
    beside, many = lattices(steps, options), taken / LONGEST_RECURSION
    ratio = BESIDE_EXPONENTIALS + many * (OF_MANY_EXPONENTIALS - BESIDE_EXPONENTIALS)
    search = beside.search_mu * (1 + many * (MU_OF_MANY_EXPONENTIALS - 1))
    return summed([known, replace(beside.scaled(ratio), search_mu=search)])


def series(steps: Steps, _options: EngineOptions) -> CostModel:
    """Return the cost, in microseconds of CPU time, of expansions of the run's law at the mean of the loss.

    These are the central limit and the Edgeworth expansion. Every different step has cumulants of its own. The options
    do not change the cost.
    """
    return SERIES.scaled(len(steps))


def saddlepoint(steps: Steps, _options: EngineOptions) -> CostModel:
    """Return the cost, in microseconds of CPU time, of saddle-point approximations of the tails of a run's loss.

    There is an expansion at the saddle point of each threshold. The options do not change the cost.
    """
    return SADDLEPOINT.scaled(len(steps) + (OF_LISTED_LOSSES - 1) * len(listed_laws(steps)))


def monte_carlo(steps: Steps, options: EngineOptions) -> CostModel:
    """Return the cost, in microseconds of CPU time, of the Monte Carlo engine.

    The first evaluation pays for the draws of both hypotheses, whose number is `options.samples`.
    """
    parts = [(step.part(), count) for step, count in steps]
    laws = [count for part, count in parts if part is None or part.gaussian_shift is None]
    tables = sum(count.bit_length() + count.bit_count() - 1 for count in laws) * DRAWN_CHUNK / 2
    drawn = DRAWN_CHUNK * len(laws) * (1 + 2 * options.samples / CHUNK) + options.samples / 2
    return summed([SAMPLED_RUN, CostModel(tables + drawn, 0, 0)])


def ground_truth(steps: Steps, options: EngineOptions) -> CostModel:
    """Return the cost, in microseconds of CPU time, of the engine of ball arithmetic, which proves many digits.

    Contours are long where few steps, little noise or rare sampling make the loss one of rare large jumps.
    `options.digits` is the number of decimal digits.
    """
    known = [(step.part(), count) for step, count in steps]
    sampled = [(part, part.jump, count) for part, count in known if part is not None and part.decays and part.jump]
    terms = sum(part.mixture_terms for part, _, _ in sampled)
    if not sampled or (len(steps) == 1 and steps[0][1] == 1):
        return BALLS_OF_CLOSED_FORM.scaled(1 + terms)
    loss = math.sqrt(math.fsum(count * (rate / noise) ** 2 for _, (noise, rate), count in sampled))
    noise = min(part.noise_between_shifts for part, _, _ in sampled)
    many = sum(count for _, _, count in sampled) >= LEAST_STEPS
    short = loss < WEAK_LOSS or (many and noise >= LEAST_NOISE and LEAST_LOSS <= loss <= LARGE_LOSS)
    kinds = (1 + len(sampled)) / 2 * (1 + min(terms, 2) + terms / TERMS_AT_ONCE)
    return BALLS.scaled((1 if short else LONG_BALLS) * kinds * options.digits / DEFAULT_OPTIONS.digits)


def atom_sums(kinds: Kinds) -> CostModel:
    """Return the cost, in microseconds of CPU time, of a run of steps with listed losses.

    The cost is that of direct convolutions, and of a curve with many edges. `kinds` has the different laws with their
    counts.
    """
    build = products(kinds) / PRODUCTS_PER_MICROSECOND
    size = math.fsum(law.size * math.sqrt(count) for law, count in kinds)
    return CostModel(200 + build, 300 + 0.05 * size, 5, one_curve=True, search_mu=20_000)
