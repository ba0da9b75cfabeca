"""Chromium with a real service. Screenshots and timings are saved in build/browser."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.system.running_server import running_server
from tests.timeouts import TEST_TIMEOUT

KEPT = Path(__file__).parents[2] / "build" / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW_TO_INSTALL = (
    "No Chromium was found. On Debian and Ubuntu: apt-get install -y --no-install-recommends chromium "
    "fonts-dejavu-core; elsewhere name one by CHROMIUM=/path/to/it."
)
LONGEST_MS = 1000 * TEST_TIMEOUT
"""Milliseconds within which an expected event must happen, whatever else the machine does."""
expect.set_options(timeout=LONGEST_MS)
DESKTOP: Any = {"width": 1440, "height": 1000}
PHONE: Any = {"width": 390, "height": 844}


def chromium() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.exit(HOW_TO_INSTALL, returncode=2)
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium(), headless=True, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("service")) as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture(scope="session")
def artifacts() -> Path:
    KEPT.mkdir(parents=True, exist_ok=True)
    return KEPT


@pytest.fixture(scope="session")
def timings(artifacts: Path) -> Iterator[dict[str, Any]]:
    """Collect timings in milliseconds. They are written to a file and not asserted."""
    times: dict[str, Any] = {}
    yield times
    if times:
        (artifacts / "times.json").write_text(json.dumps(times, indent=2) + "\n", "utf-8")


class Watched:
    """Checks that a page never fails, never breaks its policy, and contacts no other host."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.wrong: list[str] = []
        self.expected: tuple[str, ...] = ()
        context.on("weberror", lambda error: self.wrong.append(str(error.error)))
        context.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        context.on("request", lambda request: self._asked(request.url))
        context.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(f"asked {url}")

    def check(self) -> None:
        assert [each for each in self.wrong if not any(word in each for word in self.expected)] == []


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(LONGEST_MS)
    yield context
    context.close()


@pytest.fixture
def watched(context: BrowserContext, address: str) -> Iterator[Watched]:
    watched = Watched(context, address)
    yield watched
    watched.check()


@pytest.fixture
def page(context: BrowserContext, watched: Watched, address: str) -> Page:
    """Yield the page with its first answer."""
    page = context.new_page()
    page.goto(address)
    wait_for_answer(page)
    return page


def wait_for_answer(page: Page) -> str:
    """Wait until all requests of the page are answered, and return the five sentences that it shows."""
    page.wait_for_selector("html[data-state=settled]", state="attached", timeout=LONGEST_MS)
    return page.locator("#sentences").inner_text().replace("\u00a0", " ")
