"""Batch evaluation of runs: every enclosure overlaps the enclosure for the run evaluated alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.inversion.many import Wanted, evaluate_together, run_of
from service.privacy.composition.inversion.recorded_queries import recorded_queries_of
from service.privacy.composition.inversion.run_law import RunLaw
from service.privacy.composition.summands.abstract import Summand
from service.privacy.composition.summands.gaussian_mixture import GaussianMixtureSteps
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps
from service.privacy.composition.summands.two_points import TwoPointSteps
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.mechanisms.abstract import GaussianMixturePart
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.neighbours import ADD_OR_REMOVE, REPLACE, Neighbours
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.prefetched import Known, PrefetchedCurve
from tests.slow_marker import sample_of, thorough

C1 = SampledGaussianSteps(1.0, 0.01, 1000)


def log_uniform(random: Generator, low: float, high: float) -> float:
    return float(math.exp(random.uniform(math.log(low), math.log(high))))


def random_run(random: Generator) -> SampledGaussianSteps:
    """Draw a run of few to millions of steps that reveals almost nothing, everything, or something between."""
    return SampledGaussianSteps(
        log_uniform(random, 0.4, 30), log_uniform(random, 1e-4, 0.9), int(log_uniform(random, 1, 1e6))
    )


def frequent(random: Generator) -> SampledGaussianSteps:
    return SampledGaussianSteps(
        log_uniform(random, 0.7, 8), log_uniform(random, 2e-3, 0.2), int(log_uniform(random, 500, 5e4))
    )


def rare(random: Generator) -> SampledGaussianSteps:
    """Draw a run in which the record is expected to be sampled in 0.1 to 5 steps."""
    count = int(log_uniform(random, 60, 1e4))
    return SampledGaussianSteps(log_uniform(random, 0.8, 6), log_uniform(random, 0.1, 5) / count, count)


def random_queries(random: Generator) -> tuple[Known, ...]:
    made = [
        *(Known(side, "epsilon", log_uniform(random, 1e-10, 0.5)) for side in (False, True)),
        *(Known(side, "power", log_uniform(random, 1e-8, 0.9)) for side in (False, True)),
        *(Known(side, "profile", float(random.uniform(-2, 5))) for side in (False, True)),
        *(Known(side, "point", log_uniform(random, 1e-8, 0.9)) for side in (False, True)),
        Known(False, "profile", 0.0),
    ]
    return tuple(made[index] for index in random.permutation(len(made))[:3])


def schedule(random: Generator) -> tuple[Summand, ...]:
    """Draw two to four phases, in which the record is expected to be sampled in 0.1 step or in more."""
    number = int(random.integers(2, 5))
    first = rare(random) if random.random() < 0.5 else frequent(random)
    noises = [first.noise_multiplier * log_uniform(random, 0.5, 2) for _ in range(number)]
    counts = [max(int(first.count * log_uniform(random, 0.1, 1)), 1) for _ in range(number)]
    rates = [min(first.sample_rate * log_uniform(random, 0.3, 3), 0.9) for _ in range(number)]
    return tuple(map(SampledGaussianSteps, noises, rates, counts))


def mixtures(neighbours: Neighbours) -> Callable[[Generator], tuple[Summand, ...]]:
    """Return a function that draws a run of mixture steps for these neighbours, sampled rarely or often."""

    def draw(random: Generator) -> tuple[Summand, ...]:
        one = rare(random) if random.random() < 0.7 else frequent(random)
        base = Gaussian(noise_multiplier=one.noise_multiplier)
        part = PoissonSampled(sample_rate=one.sample_rate, mechanism=base).under(neighbours).part()
        assert isinstance(part, GaussianMixturePart)
        return (GaussianMixtureSteps(part, one.count),)

    return draw


LAWS: dict[str, Callable[[Generator], tuple[Summand, ...]]] = {
    "schedules": schedule,
    "replaced": mixtures(Neighbours(REPLACE)),
    "two records": mixtures(Neighbours(ADD_OR_REMOVE, 2)),
    "seven records": mixtures(Neighbours(ADD_OR_REMOVE, 7)),
}


def alone(steps: Summand | tuple[Summand, ...], known: Known) -> Enclosure:
    curve: AbstractTradeOff = contour_pair(0.0, steps if isinstance(steps, tuple) else (steps,))[known.reflected]
    read = {"epsilon": curve.epsilon, "power": curve.power_at, "profile": curve.profile_at}
    if known.quantity in read:
        return read[known.quantity](known.at)
    points = curve.points(np.array([known.at]))
    column = {"point": points.power, "type_two_error": points.type_two_error, "log_slope": points.log_slope}
    return column[known.quantity].at(0, curve.evidence)


def together(
    runs: Sequence[SampledGaussianSteps | tuple[Summand, ...]], asked: list[tuple[Known, ...]]
) -> list[Wanted]:
    listed = [each if isinstance(each, tuple) else (each,) for each in runs]
    wanted = [Wanted(RunLaw.of(0.0, steps), known) for steps, known in zip(listed, asked, strict=True)]
    evaluate_together(wanted, 1e-6)
    return wanted


def assert_meet(found: Enclosure, other: Enclosure) -> None:
    assert found.evidence is Evidence.CERTIFIED
    assert found.lower <= found.upper
    assert found.lower <= other.upper + 1e-15 * abs(other.upper)
    assert other.lower <= found.upper + 1e-15 * abs(found.upper)


def assert_all_meet(each: Wanted) -> None:
    """Check that enclosures of a run overlap those of the run evaluated alone, and that all but slopes are narrow."""
    for known, found in each.known.items():
        if known.quantity != "epsilon_cap":
            assert_meet(found, alone(each.run.summands, known))
            assert known.quantity == "log_slope" or found.relative_width() <= 1e-6


@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 12))])
def test_batch_meets_single_runs_over_whole_space(seed: int) -> None:
    random, runs = np.random.default_rng(seed), 16 if seed == 1 else 40
    wanted = together([random_run(random) for _ in range(runs)], [random_queries(random) for _ in range(runs)])
    for each in wanted:
        assert_all_meet(each)


@sample_of(2)
@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 12))])
@pytest.mark.parametrize("law", [thorough(law) if law in ("schedules", "replaced") else law for law in LAWS])
def test_runs_of_every_law_are_evaluated_in_batch(law: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    runs = [LAWS[law](random) for _ in range(10 if seed == 1 else 24)]
    asked = [(*random_queries(random), Known(False, "epsilon", 1e-5), Known(False, "power", 1e-3)) for _ in runs]
    wanted = together(runs, asked)
    taking_part = [each for each in wanted if sum(step.sampled for step in each.run.summands) >= 0.1]
    served = [known in each.known for each in taking_part for known in each.readings[-2:]]
    assert np.mean(served) >= 0.8
    for each in wanted:
        assert_all_meet(each)


@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 8))])
def test_most_rare_runs_are_evaluated_beside_frequent_ones(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = [rare(random) if index % 2 else frequent(random) for index in range(40)]
    asked = (Known(False, "epsilon", 1e-5), Known(False, "power", 1e-3))
    wanted = together(steps, [asked] * len(steps))
    served = [known in each.known for each in wanted[1::2] for known in asked]
    assert np.mean(served) >= 0.95
    for each, step in list(zip(wanted, steps, strict=True))[1::8]:
        for known in asked:
            if known in each.known:
                assert_meet(each.known[known], alone(step, known))


@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 8))])
def test_runs_of_any_parameters_are_evaluated_or_skipped(seed: int) -> None:
    """A batch evaluates or skips runs of any parameters, and enclosures overlap those of runs evaluated alone.

    Noise and rates cover the range of doubles, where the variance of a loss underflows.
    """
    random = np.random.default_rng(seed)
    steps = [
        SampledGaussianSteps(
            log_uniform(random, 1e-3, 1e15), log_uniform(random, 1e-300, 1), int(log_uniform(random, 1, 1e9))
        )
        for _ in range(60)
    ]
    for each in together(steps, [random_queries(random) for _ in steps]):
        for known, found in each.known.items():
            least = -math.inf if known.quantity == "log_slope" else 0.0
            assert least <= found.lower <= found.upper, known


def test_most_training_runs_are_evaluated_in_batch() -> None:
    random = np.random.default_rng(5)
    asked = (Known(False, "epsilon", 1e-5), Known(False, "power", 1e-3), Known(True, "profile", 0.5))
    wanted = together([frequent(random) for _ in range(60)], [asked] * 60)
    served = [known in each.known for each in wanted for known in each.readings]
    assert np.mean(served) >= 0.95


def test_runs_with_equal_noise_and_rate_share_tables() -> None:
    """Runs that differ in the number of steps only share one table, and similar thresholds share a contour."""
    steps = [replace(C1, count=number) for number in (200, 1000, 5000, 40_000)]
    asked = (Known(False, "epsilon", 1e-5), Known(False, "power", 1e-3), Known(True, "epsilon", 1e-5))
    for each, step in zip(together(steps, [asked] * 4), steps, strict=True):
        for known in asked[:2]:
            assert_meet(each.known[known], alone(step, known))


@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 8))])
def test_contours_at_one_tilt_share_nodes(seed: int) -> None:
    """Runs that differ in the number of steps share nodes: nearly all their numbers are answered in one batch."""
    random = np.random.default_rng(seed)
    some = [frequent(random) for _ in range(3)]
    steps = [replace(each, count=int(each.count * factor)) for each in some for factor in np.linspace(0.5, 1.0, 24)]
    asked = tuple(Known(side, kind, 1e-3) for kind in ("epsilon", "power", "profile") for side in (False, True))
    wanted = together(steps, [asked] * len(steps))
    served = [known in each.known for each in wanted for known in asked[2:]]
    assert np.mean(served) >= 0.95
    for each in wanted[::5]:
        assert_all_meet(each)


@pytest.mark.parametrize("reflected", [False, True])
def test_powers_near_one_are_evaluated_in_batch(reflected: bool) -> None:
    """Powers near 1 in a batch overlap those of runs evaluated alone, while the type II error still fits a double."""
    steps = [SampledGaussianSteps(0.8, 0.1, number) for number in (300, 1_000, 3_000, 30_000, 400_000)]
    asked = (Known(reflected, "power", 1e-3), Known(reflected, "power", 1e-9))
    for each, step in zip(together(steps, [asked] * len(steps)), steps, strict=True):
        for known in asked:
            assert_meet(each.known[known], alone(step, known))
            assert each.known[known].lower <= 1


@pytest.mark.parametrize("number", [100, 1000, 100_000])
def test_bounds_from_other_direction_hold(number: int) -> None:
    step, delta = replace(C1, count=number), 1e-5
    [read] = together([step], [(Known(False, "epsilon", delta), Known(True, "epsilon", delta))])
    cap = read.known[Known(True, "epsilon_cap", delta)]
    assert cap.upper >= alone(step, Known(True, "epsilon", delta)).lower
    if Known(True, "epsilon", delta) not in read.known:
        assert cap.upper <= read.known[Known(False, "epsilon", delta)].lower


def test_order_of_runs_does_not_matter() -> None:
    """Enclosures meet in every order of the runs. Bounds may differ by rounding, because arrays are longer."""
    random = np.random.default_rng(3)
    steps, asked = [frequent(random) for _ in range(12)], [random_queries(random) for _ in range(12)]
    forth, back = together(steps, asked), together(steps[::-1], asked[::-1])[::-1]
    for one, other in zip(forth, back, strict=True):
        for known in set(one.known) & set(other.known) - {Known(True, "epsilon_cap", 0.0)}:
            if known.quantity != "epsilon_cap":
                assert_meet(one.known[known], other.known[known])


def test_only_runs_of_one_law_are_batched() -> None:
    assert RunLaw.of(0.0, (C1,)).unit == ((replace(C1, count=1),), 1000)
    assert RunLaw.of(0.1, (C1,)).unit is None
    other = replace(C1, sample_rate=0.02, count=600)
    assert RunLaw.of(0.0, (C1, other)).unit == ((replace(C1, count=5), replace(other, count=3)), 200)
    assert RunLaw.of(0.0, (C1, TwoPointSteps(0.1, 10))).unit is None
    assert RunLaw.of(0.0, [replace(C1, noise_multiplier=1 + k / 8) for k in range(5)]).unit is None
    assert run_of(contour_pair(0.1, [C1])[0]) is None
    assert run_of(contour_pair(0.0, [C1])[0]) is not None


def test_prefetched_values_are_used_and_others_computed() -> None:
    add, remove = contour_pair(0.0, [C1])
    known = {Known(False, "power", 0.1): Enclosure(0.2, 0.3, Evidence.CERTIFIED)}
    curve = PrefetchedCurve(add, known, reflected=False)
    assert (curve.power_at(0.1).lower, curve.power_at(0.1).upper) == (0.2, 0.3)
    assert curve.power_at(0.2) == add.power_at(0.2)
    assert curve.reversed().power_at(0.1) == remove.power_at(0.1)
    assert curve.epsilon(1e-5) == add.epsilon(1e-5)
    assert curve.profile_at(1.0) == add.profile_at(1.0)
    assert curve.points(np.array([0.3])).power.lower[0] == add.points(np.array([0.3])).power.lower[0]


def test_recorded_queries_are_those_of_the_question() -> None:
    assert recorded_queries_of(lambda pair: pair.both.epsilon(1e-5)) == (
        Known(False, "epsilon", 1e-5),
        Known(True, "epsilon", 1e-5),
    )
    assert recorded_queries_of(lambda pair: pair.remove.power_at(0.1)) == (Known(True, "power", 0.1),)
    assert recorded_queries_of(lambda pair: pair.add.profile_at(0.0)) == (Known(False, "profile", 0.0),)
    assert recorded_queries_of(lambda pair: pair.add.points(np.array([0.1, 0.2]))) == (
        Known(False, "point", 0.1),
        Known(False, "point", 0.2),
    )
    assert recorded_queries_of(lambda pair: pair.add.points(np.linspace(0.1, 0.2, 100))) == ()
