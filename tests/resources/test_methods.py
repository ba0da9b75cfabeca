"""Engines by name: the numbers of an answer, the entries of `all`, and the effect of evidence on bounds."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, NoReturn

import jsonschema_rs
import pytest

from api_schemas.answers import GdpMuAnswer, MethodPoints, TradeOffAnswer
from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.enclosures import Enclosed
from service.privacy.composition.planning import engines as composition_engines
from service.privacy.composition.planning.options import DEFAULT_OPTIONS
from service.privacy.errors import NumericalFailure, UnsupportedCombination
from service.resources.bounds import BOUNDS
from service.resources.violations import collect_violations
from tests.privacy.cases import laplace, sampled
from tests.resources.fakes import NOTE, REASON, FakeEngines, engines

__all__ = ["engines"]

DIGEST = "sha256:" + "0123456789abcdef" * 4
SCHEMA = jsonschema_rs.validator_for(BoundsResponse.model_json_schema(mode="serialization"))
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.0}
RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
POINTS = {"type": "trade_off", "false_positive_rates": [0.0, 1e-300, 0.1, 1.0]}
DELTA = {"type": "delta", "epsilon": 1.0}
NUMBERS: list[dict[str, Any]] = [
    DELTA,
    {"type": "epsilon", "delta": 1e-5},
    {"type": "epsilon", "delta": 0.0},
    {"type": "advantage"},
    {"type": "reconstruction", "candidates": 10},
    {"type": "attack_accuracy", "prior": 0.3},
    {"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 0.1, "side": "at_least"},
    {"type": "negative_predictive_value", "prior": 0.3},
    {"type": "advantage_over_prior", "prior": 0.3},
    {"type": "deletion_capacity", "prior": 0.3, "confidence": 0.9},
    {"type": "gdp_mu"},
]


def request(*questions: dict[str, Any], mechanism: dict[str, Any] = GAUSSIAN, **more: Any) -> BoundsRequest:
    return BoundsRequest.model_validate_json(json.dumps({"mechanism": mechanism, "questions": questions, **more}))


def compute(*questions: dict[str, Any], **more: Any) -> BoundsResponse:
    """Return the response after a check of its bytes: they fit the schema, and parsing loses nothing."""
    written = BOUNDS.body(request(*questions, **more), DIGEST, "2026.01.01")
    body = json.loads(written)
    assert SCHEMA.is_valid(body), next(iter(SCHEMA.iter_errors(body))).message
    response = BoundsResponse.model_validate_json(written)
    assert response.json_bytes() == written
    return response


def one(question: dict[str, Any], **more: Any) -> Any:
    [answer] = compute(question, **more).answers
    return answer


@pytest.mark.parametrize("question", NUMBERS, ids=json.dumps)
def test_approximation_has_no_bounds(engines: FakeEngines, question: dict[str, Any]) -> None:
    approximate, exact = one(question, method="edgeworth"), one(question, relative_tolerance=1.0)
    assert (approximate.lower, approximate.upper, approximate.evidence) == (None, None, "asymptotic")
    assert not approximate.tolerance_met
    assert approximate.method == "edgeworth"
    # The stub approximates by the exact value: the mechanism is its own Gaussian.
    assert approximate.value == pytest.approx(exact.value, rel=1e-7)
    if isinstance(approximate, GdpMuAnswer):
        assert approximate.global_mu == {"value": 1.0, "lower": None, "upper": None}


def test_points_of_approximation_have_no_bounds(engines: FakeEngines) -> None:
    answer = one(POINTS, method="clt")
    assert isinstance(answer, TradeOffAnswer)
    for point in answer.points:
        for number in (point["type_two_error"], point["power"]):
            assert (number["lower"], number["upper"]) == (None, None)
    assert not answer.tolerance_met
    tiny = answer.points[1]["power"]
    assert set(tiny) == {"value", "lower", "upper", "value_log10"}
    assert "value_log10" in tiny
    assert -300 < tiny["value_log10"] < -290


def test_small_approximation_has_logarithm_and_no_bounds(engines: FakeEngines) -> None:
    answer = one({"type": "delta", "epsilon": 100.0}, method="edgeworth")
    assert isinstance(answer, Enclosed)
    assert answer.value_log10 is not None
    assert answer.value_log10 < -1000
    assert answer.lower_log10 is answer.upper_log10 is None


@pytest.mark.parametrize("question", [*NUMBERS, POINTS], ids=json.dumps)
def test_evidence_is_no_stronger_than_that_of_curve(engines: FakeEngines, question: dict[str, Any]) -> None:
    sampled = one(question, method="monte_carlo")
    assert sampled.evidence == "statistical"
    assert sampled.notes[-1] == NOTE
    if isinstance(sampled, Enclosed):
        assert sampled.lower is not None
        assert sampled.upper is not None


def test_answer_by_one_method_lists_no_others(engines: FakeEngines) -> None:
    for method in ("auto", "clt", "monte_carlo"):
        for question in (DELTA, POINTS, {"type": "gdp_mu"}):
            assert one(question, method=method).methods is None
    assert b'"methods"' not in BOUNDS.body(request(DELTA, POINTS), DIGEST, "2026.01.01")


@pytest.mark.parametrize("question", [*NUMBERS, POINTS], ids=json.dumps)
def test_method_all_returns_best_answer_and_every_engine(engines: FakeEngines, question: dict[str, Any]) -> None:
    answer, best = one(question, method="all"), one(question)
    assert answer.model_copy(update={"methods": None}) == best
    by_name = {entry.method: entry for entry in answer.methods}
    assert list(by_name) == ["closed_form", "contour", "discretised", "edgeworth", "clt", "monte_carlo"]
    for name in ("closed_form", "edgeworth", "clt", "monte_carlo"):
        alone = one(question, method=name).model_dump()
        entry = by_name[name].model_dump()
        assert entry == {field: alone[field] for field in entry}


def test_failed_engine_is_listed_with_reason(engines: FakeEngines) -> None:
    with collect_violations() as violations:
        number, points = compute(DELTA, POINTS, method="all").answers
    assert [str(violation) for violation in violations] == [REASON, REASON]
    assert number.methods is not None
    failed = next(entry for entry in number.methods if entry.method == "discretised")
    assert not isinstance(failed, MethodPoints)
    assert (failed.value, failed.lower, failed.upper, failed.evidence) == (None, None, None, None)
    assert REASON in failed.notes[0]
    assert points.methods is not None
    failed = next(entry for entry in points.methods if entry.method == "discretised")
    assert isinstance(failed, MethodPoints)
    assert (failed.points, failed.evidence) == ((), None)
    assert REASON in failed.notes[0]
    with pytest.raises(NumericalFailure):
        compute(DELTA, method="discretised")


def test_method_all_includes_ground_truth_if_digits_are_given(engines: FakeEngines) -> None:
    assert [entry.method for entry in one(DELTA, method="all", digits=30).methods][-1] == "ground_truth"
    assert engines.asked["ground_truth"].digits == 30
    engines.asked.clear()
    compute(DELTA, method="all")
    assert "ground_truth" not in engines.asked


def test_options_reach_the_engines(engines: FakeEngines) -> None:
    given = {"order": 2, "samples": 5_000, "seed": 2**63 - 1, "confidence": 0.75, "digits": 40}
    compute(DELTA, method="all", relative_tolerance=1e-5, **given)
    assert {
        dataclasses.asdict(asked) == {**given, "relative_tolerance": 1e-5, "long_lists": False}
        for asked in engines.asked.values()
    } == {True}
    compute(DELTA, method="monte_carlo")
    assert engines.asked["monte_carlo"] == DEFAULT_OPTIONS


def test_method_all_lists_every_engine_of_composed_run(engines: FakeEngines) -> None:
    answer = one(DELTA, method="all", mechanism=RUN)
    assert answer.method == "contour"
    assert next(entry.method for entry in answer.methods) == "contour"
    replaced = one(DELTA, method="all", threat_model={"type": "worst_case", "neighboring_relation": "replace_one"})
    by_name = {entry.method: entry for entry in replaced.methods}
    assert by_name["edgeworth"].value == pytest.approx(by_name["closed_form"].value)  # Engines receive the sensitivity.


def test_unexpected_error_of_engine_is_raised(engines: FakeEngines, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> NoReturn:
        raise ImportError("a module is missing")

    broken = dataclasses.replace(composition_engines.ENGINES["clt"], build=absent)
    monkeypatch.setitem(composition_engines.ENGINES, "clt", broken)
    with pytest.raises(ImportError):
        compute(DELTA, method="all")


def test_run_without_engine_is_rejected_with_all_as_with_auto(engines: FakeEngines) -> None:
    relation = {"type": "worst_case", "neighboring_relation": "replace_one"}
    with pytest.raises(UnsupportedCombination) as caught:
        compute(DELTA, mechanism=sampled(0.1, laplace(1.0)), method="all", threat_model=relation)
    assert caught.value.pointer == "/threat_model"
    with pytest.raises(UnsupportedCombination) as caught:
        compute(DELTA, method="saddlepoint")
    assert caught.value.pointer == "/method"


def test_cost_of_all_is_sum_of_engines() -> None:
    def cost(method: str, **options: Any) -> int:
        return BOUNDS.quote(request(DELTA, mechanism=RUN, method=method, **options)).cost

    with pytest.raises(UnsupportedCombination):
        cost("closed_form")
    parts = ("auto", "contour", "discretised", "saddlepoint", "edgeworth", "clt", "monte_carlo")
    assert cost("all") == pytest.approx(sum(map(cost, parts)), abs=len(parts))
    assert cost("all", digits=25) == pytest.approx(cost("all") + cost("ground_truth"), abs=1)
    assert cost("clt") < cost("ground_truth") < cost("ground_truth", digits=50)
    assert cost("monte_carlo", samples=10_000_000) > 2 * cost("monte_carlo", samples=100_000)
    assert math.isfinite(cost("ground_truth", digits=50))
