"""Statuses and sides of calibrations, checked by `/v1/bounds` at numbers drawn from the range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator

from service.resources.calibration import evaluator
from service.resources.calibration.evaluator import Evaluator
from service.resources.calibration.plateaus import ROUNDED as ROUNDED_NOTE
from service.resources.calibration.resource import NOT_FOR_SURE
from tests.resources.calibration_cases import bounds_of_target, calibrated, fails, log_uniform, meets, with_number
from tests.slow_marker import sample_of, thorough

Spec = dict[str, Any]
SEED: Final = 28
SAMPLES: Final = 6
EPSILON: Final[Spec] = {"type": "epsilon", "delta": 1e-5}
ADVANTAGE: Final[Spec] = {"type": "advantage"}


def run(random: Generator) -> Spec:
    return {
        "type": "dpsgd",
        "noise_multiplier": log_uniform(random, 0.8, 3.0),
        "sample_rate": log_uniform(random, 2e-3, 3e-2),
        "steps": int(log_uniform(random, 100, 2000)),
    }


def epochs(random: Generator) -> Spec:
    """Draw a run of few steps, where their rounding matters."""
    size = int(log_uniform(random, 200, 20_000))
    return {
        "type": "dpsgd",
        "noise_multiplier": log_uniform(random, 0.8, 2.0),
        "dataset_size": size,
        "batch_size": max(1, size // int(random.integers(2, 20))),
        "epochs": float(random.choice([1, 2, 2.5])),
    }


def shuffled(random: Generator) -> Spec:
    return epochs(random) | {"sampling": "shuffled"}


def without_replacement(random: Generator) -> Spec:
    return epochs(random) | {"sampling": "fixed_without_replacement"}


def rate_and_epochs(random: Generator) -> Spec:
    return {
        "type": "dpsgd",
        "noise_multiplier": log_uniform(random, 0.8, 2.0),
        "sample_rate": log_uniform(random, 0.05, 0.5),
        "epochs": 1,
    }


def gaussian(random: Generator) -> Spec:
    return {"type": "gaussian", "noise_multiplier": log_uniform(random, 0.5, 20.0)}


FREE: Final[dict[str, tuple[Callable[[Generator], Spec], str, tuple[float, float]]]] = {
    "noise": (run, "/mechanism/noise_multiplier", (0.5, 10.0)),
    "steps": (run, "/mechanism/steps", (1, 100_000)),
    "rate": (run, "/mechanism/sample_rate", (1e-4, 0.2)),
    "records": (gaussian, "/threat_model/records", (1, 60)),
    "epochs": (epochs, "/mechanism/epochs", (0.5, 50.0)),
    "batch of epochs": (epochs, "/mechanism/batch_size", (1, 20_000)),
    "data of epochs": (epochs, "/mechanism/dataset_size", (100, 100_000)),
    "rate of epochs": (rate_and_epochs, "/mechanism/sample_rate", (0.01, 1.0)),
    "batch without replacement": (without_replacement, "/mechanism/batch_size", (1, 20_000)),
    "shuffled batch": (shuffled, "/mechanism/batch_size", (1, 20_000)),
    "shuffled data": (shuffled, "/mechanism/dataset_size", (100, 100_000)),
    "shuffled epochs": (shuffled, "/mechanism/epochs", (0.5, 20.0)),
}
"""A mechanism, the free number, and the searched range."""
ROUNDED: Final = ("batch of epochs", "data of epochs", "rate of epochs", "batch without replacement")


def drawn(random: Generator, name: str) -> Spec:
    """Draw a calibration whose limits are near the start of the run, or random and contradictory."""
    mechanism, free, (low, high) = FREE[name]
    body: Spec = {"mechanism": mechanism(random), "free": free, "relative_tolerance": 1e-4}
    body |= {"threat_model": {"type": "worst_case", "records": 1}} if name == "records" else {}
    body |= {"bounds": {"from": low, "to": high}}
    question = (EPSILON, ADVANTAGE)[random.integers(2)]
    limit = log_uniform(random, 0.05, 0.9) if question is ADVANTAGE else log_uniform(random, 0.3, 8.0)
    body["targets"] = [{"question": question, "at_most": limit}]
    if question is EPSILON and random.uniform() < 0.5:
        body["targets"].append({"question": ADVANTAGE, "at_least": log_uniform(random, 0.01, 0.9)})
    return body


def sampled(random: Generator, body: Spec, low: float, high: float, samples: int = SAMPLES) -> list[float]:
    """Draw numbers of the range that fit the request, near and far from the first endpoint."""
    whole = isinstance(value_at_pointer(body), int)
    found: list[float] = []
    for _ in range(samples):
        number = log_uniform(random, max(low, 1e-9), high) if high > low else low
        number = min(max(round(number), math.ceil(low)), math.floor(high)) if whole else min(max(number, low), high)
        try:
            bounds_of_target(with_number(body, number))
        except Exception:  # noqa: BLE001 - what is not served, or does not fit, is no part of the claim
            continue
        found.append(number)
    return found


def value_at_pointer(body: Spec) -> Any:
    found: Any = body
    for step in body["free"][1:].split("/"):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def all_meet(body: Spec, number: float) -> bool:
    there = with_number(body, number)
    return all(meets(target, bounds_of_target(there, index)) for index, target in enumerate(body["targets"]))


def one_fails(body: Spec, number: float) -> bool:
    there = with_number(body, number)
    return any(fails(target, bounds_of_target(there, index)) for index, target in enumerate(body["targets"]))


@sample_of(4)
@pytest.mark.parametrize(("index", "samples"), [(0, 2), thorough(0, SAMPLES), thorough(1, SAMPLES)])
@pytest.mark.parametrize("name", FREE)
def test_statements_of_calibration_hold_by_bounds(name: str, index: int, samples: int) -> None:
    random = np.random.default_rng([SEED, index, *name.encode()])
    body = drawn(random, name)
    low, high = FREE[name][2]
    answer = calibrated(body)
    value, side = answer["value"], answer["monotone"]["met_side"]
    if answer["status"] in ("met", "trivially_met"):
        assert all_meet(body, value)
    if answer["status"] == "infeasible":
        for number in sampled(random, body, low, high, samples):
            assert not all_meet(body, number)
    if side is not None:
        assert answer["monotone"]["proved"]
        for number in sampled(random, body, *((value, high) if side == "larger" else (low, value)), samples):
            assert not one_fails(body, number), number
            assert all_meet(body, number), number
    if answer["status"] == "met" and answer["witness"] is not None:
        assert one_fails(body, answer["witness"]["value"])
    assert name not in ROUNDED or side is None


@pytest.mark.parametrize("index", [0, *map(thorough, range(1, 4))])
def test_calibrated_batch_is_best_of_neighbouring_plateaus(index: int) -> None:
    """The smallest batches of the next two smaller numbers of steps fail the target, and so does the next larger batch.

    Batch sizes that do not divide the data set do not end the search.
    """
    random = np.random.default_rng([SEED, index])
    size = int(random.integers(300, 3000))
    mechanism = epochs(random) | {"dataset_size": size, "batch_size": size // 7, "epochs": 1}
    limit = bounds_of_target({"mechanism": mechanism, "targets": [{"question": EPSILON}]})["upper"] * random.uniform(
        0.97, 1.05
    )
    body = {
        "mechanism": mechanism,
        "free": "/mechanism/batch_size",
        "targets": [{"question": EPSILON, "at_most": limit}],
    }
    answer = calibrated(body)
    assert answer["status"] == "met"
    assert any(ROUNDED_NOTE.format(name="batch_size") == note for note in answer["notes"])
    steps = math.ceil(size / answer["value"])
    for fewer in (steps - 1, steps - 2):
        if fewer >= 1:
            assert not all_meet(body, math.ceil(size / fewer))
    if answer["value"] + 1 <= size:
        assert not all_meet(body, answer["value"] + 1)


def test_smaller_batch_may_fail() -> None:
    """A smaller batch may fail a target that a larger one meets, because an epoch then has more steps.

    The largest batches of an epoch in five steps fail, and the smallest of four steps meet the target.
    """
    mechanism = {"type": "dpsgd", "noise_multiplier": 1.0, "batch_size": 100, "dataset_size": 1000, "epochs": 1}
    targets = [{"question": EPSILON, "at_most": 4.4}]
    answer = calibrated({"mechanism": mechanism, "free": "/mechanism/batch_size", "targets": targets})
    assert (answer["value"], answer["witness"]["value"]) == (266, 267)
    assert (answer["monotone"]["met_side"], answer["monotone"]["proved"]) == (None, False)
    assert any("fails at 249" in note for note in answer["notes"])


WORST: Final[Spec] = {"type": "worst_case"}
SGD: Final[Spec] = {
    "type": "noisy_sgd",
    "dataset_size": 400,
    "batch_size": 400,
    "dimension": 65,
    "steps": 1,
    "noise_std": 2.0,
    "max_grad_norm": 500.0,
}
SHUFFLED: Final[Spec] = {
    "type": "dpsgd",
    "noise_multiplier": 2.0,
    "batch_size": 100,
    "dataset_size": 1000,
    "epochs": 2,
    "sampling": "shuffled",
}
PRACTICAL: Final[Spec] = {"type": "practical", "epsilon_pmp": 1.0}
FIXED: Final[dict[str, tuple[Spec, int]]] = {
    "the question of another target": (
        {
            "mechanism": SHUFFLED,
            "free": "/targets/0/question/delta",
            "targets": [{"question": EPSILON, "at_most": 2.0}],
        },
        1,
    ),
    "the attacker of another target": (
        {
            "mechanism": {"type": "gaussian", "noise_multiplier": 9.0},
            "free": "/targets/0/threat_model/records",
            "targets": [{"question": EPSILON, "at_most": 2.0, "threat_model": WORST | {"records": 2}}],
        },
        1,
    ),
    "what the worst case does not read": (
        {
            "mechanism": SGD,
            "free": "/mechanism/susceptibility",
            "targets": [{"question": EPSILON, "at_most": 0.4, "threat_model": {"type": "membership"}}],
        },
        1,
    ),
    "an attacker whom only a stated parameter bounds": (
        {
            "mechanism": SHUFFLED,
            "free": "/mechanism/noise_multiplier",
            "targets": [{"question": ADVANTAGE, "at_most": 0.3}],
        },
        1,
    ),
}
"""A calibration, and the index of the additional target, whose answer does not depend on the free number."""


def with_fixed(name: str, limit: float) -> Spec:
    body, _ = FIXED[name]
    attacker = PRACTICAL if name.startswith("an attacker whom") else WORST
    found = body | {"targets": [*body["targets"], {"question": ADVANTAGE, "at_most": limit, "threat_model": attacker}]}
    if found["mechanism"] is SGD:
        found = found | {"mechanism": SGD | {"susceptibility": 650.0}, "bounds": {"from": 1.0, "to": 1e4}}
    return found


@pytest.mark.parametrize("name", FIXED)
def test_target_independent_of_number_is_evaluated_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    read = Evaluator._evaluate_group

    def counted(self: Evaluator, group: Any, request: Any) -> Any:
        for index, look in read(self, group, request):
            counts.append(index)
            yield index, look

    monkeypatch.setattr(Evaluator, "_evaluate_group", counted)
    answer = calibrated(with_fixed(name, 0.999))
    assert answer["status"] in ("met", "trivially_met")
    assert counts.count(FIXED[name][1]) == 1
    assert answer["readings"] > 1 or answer["status"] == "trivially_met"
    assert counts.count(0) == answer["readings"]


@pytest.mark.parametrize("name", FIXED)
def test_constant_failing_target_is_infeasible_at_first_evaluation(name: str) -> None:
    body = with_fixed(name, 1e-3)
    answer = calibrated(body)
    assert (answer["status"], answer["readings"]) == ("infeasible", 1)
    assert (answer["witness"]["target"], answer["monotone"]["met_side"]) == (1, None)
    assert answer["monotone"]["proved"]
    assert fails(body["targets"][1], bounds_of_target(body, 1))


def test_constant_target_at_its_limit_is_undecided() -> None:
    """A target that does not depend on the free number is undecided if its limit is inside the enclosure.

    The limit lies between the two theorems on shuffled batches. The free number is the delta of a second target.
    """
    name = "the question of another target"
    ends = bounds_of_target(with_fixed(name, 0.5), 1)
    answer = calibrated(with_fixed(name, 0.5 * (ends["lower"] + ends["upper"])))
    assert (answer["status"], answer["monotone"]["met_side"], answer["tolerance_met"]) == ("undecided", None, False)
    assert answer["no_witness"]["reason"] == NOT_FOR_SURE
    assert any("does not depend on the free number" in note for note in answer["notes"])
    assert meets(answer["targets"][0], bounds_of_target(answer))


@pytest.mark.parametrize("work", [1, 3_000, 30_000])
@pytest.mark.parametrize("name", ["noise", "steps", "rate"])
def test_search_with_little_work_states_only_facts(name: str, work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng([SEED, work, *name.encode()])
    monkeypatch.setattr(evaluator, "MOST_WORK", work)
    body = drawn(random, name)
    answer = calibrated(body)
    if answer["status"] in ("met", "trivially_met"):
        assert all_meet(body, answer["value"])
    if answer["status"] == "infeasible":
        assert one_fails(body, answer["value"])
        for number in sampled(random, body, *FREE[name][2]):
            assert not all_meet(body, number)
