"""Checks of a running service: its version and its readiness."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from service.doctor.finding import Finding
from service.engine_version import ENGINE_VERSION
from service.settings import PREFIX

TIMEOUT_SECONDS: Final = 5.0


def check_service(url: str) -> Iterator[Finding]:
    """Yield whether the service at the address `url` is ready, and has the version of this installation.

    A degraded service and another engine version are warnings. A service that requires credentials lists its checks for
    the key in PRIVACY_BOUNDS_API_KEY, if it has the scope `metrics`. Without such a key only the verdict is known.
    """
    import httpx2

    try:
        with httpx2.Client(base_url=url, timeout=TIMEOUT_SECONDS, headers=_credentials()) as client:
            ready, version = client.get("/readyz?verbose"), client.get("/v1/version")
            if ready.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                ready = client.get("/readyz")
            report: dict[str, Any] = ready.json()
            running = str(version.json()["engine_version"])
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError) as error:
        remedy = "Start the service, or correct --url."
        yield Finding("service", "failed", f"The service does not answer at {url}: {type(error).__name__}.", remedy)
        return
    if running != ENGINE_VERSION:
        sentence = f"The service has engine version {running}, and this installation {ENGINE_VERSION}."
        yield Finding("service", "warning", sentence, "Finish the upgrade, or run the doctor of the other version.")
    status = report.get("status")
    if status == "ready":
        yield Finding("service", "ok", "The service is ready.")
        return
    wrong = "; ".join(
        f"{each['name']}: {each['detail']}" for each in report.get("checks", ()) if each["status"] != "ok"
    )
    level = "warning" if status == "degraded" else "failed"
    yield Finding("service", level, f"The service is {status}. {wrong}".strip(), "See the guide, Operating, Health.")


def _credentials() -> dict[str, str]:
    key = os.environ.get(f"{PREFIX}API_KEY", "")
    return {"Authorization": f"Bearer {key}"} if key.isascii() and key.isprintable() and key else {}
