"""Choices among candidates: the upper bound against the laws of all outcomes of small cases, and attained bounds."""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy.integrate import quad

from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.discrete.noisy_max_attacks import GROUPS, REACH, STEP, chances
from service.privacy.mechanisms.discrete.piecewise_exponential import (
    PiecewiseExponential,
    laplace_density,
    laplace_distribution,
)
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.numerics.arrays import FloatArray
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built, gaussian
from tests.slow_marker import sample_of, thorough

EPSILONS = (-0.4, 0.0, 0.2, 0.7, 1.5)
Spec = dict[str, Any]


def curve_of(spec: Spec, relation: NeighboringRelation = "add_or_remove_one") -> AbstractTradeOff:
    return WorstCase(relation).curves(built(spec)).both


def noisy_max(noise: str, scale: float, *, monotone: bool = False) -> Spec:
    return {"type": "report_noisy_max", "noise": noise, "scale": scale, "sensitivity": 1.0, "monotone": monotone}


def gumbel_choice(scores: FloatArray, scale: float) -> FloatArray:
    weights = np.exp((scores - scores.max()) / scale)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def exponential_choice(scores: FloatArray, scale: float) -> FloatArray:
    """Return the law of permute and flip (McKenna, Sheldon 2020), by all orders in which candidates are visited."""
    chances, orders = np.exp((scores - scores.max()) / scale), list(permutations(range(len(scores))))
    found = np.zeros(len(scores))
    for order in orders:
        left = 1.0
        for each in order:
            found[each] += left * chances[each] / len(orders)
            left *= 1 - chances[each]
    return found


def laplace_choice(scores: FloatArray, scale: float) -> FloatArray:
    """Return the law of the largest noisy score, by sums of exponentials."""
    found: list[float] = []
    for chosen, score in enumerate(scores.tolist()):
        product_of_all = laplace_density(scale, score)
        for other, lower in enumerate(scores.tolist()):
            if other != chosen:
                product_of_all = product_of_all.times(laplace_distribution(scale, lower))
        found.append(product_of_all.integral()[0])
    return np.array(found)


CHOICES = {"gumbel": gumbel_choice, "exponential": exponential_choice, "laplace": laplace_choice}


def delta(absent: FloatArray, present: FloatArray, epsilon: float) -> float:
    return float(np.maximum(present - math.exp(epsilon) * absent, 0).sum())


def moved(random: Generator, scores: FloatArray, *, monotone: bool) -> FloatArray:
    """Return the scores after a change by one record: each moves by at most 1, mostly by an extreme amount."""
    steps = random.choice([0.0, 1.0] if monotone else [-1.0, 1.0], size=len(scores))
    mixed = steps * random.uniform(0.0, 1.0, size=len(scores)) if random.uniform() < 0.3 else steps
    return scores + mixed * (random.choice([-1.0, 1.0]) if monotone else 1.0)


@pytest.mark.parametrize(
    ("noise", "cases"), [("gumbel", 125), ("exponential", 125), ("laplace", 20), thorough("laplace", 125)]
)
@pytest.mark.parametrize("monotone", [False, True])
def test_no_scores_exceed_upper_bound(noise: str, cases: int, monotone: bool) -> None:
    """Random score vectors for each noise and kind of scores, at five thresholds, with the best event of each."""
    random = np.random.default_rng([3510, monotone])
    choice = CHOICES[noise]
    for _ in range(cases):
        scale = float(math.exp(random.uniform(-1, 1.5)))
        scores = random.normal(size=int(random.integers(2, 5))) * scale
        pair = choice(scores, scale), choice(moved(random, scores, monotone=monotone), scale)
        assert pair[0].sum() == pytest.approx(1, rel=1e-10)
        upper = curve_of(noisy_max(noise, scale, monotone=monotone)).profile(np.array(EPSILONS)).upper
        for epsilon, most in zip(EPSILONS, upper.tolist(), strict=True):
            assert delta(*pair, epsilon) <= most + 1e-12


@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize("monotone", [False, True])
def test_two_candidates_attain_every_rate(noise: str, monotone: bool) -> None:
    curve = curve_of(noisy_max(noise, 2.0, monotone=monotone))
    for gap in (-3.0, -1.0, -0.2, 0.5):
        first, second = np.array([gap, 0.0]), np.array([gap + 1.0, 0.0 if monotone else -1.0])
        rate, power = (CHOICES[noise](scores, 2.0)[0] for scores in (first, second))
        found = curve.power_at(float(rate))
        assert found.lower * (1 - 1e-9) <= power <= found.upper * (1 + 1e-9)
        assert found.upper - found.lower <= 1e-9


def few_against_few(raised: int, others: int, gap: float, scale: float = 1.0) -> float:
    """Return the chance that one of several candidates, whose scores are larger by `gap`, wins against others."""
    scores = np.array([gap * scale] * raised + [0.0] * others)
    return float(laplace_choice(scores, scale)[:raised].sum())


@pytest.mark.parametrize(("raised", "others"), [(1, 1), (1, 4), (2, 3), (3, 3), (4, 2)])
def test_chances_of_few_against_few_agree_with_laws_of_all_candidates(raised: int, others: int) -> None:
    gaps = np.array([-9.3, -2.1, -0.3, -1e-4, 0.0, 1e-4, 0.7, 3.9])
    (low, high), (missed_low, missed_high) = chances(raised, others, gaps)
    truth = np.array([few_against_few(raised, others, gap) for gap in gaps.tolist()])
    for lower, upper, value in ((low, high, truth), (missed_low, missed_high, 1 - truth)):
        assert (lower <= value + 1e-12).all()
        assert (upper >= value - 1e-12).all()
        assert (upper - lower <= 1e-12 * upper + 1e-15).all()


@pytest.mark.parametrize("gap", [0.02, 3.0, 40.0])
def test_chances_far_behind_keep_digits(gap: float) -> None:
    """One candidate that is h behind wins against one other with the chance (2 + h) e^-h/4."""
    (low, high), _ = chances(1, 1, np.array([-gap]))
    assert low[0] <= (2 + gap) / 4 * math.exp(-gap) * (1 + 1e-15)
    assert high[0] >= (2 + gap) / 4 * math.exp(-gap) * (1 - 1e-15)
    assert high[0] <= low[0] * (1 + 1e-12)


@sample_of(3)
@pytest.mark.parametrize(
    ("eta", "epsilon", "monotone"),
    [(0.5, 0.0, False), (1.0, 0.1, True), (1.0, 0.7, False), (2.0, 0.5, False), (2.0, 1.2, True), (4.0, 3.0, False)],
)
def test_lower_bound_of_laplace_noise_reaches_every_few_against_few(eta: float, epsilon: float, monotone: bool) -> None:
    """At least 99.8 % of the best delta of one to five raised candidates against one to five others."""
    best = max(
        few_against_few(raised, others, gap + eta) - math.exp(epsilon) * few_against_few(raised, others, gap)
        for raised, others in product((1, 2, 3, 5), (1, 2, 3, 4, 5))
        for gap in np.arange(-eta - 2, 1.5, 0.25).tolist()
    )
    found = curve_of(noisy_max("laplace", (1 if monotone else 2) / eta, monotone=monotone)).profile_at(epsilon)
    assert found.lower >= 0.998 * best
    assert found.upper == pytest.approx(-math.expm1((epsilon - eta) / 2), rel=1e-13)


def test_steps_of_laplace_noise_hold_one_pair_of_data_sets() -> None:
    """The lower bound of delta for two and for five choices is at most the delta of one attack in every step.

    It is at least 95 % of the delta of the best such attack.
    """
    eta, epsilon, found = 1.0, 0.3, []
    for raised, others in GROUPS:
        gaps = np.linspace(-eta - REACH, REACH, int((eta + 2 * REACH) / STEP))
        (_, rate), _ = chances(raised, others, gaps)
        (power, _), _ = chances(raised, others, gaps + eta)
        found += [(rate, power), (1 - power, 1 - rate)]
    rates, powers = (np.concatenate(column) for column in zip(*found, strict=True))
    for steps in (2, 5):
        ones, best = np.arange(steps + 1), np.zeros_like(rates)
        for count in ones.tolist():
            ways = math.comb(steps, count)
            masses = [ways * chance**count * (1 - chance) ** (steps - count) for chance in (rates, powers)]
            best += np.maximum(masses[1] - math.exp(epsilon) * masses[0], 0)
        curve = curve_of({"type": "repeated", "steps": steps, "mechanism": noisy_max("laplace", 2.0)})
        assert 0.95 * best.max() <= curve.profile_at(epsilon).lower <= best.max() * (1 + 1e-9)


def stream_law(answers: list[float], threshold: float, query: float, positives: int) -> dict[tuple[int, ...], float]:
    """Return the law of the released bits of the sparse vector technique for queries that are fixed beforehand.

    `answers` are the answers of the queries, and `threshold` and `query` the scales of the noise of the threshold and
    of a query.
    """
    found: dict[tuple[int, ...], float] = {}
    for bits in product((0, 1), repeat=len(answers)):
        count = 0
        kept: list[int] = []
        for bit in bits:
            kept.append(bit)
            count += bit
            if count == positives:
                break
        if tuple(kept) in found or (len(kept) < len(bits) and any(bits[len(kept) :])):
            continue
        joint = laplace_density(threshold, 0.0)
        for bit, answer in zip(kept, answers, strict=False):
            below = laplace_distribution(query, answer)
            joint = joint.times(complement(below) if bit else below)
        found[tuple(kept)] = joint.integral()[0]
    return found


def complement(function: PiecewiseExponential) -> PiecewiseExponential:
    pieces = tuple(
        {0.0: 1 - piece.get(0.0, 0.0), **{r: -c for r, c in piece.items() if r}} for piece in function.pieces
    )
    return PiecewiseExponential(function.breaks, pieces)


def test_no_stream_exceeds_upper_bound_of_sparse_vectors() -> None:
    """No delta of 75 random streams exceeds the upper bound for the sparse vector technique.

    A stream has up to four queries and ends after one or two positive bits. A bit is 1 if answer + noise > threshold.
    """
    random = np.random.default_rng(3511)
    for _ in range(75):
        first, second = (float(math.exp(random.uniform(-2, 1))) for _ in range(2))
        positives = int(random.integers(1, 3))
        scales = 1 / first, 2 * positives / second
        answers = random.normal(size=int(random.integers(1, 5))) * max(scales) * 0.7
        laws = [
            stream_law([float(a) for a in each], *scales, positives)
            for each in (answers, moved(random, answers, monotone=False))
        ]
        absent, present = (np.array([law[bits] for bits in laws[0]]) for law in laws)
        assert absent.sum() == pytest.approx(1, rel=1e-9)
        spec = {
            "type": "sparse_vector",
            "threshold_epsilon": first,
            "query_epsilon": second,
            "positives": positives,
        }
        found = curve_of(spec).profile(np.array(EPSILONS))
        for epsilon, most in zip(EPSILONS, found.upper.tolist(), strict=True):
            assert delta(absent, present, epsilon) <= most + 1e-10


def test_lower_bound_of_sparse_vectors_is_attained_by_stream() -> None:
    spec = {"type": "sparse_vector", "threshold_epsilon": 0.5, "query_epsilon": 0.5, "positives": 1}
    found = curve_of(spec).profile_at(0.0)
    assert 0.098 <= found.lower <= 0.11
    assert found.upper == pytest.approx(-math.expm1(-0.5), rel=1e-13)


def test_integrals_of_exponentials_agree_with_quadrature() -> None:
    random = np.random.default_rng(3512)
    for _ in range(20):
        a, b, c = random.normal(size=3).tolist()
        function = (
            laplace_density(1.3, a).times(laplace_distribution(0.6, b).power(2)).times(laplace_distribution(2.0, c))
        )

        def plain(x: float, a: float = a, b: float = b, c: float = c) -> float:
            def below(scale: float, center: float) -> float:
                t = (x - center) / scale
                return 0.5 * math.exp(t) if t < 0 else 1 - 0.5 * math.exp(-t)

            return math.exp(-abs(x - a) / 1.3) / 2.6 * below(0.6, b) ** 2 * below(2.0, c)

        truth = quad(plain, -60, 60, points=sorted([a, b, c]), limit=200, epsabs=1e-13)[0]
        value, error = function.integral()
        assert abs(value - truth) <= 1e-11
        assert error <= 1e-11


def test_one_choice_beside_other_steps_is_tight_and_several_are_bracket() -> None:
    choice = {"type": "permute_and_flip", "epsilon": 0.5}
    one = WorstCase().curves(built({"type": "composed", "mechanisms": [choice, gaussian(2.0)]}))
    two = WorstCase().curves(built({"type": "composed", "mechanisms": [choice, choice, gaussian(2.0)]}))
    assert one.bracket is None
    assert two.bracket is not None
    for pair, most in ((one, 1e-6), (two, 0.2)):
        found = pair.both.epsilon(1e-5)
        assert found.upper - found.lower <= most * found.upper
    assert two.both.epsilon(1e-5).lower > one.both.epsilon(1e-5).upper


def test_sampled_choice_is_sampled_laplace_noise_and_attained_by_two_candidates() -> None:
    choice = {"type": "permute_and_flip", "epsilon": 1.5}
    pair = WorstCase().curves(built({"type": "poisson_sampled", "sample_rate": 0.2, "mechanism": choice}))
    noise = {"type": "laplace", "noise_multiplier": 1 / 1.5}
    other = WorstCase().curves(built({"type": "poisson_sampled", "sample_rate": 0.2, "mechanism": noise}))
    assert pair.bracket is None
    for gap in (-2.0, -0.75, 0.3):
        rate, power = (exponential_choice(np.array([each, 0.0]), 1.0)[0] for each in (gap, gap + 1.5))
        found = pair.add.power_at(float(rate))
        assert found.lower - 1e-12 <= 0.8 * rate + 0.2 * power <= found.upper + 1e-12
        assert found.upper == pytest.approx(other.add.power_at(float(rate)).upper, rel=1e-12)
    run = {"type": "poisson_sampled", "sample_rate": 0.2, "mechanism": choice}
    several = WorstCase().curves(built({"type": "repeated", "mechanism": run, "steps": 5}))
    assert several.bracket is not None
    found = several.both.epsilon(1e-4)
    assert pair.both.epsilon(1e-4).lower <= found.lower < found.upper <= 1.2 * found.lower


def test_monotone_scores_of_replaced_records_are_refused() -> None:
    with pytest.raises(UnsupportedCombination, match="both directions") as refusal:
        curve_of(noisy_max("exponential", 2.0, monotone=True), "replace_one")
    assert refusal.value.field == "threat_model"


def test_unknown_noise_raises() -> None:
    with pytest.raises(OutOfDomain) as refusal:
        built(noisy_max("gaussian", 1.0))
    assert refusal.value.name == "noise"
