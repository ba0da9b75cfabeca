"""Chart specs: valid Vega-Lite, the numbers of the response, and no active content."""

from __future__ import annotations

import json
import math
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from api_schemas.assessments import AssessmentsResponse
from api_schemas.bounds import BoundsRequest
from api_schemas.curves import CurvesRequest
from api_schemas.sweeps import SweepsResponse
from service.command.in_process import evaluate, render
from service.engine_version import ENGINE_VERSION
from service.rendering.chart_catalogue import RATES
from service.rendering.charts.style import COLOURS, CONFIG, SCHEMA, VEGA_LITE, series_encoding
from service.resources.assessments import attackers
from service.resources.bounds import BOUNDS
from service.resources.catalogue import resource
from service.resources.curves import CURVES
from service.resources.digest import digest
from tests.rendering.chart_cases import CASES, DEAR, GAUSSIAN, HOSTILE, NAME, REQUESTS, charts, nodes, response, spec
from tests.slow_marker import thorough

BESIDE = {"usermeta"}


def schema_of_vega_lite() -> dict[str, Any]:
    """Return the Vega-Lite 5 schema in the Altair package, without importing the package."""
    found = find_spec("altair")
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).parent / "vegalite" / "v5" / "schema" / "vega-lite-schema.json"
    schema: dict[str, Any] = json.loads(path.read_text("utf-8"))
    for each in nodes(schema):  # Its names contain characters that a reference has to escape.
        if isinstance(each, dict) and isinstance(each.get("$ref"), str):
            each["$ref"] = "#" + quote(each["$ref"].removeprefix("#"))
    return schema


VALID = jsonschema_rs.validator_for(schema_of_vega_lite())


@pytest.mark.parametrize(("name", "case"), CASES)
def test_every_chart_is_valid_vega_lite(name: str, case: str) -> None:
    whole = spec(name, case)
    VALID.validate(whole)
    assert whole["$schema"] == SCHEMA
    for part in whole.get("vconcat", []):  # Each part of several is complete by itself.
        VALID.validate({"$schema": SCHEMA, **part, "config": whole["config"], "params": whole.get("params", [])})


@pytest.mark.parametrize(("name", "case"), CASES)
def test_charts_load_nothing_and_have_descriptions(name: str, case: str) -> None:
    whole = spec(name, case)
    for each in nodes(whole):
        if isinstance(each, dict):
            assert not {"url", "href", "image"} & each.keys()
        if isinstance(each, str) and each not in (HOSTILE, SCHEMA):
            assert "://" not in each
        if isinstance(each, float):
            assert math.isfinite(each)
    assert whole["usermeta"]["digests"][0] == response(name, case).digest
    for part in charts(name, case).values():
        assert part["title"]["text"]
        assert part["description"].endswith(".")


@pytest.mark.parametrize(("name", "case"), CASES)
def test_client_texts_are_data_and_never_expressions(name: str, case: str) -> None:
    for each in nodes(spec(name, case)):
        if isinstance(each, dict):
            for key in ("filter", "calculate", "expr", "test", "labelExpr"):
                assert NAME not in str(each.get(key))
                assert HOSTILE not in str(each.get(key))


def test_curve_chart_has_numbers_of_the_response() -> None:
    received: Any = response("curves", "attackers")
    drawn = charts("curves", "attackers")["roc"]["data"]["values"]
    names = list(dict.fromkeys(row["series"] for row in drawn))
    assert len(names) == len(received.curves) == 3
    for name, curve in zip(names, received.curves, strict=True):
        rows = [row for row in drawn if row["series"] == name]
        ends = zip(
            received.false_positive_rates, *(curve.power[end] for end in ("value", "lower", "upper")), strict=True
        )
        expected = [each for each in ends if each[0] > 0 and each[1] > 0]
        keys = ("false_positive_rate", "power", "lower", "upper")
        assert [tuple(row[key] for key in keys) for row in rows] == expected
        assert len(rows) == 5  # A rate of zero has no position on a log axis.


def test_excluded_region_lies_above_worst_case_curves() -> None:
    received: Any = response("curves", "methods")
    region = charts("curves", "methods")["roc"]["layer"][0]["data"]["values"]
    proved = [curve for curve in received.curves if curve.power["upper"] is not None]
    assert len(proved) == 2
    for row in region:
        place = received.false_positive_rates.index(row["false_positive_rate"])
        assert row["at_most"] == max(curve.power["upper"][place] for curve in proved)
    names = {row["series"] for row in charts("curves", "methods")["roc"]["data"]["values"]}
    assert sum("approximation" in name for name in names) == 2


def test_no_attacker_curve_enters_excluded_region() -> None:
    roc = charts("assessments", "everybody")["roc"]
    region = {row["false_positive_rate"]: row["at_most"] for row in roc["layer"][0]["data"]["values"]}
    rows = roc["data"]["values"]
    names = {row["series"] for row in rows}
    assert names == {
        "Worst case, a record added or removed",
        "GLRT, direction unknown",
        "Worst case, a record replaced",
        "Practical (PMP)",
    }
    assert all(row["lower"] <= region[row["false_positive_rate"]] for row in rows)


@pytest.mark.parametrize(("case", "most"), [("attackers", 1), thorough(DEAR, attackers.LARGEST_COST)])
def test_curve_is_drawn_although_other_answers_are_too_expensive(
    monkeypatch: pytest.MonkeyPatch, case: str, most: int
) -> None:
    monkeypatch.setattr(attackers, "LARGEST_COST", most)
    body = evaluate(resource("assessments"), json.dumps(REQUESTS["assessments"][case]).encode(), "")
    assert isinstance(body, bytes)
    received = AssessmentsResponse.model_validate_json(body)
    assert [each.threat_model for each in received.not_applicable if "estimated" in each.reason] == ["glrt"]
    drawn = json.loads(render(resource("assessments"), body, VEGA_LITE))["vconcat"]
    rows = next(each for each in drawn if each["name"] == "roc")["data"]["values"]
    lower, upper = (
        {row["false_positive_rate"]: row[end] for row in rows if row["series"].startswith(name)}
        for name, end in (("GLRT", "lower"), ("Worst case", "upper"))
    )
    assert len(lower) == len(upper) > 60
    assert all(lower[rate] <= upper[rate] for rate in lower)


def test_approximation_has_no_band_and_no_excluded_region() -> None:
    received = CURVES.response(
        CurvesRequest.model_validate_json(
            json.dumps({"mechanism": REQUESTS["curves"]["methods"]["mechanism"], "methods": ["clt"]})
        ),
        "sha256:" + "0" * 64,
        ENGINE_VERSION,
    )
    from service.rendering.chart_catalogue import CHART_SOURCES

    (roc,) = CHART_SOURCES["curves"].charts(received, [])
    assert {row["upper"] for row in roc["data"]["values"]} == {None}
    assert "Shaded" not in str(roc["title"])
    assert not any("at_most" in str(layer) for layer in roc["layer"])


def test_charts_of_assessment_equal_those_of_public_requests() -> None:
    received: Any = response("assessments", "usual")
    drawn = charts("assessments", "usual")
    assert list(drawn) == ["roc", "reconstruction", "profile", "widths"]
    asked = CurvesRequest(mechanism=received.mechanism, false_positive_rates=RATES)
    name = digest("curves", ENGINE_VERSION, asked)
    assert name in spec("assessments", "usual")["usermeta"]["digests"]
    curve = CURVES.response(asked, name, ENGINE_VERSION).curves[0]
    rows = drawn["roc"]["data"]["values"]
    assert [row["power"] for row in rows] == curve.power["value"]
    tight = [row for row in drawn["reconstruction"]["data"]["values"] if row["series"].startswith("From the whole")]
    assert [row["gamma"] for row in tight] == curve.power["value"]


def test_reconstruction_chart_matches_its_question() -> None:
    received: Any = response("assessments", "usual")
    rows = charts("assessments", "usual")["reconstruction"]["data"]["values"]
    some = {row["baseline_success"]: row for row in rows if row["series"].startswith("From the whole")}
    kappas = (1e-6, 1e-3, 0.25)
    asked = {
        "mechanism": received.mechanism.model_dump(),
        "questions": [{"type": "reconstruction", "baseline_success": kappa} for kappa in kappas],
    }
    request = BoundsRequest.model_validate_json(json.dumps(asked))
    answers: Any = BOUNDS.response(request, "sha256:" + "0" * 64, ENGINE_VERSION).answers
    for kappa, found in zip(kappas, answers, strict=True):
        row = some[kappa]
        assert max(row["lower"], found.lower) <= min(row["upper"], found.upper)
        assert row["gamma"] == pytest.approx(found.value, rel=1e-9)


def test_stated_pair_lies_on_profile_chart() -> None:
    received: Any = response("assessments", "usual")
    profile = charts("assessments", "usual")["profile"]
    point = profile["layer"][-2]["data"]["values"][0]
    assert (point["epsilon"], point["delta"]) == (received.threat_models[0].answers[0].upper, 1e-5)
    run = [row for row in profile["data"]["values"] if row["series"] == "The run"]
    here = point["epsilon"] * (1 - 1e-12)  # A chart prints fewer digits.
    below = max(row["delta"] for row in run if row["epsilon"] >= here)
    above = min(row["delta"] for row in run if row["epsilon"] < here)
    assert below <= 1e-5 * (1 + 1e-9)
    assert above > 1e-5
    series = {row["series"] for row in profile["data"]["values"]}
    assert len(series) == 2  # The Gaussian curve in the same chart.


@pytest.mark.parametrize("case", [thorough(case) if case == DEAR else case for case in REQUESTS["assessments"]])
def test_unbounded_run_has_no_curve(case: str) -> None:
    received: Any = response("assessments", case)
    drawn = charts("assessments", case)
    assert received.summary.bounded == (case not in ("refuted", "unproved"))
    assert (list(drawn) == ["unproved"]) == (not received.summary.bounded)
    if not received.summary.bounded:
        whole = spec("assessments", case)
        assert not any(isinstance(each, float) for each in nodes(whole["layer"]))
        assert not re.search("at most|at least|no attacker|differentially private", json.dumps(whole).lower())


def test_charts_show_run_changed_by_hazards() -> None:
    received: Any = response("assessments", "changed")
    assert received.judged_as is not None
    asked = CurvesRequest(mechanism=received.judged_as.mechanism, false_positive_rates=RATES)
    assert digest("curves", ENGINE_VERSION, asked) in spec("assessments", "changed")["usermeta"]["digests"]
    drawn = charts("assessments", "changed")
    assert drawn["profile"]["layer"][-2]["data"]["values"][0]["epsilon"] == received.threat_models[0].answers[0].upper
    for name in ("roc", "reconstruction", "profile"):
        assert received.judged_as.text in " ".join(drawn[name]["title"]["subtitle"])


def test_current_run_is_marked_only_within_axis_range() -> None:
    for own, marked in ((1.0, True), (0.8, True), (2.0, True), (0.5, False), (3.0, False)):
        composed = {"type": "composed", "mechanisms": [GAUSSIAN, {**GAUSSIAN, "noise_multiplier": own}]}
        body = {
            "mechanism": composed,
            "vary": {"/mechanism/mechanisms/1/noise_multiplier": {"values": [0.8, 1.3, 2.0]}},
            "questions": [{"type": "advantage"}],
        }
        written = evaluate(resource("sweeps"), json.dumps(body).encode(), "")
        assert isinstance(written, bytes)
        found = json.loads(render(resource("sweeps"), written, VEGA_LITE))
        params = {each["name"]: each["value"] for each in found["params"]}
        assert params["own"] == (own if marked else None)


def test_charts_without_data_are_omitted() -> None:
    assert "profile" not in charts("assessments", "no_epsilon")
    assert "roc" in charts("assessments", "no_epsilon")
    assert list(charts("curves", "no_rate_to_draw")) == ["roc"]


def test_sweep_chart_has_numbers_of_the_response() -> None:
    received = response("sweeps", "two_places")
    assert isinstance(received, SweepsResponse)
    drawn = charts("sweeps", "two_places")
    assert len(drawn) == len(received.answers)
    for place, answer in enumerate(received.answers):
        rows = drawn[f"sweep_{place}"]["data"]["values"]
        noise, steps = received.columns["/mechanism/noise_multiplier"], received.columns["/mechanism/steps"]
        expected = {
            (f"steps {step}", x): (value, lower, upper)
            for x, step, value, lower, upper in zip(noise, steps, answer.value, answer.lower, answer.upper, strict=True)
        }
        assert {(row["series"], row["x"]): (row["value"], row["lower"], row["upper"]) for row in rows} == expected


def test_points_without_answer_are_counted_and_not_drawn() -> None:
    drawn = charts("sweeps", "with_problems")
    assert "3 points have no finite answer." in drawn["sweep_0"]["title"]["subtitle"]
    assert drawn["sweep_0"]["data"]["values"] == []
    assert [row["x"] for row in drawn["sweep_1"]["data"]["values"]] == [0.5, 1.0]


def test_target_is_null_by_default_and_run_is_marked() -> None:
    params = spec("sweeps", "two_places")["params"]
    names = {each["name"]: each["value"] for each in params}
    received: Any = response("sweeps", "two_places")
    assert names == {
        **{f"target_{place}": None for place in range(len(received.answers))},
        "calibrated": None,
        "own": 1.0,
    }


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.2, a ratio of relative luminances."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", ["#ffffff", "#16181c"])
@pytest.mark.parametrize("colour", COLOURS)
def test_colours_have_contrast_on_light_and_dark_background(colour: str, ground: str) -> None:
    assert contrast(colour, ground) >= 3


def test_background_is_transparent_and_sixteen_lines_are_distinguishable() -> None:
    assert CONFIG["background"] == "transparent"
    drawn = series_encoding([str(place) for place in range(16)], "roc")
    looks = zip(drawn["color"]["scale"]["range"], map(tuple, drawn["strokeDash"]["scale"]["range"]), strict=True)
    assert len(set(looks)) == 16
