"""Bounds that depend on a prior: practical attacker, subsampled data, unlearning guarantee, earlier bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from api_schemas.answers import GuaranteeAnswer, TradeOffAnswer
from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.curves import CurvesRequest
from api_schemas.enclosures import Enclosed
from api_schemas.problems import field_errors
from service.privacy.errors import UnsupportedCombination
from service.resources.bounds import BOUNDS
from tests.resources.enclosure_helpers import EnclosedAnswer
from tests.resources.fakes import FakeEngines, engines

__all__ = ["engines"]

DIGEST = "sha256:" + "0123456789abcdef" * 4
PURE = {"type": "pure_dp", "epsilon": 1.0}
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.0}
PRACTICAL = {"type": "practical", "epsilon_pmp": 0.5}
PPV = {"type": "positive_predictive_value", "prior": 0.5}
GUARANTEE = {"type": "unlearning_guarantee", "prior": 0.05, "confidence": 0.8}
EARLIER = ("yeom", "erlingsson", "sablayrolles", "jayaraman")


def request(*questions: dict[str, Any], mechanism: dict[str, Any] = PURE, **more: Any) -> BoundsRequest:
    return BoundsRequest.model_validate_json(json.dumps({"mechanism": mechanism, "questions": questions, **more}))


def compute(*questions: dict[str, Any], mechanism: dict[str, Any] = PURE, **more: Any) -> BoundsResponse:
    asked = request(*questions, mechanism=mechanism, **more)
    body = BOUNDS.body(asked, DIGEST, "2026.01.01")
    response = BOUNDS.response(asked, DIGEST, "2026.01.01")
    assert response.json_bytes() == body
    return response


def number(question: dict[str, Any], **more: Any) -> EnclosedAnswer:
    [answer] = compute(question, **more).answers
    assert isinstance(answer, Enclosed)
    return answer


# The practical attacker.


def test_practical_answer_is_conditional_and_accompanied_by_worst_case() -> None:
    response = compute({"type": "attack_accuracy", "prior": 0.5}, {"type": "advantage"}, threat_model=PRACTICAL)
    assert response.worst_case is not None
    assert json.loads(response.worst_case.threat_model.model_dump_json())["neighboring_relation"] == "replace_one"
    for relaxed, worst in zip(response.answers, response.worst_case.answers, strict=True):
        assert (relaxed.conditional, worst.conditional) == (True, False)
        assert not isinstance(relaxed, TradeOffAnswer)
        assert not isinstance(worst, TradeOffAnswer)
        assert relaxed.value < worst.value
        assert any("does not compose" in note for note in relaxed.notes)
    assert any("candidate" in assumption.text for assumption in response.assumptions)
    assert json.loads(response.threat_model.model_dump_json()) == {
        "type": "practical",
        "epsilon_pmp": 0.5,
        "delta": 0.0,
    }


@pytest.mark.parametrize(
    "mechanism",
    [
        PURE,
        GAUSSIAN,
        {"type": "poisson_sampled", "sample_rate": 0.5, "mechanism": GAUSSIAN},
        {"type": "poisson_sampled", "sample_rate": 1.0, "mechanism": GAUSSIAN},
        {"type": "repeated", "steps": 3, "mechanism": {"type": "dpsgd", "sigma": 1.0, "q": 0.1, "steps": 2}},
    ],
    ids=json.dumps,
)
def test_curves_are_accompanied_by_same_worst_case(mechanism: dict[str, Any]) -> None:
    beside = compute({"type": "trade_off", "fpr": [0.1]}, mechanism=mechanism, threat_model=PRACTICAL).worst_case
    assert beside is not None
    sent = {"mechanism": mechanism, "threat_models": [PRACTICAL]}
    drawn = CurvesRequest.model_validate_json(json.dumps(sent)).threat_models
    assert len(drawn) == 2
    assert drawn[1] == beside.threat_model


@pytest.mark.parametrize(
    "question",
    [
        {"type": "attack_accuracy", "prior": 0.4},
        {"type": "positive_predictive_value", "prior": 0.1, "false_positive_rate": 0.1},
        {"type": "negative_predictive_value", "prior": 0.9},
        {"type": "advantage_over_prior", "prior": 0.0},
        {"type": "unlearning_guarantee", "prior": 0.1, "confidence": 0.5},
        {"type": "deletion_capacity", "prior": 0.5, "confidence": 0.5},
    ],
    ids=lambda question: question["type"],
)
def test_questions_without_practical_attacker_are_rejected(question: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedCombination) as caught:
        compute({"type": "advantage"}, question, threat_model=PRACTICAL)
    assert caught.value.pointer == "/questions/1"
    assert caught.value.supported
    compute(question)


def test_practical_attacker_in_mixture_is_rejected() -> None:
    with pytest.raises(ValidationError) as caught:
        request(PPV, threat_model={"type": "mixture", "components": [{"weight": 1.0, "threat_model": PRACTICAL}]})
    [error] = field_errors(caught.value)
    assert error.pointer == "/threat_model/components/0/threat_model/type"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"epsilon_pmp": -1}, "epsilon_pmp"),
        ({"epsilon_pmp": 1e7}, "epsilon_pmp"),
        ({"delta": 1.5}, "delta"),
        ({"epsilon": 1}, "epsilon"),
    ],
)
def test_bad_parameters_of_practical_attacker_are_rejected(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        request(PPV, threat_model=PRACTICAL | change)
    assert [error.pointer for error in field_errors(caught.value)] == [f"/threat_model/{field}"]


# Subsampled data.

PRIOR_AWARE: list[dict[str, Any]] = [
    {"type": "attack_accuracy"},
    {"type": "attack_accuracy", "false_positive_rate": 0.01},
    {"type": "positive_predictive_value"},
    {"type": "positive_predictive_value", "side": "at_least"},
    {"type": "negative_predictive_value", "side": "at_least"},
    {"type": "advantage_over_prior"},
    {"type": "deletion_capacity", "confidence": 0.8},
    {"type": "unlearning_guarantee", "confidence": 0.8},
]


@pytest.mark.parametrize("question", PRIOR_AWARE, ids=str)
@pytest.mark.parametrize("prior", [0.05, 0.1, 0.2, 1.0])
def test_prior_is_capped_by_subsampling_rate(question: dict[str, Any], prior: float) -> None:
    [answer] = compute({**question, "prior": prior}, dataset_subsampling={"rate": 0.1}).answers
    [same] = compute({**question, "prior": min(prior, 0.1)}).answers
    assert not isinstance(answer, TradeOffAnswer)
    assert not isinstance(same, TradeOffAnswer)
    assert answer.question.model_dump()["prior"] == prior
    assert (answer.value, answer.lower, answer.upper) == (same.value, same.lower, same.upper)
    noted = [note for note in answer.notes if "dataset_subsampling" in note]
    assert bool(noted) == (prior > 0.1)


def test_subsampling_is_echoed_and_listed_as_assumption() -> None:
    response = compute(PPV, dataset_subsampling={"T": 0.25})
    written = json.loads(response.json_bytes())
    assert written["dataset_subsampling"] == {"rate": 0.25}
    assert any("independently" in assumption.text for assumption in response.assumptions)
    assert "dataset_subsampling" not in json.loads(compute(PPV).json_bytes())


def test_answers_at_prior_assume_independent_inclusion() -> None:
    """Answers at a prior have the note that records are included independently.

    If two records are included jointly, the probability at epsilon 1 is 0.881 instead of the bound 0.731.
    """

    def assumes_independence(*questions: dict[str, Any], **more: Any) -> bool:
        response = compute(*questions, **more)
        return any("together reveal each other" in assumption.text for assumption in response.assumptions)

    assert assumes_independence(PPV)
    assert assumes_independence({"type": "advantage"}, GUARANTEE)
    assert not assumes_independence({"type": "advantage"})
    assert not assumes_independence(PPV, threat_model=PRACTICAL)
    assert not assumes_independence(PPV, dataset_subsampling={"rate": 0.25})
    assert assumes_independence(PPV, dataset_subsampling={"rate": 0.75})


def test_largest_sampling_rate_attains_the_limit() -> None:
    """At the largest sampling rate T_max = a/(a + (1 - a) e^eps), an accusation is exactly as certain as allowed.

    a is the limit of the certainty.
    """
    rate = 0.1 / (0.1 + 0.9 * 2.718281828459045)
    answer = number(PPV | {"prior": 1.0}, dataset_subsampling={"rate": rate})
    assert answer.value == pytest.approx(0.1, rel=1e-14)


def test_subsampling_applies_to_worst_case_and_all_engines(engines: FakeEngines) -> None:
    response = compute(PPV, threat_model=PRACTICAL, dataset_subsampling={"rate": 0.75})
    assert response.worst_case is not None
    with pytest.raises(UnsupportedCombination):
        compute(PPV, threat_model=PRACTICAL, dataset_subsampling={"rate": 0.25})
    answer = number(PPV, mechanism=GAUSSIAN, method="all", dataset_subsampling={"rate": 0.25})
    plain = number(PPV | {"prior": 0.25}, mechanism=GAUSSIAN, method="all")
    assert answer.methods == plain.methods


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({"rate": -0.1}, "/dataset_subsampling/rate"),
        ({"rate": 1.1}, "/dataset_subsampling/rate"),
        ({}, "/dataset_subsampling/rate"),
        (0.5, "/dataset_subsampling"),
    ],
)
def test_subsampling_rate_out_of_range_is_rejected(sent: Any, pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        request(PPV, dataset_subsampling=sent)
    assert [error.pointer for error in field_errors(caught.value)] == [pointer]


def test_subsampling_without_prior_is_rejected() -> None:
    with pytest.raises(ValidationError) as caught:
        request({"type": "advantage"}, dataset_subsampling={"rate": 0.5})
    assert [error.pointer for error in field_errors(caught.value)] == ["/dataset_subsampling"]


# The guarantee.


@pytest.mark.parametrize(("confidence", "holds"), [(0.8, "yes"), (0.9, "no")])
def test_guarantee_states_whether_it_holds(confidence: float, holds: str) -> None:
    [answer] = compute(GUARANTEE | {"confidence": confidence}).answers
    assert isinstance(answer, GuaranteeAnswer)
    assert answer.holds == holds
    least = number({"type": "negative_predictive_value", "prior": 0.05, "side": "at_least"})
    assert (answer.value, answer.lower, answer.upper) == (least.value, least.lower, least.upper)
    assert answer.value == answer.lower


def test_approximate_guarantee_is_unknown(engines: FakeEngines) -> None:
    [answer] = compute(GUARANTEE, mechanism=GAUSSIAN, method="clt").answers
    assert isinstance(answer, GuaranteeAnswer)
    assert (answer.holds, answer.lower, answer.upper) == ("unknown", None, None)
    [answer] = compute(GUARANTEE, mechanism=GAUSSIAN, method="all").answers
    assert isinstance(answer, GuaranteeAnswer)
    assert answer.methods is not None
    assert "clt" in {entry.method for entry in answer.methods}


# Earlier bounds.


def earlier(question: dict[str, Any], **more: Any) -> dict[str, float]:
    answer = number(question, method="all", **more)
    assert answer.methods is not None
    found = {entry.method: entry for entry in answer.methods if entry.method in EARLIER}
    for entry in found.values():
        assert entry.value is not None
        assert entry.value == entry.upper
        assert answer.lower is not None
        assert entry.value >= answer.lower
        assert entry.lower is not None
        assert answer.upper is not None
        assert entry.lower <= answer.upper
        assert entry.evidence == "certified"
        assert "20" in entry.notes[0]
    return {name: entry.value or 0.0 for name, entry in found.items()}


LAPLACE = {"type": "laplace", "noise_multiplier": 0.5}
EXPONENTIAL = {"type": "exponential", "epsilon": 2.0}


@pytest.mark.parametrize("mechanism", [PURE | {"epsilon": 2.0}, LAPLACE, EXPONENTIAL], ids=lambda spec: spec["type"])
def test_mechanisms_of_known_epsilon_have_earlier_bounds(engines: FakeEngines, mechanism: dict[str, Any]) -> None:
    found = earlier({"type": "attack_accuracy", "prior": 0.5}, mechanism=mechanism)
    assert found == pytest.approx({"yeom": 1.0, "erlingsson": 0.932332358381694, "sablayrolles": 1.0}, abs=1e-12)
    found = earlier({"type": "positive_predictive_value", "prior": 0.1, "fpr": 0.01}, mechanism=mechanism)
    odds = 0.1 * 0.01 * 7.38905609893065
    assert found == pytest.approx({"sablayrolles": 0.6, "jayaraman": odds / (odds + 0.9 * 0.01)}, rel=1e-12)
    assert set(earlier({"type": "advantage"}, mechanism=mechanism)) == {"yeom", "erlingsson"}
    assert set(earlier({"type": "advantage_over_prior", "prior": 0.2}, mechanism=mechanism)) == {"sablayrolles"}


def test_stated_delta_has_only_applicable_earlier_bounds(engines: FakeEngines) -> None:
    stated = {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-5}
    assert set(earlier({"type": "attack_accuracy", "prior": 0.5}, mechanism=stated)) == {"erlingsson"}
    found = earlier({"type": "positive_predictive_value", "prior": 0.5, "fpr": 1e-5}, mechanism=stated)
    assert found == pytest.approx({"jayaraman": 0.78805844238291455493}, rel=1e-12)


def test_earlier_bounds_are_absent_where_not_applicable(engines: FakeEngines) -> None:
    accuracy = {"type": "attack_accuracy", "prior": 0.5}
    assert earlier(accuracy, mechanism=GAUSSIAN) == {}
    assert earlier({"type": "attack_accuracy", "prior": 0.3}) == {}
    assert earlier({"type": "positive_predictive_value", "prior": 0.3, "side": "at_least"}) == {}
    assert earlier({"type": "negative_predictive_value", "prior": 0.3}) == {}
    assert earlier({"type": "delta", "epsilon": 0.5}) == {}
    assert earlier(accuracy, threat_model=PRACTICAL) == {}
    assert number(accuracy).methods is None
