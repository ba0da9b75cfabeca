"""The page never shows content of an earlier form as if it belonged to the current form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DESKTOP, LONGEST_MS, Watched, wait_for_answer
from tests.browser.faults import KINDS, Fault, Faults

OLD_NOTE = "Of the form before your last change"
PASTED, OTHER = (
    json.dumps({"history": [[noise, 0.004, steps]], "mechanism": "prv"}) for noise, steps in ((1.1, 900), (0.8, 500))
)
RUNS: list[dict[str, str]] = [{"source": "paste", "paste": PASTED}, {"name": "run 2", "noise": "1.3", "epochs": "4"}]


def link(**changed: Any) -> str:
    """Return the fragment of a page with content in every panel, with some changes."""
    state = {"runs": RUNS, "active": 0, "limit": {"value": "2"}, **changed}
    return "#2:" + quote(json.dumps(state))


FORMS: Final[dict[str, str]] = {
    "first": link(),
    "other": link(runs=[{**RUNS[0], "paste": OTHER}, RUNS[1]]),
    "switched": link(active=1),
    "fresh": "",
}
ALL_PANELS = {
    "short", "answer", "verdict", "calibration", "rests", "dangers", "imported", "engine", "compare", "what-if",
    "chart-roc", "compared-charts-roc",
}  # fmt: skip

LOOK = """
window.panels = () => {
  const seen = {};
  for (const node of document.querySelectorAll("[data-holds]")) {
    if (node.closest("[hidden]")) continue;
    const note = node.querySelector(":scope > .old-note");
    const copy = node.cloneNode(true);
    for (const each of copy.querySelectorAll(".old-note, details.data")) each.remove();
    const lines = [...copy.querySelectorAll("path")].map((each) => each.getAttribute("d"));
    const described = note && node.getAttribute("aria-describedby") === note.id && note.checkVisibility();
    seen[node.id] = {
      content: copy.textContent + lines.join(),
      isMarked: Boolean(described),
      usable: [...node.querySelectorAll("[data-current-only], .actions button")]
        .some((each) => !each.disabled && each.closest("[data-holds]") === node),
    };
  }
  return seen;
};
window.watch = (before, isChanged) => {
  window.wrong = [];
  window.watching = true;
  const look = () => {
    if (!window.watching) return;
    if (CONDITIONS[isChanged]())
      for (const [id, { content, isMarked, usable }] of Object.entries(panels()))
        if (before[id] === content && (!isMarked || usable))
          window.wrong.push([id, document.documentElement.dataset.phase, isMarked, usable].join());
    requestAnimationFrame(look);
  };
  look();
};
"""
CONDITIONS = """
const CONDITIONS = {
  other: () => document.getElementById("paste").value === OTHER,
  switched: () => document.querySelector("#runs .run:nth-child(2) button").getAttribute("aria-pressed") === "true",
  fresh: () => document.getElementById("source").value === "form",
};
""".replace("OTHER", json.dumps(OTHER))

Panels = dict[str, dict[str, Any]]


def rest_of(page: Page) -> None:
    """Wait until every request of the page has a response, including what-if charts."""
    page.wait_for_selector("html[data-state=settled][data-rest=settled]", state="attached", timeout=LONGEST_MS)


def panels(page: Page) -> Panels:
    """Return the visible content of the panels of the page."""
    return page.evaluate("panels()")


def opened(page: Page, address: str, form: str) -> Panels:
    """Open the page with a form and return its panels."""
    page.goto("about:blank")
    page.goto(f"{address}/{FORMS[form]}")
    rest_of(page)
    return panels(page)


@pytest.fixture(scope="module")
def contents(browser: Browser, address: str) -> dict[str, Panels]:
    """Return the content of the panels for every form without faults."""
    context = browser.new_context(viewport=DESKTOP)
    context.add_init_script(CONDITIONS + LOOK)
    page = context.new_page()
    found = {form: opened(page, address, form) for form in FORMS}
    context.close()
    return found


@pytest.fixture
def first(page: Page, watched: Watched, address: str) -> Page:
    """Return the page with the form "first" and its answers, so that every panel has content."""
    watched.expected = ("Failed to load resource",)
    page.context.add_init_script(CONDITIONS + LOOK)
    opened(page, address, "first")
    return page


def restore_first_form(page: Page) -> None:
    """Restore the state that the form of the page had first."""
    page.evaluate("fragment => { location.hash = fragment }", FORMS["first"])
    page.wait_for_function("text => document.getElementById('paste').value === text", arg=PASTED)
    rest_of(page)


def type_other_state(page: Page, /) -> str:
    """Put another state into the text field of the page."""
    page.fill("#paste", OTHER)
    return "other"


def follow_link(page: Page, /) -> str:
    """Follow a link to another state."""
    page.evaluate("fragment => { location.hash = fragment }", FORMS["other"])
    return "other"


def switch_run(page: Page, /) -> str:
    """Choose the other one of the two runs on the page."""
    page.get_by_role("button", name="run 2", exact=True).click()
    return "switched"


def start_over(page: Page, /) -> str:
    """Reset the page by its button."""
    page.get_by_role("button", name="Start over").click()
    return "fresh"


Change: TypeAlias = Callable[[Page], str]
TARGETS: Final[dict[Change, str]] = {
    type_other_state: "other",
    follow_link: "other",
    switch_run: "switched",
    start_over: "fresh",
}


class Watching:
    """Checks in every frame that no content of the first form looks current."""

    def __init__(self, page: Page, contents: dict[str, Panels], target: str) -> None:
        """Start to watch the panels of the page, which change from the form "first" to the form `target`.

        `contents` has the content of the panels for every form.
        """
        self.page, self.contents, self.target = page, contents, target
        then = contents[target]
        before = {
            name: each["content"]
            for name, each in contents["first"].items()
            if name not in then or then[name]["content"] != each["content"]
        }
        page.evaluate("([before, target]) => watch(before, target)", [before, target])

    def stop(self) -> None:
        """Stop watching, and assert that nothing was wrong."""
        assert self.page.evaluate("() => { watching = false; return [...new Set(wrong)] }") == []


def check_final(page: Page, expected: Panels) -> None:
    """Check that the page shows the content of a run without faults, and that nothing is marked as outdated."""
    rest_of(page)
    found = panels(page)
    assert [name for name, each in found.items() if each["isMarked"]] == []
    assert {name: each["content"] for name, each in found.items()} == {
        name: each["content"] for name, each in expected.items()
    }
    expect(page.locator("#status")).to_have_text("")
    expect(page.locator("#problem")).to_be_hidden()


def test_every_panel_differs_between_the_forms(contents: dict[str, Panels]) -> None:
    """Every panel differs between the two forms; otherwise the tests below would check nothing."""
    assert set(contents["first"]) >= ALL_PANELS
    same = {
        name
        for name in ALL_PANELS & set(contents["other"])
        if contents["first"][name]["content"] == contents["other"][name]["content"]
    }
    assert same <= {"rests"}  # Both runs have the same assumptions.


def test_every_part_of_answer_belongs_to_a_panel(first: Page) -> None:
    outside = first.evaluate(
        """() => [...document.querySelectorAll("main section, main figure, aside section, #short, #engine, #imported")]
        .filter((each) => !each.closest("[data-holds]") && !each.querySelector("#glossary")).map((each) => each.id)"""
    )
    assert outside == []


@pytest.mark.parametrize("change", TARGETS, ids=lambda each: str(each.__name__))
@pytest.mark.parametrize("slow", ["words", "pictures"])
def test_slow_answer_never_looks_current(first: Page, contents: dict[str, Panels], change: Change, slow: str) -> None:
    faults = Faults(first)
    faults.by_kind[slow] = "held"
    watching = Watching(first, contents, TARGETS[change])
    target = change(first)
    marked = panels(first)
    faults.wait_for(slow)
    if slow == "words":
        expect(first.locator("#short .old-note")).to_have_text(OLD_NOTE)
    first.wait_for_timeout(300)
    if change is type_other_state:
        assert [name for name, each in marked.items() if not each["isMarked"]] == []
        assert "short" in marked
    faults.release()
    check_final(first, contents[target])
    watching.stop()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"words", "pictures", "claim"}])
def test_slow_answer_beside_words_never_looks_current(first: Page, contents: dict[str, Panels], kind: str) -> None:
    faults = Faults(first)
    faults.by_kind[kind] = "held"
    watching = Watching(first, contents, "other")
    type_other_state(first)
    faults.wait_for(kind)
    first.wait_for_timeout(300)
    faults.release()
    check_final(first, contents["other"])
    watching.stop()


@pytest.mark.parametrize("fault", ["500", "422", "network"])
def test_failed_answer_beside_words_is_empty_or_explained(
    first: Page, contents: dict[str, Panels], fault: Fault
) -> None:
    """Panels whose answer failed are empty or say why, beside the sentences that did arrive."""
    faults = Faults(first)
    for kind in KINDS:
        if kind in {"words", "claim"}:
            continue
        faults.by_kind = {kind: fault}
        watching = Watching(first, contents, "other")
        type_other_state(first)
        faults.wait_for(kind)
        rest_of(first)
        watching.stop()
        found = panels(first)
        assert found["short"]["content"] == contents["other"]["short"]["content"], kind
        assert [name for name, each in found.items() if each["isMarked"]] == [], kind
        assert "something_else" not in first.locator("body").inner_text(), kind
        faults.release()
        restore_first_form(first)


@pytest.mark.parametrize("fault", ["500", "422", "network"])
@pytest.mark.parametrize("change", TARGETS, ids=lambda each: str(each.__name__))
def test_failed_words_clear_every_panel(first: Page, contents: dict[str, Panels], fault: Fault, change: Change) -> None:
    faults = Faults(first)
    faults.by_kind["words"] = fault
    watching = Watching(first, contents, TARGETS[change])
    target = change(first)
    faults.wait_for("words")
    rest_of(first)
    assert panels(first) == {}
    expect(first.locator("#problem")).to_be_visible()
    expect(first.locator("#status")).to_contain_text("There is no answer for this form.")
    assert "something_else" not in first.locator("body").inner_text()
    watching.stop()
    faults.release()
    first.get_by_role("button", name="Answer", exact=True).click()
    check_final(first, contents[target])


def test_late_answer_of_earlier_form_is_dropped(first: Page, contents: dict[str, Panels]) -> None:
    faults = Faults(first)
    for kind in KINDS:
        if kind == "claim":
            continue
        faults.by_kind = {kind: "held"}
        first.fill("#paste", PASTED.replace("900", "700"))
        faults.wait_for(kind)
        late, faults.held, faults.by_kind, faults.met = faults.held, [], {}, []
        type_other_state(first)
        first.wait_for_timeout(500)  # Until the newer form is requested.
        rest_of(first)
        for route in late:
            route.continue_()
        first.wait_for_timeout(300)
        check_final(first, contents["other"])


@pytest.mark.parametrize("source", ["paste", "epsilon"])
def test_empty_form_is_no_error(page: Page, watched: Watched, source: str) -> None:
    page.evaluate(f"() => {{ {CONDITIONS} {LOOK} }}")
    page.select_option("#source", source)
    page.get_by_role("button", name="Answer", exact=True).click()
    rest_of(page)
    assert page.evaluate("document.documentElement.dataset.phase") == "empty"
    assert panels(page) == {}
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator(".error")).to_have_count(0)
    expect(page.locator("#status")).to_contain_text("to get an answer")


def test_first_key_press_disables_copying_old_results(page: Page) -> None:
    Faults(page).by_kind["words"] = "held"
    page.press("#noise", "5")
    for button in page.locator("[data-current-only]").all():
        expect(button).to_be_disabled()
    expect(page.get_by_role("button", name="Copy a link to this form")).to_be_enabled()


def test_phase_table_is_complete(page: Page) -> None:
    """The table of phases is complete: each phase can be reached from each other one, and each event leads
    to a phase.
    """
    table: dict[str, dict[str, str]] = page.evaluate(
        "async () => (await import(document.querySelector('link[href$=\"phase.js\"]').href)).PHASES"
    )
    assert set(table) == {"empty", "asking", "answered", "stale", "failed"}
    assert {target for row in table.values() for target in row.values()} == set(table)
    assert all({"edit", "blank", "ask"} <= set(row) for row in table.values())
    assert all(row["edit"] != "answered" for row in table.values())
    assert wait_for_answer(page)
