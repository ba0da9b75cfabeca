"""Monte Carlo intervals contain the true value as often as they claim, for every law of the loss."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from api_schemas.questions import QuestionSpec
from service.privacy.composition.comparison.monte_carlo.drawn_lattice import DrawnLaw, repeated_law
from service.privacy.composition.comparison.monte_carlo.draws import Draws
from service.privacy.composition.comparison.monte_carlo.engine import TailProfile
from service.privacy.composition.planning import choose
from service.privacy.composition.planning.cost import monte_carlo
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.losses.law import ComposedLoss
from service.privacy.losses.steps import laplace_loss, sampled_gaussian_loss, two_point_loss
from service.privacy.numerics.binomial import BinomialIntervals, mean_above, mean_below
from service.privacy.numerics.distribution_band import DistributionBand
from service.privacy.questions import gaussian_dp, membership
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.privacy.monte_carlo_coverage import (
    MECHANISMS,
    QUESTIONS,
    SEARCHED,
    CoverageRow,
    allowed,
    asked,
    misses,
    rows,
)
from tests.privacy.references import number, read_composed
from tests.privacy.references import rows as reference_rows
from tests.slow_marker import sample_of

RATES = np.array([1e-12, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.999])
EPSILONS = np.array([-3.0, -0.1, 0.0, 0.2, 1.0, 3.0])
COMPOSED = [
    row for row in reference_rows("truth_composed") if row["id"].split("-")[0] in ("C1", "C3", "C5", "S1", "L1", "G1")
]


@cache
def pair_of(spec: str, samples: int = 50_000, seed: int = 0) -> TradeOffPair:
    return choose.pair(built(json.loads(spec)), "monte_carlo", options=EngineOptions(samples=samples, seed=seed))


def contains(lower: float, upper: float, truth: float, tolerance: float) -> bool:
    return lower <= truth + tolerance and truth - tolerance <= upper


@sample_of(12)
@pytest.mark.parametrize("row", COMPOSED, ids=lambda row: row["id"])
def test_intervals_contain_reference_values(row: dict[str, Any]) -> None:
    answer = read_composed(pair_of(json.dumps(row["inputs"]["mechanism"])), row)
    assert contains(answer.lower, answer.upper, number(row["value"]), number(row["abs_tol"]))
    assert answer.evidence is Evidence.STATISTICAL or math.isinf(answer.upper)


@pytest.mark.parametrize("name", ["C1-gamma-0.1", "S1-gamma-0.1", "L1-gamma-0.1", "G1-gamma-0.1"])
def test_intervals_are_as_narrow_as_sampling_allows(name: str) -> None:
    """The width of an interval is at most four standard errors.

    An interval of the power has two errors: that of the power, and that of the rate times the slope of the curve.
    """
    row = next(row for row in COMPOSED if row["id"] == name)
    pair, truth = pair_of(json.dumps(row["inputs"]["mechanism"])), number(row["value"])
    answer, slope = read_composed(pair, row), pair.add.points(np.array([0.1])).log_slope
    errors = 2 * math.sqrt(truth * (1 - truth)) + math.exp(float(slope.upper[0])) * math.sqrt(0.1 * 0.9)
    assert answer.upper - answer.lower <= 4 * errors / math.sqrt(50_000)


@sample_of(5)
@pytest.mark.parametrize(
    "spec",
    [
        gaussian(0.7),
        laplace(0.5),
        {"type": "pure_dp", "epsilon": 1.0},
        {"type": "approximate_dp", "epsilon": 0.5, "delta": 0.1},
        {"type": "approximate_dp", "epsilon": 0.0, "delta": 1.0},
        {"type": "gdp", "mu": 0.0},
        sampled(0.3, gaussian(0.5)),
        sampled(0.2, laplace(0.5)),
        sampled(1e-4, gaussian(0.3)),
    ],
    ids=lambda spec: spec["type"],
)
def test_intervals_of_single_steps_contain_exact_values(spec: dict[str, Any]) -> None:
    """Intervals of single steps contain the exact values, each with a miss rate of at most 1e-3.

    Some steps have atoms, singular mass (outcomes that one hypothesis excludes) or no loss at all.
    """
    pair, exact = pair_of(json.dumps(spec)), choose.pair(built(spec), "closed_form")
    for direction in ("add", "remove", "both"):
        ours, truth = getattr(pair, direction), getattr(exact, direction)
        rates = np.concatenate(([0.0], RATES, [1.0]))
        points, truths = ours.points(rates), truth.points(rates)
        readings = [
            (points.power, truths.power),
            (points.type_two_error, truths.type_two_error),
            (ours.profile(EPSILONS), truth.profile(EPSILONS)),
        ]
        if direction != "both":
            readings.append((points.log_slope, truths.log_slope))
        for mine, theirs in readings:
            slack = 1e-12 * np.where(np.isfinite(theirs.upper), np.abs(theirs.upper), 0.0)
            assert (mine.lower <= theirs.upper + slack).all()
            assert (theirs.lower <= mine.upper + slack).all()
        for delta in (0.15, 0.4):
            mine, theirs = ours.epsilon(delta), truth.epsilon(delta)
            assert mine.lower <= theirs.upper
            assert theirs.lower <= mine.upper


COVERED = [
    *asked("sampled Laplace", ["trade_off, 12 points", "reconstruction", "delta"], 0.9),
    CoverageRow("approximate DP", "positive_predictive_value, at_least", "both", 0.9),
    CoverageRow("Gaussian", "gdp_mu", "add", 0.9),
]


def test_coverage_is_as_requested() -> None:
    """Check a small part of `benchmarks/sweeps/coverage.py`, which evaluates every question 500 times."""
    seeds = range(16)
    found = misses(COVERED, seeds)
    assert {row: count for row, count in found.items() if count > allowed(len(seeds), row.confidence)} == {}


def test_coverage_sweep_has_every_question() -> None:
    specs = [*QUESTIONS.values(), *SEARCHED.values()]
    assert {spec["type"] for spec in specs} == {
        get_args(spec.model_fields["type"].annotation)[0] for spec in get_args(get_args(QuestionSpec)[0])
    }
    assert {row.question for row, _ in rows()} == {*QUESTIONS, *SEARCHED}
    assert {row.mechanism for row, _ in rows()} == set(MECHANISMS)


@pytest.mark.parametrize("atoms", [0, 4], ids=["smooth", "atoms"])
def test_bands_hold_simultaneously(atoms: int) -> None:
    """Bands miss the distribution function at some rank no more often than promised.

    The samples are uniform numbers, and uniform numbers rounded down to multiples of 1/`atoms`.
    """
    failure, samples, seeds = 0.2, 300, 500
    band = DistributionBand.of(samples, failure)
    random, missed = np.random.default_rng(1), 0
    for _ in range(seeds):
        drawn = random.random(samples)
        drawn = np.floor(drawn * atoms) / atoms if atoms else drawn
        at = np.sort(drawn)[samples - band.ranks]
        beyond = 1 - (np.floor(at * atoms) + 1) / atoms if atoms else 1 - at  # P(X > x)
        reached = 1 - at  # P(X >= x), also at an atom of the rounded numbers.
        missed += bool((band.upper < beyond - 1e-12).any() or (band.lower > reached + 1e-12).any())
    assert missed <= stats.binom.isf(1e-6, seeds, failure)
    assert band.lower[::-1] == pytest.approx(1 - band.upper, abs=1e-12)


def test_bands_are_valid_for_any_count_beyond_a_threshold() -> None:
    samples = 5_000
    band = DistributionBand.of(samples, 1e-3)
    counts = np.arange(samples + 1)
    lower, upper = band.share_below(counts), band.share_above(counts)
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) >= 0).all()
    assert (lower <= counts / samples).all()
    assert (counts / samples <= upper).all()
    assert (lower[0], upper[-1]) == (0, 1)
    shares = counts[1:-1] / samples
    deviations = np.sqrt(shares * (1 - shares) / samples)
    assert ((upper - lower)[1:-1] <= 14 * deviations + 20 / samples).all()
    probabilities = np.array([0.0, 1e-5, 0.01, 0.3, 0.999, 1.0])
    within, reaching = band.rank_within(probabilities), band.rank_reaching(probabilities)
    # At most k - 1 samples lie strictly above the k-th largest, and at least k at or above it.
    assert (upper[within[within > 0] - 1] <= probabilities[within > 0]).all()
    assert (lower[reaching[reaching <= samples]] >= probabilities[reaching <= samples]).all()
    assert (within[0], reaching[-1]) == (0, samples + 1)


def test_band_profiles_match_integrals_of_tails() -> None:
    """Profiles of bands match E (1 - e^{t - X})_+ at the level t for a law of X on three points.

    One of the points is infinite, and some mass is missing.
    """
    points, tails = np.array([math.inf, 1.5, -0.5]), np.array([0.1, 0.4, 0.8])
    at = np.array([-9.0, -0.5, 0.3, 1.5, 4.0])
    masses = np.diff(tails, prepend=0.0)
    truth = (masses * np.maximum(1 - np.exp(at[:, None] - points), 0.0)).sum(axis=1)
    assert TailProfile.of(points, tails).at(at) == pytest.approx(truth, abs=1e-15)


@pytest.mark.parametrize(("narrow", "cells"), [(1, 700), (3, 4000), (4000, 4000)])
def test_fft_convolution_error_is_within_bound(narrow: int, cells: int) -> None:
    """Convolutions by Fourier transforms are within their bound of direct sums, which are exact to 1e-16 per cell."""
    random = np.random.default_rng(narrow)
    laws = [random.dirichlet(np.ones(size), 2) for size in (narrow, cells)]
    one, other = (DrawnLaw(0.0, 1.0, law, np.zeros(2), 0.0, np.zeros(2)) for law in laws)
    total = one.plus(other, 0.0)
    for hypothesis in (0, 1):
        truth = np.convolve(laws[0][hypothesis], laws[1][hypothesis])
        first = int(total.start)
        found = np.zeros_like(truth)
        found[first : first + total.masses.shape[1]] = total.masses[hypothesis]
        assert np.abs(found - truth).sum() <= total.lost[hypothesis] + 1e-15


def test_seed_determines_result() -> None:
    spec = json.dumps(dpsgd(1.0, 0.1, 20))
    first = pair_of(spec, 2_000, 7).add.power(RATES)
    again = choose.pair(built(json.loads(spec)), "monte_carlo", options=EngineOptions(samples=2_000, seed=7)).add
    assert (again.power(RATES).lower == first.lower).all()
    assert (again.power(RATES).upper == first.upper).all()
    assert (pair_of(spec, 2_000, 8).add.power(RATES).upper != first.upper).any()


def test_higher_confidence_gives_wider_intervals() -> None:
    spec = dpsgd(2.0, 0.1, 100)
    widths: list[float] = []
    for confidence in (0.5, 0.9, 0.999, 0.999999):
        options = EngineOptions(samples=5_000, confidence=confidence)
        answer = choose.pair(built(spec), "monte_carlo", options=options).add.power_at(0.1)
        widths.append(answer.upper - answer.lower)
    assert widths == sorted(widths)


def test_rates_below_sample_resolution_are_wide() -> None:
    curve = pair_of(json.dumps(dpsgd(1.0, 0.01, 1000))).add
    answer = curve.power_at(1e-9)
    assert answer.lower == 1e-9
    assert answer.upper >= 1e-5


def test_intervals_of_mixed_runs_contain_contour_values() -> None:
    spec = {"type": "composed", "mechanisms": [dpsgd(1.0, 0.02, 200), gaussian(3.0), dpsgd(2.0, 0.1, 50)]}
    pair, exact = pair_of(json.dumps(spec)), choose.pair(built(spec), "contour")
    for direction in ("add", "remove", "both"):
        ours, truth = getattr(pair, direction), getattr(exact, direction)
        for rate in (0.01, 0.3):
            assert ours.power_at(rate).lower <= truth.power_at(rate).upper
            assert truth.power_at(rate).lower <= ours.power_at(rate).upper
        for reading in (
            membership.positive_predictive_value(ours, 0.3, 1e-7, "at_least"),
            membership.attack_accuracy(ours, 0.4),
            gaussian_dp.mu(ours, 0.01, 0.01),
        ):
            assert not math.isnan(reading.safe_value)


@pytest.mark.parametrize(
    "options",
    [
        EngineOptions(samples=999),
        EngineOptions(samples=10_000_001),
        EngineOptions(confidence=1.0),
        EngineOptions(confidence=0.0),
        EngineOptions(seed=-1),
    ],
)
def test_options_outside_domain_raise(options: EngineOptions) -> None:
    with pytest.raises(OutOfDomain):
        choose.pair(built(gaussian(1.0)), "monte_carlo", options=options)


def test_cost_rises_with_steps_and_samples() -> None:
    runs = [built(spec).elementary_steps() for spec in (gaussian(1.0), dpsgd(1.0, 0.1, 10), dpsgd(1.0, 0.1, 10**9))]
    costs = [
        [monte_carlo(run, EngineOptions(samples=samples)).build for samples in (10**3, 10**5, 10**7)] for run in runs
    ]
    assert (np.diff(costs, axis=0) > 0).all()
    assert (np.diff(costs, axis=1) > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_losses_with_underflowing_squares_are_drawn(seed: int) -> None:
    """Losses so small that their squares underflow are drawn: their width is found, and the bounds are
    nearly trivial.
    """
    random = np.random.default_rng(seed)
    rate, noise = 10 ** random.uniform(-300, -155), 10 ** random.uniform(-0.5, 15)
    options = EngineOptions(samples=1_000)
    curve = choose.pair(built(dpsgd(noise, rate, int(random.integers(1, 40)))), "monte_carlo", options=options).add
    delta = curve.profile_at(0.0)
    assert 0 <= delta.lower <= delta.upper < 0.05


LAWS = {
    "sampled_gaussian": (sampled_gaussian_loss(1.0, 0.1), 37),
    "sampled_laplace": (laplace_loss(0.5, 0.3), 1000),
    "laplace": (laplace_loss(2.0), 5),
    "coins": (two_point_loss(0.3, 0.0), 200),
    "many": (sampled_gaussian_loss(2.0, 0.01), 10**6),
}


@pytest.mark.parametrize("name", LAWS)
def test_lattice_sums_match_moments_of_run(name: str) -> None:
    """Mean and variance of the drawn sum agree with those of the loss of the run, up to the effect of rounding.

    The mean agrees after the shift of each hypothesis is added. The standard deviations differ by at most the square
    root of `proxy`, a bound of the variance of the rounding errors.
    """
    law, count = LAWS[name]
    total = repeated_law(law, count, 1e-9)
    points = total.start + total.step * np.arange(total.masses.shape[1])
    for hypothesis in (0, 1):
        masses = total.masses[hypothesis]
        mean, variance = count * law.cumulants(hypothesis)[:2]
        assert masses.sum() == pytest.approx(1, abs=1e-12)
        spread = math.sqrt(variance)
        assert masses @ points + total.shifts[hypothesis] == pytest.approx(mean, abs=1e-5 * spread)
        own = math.sqrt(masses @ (points - masses @ points) ** 2)
        assert abs(own - spread) <= math.sqrt(total.proxy) + 1e-5 * spread
    assert total.masses.shape[1] <= 2**18
    assert total.lost.max() <= 1e-6


def test_coarser_lattices_keep_mass_and_mean() -> None:
    random = np.random.default_rng(1)
    for cells in (1, 2, 7, 8):
        masses = random.dirichlet(np.ones(cells), 2)
        law = DrawnLaw(-1.0, 0.5, masses, np.zeros(2), 0.0, np.zeros(2))
        coarse = law.coarser()
        before, after = (one.start + one.step * np.arange(one.masses.shape[1]) for one in (law, coarse))
        assert coarse.masses.sum(axis=1) == pytest.approx(masses.sum(axis=1))
        assert coarse.masses @ after == pytest.approx(masses @ before)


def test_sums_of_two_point_losses_are_binomial() -> None:
    """Two-point losses lie on the lattice without rounding, so the number of larger losses is binomial."""
    total = repeated_law(two_point_loss(0.3, 0.0), 20, 1e-12)
    points = total.start + total.step * np.arange(total.masses.shape[1])
    for hypothesis, chance in ((0, 1 / (1 + math.exp(0.3))), (1, 1 / (1 + math.exp(-0.3)))):
        for heads in (5, 10, 15):
            ours = total.masses[hypothesis][points > 0.3 * (2 * heads - 20) + 0.15].sum()
            assert ours == pytest.approx(float(stats.binom.sf(heads, 20, chance)), abs=1e-11)


def test_draws_pass_kolmogorov_smirnov() -> None:
    """Draws of the loss pass a Kolmogorov-Smirnov test against its exact law.

    The runs are one sampled Gaussian step, and several Gaussian steps.
    """
    law = sampled_gaussian_loss(1.0, 0.2)
    draws = Draws(ComposedLoss(((law, 1),)), 20_000, 3)
    distribution: Any = law.distribution  # Types of scipy allow one argument; kstest passes an array.
    for hypothesis in (0, 1):
        found = stats.kstest(draws.ascending[hypothesis], lambda x, h=hypothesis: distribution(x, h))
        assert found.pvalue > 1e-4


def test_binomial_intervals_match_clopper_pearson() -> None:
    counts = np.array([0, 1, 17, 500, 999, 1000])
    low, high = BinomialIntervals(1000, 0.01).share_below(counts), BinomialIntervals(1000, 0.01).share_above(counts)
    for index, count in enumerate(counts):
        reference = stats.binomtest(int(count), 1000).proportion_ci(0.98, "exact")
        assert low[index] == pytest.approx(reference.low, abs=1e-12)
        assert high[index] == pytest.approx(reference.high, abs=1e-12)


def test_order_statistic_ranks_have_coverage() -> None:
    """The ranks whose order statistics bound a quantile are the first ones with the promised coverage.

    The mass above the k-th largest of n draws has the law Beta(k, n - k + 1).
    """
    samples, failure = 1000, 0.01
    for rate in (1e-4, 0.01, 0.3, 0.999):
        k = int(BinomialIntervals(samples, failure).rank_reaching(np.array([rate]))[0])
        if k <= samples:
            assert stats.beta.cdf(rate, k, samples - k + 1) <= failure
        assert k == 1 or stats.beta.cdf(rate, k - 1, samples - k + 2) > failure
        k = int(BinomialIntervals(samples, failure).rank_within(np.array([rate]))[0])
        assert k == 0 or stats.beta.cdf(rate, k, samples - k + 1) >= 1 - failure
        assert k == samples or stats.beta.cdf(rate, k + 1, samples - k) < 1 - failure


def test_bounds_of_means_attain_their_error_budget() -> None:
    """A bound b of a mean m of n samples uses exactly its failure probability: n kl(m, b) = ln(1/failure).

    kl is the relative entropy of two Bernoulli laws. If all samples are 0, the upper bound is 1 - failure^(1/n).
    """
    samples, failure = 5000, 1e-3
    means = np.array([0.0, 1e-4, 0.2, 0.9, 1.0])
    above, below = mean_above(means, samples, failure), mean_below(means, samples, failure)
    assert above[0] == pytest.approx(-math.expm1(math.log(failure) / samples), rel=1e-9)
    assert below[-1] == pytest.approx(failure ** (1 / samples), rel=1e-9)
    for mean, bound in ((0.2, above[2]), (0.9, above[3]), (0.2, below[2]), (0.9, below[3])):
        spent = mean * math.log(mean / bound) + (1 - mean) * math.log((1 - mean) / (1 - bound))
        assert samples * spent == pytest.approx(-math.log(failure), rel=1e-9)
