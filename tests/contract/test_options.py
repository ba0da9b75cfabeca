"""Options of methods: ranges, applicability, and equal names and defaults in the schemas and the core."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.choices import ComparedMethod, Engine, EvidenceName, Method, MethodUsed
from api_schemas.curves import CurveComparison, CurvesRequest
from api_schemas.fields import shape_of, shape_of_field
from api_schemas.options import OPTIONS
from api_schemas.problems import field_errors
from service.privacy.composition.planning.choose import METHODS
from service.privacy.composition.planning.options import DEFAULT_OPTIONS
from service.privacy.enclosure import Evidence
from service.privacy.questions.dominance import Verdict

BOUNDS: dict[str, Any] = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [{"type": "advantage"}]}
RANGES: list[tuple[str, str, list[Any], list[Any]]] = [
    ("order", "edgeworth", [0, 4], [-1, 5, 9, 1.5, "4", True]),
    ("samples", "monte_carlo", [1_000, 10_000_000], [999, 10_000_001, 10**12, 1e5]),
    ("seed", "monte_carlo", [0, 2**63 - 1], [-1, 2**63, 10**30, 0.5]),
    ("confidence", "monte_carlo", [0.5, 0.999999999], [0.4999999, 0.9999999999, 1, "0.9"]),
    ("digits", "ground_truth", [15, 50], [14, 51, 500, 20.0]),
]


def bounds(**more: Any) -> BoundsRequest:
    return BoundsRequest.model_validate_json(json.dumps(BOUNDS | more))


def errors(**more: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        bounds(**more)
    return [(error.pointer, error.detail) for error in field_errors(caught.value)]


def test_schemas_and_core_have_same_methods_evidence_and_verdicts() -> None:
    missing = "edit ENGINES in service/privacy/composition/planning/engines.py or EngineUsed in api_schemas/choices.py"
    assert shape_of(Engine).choices == METHODS, missing
    assert shape_of(MethodUsed).choices == METHODS[1:], missing
    assert shape_of(ComparedMethod).choices[: len(METHODS) - 1] == METHODS[1:], missing
    assert shape_of(Method).choices == (*METHODS, "all"), missing
    assert set(get_args(EvidenceName)) == set(Evidence)
    assert set(shape_of_field(CurveComparison.model_fields["verdict"]).choices) == set(Verdict)


def test_schemas_and_core_have_same_options_and_defaults() -> None:
    ours = dataclasses.asdict(DEFAULT_OPTIONS)
    assert not ours.pop("long_lists"), "requests do not set it: the core does, for selections"
    assert ours.pop("relative_tolerance") == BoundsRequest.model_fields["relative_tolerance"].default
    assert ours == {name: option.default for name, option in OPTIONS.items()}
    for model in (BoundsRequest, CurvesRequest):
        assert set(OPTIONS) <= set(model.model_fields)
        for name, option in OPTIONS.items():
            description = model.model_fields[name].description or ""
            assert f"for method {option.method}. " in description
            assert description.endswith(f"Default: {option.default}.")
    assert {option.method for option in OPTIONS.values()} <= set(METHODS)


@pytest.mark.parametrize(("name", "method", "accepted", "refused"), RANGES)
def test_option_ranges_are_enforced(name: str, method: str, accepted: list[Any], refused: list[Any]) -> None:
    for chosen in (method, "all"):
        for value in accepted:
            assert getattr(bounds(method=chosen, **{name: value}), name) == value
        for value in refused:
            [(pointer, detail)] = errors(method=chosen, **{name: value})
            assert pointer == f"/{name}"
            assert "in [" in detail


def test_every_option_has_row_of_ranges() -> None:
    assert [row[:2] for row in RANGES] == [(name, option.method) for name, option in OPTIONS.items()]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_option_is_rejected_for_other_methods(name: str, method: str) -> None:
    option = OPTIONS[name]
    if method == option.method:
        assert getattr(bounds(method=method, **{name: None}), name) == option.default
    else:
        expected = [(f"/{name}", f"Send this option only with the method {option.method} or all.")]
        assert errors(method=method, **{name: option.default}) == expected
        assert getattr(bounds(method=method), name) is None


def test_method_all_has_defaults_of_its_engines() -> None:
    held = bounds(method="all").model_dump()
    assert {name: held.get(name) for name in OPTIONS} == {
        "order": 4,
        "samples": 100_000,
        "seed": 0,
        "confidence": 0.999,
        "digits": None,
    }


def curves(**more: Any) -> CurvesRequest:
    return CurvesRequest.model_validate_json(json.dumps({"mechanism": BOUNDS["mechanism"], **more}))


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({"methods": []}, "/methods"),
        ({"methods": ["auto"] * 9}, "/methods"),
        ({"methods": ["auto", "all"]}, "/methods/1"),
        ({"methods": ["clt"], "order": 4}, "/order"),
        ({"threat_models": []}, "/threat_models"),
        ({"threat_models": [{"type": "nobody"}]}, "/threat_models/0/type"),
        ({"directions": []}, "/directions"),
        ({"directions": ["up"]}, "/directions/0"),
        ({"fpr": []}, "/fpr"),
        ({"fpr": [0.5, 1.5]}, "/fpr/1"),
        ({"fpr": [0.5] * 10_001}, "/fpr"),
        ({"fpr": [0.5], "grid": {}}, "/grid"),
        ({"grid": {"count": 1}}, "/grid/count"),
        ({"grid": {"count": 10_001}}, "/grid/count"),
        ({"grid": {"count": 5_001, "spacing": "log_mirrored"}}, "/grid/count"),
        ({"grid": {"smallest": 0.0}}, "/grid/smallest"),
        ({"grid": {"smallest": 9e-301}}, "/grid/smallest"),
        ({"grid": {"smallest": 0.5}}, "/grid/smallest"),
        ({"grid": {"largest": 1.0000001}}, "/grid/largest"),
        ({"grid": {"spacing": "linear"}}, "/grid/spacing"),
        ({"grid": {"number": 3}}, "/grid/number"),
        ({"methods": ["auto"] * 5, "grid": {"count": 8_001}}, ""),
        ({"methods": ["auto"] * 8, "threat_models": [{"type": "worst_case"}] * 8, "directions": ["add", "both"]}, ""),
        ({"relative_tolerance": 0}, "/relative_tolerance"),
        ({"questions": []}, "/questions"),
        ({"mechanism": {"type": "repeated", "steps": 10**12, "mechanism": {"type": "repeated", "steps": 10**12,
          "mechanism": BOUNDS["mechanism"]}}}, "/mechanism"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_bad_curves_are_rejected_with_pointer(sent: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        curves(**sent)
    [error] = field_errors(caught.value)
    assert error.pointer == pointer
    assert error.detail.endswith(".")


def test_largest_curves_are_accepted() -> None:
    assert curves(methods=["auto"] * 4, grid={"count": 10_000}).curve_count == 4
    assert curves(threat_models=[{"type": "worst_case"}] * 8, methods=["auto"] * 8).curve_count == 64
    assert (
        curves(grid={"count": 5_000, "spacing": "log_mirrored", "smallest": 1e-300, "largest": 1}).rate_count == 10_000
    )


def test_defaults_of_curves_are_filled_in() -> None:
    assert curves() == curves(
        threat_models=[{"type": "worst_case", "neighboring_relation": "add_or_remove_one"}],
        methods=["auto"],
        directions=["add"],
        grid={"count": 200, "smallest": 1e-12, "largest": 0.5, "spacing": "log"},
        rtol=1e-6,
    )
    assert curves(methods=["clt", "monte_carlo"]).seed == 0
    assert curves(methods=["clt", "monte_carlo"]).order is None
