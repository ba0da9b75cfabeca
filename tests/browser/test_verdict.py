"""The verdict: in the first view, only for a limit that the user set, always with its sentence."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, wait_for_answer

VIEWS = [(390, 844), (820, 1180), (1100, 800), (1280, 800)]
RUN = {"noise": "1.1", "batch": "256", "dataset": "60000", "epochs": "15"}
LIMITED: dict[str, Any] = {"runs": [RUN], "limit": {"value": "2"}}


def page_url(address: str, state: dict[str, Any]) -> str:
    """Return the address of the page with a state."""
    return f"{address}/#2:{quote(json.dumps(state))}"


def in_first_view(page: Page, selector: str) -> bool:
    """Return whether an element lies within the window without being covered."""
    return page.locator(selector).evaluate(
        """each => {
            const { top, bottom, left, right } = each.getBoundingClientRect();
            const middle = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
            return top >= 0 && bottom <= innerHeight && left >= 0 && right <= innerWidth && bottom > top
                && (each.contains(middle) || middle.contains(each));
        }"""
    )


@pytest.mark.parametrize(("width", "height"), VIEWS)
def test_verdict_is_in_first_view(browser: Browser, address: str, width: int, height: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    page.goto(address)
    wait_for_answer(page)
    assert in_first_view(page, "#short .main-sentence")  # Of the example, which has no limit.
    page.goto("about:blank")
    page.goto(page_url(address, LIMITED))
    wait_for_answer(page)
    assert page.evaluate("scrollY") == 0
    assert in_first_view(page, "#short .verdict")
    assert in_first_view(page, "#short .aside-sentence")
    page.fill("#limit", "1")
    page.press("#limit", "Enter")
    wait_for_answer(page)
    assert in_first_view(page, "#short .verdict.bad")  # Wherever the form is scrolled to.
    context.close()


@pytest.mark.parametrize("width", [320, 390, 500, 640, 820, 1000, 1100, 1280, 1440, 1920])
def test_page_has_no_horizontal_overflow(browser: Browser, address: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    runs = [{"name": "a rather long name of a run, of many words", "noise": "1.1"}, {"name": "b" * 64}]
    report = {"subject": "x" * 200, "microbatch": "4"}
    page.goto(page_url(address, {"runs": runs, "limit": {"value": "2", "requires": "all"}, "context": report}))
    wait_for_answer(page)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_without_limit_there_is_no_verdict(page: Page) -> None:
    expect(page.locator("#limit")).to_have_value("")
    expect(page.locator("#short")).to_contain_text("This is an example")
    expect(page.locator("#short")).to_contain_text("No limit was set")
    expect(page.locator(".verdict, .symbol")).to_have_count(0)
    page.fill("#limit", "2")
    page.press("#limit", "Enter")
    wait_for_answer(page)
    expect(page.locator("#short .verdict")).to_have_count(1)
    page.select_option("#limit-kind", "trade_off")
    expect(page.locator("#limit")).to_have_value("")
    page.get_by_role("button", name="Answer", exact=True).click()
    wait_for_answer(page)
    expect(page.locator(".verdict, .symbol")).to_have_count(0)
    page.get_by_role("button", name="Start over").click()
    wait_for_answer(page)
    expect(page.locator("#limit")).to_have_value("")


def test_new_kind_of_claim_clears_its_number(page: Page) -> None:
    page.select_option("#source", "claim")
    page.fill("#claim", "1.2")
    page.select_option("#claim-kind", "trade_off")
    expect(page.locator("#claim")).to_have_value("")


@pytest.mark.parametrize(
    ("state", "verdict", "look"),
    [
        ({}, "met", "good"),
        ({"limit": {"value": "1"}}, "violated", "bad"),
        ({"limit": {"value": "2", "requires": "all"}}, "met_if_attested", "pending"),
        ({"attested": {"noise_is_fresh": {"holds": "no"}}}, "void", "bad"),
        ({"context": {"unit": "user"}}, "undecided", "open"),
    ],
)
def test_every_verdict_has_its_style_and_sentence(
    page: Page, address: str, state: dict[str, Any], verdict: str, look: str
) -> None:
    page.goto("about:blank")
    with page.expect_response(lambda each: each.url.endswith("/v1/assessments")) as found:
        page.goto(page_url(address, {**LIMITED, **state}))
    decision = found.value.json()["decision"]
    assert decision["verdict"] == verdict
    wait_for_answer(page)
    shown = page.locator(f"#short .verdict.{look}")
    expect(shown).to_contain_text(decision["sentence"])
    expect(page.locator("#short .symbol")).to_have_count(1)
    for symbol in page.locator(".symbol").all():
        assert len(symbol.locator("..").inner_text()) > 10


def test_missing_attestation_links_to_its_control(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(page_url(address, {**LIMITED, "limit": {"value": "2", "requires": "all"}}))
    wait_for_answer(page)
    links = page.locator("#verdict .missing a")
    while links.count():
        before = links.count()
        links.first.click()
        assert str(page.evaluate("document.activeElement.id")).startswith("attest-")
        page.keyboard.press("Space")
        wait_for_answer(page)
        expect(links).to_have_count(before - 1)
    expect(page.locator("#short .verdict.good")).to_be_visible()


def test_void_run_claims_nothing(page: Page, address: str) -> None:
    void = {**LIMITED, "attested": {"noise_is_fresh": {"holds": "no"}}}
    void["runs"] = [{**RUN, "source": "claim", "claim": "3"}, {"name": "other"}]
    page.goto("about:blank")
    page.goto(page_url(address, void))
    wait_for_answer(page)
    for part in ("#strip", "#answer", "#comparison", "#charts-note"):
        text = page.locator(part).inner_text()
        assert "at most" not in text, part
        assert "differentially private" not in text, part
    expect(page.locator("figure:visible")).to_have_count(0)
    expect(page.locator("#what-if")).to_be_hidden()
    expect(page.locator(".verdict.good")).to_have_count(0)


@pytest.mark.parametrize(
    ("claimed", "words", "look"),
    [
        ("1.1", "The claim is unsafe: it says at most 1.1, and epsilon is proved to be at least 1.133.", "bad"),
        ("3", "The claim holds, and is loose: it says at most 3, and epsilon is proved to be at most 1.134.", "good"),
        ("1.1338747152", "The claim agrees", "good"),
    ],
)
def test_claim_is_checked(page: Page, address: str, claimed: str, words: str, look: str) -> None:
    run = {**RUN, "source": "claim", "claim": claimed}
    page.goto("about:blank")
    page.goto(page_url(address, {"runs": [run]}))
    wait_for_answer(page)
    expect(page.locator(f"#short .verdict.{look}")).to_contain_text(words)


def test_supported_claim_names_its_assumptions(page: Page, address: str) -> None:
    run = {**RUN, "source": "claim", "claim": "3"}
    page.goto("about:blank")
    page.goto(page_url(address, {"runs": [run]}))
    wait_for_answer(page)
    shown = page.locator("#short .verdict")
    expect(shown).to_contain_text("This rests on 4 assumptions that are not attested.")
    page.goto("about:blank")
    page.goto(page_url(address, {"runs": [run], "context": {"unit": "user"}}))
    wait_for_answer(page)
    expect(page.locator("#short .verdict.open")).to_contain_text("is undecided")


def test_claim_without_number_asks_for_it(page: Page) -> None:
    page.select_option("#source", "claim")
    expect(page.locator("#status")).to_contain_text("Enter the claimed number")
    expect(page.locator("#short")).to_be_hidden()


def test_unknown_record_count_gives_no_claim_per_person(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(page_url(address, {**LIMITED, "context": {"unit": "user"}}))
    assert "differentially private for each record of one user." in wait_for_answer(page)
    page.wait_for_selector("html[data-rest=settled]", state="attached")
    expect(page.locator("#calibration")).to_be_hidden()
    expect(page.locator("#what-if")).not_to_contain_text("limit")
    page.goto("about:blank")
    page.goto(page_url(address, {**LIMITED, "context": {"unit": "user", "records": "4"}}))
    assert "differentially private for each user with up to 4 records." in wait_for_answer(page)


def test_least_noise_names_its_run(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(page_url(address, {**LIMITED, "context": {"microbatch": "4"}}))
    wait_for_answer(page)
    page.wait_for_selector("html[data-rest=settled]", state="attached")
    for part in ("#calibration", "#what-if"):
        expect(page.locator(part)).to_contain_text("All numbers are for the run with half the noise multiplier")
    expect(page.get_by_role("button", name="Use it")).to_have_count(0)
    assert "sensitivity.:" not in page.locator("#hazards").evaluate("each => each.textContent")


def test_derived_assumptions_have_no_attestation(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(page_url(address, {**LIMITED, "attested": {"noise_is_fresh": {"holds": "yes"}}}))
    wait_for_answer(page)
    message = page.locator("#assumptions .yes summary").all_inner_texts()
    assert sorted(message) == ["Attested", "Follows from the numbers of the run"]


def test_delta_is_written_consistently(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(
        page_url(
            address,
            {"runs": [{"source": "epsilon", "statedEpsilon": "1", "statedDelta": "1e-5"}], "limit": {"value": "2"}},
        )
    )
    answer = wait_for_answer(page)
    assert "rest on 1 assumption, which is not attested yet" in answer
    for part in ("#short", "#answer", "#verdict"):
        assert "1e-05" not in page.locator(part).inner_text(), part


def test_rejection_links_to_its_field(page: Page, watched: Watched) -> None:
    watched.expected = ("422",)
    page.fill("#limit", "abc")
    page.press("#limit", "Enter")
    wait_for_answer(page)
    page.locator("#noise").focus()
    page.get_by_role("button", name="Go to “Our limit”").click()
    expect(page.locator("#limit")).to_be_focused()


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"statedEpsilon": "1.2", "statedDelta": "1e-5"}, "(1.2, 1e-5)-differentially private"),
        ({"statedEpsilon": "1.2"}, "1.2-differentially private"),
        ({"statedBy": "mu", "statedMu": "0.5"}, "-differentially private"),
        ({"statedBy": "rho", "statedRho": "0.5"}, "-differentially private"),
    ],
)
def test_epsilon_alone_has_answer(page: Page, address: str, run: dict[str, str], words: str) -> None:
    page.goto("about:blank")
    page.goto(page_url(address, {"runs": [{"source": "epsilon", **run}]}))
    assert words in wait_for_answer(page)


def test_copying_result_takes_at_most_eight_actions(
    page: Page, watched: Watched, address: str, timings: dict[str, Any]
) -> None:
    """A user copies a result with at most eight actions on the page.

    The seconds are recorded for review.
    """
    actions = 0

    def done(*_: object) -> None:
        nonlocal actions
        actions += 1

    page.goto(address)
    wait_for_answer(page)
    since = time.perf_counter()
    for field, number in (("noise", "1.1"), ("batch", "256"), ("dataset", "60000"), ("epochs", "15"), ("limit", "2")):
        done(page.fill(f"#{field}", number))
    expect(page.locator("#short .verdict.good")).to_be_visible()
    done(page.get_by_role("button", name="Copy the sentence").click())
    expect(page.locator("#copied")).to_contain_text("Copied")
    timings["numbers_to_sentence_ms"] = round(1000 * (time.perf_counter() - since))
    timings["numbers_to_sentence_actions"] = actions
    sentence = page.evaluate("navigator.clipboard.readText()")
    assert sentence.startswith("An attacker who wrongly accuses 0.1\u00a0% of the records outside the data")
    assert actions <= 8
