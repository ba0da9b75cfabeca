"""Charts on the page: values in words, saved files, the current run, and layout at every width."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import LONGEST_MS, Watched, wait_for_answer
from tests.browser.test_appearance import violations
from tests.rendering.chart_cases import DEAR, REQUESTS

WIDTHS = (320, 390, 600, 820, 1100, 1280, 1920)
GUIDE = sorted(path.stem for path in (Path(__file__).parents[2] / "docs" / "guide").glob("*.md"))
SPEC = "application/vnd.vegalite.v5+json"
SHARES = re.compile(r"at least ([\d.e-]+) %, at most ([\d.e-]+) %")
ATTACKERS: dict[str, Any] = {
    "mechanism": {"type": "gaussian", "noise_multiplier": 2.0},
    "threat_models": [{"type": "worst_case"}, {"type": "glrt", "dimension": 9}],
    "false_positive_rates": [1e-6, 3.15e-5, 1e-3, 0.0125, 0.3, 1.0],
}
SHOWN = """async ([spec, width]) => {
    const { figure, parts } = await import(document.querySelector('link[rel=modulepreload][href$="/chart.js"]').href);
    const made = figure("tried");
    made.node.style.width = `${width}px`;
    document.getElementById("tried")?.remove();
    document.querySelector("main").prepend(made.node);
    made.node.scrollIntoView();
    await made.show(parts(spec)[0]);
}"""
"""A chart above the others on the page, drawn by the modules of the page under its policy."""


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def answer(address: str, path: str, body: Any, media_type: str) -> httpx2.Response:
    found = httpx2.post(f"{address}{path}", json=body, headers={"Accept": media_type}, timeout=LONGEST_MS / 1000)
    assert found.status_code == 200, found.text
    return found


@pytest.fixture
def show_chart(page: Page, address: str) -> Any:
    """Return a function that draws the first chart of an answer on the page: shown(path, body, width) returns its
    figure and its spec.
    """

    def show(path: str, body: Any, width: int = 560) -> tuple[Locator, dict[str, Any]]:
        spec = answer(address, path, body, SPEC).json()
        page.evaluate(SHOWN, [spec, width])
        return page.locator("#tried"), spec.get("vconcat", [spec])[0]

    return show


def plain(text: str | None) -> str:
    """Return a text of the page with plain spaces."""
    return (text or "").replace("\u00a0", " ")


def spoken_percentages(figure: Locator) -> list[tuple[Decimal, Decimal]]:
    text = plain(figure.locator("output").inner_text())
    return [(Decimal(low), Decimal(high)) for low, high in SHARES.findall(text)]


def test_values_at_pointer_are_bounds_of_the_answer(page: Page, show_chart: Any) -> None:
    figure, spec = show_chart("/v1/curves", ATTACKERS)
    rows = spec["data"]["values"]
    box = figure.locator("svg").bounding_box()
    assert box
    seen: set[str] = set()
    for share in range(5, 100, 3):
        page.mouse.move(box["x"] + box["width"] * share / 100, box["y"] + box["height"] / 3)
        head = plain(figure.locator("output span").inner_text())
        seen.add(head)
        rate = float(Decimal(head.removesuffix(" %:").split()[-1]) / 100)
        here = [row for row in rows if row["false_positive_rate"] == rate]
        response = spoken_percentages(figure)
        assert len(here) == len(response) == 2
        for row, (low, high) in zip(here, response, strict=True):
            assert low <= 100 * Decimal(row["lower"])
            assert high >= 100 * Decimal(row["upper"])
            assert high - low <= high / 500
    assert len(seen) == len(ATTACKERS["false_positive_rates"])
    expect(figure.locator(".mark")).to_be_visible()


def test_values_follow_arrow_keys(page: Page, show_chart: Any) -> None:
    figure, spec = show_chart("/v1/curves", ATTACKERS)
    slider = figure.get_by_role("slider", name="Values at")
    assert "False positive rate 0.1 %" in plain(slider.get_attribute("aria-valuetext"))
    slider.press("ArrowRight")
    assert "False positive rate 1.25 %" in plain(figure.locator("output").inner_text())
    slider.press("Home")
    assert "False positive rate 0.0001 %" in plain(figure.locator("output").inner_text())
    for name in {row["series"] for row in spec["data"]["values"]}:
        assert name in (slider.get_attribute("aria-valuetext") or "")
    expect(figure.locator(".mark")).to_be_visible()
    figure.locator("svg").click()
    expect(slider).to_be_focused()
    assert violations(page) == []


@pytest.mark.parametrize("width", [280, 560])
def test_legend_names_are_complete_at_every_width(show_chart: Any, width: int) -> None:
    names = [
        "From epsilon 1.82824 at delta 1e-05 alone, and everything else that was known",
        "b" * 64,
        "60 000 of 1 000 000",
    ]
    runs = [{"name": name[:64], "mechanism": ATTACKERS["mechanism"]} for name in names]
    figure, _ = show_chart("/v1/comparisons", {"runs": runs, "questions": [{"type": "advantage"}]}, width)
    lines = figure.locator("svg .role-legend-label tspan, svg .role-legend-label text").all_text_contents()
    text = "".join(lines).replace(" ", "")
    assert "…" not in text
    for run in runs:
        assert run["name"].replace(" ", "") in text
    assert not any(line.endswith(("60", "1", "1 000", "000 of 1")) for line in lines)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_saved_on_white_background(browser: Browser, address: str, artifacts: Path, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme, accept_downloads=True)
    context.set_default_timeout(LONGEST_MS)
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(address)
    wait_for_answer(page)
    page.evaluate(SHOWN, [answer(address, "/v1/curves", ATTACKERS, SPEC).json(), 560])
    files = {}
    for kind in ("svg", "png"):
        with page.expect_download() as download:
            page.locator("#tried").get_by_role("button", name=f"Save as {kind.upper()}").click()
        assert download.value.suggested_filename == f"how-often-an-attack-can-succeed.{kind}"
        download.value.save_as(artifacts / f"saved-{scheme}.{kind}")
        files[kind] = (artifacts / f"saved-{scheme}.{kind}").read_bytes()
    svg = files["svg"].decode()
    assert 'fill="white"' in svg
    assert "currentColor" not in svg
    assert "…" not in svg
    for text in ("How often an attack can succeed", "GLRT, direction unknown"):
        assert text in svg
    page.goto("about:blank")
    drawn = page.evaluate(
        """async bytes => {
            const image = await createImageBitmap(new Blob([new Uint8Array(bytes)], {type: "image/png"}));
            const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
            canvas.drawImage(image, 0, 0);
            return [image.width, ...canvas.getImageData(1, 1, 1, 1).data];
        }""",
        list(files["png"]),
    )
    assert drawn[0] > 960
    assert drawn[1:] == [255, 255, 255, 255]
    watched.check()
    context.close()


def test_current_run_is_marked_within_axis_range(show_chart: Any) -> None:
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    for numbers, marked in (([0.5, 2.0, 4.0], True), ([2.0, 4.0], False)):
        body = {
            "mechanism": run,
            "vary": {"/mechanism/noise_multiplier": {"values": numbers}},
            "questions": [{"type": "epsilon", "delta": 1e-5}],
        }
        figure, _ = show_chart("/v1/sweeps", body)
        assert ("this run" in (figure.locator("svg").text_content() or "")) == marked


@pytest.mark.parametrize("case", sorted(REQUESTS["assessments"].keys() - {DEAR}))
def test_report_fits_at_every_width(browser: Browser, address: str, artifacts: Path, case: str) -> None:
    found = answer(address, "/v1/assessments", REQUESTS["assessments"][case], "text/html")
    headers = {name: found.headers[name] for name in ("content-type", "content-security-policy")}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        watched = Watched(context, address)
        page = context.new_page()
        page.route(f"{address}/report", lambda route: route.fulfill(body=found.content, headers=headers))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{address}/report")
            assert overflow(page) <= 0, (case, width)
            if width in (320, 1280):
                page.screenshot(path=artifacts / f"report-{case}-{scheme}-{width}.png", full_page=True)
                assert violations(page) == []
        watched.check()
        context.close()


def test_report_prints_to_pdf(browser: Browser, address: str, artifacts: Path) -> None:
    page = browser.new_page(viewport={"width": 700, "height": 1000})
    page.set_content(answer(address, "/v1/assessments", REQUESTS["assessments"]["everybody"], "text/html").text)
    page.emulate_media(media="print")
    page.pdf(path=artifacts / "report.pdf", format="A4")
    assert overflow(page) <= 0
    assert page.locator(".wide").first.evaluate("each => getComputedStyle(each).overflowX") == "visible"
    page.close()


@pytest.mark.parametrize("name", GUIDE)
def test_guide_fits_at_every_width(browser: Browser, address: str, name: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/guide/{name}.html")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert overflow(page) <= 0, (name, width)
    page.close()


def test_moving_slider_sends_no_request(page: Page) -> None:
    figure = page.locator("#what-if-0")
    figure.wait_for(timeout=LONGEST_MS)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    slider = figure.get_by_role("slider")
    for _ in range(3):
        slider.press("ArrowLeft")
    expect(slider).to_be_focused()
    assert "noise multiplier" in (slider.get_attribute("aria-valuetext") or "")
    expect(figure.get_by_text("this run")).to_be_attached()
    assert asked == []


def test_resized_chart_keeps_chosen_position(page: Page, show_chart: Any) -> None:
    figure, _ = show_chart("/v1/curves", ATTACKERS)
    figure.get_by_role("slider").press("End")
    page.evaluate("document.getElementById('tried').style.width = '400px'")
    expect(figure.locator("output span")).to_have_text("False positive rate 100 %:")
    assert json.loads(figure.locator("input").get_attribute("max") or "") == 5
