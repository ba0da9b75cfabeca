"""Short runs of sampled Gaussian steps: laws on few cells against direct sums, contours, and explicit score orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy import special

from service.privacy.composition.planning.choose import plan, steps_of
from service.privacy.composition.short_runs.curves import short_run
from service.privacy.composition.short_runs.reach import FEW_STEPS, is_short_run
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.neighbours import ONE_ADDED
from service.privacy.mechanisms.selected import Selected
from service.privacy.numerics.arrays import FloatArray
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.extremes import largest
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.selection.attacks import attacked
from service.privacy.trade_off.selection.nodes import Nodes
from service.privacy.trade_off.selection.pair import TrialCurves, attained, dominating, selected_curve
from service.privacy.trade_off.selection.trial_counts import TrialCounts
from tests.privacy.cases import built, dpsgd
from tests.slow_marker import thorough

RATES = special.ndtr(np.linspace(-5.0, 5.0, 11))
DELTAS = (1e-2, 1e-4, 1e-7, 1e-11)
EPSILONS = np.array([0.0, 0.01, 0.1, 0.3, 1.0, 2.0, 4.0])


def drawn(random: Generator, most: int) -> dict[str, Any]:
    """Draw a run in reach of 2 to `most` steps."""
    while True:
        noise, rate = float(10 ** random.uniform(-0.5, 1.5)), float(10 ** random.uniform(-3.5, -0.01))
        found = dpsgd(noise, rate, int(random.integers(2, most + 1)))
        if is_short_run(steps_of(built(found), ONE_ADDED)):
            return found


def direct_deltas(mu: float, rate: float, epsilons: FloatArray, *, swapped: bool) -> FloatArray:
    """Return deltas of a run of two steps by the trapezoid rule over the score of one step.

    D_2(x) = E_Q [l D_1(x/l)], with the likelihood ratio l of this step, and D_1 from normal distribution functions.
    """
    width = 4e-4
    z = np.arange(-9.0, 9.0 + mu, width)
    weight = width * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    ratio = 1 - rate + rate * np.exp(mu * z - mu * mu / 2)
    found: list[float] = []
    for slope in np.exp(epsilons):
        x = 1 / (slope * ratio) if swapped else slope / ratio
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.log((x - 1 + rate) / rate) / mu + mu / 2
        score = np.where(np.isnan(score), -np.inf, score)
        side = -1 if swapped else 1
        q, p = special.ndtr(-side * score), special.ndtr(side * (mu - score))
        p = (1 - rate) * q + rate * p
        gains = (q - slope * ratio * p) if swapped else (ratio * p - slope * q)
        found.append(float((weight * gains).sum()))
    return np.array(found)


@pytest.mark.parametrize("index", [*range(6), *(thorough(index) for index in range(6, 80))])
def test_laws_enclose_direct_sums(index: int) -> None:
    """Check that enclosures of delta contain direct sums, with errors below 1e-7 of them, and are at most 1 % wide."""
    spec = drawn(np.random.default_rng([20261201, index]), 2)
    found = short_run(steps_of(built(spec), ONE_ADDED))
    assert found is not None
    mu, rate = 1 / spec["noise_multiplier"], spec["sample_rate"]
    for curve, swapped in ((found.add, False), (found.remove, True)):
        truth = direct_deltas(mu, rate, EPSILONS, swapped=swapped)
        bounds = curve.profile(EPSILONS)
        assert (bounds.lower <= truth * (1 + 1e-7) + 1e-14).all()
        assert (bounds.upper >= truth * (1 - 1e-7) - 1e-14).all()
        large = truth > (1e-4 if swapped else 1e-8)
        assert ((bounds.upper - bounds.lower)[large] <= 0.01 * truth[large]).all()


@pytest.mark.parametrize("index", [thorough(index) for index in range(24)])
def test_brackets_meet_contours(index: int) -> None:
    mechanism = built(drawn(np.random.default_rng([20261202, index]), FEW_STEPS))
    found, known = short_run(steps_of(mechanism, ONE_ADDED)), plan(mechanism).curves
    assert found is not None
    for short, long in ((found.add, known.add), (found.remove, known.remove)):
        _assert_meet(short, long)


def _assert_meet(short: AbstractTradeOff, long: AbstractTradeOff) -> None:
    for delta in DELTAS:
        first, second = short.epsilon(delta), long.epsilon(delta)
        assert first.lower <= second.upper * (1 + 1e-9)
        assert second.lower <= first.upper * (1 + 1e-9)
    first, second = short.points(RATES), long.points(RATES)
    for one, other in ((first.power, second.power), (first.type_two_error, second.type_two_error)):
        assert (one.lower <= other.upper * (1 + 1e-9)).all()
        assert (other.lower <= one.upper * (1 + 1e-9)).all()


def _random_number(random: Generator) -> tuple[dict[str, Any], Callable[[FloatArray], FloatArray]]:
    """Draw a law of the number of trials, and return it with its generating function."""
    mean = float(10 ** random.uniform(0.1, 1.6))
    if random.uniform() < 0.5:
        return {"type": "geometric", "mean": mean}, lambda z: z / (mean - (mean - 1) * z)
    return {"type": "poisson", "mean": mean}, lambda z: np.exp(mean * (z - 1))


@pytest.mark.parametrize("index", [*range(3), *(thorough(index) for index in range(3, 64))])
def test_no_score_order_exceeds_bounds_of_selections(index: int) -> None:
    """Score cells of the outcomes of two steps at random, and in orders that rise and fall with the loss."""
    random = np.random.default_rng([20261203, index])
    spec = drawn(random, 2)
    mu, rate = 1 / spec["noise_multiplier"], spec["sample_rate"]
    law, phi = _random_number(random)
    edges = np.concatenate(([-np.inf], np.linspace(-6.0, 6.0 + mu, 60), [np.inf]))
    first, second = np.diff(special.ndtr(edges)), np.diff(special.ndtr(edges - mu))
    q = np.multiply.outer(first, first).ravel()
    p = np.multiply.outer(*2 * [(1 - rate) * first + rate * second]).ravel()
    ratio = p / np.maximum(q, 1e-300)
    curve = WorstCase().curves(built({"type": "selected", "mechanism": spec, "trials": law})).add
    epsilons = EPSILONS[:5] * min(1.0, 5 * rate * mu)  # no delta is tiny
    upper, lower = curve.profile(epsilons).upper, curve.profile(epsilons).lower
    assert (lower <= upper).all()
    for scores in (ratio, -ratio, *(np.abs(ratio - center) for center in np.quantile(ratio, [0.5, 0.9, 0.99]))):
        for noisy in (scores, np.where(random.uniform(size=len(q)) < 0.1, random.permutation(scores), scores)):
            order = np.argsort(noisy, kind="stable")
            released = [np.diff(phi(np.append(0.0, np.minimum(np.cumsum(mass[order]), 1.0)))) for mass in (p, q)]
            gains = released[0] - np.exp(epsilons)[:, None] * released[1]
            assert (np.maximum(gains, 0.0).sum(axis=1) <= upper + 1e-12).all()


@pytest.mark.parametrize("index", [*range(3), *(thorough(index) for index in range(3, 80))])
def test_laws_hardly_widen_bounds_of_selections(index: int) -> None:
    """Check that selections of the narrower and of the wider law of a trial have nearly equal bounds.

    Two theorems give both bounds of a selection, so they differ by up to 4 % even if the curve of a trial is exact:
    for Gaussian trials with the same delta(0), too. The difference grows where delta is close to that of the selection
    at eps = 0. So the deltas of this test are below 1/400 of delta(0) of one trial.
    """
    random = np.random.default_rng([20261204, index])
    law, _ = _random_number(random)
    spec = drawn(random, FEW_STEPS)
    counts = counts_of(law)
    found = short_run(steps_of(built(spec), ONE_ADDED))
    assert found is not None
    delta = min(float(10 ** random.uniform(-9, -4)), found.add.profile_at(0.0).lower / 400)
    narrow = TradeOffPair(attained(found.add), attained(found.remove), found.source)
    wide = TradeOffPair(dominating(found.add), dominating(found.remove), found.source)
    both, least, most = (
        larger_epsilon(selected_curve(TrialCurves(pair, (pair,)), counts), delta) for pair in (found, narrow, wide)
    )
    assert 0 <= both.lower <= both.upper <= 1.04 * both.lower
    assert both.upper <= 1.01 * least.upper
    assert both.lower >= most.lower / 1.002


@pytest.mark.parametrize("index", [*range(2), *(thorough(index) for index in range(2, 30))])
def test_exchanged_hypotheses_exchange_bounds_of_selections(index: int) -> None:
    random = np.random.default_rng([20261205, index])
    law, _ = _random_number(random)
    spec = drawn(random, FEW_STEPS)
    counts = counts_of(law)
    pair = short_run(steps_of(built(spec), ONE_ADDED))
    assert pair is not None
    swapped = TradeOffPair(pair.remove, pair.add, pair.source)
    first, second = (selected_curve(TrialCurves(each, (each,)), counts) for each in (pair, swapped))
    for delta in DELTAS:
        for one, other in ((first, second.reversed()), (first.reversed(), second)):
            known, again = one.epsilon(delta), other.epsilon(delta)
            assert again.lower == pytest.approx(known.lower, rel=1e-6, abs=1e-9)
            assert again.upper == pytest.approx(known.upper, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("index", [*range(2), *(thorough(index) for index in range(2, 30))])
def test_powers_near_one_hardly_weaken_attacks(index: int) -> None:
    """Check attacks on trials whose powers are so close to 1 that the ratios of single cells do not fall."""
    random = np.random.default_rng([20261206, index])
    spec = dpsgd(float(random.uniform(0.35, 0.6)), float(random.uniform(0.4, 0.8)), int(random.integers(3, 6)))
    counts = counts_of({"type": "poisson", "mean": float(random.uniform(8, 20))})
    pair = short_run(steps_of(built(spec), ONE_ADDED))
    assert pair is not None
    slopes, scores = np.linspace(0.0, 60.0, 300), np.linspace(-8.0, 8.0, 321)
    found: list[FloatArray] = []
    for least in (1e-3, 0.0):
        ahead, back = (_nodes(attained(curve), scores, least) for curve in (pair.add, pair.remove))
        found.append(attacked(ahead, back, counts, slopes, slopes).points(np.geomspace(1e-7, 1e-2, 6)).power.lower)
    assert (1 - found[1] <= 1.01 * (1 - found[0])).all()


def _nodes(curve: AbstractTradeOff, scores: FloatArray, least: float) -> Nodes:
    """Return points of `curve` at normal scores of rates, without those whose type II error is below `least`."""
    kept = scores[curve.points(special.ndtr(scores)).type_two_error.upper >= least]
    return Nodes.of(curve, np.concatenate(([-np.inf], kept, [np.inf])))


def counts_of(law: dict[str, Any]) -> TrialCounts:
    mechanism = built({"type": "selected", "mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "trials": law})
    assert isinstance(mechanism, Selected)
    return mechanism.trials.counts()


@pytest.mark.parametrize("rate", [thorough(3.9e-77), 1e-120])
def test_powers_at_tiny_rates_do_not_contradict_largest_ratios(rate: float) -> None:
    trial = dpsgd(0.47985643456248633, 0.0011364261607587649, 15)
    law = {"type": "binomial", "count": 514, "probability": 0.5}
    curves = WorstCase().curves(built({"type": "selected", "mechanism": trial, "trials": law}))
    for curve in (curves.add, curves.remove):
        power = curve.power_at(rate)
        assert rate <= power.lower <= power.upper


def larger_epsilon(curve: AbstractTradeOff, delta: float) -> Enclosure:
    return largest(curve.epsilon(delta), curve.reversed().epsilon(delta))


@pytest.mark.parametrize(
    "spec", [dpsgd(1.0, 0.01, 1000), dpsgd(1.0, 1.0, 4), dpsgd(0.01, 0.5, 4), dpsgd(0.3, 1e-5, 4), dpsgd(1e3, 0.5, 4)]
)
def test_other_runs_have_no_such_curves(spec: dict[str, Any]) -> None:
    assert not is_short_run(steps_of(built(spec), ONE_ADDED))
