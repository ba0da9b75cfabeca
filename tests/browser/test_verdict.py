"""The verdict: in the first view, only for a limit that was set, never without its sentence."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, answered

VIEWS = [(390, 844), (820, 1180), (1100, 800), (1280, 800)]
RUN = {"noise": "1.1", "batch": "256", "dataset": "60000", "epochs": "15"}
LIMITED: dict[str, Any] = {"runs": [RUN], "limit": {"value": "2"}}


def at(address: str, state: dict[str, Any]) -> str:
    """Return the address of the page with a state."""
    return f"{address}/#2:{quote(json.dumps(state))}"


def in_first_view(page: Page, selector: str) -> bool:
    """Return whether an element lies wholly within the window, and nothing covers it."""
    return page.locator(selector).evaluate(
        """each => {
            const { top, bottom, left, right } = each.getBoundingClientRect();
            const middle = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
            return top >= 0 && bottom <= innerHeight && left >= 0 && right <= innerWidth && bottom > top
                && (each.contains(middle) || middle.contains(each));
        }"""
    )


@pytest.mark.parametrize(("width", "height"), VIEWS)
def test_the_verdict_is_in_the_first_view(browser: Browser, address: str, width: int, height: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    page.goto(address)
    answered(page)
    assert in_first_view(page, "#short .main-sentence")  # of the example, which has no limit
    page.goto("about:blank")
    page.goto(at(address, LIMITED))
    answered(page)
    assert page.evaluate("scrollY") == 0
    assert in_first_view(page, "#short .verdict")
    assert in_first_view(page, "#short .aside-sentence")
    page.fill("#limit", "1")
    page.press("#limit", "Enter")
    answered(page)
    assert in_first_view(page, "#short .verdict.bad")  # wherever the form was scrolled to
    context.close()


@pytest.mark.parametrize("width", [320, 390, 500, 640, 820, 1000, 1100, 1280, 1440, 1920])
def test_nothing_overflows_sideways(browser: Browser, address: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    runs = [{"name": "a rather long name of a run, of many words", "noise": "1.1"}, {"name": "b" * 64}]
    report = {"subject": "x" * 200, "microbatch": "4"}
    page.goto(at(address, {"runs": runs, "limit": {"value": "2", "requires": "all"}, "context": report}))
    answered(page)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_there_is_no_verdict_for_a_limit_that_nobody_set(page: Page) -> None:
    expect(page.locator("#limit")).to_have_value("")
    expect(page.locator("#short")).to_contain_text("This is an example")
    expect(page.locator("#short")).to_contain_text("No limit was set")
    expect(page.locator(".verdict, .symbol")).to_have_count(0)
    page.fill("#limit", "2")
    page.press("#limit", "Enter")
    answered(page)
    expect(page.locator("#short .verdict")).to_have_count(1)
    page.select_option("#limit-kind", "trade_off")
    expect(page.locator("#limit")).to_have_value("")
    page.get_by_role("button", name="Answer", exact=True).click()
    answered(page)
    expect(page.locator(".verdict, .symbol")).to_have_count(0)
    page.get_by_role("button", name="Start over").click()
    answered(page)
    expect(page.locator("#limit")).to_have_value("")


def test_a_new_kind_of_claim_clears_its_number(page: Page) -> None:
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
def test_every_verdict_has_its_look_and_its_sentence(
    page: Page, address: str, state: dict[str, Any], verdict: str, look: str
) -> None:
    page.goto("about:blank")
    with page.expect_response(lambda each: each.url.endswith("/v1/assessments")) as found:
        page.goto(at(address, {**LIMITED, **state}))
    decision = found.value.json()["decision"]
    assert decision["verdict"] == verdict
    answered(page)
    shown = page.locator(f"#short .verdict.{look}")
    expect(shown).to_contain_text(decision["sentence"])
    expect(page.locator("#short .symbol")).to_have_count(1)
    for symbol in page.locator(".symbol").all():
        assert len(symbol.locator("..").inner_text()) > 10


def test_a_missing_attestation_leads_to_its_control(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(at(address, {**LIMITED, "limit": {"value": "2", "requires": "all"}}))
    answered(page)
    links = page.locator("#verdict .missing a")
    while links.count():
        before = links.count()
        links.first.click()
        assert str(page.evaluate("document.activeElement.id")).startswith("attest-")
        page.keyboard.press("Space")
        answered(page)
        expect(links).to_have_count(before - 1)
    expect(page.locator("#short .verdict.good")).to_be_visible()


def test_a_void_run_claims_nothing_anywhere(page: Page, address: str) -> None:
    void = {**LIMITED, "attested": {"noise_is_fresh": {"holds": "no"}}}
    void["runs"] = [{**RUN, "source": "claim", "claim": "3"}, {"name": "other"}]
    page.goto("about:blank")
    page.goto(at(address, void))
    answered(page)
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
def test_a_claim_is_checked(page: Page, address: str, claimed: str, words: str, look: str) -> None:
    run = {**RUN, "source": "claim", "claim": claimed}
    page.goto("about:blank")
    page.goto(at(address, {"runs": [run]}))
    answered(page)
    expect(page.locator(f"#short .verdict.{look}")).to_contain_text(words)


def test_a_claim_that_holds_names_what_it_rests_on(page: Page, address: str) -> None:
    run = {**RUN, "source": "claim", "claim": "3"}
    page.goto("about:blank")
    page.goto(at(address, {"runs": [run]}))
    answered(page)
    shown = page.locator("#short .verdict")
    expect(shown).to_contain_text("This rests on 4 assumptions that are not attested.")
    page.goto("about:blank")
    page.goto(at(address, {"runs": [run], "context": {"unit": "user"}}))
    answered(page)
    expect(page.locator("#short .verdict.open")).to_contain_text("is undecided")


def test_a_claim_without_a_number_is_asked_for(page: Page) -> None:
    page.select_option("#source", "claim")
    expect(page.locator("#status")).to_contain_text("Enter the claimed number")
    expect(page.locator("#short")).to_be_hidden()


def test_nothing_is_claimed_of_a_person_whose_records_nobody_counted(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(at(address, {**LIMITED, "context": {"unit": "user"}}))
    assert "differentially private for each record of one user." in answered(page)
    page.wait_for_selector("html[data-rest=settled]", state="attached")
    expect(page.locator("#calibration")).to_be_hidden()
    expect(page.locator("#what-if")).not_to_contain_text("limit")
    page.goto("about:blank")
    page.goto(at(address, {**LIMITED, "context": {"unit": "user", "records": "4"}}))
    assert "differentially private for each user with up to 4 records." in answered(page)


def test_the_least_noise_says_of_which_run_it_is(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(at(address, {**LIMITED, "context": {"microbatch": "4"}}))
    answered(page)
    page.wait_for_selector("html[data-rest=settled]", state="attached")
    for part in ("#calibration", "#what-if"):
        expect(page.locator(part)).to_contain_text("All numbers are of the run with half the noise multiplier")
    expect(page.get_by_role("button", name="Use it")).to_have_count(0)
    assert "sensitivity.:" not in page.locator("#hazards").evaluate("each => each.textContent")


def test_nobody_vouches_for_what_follows_from_the_numbers(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(at(address, {**LIMITED, "attested": {"noise_is_fresh": {"holds": "yes"}}}))
    answered(page)
    said = page.locator("#assumptions .yes summary").all_inner_texts()
    assert sorted(said) == ["Attested", "Follows from the numbers of the run"]


def test_one_delta_is_written_in_one_way(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(
        at(
            address,
            {"runs": [{"source": "epsilon", "statedEpsilon": "1", "statedDelta": "1e-5"}], "limit": {"value": "2"}},
        )
    )
    told = answered(page)
    assert "rest on 1 assumption, which is not attested yet" in told
    for part in ("#short", "#answer", "#verdict"):
        assert "1e-05" not in page.locator(part).inner_text(), part


def test_a_refusal_leads_to_its_field(page: Page, watched: Watched) -> None:
    watched.expected = ("422",)
    page.fill("#limit", "abc")
    page.press("#limit", "Enter")
    answered(page)
    page.locator("#noise").focus()
    page.get_by_role("button", name="Go to “Our limit”").click()
    expect(page.locator("#limit")).to_be_focused()


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"statedEpsilon": "1.2", "statedDelta": "1e-5"}, "(1.2, 1e-5)-differentially private"),
        ({"statedEpsilon": "1.2"}, "1.2-differentially private"),
        ({"statedBy": "mu", "statedMu": "0.5"}, "-differentially private"),
    ],
)
def test_an_epsilon_alone_has_an_answer(page: Page, address: str, run: dict[str, str], words: str) -> None:
    page.goto("about:blank")
    page.goto(at(address, {"runs": [{"source": "epsilon", **run}]}))
    assert words in answered(page)


def test_from_numbers_to_a_copied_sentence(page: Page, watched: Watched, address: str, took: dict[str, Any]) -> None:
    """At most eight things to do; the seconds are written down for people to read."""
    actions = 0

    def done(*_: object) -> None:
        nonlocal actions
        actions += 1

    page.goto(address)
    answered(page)
    since = time.perf_counter()
    for field, number in (("noise", "1.1"), ("batch", "256"), ("dataset", "60000"), ("epochs", "15"), ("limit", "2")):
        done(page.fill(f"#{field}", number))
    expect(page.locator("#short .verdict.good")).to_be_visible()
    done(page.get_by_role("button", name="Copy the sentence").click())
    expect(page.locator("#copied")).to_contain_text("Copied")
    took["numbers_to_sentence_ms"] = round(1000 * (time.perf_counter() - since))
    took["numbers_to_sentence_actions"] = actions
    sentence = page.evaluate("navigator.clipboard.readText()")
    assert sentence.startswith("An attacker who wrongly accuses 0.1\u00a0% of the records outside the data")
    assert actions <= 8
