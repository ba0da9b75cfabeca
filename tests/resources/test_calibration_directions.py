"""Direction of a free number: every number of the contract has a theorem, or is listed without one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from api_schemas.calibrations import CalibrationsRequest
from api_schemas.fields import FieldShape, shape_of, shape_of_field, type_of
from api_schemas.free_parameters import TIED
from api_schemas.mechanisms import MechanismSpec
from api_schemas.questions import QuestionSpec
from service.privacy.calibration import monotone
from service.resources.calibration.directions import directions
from tests.resources.calibration_cases import PROTECTING, QUESTIONS, bounds_of_target

WITHOUT_THEOREM = {
    ("noisy_sgd", "batch_size"): "a larger batch holds the record more often, and hides it better",
    ("staircase", "gamma"): "the mass of the loss 0 falls, and rises again",
    ("discrete_gaussian", "sigma"): "larger discrete Gaussian noise is no sum of smaller noise and other noise",
    ("discrete_gaussian", "dimension"): "one coordinate has another theorem than several",
    ("sparse_vector", "threshold_epsilon"): "only bounds of the worst case are known",
    ("sparse_vector", "query_epsilon"): "only bounds of the worst case are known",
    ("sparse_vector", "positives"): "only bounds of the worst case are known",
    ("shuffled_reports", "others_holding_one"): "the worst number is at an end or between",
    ("attack_accuracy", "prior"): "the accuracy is largest at both ends",
    ("attack_accuracy", "false_positive_rate"): "p power falls behind (1 - p)(1 - alpha), or not",
    ("advantage_over_prior", "prior"): "0 at both ends",
    ("gdp_mu", "false_positive_rate_min"): "no rate may be left",
    ("gdp_mu", "type_two_error_min"): "no rate may be left",
}
CURVES: tuple[dict[str, Any], ...] = (
    {"type": "laplace", "noise_multiplier": 1.3},
    {"type": "pure_dp", "epsilon": 0.7},
    {"type": "gaussian", "noise_multiplier": 1.1},
)
PAIRS = 12


def numbers_of(union: Any) -> list[tuple[str, str]]:
    """Return every numeric field of every member of a union, including lists of numbers."""
    found: list[tuple[str, str]] = []
    for model in shape_of(union).models:
        for name, field in model.model_fields.items():
            shape = shape_of_field(field)
            inner = shape_of(shape.item) if shape.kind == "list" else FieldShape(kind="other")
            if name not in TIED and {shape.kind, inner.kind} & {"number", "integer"}:
                found.append((type_of(model), name))
    return found


@pytest.mark.parametrize("what", numbers_of(MechanismSpec), ids="-".join)
def test_every_number_of_mechanism_has_theorem_or_is_exempt(what: tuple[str, str]) -> None:
    assert (what in monotone.MECHANISMS) != (what in WITHOUT_THEOREM), "edit service/privacy/calibration/monotone.py"


@pytest.mark.parametrize("what", numbers_of(QuestionSpec), ids="-".join)
def test_every_number_of_question_has_theorem_or_is_exempt(what: tuple[str, str]) -> None:
    kind, field = what
    reads = ("power", "type_two_error") if kind == "trade_off" else (kind,)
    for read in reads:
        for side in ("at_most", "at_least"):
            law = monotone.law_of_question(read, field, side)
            assert bool(law.theorem) == (what not in WITHOUT_THEOREM), "edit service/privacy/calibration/monotone.py"


def varied(random: np.random.Generator, kind: str, field: str) -> list[dict[str, Any]]:
    """Draw the question with a smaller and a larger number in one of its fields."""
    question = {"type": kind, **QUESTIONS[kind](random)}
    if field == "candidates":
        del question["baseline_success"]
        numbers: list[Any] = sorted(random.integers(2, 1000, 2).tolist())
    else:
        numbers = sorted(random.uniform(0.01, 0.99, 2).tolist())
    if field == "false_positive_rates":
        numbers = [[number] for number in numbers]
    return [question | {field: number} for number in numbers]


@pytest.mark.parametrize(
    "what", [what for what in numbers_of(QuestionSpec) if what not in WITHOUT_THEOREM], ids="-".join
)
def test_answers_move_with_question_in_direction_of_theorem(what: tuple[str, str]) -> None:
    kind, field = what
    decided = 0
    for index in range(PAIRS):
        random = np.random.default_rng([5, index, *field.encode()])
        reads = ("power", "type_two_error") if kind == "trade_off" else (kind,)
        for read in reads:
            smaller, larger = varied(random, kind, field)
            law = monotone.law_of_question(read, field, smaller.get("side", "at_most"))
            target = {"reads": read} if kind == "trade_off" else {}
            body = {"mechanism": CURVES[index % len(CURVES)]}
            less, more = (
                bounds_of_target(body | {"targets": [{"question": each, **target}]}) for each in (smaller, larger)
            )
            less, more = (more, less) if law.sign == -1 else (less, more)
            assert less["lower"] <= more["upper"]
            assert law.sign != 0 or less == more
            decided += less["upper"] < more["lower"]
    assert decided > 0 or (kind, field) == ("unlearning_guarantee", "confidence")


def calibration(*targets: dict[str, Any]) -> CalibrationsRequest:
    body = {"mechanism": CURVES[0], "free": "/mechanism/noise_multiplier", "targets": targets}
    return CalibrationsRequest.model_validate_json(json.dumps(body))


@pytest.mark.parametrize("kind", QUESTIONS)
def test_answers_move_with_privacy_in_stated_direction(kind: str) -> None:
    for index in range(PAIRS):
        random = np.random.default_rng([6, index, *kind.encode()])
        question = {"type": kind, **QUESTIONS[kind](random)}
        for read in ("power", "type_two_error") if kind == "trade_off" else (kind,):
            target = {"question": question, **({"reads": read} if kind == "trade_off" else {})}
            bodies = [{"mechanism": {"type": "laplace", "noise_multiplier": noise}} for noise in (1.0, 2.0)]
            less, more = (bounds_of_target(body | {"targets": [target]}) for body in bodies)
            rises = read in (*PROTECTING, "type_two_error") or question.get("side") == "at_least"
            [need] = directions(calibration(target | {"at_least": 0.0})).needs
            assert need == (1 if rises else -1)
            less, more = (less, more) if rises else (more, less)
            assert less["lower"] <= more["upper"]


RUN: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
EPSILON: dict[str, Any] = {"question": {"type": "epsilon", "delta": 1e-5}, "at_most": 1.0}
PROTECTED: dict[str, Any] = {
    "question": {"type": "trade_off", "false_positive_rates": [0.1]},
    "reads": "type_two_error",
}
GLRT: dict[str, Any] = {"type": "glrt", "dimension": 30}


@pytest.mark.parametrize(
    ("free", "targets", "needs", "private", "group"),
    [
        ("/mechanism/noise_multiplier", [EPSILON], (1,), 1, (0,)),
        ("/mechanism/steps", [EPSILON], (-1,), -1, (0,)),
        ("/mechanism/steps", [EPSILON, PROTECTED | {"at_least": 0.5}], (-1, -1), -1, (0, 1)),
        ("/mechanism/steps", [EPSILON, PROTECTED | {"at_most": 0.5}], (-1, 1), -1, (0,)),
        ("/mechanism/steps", [PROTECTED | {"at_most": 0.5}], (1,), -1, (0,)),
        ("/targets/0/question/delta", [EPSILON], (1,), 1, (0,)),
        ("/targets/0/question/delta", [EPSILON | {"at_most": None, "at_least": 1.0}], (-1,), -1, (0,)),
        ("/targets/1/question/delta", [EPSILON, EPSILON], (0, 1), 1, (1,)),
        ("/threat_model/records", [EPSILON], (-1,), -1, (0,)),
        ("/targets/0/threat_model/records", [EPSILON | {"threat_model": {"type": "worst_case"}}], (-1,), -1, (0,)),
    ],
)
def test_directions_of_free_number_are_known(
    free: str, targets: list[dict[str, Any]], needs: tuple[int, ...], private: int, group: tuple[int, ...]
) -> None:
    body = {"mechanism": RUN, "free": free, "targets": targets}
    known = directions(CalibrationsRequest.model_validate_json(json.dumps(body)))
    assert (known.needs, known.private, known.group) == (needs, private, group)
    assert known.theorem


def test_relaxed_attackers_have_expected_direction_and_no_theorem() -> None:
    body = {
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        "threat_model": GLRT,
        "free": "/mechanism/noise_multiplier",
        "targets": [EPSILON],
    }
    known = directions(CalibrationsRequest.model_validate_json(json.dumps(body)))
    assert (known.needs, known.theorem) == ((1,), "")
