"""Consistency of the answers of one response: no answer improves another, and all enclose the true value."""

from __future__ import annotations

import json
import math
from itertools import permutations
from typing import Any, Final

import pytest
from pydantic import ValidationError

from service.parsing import RequestBodyError
from service.privacy.errors import PrivacyComputationError
from service.resources.assessments import assessment, policy
from service.resources.bounds import BOUNDS
from service.resources.joint_answers import NARROWED
from tests.frozen.answers import response
from tests.frozen.space import request
from tests.resources.test_work import answered

NEAR: Final = 1e-9
"""Relative difference due to rounding."""
TRAILING: Final[dict[str, dict[str, Any]]] = {
    "deltas beyond the reach of lattices": {
        "mechanism": {
            "type": "composed",
            "mechanisms": [{"type": "gdp", "mu": 5e-4}, {"type": "exponential", "epsilon": 0.1}],
        },
        "questions": [{"type": "delta", "epsilon": epsilon} for epsilon in (0.05, 0.11, 0.2, 0.5)],
    },
    "powers and deltas": {
        "mechanism": {
            "type": "composed",
            "mechanisms": [{"type": "gdp", "mu": 5e-4}, {"type": "exponential", "epsilon": 0.1}],
        },
        "questions": [
            {"type": "delta", "epsilon": 0.11},
            {"type": "trade_off", "false_positive_rates": [1e-9, 1e-3, 0.1]},
            {"type": "reconstruction", "baseline_success": 1e-6},
            {"type": "epsilon", "delta": 1e-4},
            {"type": "epsilon", "delta": 1e-9},
            {"type": "advantage"},
        ],
    },
}


def answers(body: dict[str, Any]) -> list[dict[str, Any]]:
    sent = BOUNDS.request_type.model_validate_json(json.dumps(body))
    found: list[dict[str, Any]] = json.loads(BOUNDS.body(sent, "", ""))["answers"]
    return found


def number(value: float | str) -> float:
    return math.inf if value == "Infinity" else float(value)


def check(found: list[dict[str, Any]]) -> None:
    """Check that the upper bounds of answers about one run are consistent.

    Delta decreases in epsilon, epsilon in delta; powers increase and lie below chords.
    """
    proved = [each for each in found if each["evidence"] not in ("statistical", "asymptotic")]
    for direction in ("add", "remove", "both"):
        here = [each for each in proved if each["question"].get("direction") == direction]
        deltas = [
            (each["question"].get("epsilon", 0.0), each) for each in here if each["type"] in ("delta", "advantage")
        ]
        epsilons = [(each["question"]["delta"], each) for each in here if each["type"] == "epsilon"]
        powers = [
            (point["false_positive_rate"], point["power"])
            for each in here
            if each["type"] == "trade_off" and len(each["points"]) <= 64
            for point in each["points"]
        ]
        for pairs in (deltas, epsilons):
            for (smaller, above), (larger, below) in permutations(pairs, 2):
                if smaller < larger:
                    assert number(below["upper"]) <= number(above["upper"]) * (1 + NEAR) + 1e-299
                    assert number(below["lower"]) * (1 - NEAR) <= number(above["lower"]) + 1e-299
        for rate, power in powers:
            for epsilon, delta in deltas:
                if epsilon < 700 and 0 < rate < 1:
                    assert power["upper"] <= (math.exp(epsilon) * rate + delta["upper"]) * (1 + NEAR)
                    assert delta["upper"] * (1 + NEAR) >= power["lower"] - math.exp(epsilon) * rate - 1e-12


@pytest.mark.parametrize(
    "name",
    [name if index == 0 else pytest.param(name, marks=pytest.mark.thorough) for index, name in enumerate(TRAILING)],
)
def test_answers_do_not_improve_each_other(name: str) -> None:
    check(answers(TRAILING[name]))


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRAILING)
def test_joint_answers_meet_single_answers(name: str) -> None:
    body = TRAILING[name]
    for question, together in zip(body["questions"], answers(body), strict=True):
        alone = answered(body | {"questions": [question]})
        if "points" in alone:
            continue
        assert number(alone["lower"]) <= number(together["upper"])
        assert number(together["lower"]) <= number(alone["upper"])


def check_request(seed: int) -> None:
    name, body = request(seed)
    if name != "bounds":
        return
    try:
        written = response(name, body)
    except (RequestBodyError, PrivacyComputationError, ValidationError):
        return
    check(json.loads(written)["answers"])


@pytest.mark.parametrize("seed", range(400, 420))
def test_answers_of_random_requests_do_not_improve_each_other(seed: int) -> None:
    check_request(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(420, 1400))
def test_answers_of_the_whole_space_do_not_improve_each_other(seed: int) -> None:
    check_request(seed)


@pytest.mark.thorough
def test_narrowed_number_keeps_its_own_limit() -> None:
    rates = [10.0**power for power in range(-30, 0)]
    _, delta, powers = answers(
        {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 0.3, "sample_rate": 1e-6, "steps": 3},
            "questions": [
                {"type": "delta", "epsilon": 20.0},
                {"type": "delta", "epsilon": 60.0},
                {"type": "trade_off", "false_positive_rates": rates},
            ],
        }
    )
    assert any("Narrowed" in note for note in delta["notes"])
    assert powers["limit"]["code"] == "long_list"
    assert delta["limit"]["code"] != "long_list"


def test_listed_points_are_no_wider_with_other_answers() -> None:
    shuffled = {
        "type": "dpsgd",
        "sampling": "shuffled",
        "noise_multiplier": 1.0,
        "dataset_size": 1000,
        "batch_size": 100,
        "epochs": 2,
    }
    asked = {"type": "trade_off", "false_positive_rates": [1e-300, 1e-9, 0.5, 1 - 1e-16]}
    [alone] = answers({"mechanism": shuffled, "questions": [asked]})
    [together, _] = answers({"mechanism": shuffled, "questions": [asked, {"type": "advantage"}]})
    for one, other in zip(alone["points"], together["points"], strict=True):
        for name in ("power", "type_two_error"):
            assert other[name]["lower"] >= one[name]["lower"]
            assert other[name]["upper"] <= one[name]["upper"]


def test_rules_of_an_assessment_narrow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to the rules of an assessment narrow each other, even if the work suffices for some rules only."""
    monkeypatch.setattr(assessment, "MOST_WORK", 3e5)
    monkeypatch.setattr(policy, "SECOND_WORK", 0.0)
    exponential = {"type": "exponential", "epsilon": 0.1}
    steps = [{"type": "gaussian", "noise_multiplier": 2.0}, {"type": "repeated", "mechanism": exponential, "steps": 20}]
    asked = [{"type": "epsilon", "delta": 10.0**-power} for power in (3, 6, 1, 2, 5, 8)]
    asked += [{"type": "delta", "epsilon": epsilon} for epsilon in (1.0, 2.0, 4.0, 0.5)]
    rules = [{"question": question | {"direction": "add"}, "at_most": 0.05} for question in asked]
    body = {
        "mechanism": {"type": "composed", "mechanisms": steps},
        "context": {"delta": 1e-5},
        "policy": {"name": "gate", "rules": rules},
    }
    sent = assessment.ASSESSMENTS.request_type.model_validate_json(json.dumps(body))
    found = [each["answer"] for each in json.loads(assessment.ASSESSMENTS.body(sent, "", ""))["decision"]["rulings"]]
    check(found)
    assert any(NARROWED in each["notes"] for each in found)
