"""Policies: limits with an effect, conservative verdicts, attestations, hazards that change the verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from pydantic import ValidationError

from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from api_schemas.bounds import BoundsRequest
from api_schemas.policies import PolicyRule
from api_schemas.problems import field_errors
from api_schemas.targets import Limit, value_range
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.privacy.errors import UnsupportedCombination
from service.resources.abstract import ResponseFields
from service.resources.assessments.assessment import ASSESSMENTS
from service.resources.assessments.judged import AssessedRun, RunWithHazards
from service.resources.assessments.rule_results import RulingGrounds, ruling
from service.resources.bounds import BOUNDS
from service.resources.digest import digest
from service.resources.read_numbers import ReadNumber
from tests.resources import request_space

RUN: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.5, "sample_rate": 0.02, "steps": 100}
NAME = "sha256:" + "0" * 64


def body(mechanism: dict[str, Any] = RUN, **more: Any) -> dict[str, Any]:
    return {"mechanism": mechanism, "context": {"delta": 1e-5}, **more}


def request(sent: dict[str, Any]) -> AssessmentsRequest:
    return AssessmentsRequest.model_validate_json(json.dumps(sent))


def assess(sent: dict[str, Any]) -> AssessmentsResponse:
    return ASSESSMENTS.response(request(sent), NAME, ENGINE_VERSION)


def rule(**limit: Any) -> dict[str, Any]:
    return {"question": {"type": "epsilon", "delta": 1e-5}, **limit}


def limited(sent: dict[str, Any]) -> PolicyRule:
    """Return a rule without the check that it decides something."""
    return PolicyRule.model_construct(
        **{name: getattr(Limit.model_validate_json(json.dumps(sent)), name) for name in Limit.model_fields}
    )


def ruling_without_hazards(sent: dict[str, Any], answer: ResponseFields) -> ResponseFields:
    """Return the verdict on the policy of the request `sent` for the run as described, without hazards."""
    run = AssessedRun.of(request(body()))
    return ruling(limited(sent), answer, RulingGrounds(run, RunWithHazards(run), (), lambda _: ()), lambda: answer)


def policy(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "gate", "rules": list(rules), **more}


def test_verdicts_are_conservative_for_every_question() -> None:
    rng = np.random.default_rng(11)
    questions: list[dict[str, Any]] = [
        {"type": "epsilon", "delta": 1e-6},
        {"type": "delta", "epsilon": 1.0},
        {"type": "advantage"},
        {"type": "trade_off", "false_positive_rates": [1e-3]},
        {"type": "gdp_mu"},
        {"type": "reconstruction", "baseline_success": 1e-3},
        {"type": "attack_accuracy", "prior": 0.3},
        {"type": "negative_predictive_value", "prior": 0.3, "false_positive_rate": 0.1, "side": "at_least"},
        {"type": "deletion_capacity", "prior": 0.5, "confidence": 0.5},
    ]
    asked = BoundsRequest.model_validate_json(json.dumps({"mechanism": RUN, "questions": questions}))
    received = BOUNDS.function(asked, NAME, ENGINE_VERSION)
    assert isinstance(received, dict)
    for question, answer in zip(questions, received["answers"], strict=True):
        number = answer["points"][0]["power"] if "points" in answer else answer
        lower, upper = number["lower"], number["upper"]
        for limit in (lower * rng.uniform(0, 1), lower, (lower + upper) / 2, upper, upper * rng.uniform(1, 2)):
            below = ruling_without_hazards({"question": question, "at_most": limit}, answer)
            above = ruling_without_hazards({"question": question, "at_least": limit}, answer)
            assert below["verdict"] == ("met" if upper <= limit else "violated" if lower > limit else "undecided")
            assert above["verdict"] == ("met" if lower >= limit else "violated" if upper < limit else "undecided")
            for one in (below, above):
                if one["verdict"] != "undecided":
                    assert (one["margin"] >= 0) == (one["verdict"] == "met")


def test_verdict_of_policy_combines_its_rules() -> None:
    met, violated = rule(at_most=100.0), rule(at_most=0.01)
    bracket = {"type": "dpsgd", "noise_multiplier": 1.0, "sampling": "shuffled", "batch_size": 10, "dataset_size": 100}
    run = body(bracket | {"epochs": 2})
    received = assess(run)
    ends = received.threat_models[0].answers[0].model_dump()
    inside = rule(at_most=(ends["lower"] + ends["upper"]) / 2)
    for rules, verdict in (
        ((met,), "met"),
        ((met, violated), "violated"),
        ((met, inside), "undecided"),
        ((inside, violated), "violated"),
        ((met, violated | {"severity": "warning"}), "met"),
    ):
        decided = assess(run | {"policy": policy(*rules)})
        assert decided.verdict == verdict
        assert ASSESSMENTS.exit_code(decided) == (0 if verdict == "met" else 1)
    assert ends["tight"] is False
    decided = assess(run | {"policy": policy(inside)})
    assert decided.decision is not None
    assert decided.decision.rulings[0].deciding_tolerance is None, "no tolerance decides between two theorems"


def test_undecided_verdict_due_to_tolerance_is_noted() -> None:
    sent = rule(at_most=0.99)
    wide = {
        "question": limited(sent).question,
        "lower": 0.9,
        "upper": 1.1,
        "value": 1.1,
        "evidence": "certified",
        "tight": True,
    }
    received = ruling_without_hazards(sent, wide)
    assert received["verdict"] == "undecided"
    truth, width = 1.0, received["deciding_tolerance"]
    narrow = wide | {"lower": truth * (1 - width), "upper": truth * (1 + width)}
    assert ruling_without_hazards(rule(at_most=0.99), narrow)["verdict"] == "violated"
    assert "deciding_tolerance" not in ruling_without_hazards(rule(at_most=1.0), wide | {"tight": None})


def test_policy_may_have_its_own_attackers() -> None:
    run = {"type": "gaussian", "noise_multiplier": 1.0}
    glrt = rule(at_most=100.0) | {"threat_model": {"type": "glrt", "dimension": 5}}
    received = assess(body(run, policy=policy(glrt, rule(at_most=100.0))))
    assert received.decision is not None
    relaxed, worst = received.decision.rulings
    assert relaxed.answer.conditional
    assert not worst.answer.conditional
    with pytest.raises(UnsupportedCombination) as refused:
        assess(body(RUN, policy=policy(rule(at_most=1.0), glrt)))
    assert refused.value.pointer == "/policy/rules/1/threat_model" or refused.value.pointer == "/mechanism"


def test_refuted_assumption_voids_the_verdict() -> None:
    context = {"delta": 1e-5, "attested": [{"code": "noise_is_fresh", "holds": "no", "by": "audit"}]}
    received = assess(body(context=context, policy=policy(rule(at_most=1e5))))
    assert received.verdict == "void"
    [found] = [each for each in received.assumptions if each.holds == "no"]
    assert (found.code, found.by) == ("noise_is_fresh", "audit")
    assert "bounds" in found.if_not
    assert "does NOT hold (audit)" in received.statement


def test_decision_id_covers_everything_it_depends_on() -> None:
    one, other = policy(rule(at_most=1.0)), policy(rule(at_most=2.0))
    dated = body(policy=one) | {"context": {"delta": 1e-5, "date": "2026-11-23"}}
    sent = (body(policy=one), body(policy=other), body(RUN | {"steps": 101}, policy=one), dated)
    ids: set[str] = set()
    for version in ("2026.11.24", "2026.11.25"):  # Two engine versions never share an id.
        for each in (*sent, *sent):
            name = digest(ASSESSMENTS.name, version, request(each))
            received = ASSESSMENTS.response(request(each), name, version)
            assert received.decision is not None
            assert received.decision.id == received.digest == name
            ids.add(received.decision.id)
    assert len(ids) == 2 * len(sent)


def test_command_reads_policy_file_and_sets_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, gate = tmp_path / "run.json", tmp_path / "policy.json"
    run.write_text(json.dumps(body()) + "\n")
    for limit, code in ((100.0, 0), (0.001, 1)):
        gate.write_text(json.dumps(policy(rule(at_most=limit))))
        assert cli.main(["assess", str(run), "--policy", str(gate)]) == code
        received = capsys.readouterr().out
        alone = request(body(policy=policy(rule(at_most=limit))))
        assert json.loads(received)["decision"]["id"] == digest(ASSESSMENTS.name, ENGINE_VERSION, alone)
    assert cli.main(["assess", str(run), "--policy", str(gate), "--accept", "text/plain"]) == 1
    assert "gate: The limit is not kept." in capsys.readouterr().out
    assert cli.main(["assess", str(run), "--policy", str(tmp_path / "none.json")]) == cli.PROBLEM_EXIT_CODE
    assert "none.json" in capsys.readouterr().err
    run.write_text(json.dumps(body(policy=policy(rule(at_most=1.0)))))
    assert cli.main(["assess", str(run), "--policy", str(gate)]) == cli.PROBLEM_EXIT_CODE
    assert "Omit --policy" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["assess", str(run), "--policy", str(gate), "--policy", str(gate)])
    assert "use --policy only once" in capsys.readouterr().err


SIDES = ("at_most", "at_least")
PRIVATE: dict[str, Any] = {"type": "gdp", "mu": 0.0}
OPEN: dict[str, Any] = {"type": "approximate_dp", "epsilon": 0.0, "delta": 1.0}


def _number(mechanism: dict[str, Any], sent: dict[str, Any]) -> ReadNumber:
    asked = {"mechanism": mechanism, "questions": [sent["question"]]}
    answer = BOUNDS.function(BoundsRequest.model_validate_json(json.dumps(asked)), NAME, ENGINE_VERSION)
    assert isinstance(answer, dict)
    return ReadNumber.of(answer["answers"][0], sent.get("reads", "power"))


def _keeps(number: ReadNumber, sent: dict[str, Any], slack: float) -> bool:
    """Return whether a number may keep the limit of a rule, with the limit relaxed by the relative slack.

    `sent` is the rule as the request has it.
    """
    assert number.lower is not None
    assert number.upper is not None
    if "at_most" in sent:
        return number.lower <= sent["at_most"] * (1 + slack)
    return number.upper >= sent["at_least"] * (1 - slack)


def _drawn_limit(random: Generator) -> dict[str, Any]:
    question = request_space.question(random)
    if question["type"] == "trade_off":
        question["false_positive_rates"] = question["false_positive_rates"][:1]
    sent: dict[str, Any] = {"question": question}
    if question["type"] == "trade_off" and random.uniform() < 0.5:
        sent["reads"] = "type_two_error"
    side = SIDES[random.integers(2)]
    least, most = value_range(limited(sent | {side: 0.5}))
    least, most = min(least, 1e3), min(most, 1e3)
    inside = least + (most - least) * random.uniform()
    draws = (0.0, least, most, least / 2, most * 1.01, inside, random.uniform(1, 100), 1.0, inside)
    sent[side] = min(float(draws[random.integers(len(draws))]), 1e15)
    return sent


@pytest.mark.parametrize("seed", range(8))
def test_limit_is_accepted_iff_some_run_keeps_and_some_run_breaks_it(seed: int) -> None:
    random = np.random.default_rng([28, seed])
    taken = 0
    for _ in range(120):
        sent = _drawn_limit(random)
        private, revealing = _number(PRIVATE, sent), _number(OPEN, sent)
        try:
            PolicyRule.model_validate_json(json.dumps(sent))
        except ValidationError as refused:
            [error] = field_errors(refused)
            assert "every run" in error.detail, sent
            kept = [_keeps(number, sent, -1e-9) for number in (private, revealing)]
            broken = [not _keeps(number, sent, 1e-9) for number in (private, revealing)]
            assert not (any(kept) and any(broken)), sent
        else:
            taken += 1
            assert any(_keeps(number, sent, 1e-9) for number in (private, revealing)), sent
            assert any(not _keeps(number, sent, -1e-13) for number in (private, revealing)), sent
    assert 10 < taken < 110


@pytest.mark.parametrize("percent", [1.0, 2.5, 5.0, 50.0, 99.0])
@pytest.mark.parametrize(
    "question",
    [
        {"type": "trade_off", "false_positive_rates": [1e-3]},
        {"type": "delta", "epsilon": 1.0},
        {"type": "advantage"},
        {"type": "reconstruction", "baseline_success": 1e-3},
        {"type": "positive_predictive_value", "prior": 0.005},
    ],
)
def test_percentage_is_rejected_with_suggested_share(question: dict[str, Any], percent: float) -> None:
    sent = body(policy=policy({"question": question, "at_most": percent}))
    with pytest.raises(ValidationError) as refused:
        request(sent)
    [error] = field_errors(refused.value)
    assert error.pointer == "/policy/rules/0/at_most"
    assert f"Did you mean {percent / 100:.12g}?" in error.detail


def test_mu_over_empty_range_meets_no_limit() -> None:
    random = np.random.default_rng(3)
    for _ in range(12):
        stated = {"type": "approximate_dp", "epsilon": 0.0, "delta": 1.0 - float(10 ** random.uniform(-16, -9.1))}
        received = assess(body(stated, policy=policy({"question": {"type": "gdp_mu"}, "at_most": 5.0})))
        assert received.verdict == "violated", stated
