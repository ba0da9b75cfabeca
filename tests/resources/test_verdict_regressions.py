"""Verdicts that once passed without a proof, and texts that described another check than the performed one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from api_schemas.answers import NumberAnswer
from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from api_schemas.bounds import BoundsRequest
from service.engine_version import ENGINE_VERSION
from service.importers.catalogue import validate_with_imports
from service.resources.assessments.assessment import ASSESSMENTS, exit_code
from service.resources.bounds import BOUNDS
from service.resources.digest import canonical_text
from tests.slow_marker import sample_of

NAME = "sha256:" + "0" * 64
SEED = 20281
EPSILON: dict[str, Any] = {"type": "epsilon", "delta": 1e-5}
POWER: dict[str, Any] = {"type": "trade_off", "false_positive_rates": [0.01]}
GAUSSIAN: dict[str, Any] = {"type": "gaussian", "noise_multiplier": 2.0}
DPSGD: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.02, "steps": 200}
SHUFFLED: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "sampling": "shuffled", "epochs": 1.0} | {
    "batch_size": 50,
    "dataset_size": 1000,
}
NOISY_SGD: dict[str, Any] = {"type": "noisy_sgd", "dataset_size": 50, "batch_size": 25, "dimension": 20, "steps": 1} | {
    "noise_std": 0.1,
    "max_grad_norm": 1.0,
}
WORST_CASE: dict[str, Any] = {"type": "worst_case"}
LIMIT = "At a false positive rate of 1\u00a0%, at most 50\u00a0% of members are identified"


def request(mechanism: dict[str, Any], context: dict[str, Any], *rules: dict[str, Any]) -> AssessmentsRequest:
    sent: dict[str, Any] = {"mechanism": mechanism, "context": {"delta": 1e-5, **context}}
    sent |= {"policy": {"name": "gate", "rules": rules}} if rules else {}
    return validate_with_imports(AssessmentsRequest, json.dumps(sent).encode())


def assess(mechanism: dict[str, Any], context: dict[str, Any], *rules: dict[str, Any]) -> AssessmentsResponse:
    return ASSESSMENTS.response(request(mechanism, context, *rules), NAME, ENGINE_VERSION)


def epsilon_of(mechanism: dict[str, Any]) -> float:
    sent = {"mechanism": mechanism, "questions": [EPSILON]}
    [answer] = BOUNDS.response(BoundsRequest.model_validate_json(json.dumps(sent)), NAME, ENGINE_VERSION).answers
    assert isinstance(answer, NumberAnswer)
    return answer.value


def judged_epsilon(response: AssessmentsResponse) -> float:
    answer = response.threat_models[0].answers[0]
    assert isinstance(answer, NumberAnswer)
    return answer.value


def effects(response: AssessmentsResponse) -> dict[str, str]:
    return {each.code: each.effect for each in response.hazards if each.status == "present"}


@pytest.mark.parametrize(
    "question",
    [
        {"type": "advantage_over_prior", "prior": 0},
        {"type": "unlearning_guarantee", "prior": 0, "confidence": 0.8},
        {"type": "negative_predictive_value", "prior": 0, "side": "at_least"},
        {"type": "negative_predictive_value", "prior": 0, "side": "at_least", "false_positive_rate": 0.1},
        {"type": "positive_predictive_value", "prior": 1, "side": "at_least"},
        {"type": "positive_predictive_value", "prior": 1, "side": "at_least", "false_positive_rate": 0.1},
        {"type": "deletion_capacity", "prior": 0, "confidence": 0.8},
    ],
)
@pytest.mark.parametrize("side", ["at_most", "at_least"])
def test_limit_met_by_every_run_is_rejected(question: dict[str, Any], side: str) -> None:
    with pytest.raises(ValidationError, match="for every run"):
        request(GAUSSIAN, {}, {"question": question, side: 0.5})


def test_policy_that_no_run_can_break_is_rejected() -> None:
    warning = {"question": EPSILON, "at_most": 0.1, "severity": "warning"}
    with pytest.raises(ValidationError, match="at least one limit the severity error"):
        request(DPSGD, {}, warning)
    assert assess(DPSGD, {}, warning, {"question": EPSILON, "at_most": 9.0}).verdict == "met"


@pytest.mark.parametrize(
    "mechanism",
    [
        {"type": "gdp", "mu": 0.4},
        {"type": "pure_dp", "epsilon": 0.5},
        {"type": "approximate_dp", "epsilon": 0.5, "delta": 1e-6},
        {"type": "exponential", "epsilon": 0.5},
        {"type": "repeated", "steps": 3, "mechanism": {"type": "gdp", "mu": 0.2}},
    ],
)
def test_microbatches_without_noise_parameter_leave_no_bound(mechanism: dict[str, Any]) -> None:
    received = assess(mechanism, {"microbatch_size": 4}, {"question": EPSILON, "at_most": 9.0})
    assert received.judged_as is None
    assert effects(received)["microbatches_double_sensitivity"] == "no_bound"
    assert (received.verdict, exit_code(received), received.summary.bounded) == ("undecided", 1, False)


def test_schedule_rate_is_compared_with_batch_size_of_context() -> None:
    random = Random(SEED)
    for _ in range(6):
        rates = [random.uniform(0.001, 0.02) for _ in range(2)]
        schedule = DPSGD | {"sample_rate": rates, "steps": [50, 50]}
        batch = random.randint(40, 90)
        received = assess(schedule, {"batch_size": batch, "dataset_size": 1000})
        assert effects(received)["sample_rate_inconsistent"] == "numbers_changed"
        assert judged_epsilon(received) >= epsilon_of(schedule | {"sample_rate": batch / 1000, "steps": 100}) * (
            1 - 1e-9
        )
    within = assess(DPSGD | {"sample_rate": [0.01, 0.03], "steps": [50, 50]}, {"batch_size": 20, "dataset_size": 1000})
    assert "sample_rate_inconsistent" not in effects(within)


def test_single_batch_size_does_not_show_accumulation_in_schedule() -> None:
    schedule = DPSGD | {"sample_rate": [0.01, 0.03], "steps": [50, 50]}
    received = assess(schedule, {"batch_size": 20, "dataset_size": 1000, "gradient_accumulation_steps": 4})
    assert effects(received)["gradient_accumulation_counted"] == "numbers_changed"
    assert judged_epsilon(received) >= epsilon_of(schedule | {"sample_rate": [0.04, 0.12]}) * (1 - 1e-9)


def test_epochs_are_judged_with_steps_of_either_rate() -> None:
    random = Random(SEED)
    for _ in range(2):
        noise, epochs = random.uniform(0.2, 1.0), float(random.randint(1, 2))
        run = {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": 0.5, "epochs": epochs}
        received = assess(run, {"batch_size": 10, "dataset_size": 1000})
        for rate in (0.5, 0.01):
            assert judged_epsilon(received) >= epsilon_of(run | {"sample_rate": rate}) * (1 - 1e-9)
        assert received.judged_as is not None
        assert "with the steps of its epochs at the smaller rate" in received.judged_as.text


@sample_of(1)
@pytest.mark.parametrize(
    ("question", "limit"),
    [(EPSILON, {"at_least": 5.0}), (POWER | {"direction": "remove"}, {"at_most": 0.97, "reads": "type_two_error"})],
)
def test_upper_bound_of_changed_run_violates_no_limit(question: dict[str, Any], limit: dict[str, Any]) -> None:
    rule = {"question": question, **limit}
    described, tuned = (assess(DPSGD, context, rule) for context in ({}, {"tuning_runs": 20}))
    assert described.verdict == "violated"
    assert tuned.verdict == "undecided"


def test_microbatches_do_not_violate_limit_under_replacement() -> None:
    sent: dict[str, Any] = {"mechanism": DPSGD, "context": {"delta": 1e-5, "microbatch_size": 4}}
    sent |= {"threat_model": WORST_CASE | {"neighboring_relation": "replace_one"}}
    described = judged_epsilon(assess(DPSGD, {}))
    rules = [{"question": EPSILON, "at_most": 2 * described + 2}]
    made = validate_with_imports(
        AssessmentsRequest, json.dumps(sent | {"policy": {"name": "gate", "rules": rules}}).encode()
    )
    assert ASSESSMENTS.response(made, NAME, ENGINE_VERSION).verdict == "undecided"


def test_without_bound_limit_is_undecided() -> None:
    received = assess(NOISY_SGD, {"microbatch_size": 4}, {"question": EPSILON, "at_most": 1e-3})
    assert received.decision is not None
    assert (received.verdict, received.decision.rulings[0].verdict) == ("undecided", "undecided")


@pytest.mark.parametrize(
    ("run", "neighbours"),
    [
        (NOISY_SGD, "replaced by another one"),
        (SHUFFLED, "replaced by an empty one"),
        (GAUSSIAN, "added or removed"),
    ],
)
def test_meaning_of_rule_names_checked_relation(run: dict[str, Any], neighbours: str) -> None:
    rule = {"question": POWER, "at_most": 0.5, "threat_model": WORST_CASE}
    received = assess(run, {}, rule)
    assert received.decision is not None
    assert received.decision.rulings[0].meaning == f"{LIMIT}, against the worst case with a record {neighbours}."


def test_requests_with_different_answers_have_different_digests() -> None:
    explicit = WORST_CASE | {"neighboring_relation": "add_or_remove_one"}
    rules = [{"question": POWER, "at_most": 0.5, "threat_model": each} for each in (WORST_CASE, explicit)]
    usual, other = (assess(NOISY_SGD, {}, rule).decision for rule in rules)
    assert usual is not None
    assert other is not None
    assert usual.rulings[0].answer != other.rulings[0].answer
    assert len({canonical_text(request(NOISY_SGD, {}, rule)) for rule in rules}) == 2
    again = validate_with_imports(AssessmentsRequest, canonical_text(request(NOISY_SGD, {}, rules[0])).encode())
    assert ASSESSMENTS.response(again, NAME, ENGINE_VERSION).decision == usual


def test_rule_with_own_attacker_protects_all_records_of_unit() -> None:
    several: dict[str, Any] = {"privacy_unit": "user", "records": 4}
    for relation in (None, "add_or_remove_one", "zero_out"):
        attacker = WORST_CASE | ({} if relation is None else {"neighboring_relation": relation})
        rule = {"question": POWER, "at_most": 0.1, "threat_model": attacker}
        received = assess(GAUSSIAN, several, rule)
        assert received.decision is not None
        assert received.verdict == "violated"
        assert "4 records together" in received.decision.rulings[0].meaning
    one = {"question": POWER, "at_most": 0.1, "threat_model": WORST_CASE | {"records": 1}}
    assert assess(GAUSSIAN, several, one).verdict == "met"


@pytest.mark.parametrize(
    "attacker", [{"type": "glrt", "dimension": 50}, {"type": "practical", "epsilon_pmp": 0.1, "delta": 0.0}]
)
def test_one_record_theory_is_undecided_for_several_records(attacker: dict[str, Any]) -> None:
    question = {"type": "attack_accuracy", "prior": 0.5}
    rule = {"question": question, "at_most": 0.9, "threat_model": attacker}
    assert assess(GAUSSIAN, {}, rule).verdict == "met"
    assert assess(GAUSSIAN, {"privacy_unit": "user", "records": 4}, rule).verdict == "undecided"


def test_batch_size_is_lower_bound_of_dataset_size() -> None:
    for delta, verdict in ((0.01, "undecided"), (1e-3, "met")):
        rule = {"question": {"type": "epsilon", "delta": delta}, "at_most": 9.0}
        received = assess(DPSGD, {"delta": delta, "batch_size": 256}, rule)
        assert received.verdict == verdict
        assert ("delta_not_small" in effects(received)) == (verdict == "undecided")
