"""Assessments: the numbers of bounds, hazards by context, conservative verdicts, other renderings."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from api_schemas.answers import NumberAnswer
from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from api_schemas.bounds import BoundsRequest
from api_schemas.policies import PolicyRule
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.rendering.documents import DOCUMENT_WRITERS
from service.rendering.documents.escaping import plain
from service.rendering.documents.mlflow import MLFLOW
from service.rendering.numbers import percent_exact, rounded_down, rounded_up
from service.resources.assessments.assessment import ASSESSMENTS
from service.resources.assessments.attackers import relaxed_attackers
from service.resources.assessments.judged import AssessedRun
from service.resources.assessments.premises import IF_NOT
from service.resources.bounds import BOUNDS
from tests.slow_marker import thorough

RUN: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.5, "sample_rate": 0.02, "steps": 100}
SHORT: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.5, "sample_rate": 0.05, "steps": 20}
LONG: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
NAME = "sha256:" + "0" * 64
KNOWN: dict[str, Any] = {
    "delta": 1e-5,
    "dataset_size": 1000,
    "batch_size": 20,
    "microbatch_size": 1,
    "gradient_accumulation_steps": 1,
    "tuning_runs": 1,
    "attested": [{"code": "sampling_is_poisson", "holds": "yes", "by": "platform", "when": "2026-01-31"}],
}


def body(mechanism: dict[str, Any] = RUN, **more: Any) -> dict[str, Any]:
    return {"mechanism": mechanism, "context": {"delta": 1e-5}, **more}


def request(sent: dict[str, Any]) -> AssessmentsRequest:
    return AssessmentsRequest.model_validate_json(json.dumps(sent))


def assess(sent: dict[str, Any]) -> AssessmentsResponse:
    return ASSESSMENTS.response(request(sent), NAME, ENGINE_VERSION)


def codes(response: AssessmentsResponse) -> dict[str, str]:
    return {each.code: each.status for each in response.hazards}


MEAN: dict[str, Any] = {
    "type": "noisy_sgd",
    "dataset_size": 50,
    "batch_size": 50,
    "dimension": 20,
    "steps": 1,
    "noise_std": 0.1,
    "max_grad_norm": 1.0,
}
EVERYBODY: dict[str, Any] = {"dimension": 30, "epsilon_pmp": 0.5, "delta_pmp": 1e-3}


@pytest.mark.parametrize(
    ("mechanism", "context", "attackers"),
    [
        (RUN, {}, ()),
        (RUN, {"epsilon_pmp": 0.5}, ("practical",)),
        ({"type": "laplace", "noise_multiplier": 2.0}, EVERYBODY, ("practical",)),
        ({"type": "gaussian", "noise_multiplier": 2.0}, EVERYBODY, ("glrt", "practical")),
        ({"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6}, {}, ()),
        (MEAN, {}, ("membership",)),
        (MEAN, {"epsilon_pmp": 3.0}, ("membership", "practical")),
    ],
)
def test_numbers_equal_those_of_bounds(
    mechanism: dict[str, Any], context: dict[str, Any], attackers: tuple[str, ...]
) -> None:
    received = assess(body(mechanism, context={"delta": 1e-5, **context}))
    assert received.threat_models[0].threat_model.type == "worst_case"
    assert tuple(each.threat_model.type for each in received.threat_models if each.conditional) == attackers
    listed = [each.threat_model for each in received.threat_models]
    assert len(set(listed)) == len(listed)
    for attacked in received.threat_models:
        sent = {
            "mechanism": mechanism,
            "threat_model": attacked.threat_model.model_dump(mode="json"),
            "questions": [answer.question.model_dump(mode="json") for answer in attacked.answers],
        }
        alone = BOUNDS.response(BoundsRequest.model_validate_json(json.dumps(sent)), NAME, ENGINE_VERSION)
        assert attacked.answers == alone.answers
        assert attacked.conditional == (alone.worst_case is not None)
        if alone.worst_case is not None:  # Its own worst case comes first.
            assert alone.worst_case.threat_model in listed[: listed.index(attacked.threat_model)]
    asked = {each.threat_model.type for each in received.threat_models} | {
        x.threat_model for x in received.not_applicable
    }
    assert asked == {"worst_case", "glrt", "membership", "practical"}
    assert ASSESSMENTS.quote(request(body(mechanism))).cost > 0


def test_several_worst_cases_are_distinguished_in_every_rendering() -> None:
    received = assess(body({"type": "gaussian", "noise_multiplier": 2.0}, context={"delta": 1e-5, **EVERYBODY}))
    forms = {name: render(received) for name, render in DOCUMENT_WRITERS.items()}
    heads = re.findall(r"### Attacker: (.*)", forms["text/markdown"])
    assert heads == [
        "worst case",
        "direction unknown (GLRT)",
        "worst case, a record replaced",
        "candidates known (PMP)",
    ]
    metrics = json.loads(forms[MLFLOW])["metrics"]
    found = [metrics[f"dp.{room}advantage"] for room in ("", "glrt.", "worst_case.replace_one.", "practical.")]
    assert len(set(found)) == 4
    assert found[2] > found[0] > found[1]


def test_pmp_attacker_needs_prior_of_one_half() -> None:
    received = assess(body(context={"delta": 1e-5, "epsilon_pmp": 0.5, "prior": 0.3}))
    [reason] = [each.reason for each in received.not_applicable if each.threat_model == "practical"]
    assert "prior" in reason


def test_expensive_attacker_is_listed_as_not_applicable() -> None:
    run = {"type": "noisy_sgd", "dataset_size": 50, "batch_size": 5, "dimension": 200, "steps": 300, "noise_std": 1.0}
    found = relaxed_attackers(AssessedRun.of(request(body(run | {"max_grad_norm": 1.0}))), 1e-6)
    assert not found.requests
    [membership] = [each for each in found.others if each.threat_model == "membership"]
    assert "/v1/bounds" in membership.reason


def test_records_of_person_are_protected_together() -> None:
    received = assess(body(context={"delta": 1e-5, "privacy_unit": "user", "records": 4}))
    assert received.threat_model.records == 4
    assert [each.threat_model.type for each in received.threat_models] == ["worst_case"]
    assert "one_record_is_protected" not in codes(received)
    alone = assess(body())
    assert received.threat_models[0].answers[0].value > alone.threat_models[0].answers[0].value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"dataset_size": 10**6}, "delta_not_small", "present"),
        ({"dataset_size": 99_999}, "delta_not_small", None),
        ({}, "delta_not_small", "possible"),
        ({"microbatch_size": 4}, "microbatches_double_sensitivity", "present"),
        ({"microbatch_size": 1}, "microbatches_double_sensitivity", None),
        ({}, "microbatches_double_sensitivity", "possible"),
        ({"tuning_runs": 7}, "tuning_not_accounted", "present"),
        ({"tuning_runs": 1}, "tuning_not_accounted", None),
        ({}, "tuning_not_accounted", "possible"),
        ({"gradient_accumulation_steps": 8}, "gradient_accumulation_counted", "present"),
        ({"gradient_accumulation_steps": 1}, "gradient_accumulation_counted", None),
        ({}, "gradient_accumulation_counted", "possible"),
        ({"privacy_unit": "user"}, "records_not_capped", "present"),
        ({"privacy_unit": "user", "records": 1}, "records_not_capped", None),
        ({"privacy_unit": "user"}, "one_record_is_protected", None),
        ({}, "one_record_is_protected", "possible"),
        ({"batch_size": 10, "dataset_size": 50_000}, "sample_rate_inconsistent", "present"),
        ({"batch_size": 1000, "dataset_size": 50_000}, "sample_rate_inconsistent", None),
        ({"dimension": 3}, "relaxed_number_alone", None),
        ({}, "poisson_sampling_assumed", "possible"),
        ({"attested": [{"code": "sampling_is_poisson", "holds": "yes"}]}, "poisson_sampling_assumed", None),
        ({"attested": [{"code": "sampling_is_poisson", "holds": "no"}]}, "poisson_sampling_assumed", "present"),
    ],
)
def test_hazards_follow_from_context(changes: dict[str, Any], code: str, status: str | None) -> None:
    assert codes(assess(body(context={"delta": 1e-5, **changes}))).get(code) == status


def test_hazards_follow_from_numbers() -> None:
    little_noise = assess(body({"type": "gaussian", "noise_multiplier": 0.2}, context={"delta": 1e-5, "dimension": 3}))
    assert {"epsilon_says_little": "present", "relaxed_number_alone": "possible"}.items() <= codes(little_noise).items()
    received = assess(body(LONG))
    assert codes(received)["one_point_hides_the_curve"] == "present"
    assert received.one_point is not None
    assert received.one_point.power_from_one_point > 1.1 * received.one_point.power
    stated = assess(body({"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-5}))
    assert stated.one_point is None
    assert codes(stated)["stated_parameters_alone"] == "present"
    assert set(codes(assess(body(context=KNOWN)))) == {"one_record_is_protected"}


@pytest.mark.parametrize(
    ("context", "code", "changed"),
    [
        (
            {"dataset_size": 100, "attested": [{"code": "sampling_is_poisson", "holds": "no"}]},
            "poisson_sampling_assumed",
            {
                "type": "dpsgd",
                "noise_multiplier": 1.5,
                "sampling": "shuffled",
                "batch_size": 5,
                "dataset_size": 100,
                "epochs": 1,
            },
        ),
        ({"microbatch_size": 2}, "microbatches_double_sensitivity", SHORT | {"noise_multiplier": 0.75}),
        thorough(
            {"tuning_runs": 3},
            "tuning_not_accounted",
            {"type": "selected", "mechanism": SHORT, "trials": {"type": "fixed", "count": 3}},
        ),
        ({"batch_size": 10, "dataset_size": 100}, "sample_rate_inconsistent", SHORT | {"sample_rate": 0.1}),
    ],
)
def test_hazard_impact_is_bound_of_described_run(context: dict[str, Any], code: str, changed: dict[str, Any]) -> None:
    received = assess(body(SHORT, context={"delta": 1e-5, **context}))
    [found] = next(each for each in received.hazards if each.code == code).consequences
    sent = {"mechanism": changed, "questions": [{"type": "epsilon", "delta": 1e-5}]}
    alone = BOUNDS.response(BoundsRequest.model_validate_json(json.dumps(sent)), NAME, ENGINE_VERSION)
    assert found.mechanism == alone.mechanism
    assert found.answer == alone.answers[0]


def test_tuning_hazard_advises_to_draw_the_number_of_runs() -> None:
    received = assess(body(LONG, context={"delta": 1e-5, "tuning_runs": 10}))
    [found] = [each for each in received.hazards if each.code == "tuning_not_accounted"]
    [fixed, drawn] = re.findall(r"epsilon falls from ([\d.]+) to ([\d.]+)\.$", found.remedy)[0]
    assert float(drawn) < 0.7 * float(fixed)
    for printed, trials in ((fixed, {"type": "fixed", "count": 10}), (drawn, {"type": "geometric", "mean": 10.0})):
        best = {"type": "selected", "mechanism": LONG, "trials": trials}
        sent = {"mechanism": best, "questions": [{"type": "epsilon", "delta": 1e-5}]}
        [answer] = BOUNDS.response(BoundsRequest.model_validate_json(json.dumps(sent)), NAME, ENGINE_VERSION).answers
        assert isinstance(answer, NumberAnswer)
        assert answer.tight is False
        assert answer.upper is not None
        assert answer.upper <= float(printed) <= 1.01 * answer.upper


@pytest.mark.parametrize(("run", "records"), [(RUN, 2), thorough(SHORT, 2), thorough(SHORT, 5)])
def test_hazard_impact_covers_all_records_of_unit(run: dict[str, Any], records: int) -> None:
    capped = {"delta": 1e-5, "privacy_unit": "user", "records": records, "microbatch_size": 2, "tuning_runs": 3}
    received = assess(body(run, context=capped))
    consequences = [each for hazard in received.hazards for each in hazard.consequences]
    assert len(consequences) == 2
    both = received.threat_models[0].answers[0]
    assert isinstance(both, NumberAnswer)
    for each in consequences:  # One change reveals less than both.
        assert each.threat_model == received.threat_model
        assert isinstance(each.answer, NumberAnswer)
        assert each.answer.lower is not None
        assert each.answer.lower < both.value


@pytest.mark.parametrize("seed", range(3))
def test_prose_uses_the_exact_sent_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sent = {
        "delta": float(10 ** rng.uniform(-8, -4)),
        "false_positive_rate": 0.01 * float(1 + rng.uniform(-1e-9, 1e-9)),
        "baseline_success": float(10 ** rng.uniform(-5, -1)),
        "prior": float(rng.uniform(0.1, 0.9)),
    }
    raw = ASSESSMENTS.body(request(body(SHORT, context=sent)), NAME, ENGINE_VERSION)
    received = AssessmentsResponse.model_validate_json(raw)
    card, tracked = (DOCUMENT_WRITERS[form](received) for form in ("text/markdown", MLFLOW))
    for name, value in sent.items():  # Shares are in percent for human readers.
        text = str(value) if name == "delta" else percent_exact(value)
        assert text in received.statement
        assert name == "prior" or text in card.split("###")[0]
    powers = [key for key in json.loads(tracked)["metrics"] if re.fullmatch(r"dp\.tpr_at_fpr_[-.\de]*\d", key)]
    assert len(powers) == 4  # One for each rate, however close the rates are.


def test_model_card_promises_no_more_than_the_numbers() -> None:
    def card(sent: dict[str, Any]) -> str:
        return DOCUMENT_WRITERS["text/markdown"](ASSESSMENTS.response(request(sent), NAME, ENGINE_VERSION))

    stated = card(body({"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-3}))
    assert re.search(r"Gaussian differential privacy wherever both error rates are at least 1e-7\u00a0%", stated)
    user = {"delta": 1e-5, "privacy_unit": "user"}
    assert "per record of one user." in card(body(SHORT, context=user))
    assert "one record of one user that is added" in assess(body(SHORT, context=user)).statement
    assert "per user with up to 3 records." in card(body(SHORT, context=user | {"records": 3}))


@pytest.mark.parametrize("seed", range(2))
def test_mu_is_never_zero_if_something_is_revealed(seed: int) -> None:
    """The mu of an assessment is above zero if a run reveals anything.

    Some runs reveal so much that no point of the curve lies in the range of mu.
    """
    random = np.random.default_rng(seed)
    drawn = [
        {"type": "gaussian", "noise_multiplier": 10 ** random.uniform(-4, 1)},
        {"type": "laplace", "noise_multiplier": 10 ** random.uniform(-4, 1)},
        {"type": "pure_dp", "epsilon": 10 ** random.uniform(-1, 3)},
        {"type": "approximate_dp", "epsilon": 10 ** random.uniform(-1, 3), "delta": float(random.uniform(0, 1))},
        {"type": "approximate_dp", "epsilon": 800.0, "delta": 1e-5},
        {"type": "gaussian", "noise_multiplier": 0.001},
    ]
    for mechanism in drawn:
        response = assess(body(mechanism, context={"delta": 1e-5}))
        upper = None if response.gdp is None else response.gdp.mu["upper"]
        assert upper is None or upper > 0, mechanism
        assert not re.search(r"(?<![\d.])0-Gaussian", response.statement), mechanism


@pytest.mark.parametrize(("records", "there"), [(None, True), (1, False), (3, False)])
def test_records_cap_may_stand_in_threat_model(records: int | None, there: bool) -> None:
    threat_model = {"type": "worst_case"} | ({} if records is None else {"records": records})
    received = assess(body(SHORT, context={"delta": 1e-5, "privacy_unit": "user"}, threat_model=threat_model))
    assert ("records_not_capped" in codes(received)) == there


@pytest.mark.parametrize("name", ["a\x85b", "a\u2028b", "a\u2029# b", "a\x9b31m"])
def test_multi_line_name_is_rejected(name: str) -> None:
    with pytest.raises(ValidationError):
        request(body(policy={"name": name, "rules": [rule(at_most=1.0)]}))


@pytest.mark.parametrize("name", ["http://a.example", "www.a.example", "a@b.example", "~~gone~~", "@somebody"])
def test_names_are_escaped_as_plain_text(name: str) -> None:
    assert not set(plain(name)) & set("~@.:")
    assert html.unescape(plain(name)) == name


def rule(**limit: Any) -> dict[str, Any]:
    return {"question": {"type": "epsilon", "delta": 1e-5}, **limit}


def limited(sent: dict[str, Any]) -> PolicyRule:
    return PolicyRule.model_validate_json(json.dumps(sent))


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"name": "gate", "rules": list(rules)}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"context": {}}, "/context/delta"),
        ({"context": {"delta": 1e-5, "batch_size": 3, "dataset_size": 2}}, "/context/batch_size"),
        ({"context": {"delta": 1e-5, "records": 3}}, "/context/records"),
        ({"context": {"delta": 1e-5, "records": 3, "privacy_unit": "user", "dataset_size": 2}}, "/context/records"),
        (
            {
                "context": {"delta": 1e-5, "records": 3, "privacy_unit": "user"},
                "threat_model": {"type": "worst_case", "records": 2},
            },
            "/context/records",
        ),
        (
            {
                "context": {"delta": 1e-5, "dataset_size": 7},
                "mechanism": {"type": "dpsgd", "noise_multiplier": 1, "batch_size": 2, "dataset_size": 8, "steps": 1},
            },
            "/context/dataset_size",
        ),
        (
            {"context": {"delta": 1e-5, "attested": [{"code": "noise_is_new", "holds": "yes"}]}},
            "/context/attested/0/code",
        ),
        (
            {
                "context": {
                    "delta": 1e-5,
                    "attested": [{"code": "noise_is_fresh", "holds": "yes", "when": "yesterday!"}],
                }
            },
            "/context/attested/0/when",
        ),
        (
            {"context": {"delta": 1e-5, "attested": [{"code": "noise_is_fresh", "holds": "yes"}] * 2}},
            "/context/attested",
        ),
        ({"policy": {"name": "x", "version": 2, "rules": [rule(at_most=1)]}}, "/policy/version"),
        ({"policy": {"name": "x", "rule": [rule(at_most=1)]}}, "/policy/rule"),
        ({"policy": policy(rule())}, "/policy/rules/0/at_most"),
        ({"policy": policy(rule(at_most=1, at_least=1))}, "/policy/rules/0/at_most"),
        ({"policy": policy(rule(at_most=1, reads="type_two_error"))}, "/policy/rules/0/reads"),
        (
            {"policy": policy({"question": {"type": "trade_off", "false_positive_rates": [0.1, 0.2]}, "at_most": 1})},
            "/policy/rules/0/question",
        ),
        ({"policy": policy(rule(at_most=1)) | {"name": "a\nb"}}, "/policy/name"),
        ({"threat_model": {"type": "glrt", "dimension": 3}}, "/threat_model"),
        ({"context": {"delta": 1e-5, "delta_pmp": 0.1}}, "/context/delta_pmp"),
    ],
)
def test_contradiction_is_rejected_with_pointer(
    changes: dict[str, Any], pointer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(body() | changes))
    assert cli.main(["assess", str(file)]) == cli.PROBLEM_EXIT_CODE
    problem = json.loads(capsys.readouterr().err)
    assert any(each["pointer"].startswith(pointer) for each in problem["errors"]), problem


@pytest.mark.parametrize(
    ("attested", "place"),
    [
        ({"code": "scores_bounded", "holds": "yes"}, "code"),
        ({"code": "steps_rounded_up", "holds": "no"}, "holds"),
    ],
)
def test_irrelevant_or_contradictory_attestation_is_rejected(attested: dict[str, Any], place: str) -> None:
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "batch_size": 3, "dataset_size": 10, "epochs": 1}
    with pytest.raises(UnsupportedCombination) as refused:
        assess(body(run, context={"delta": 1e-5, "attested": [attested]}))
    assert refused.value.pointer == f"/context/attested/0/{place}"


def test_every_assumption_states_consequence_of_refutation() -> None:
    room = Path(ASSESSMENTS.function.__code__.co_filename).parents[2] / "privacy" / "mechanisms"
    written = {
        code
        for path in room.rglob("*.py")
        for code in re.findall(r'\bPremise\(\s*(?:code=)?"(\w+)"', path.read_text("utf-8"))
    }
    assert MECHANISMS
    assert written <= set(IF_NOT)


def test_renderings_for_text_model_card_and_tracker_agree() -> None:
    sent = body(
        context=KNOWN | {"attested": [{"code": "sampling_is_poisson", "holds": "yes", "by": "<b>|`a`"}]},
        policy=policy(rule(at_most=0.1, name="*|<i>")),
    )
    raw = ASSESSMENTS.body(request(sent), NAME, ENGINE_VERSION)
    received = AssessmentsResponse.model_validate_json(raw)
    card, text, tracked = (DOCUMENT_WRITERS[form](received) for form in ("text/markdown", "text/plain", MLFLOW))
    assert "<b>" not in card
    assert "<i>" not in card
    assert received.decision is not None
    assert f"**{received.decision.sentence}**" in card
    assert text.startswith(received.statement)
    run = json.loads(tracked)
    assert set(run) == {"params", "metrics", "tags"}
    for room, longest in (("params", 6000), ("tags", 5000)):
        assert all(isinstance(value, str) and len(value) <= longest for value in run[room].values())
    assert all(re.fullmatch(r"[/\w.\- ]{1,250}", key, re.ASCII) for room in run.values() for key in room)
    assert run["metrics"]["dp.epsilon"] == received.threat_models[0].answers[0].value  # type: ignore[union-attr]
    assert run["tags"]["dp.result_digest"] == NAME


def test_printed_numbers_are_still_bounds() -> None:
    rng = np.random.default_rng(5)
    for value in (*(10.0 ** rng.uniform(-300, 300, 500)).tolist(), 0.0, 1.0, 0.1):
        assert float(rounded_down(value)) <= value <= float(rounded_up(value))
        assert float(rounded_up(value)) <= value * (1 + 1e-5)
    assert rounded_up(float("inf")) == "Infinity"
