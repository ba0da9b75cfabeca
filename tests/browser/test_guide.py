"""The guide and the reference in a browser: no policy violation, a working search, examples to copy and to send."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.browser.conftest import DESKTOP, LONGEST_MS, PHONE, Watched
from tests.browser.test_appearance import violations

PAGES = ("index", "errata", "samplers", "requests")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("look", "viewport"), [("wide", DESKTOP), ("phone", PHONE)])
def test_guide_pages_load_without_violations(
    browser: Browser, address: str, artifacts: Path, name: str, look: str, viewport: ViewportSize
) -> None:
    context = browser.new_context(viewport=viewport, color_scheme="dark" if look == "phone" else "light")
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(f"{address}/guide/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    page.screenshot(path=artifacts / f"guide-{name}-{look}.png")
    assert violations(page) == []
    watched.check()
    context.close()


def test_guide_search_opens_found_page(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESKTOP)
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(f"{address}/guide/")
    page.get_by_label("Search").fill("shuffled batch")
    with page.expect_navigation():  # The previous page has the same words and the same field.
        page.locator("#found a").first.click()
    expect(page.locator("main")).to_contain_text("shuffled")
    page.get_by_label("Search").fill("zzzzqqqq")
    expect(page.locator("#found")).to_have_text("Nothing found.")
    watched.check()
    context.close()


def test_guide_search_finds_absent_and_renamed_things(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.goto(f"{address}/guide/")
    words = {
        "authentication": "Authentication",
        "CORS": "Operating",
        "offline": "Operating",
        "Windows": "Operating",
        "MCP": "Others",
        "kappa": "Papers and symbols",
        "cite": "How to cite",
        "deprecation": "Versions and deprecation",
        "resumed": "BatchMemoryManager, accumulated batches, resumed runs",
    }
    for word, title in words.items():
        page.get_by_label("Search").fill(word)
        expect(page.locator("#found a", has_text=title).first).to_be_visible()
    context.close()


def test_example_names_own_host_and_is_copied(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"])
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(f"{address}/guide/requests.html")
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"curl -s {address}/v1/bounds ")
    assert copied.rstrip().endswith("'")
    assert "Copy" not in copied
    watched.check()
    context.close()


def test_reference_follows_colour_scheme(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESKTOP, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{address}/docs")
    expect(page.locator("html.dark-mode .swagger-ui").first).to_be_visible()
    page.emulate_media(color_scheme="light")
    expect(page.locator("html:not(.dark-mode) .swagger-ui").first).to_be_visible()
    context.close()


def test_errata_anchor_scrolls_to_entry(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(f"{address}/errata#rero-clt")
    expect(page.locator("#rero-clt")).to_be_in_viewport()
    context.close()


def test_reference_page_sends_request(browser: Browser, address: str, artifacts: Path) -> None:
    context = browser.new_context(viewport=DESKTOP)
    watched = Watched(context, address)
    page = context.new_page()
    page.goto(f"{address}/docs#/discovery/limits")
    page.locator("button.execute").click(timeout=LONGEST_MS)
    expect(page.locator(".live-responses-table tbody .response-col_status").first).to_contain_text("200")
    page.screenshot(path=artifacts / "reference.png")
    watched.check()
    context.close()
