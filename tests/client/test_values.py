"""Answers as people see them: short texts, tables, rounding and comparisons on the safe side, and pictures."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any
from xml.etree import ElementTree as ET

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_schemas.bounds import BoundsResponse
from privacy_bounds import (
    Assessment,
    Bounds,
    Calibration,
    CheckedClaims,
    Curves,
    InvalidArgument,
    Local,
    Number,
    Picture,
    Power,
    RunComparison,
    Sweep,
)
from privacy_bounds.formatting import DOWN, UP, answer_line, formatted, html_table, rounded
from privacy_bounds.pictures import Origin
from tests.slow_marker import thorough

RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
CONTEXT = {"delta": 1e-5, "dataset_size": 48_000}
EPSILON = {"type": "epsilon", "delta": 1e-5}
POLICY = {
    "version": 1,
    "name": "ours",
    "rules": [{"question": EPSILON, "at_most": 1.0}, {"question": {"type": "advantage"}, "at_most": 0.01}],
}
QUESTIONS = [EPSILON, {"type": "trade_off", "false_positive_rates": [0.01, 0.1]}]
EXAMPLES: dict[str, Any] = json.loads((resources.files("api_schemas") / "response_examples.json").read_text("utf-8"))
LOCAL = Local()


def examples(model: Any) -> list[Any]:
    """Return every published example of a response that a model reads."""
    found: list[Any] = []

    def search(value: Any) -> None:
        if isinstance(value, dict):
            if {"digest", "answers", "mechanism", "worst_case", "method"} <= value.keys() and "points" not in value:
                found.append(model.model_validate_json(json.dumps(value)))
                return
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                search(each)

    search(EXAMPLES)
    return found


def number(value: float, lower: float | None, upper: float | None) -> Number:
    """Return an epsilon as the client's Number, with the given bounds."""
    known = LOCAL.epsilon({"type": "gaussian", "noise_multiplier": 2.0}, delta=1e-5)
    ends: dict[str, Any] = {"value": value, "lower": lower, "upper": upper}
    evidence = "asymptotic" if lower is None else "certified"
    return replace(known, **ends, answer=known.answer.model_copy(update={**ends, "evidence": evidence}))


def test_a_number_is_one_line_with_both_bounds() -> None:
    epsilon = LOCAL.epsilon(RUN, delta=1e-5)
    assert repr(epsilon) == str(epsilon) == f"{epsilon}" == "epsilon 1.8283 (certified, 1.82823666 to 1.82823667)"


def test_every_answer_has_a_line_of_at_most_100_characters() -> None:
    lines = [answer_line(answer) for response in examples(BoundsResponse) for answer in response.answers]
    assert lines
    tiny = LOCAL.delta({"type": "gaussian", "noise_multiplier": 0.02}, epsilon=5000.0)
    several = LOCAL.bounds(
        {"type": "gaussian", "noise_multiplier": 2.0},
        [
            {"type": "deletion_capacity", "prior": 0.5, "confidence": 0.01},
            {"type": "negative_predictive_value", "prior": 1e-7, "false_positive_rate": 1e-9},
            {"type": "advantage_over_prior", "prior": 1e-12},
            {"type": "gdp_mu"},
            {"type": "trade_off", "false_positive_rates": [1e-9 * (1 + place) for place in range(200)]},
        ],
        threat_model={"type": "glrt", "dimension": 123_456},
        relative_tolerance=1e-3,
    )
    lines += [repr(tiny), *map(repr, several)]
    assert max(map(len, lines)) <= 100, max(lines, key=len)
    assert not any("\n" in line for line in lines)


def test_a_number_below_the_range_of_doubles_is_a_power_of_ten() -> None:
    delta = LOCAL.delta({"type": "gaussian", "noise_multiplier": 2.0}, epsilon=30.0)
    parts = re.fullmatch(r"delta 10\^(\S+) \(\w+, 10\^(\S+) to 10\^(\S+)\)", repr(delta))
    assert parts
    value, lower, upper = map(float, parts.groups())
    log10 = delta.answer.value_log10  # type: ignore[union-attr]
    assert log10 is not None
    assert lower <= log10 <= value <= log10 + 0.1
    assert log10 <= upper < -290


@pytest.mark.parametrize("policy", [None, POLICY])
def test_an_assessment_is_at_most_15_lines_of_120_characters(policy: Any) -> None:
    long = CONTEXT | {"subject": {"name": "x" * 64, "version": "1" * 32}}
    for context in (CONTEXT, long):
        assessment = LOCAL.assess((1.0, 0.01, 1000), context, policy)
        lines = repr(assessment).splitlines()
        assert len(lines) <= 15
        assert max(map(len, lines)) <= 120
        assert str(assessment) == repr(assessment)
        assert "epsilon 1.8283 (certified, 1.82823666 to 1.82823667)" in repr(assessment)
        assert ("violated" in repr(assessment)) == (policy is not None)


def test_an_assessment_without_a_bound_shows_no_number() -> None:
    denied = [{"code": "sampling_is_poisson", "holds": "no", "by": "me", "when": "2026-11-23"}]
    assessment = LOCAL.assess(RUN, CONTEXT | {"attested": denied})
    assert not assessment.summary.bounded
    assert "1.8" not in repr(assessment)
    assert "<td>" not in assessment._repr_html_()


def test_every_text_is_at_most_15_lines_of_120_characters() -> None:
    many = LOCAL.sweep(RUN, {"/mechanism/noise_multiplier": {"from": 0.8, "to": 4.0, "count": 40}}, [EPSILON])
    runs: dict[str, Any] = {f"a run with a long name {place}": (1.0 + place, 0.01, 10) for place in range(12)}
    compared = LOCAL.compare(
        runs, [{"type": "trade_off", "false_positive_rates": [0.01 * rate for rate in range(1, 30)]}]
    )
    bounds = LOCAL.bounds(RUN, [{"type": "epsilon", "delta": 10.0**-place} for place in range(2, 40)])
    claims = LOCAL.check(RUN, [{"question": EPSILON, "value": 1.0 + place} for place in range(20)])
    for value in (many, compared, bounds, claims, LOCAL.curves(RUN)):
        lines = repr(value).splitlines()
        assert len(lines) <= 15, value
        assert max(map(len, lines)) <= 120
    assert "... and" in repr(many)


positive = st.floats(min_value=1e-300, max_value=1e300)


@given(positive, st.integers(1, 17))
def test_rounding_stays_on_its_side(value: float, digits: int) -> None:
    up, down = Fraction(rounded(value, digits, UP)), Fraction(rounded(value, digits, DOWN))
    assert down <= Fraction(value) <= up
    assert up - down <= Fraction(value) * Fraction(10) ** (1 - digits)


@given(positive, st.sampled_from([".3f", ".0e", ".2g", "e", "g", "f", "+.4f", ">20.3e", "012.2f", ",.1f"]))
def test_formats_enclose_a_number_in_both_neighbours_of_the_precision(value: float, spec: str) -> None:
    up, down, nearest = (
        Fraction(text.replace(",", "").strip())
        for text in (formatted(value, spec, UP), formatted(value, spec, DOWN), format(value, spec))
    )
    assert down <= Fraction(value) <= up
    assert nearest in (down, up)


@pytest.mark.parametrize(
    ("spec", "text"), [(".2f", "1.83"), (".0f", "2"), (".3%", "182.824%"), ("e", "1.828237e+0"), (">9.1f", "      1.9")]
)
def test_a_number_is_formatted_to_the_safe_side(spec: str, text: str) -> None:
    assert format(LOCAL.epsilon(RUN, delta=1e-5), spec) == text


def test_a_number_whose_lower_bound_is_safe_is_rounded_down() -> None:
    question = {"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 0.1, "side": "at_least"}
    found = LOCAL.bounds(RUN, [question])[0]
    assert isinstance(found, Number)
    assert found.value == found.lower
    assert Fraction(f"{found:.4f}") <= Fraction(found.value)


ends = st.floats(min_value=0.0, max_value=10.0)


@given(ends, ends, ends)
def test_a_comparison_is_true_only_if_both_bounds_prove_it(first: float, second: float, limit: float) -> None:
    lower, upper = sorted((first, second))
    answer = number(upper, lower, upper)
    truths = (lower, upper, lower + (upper - lower) / 2)
    assert (answer <= limit) == (limit >= answer) == all(truth <= limit for truth in truths)
    assert (answer < limit) == (limit > answer) == all(truth < limit for truth in truths)
    assert (answer >= limit) == (limit <= answer) == all(truth >= limit for truth in truths)
    assert (answer > limit) == (limit < answer) == all(truth > limit for truth in truths)


def test_comparisons_of_two_numbers_need_disjoint_bounds() -> None:
    low, middle, high = number(1.0, 0.5, 1.0), number(1.5, 0.9, 1.5), number(2.0, 1.6, 2.0)
    assert low < high
    assert high > low
    assert not low < middle
    assert not low > middle
    assert not low <= middle


def test_an_approximation_is_neither_above_nor_below_a_limit() -> None:
    guess = number(1.0, None, None)
    assert repr(guess) == "epsilon 1 (asymptotic, no bounds)"
    assert not guess <= 2.0
    assert not guess > 0.5
    assert f"{guess:.1f}" == "1.0"


def test_a_number_is_not_compared_with_a_text() -> None:
    with pytest.raises(TypeError):
        assert LOCAL.advantage(RUN) <= "0.1"


def test_infinity_is_written_and_compared() -> None:
    epsilon = LOCAL.epsilon({"type": "approximate_dp", "epsilon": 1.0, "delta": 0.1}, delta=0.0)
    assert repr(epsilon) == "epsilon Infinity (exact, Infinity to Infinity)"
    assert epsilon > 1e300
    assert f"{epsilon:.2f}" == "inf"
    assert float(epsilon) == math.inf


def test_a_conditional_answer_says_so_and_shows_the_worst_case() -> None:
    bounds = LOCAL.bounds(
        {"type": "gaussian", "noise_multiplier": 2.0}, [EPSILON], threat_model={"type": "glrt", "dimension": 9}
    )
    assert "conditional" in repr(bounds[0])
    assert "worst case:" in repr(bounds)
    assert "worst case: epsilon" in bounds[0]._repr_html_()


@cache
def values() -> list[Any]:
    compared = LOCAL.compare({"<b>&": (1.0, 0.01, 1000), "other": RUN}, QUESTIONS)
    sweep = LOCAL.sweep(RUN, {"/mechanism/noise_multiplier": [1.0, 2.0]}, QUESTIONS)
    target = {"question": EPSILON, "at_most": 1.0}
    return [
        LOCAL.epsilon(RUN, delta=1e-5),
        LOCAL.power(RUN, [0.01, 0.1]),
        LOCAL.bounds(RUN, QUESTIONS),
        LOCAL.assess(RUN, CONTEXT, POLICY),
        compared,
        sweep,
        LOCAL.curves(RUN, [0.01, 0.1], directions=["add", "remove"]),
        LOCAL.calibrate(RUN, [target], relative_tolerance=1e-3),
        LOCAL.check(RUN, [{"question": EPSILON, "value": 1.0}]),
    ]


def test_tables_for_notebooks_are_well_formed_and_escaped() -> None:
    found = values()
    kinds = [Number, Power, Bounds, Assessment, RunComparison, Sweep, Curves, Calibration, CheckedClaims]
    assert [type(value) for value in found] == kinds
    for value in found:
        tree = ET.fromstring(value._repr_html_())
        rows = tree.findall(".//tbody/tr")
        columns = len(tree.findall(".//thead/tr/th"))
        assert rows
        assert all(len(row) == columns for row in rows)
    header = ET.fromstring(found[4]._repr_html_()).findall(".//th")
    assert [cell.text for cell in header] == ["quantity", "<b>&", "other", "best"]


def test_every_part_of_a_table_is_escaped() -> None:
    tree = ET.fromstring(html_table(("<a>",), [("<b>",)], caption="<c>", notes=("<d>", "&")))
    places = (".//th", ".//td", ".//caption", "./p[1]", "./p[2]")
    assert [tree.findtext(place) for place in places] == ["<a>", "<b>", "<c>", "<d>", "&"]


def test_curves_are_columns_with_both_bounds() -> None:
    rates = [1e-4, 0.01, 0.1]
    curves = LOCAL.curves(RUN, rates, directions=["add", "remove"])
    columns = curves.columns()
    assert curves.names == ("add", "remove")
    assert columns["false_positive_rate"] == rates
    assert {len(column) for column in columns.values()} == {3}
    assert tuple(columns["add power"]) == LOCAL.power(RUN, rates).value
    assert tuple(columns["remove power lower"]) == LOCAL.power(RUN, rates, direction="remove").lower
    assert len(LOCAL.curves(RUN).columns()["false_positive_rate"]) == 200
    two = LOCAL.curves(RUN, [0.1], threat_models=[{"type": "worst_case"}, {"type": "worst_case", "records": 2}])
    assert len(set(two.names)) == 2


@pytest.mark.parametrize("place", [1, *map(thorough, (3, 4, 5, 6))])
def test_a_plot_is_the_chart_of_the_service(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    value = values()[place]
    chart = value.plot()
    assert isinstance(chart, alt.TopLevelMixin)
    assert chart.to_dict()["usermeta"]["digests"]
    monkeypatch.setitem(sys.modules, "altair", None)
    picture = value.plot()
    assert isinstance(picture, Picture)
    assert ET.fromstring(picture._repr_svg_()).tag.endswith("svg")
    assert len(repr(picture)) < 100


def test_an_answer_without_a_client_has_no_plot() -> None:
    with pytest.raises(InvalidArgument, match="not made by a client"):
        Origin().plot()


def test_equal_answers_of_two_clients_are_equal() -> None:
    assert LOCAL.epsilon((1.0, 0.01, 1000), delta=1e-5) == Local().epsilon(RUN, delta=1e-5)
    assert LOCAL.assess((1.0, 0.01, 1000), CONTEXT) == Local().assess(RUN, CONTEXT)
