"""Attestations required by a policy, the sentence of a verdict, and the exit codes of the command."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import ValidationError

from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from api_schemas.assumptions_and_hazards import AssumptionCode
from api_schemas.policies import PolicyVerdict
from api_schemas.problems import field_errors
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.rendering.sentences.verdict import Standing, verdict_sentence
from service.resources.assessments.assessment import ASSESSMENTS, exit_code
from service.resources.digest import digest

ASSUMPTIONS: tuple[str, ...] = get_args(get_args(AssumptionCode)[0])
GAUSSIAN: dict[str, Any] = {"type": "gaussian", "noise_multiplier": 4.0}
TRAINED: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 2.0, "sample_rate": 1.0, "steps": 4}
KEPT = {"question": {"type": "epsilon", "delta": 1e-5}, "at_most": 50.0}
BROKEN = KEPT | {"at_most": 1e-3}


def body(mechanism: dict[str, Any], attested: dict[str, str], requires: Any = None, *rules: Any) -> dict[str, Any]:
    context = {"delta": 1e-5, "attested": [{"code": code, "holds": holds} for code, holds in attested.items()]}
    policy = {"name": "gate", "rules": list(rules) or [KEPT]} | ({} if requires is None else {"requires": requires})
    return {"mechanism": mechanism, "context": context, "policy": policy}


def request(sent: dict[str, Any]) -> AssessmentsRequest:
    return AssessmentsRequest.model_validate_json(json.dumps(sent))


def assess(sent: dict[str, Any], version: str = ENGINE_VERSION) -> AssessmentsResponse:
    asked = request(sent)
    return ASSESSMENTS.response(asked, digest("assessments", version, asked), version)


def assumptions_of(mechanism: dict[str, Any]) -> list[str]:
    return [each.code for each in assess(body(mechanism, {})).assumptions]


@pytest.mark.parametrize("mechanism", [GAUSSIAN, TRAINED, {"type": "pure_dp", "epsilon": 1.0}])
def test_missing_attestation_gives_its_own_verdict(mechanism: dict[str, Any]) -> None:
    random = np.random.default_rng(6)
    known = assumptions_of(mechanism)
    assert known
    for _ in range(25):
        attested = {code: "yes" for code in known if random.uniform() < 0.6}
        asked = [str(code) for code in random.choice(ASSUMPTIONS, 6, replace=False)]
        asked = list(dict.fromkeys([*asked, *random.choice(known, 2).tolist()]))
        requires: Any = "all" if random.uniform() < 0.3 else [{"assumption": code, "holds": "yes"} for code in asked]
        rule = BROKEN if random.uniform() < 0.2 else KEPT
        received = assess(body(mechanism, attested, requires, rule))
        counted = known if requires == "all" else [code for code in asked if code in known]
        missing = [code for code in counted if code not in attested]
        assert received.decision is not None
        assert list(received.decision.missing) == missing
        assert received.decision.requires is not None
        statuses = {each.assumption: each.status for each in received.decision.requirements}
        assert list(statuses) == (known if requires == "all" else asked)
        for code, status in statuses.items():
            expected = "not_applicable" if code not in known else "attested" if code in attested else "missing"
            assert status == expected
        expected_verdict = "violated" if rule is BROKEN else "met_if_attested" if missing else "met"
        assert received.verdict == received.decision.verdict == expected_verdict
        assert exit_code(received) == {"violated": 1, "met_if_attested": 3, "met": 0}[expected_verdict]


def test_refuted_requirement_voids_the_verdict() -> None:
    for code in assumptions_of(TRAINED):
        received = assess(body(TRAINED, {code: "no"}, "all"))
        assert received.decision is not None
        assert {each.assumption: each.status for each in received.decision.requirements}[code] == "refuted"
        assert received.verdict == "void"
        assert exit_code(received) == 1
        assert "at most" not in received.statement
        assert "differentially private" not in received.statement.lower()


def test_attacker_assumptions_count_for_their_rule() -> None:
    glrt = KEPT | {"threat_model": {"type": "glrt", "dimension": 5}}
    received = assess(body(GAUSSIAN, {}, "all", glrt, KEPT))
    assert received.decision is not None
    about = set(received.decision.missing) - set(assumptions_of(GAUSSIAN))
    assert about
    for code in about:
        refuted = assess(body(GAUSSIAN, {code: "no"}, None, glrt, KEPT))
        assert refuted.decision is not None
        assert [each.verdict for each in refuted.decision.rulings] == ["undecided", "met"]
        assert refuted.verdict == "undecided"
    alone = assess(body(GAUSSIAN, {}, [{"assumption": code} for code in about], KEPT))
    assert alone.verdict == "met", "no rule rests on them"


def test_sentence_counts_unattested_assumptions() -> None:
    known = assumptions_of(TRAINED)
    for number in range(len(known) + 1):
        received = assess(body(TRAINED, dict.fromkeys(known[:number], "yes")))
        assert received.decision is not None
        left = len(known) - number
        assert received.verdict == "met"
        if left:
            assert f"{left} unattested assumption" in received.decision.sentence
        else:
            assert "unattested" not in received.decision.sentence


def test_only_met_policy_claims_that_every_limit_is_kept() -> None:
    verdicts: tuple[PolicyVerdict, ...] = get_args(get_args(PolicyVerdict)[0])
    for verdict, numbers in itertools.product(verdicts, itertools.product((0, 1, 4), repeat=4)):
        warnings, assumptions, missing, refuted = numbers
        if (verdict == "void" and not refuted) or (verdict == "met_if_attested" and not missing):
            continue
        ruled = [("met", None), (verdict if verdict in ("violated", "undecided") else "met", None)]
        standing = Standing(verdict, ruled, warnings, assumptions, min(assumptions, 1), missing, refuted)
        sentence = verdict_sentence(standing)
        assert sentence.startswith("Every limit is kept") == (verdict in ("met", "met_if_attested")), sentence
        assert sentence.endswith(".")
        assert (" is missing" in sentence or " are missing" in sentence) == (verdict == "met_if_attested")


@pytest.mark.parametrize(
    ("attested", "requires", "rule", "code"),
    [
        ({}, None, KEPT, 0),
        ({}, "all", KEPT, 3),
        ({}, "all", BROKEN, 1),
        ({"noise_is_fresh": "no"}, None, KEPT, 1),
    ],
)
def test_command_exits_with_code_of_verdict(
    tmp_path: Path, attested: dict[str, str], requires: Any, rule: Any, code: int
) -> None:
    run = tmp_path / "run.json"
    sent = body(GAUSSIAN, attested, requires, rule)
    run.write_text(json.dumps(sent))
    assert cli.main(["assess", str(run)]) == code
    assert cli.main(["assess", str(run), "--accept", "text/markdown"]) == code
    del sent["policy"]
    run.write_text(json.dumps(sent))
    assert cli.main(["assess", str(run)]) == 0
    run.write_text("{}")
    assert cli.main(["assess", str(run)]) == cli.PROBLEM_EXIT_CODE


# Two days ahead of the latest time zone, because the tests may run across its midnight.
TOMORROW = (datetime.now(UTC) + timedelta(hours=14, days=2)).date().isoformat()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"policy": {"requires": [{"assumption": "the_moon_is_full"}]}}, "/policy/requires/0/assumption"),
        ({"policy": {"requires": [{"assumption": "noise_is_fresh"}] * 2}}, "/policy/requires/1/assumption"),
        ({"policy": {"requires": [{"assumption": "noise_is_fresh", "holds": "no"}]}}, "/policy/requires/0/holds"),
        ({"policy": {"requires": []}}, "/policy/requires"),
        ({"policy": {"requires": "some"}}, "/policy/requires"),
        ({"context": {"subject": {}}}, "/context/subject/name"),
        ({"context": {"subject": {"name": ""}}}, "/context/subject/name"),
        ({"context": {"subject": {"name": " \t"}}}, "/context/subject/name"),
        ({"context": {"subject": {"name": "a\nb"}}}, "/context/subject/name"),
        ({"context": {"subject": {"name": "a\u0007"}}}, "/context/subject/name"),
        ({"context": {"subject": {"name": "a\u2028b"}}}, "/context/subject/name"),
        ({"context": {"subject": {"name": "at most \u202e9.0"}}}, "/context/subject/name"),
        ({"context": {"prepared_by": "\u2066a"}}, "/context/prepared_by"),
        ({"context": {"subject": {"name": "x" * 1_000_000}}}, "/context/subject/name"),
        ({"context": {"subject": {"name": "m", "colour": "red"}}}, "/context/subject/colour"),
        ({"context": {"subject": {"name": "m", "version": "\u0085"}}}, "/context/subject/version"),
        ({"context": {"subject": {"name": "m", "uri": "not an address"}}}, "/context/subject/uri"),
        ({"context": {"subject": {"name": "m", "uri": "https://a/\"><script>"}}}, "/context/subject/uri"),
        ({"context": {"subject": {"name": "m", "sha256": "12"}}}, "/context/subject/sha256"),
        ({"context": {"subject": {"name": "m", "sha256": "G" * 64}}}, "/context/subject/sha256"),
        ({"context": {"date": TOMORROW}}, "/context/date"),
        ({"context": {"date": "2026-02-30"}}, "/context/date"),
        ({"context": {"date": "20261123"}}, "/context/date"),
        ({"context": {"date": "2026-W47-1"}}, "/context/date"),
        ({"context": {"date": "yesterday"}}, "/context/date"),
        ({"context": {"prepared_by": "a\tb"}}, "/context/prepared_by"),
        ({"context": {"attested": [{"code": "noise_is_fresh", "holds": "yes", "when": TOMORROW}]}},
         "/context/attested/0/when"),
    ],
)  # fmt: skip
def test_bad_input_is_rejected_with_pointer(change: dict[str, dict[str, Any]], pointer: str) -> None:
    sent = body(GAUSSIAN, {})
    for part, members in change.items():
        sent[part] |= members
    with pytest.raises(ValidationError) as refused:
        request(sent)
    errors = field_errors(refused.value)
    assert [each.pointer for each in errors] == [pointer]
    assert "script" not in errors[0].detail
    assert "xxx" not in errors[0].detail


@pytest.mark.parametrize(
    ("member", "sent", "remedy"),
    [
        ("date", TOMORROW, "Must not be in the future in every time zone."),
        ("date", "2026-02-30", "Must be a day of the calendar, as YYYY-MM-DD."),
        ("date", "24.11.2026", "Must be a day of the calendar, as YYYY-MM-DD."),
        ("date", 20261124, "Must be a day of the calendar, as YYYY-MM-DD."),
        ("subject", {"name": "m", "sha256": "12"}, "Must be 64 hexadecimal digits in lower case."),
        ("subject", {"name": "m", "uri": "not an address"}, "such as https://"),
    ],
)
def test_rejected_text_has_remedy(member: str, sent: object, remedy: str) -> None:
    asked = body(GAUSSIAN, {})
    asked["context"] |= {member: sent}
    with pytest.raises(ValidationError) as refused:
        request(asked)
    [error] = field_errors(refused.value)
    assert remedy in error.detail


def test_date_that_has_begun_anywhere_on_earth_is_accepted() -> None:
    sent = body(GAUSSIAN, {})
    sent["context"] |= {"date": (datetime.now(UTC) + timedelta(hours=13, minutes=59)).date().isoformat()}
    assert request(sent).context.date == sent["context"]["date"]


def test_subject_and_date_are_echoed_and_enter_digest_and_id() -> None:
    subject = {"name": "<b>m</b> & \u202fco", "version": "2", "uri": "urn:model:1", "sha256": "0" * 64}
    sent = body(GAUSSIAN, {})
    plain = assess(sent)
    sent["context"] |= {"subject": subject, "date": "2026-11-01", "prepared_by": "\u00c5sa"}
    received = assess(sent)
    assert received.context.model_dump(exclude_none=True)["subject"] == subject
    assert (received.context.date, received.context.prepared_by) == ("2026-11-01", "\u00c5sa")
    assert received.decision is not None
    assert plain.decision is not None
    assert received.decision.id != plain.decision.id


def test_rules_are_independent_and_equal_questions_are_shared() -> None:
    random = np.random.default_rng(4)
    questions: list[dict[str, Any]] = [
        {"type": "epsilon", "delta": 1e-5},
        {"type": "trade_off", "false_positive_rates": [1e-4]},
        {"type": "trade_off", "false_positive_rates": [0.2]},
        {"type": "reconstruction", "baseline_success": 1e-3},
        {"type": "attack_accuracy", "prior": 0.5},
        {"type": "delta", "epsilon": 0.7},
    ]
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    main = assess({"mechanism": run, "context": {"delta": 1e-5}}).threat_models[0].answers
    rules = []
    for _ in range(30):
        question = questions[random.integers(len(questions))]
        rules.append({"question": question, "at_most": float(random.uniform(0.51, 0.99))})
    together = assess(body(run, {}, None, *rules)).decision
    assert together is not None
    for rule, ruling in zip(rules, together.rulings, strict=True):
        same = [each for each in main if each.question == ruling.rule.question]
        if same:
            assert ruling.answer == same[0]
        if ruling.verdict == "undecided":
            alone = assess(body(run, {}, None, rule)).decision
            assert alone is not None
            assert alone.rulings[0].verdict == "undecided"
    assert {each.verdict for each in together.rulings} == {"met", "violated"}


@pytest.mark.parametrize(
    ("context", "threat_model", "name"),
    [
        ({"dimension": 10}, {"type": "glrt", "dimension": 10**9}, "dimension"),
        ({"epsilon_pmp": 5.0}, {"type": "practical", "epsilon_pmp": 0.1}, "epsilon_pmp"),
    ],
)
def test_rule_contradicting_attacker_of_context_is_rejected(
    context: dict[str, Any], threat_model: dict[str, Any], name: str
) -> None:
    sent = body(GAUSSIAN, {}, None, KEPT, KEPT | {"threat_model": threat_model})
    assert request(sent)
    sent["context"] |= context
    with pytest.raises(ValidationError) as refused:
        request(sent)
    assert [each.pointer for each in field_errors(refused.value)] == [f"/policy/rules/1/threat_model/{name}"]
    sent["context"] |= {name: threat_model[name]}
    assert request(sent)
