"""Monotonicity theorems against the curves: no enclosure contradicts a theorem, and its sign is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.privacy.calibration import monotone
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import MIXED, built, dpsgd, gaussian, laplace, noisy_sgd, sampled, shuffled

RATES = np.array([1e-6, 1e-3, 0.1, 0.5])
DIRECTIONS = ("add", "remove")
BATCHES: dict[str, Any] = dpsgd(2.0, 0.01, 20) | {"batch_size": 400, "dataset_size": 40_000}
APPROXIMATE: dict[str, Any] = {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-3}

RESPONSE: dict[str, Any] = {"type": "randomized_response", "epsilon": 1.0, "options": 4}
NOISY_MAX: dict[str, Any] = {"type": "report_noisy_max", "noise": "exponential", "scale": 2.0, "sensitivity": 1.0}
UNARY: dict[str, Any] = {"type": "unary_encoding", "true_bit": 0.5, "false_bit": 0.2, "bits_per_value": 2}

Row = tuple[dict[str, Any], dict[str, Any], NeighboringRelation]
"""Description with the smaller number, the same with the larger number, and a relation that supports both."""


def row(
    spec: dict[str, Any], relation: NeighboringRelation = "add_or_remove_one", /, **larger: Any
) -> tuple[tuple[str, str], Row]:
    """Return a key and a row: two specifications that differ in one field, and their relation.

    `larger` has the field and its value in the second specification. The key is the type of the mechanism and the
    field.
    """
    return (spec["type"], next(iter(larger))), (spec, spec | larger, relation)


def batches(size: int, data: int, sampling: str) -> dict[str, Any]:
    """Return a DP-SGD run with batches of `size` out of `data` records, which is the sampling rate `size`/`data`."""
    return BATCHES | {"sampling": sampling, "batch_size": size, "dataset_size": data, "sample_rate": size / data}


ROWS: list[tuple[tuple[str, str], Row]] = [
    row(gaussian(1.0), noise_multiplier=1.1),
    row(gaussian(1.0), "replace_one", noise_multiplier=1.1),
    row(MIXED, noise_multiplier=1.1),
    row(MIXED, shifts=[0.0, 1.0, 2.2]),
    row(MIXED, shifts=[0.1, 1.0, 2.0]),
    row(laplace(1.0), noise_multiplier=1.1),
    row({"type": "gdp", "mu": 1.0}, mu=1.1),
    row({"type": "pure_dp", "epsilon": 1.0}, epsilon=1.1),
    row(APPROXIMATE, epsilon=1.1),
    row(APPROXIMATE, delta=2e-3),
    row({"type": "zcdp", "rho": 0.5}, rho=0.55),
    row({"type": "rdp", "orders": [2.0, 8.0], "epsilons": [0.5, 2.0]}, orders=[2.0, 9.0]),
    row({"type": "rdp", "orders": [2.0, 8.0], "epsilons": [0.5, 2.0]}, epsilons=[0.6, 2.0]),
    row({"type": "exponential", "epsilon": 1.0}, epsilon=1.1),
    row(RESPONSE, "replace_one", epsilon=1.1),
    row(RESPONSE, "replace_one", options=5),
    row(shuffled(40, {"type": "pure_dp", "epsilon": 1.0}), "replace_one", reports=50),
    row(UNARY, "replace_one", true_bit=0.6),
    row(UNARY, "replace_one", false_bit=0.3),
    row(UNARY, "replace_one", bits_per_value=3),
    row({"type": "staircase", "epsilon": 1.0, "gamma": 0.3}, epsilon=1.1),
    row({"type": "staircase", "epsilon": 1.0, "gamma": 0.8}, epsilon=1.1),
    row({"type": "discrete_laplace", "scale": 2.0, "sensitivity": 3}, scale=2.1),
    row({"type": "discrete_laplace", "scale": 2.0, "sensitivity": 3}, sensitivity=4),
    row({"type": "discrete_gaussian", "sigma": 2.0, "sensitivity": 3}, sensitivity=4),
    row({"type": "skellam", "variance": 4.0, "sensitivity": 3}, variance=4.4),
    row({"type": "skellam", "variance": 4.0, "sensitivity": 3}, sensitivity=4),
    row(NOISY_MAX, scale=2.2),
    row(NOISY_MAX, sensitivity=1.1),
    row(NOISY_MAX | {"noise": "gumbel"}, sensitivity=1.1),
    row({"type": "permute_and_flip", "epsilon": 1.0}, epsilon=1.1),
    row(sampled(0.1, RESPONSE), "replace_one", sample_rate=0.12),
    row(sampled(0.1, gaussian(1.0)), sample_rate=0.12),
    row(sampled(0.1, gaussian(1.0)), "replace_one", sample_rate=0.12),
    row(sampled(0.1, laplace(1.0)), sample_rate=0.12),
    row({"type": "repeated", "steps": 3, "mechanism": gaussian(2.0)}, steps=4),
    row(dpsgd(1.0, 0.01, 100), noise_multiplier=1.1),
    row(dpsgd(1.0, 0.01, 100), "replace_one", noise_multiplier=1.1),
    row(dpsgd(1.0, 0.01, 100), sample_rate=0.011),
    row(dpsgd(1.0, 0.01, 100), steps=110),
    row(dpsgd(1.0, 0.01, 100) | {"epochs": 1.0}, epochs=1.1, steps=110),
    row(batches(400, 40_000, "poisson"), batch_size=440, sample_rate=0.011),
    row(batches(400, 40_000, "poisson"), dataset_size=44_000, sample_rate=400 / 44_000),
    row(batches(400, 40_000, "fixed_without_replacement") | {"steps": 1}, batch_size=440, sample_rate=0.011),
    row(
        batches(400, 40_000, "fixed_without_replacement") | {"steps": 1},
        dataset_size=44_000,
        sample_rate=400 / 44_000,
    ),
    row(batches(4, 400, "fixed_with_replacement") | {"steps": 1}, batch_size=5, sample_rate=5 / 400),
    row(batches(4, 400, "fixed_with_replacement") | {"steps": 1}, dataset_size=500, sample_rate=4 / 500),
    row(noisy_sgd(400, 2.0, 3), "replace_one", noise_std=2.2),
    row(noisy_sgd(800, 2.0), noise_std=2.2),
    row(noisy_sgd(800, 2.0), max_grad_norm=550.0),
    row(noisy_sgd(800, 2.0), dataset_size=900),
    row(noisy_sgd(400, 2.0, 3), "replace_one", steps=4),
    row(noisy_sgd(800, 2.0), dimension=700),
    row(noisy_sgd(800, 2.0), susceptibility=700.0),
]


def curves(spec: dict[str, Any], relation: NeighboringRelation, records: int | None = None) -> TradeOffPair:
    return WorstCase(relation, records).curves(built(spec))


@pytest.mark.parametrize(("what", "case"), ROWS, ids=lambda value: "-".join(value) if isinstance(value[0], str) else "")
def test_power_moves_in_direction_of_theorem(what: tuple[str, str], case: Row) -> None:
    smaller, larger, relation = case
    law = monotone.law_of_mechanism(*what, smaller, worst_case=True)
    assert law.theorem or law.sign == 0
    assert_moves(law.sign, curves(smaller, relation), curves(larger, relation))


def assert_moves(sign: int | None, smaller: TradeOffPair, larger: TradeOffPair) -> None:
    """Check the power of `larger` against that of `smaller`: less for the sign 1, more for -1, and equal for 0."""
    for direction in DIRECTIONS:
        less, more = (getattr(pair, direction).power(RATES) for pair in (smaller, larger))
        if sign == 0:
            assert (less.lower == more.lower).all()
            assert (less.upper == more.upper).all()
            continue
        less, more = (more, less) if sign == 1 else (less, more)
        assert (less.lower <= more.upper).all()
        assert (less.upper < more.lower).any(), "nothing is decided"


@pytest.mark.parametrize("spec", [gaussian(3.0), dpsgd(2.0, 0.01, 20), {"type": "pure_dp", "epsilon": 0.3}])
def test_more_records_have_more_power(spec: dict[str, Any]) -> None:
    law = monotone.law_of_threat_model("worst_case", "records")
    assert law.theorem
    assert_moves(law.sign, *(curves(spec, "add_or_remove_one", records) for records in (2, 3)))


def test_every_theorem_is_tested() -> None:
    assert {what for what, _ in ROWS} == set(monotone.MECHANISMS)


@pytest.mark.parametrize("field", monotone.SIZES)
def test_rate_has_no_theorem_if_it_determines_steps(field: str) -> None:
    sent = BATCHES | {"epochs": 3.0}
    assert monotone.law_of_mechanism("dpsgd", field, sent, worst_case=True).theorem == ""
    assert monotone.law_of_mechanism("dpsgd", field, sent | {"sampling": "shuffled"}, worst_case=True).theorem
    assert monotone.law_of_mechanism("dpsgd", field, sent | {"epochs": None}, worst_case=True).theorem


@pytest.mark.parametrize("batches_of_an_epoch", [2, 3])
def test_shuffled_epoch_with_more_batches_has_less_power(batches_of_an_epoch: int) -> None:
    """The attack on a shuffled epoch loses power if the epoch has one batch more."""
    noise = {"type": "dpsgd", "noise_multiplier": 1.0, "sampling": "shuffled", "steps": 6}
    fewer, more = (
        curves(noise | {"sample_rate": 1 / count}, "zero_out")
        for count in (batches_of_an_epoch, batches_of_an_epoch + 1)
    )
    for direction in DIRECTIONS:
        less, most = (getattr(pair, direction).power(RATES) for pair in (more, fewer))
        assert (less.lower <= most.lower * (1 + 1e-9)).all()
        assert (less.upper <= most.upper * (1 + 1e-9)).all()


def test_laplace_noise_is_sum_of_smaller_and_independent_noise() -> None:
    """Laplace noise of a larger scale is Laplace noise of a smaller scale plus independent noise.

    The product of both characteristic functions is the characteristic function of the larger noise.
    """
    less, more, frequency = 0.7, 1.9, np.linspace(0, 50, 200)
    still = (less / more) ** 2
    added = still + (1 - still) / (1 + (more * frequency) ** 2)
    assert np.allclose(added / (1 + (less * frequency) ** 2), 1 / (1 + (more * frequency) ** 2), rtol=1e-13)
