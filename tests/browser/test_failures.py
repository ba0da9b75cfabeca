"""Failures are reported in words, and nothing typed is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Watched, wait_for_answer
from tests.browser.gateway import Gateway, gateway
from tests.system.running_server import running_server

REFUSED = "Failed to load resource"
"""Message of the console about any response that is not a 200."""
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "</textarea><svg onload=alert(1)>",
    "' || alert(1) || '",
]


TOLD_IN_BETWEEN = """
  window.told = [];
  document.addEventListener("DOMContentLoaded", () => {
    const status = document.getElementById("status");
    if (status) new MutationObserver(() => window.told.push(status.textContent)).observe(status, { childList: true });
  });
"""


@pytest.fixture
def gateway_url(address: str) -> Iterator[Gateway]:
    with gateway(address) as gateway_url:
        yield gateway_url


@pytest.fixture
def page_behind_gateway(context: BrowserContext, watched: Watched, gateway_url: Gateway) -> Page:
    """Open the page through a gateway."""
    watched.address = gateway_url.address
    watched.expected = (REFUSED,)
    page = context.new_page()
    page.goto(gateway_url.address)
    wait_for_answer(page)
    return page


def problem(page: Page) -> str:
    return page.locator("#problem").inner_text()


def ask(page: Page) -> None:
    page.get_by_role("button", name="Answer", exact=True).click()
    wait_for_answer(page)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'history': [(1.1, 0.004, 3000)], 'mechanism': 'prv'}", "looks like Python"),
        ('{"history": [[1.1, 0.004, 3000]], "mechanism": "prv"', "incomplete or damaged"),
        ("noise_multiplier: 1.1", "YAML"),
        ("<html>", "HTML"),
        ("3", "a single value"),
        ('{"histories": []}', "No supported library"),
        ('{"history": [[1.1, 4, 3000]], "mechanism": "prv"}', "the columns look exchanged"),
        ('{"history": [[-1, 0.1, 3000]], "mechanism": "prv"}', "“history”, number 1, number 1: must be a number of"),
        ('{"history": [], "mechanism": "prv", "more": 1}', "is not a known field of this library"),
    ],
)
def test_unreadable_pasted_text_is_explained(page: Page, watched: Watched, text: str, words: str) -> None:
    watched.expected = (REFUSED,)
    page.select_option("#source", "paste")
    page.fill("#paste", text)
    ask(page)
    sentence = page.locator("#paste-error").inner_text()
    assert words in sentence
    expect(page.locator("#problem")).to_be_visible()
    expect(page.locator("#paste")).to_have_value(text)
    expect(page.locator("#paste")).to_have_attribute("aria-invalid", "true")
    page.fill("#paste", '{"history": [[1.1, 0.004, 3000]], "mechanism": "prv"}')
    ask(page)
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#paste-error")).to_have_count(0)


def test_rejected_field_in_folded_section_is_opened(page: Page, watched: Watched) -> None:
    watched.expected = (REFUSED,)
    page.get_by_text("More about the run").click()
    page.fill("#microbatch", "0")
    page.get_by_text("More about the run").click()
    ask(page)
    expect(page.locator("#microbatch-error")).to_be_visible()


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (401, {}, "API key"),
        (403, {}, "does not allow this request"),
        (429, {"Retry-After": "7"}, "Try again in 7 seconds"),
        (500, {}, "The server failed"),
        (502, {}, "gateway"),
        (503, {"Retry-After": "2"}, "busy"),
        (504, {}, "exceeded the time limit"),
        (200, {"Content-Type": "text/html"}, "incomplete or unexpected"),
    ],
)
def test_every_server_failure_has_words(
    page_behind_gateway: Page, gateway_url: Gateway, status: int, headers: dict[str, str], words: str
) -> None:
    gateway_url.status, gateway_url.headers = status, headers
    page_behind_gateway.fill("#noise", "1.25")
    ask(page_behind_gateway)
    assert words in problem(page_behind_gateway)
    assert "gateway</b>" not in page_behind_gateway.content()
    expect(page_behind_gateway.locator("#noise")).to_have_value("1.25")
    gateway_url.status = None
    page_behind_gateway.get_by_role("button", name="Try again").click()
    assert "differentially private" in wait_for_answer(page_behind_gateway)
    expect(page_behind_gateway.locator("#problem")).to_be_hidden()


def test_api_key_is_requested_sent_and_kept_secret(page_behind_gateway: Page, gateway_url: Gateway) -> None:
    gateway_url.key = "secret-of-the-house"
    ask(page_behind_gateway)
    assert "API key" in problem(page_behind_gateway)
    page_behind_gateway.fill("#key", gateway_url.key)
    ask(page_behind_gateway)
    expect(page_behind_gateway.locator("#problem")).to_be_hidden()
    assert gateway_url.key not in page_behind_gateway.url
    for button in ("as curl", "as Python", "Copy a link to this form"):
        page_behind_gateway.get_by_role("button", name=button, exact=True).click()
        expect(page_behind_gateway.locator("#copied")).to_contain_text("Copied")
        assert gateway_url.key not in page_behind_gateway.evaluate("navigator.clipboard.readText()")
    stored = page_behind_gateway.evaluate("JSON.stringify([history.state, {...localStorage}, {...sessionStorage}])")
    assert gateway_url.key not in stored
    page_behind_gateway.fill("#key", "no key: é")
    ask(page_behind_gateway)
    assert "characters that no key can have" in problem(page_behind_gateway)


def test_page_recovers_when_server_returns(context: BrowserContext, watched: Watched, tmp_path: Path) -> None:
    watched.expected = (REFUSED,)
    page = context.new_page()
    with running_server(tmp_path) as client:
        watched.address = str(client.base_url).rstrip("/")
        page.goto(watched.address)
        wait_for_answer(page)
    page.fill("#noise", "1.4")
    ask(page)
    assert "cannot be reached" in problem(page)
    expect(page.locator("#noise")).to_have_value("1.4")
    expect(page.locator("#answer")).to_be_hidden()


def test_request_beyond_time_limit_continues_as_job(context: BrowserContext, watched: Watched, tmp_path: Path) -> None:
    """A request beyond the time limit continues as a job.

    The work takes seconds, because the time limit is checked every tenth of a second.
    """
    run = {"sampling": "fixed_with_replacement"}
    link = "#2:" + quote(json.dumps({"runs": [run], "active": 0}))
    watched.expected = (REFUSED,)
    page = context.new_page()
    with running_server(tmp_path, time_limit_seconds="0.004") as client:
        watched.address = str(client.base_url).rstrip("/")
        page.add_init_script(TOLD_IN_BETWEEN)
        page.goto(watched.address + "/" + link)
        assert "1e-5)-differentially private" in wait_for_answer(page)
        assert any("continues as a job" in each for each in page.evaluate("window.told"))
        expect(page.locator("#problem")).to_be_hidden()
        page.goto("about:blank")


@pytest.mark.parametrize("text", HOSTILE)
def test_request_text_never_becomes_markup(page: Page, watched: Watched, address: str, text: str) -> None:
    watched.expected = (REFUSED,)
    elements = "document.querySelectorAll('script, img, iframe, object, embed, [onerror], [onload]').length"
    before = page.evaluate(elements)
    page.get_by_role("button", name="Compare with another run").click()
    wait_for_answer(page)
    page.fill("#name", text)
    ask(page)
    page.fill("#noise", text)
    ask(page)
    page.fill("#noise", "1.1")
    page.fill("#name", "again")
    page.locator("#assumptions summary").first.click()
    page.get_by_label("Attested by").first.fill(text)
    page.get_by_label("Attested by").first.press("Tab")
    wait_for_answer(page)
    page.select_option("#source", "paste")
    page.fill("#paste", json.dumps({"history": text, text: text}))
    ask(page)
    assert page.evaluate(elements) == before
    typed = {"runs": [{"name": text, "noise": text, "paste": text}], "attested": {text: {"holds": "yes", "by": text}}}
    other = page.context.new_page()
    other.goto(f"{address}/#2:{quote(json.dumps(typed))}")
    wait_for_answer(other)
    assert other.evaluate(elements) == before


def test_text_cannot_become_script_by_any_dom_sink(page: Page, watched: Watched) -> None:
    watched.expected = ("Content Security Policy", "TrustedHTML", "TrustedScript", "Trusted Type")
    # A debugger may evaluate more. A timer callback belongs to the page itself.
    failed = page.evaluate("""() => new Promise(resolve => setTimeout(() => {
        const failed = [];
        for (const [name, go] of Object.entries({
            eval: () => window.eval("1 + 1"),
            Function: () => new Function("return 1")(),
            innerHTML: () => { document.createElement("div").innerHTML = "<b>x</b>" },
            script: () => {
                const script = document.createElement("script");
                script.append("window.ran = 1");
                document.head.append(script);
                if (window.ran === undefined) throw new Error("did not run");
            },
            handler: () => {
                const button = document.createElement("button");
                button.setAttribute("onclick", "window.clicked = 1");
                document.body.append(button);
                button.click();
                if (window.clicked === undefined) throw new Error("did not run");
            },
        })) try { go() } catch (error) { failed.push(name) }
        resolve(failed) }, 0))""")
    assert failed == ["eval", "Function", "innerHTML", "script", "handler"]
