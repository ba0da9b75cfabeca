"""Mechanisms that are no training run: each is reachable on the page, with an example."""

from __future__ import annotations

import json
from typing import Any, get_args
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from api_schemas.discrete_mechanisms import DiscreteMechanism
from api_schemas.fields import type_of
from tests.browser.conftest import Watched, wait_for_answer
from tests.browser.test_messages import open_page, typed_message, vocabulary

ELSEWHERE = {"zcdp"}
"""Types that the page offers under "Only an epsilon, a mu or a rho"."""
NEW = {type_of(model) for model in get_args(DiscreteMechanism)} | {"zcdp", "rdp", "selected", "shuffled_reports"}


def sent(page: Page) -> dict[str, Any]:
    """Return the mechanism of the request that the button sends."""
    with page.expect_request("**/v1/assessments") as request:
        page.get_by_role("button", name="Answer", exact=True).click()
    mechanism: dict[str, Any] = json.loads(request.value.post_data or "")["mechanism"]
    return mechanism


def test_every_mechanism_answers_its_example(page: Page, watched: Watched) -> None:
    watched.expected = ("504",)  # Charts of shuffled reports may reach the time limit on a busy machine.
    page.select_option("#source", "law")
    wait_for_answer(page)
    found = set[str]()
    for law in page.locator("#law option").evaluate_all("each => each.map(one => one.value)"):
        page.select_option("#law", law)
        found.add(sent(page)["type"])
        assert "differentially private" in wait_for_answer(page), law
        expect(page.locator("#problem")).to_be_hidden()
        assert page.locator("#run input:visible").count() >= 1
        assert vocabulary(page.locator("body").inner_text()) == set(), law
    assert found == NEW - ELSEWHERE


def test_repeated_mechanism_reveals_more(page: Page) -> None:
    page.select_option("#source", "law")
    page.select_option("#law", "discrete_gaussian")
    assert sent(page) == {"type": "discrete_gaussian", "sigma": 5, "sensitivity": 1}
    once = wait_for_answer(page)
    page.fill("#law-times", "20")
    run = sent(page)
    assert (run["type"], run["steps"]) == ("repeated", 20)
    assert wait_for_answer(page) != once
    other = page.context.new_page()
    other.goto(page.url)
    wait_for_answer(other)
    expect(other.locator("#law-times")).to_have_value("20")


@pytest.mark.parametrize(
    ("run", "field", "text", "words"),
    [
        ({"law": "discrete_gaussian"}, "law-sigma", "1,5", "Use a decimal point: 1.5"),
        ({"law": "discrete_gaussian", "lawTimes": "20"}, "law-sensitivity", "1.5", "Must be a whole number"),
        ({"law": "discrete_gaussian"}, "law-times", "0", "Must be at least 1"),
        ({"law": "shuffled_any"}, "law-reports", "", "Fill this in"),
        ({"law": "shuffled_responses"}, "law-options", "1", "Must be at least 2"),
        ({"law": "unary_encoding"}, "law-true-bit", "0.1", "more likely for a bit of the true value"),
        ({"law": "sparse_vector"}, "law-positives", "-1", "Must be at least 1"),
        ({"law": "selected"}, "law-mean", "0", "Must be at least 1"),
        ({"law": "rdp"}, "law-orders", "0.5, 2, 4, 8, 16", "rising numbers of at least 1"),
        ({"law": "rdp"}, "law-bounds", "4, 3, 2, 1, 0.5", "They do not fall"),
    ],
)
def test_wrong_number_has_a_message_at_its_field(
    page: Page, watched: Watched, address: str, run: dict[str, str], field: str, text: str, words: str
) -> None:
    watched.expected = ("Failed to load resource",)
    open_page(page, address, {"runs": [{"source": "law", **run}]})
    assert words in typed_message(page, field, text)
    assert vocabulary(page.locator("body").inner_text()) == set()


def test_made_up_mechanism_of_a_link_is_the_first_one(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}/#2:{quote(json.dumps({'runs': [{'source': 'law', 'law': 'none'}]}))}")
    assert "differentially private" in wait_for_answer(page)
    expect(page.locator("#law")).to_have_value("randomized_response")
