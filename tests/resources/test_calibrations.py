"""Calibrations: the value meets every target and its neighbour fails one. Other outcomes have other statuses."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from api_schemas.calibration_answers import CalibrationsResponse
from api_schemas.calibrations import CalibrationsRequest
from service.privacy.errors import NumericalFailure, OutOfDomain, UnsupportedCombination
from service.resources.abstract import Quote
from service.resources.bounds import BOUNDS
from service.resources.calibration import evaluator
from service.resources.calibration.evaluator import Evaluator, PointEvaluation
from service.resources.calibration.resource import CALIBRATIONS, NOT_FOR_SURE, TWO_THEOREMS, WORK_EXHAUSTED
from tests.resources.calibration_cases import (
    QUESTIONS,
    bounds_of_target,
    calibrated,
    case,
    fails,
    meets,
    with_number,
    wrong,
)
from tests.slow_marker import sample_of, thorough

Spec = dict[str, Any]
SEED = 14
COUNT = 5
RUN: Spec = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
GAUSSIAN: Spec = {"type": "gaussian", "noise_multiplier": 1.0}
GAMMA: Spec = {"question": {"type": "reconstruction", "baseline_success": 0.001}, "at_most": 0.01}
EPSILON: Spec = {"question": {"type": "epsilon", "delta": 1e-5}, "at_most": 1.0}
ADVANTAGE: Spec = {"question": {"type": "advantage"}}
NOISE = "/mechanism/noise_multiplier"


def body(mechanism: Spec = GAUSSIAN, *targets: Spec, free: str = NOISE, **more: Any) -> Spec:
    return {"mechanism": mechanism, "free": free, "targets": list(targets or (EPSILON,)), **more}


@sample_of(30)
@pytest.mark.parametrize("index", range(COUNT))
@pytest.mark.parametrize("kind", QUESTIONS)
def test_calibration_round_trips_to_target(kind: str, index: int) -> None:
    found = case(kind, SEED, index, rare=0.0)
    assert wrong(found, calibrated(found.body)) == ""


@pytest.mark.parametrize("index", range(2))
@pytest.mark.parametrize("name", ["steps of a run", "batch of a run", "records"])
def test_integers_are_exact(name: str, index: int) -> None:
    found = next(
        each
        for each in (case("advantage", SEED + index, at, rare=1.0) for at in range(200))
        if each.name.endswith(name)
    )
    answer = calibrated(found.body)
    assert wrong(found, answer) == ""
    assert answer["value"] == found.known
    assert abs(answer["witness"]["value"] - answer["value"]) == 1
    assert isinstance(answer["value"], int)


def test_request_that_riskcal_misses_is_certified() -> None:
    """A request is calibrated with proof that riskcal answers by 0.42436, where the power is 399 times the target."""
    target = {"question": {"type": "trade_off", "false_positive_rates": [1e-6]}, "at_most": 1e-4}
    sent = body(RUN, target)
    answer = calibrated(sent)
    assert answer["status"] == "met"
    assert answer["value"] == pytest.approx(0.697991, rel=1e-5)
    assert bounds_of_target(with_number(sent, 0.42436))["lower"] > 390e-4


def test_response_describes_calibrated_run() -> None:
    sent = body(RUN, GAMMA, EPSILON | {"at_most": 20.0})
    answer = calibrated(sent)
    value, witness = answer["value"], answer["witness"]
    assert answer["mechanism"] == RUN | {"noise_multiplier": value}
    assert [target["at_most"] for target in answer["targets"]] == [0.01, 20.0]
    assert (answer["free"], answer["binding"], answer["no_witness"]) == (NOISE, 0, None)
    assert answer["monotone"]["proved"]
    assert answer["monotone"]["met_side"] == "larger"
    assert answer["tolerance_met"]
    assert answer["worst_cases"] == []
    assert witness["target"] == 0
    assert 0 < witness["distance"] <= 1e-6
    assert answer["readings"] <= 10


@pytest.mark.parametrize("threat_model", [{"type": "worst_case"}, {"type": "glrt", "dimension": 30}])
def test_target_answers_equal_those_of_bounds(threat_model: Spec) -> None:
    sent = body(GAUSSIAN, EPSILON, ADVANTAGE | {"at_most": 0.9}, threat_model=threat_model)
    answer = calibrated(sent)
    questions = {
        "mechanism": answer["mechanism"],
        "threat_model": answer["threat_model"],
        "questions": [target["question"] for target in answer["targets"]],
        "relative_tolerance": answer["relative_tolerance"] / evaluator.FINER,
    }
    request = BOUNDS.request_type.model_validate_json(json.dumps(questions))
    known = json.loads(BOUNDS.body(request, "", ""))
    assert [answer[field] for field in ("answers", "assumptions", "hazards")] == [
        known[field] for field in ("answers", "assumptions", "hazards")
    ]
    beside = [] if known["worst_case"] is None else known["worst_case"]["answers"]
    assert [each["answer"] for each in answer["worst_cases"]] == beside


def test_aliases_of_pointers_and_fields_are_equivalent() -> None:
    theirs = {
        "mechanism": {"type": "dpsgd", "sigma": 1.0, "q": 0.01, "num_steps": 1000},
        "free": "/mechanism/sigma",
        "targets": [{"question": {"type": "reconstruction", "kappa": 0.001}, "max": 0.01}],
    }
    first, second = (CalibrationsRequest.model_validate_json(json.dumps(each)) for each in (theirs, body(RUN, GAMMA)))
    assert first == second
    nested = {"type": "repeated", "count": 3, "event": {"type": "gaussian", "noise": 2.0}}
    request = CalibrationsRequest.model_validate_json(json.dumps(body(nested, free="/mechanism/event/noise")))
    assert request.free == "/mechanism/mechanism/noise_multiplier"


def test_initial_value_is_only_a_start() -> None:
    values = [calibrated(body(RUN | {"noise_multiplier": start}, GAMMA))["value"] for start in (0.5, 0.7534, 8.0)]
    assert max(values) / min(values) - 1 <= 1e-6


def test_infeasible_calibration_returns_nearest_number() -> None:
    answer = calibrated(body(GAUSSIAN, EPSILON, bounds={"to": 2.0}))
    assert (answer["status"], answer["value"], answer["tolerance_met"]) == ("infeasible", 2.0, True)
    assert answer["witness"]["value"] == 2.0
    assert fails(EPSILON, bounds_of_target(with_number(body(), 2.0)))
    at_the_baseline = GAMMA | {"at_most": 0.001}
    answer = calibrated(body(GAUSSIAN, at_the_baseline))
    assert (answer["status"], answer["value"], answer["tolerance_met"]) == ("undecided", 1e15, False)
    assert answer["no_witness"]["reason"] == NOT_FOR_SURE


def test_trivially_met_calibration_returns_least_private_number() -> None:
    for limits, value in (({}, 1e-4), ({"from": 0.3}, 0.3)):
        answer = calibrated(body(GAUSSIAN, ADVANTAGE | {"at_most": 1.0}, bounds=limits or None))
        assert (answer["status"], answer["value"], answer["witness"]) == ("trivially_met", value, None)
        assert answer["tolerance_met"]


@pytest.mark.parametrize("seed", [1, 2, *map(thorough, (0, 3, 4, 5))])
def test_limit_beyond_all_answers_needs_no_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 10 ** random.uniform(-3, -1), "steps": 1000}
    rate = 10 ** random.uniform(-6, -1)
    questions: list[Spec] = [{"type": "advantage"}, {"type": "trade_off", "false_positive_rates": [rate]}]
    least = float(random.choice([1.0, 2.0, 10.0, 1e15]))
    targets = [{"question": question, "at_most": least} for question in questions]
    response = calibrated(body(run, *targets, free="/mechanism/steps", bounds={"to": 10**6}))
    assert (response["status"], response["value"], response["readings"]) == ("trivially_met", 10**6, 1)
    targets = [{"question": question, "at_least": [0.0, rate / 2][place]} for place, question in enumerate(questions)]
    response = calibrated(body(run, *targets, free="/mechanism/steps", bounds={"to": 10**6}))
    assert (response["status"], response["value"], response["readings"]) == ("trivially_met", 1, 1)


def test_opposite_targets_are_met_or_infeasible() -> None:
    """Two targets, of which one needs more noise and one less, are both met, or the result is infeasible."""
    for least, status in ((0.05, "met"), (0.5, "infeasible")):
        answer = calibrated(body(GAUSSIAN, EPSILON, ADVANTAGE | {"at_least": least}))
        assert answer["status"] == status
        assert answer["value"] == pytest.approx(3.73063, rel=1e-5)
    assert answer["witness"]["target"] == 1
    assert answer["notes"]
    alone = calibrated(body(GAUSSIAN, ADVANTAGE | {"at_least": 0.05}))
    assert (alone["status"], alone["monotone"]["met_side"]) == ("met", "smaller")
    assert alone["witness"]["value"] > alone["value"]


BRACKET: Spec = {"type": "repeated", "steps": 2, "mechanism": {"type": "approximate_dp", "epsilon": 0.5, "delta": 1e-9}}


def test_brackets_calibrate_to_their_upper_bounds() -> None:
    group = {"threat_model": {"type": "worst_case", "records": 3}}
    sent = body(BRACKET, EPSILON | {"at_most": 2.0}, free="/mechanism/mechanism/epsilon", **group)
    answer = calibrated(sent)
    missing = answer["no_witness"]
    assert (answer["status"], answer["witness"], answer["tolerance_met"]) == ("met", None, False)
    assert missing["reason"] == TWO_THEOREMS
    [target] = answer["targets"]
    assert meets(target, bounds_of_target(with_number(sent, answer["value"])))
    undecided, failing = missing["undecided"], missing["fails"]
    there = bounds_of_target(with_number(sent, undecided["value"]))
    assert not meets(target, there)
    assert not fails(target, there)
    assert undecided["distance"] <= 1e-6 < failing["distance"]
    assert fails(target, bounds_of_target(with_number(sent, failing["value"])))


def test_shuffled_epoch_with_whole_batches_is_calibrated_as_bracket() -> None:
    run = {"type": "dpsgd", "noise_multiplier": 4.0, "batch_size": 500, "dataset_size": 1000, "epochs": 1}
    sent = body(run | {"sampling": "shuffled"}, ADVANTAGE | {"at_most": 0.1}, relative_tolerance=1e-3)
    answer = calibrated(sent)
    assert answer["no_witness"]["reason"] == TWO_THEOREMS
    assert answer["no_witness"]["fails"] is not None


def test_derived_numbers_follow_free_number() -> None:
    """If the batch size is free, the sampling rate follows from the sizes, and the steps follow from the epochs."""
    described = {**RUN, "batch_size": 500, "dataset_size": 50_000, "epochs": 10.0}
    answer = calibrated(body(described, EPSILON | {"at_most": 2.0}, free="/mechanism/batch_size"))
    mechanism = answer["mechanism"]
    assert mechanism["sample_rate"] == mechanism["batch_size"] / 50_000
    assert mechanism["steps"] == -(-500_000 // mechanism["batch_size"])
    assert not answer["monotone"]["proved"]
    assert abs(answer["witness"]["value"] - answer["value"]) == 1


def test_unproved_side_is_stated() -> None:
    sgd = {"type": "noisy_sgd", "dataset_size": 4000, "batch_size": 400, "dimension": 650, "steps": 1, "noise_std": 1.5}
    target = EPSILON | {"at_most": 2.0}
    answer = calibrated(body(sgd | {"max_grad_norm": 500.0}, target, free="/mechanism/batch_size"))
    assert (answer["status"], answer["monotone"]["proved"]) == ("met", False)
    assert "not proved" in answer["monotone"]["theorem"]
    assert abs(answer["witness"]["value"] - answer["value"]) == 1


def test_non_monotone_target_is_searched_near_start() -> None:
    """A target that is not monotone in its free number is searched near the start.

    The accuracy is largest at both endpoints of the prior.
    """
    question = {"type": "attack_accuracy", "prior": 0.3}
    pure: Spec = {"type": "pure_dp", "epsilon": 1.0}
    sent = body(pure, {"question": question, "at_most": 0.75}, free="/targets/0/question/prior")
    answer = calibrated(sent)
    assert answer["value"] == pytest.approx(0.25, rel=1e-5)
    assert "not monotone" in answer["monotone"]["theorem"]
    for value, limit_kept in ((answer["value"], True), (answer["witness"]["value"], False)):
        question["prior"] = value
        assert meets(sent["targets"][0], bounds_of_target(sent)) == limit_kept


def test_unsupported_numbers_end_the_range() -> None:
    sent = body(RUN | {"noise_multiplier": 30.0}, EPSILON | {"at_most": 50.0}, free="/threat_model/records")
    answer = calibrated(sent)
    assert (answer["status"], answer["value"]) == ("trivially_met", 64)
    assert "more than 64" in answer["notes"][0]
    late = calibrated(
        body(RUN, EPSILON, free="/threat_model/records", threat_model={"type": "worst_case", "records": 500})
    )
    assert late["value"] == 1


def test_targets_may_have_their_own_attackers() -> None:
    group = EPSILON | {"threat_model": {"type": "worst_case", "records": 4}, "at_most": 2.0}
    answer = calibrated(body(GAUSSIAN, EPSILON, group))
    assert (answer["binding"], answer["witness"]["target"]) == (1, 1)
    assert answer["value"] == pytest.approx(calibrated(body(GAUSSIAN, group))["value"], rel=1e-6)


def test_calibration_to_approximation_is_rejected() -> None:
    sgd = {"type": "noisy_sgd", "dataset_size": 400, "batch_size": 400, "dimension": 650, "steps": 1, "noise_std": 1.5}
    attacker = {"type": "membership", "step_curve": "gaussian"}
    with pytest.raises(UnsupportedCombination, match="approximation"):
        calibrated(body(sgd, EPSILON, free="/mechanism/noise_std", threat_model=attacker))


def test_number_without_effect_is_rejected() -> None:
    sgd = {"type": "noisy_sgd", "dataset_size": 400, "batch_size": 400, "dimension": 650, "steps": 1, "noise_std": 1.5}
    with pytest.raises(OutOfDomain) as caught:
        calibrated(body(sgd | {"max_grad_norm": 1.0}, EPSILON, free="/mechanism/dimension"))
    assert caught.value.pointer == "/free"


def test_exhausted_work_returns_certified_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "MOST_WORK", 12_000)
    answer = calibrated(body(RUN, GAMMA))
    assert (answer["status"], answer["tolerance_met"]) == ("met", False)
    assert WORK_EXHAUSTED in answer["no_witness"]["reason"]
    assert meets(GAMMA, bounds_of_target(with_number(body(RUN, GAMMA), answer["value"])))


def test_answers_contradicting_a_theorem_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def reversed_evaluate(self: Evaluator, number: float) -> PointEvaluation:
        return PointEvaluation(number, evaluate(self, 16.0 / number).targets)

    evaluate = Evaluator._evaluate
    monkeypatch.setattr(Evaluator, "_evaluate", reversed_evaluate)
    with pytest.raises(NumericalFailure, match="by a theorem"):
        calibrated(body(GAUSSIAN, EPSILON))


def test_same_request_has_same_bytes_and_round_trips() -> None:
    sent = json.dumps(body(RUN, GAMMA, bounds={"from": 0.1, "to": 10.0}))
    written = [
        CALIBRATIONS.body(CALIBRATIONS.request_type.model_validate_json(sent), "sha256:" + "0" * 64, "1")
        for _ in range(2)
    ]
    assert written[0] == written[1]
    read = CalibrationsResponse.model_validate_json(written[0])
    assert read.json_bytes() == written[0]
    assert json.loads(written[0])["bounds"] == {"from": 0.1, "to": 10.0}


def test_cost_grows_with_evaluations_and_exceeds_event_loop() -> None:
    def quote(sent: Spec) -> Quote:
        return CALIBRATIONS.quote(CALIBRATIONS.request_type.model_validate_json(json.dumps(sent)))

    closed, run, several = (quote(each) for each in (body(), body(RUN), body(RUN, GAMMA, EPSILON)))
    assert closed.cost < run.cost < several.cost
    assert not closed.inline


def test_mu_of_empty_range_does_not_meet_limit() -> None:
    """A mu of 0 over a range without points does not meet a limit.

    The curve is so strong that no point has both errors at 1e-9.
    """
    target = {"question": {"type": "gdp_mu"}, "at_most": 1.0}
    for start in (0.01, 1.0, 100.0):
        answer = calibrated(body(GAUSSIAN | {"noise_multiplier": start}, target))
        assert (answer["status"], answer["monotone"]["proved"]) == ("met", False)
        assert answer["value"] == pytest.approx(1.0, rel=1e-5)
    whole = {"question": {"type": "gdp_mu", "type_two_error_min": 0.0, "false_positive_rate_min": 0.0}, "at_most": 1.0}
    assert calibrated(body(GAUSSIAN, whole))["monotone"]["proved"]


@pytest.mark.parametrize("limit", [1e-300, 5e-324])
def test_limits_may_be_below_doubles(limit: float) -> None:
    """Limits below the smallest double are met by comparison of logarithms, which such answers have."""
    target = {"question": {"type": "delta", "epsilon": 2.0}, "at_most": limit}
    answer = calibrated(body(GAUSSIAN, target))
    assert (answer["status"], answer["no_witness"]) == ("met", None)
    assert answer["readings"] <= 12
    met, broken = answer["answers"][0]["upper_log10"], answer["witness"]["answer"]["lower_log10"]
    assert met <= math.log10(limit) < broken
