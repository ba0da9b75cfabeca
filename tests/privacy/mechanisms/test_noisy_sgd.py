"""Batches of fixed size: the pair of an added record, the bracket of a replaced one, and attacks that attain them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.mechanisms.noisy_sgd import NoisySgd
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.arrays import FloatArray
from service.privacy.questions.gaussian_dp import mu
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from tests.slow_marker import thorough

ADD: NeighboringRelation = "add_or_remove_one"
REPLACE: NeighboringRelation = "replace_one"
COARSE = EngineOptions(relative_tolerance=1e-3)
SAMPLERS = Path(__file__).parents[1] / "reference" / "samplers.json"


def sgd(records: int, batch: int, noise: float, steps: int) -> NoisySgd:
    """Return a run with `noise` on the sum of a batch, relative to the largest gradient."""
    return NoisySgd(
        dataset_size=records, batch_size=batch, dimension=3, steps=steps, noise_std=noise / batch, max_grad_norm=1.0
    )


def curves(mechanism: AbstractMechanism, relation: NeighboringRelation, method: str = "auto") -> TradeOffPair:
    return WorstCase(relation).curves(mechanism, method, COARSE)


def one_step(noise: float, rate: float, *, numerator_mixed: bool) -> Callable[[FloatArray], FloatArray]:
    """Return delta as a function of eps for N(0, 1) and the mixture (1 - rate) N(0, 1) + rate N(2/noise, 1).

    With `numerator_mixed` the mixture is H1, otherwise H0.
    """
    mu = 2 / noise

    def tails(level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the masses under both hypotheses where ln of the likelihood ratio exceeds `level`."""
        inner = (np.exp(level) - (1 - rate)) / rate
        at = np.where(inner > 0, np.log(np.maximum(inner, 1e-300)) / mu + mu / 2, -np.inf)
        null = ndtr(-at)
        return null, (1 - rate) * null + rate * ndtr(mu - at)

    def delta(eps: FloatArray) -> FloatArray:
        if numerator_mixed:
            null, mixed = tails(eps)
            return np.asarray(mixed - np.exp(eps) * null)
        null, mixed = tails(-eps)
        return np.asarray((1 - null) - np.exp(eps) * (1 - mixed))

    return delta


def composed_delta(noise: float, rate: float, steps: int, eps: float, *, numerator_mixed: bool) -> float:
    """Return delta_T(eps) of T sampled steps, by the trapezoidal rule over the outcomes of all steps but the last.

    delta_T(eps) is the mean of delta_{T-1}(eps - L) over the loss L of a step. delta_1 is smooth but not analytic where
    its argument is the smallest log ratio. The error with these nodes is 1e-11 for two steps and 1e-8 for three.
    """
    mu, h = 2 / noise, 5e-4 if steps == 2 else 0.01
    y = np.arange(-9.0, mu + 9.0, h)
    loss = np.log1p(rate * np.expm1(mu * y - mu * mu / 2))
    density = np.exp(-0.5 * y * y) / math.sqrt(2 * math.pi)
    weight = h * density * (np.exp(loss) if numerator_mixed else 1.0)
    signed = loss if numerator_mixed else -loss
    left, masses = np.array([eps]), np.array([1.0])
    for _ in range(steps - 1):
        left = (left[:, None] - signed).ravel()
        masses = (masses[:, None] * weight).ravel()
    return float(masses @ one_step(noise, rate, numerator_mixed=numerator_mixed)(left))


@pytest.mark.parametrize(
    ("records", "batch", "noise", "steps", "error"),
    [
        (16, 4, 2.0, 1, 1e-15),
        (7, 1, 1.3, 1, 1e-15),
        thorough(10, 7, 3.0, 2, 1e-11),
        thorough(7, 1, 1.3, 2, 1e-11),
        (10, 7, 4.0, 3, 1e-8),
    ],
)
def test_added_record_matches_pair_of_theorem(records: int, batch: int, noise: float, steps: int, error: float) -> None:
    found = curves(sgd(records, batch, noise, steps), ADD)
    assert found.bracket is None
    for eps in {1: (0.0, 0.4, 1.5), 2: (0.0, 1.5), 3: (0.4,)}[steps]:
        for curve, mixed in ((found.add, True), (found.remove, False)):
            known = composed_delta(noise, batch / records, steps, eps, numerator_mixed=mixed)
            read = curve.profile_at(eps)
            assert read.lower - error <= known <= read.upper + error


def test_added_record_matches_published_epsilon() -> None:
    rows = [row for row in json.loads(SAMPLERS.read_text("utf-8")) if row["id"].startswith("fixed-without")]
    assert rows
    for row in rows:
        asked: dict[str, Any] = row["inputs"]
        run = sgd(asked["dataset_size"], asked["batch_size"], asked["noise_multiplier"], asked["steps"])
        found = curves(run, ADD)
        read = (found.add if asked["numerator"] == "P=mixture" else found.remove).epsilon(asked["delta"])
        slack = row["rel_tol"] * row["value"]
        assert read.lower - slack <= row["value"] <= read.upper + slack
        assert read.relative_width() < 1e-9


def test_added_record_equals_sampled_step_with_half_noise() -> None:
    """An added record has the curve of a Poisson-sampled run with half the noise.

    Some rates are doubles, and others are enclosed by the doubles on either side.
    """
    for records, batch in ((64, 1), (100, 1), (48_000, 400)):
        ours = curves(sgd(records, batch, 1.0, 500), ADD)
        theirs = curves(DpSgd(noise_multiplier=0.5, sample_rate=batch / records, steps=500), ADD)
        for one, other in ((ours.add, theirs.add), (ours.remove, theirs.remove), (ours.both, theirs.both)):
            first, second = one.epsilon(1e-6), other.epsilon(1e-6)
            assert max(first.lower, second.lower) <= min(first.upper, second.upper)
            assert first.relative_width() < 1e-8
        rates = np.array([1e-12, 1e-3, 0.5])
        mine, known = ours.add.power(rates), theirs.add.power(rates)
        assert (np.maximum(mine.lower, known.lower) <= np.minimum(mine.upper, known.upper)).all()


def test_ground_truth_uses_exact_fractions() -> None:
    run = sgd(100, 1, 1.0, 200)
    exact = WorstCase(ADD).curves(run, "ground_truth", EngineOptions(digits=30)).add.epsilon(1e-5)
    near = curves(run, ADD).add.epsilon(1e-5)
    assert near.lower <= exact.lower <= exact.upper <= near.upper
    assert exact.decimal is not None
    assert exact.decimal.digits == 30


def test_full_batch_is_gaussian_under_either_relation() -> None:
    for relation in (ADD, REPLACE):
        found = curves(sgd(50, 50, 4.0, 9), relation)
        assert found.bracket is None
        # mu = 2/4 sqrt(9)
        same = curves(Gdp(mu=1.5), relation).add.power(np.array([1e-6, 0.2]))
        read = found.add.power(np.array([1e-6, 0.2]))
        assert (read.lower <= same.upper).all()
        assert (same.lower <= read.upper).all()


def test_without_noise_each_relation_has_its_own_pair() -> None:
    seen = NoisySgd(dataset_size=100, batch_size=10, dimension=3, steps=3, noise_std=0.0, max_grad_norm=1.0)
    ever, alpha = 1 - 0.9**3, np.array([1e-9, 0.25])
    known: dict[NeighboringRelation, FloatArray] = {REPLACE: ever + alpha, ADD: ever + (1 - ever) * alpha}
    for relation, powers in known.items():
        found = curves(seen, relation)
        assert found.bracket is None
        read = found.add.power(alpha)
        assert (read.lower <= powers * (1 + 1e-15)).all()
        assert (powers * (1 - 1e-15) <= read.upper).all()
    backwards = curves(seen, ADD).remove.power(alpha)
    assert np.allclose(backwards.upper, alpha / 0.9**3, rtol=1e-12)
    # A probability that rounds to one is not one: something stays hidden.
    often = NoisySgd(dataset_size=2, batch_size=1, dimension=3, steps=100, noise_std=0.0)
    error = curves(often, REPLACE).add.type_two_error(np.array([1e-40]))
    assert error.lower[0] <= 2.0**-100 <= error.upper[0]


def test_replaced_record_is_exact_for_one_step_and_bracket_for_several() -> None:
    for steps in (1, 2, 1000):
        found = curves(sgd(100, 1, 1.0, steps), REPLACE)
        assert (found.bracket is None) == (steps == 1)
        assert found.add is found.remove
    single, added = curves(sgd(100, 1, 1.0, 1), REPLACE), curves(sgd(100, 1, 1.0, 1), ADD)
    for eps in (0.0, 0.5, 3.0):
        one, two = single.add.profile_at(eps), added.both.profile_at(eps)
        assert max(one.lower, two.lower) <= min(one.upper, two.upper)


def test_bounds_of_bracket_match_both_theorems() -> None:
    """Both bounds of epsilon match their theorems: 13.36 is attained, and 14.82 is that of the symmetrised pair.

    The run has noise 1, rate 0.01, 1000 steps and delta 1e-5.
    """
    replaced, attained = curves(sgd(100, 1, 1.0, 1000), REPLACE), curves(sgd(100, 1, 1.0, 1000), ADD)
    read, known = replaced.add.epsilon(1e-5), attained.both.epsilon(1e-5)
    assert known.lower * (1 - 1e-9) <= read.lower <= known.upper
    assert math.isclose(read.lower, 13.36, abs_tol=5e-3)
    assert math.isclose(read.upper, 14.82, abs_tol=2e-2)


def test_simulated_attack_reaches_lower_and_respects_upper_bound() -> None:
    """The power of a simulated attack is at least the lower and at most the upper bound, up to the error of sampling.

    All other records have gradient -1, the record 1, and its replacement -1. Batches are drawn, and the likelihood
    ratio is tested.
    """
    records, batch, noise, steps, trials = 6, 2, 6.0, 20, 20_000
    generator = np.random.default_rng(20261122)
    rate, mu = batch / records, 2 / noise

    def losses(*, replaced: bool) -> FloatArray:
        total = np.zeros(trials)
        for _ in range(steps):
            # Record 0 is in a uniform batch without replacement if its rank is among the first.
            drawn = np.argsort(generator.random((trials, records)), axis=1)[:, :batch]
            gradients = np.where((drawn == 0) & (not replaced), 1.0, -1.0).sum(axis=1)
            y = (gradients + noise * generator.normal(size=trials) + batch) / noise
            total += np.log1p(rate * np.expm1(mu * y - mu * mu / 2))
        return total

    null, present = losses(replaced=True), losses(replaced=False)
    curve = curves(sgd(records, batch, noise, steps), REPLACE).add
    for alpha in (0.01, 0.2):
        threshold = np.quantile(null, 1 - alpha)
        power = float((present > threshold).mean())
        read = curve.power_at(alpha)
        error = 6 * math.sqrt(1 / trials)
        assert read.lower - error <= power <= read.upper + error
    assert read.lower < read.upper


OTHERS: tuple[AbstractMechanism, ...] = (
    Gaussian(noise_multiplier=3.0),
    Gdp(mu=0.3),
    Laplace(noise_multiplier=4.0),
    PureDp(epsilon=0.4),
    sgd(30, 5, 6.0, 1),
    sgd(10, 10, 8.0, 2),
)


def test_random_runs_have_ordered_bounds_and_notes_on_their_source() -> None:
    generator = np.random.default_rng(7)
    for _ in range(3):
        parts = [sgd(int(generator.integers(4, 60)), 3, float(generator.uniform(2, 6)), int(generator.integers(1, 40)))]
        parts += [OTHERS[place] for place in generator.choice(len(OTHERS), size=1, replace=False)]
        run = Composed(mechanisms=tuple(parts))
        below, found = curves(run, ADD), curves(run, REPLACE)
        assert below.bracket is None
        assert found.bracket is not None
        assert "Theorem 11" in found.bracket
        assert "Theorem 4.2" in found.bracket
        read = found.add.profile_at(1.0)
        assert read.lower <= read.upper
        # Replacing a record reveals at least as much as adding it, with steps that are at least as sensitive.
        assert below.add.profile_at(1.0).lower <= read.upper
        assert read.lower <= 1


@pytest.mark.parametrize("method", ["closed_form", "contour", "saddlepoint", "clt", "monte_carlo", "ground_truth"])
def test_engines_of_a_single_law_reject_bracket_and_name_theorems(method: str) -> None:
    with pytest.raises(UnsupportedCombination) as caught:
        curves(sgd(100, 10, 2.0, 5), REPLACE, method)
    assert "two theorems" in str(caught.value).lower()
    assert caught.value.field == "method"


@pytest.mark.parametrize("method", ["contour", "saddlepoint", "clt", "monte_carlo"])
def test_every_engine_supports_added_record(method: str) -> None:
    read = curves(sgd(100, 10, 8.0, 200), ADD, method).add.power_at(0.1)
    known = curves(sgd(100, 10, 8.0, 200), ADD).add.power_at(0.1)
    assert read.lower - 0.02 <= known.lower <= known.upper <= read.upper + 0.02


def test_cost_of_bracket_is_that_of_lattices() -> None:
    run = sgd(100, 10, 8.0, 200)
    exact, bracket = WorstCase(ADD).plan(run).cost, WorstCase(REPLACE).plan(run).cost
    assert 0 < exact.evaluate < 50_000 < bracket.evaluate
    assert WorstCase(REPLACE).plan(sgd(100, 10, 8.0, 1)).cost.evaluate < 20_000
    assert WorstCase(REPLACE).plan(sgd(100, 100, 8.0, 9)).cost.evaluate < 8_000


def test_mu_of_bracketed_curve_covers_every_curve_between() -> None:
    """The enclosure of mu for a curve between two Gaussian curves meets the mu of each curve between them.

    In some cases the upper curve has no point in the range of mu, but a curve between may have points there.
    """
    shifts = (1.0, 1.02, 1.3, 2.0, 3.0)
    between = Bracketed(gaussian_curve(Enclosure.point(shifts[0])), gaussian_curve(Enclosure.point(shifts[-1])))
    for rate, error in ((1e-9, 1e-9), (0.3, 0.3), (0.3, 1e-3), (0.0, 0.0), (0.1, 0.4)):
        read = mu(between, rate, error)
        for shift in shifts:
            inside = mu(gaussian_curve(Enclosure.point(shift)), rate, error)
            assert read.value.lower <= inside.value.upper
            assert inside.value.lower <= read.value.upper
            assert read.global_mu.lower <= shift <= read.global_mu.upper
    near = curves(sgd(48_000, 400, 5.0, 2000), ADD)
    assert mu(near.add, 1e-3, 1e-3).value.relative_width() < 1e-9
