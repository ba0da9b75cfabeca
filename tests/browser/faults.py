"""Faults between the page and the service: answers that are held back, refused, or never come."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from playwright.sync_api import Page, Request, Route

from tests.timeouts import TEST_TIMEOUT

Fault = Literal["held", "500", "422", "network"]
SPEC: Final = "application/vnd.vegalite.v5+json"
KINDS: Final = {
    "words": ("/v1/assessments", "application/json"),
    "pictures": ("/v1/assessments", SPEC),
    "import": ("/v1/imports", "application/json"),
    "comparison": ("/v1/comparisons", "application/json"),
    "compared pictures": ("/v1/comparisons", SPEC),
    "claim": ("/v1/claims", "application/json"),
    "calibration": ("/v1/calibrations", "application/json"),
    "what-if": ("/v1/sweeps", SPEC),
}
"""Path and Accept of every question that the page asks."""
PROBLEM: Final[dict[str, Any]] = {
    "type": "/problems/invalid-request",
    "title": "Invalid request",
    "errors": [{"pointer": "/nowhere/known_to_the_page", "detail": "Send something_else as JSON."}],
}


def kind_of(request: Request) -> str:
    """Return which question of the page a request is."""
    accept = request.headers.get("accept", "")
    return next(
        (name for name, (path, form) in KINDS.items() if request.url.endswith(path) and accept.startswith(form)), ""
    )


class Faults:
    """Faults by kind of question. `held`: requests that wait for `release`."""

    def __init__(self, page: Page) -> None:
        """Stand between the page and the service."""
        self.page = page
        self.by_kind: dict[str, Fault] = {}
        self.held: list[Route] = []
        self.met: list[str] = []
        page.route("**/v1/**", self._pass)

    def _pass(self, route: Route) -> None:
        kind = kind_of(route.request)
        fault = self.by_kind.get(kind)
        if fault is None:
            route.continue_()
            return
        self.met.append(kind)
        if fault == "held":
            self.held.append(route)
        elif fault == "network":
            route.abort()
        else:
            body = json.dumps({**PROBLEM, "status": int(fault)})
            route.fulfill(status=int(fault), content_type="application/problem+json", body=body)

    def wait_for(self, kind: str) -> None:
        """Wait until a question of a kind met its fault."""
        for _ in range(int(TEST_TIMEOUT * 20)):
            if kind in self.met:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{kind} was not asked")

    def release(self) -> None:
        """Let pass what was held, and everything that comes."""
        held, self.held, self.by_kind, self.met = self.held, [], {}, []
        for route in held:
            route.continue_()
