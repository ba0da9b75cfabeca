"""The guide and the reference in a browser: the policy refuses nothing, the search finds, a request is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.browser.conftest import DESKTOP, LONGEST_MS, PHONE, Watched
from tests.browser.test_looks import violations

PAGES = ("index", "errata", "samplers", "requests")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("look", "viewport"), [("wide", DESKTOP), ("phone", PHONE)])
def test_pages_of_the_guide(
    browser: Browser, address: str, kept: Path, name: str, look: str, viewport: ViewportSize
) -> None:
    context = browser.new_context(viewport=viewport, color_scheme="dark" if look == "phone" else "light")
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(f"{address}/guide/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    page.screenshot(path=kept / f"guide-{name}-{look}.png")
    assert violations(page) == []
    watched.check()
    context.close()


def test_the_search_finds_and_leads_there(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESKTOP)
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(f"{address}/guide/")
    page.get_by_label("Search").fill("shuffled batch")
    with page.expect_navigation():  # the page before has the same words and the same field
        page.locator("#found a").first.click()
    expect(page.locator("main")).to_contain_text("shuffled")
    page.get_by_label("Search").fill("zzzzqqqq")
    expect(page.locator("#found")).to_have_text("Nothing found.")
    watched.check()
    context.close()


def test_a_correction_is_found_by_its_address(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(f"{address}/errata#rero-clt")
    expect(page.locator("#rero-clt")).to_be_in_viewport()
    context.close()


def test_a_request_of_the_reference_is_sent(browser: Browser, address: str, kept: Path) -> None:
    context = browser.new_context(viewport=DESKTOP)
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(f"{address}/docs#/discovery/limits")
    page.locator("button.execute").click(timeout=LONGEST_MS)
    expect(page.locator(".live-responses-table tbody .response-col_status").first).to_contain_text("200")
    page.screenshot(path=kept / "reference.png")
    watched.check()
    context.close()
