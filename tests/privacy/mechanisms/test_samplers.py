"""Sampling of batches: fixed sizes, shuffled epochs, schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.neighbours import ONE_ADDED, NeighboringRelation, Neighbours
from service.privacy.mechanisms.noisy_sgd import NoisySgd
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.max_statistic import LargestOfMany, ThresholdTests
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from tests.slow_marker import sample_of

READINGS: Final[dict[str, Callable[[AbstractTradeOff], Enclosure]]] = {
    "epsilon": lambda curve: curve.epsilon(1e-5),
    "delta": lambda curve: curve.profile_at(0.05),
    "power": lambda curve: curve.power_at(1e-4),
    "missed": lambda curve: curve.points(np.array([1e-2])).type_two_error.at(0, curve.evidence),
}
RATES = np.array([1e-9, 1e-4, 0.03, 0.4, 0.9, 1 - 1e-6])
EPSILONS = np.array([-4.0, -0.5, 0.0, 0.3, 1.0, 3.0])


def curves(run: DpSgd | Composed, relation: NeighboringRelation = "zero_out", records: int = 1) -> TradeOffPair:
    return choose.pair(run, neighbours=Neighbours(relation, records))


def shuffled(noise: float, batches: int, epochs: int = 1, *, reshuffled: bool = True) -> DpSgd:
    return DpSgd(
        noise_multiplier=noise,
        sample_rate=1 / batches,
        steps=batches * epochs,
        sampling="shuffled",
        reshuffled=reshuffled,
    )


def fixed(**more: Any) -> DpSgd:
    sizes: dict[str, Any] = {"batch_size": 1000, "dataset_size": 100_000, "sample_rate": 0.01, "steps": 1000}
    return DpSgd(noise_multiplier=4.0, **(sizes | more))


@pytest.mark.parametrize(
    ("sampling", "records", "direction", "value"),
    [
        ("fixed_without_replacement", 1, "remove", 0.5796908613),
        ("fixed_with_replacement", 1, "add", 0.6233811744),
        ("fixed_with_replacement", 1, "remove", 0.5802395109),
        ("fixed_without_replacement", 4, "add", 2.8933649804),
        ("fixed_without_replacement", 4, "remove", 2.6605124572),
    ],
)
def test_enclosure_of_fixed_batches_contains_reference(
    sampling: Any, records: int, direction: str, value: float
) -> None:
    """Epsilons of batches of fixed size contain reference values.

    The references were integrated along contours by independent code, and are accurate to 2e-9.
    """
    pair = curves(fixed(sampling=sampling), "add_or_remove_one", records)
    found = getattr(pair, direction).epsilon(1e-5)
    assert found.lower * (1 - 2e-9) <= value <= found.upper * (1 + 2e-9)
    assert found.relative_width() < 1e-6
    assert pair.bracket is None


def test_fixed_batches_equal_noisy_sgd() -> None:
    sgd = NoisySgd(dataset_size=100_000, batch_size=1000, dimension=3, steps=1000, noise_std=4e-3, max_grad_norm=1.0)
    ((theirs, _),) = sgd.elementary_steps()
    ((ours, count),) = fixed(sampling="fixed_without_replacement").elementary_steps()
    assert count == 1000
    for relation in ("add_or_remove_one", "replace_one"):
        known, other = (step.under(Neighbours(relation)).rounded(1) for step in (ours, theirs))
        assert known.curves().both.epsilon(1e-5).upper == pytest.approx(
            other.curves().both.epsilon(1e-5).upper, rel=1e-12
        )


def test_enclosure_of_shuffled_epochs_contains_reference() -> None:
    few = curves(shuffled(0.4, 10_000)).both
    bracket = few.epsilon(1e-5)
    assert (bracket.lower, bracket.upper) == (pytest.approx(13.2066863, rel=2e-8), pytest.approx(13.2067123, rel=2e-8))
    assert few.profile_at(4.0).lower > 0.22
    delta = curves(shuffled(1.0, 1000)).both.profile_at(2.0)
    assert (delta.lower, delta.upper) == (pytest.approx(8.786e-5, rel=5e-4), pytest.approx(0.02092, rel=5e-4))


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_brackets_are_ordered_and_more_batches_reveal_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise, batches = float(np.exp(rng.uniform(-2, 2))), int(np.exp(rng.uniform(1, 8)))
    pair, more = curves(shuffled(noise, batches)), curves(shuffled(noise, 10 * batches))
    revealed = gaussian_curve(Gaussian(noise_multiplier=noise).part().shift)
    for direction in ("add", "remove", "both"):
        curve, other = getattr(pair, direction), getattr(more, direction)
        points, others = curve.points(RATES), other.points(RATES)
        for bounds in (points.power, points.type_two_error, curve.profile(EPSILONS)):
            assert (bounds.lower <= bounds.upper).all()
        assert (others.power.lower <= points.power.lower * (1 + 1e-9)).all()
        assert (points.power.upper >= revealed.points(RATES).power.lower).all()
        assert (other.profile(EPSILONS).lower <= curve.profile(EPSILONS).lower * (1 + 1e-9) + 1e-300).all()


def test_fixed_order_equals_one_epoch_with_less_noise() -> None:
    together, one = curves(shuffled(3.0, 50, 9, reshuffled=False)), curves(shuffled(1.0, 50))
    assert together.add.profile(EPSILONS).lower == pytest.approx(one.add.profile(EPSILONS).lower, rel=1e-9)
    assert together.remove.points(RATES).power.upper == pytest.approx(one.remove.points(RATES).power.upper, rel=1e-9)


def test_epochs_lie_between_one_epoch_and_revealed_order() -> None:
    pair, one = curves(shuffled(1.0, 100, 3)), curves(shuffled(1.0, 100))
    revealed = curves(DpSgd(noise_multiplier=1.0, sample_rate=1.0, steps=3), "zero_out")
    known = pair.both.epsilon(1e-5)
    assert one.both.epsilon(1e-5).lower < known.lower < known.upper
    assert known.upper == pytest.approx(revealed.both.epsilon(1e-5).upper, rel=1e-9)
    whole = curves(DpSgd(noise_multiplier=1.0, sample_rate=0.01, steps=300, sampling="shuffled"))
    assert whole.both.epsilon(1e-5) == known


def test_one_batch_per_epoch_equals_no_sampling() -> None:
    pair = curves(shuffled(2.0, 1, 4))
    assert pair.bracket is None
    assert pair.both.epsilon(1e-5) == curves(DpSgd(noise_multiplier=2.0, sample_rate=1.0, steps=4)).both.epsilon(1e-5)


def test_shuffled_batches_with_other_steps_reveal_no_less() -> None:
    """A composition of shuffled epochs and a Gaussian step reveals at least as much as the epochs alone."""
    alone = shuffled(0.5, 200)
    pair = curves(Composed(mechanisms=(alone, Gaussian(noise_multiplier=3.0))))
    assert pair.bracket is not None
    assert (pair.add.profile(EPSILONS).upper >= curves(alone).add.profile(EPSILONS).lower).all()
    assert pair.both.epsilon(1e-5).lower > curves(alone).both.epsilon(1e-5).lower


@pytest.mark.parametrize("method", ["contour", "clt", "monte_carlo", "ground_truth", "closed_form"])
def test_engines_of_a_single_law_reject_shuffled_batches(method: str) -> None:
    with pytest.raises(UnsupportedCombination) as caught:
        choose.pair(shuffled(1.0, 10), method, Neighbours("zero_out"))
    assert caught.value.field == "method"


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_shuffled_batches_reject_other_relations_with_remedy(relation: NeighboringRelation) -> None:
    with pytest.raises(UnsupportedCombination) as caught:
        curves(shuffled(1.0, 10), relation)
    assert (caught.value.field, caught.value.supported) == ("threat_model", ("zero_out",))


@pytest.mark.parametrize(("noise", "batches"), [(0.5, 8), (1.0, 40)])
def test_named_attack_attains_lower_bound(noise: float, batches: int) -> None:
    """The attack that the lower bound names attains it on simulated epochs.

    Every other record has the gradient -u, and the record itself has u or none.
    """
    rng, runs = np.random.default_rng(7), 40_000
    tests = ThresholdTests(LargestOfMany(batches, 1 / noise), LargestOfMany(batches, 2 / noise))
    threshold = 2 / noise
    alarms: list[float] = []
    for moved in (1.0, 2.0):
        sums = rng.normal(0.0, noise, (runs, batches))
        sums[np.arange(runs), rng.integers(batches, size=runs)] += moved
        alarms.append(float((sums.max(axis=1) > threshold * noise).mean()))
    rates = tests.rates(np.array([threshold]))
    for found, log in zip(alarms, (rates.alpha[0], rates.power[0]), strict=True):
        expected = math.exp(log)
        assert abs(found - expected) < 5 * math.sqrt(expected * (1 - expected) / runs)


@pytest.mark.parametrize("seed", range(4))
def test_cells_of_maximum_are_no_better_than_thresholds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mu, batches = float(np.exp(rng.uniform(-2, 3))), int(np.exp(rng.uniform(0, 12)))
    tests = ThresholdTests(LargestOfMany(batches, mu), LargestOfMany(batches, 2 * mu))
    with np.errstate(under="ignore"):
        corners = Corners.hull(*map(np.exp, tests.spaced(1 / 32)[1]))
    slopes = np.diff(corners.power) / np.maximum(np.diff(corners.rate), 1e-300)
    middle = (corners.rate[1:] < 0.4) & (corners.power[1:] < 0.4)
    assert (np.diff(slopes[middle]) < 0).all()
    polygon = PolygonTradeOff(corners)
    single = curves(shuffled(1 / mu, batches)).add
    for curve, whole in ((polygon, single), (polygon.reversed(), single.reversed())):
        profile = curve.profile(EPSILONS)
        assert (profile.lower <= profile.upper).all()
        assert (profile.lower <= whole.profile(EPSILONS).upper).all()
        gain = curve.points(RATES).power.lower[None, :] - np.exp(EPSILONS)[:, None] * RATES
        assert (gain <= profile.upper[:, None]).all()
        epsilon = curve.epsilon(1e-3)
        assert epsilon.lower <= epsilon.upper
        assert curve.profile_at(epsilon.upper).lower <= 1e-3 * (1 + 1e-9)


def test_schedule_is_composition_of_its_phases() -> None:
    noise, rate, steps = (1.0, 1.5, 1.0), (0.01, 0.02, 0.01), (100, 50, 200)
    schedule = DpSgd(noise_multiplier=noise, sample_rate=rate, steps=steps)
    phases = [DpSgd(noise_multiplier=n, sample_rate=r, steps=s) for n, r, s in zip(noise, rate, steps, strict=True)]
    assert schedule.elementary_steps() == Composed(mechanisms=tuple(phases)).elementary_steps()
    assert [count for _, count in schedule.elementary_steps()] == [300, 50]
    all_alike = DpSgd(noise_multiplier=(1.0,) * 5, sample_rate=0.01, steps=(1, 2, 3, 4, 5))
    assert all_alike.elementary_steps() == DpSgd(noise_multiplier=1.0, sample_rate=0.01, steps=15).elementary_steps()


def test_many_single_step_phases_are_narrow() -> None:
    """A run of 1200 phases of one step, with noise between 1 and 1.2, has a narrow enclosure.

    It lies between the runs of the smallest and of the largest noise.
    """
    noise = tuple(np.linspace(1.0, 1.2, 1200).tolist())
    found = curves(DpSgd(noise_multiplier=noise, sample_rate=0.01, steps=1), "add_or_remove_one").both.epsilon(1e-5)
    ends = [
        curves(DpSgd(noise_multiplier=end, sample_rate=0.01, steps=1200), "add_or_remove_one").both.epsilon(1e-5)
        for end in (1.2, 1.0)
    ]
    assert ends[0].upper < found.lower <= found.upper < ends[1].lower
    assert found.relative_width() < 1e-6


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("noise_multiplier", {"noise_multiplier": (1.0, 2.0), "steps": (1, 2, 3)}),
        ("sample_rate", {"sample_rate": (0.1, 2.0)}),
        ("steps", {"steps": ()}),
        ("sampling", {"sampling": "cyclic"}),
        ("batch_size", {"batch_size": 11, "dataset_size": 10}),
        ("batch_size", {"sampling": "fixed_with_replacement"}),
    ],
)
def test_value_outside_domain_is_named(name: str, fields: dict[str, Any]) -> None:
    with pytest.raises(OutOfDomain) as caught:
        DpSgd(**(dict[str, Any](noise_multiplier=1.0, sample_rate=0.1, steps=10) | fields))
    assert caught.value.name == name


def test_full_batch_is_limit_of_smaller_batches() -> None:
    run = fixed(sampling="fixed_without_replacement", batch_size=1000, dataset_size=1000, sample_rate=1.0, steps=9)
    pair = curves(run, "add_or_remove_one", 1)
    known = gaussian_curve(Enclosure.point(3 * 2 * 0.25)).epsilon(1e-5)
    assert pair.both.epsilon(1e-5).lower <= known.upper
    assert pair.both.epsilon(1e-5).upper >= known.lower
    with pytest.raises(UnsupportedCombination, match="records remain"):
        curves(run, "add_or_remove_one", 3)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("reading", READINGS)
def test_weights_between_doubles_are_enclosed_in_one_evaluation(replacement: bool, reading: str) -> None:
    """One evaluation with error bounds of weights and shifts agrees with evaluations at two roundings."""
    kind = "fixed_with_replacement" if replacement else "fixed_without_replacement"
    run = fixed(sampling=kind, batch_size=600, dataset_size=60_007, steps=300, sample_rate=0.01)
    ((step, count),) = run.elementary_steps()
    ends = [step.under(ONE_ADDED).rounded(side) for side in (-1, 1)]
    assert ends[0] != ends[1]
    for direction in ("add", "remove"):
        found = READINGS[reading](getattr(curves(run, "add_or_remove_one"), direction))
        low, high = (
            READINGS[reading](getattr(choose.pair(Repeated(mechanism=end, steps=count)), direction)) for end in ends
        )
        assert low.lower <= found.upper
        assert found.lower <= high.upper
        assert found.relative_width() <= 1e-9


@pytest.mark.parametrize("run", [(1.0, 0.01, 500), (0.7, 0.3, 20), (30.0, 0.1, 100_000), (5.0, 0.9, 40)])
def test_epsilon_of_both_directions_stays_the_larger_with_cap(run: tuple[float, float, int]) -> None:
    """Epsilon of both directions is the larger one, and the upper bound that saves one search is valid."""
    noise, rate, steps = run
    pair = curves(DpSgd(noise_multiplier=noise, sample_rate=rate, steps=steps), "add_or_remove_one", 3)
    for delta in (0.3, 1e-3, 1e-9):
        known = [curve.epsilon(delta) for curve in (pair.add, pair.remove)]
        assert all(
            curve.epsilon_cap(delta) >= one.lower for curve, one in zip((pair.add, pair.remove), known, strict=True)
        )
        assert pair.both.epsilon(delta).lower == max(one.lower for one in known)
