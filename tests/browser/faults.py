"""Faults between the page and the service: responses that are delayed, rejected, or never sent."""

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
"""Path and Accept header of every request of the page."""
PROBLEM: Final[dict[str, Any]] = {
    "type": "/problems/invalid-request",
    "title": "Invalid request",
    "errors": [{"pointer": "/nowhere/known_to_the_page", "detail": "Send something_else as JSON."}],
}


def kind_of(request: Request) -> str:
    """Return the kind of request that the page sends."""
    accept = request.headers.get("accept", "")
    return next(
        (name for name, (path, form) in KINDS.items() if request.url.endswith(path) and accept.startswith(form)), ""
    )


class Faults:
    """Faults by kind of request. `held` lists the requests that wait for `release`."""

    def __init__(self, page: Page) -> None:
        """Register a handler for all requests of the page."""
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
        """Wait until a request of a kind has met its fault."""
        for _ in range(int(TEST_TIMEOUT * 20)):
            if kind in self.met:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{kind} was not asked")

    def release(self) -> None:
        """Continue the delayed requests and all later ones."""
        held, self.held, self.by_kind, self.met = self.held, [], {}, []
        for route in held:
            route.continue_()
