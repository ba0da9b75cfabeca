"""Texts of charts: nothing is cut inside a number or a word, and no line is wider than its chart."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import ThreatModelSpec
from service.rendering.chart_images import ChartRequest, render_chart
from service.rendering.charts.series import LONGEST_MECHANISM, attackers, describe_mechanism
from service.rendering.charts.style import WIDTH, finalize_spec, layered_chart, legend_lines, series_encoding
from service.rendering.charts.words import LONGEST_LINE, LONGEST_TITLE, join_counted, with_full_stop, wrap
from service.rendering.sentences.title import run_title
from tests.privacy.cases import CASES
from tests.resources.request_space import THREATS, mechanism

MECHANISM: TypeAdapter[Any] = TypeAdapter(MechanismSpec)
THREAT_MODEL: TypeAdapter[Any] = TypeAdapter(ThreatModelSpec)
SEED, DRAWN = 28, 400
WORD = re.compile(r"[^\s,]+")
MORE = re.compile(r" and \d+ more$")


def specs() -> list[Any]:
    """Return every mechanism of the cases as JSON, and random ones of the whole contract."""
    random = np.random.default_rng(SEED)
    found = [MECHANISM.validate_json(json.dumps(case.spec)) for case in CASES]
    while len(found) < len(CASES) + DRAWN:
        try:
            found.append(MECHANISM.validate_json(json.dumps(mechanism(random))))
        except ValidationError:  # Parts that are valid alone may be invalid together.
            continue
    return found


SPECS = specs()


def words_of(value: Any) -> set[str]:
    """Return every name, word and number that may describe a request, unabbreviated."""
    if isinstance(value, dict):
        return {*value, *(word for each in value.values() for word in words_of(each))}
    if isinstance(value, list):
        return {word for each in value for word in words_of(each)}
    return {
        repr(value).removesuffix(".0")
        if isinstance(value, float)
        else value
        if isinstance(value, str)
        else json.dumps(value)
    }


@pytest.mark.parametrize("longest", [20, LONGEST_MECHANISM, 400])
def test_description_is_not_cut_inside_number_or_word(longest: int) -> None:
    shortened = 0
    for spec in SPECS:
        text = describe_mechanism(spec, longest)
        shortened += bool(MORE.search(text))
        known = words_of(spec.model_dump(mode="json"))
        assert set(WORD.findall(MORE.sub("", text).replace(":", ""))) <= known, text
        assert len(text) <= max(longest, LONGEST_MECHANISM), text
    assert shortened or longest == 400


def test_omitted_items_are_counted() -> None:
    for spec in SPECS:
        every = describe_mechanism(spec, 10**9).split(", ")
        text = describe_mechanism(spec)
        more = MORE.search(text)
        left = int(text.split()[-2]) if more else 0
        assert len(MORE.sub("", text).split(", ")) + left == len(every)


def test_lines_have_whole_words() -> None:
    for spec in SPECS:
        for longest in (30, LONGEST_TITLE, LONGEST_LINE):
            text = describe_mechanism(spec, 400)
            lines = wrap(text, longest)
            assert " ".join(lines) == text
            assert all(len(line) <= longest or " " not in line for line in lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("batches of 256 of 60 000, 15 epochs", ["batches of 256 of", "60 000, 15 epochs"]),
        ("a rate of about 0.1 % of all", ["a rate of about", "0.1 % of all"]),
        ("word", ["word"]),
        ("", [""]),
    ],
)
def test_numbers_are_not_split_by_wrapping(text: str, lines: list[str]) -> None:
    assert wrap(text, 18) == lines


def test_sentences_end_with_one_full_stop() -> None:
    assert (with_full_stop("15 epochs"), with_full_stop("noise 1, …")) == ("15 epochs.", "noise 1, …")


def test_first_item_is_always_kept() -> None:
    assert join_counted(["noise_multiplier 1.1"], 3) == "noise_multiplier 1.1"
    assert join_counted(["a 1", "b 2", "c 3"], 3) == "a 1 and 2 more"


def picture(subtitle: list[str], names: list[str], title: str = "T") -> dict[str, Any]:
    """Return a chart with this title, subtitle and names of series."""
    rows = [{"series": name, "x": 1, "y": 1} for name in names]
    layer: dict[str, Any] = {
        "mark": "line",
        "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
    }
    layer["encoding"] |= series_encoding(names, "roc")
    return finalize_spec(layered_chart("roc", title, subtitle, "x.", rows, [layer], 60, legend_lines(names, "roc")), [])


def width_of(spec: dict[str, Any]) -> float:
    found = re.search(rb'<svg [^>]*width="([\d.]+)"', render_chart(ChartRequest(spec=json.dumps(spec), image="svg")))
    assert found
    return float(found[1])


def test_subtitles_titles_and_legends_fit_their_chart() -> None:
    random = np.random.default_rng(SEED)
    long = sorted(SPECS, key=lambda spec: -len(describe_mechanism(spec)))[:6]
    chosen = [SPECS[place] for place in random.integers(len(SPECS), size=6)]
    bare = width_of(picture([], ["a"]))
    assert bare >= WIDTH
    for spec in (*long, *chosen):
        for text in (describe_mechanism(spec, 400), run_title(spec)):
            assert width_of(picture([f"{text}."], ["a"], text)) <= bare
            assert width_of(picture([], [text, "a"])) <= bare


def test_legend_name_is_complete() -> None:
    name = "Mixture of attackers, " + ", ".join(f"weight 0.{place}123456789" for place in range(1, 9))
    image = render_chart(ChartRequest(spec=json.dumps(picture([], [name, "b"])), image="svg")).decode()
    assert "…" not in image
    assert re.sub(r"\s", "", name) in re.sub(r"<[^>]*>|\s", "", image)


def test_attacker_names_differ_by_whole_numbers() -> None:
    random = np.random.default_rng(SEED)
    for _ in range(200):
        sent = [THREATS[random.integers(len(THREATS))](random) for _ in range(6)]
        models = [THREAT_MODEL.validate_json(json.dumps(each)) for each in sent]
        for name in attackers(models):
            assert "…" not in name
            assert "{" not in name
