"""Images of specs: well-formed and deterministic SVG, PNG, and names of runs in images."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from service.rendering.chart_images import ChartRequest, as_standalone_svg, render_chart, with_stable_ids
from service.rendering.charts.style import VEGA_LITE
from service.rendering.registry import PNG, SVG, renderings_of
from tests.rendering.chart_cases import CASES, NAME, form
from tests.slow_marker import sample_of

SPACE = "{http://www.w3.org/2000/svg}"


@sample_of(8)
@pytest.mark.parametrize(("name", "case"), CASES)
def test_every_chart_is_well_formed_svg(name: str, case: str) -> None:
    root = ET.fromstring(form(name, case, SVG))
    assert root.tag == f"{SPACE}svg"
    names = {each.tag.removeprefix(SPACE) for each in root.iter()}
    assert not names & {"script", "image", "foreignObject", "a", "use"}
    for each in root.iter():
        assert not any(key.endswith("href") or key.startswith("on") for key in each.attrib)


def test_names_of_runs_are_text_elements() -> None:
    root = ET.fromstring(form("comparisons", "two", SVG))
    assert NAME in ["".join(each.itertext()) for each in root.iter(f"{SPACE}text")]


def test_same_spec_gives_same_image() -> None:
    spec = form("curves", "attackers", VEGA_LITE).decode()
    images = {render_chart(ChartRequest(spec=spec, image="svg")) for _ in range(2)}
    assert {as_standalone_svg(image) for image in images} == {form("curves", "attackers", SVG)}


def test_sweep_chart_renders_to_png() -> None:
    assert form("sweeps", "with_problems", PNG).startswith(b"\x89PNG\r\n\x1a\n")


def test_ids_are_renumbered_and_texts_are_not() -> None:
    text = (
        '<svg><clipPath id="clip27"/><g clip-path="url(#clip27)"/><text>clipPath id="clip27" url(#clip27)</text></svg>'
    )
    expected = '<svg><clipPath id="x0"/><g clip-path="url(#x0)"/><text>clipPath id="clip27" url(#clip27)</text></svg>'
    assert with_stable_ids(text, "x") == expected


def test_urls_in_spec_are_not_followed() -> None:
    spec = {"data": {"url": "http://127.0.0.1:9/data.json"}, "mark": "point", "encoding": {"x": {"field": "a"}}}
    with pytest.raises(ValueError, match=r"127\.0\.0\.1"):
        render_chart(ChartRequest(spec=json.dumps(spec), image="svg"))


def test_only_chart_resources_have_images() -> None:
    assert set(renderings_of("bounds")) == set()
    assert {VEGA_LITE, SVG, PNG} <= set(renderings_of("sweeps"))
