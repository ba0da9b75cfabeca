"""Appearance of the page: screenshots for review, and accessibility violations found by axe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import DESKTOP, PHONE, Watched, wait_for_answer

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESKTOP},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "device_scale_factor": 2, "has_touch": True, "is_mobile": True},
    "phone-dark": {"viewport": PHONE, "device_scale_factor": 2, "color_scheme": "dark", "is_mobile": True},
    "tablet": {"viewport": {"width": 900, "height": 1200}},
}
SERIOUS = {"serious", "critical"}
COMPARED = (
    "#2:"
    + '{"runs":[{"name":"today"},{"name":"more noise","noise":"1.3"},{"name":"fewer epochs","epochs":"4"}],"active":1}'
)
REDRAWN = """steps => new Promise(resolve => {
    const slider = document.getElementById("noise-slider"), picture = document.querySelector("#chart-roc .chart");
    const took = [];
    const next = () => {
        if (took.length === steps) return resolve(took);
        const started = performance.now();
        const watcher = new MutationObserver(() => {
            watcher.disconnect();
            requestAnimationFrame(() => { took.push(performance.now() - started); next() });
        });
        watcher.observe(picture, {childList: true});
        slider.value = Number(slider.value) + 1;
        slider.dispatchEvent(new Event("input", {bubbles: true}));
    };
    next();
})"""


def violations(page: Page) -> list[str]:
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest, browser: Browser, address: str, artifacts: Path) -> Any:
    context = browser.new_context(**LOOKS[request.param])
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(address)
    wait_for_answer(page)
    yield request.param, page
    context.close()
    watched.check()


def test_page_has_no_serious_accessibility_violation(look: tuple[str, Page], artifacts: Path) -> None:
    name, page = look
    page.screenshot(path=artifacts / f"{name}-first.png")
    page.screenshot(path=artifacts / f"{name}.png", full_page=True)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (
        "scrolls sideways"
    )
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.screenshot(path=artifacts / f"{name}-opened.png", full_page=True)
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_comparison_and_rejection_have_no_violation(
    browser: Browser, address: str, artifacts: Path, scheme: Any
) -> None:
    context = browser.new_context(viewport=DESKTOP, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{address}/{COMPARED}")
    wait_for_answer(page)
    page.screenshot(path=artifacts / f"compared-{scheme}.png", full_page=True)
    assert violations(page) == []
    page.fill("#noise", "0")
    page.get_by_role("button", name="Answer", exact=True).click()
    wait_for_answer(page)
    page.screenshot(path=artifacts / f"refused-{scheme}.png")
    assert violations(page) == []
    context.close()


def test_page_prints_to_pdf(page: Page, artifacts: Path) -> None:
    page.emulate_media(media="print")
    page.screenshot(path=artifacts / "print.png", full_page=True)
    page.pdf(path=artifacts / "print.pdf", format="A4")
    assert (artifacts / "print.pdf").stat().st_size > 10_000


def test_timings_are_recorded(page: Page, browser: Browser, address: str, timings: dict[str, Any]) -> None:
    """Record the seconds of the first view of a new visitor and of the drag of a slider. No limit is checked."""
    other = browser.new_context(viewport=DESKTOP).new_page()
    other.goto(address)
    wait_for_answer(other)
    marks = other.evaluate("performance.getEntriesByType('mark').map(each => [each.name, each.startTime])")
    timings["first_words_ms"], timings["first_picture_ms"] = (
        round(next(at for name, at in marks if name == wanted)) for wanted in ("words", "picture")
    )
    timings["all_pictures_ms"] = round(marks[-1][1])
    loaded = other.evaluate(
        "performance.getEntriesByType('resource').map(each => [each.responseEnd, each.encodedBodySize])"
    )
    timings["first_view_kilobytes"] = round(
        sum(size for at, size in loaded if at <= timings["first_picture_ms"]) / 1000
    )
    timings["with_all_pictures_kilobytes"] = round(sum(size for _, size in loaded) / 1000)
    drags = sorted(page.evaluate(REDRAWN, 20))
    timings["redrawn_ms"] = {"median": round(drags[10]), "largest": round(drags[-1])}
    other.context.close()
    assert timings["first_view_kilobytes"] <= 400
