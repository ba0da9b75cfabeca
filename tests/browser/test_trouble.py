"""What goes wrong is said in words, and nothing typed is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Watched, answered
from tests.browser.gateway import Gateway, gateway
from tests.system.running_server import running_server

REFUSED = "Failed to load resource"
"""What the console says of any answer that is no 200."""
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
def told(address: str) -> Iterator[Gateway]:
    with gateway(address) as told:
        yield told


@pytest.fixture
def behind(context: BrowserContext, watched: Watched, told: Gateway) -> Page:
    """The page through a gateway."""
    watched.address = told.address
    watched.expected = (REFUSED,)
    page = context.new_page()
    page.goto(told.address)
    answered(page)
    return page


def problem(page: Page) -> str:
    return page.locator("#problem").inner_text()


def ask(page: Page) -> None:
    page.get_by_role("button", name="Answer", exact=True).click()
    answered(page)


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
def test_what_is_pasted_and_cannot_be_read(page: Page, watched: Watched, text: str, words: str) -> None:
    watched.expected = (REFUSED,)
    page.select_option("#source", "paste")
    page.fill("#paste", text)
    ask(page)
    said = page.locator("#paste-error").inner_text()
    assert words in said
    expect(page.locator("#problem")).to_be_visible()
    expect(page.locator("#paste")).to_have_value(text)
    expect(page.locator("#paste")).to_have_attribute("aria-invalid", "true")
    page.fill("#paste", '{"history": [[1.1, 0.004, 3000]], "mechanism": "prv"}')
    ask(page)
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#paste-error")).to_have_count(0)


def test_a_folded_field_that_is_refused_is_opened(page: Page, watched: Watched) -> None:
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
def test_what_a_server_may_answer(
    behind: Page, told: Gateway, status: int, headers: dict[str, str], words: str
) -> None:
    told.status, told.headers = status, headers
    behind.fill("#noise", "1.25")
    ask(behind)
    assert words in problem(behind)
    assert "gateway</b>" not in behind.content()
    expect(behind.locator("#noise")).to_have_value("1.25")
    told.status = None
    behind.get_by_role("button", name="Try again").click()
    assert "differentially private" in answered(behind)
    expect(behind.locator("#problem")).to_be_hidden()


def test_a_key_is_asked_for_sent_and_told_to_nobody(behind: Page, told: Gateway) -> None:
    told.key = "secret-of-the-house"
    ask(behind)
    assert "API key" in problem(behind)
    behind.fill("#key", told.key)
    ask(behind)
    expect(behind.locator("#problem")).to_be_hidden()
    assert told.key not in behind.url
    for button in ("as curl", "as Python", "Copy a link to this form"):
        behind.get_by_role("button", name=button, exact=True).click()
        expect(behind.locator("#copied")).to_contain_text("Copied")
        assert told.key not in behind.evaluate("navigator.clipboard.readText()")
    stored = behind.evaluate("JSON.stringify([history.state, {...localStorage}, {...sessionStorage}])")
    assert told.key not in stored
    behind.fill("#key", "no key: é")
    ask(behind)
    assert "characters that no key can have" in problem(behind)


def test_a_server_that_goes_away_and_comes_back(context: BrowserContext, watched: Watched, tmp_path: Path) -> None:
    watched.expected = (REFUSED,)
    page = context.new_page()
    with running_server(tmp_path) as client:
        watched.address = str(client.base_url).rstrip("/")
        page.goto(watched.address)
        answered(page)
    page.fill("#noise", "1.4")
    ask(page)
    assert "cannot be reached" in problem(page)
    expect(page.locator("#noise")).to_have_value("1.4")
    expect(page.locator("#answer")).to_be_hidden()


def test_what_nobody_may_wait_for_goes_on_as_a_job(context: BrowserContext, watched: Watched, tmp_path: Path) -> None:
    """Seconds of work, as the limit is looked at every tenth of a second."""
    run = {"sampling": "fixed_with_replacement"}
    link = "#2:" + quote(json.dumps({"runs": [run], "active": 0}))
    watched.expected = (REFUSED,)
    page = context.new_page()
    with running_server(tmp_path, time_limit_seconds="0.004") as client:
        watched.address = str(client.base_url).rstrip("/")
        page.add_init_script(TOLD_IN_BETWEEN)
        page.goto(watched.address + "/" + link)
        assert "1e-5)-differentially private" in answered(page)
        assert any("continues as a job" in each for each in page.evaluate("window.told"))
        expect(page.locator("#problem")).to_be_hidden()
        page.goto("about:blank")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_request_becomes_markup(page: Page, watched: Watched, address: str, text: str) -> None:
    watched.expected = (REFUSED,)
    elements = "document.querySelectorAll('script, img, iframe, object, embed, [onerror], [onload]').length"
    before = page.evaluate(elements)
    page.get_by_role("button", name="Compare with another run").click()
    answered(page)
    page.fill("#name", text)
    ask(page)
    page.fill("#noise", text)
    ask(page)
    page.fill("#noise", "1.1")
    page.fill("#name", "again")
    page.locator("#assumptions summary").first.click()
    page.get_by_label("Attested by").first.fill(text)
    page.get_by_label("Attested by").first.press("Tab")
    answered(page)
    page.select_option("#source", "paste")
    page.fill("#paste", json.dumps({"history": text, text: text}))
    ask(page)
    assert page.evaluate(elements) == before
    typed = {"runs": [{"name": text, "noise": text, "paste": text}], "attested": {text: {"holds": "yes", "by": text}}}
    other = page.context.new_page()
    other.goto(f"{address}/#2:{quote(json.dumps(typed))}")
    answered(other)
    assert other.evaluate(elements) == before


def test_text_cannot_become_a_script_by_any_door(page: Page, watched: Watched) -> None:
    watched.expected = ("Content Security Policy", "TrustedHTML", "TrustedScript", "Trusted Type")
    # What a debugger evaluates is allowed more; what a timer calls later is the page's own.
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
