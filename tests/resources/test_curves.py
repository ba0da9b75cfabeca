"""Curves: columns that agree with bounds, grids, certified comparisons, errors with pointers."""

from __future__ import annotations

import importlib
import json
import math
from itertools import pairwise
from typing import Any, cast

import jsonschema_rs
import pytest

from api_schemas.answers import TradeOffAnswer
from api_schemas.bounds import BoundsRequest
from api_schemas.curves import CurvesRequest, CurvesResponse
from service.privacy.errors import NumericalFailure, UnsupportedCombination
from service.resources.allowance import SURELY_TOO_LONG
from service.resources.bounds import BOUNDS
from service.resources.curves import CURVES
from tests.resources.fakes import FakeEngines, engines

__all__ = ["engines"]

DIGEST = "sha256:" + "0123456789abcdef" * 4
SCHEMA = jsonschema_rs.validator_for(CurvesResponse.model_json_schema(mode="serialization"))
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.0}
SAMPLED = {"type": "poisson_sampled", "sample_rate": 0.5, "mechanism": GAUSSIAN}
SAMPLED_LAPLACE = {**SAMPLED, "mechanism": {"type": "laplace", "noise_multiplier": 1.0}}
RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
REPLACED = {"type": "worst_case", "neighboring_relation": "replace_one"}
WORST = {"type": "worst_case"}
RATES = [0.3, 0.0, 1e-300, 1.0, 1e-9, 0.3]
NEAR_RATES = [0.3, 0.0, 1e-9, 1.0, 0.3]


def request(mechanism: dict[str, Any], **more: Any) -> CurvesRequest:
    return CurvesRequest.model_validate_json(json.dumps({"mechanism": mechanism, **more}))


def compute(mechanism: dict[str, Any], **more: Any) -> CurvesResponse:
    """Return the response after a check of its bytes: they fit the schema, and parsing loses nothing."""
    written = CURVES.body(request(mechanism, **more), DIGEST, "2026.01.01")
    body = json.loads(written)
    assert SCHEMA.is_valid(body), next(iter(SCHEMA.iter_errors(body))).message
    response = CurvesResponse.model_validate_json(written)
    assert response.json_bytes() == written
    return response


@pytest.mark.parametrize("mechanism", [GAUSSIAN, SAMPLED, RUN], ids=lambda spec: spec["type"])
@pytest.mark.parametrize("direction", ["add", "remove", "both"])
def test_columns_equal_numbers_of_bounds(mechanism: dict[str, Any], direction: str) -> None:
    rates = NEAR_RATES if mechanism is RUN else RATES  # Contours for rates so far out are expensive.
    question = {"type": "trade_off", "false_positive_rates": rates, "direction": direction}
    sent = json.dumps({"mechanism": mechanism, "questions": [question]})
    [answer] = BOUNDS.response(BoundsRequest.model_validate_json(sent), DIGEST, "2026.01.01").answers
    assert isinstance(answer, TradeOffAnswer)
    response = compute(mechanism, false_positive_rates=rates, directions=[direction])
    assert list(response.false_positive_rates) == rates
    [curve] = response.curves
    for place, point in enumerate(answer.points):
        for column, number in ((curve.type_two_error, point["type_two_error"]), (curve.power, point["power"])):
            columns = cast("dict[str, list[float | None]]", column)
            assert {name: values[place] for name, values in columns.items() if values[place] is not None} == number
    for field in ("evidence", "tight", "conditional", "method", "tolerance_met", "source", "notes"):
        assert getattr(curve, field) == getattr(answer, field)


def test_curves_are_ordered_by_threat_model_method_and_direction() -> None:
    response = compute(
        GAUSSIAN, threat_models=[WORST, REPLACED], methods=["auto", "contour"], directions=["remove", "both"]
    )
    order = [
        (curve.threat_model.model_dump()["neighboring_relation"], curve.requested_method, curve.method, curve.direction)
        for curve in response.curves
    ]
    assert order == [
        (relation, asked, used, direction)
        for relation in ("add_or_remove_one", "replace_one")
        for asked, used in (("auto", "closed_form"), ("contour", "contour"))
        for direction in ("remove", "both")
    ]
    pairs = [(comparison.first, comparison.second) for comparison in response.comparisons]
    assert pairs == [(first, second) for first in range(8) for second in range(first + 1, 8)]


def test_grid_has_equal_ratios_and_both_endpoints() -> None:
    rates = compute(GAUSSIAN, grid={"count": 13, "smallest": 1e-12, "largest": 1.0}).false_positive_rates
    assert (rates[0], rates[-1], len(rates)) == (1e-12, 1.0, 13)
    assert [right / left for left, right in pairwise(rates)] == pytest.approx([10.0] * 12)
    default = compute(GAUSSIAN).false_positive_rates
    assert (default[0], default[-1], len(default)) == (1e-12, 0.5, 200)


def test_mirrored_grid_has_each_complement_once() -> None:
    grid = {"count": 5, "smallest": 2.0**-9, "largest": 0.5, "spacing": "log_mirrored"}
    rates = compute(GAUSSIAN, grid=grid).false_positive_rates
    assert rates == pytest.approx([2**-9, 2**-7, 2**-5, 2**-3, 0.5, 7 / 8, 31 / 32, 127 / 128, 511 / 512])
    deep = compute(GAUSSIAN, grid={**grid, "smallest": 1e-300}).false_positive_rates
    assert deep[-1] == 1.0
    assert sorted(set(deep)) == list(deep)


def test_less_noise_is_easier_to_attack() -> None:
    [comparison] = compute(GAUSSIAN, threat_models=[WORST, REPLACED]).comparisons
    assert (comparison.verdict, comparison.crossings, comparison.undecided_rates) == ("first_is_harder", (), 0)
    assert comparison.evidence == "exact"
    [comparison] = compute(GAUSSIAN, threat_models=[REPLACED, WORST]).comparisons
    assert comparison.verdict == "second_is_harder"


def test_directions_of_symmetric_mechanism_are_equal() -> None:
    comparisons = compute(GAUSSIAN, directions=["add", "remove", "both"]).comparisons
    assert {comparison.verdict for comparison in comparisons} == {"equal"}
    trivial = compute({"type": "gdp", "mu": 0.0}, methods=["auto", "closed_form"], false_positive_rates=[0.0, 1.0])
    assert trivial.comparisons[0].verdict == "equal"


@pytest.mark.parametrize("mechanism", [SAMPLED, RUN], ids=lambda spec: spec["type"])
def test_directions_of_sampled_mechanism_cross_on_diagonal(mechanism: dict[str, Any]) -> None:
    """The curves of add and remove cross at the rate that equals its own type II error.

    They are inverse functions.
    """
    grid = {"count": 40, "smallest": 1e-6, "largest": 0.5, "spacing": "log_mirrored"}
    response = compute(mechanism, grid=grid, directions=["add", "remove"])
    [comparison] = response.comparisons
    assert comparison.verdict == "crossing"
    [crossing] = comparison.crossings
    error = dict(zip(response.false_positive_rates, response.curves[0].type_two_error["value"], strict=True))
    assert crossing["start"] < error[crossing["start"]]
    assert crossing["end"] > error[crossing["end"]]


def test_two_engines_of_one_curve_are_undecided() -> None:
    [comparison] = compute(GAUSSIAN, methods=["closed_form", "contour"]).comparisons
    assert comparison.verdict == "undecided"
    assert comparison.undecided_rates > 0
    assert comparison.evidence == "certified"


def test_approximations_are_compared_by_value_with_note(engines: FakeEngines) -> None:
    # clt stands for mu = 1/2; the mechanism has mu = 1.
    response = compute(GAUSSIAN, methods=["clt", "auto", "monte_carlo"])
    approximate, exact, sampled = response.curves
    assert (approximate.power["lower"], approximate.type_two_error["upper"]) == (None, None)
    assert len(approximate.power["value"]) == 200
    assert not approximate.tolerance_met
    assert exact.power["lower"] is not None
    assert sampled.evidence == "statistical"
    first, second, third = response.comparisons
    assert (first.verdict, first.evidence) == ("first_is_harder", "asymptotic")
    assert (second.verdict, second.evidence) == ("first_is_harder", "asymptotic")
    assert (third.verdict, third.evidence) == ("undecided", "statistical")


def test_small_approximations_have_logarithms_and_no_bounds(engines: FakeEngines) -> None:
    [curve] = compute(GAUSSIAN, methods=["clt"], false_positive_rates=[1e-300, 0.5]).curves
    assert set(curve.power) == {"value", "lower", "upper", "value_log10"}
    assert "value_log10" in curve.power
    small, plain = curve.power["value_log10"]
    assert small == pytest.approx(math.log10(curve.power["value"][0]))
    assert plain is None


def test_options_reach_the_engines(engines: FakeEngines) -> None:
    compute(GAUSSIAN, methods=["clt", "monte_carlo", "edgeworth"], seed=7, order=1, rtol=1e-3)
    assert (engines.asked["monte_carlo"].seed, engines.asked["edgeworth"].order) == (7, 1)
    assert engines.asked["clt"].relative_tolerance == 1e-3


@pytest.mark.parametrize(
    ("mechanism", "more", "pointer"),
    [
        (RUN, {"methods": ["auto", "closed_form"]}, "/methods/1"),
        (SAMPLED_LAPLACE, {"threat_models": [WORST, REPLACED]}, "/threat_models/1"),
        ({"type": "poisson_sampled", "q": 0.1, "event": {"type": "gdp", "mu": 1.0}}, {}, "/mechanism"),
    ],
)
def test_unsupported_combination_has_pointer(mechanism: dict[str, Any], more: dict[str, Any], pointer: str) -> None:
    with pytest.raises(UnsupportedCombination) as caught:
        compute(mechanism, **more)
    assert caught.value.pointer == pointer


def test_failure_of_requested_engine_raises(engines: FakeEngines) -> None:
    with pytest.raises(NumericalFailure):
        compute(GAUSSIAN, methods=["auto", "discretised"])


def test_response_has_digest_hazards_and_assumptions() -> None:
    response = compute(RUN)
    assert response.digest == DIGEST
    assert {hazard.code for hazard in response.hazards} >= {"poisson_sampling_assumed"}
    assert response.assumptions


def test_cost_counts_curves_and_points() -> None:
    def cost(**more: Any) -> int:
        return CURVES.quote(request(RUN, **more)).cost

    few, many = {"grid": {"count": 100}}, {"grid": {"count": 10_000}}
    assert cost(**few) < cost(**few, directions=["add", "remove"]) < cost(**few, directions=["both"])
    assert cost(**few) < cost(**many)
    assert cost(**few, methods=["auto", "contour"]) > 1.9 * cost(**few)
    assert CURVES.quote(request(RUN, **many, methods=["ground_truth"])).minimum > SURELY_TOO_LONG
    assert cost(**few, threat_models=[WORST] * 8, methods=["auto"] * 8) > 60 * cost(**few)


def test_functions_can_be_imported_by_name() -> None:
    for function in (CURVES.function, CURVES.quote):
        assert getattr(importlib.import_module(function.__module__), function.__name__) is function
