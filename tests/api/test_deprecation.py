"""Deprecated routes say so in every response, as RFC 9745 and RFC 8594 define; other routes do not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime

import pytest
from starlette.testclient import TestClient

from service.api import deprecation
from service.api.deprecation import SHORTEST_NOTICE, Deprecation
from service.main import create_app
from service.server import application
from service.settings import Settings
from tests.api.requests import ADVANTAGE, GAUSSIAN

SINCE = datetime(2026, 11, 27, tzinfo=UTC)
GONE = Deprecation(SINCE, SINCE + timedelta(days=200), "/guide/versions.html")
ROUTES = {"/v1/bounds": GONE, "/v1/version": GONE, "/v1/jobs/{job_id}": GONE}


@pytest.fixture(scope="module")
def deprecating() -> Iterator[TestClient]:
    """Return a client of an application with three deprecated routes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "DEPRECATED", ROUTES)
        app = create_app(Settings(redis_url=None, log_level="error"))
    with TestClient(app) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/bounds", 200),
        ("POST", "/v1/bounds", 422),
        ("GET", "/v1/version", 200),
        ("HEAD", "/v1/version", 200),
        ("GET", "/v1/jobs/unknown", 404),
    ],
)
def test_deprecated_route_names_its_dates_and_page(
    deprecating: TestClient, method: str, path: str, status: int
) -> None:
    body = {"mechanism": GAUSSIAN, "questions": [ADVANTAGE]} if status == 200 else {}
    answer = deprecating.request(method, path, json=body if method == "POST" else None)
    assert answer.status_code == status
    assert answer.headers["deprecation"] == f"@{int(SINCE.timestamp())}"
    assert parsedate_to_datetime(answer.headers["sunset"]) == GONE.sunset
    assert '</guide/versions.html>; rel="deprecation"' in answer.headers["link"]


@pytest.mark.parametrize("path", ["/v1/limits", "/livez", "/nowhere"])
def test_other_routes_have_no_such_header(deprecating: TestClient, path: str) -> None:
    answer = deprecating.get(path)
    assert not {"deprecation", "sunset"} & set(answer.headers)


def test_nothing_is_deprecated_now(client: TestClient) -> None:
    assert deprecation.DEPRECATED == {}
    assert "deprecation" not in client.get("/v1/version").headers


def test_short_notice_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least"):
        Deprecation(SINCE, SINCE + SHORTEST_NOTICE - timedelta(days=1), "/guide/versions.html")


@pytest.mark.parametrize("zones", [(None, UTC), (UTC, None), (None, None)])
def test_time_without_zone_is_an_error(zones: tuple[tzinfo | None, tzinfo | None]) -> None:
    """A deprecation time without a time zone is an error.

    The headers would otherwise depend on the time zone of the machine.
    """
    since, sunset = (
        time.replace(tzinfo=zone) for time, zone in zip((SINCE, SINCE + 2 * SHORTEST_NOTICE), zones, strict=True)
    )
    with pytest.raises(ValueError, match="time zone"):
        Deprecation(since, sunset, "/guide/versions.html")
