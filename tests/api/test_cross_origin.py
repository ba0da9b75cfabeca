"""Pages of listed origins may call the service from a browser; pages of other origins may not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from service.api.cross_origin import PREFLIGHT_SECONDS, RESPONSE_HEADERS
from service.main import create_app
from service.settings import ConfigurationError, Settings, read_settings
from tests.api.requests import ROUTE, bounds

LISTED = ("https://dashboard.example.com", "http://localhost:5173", "https://[::1]:8443")
OTHER = ("https://example.com", "https://dashboard.example.com.evil.org", "https://DASHBOARD.example.com", "null")
BODY = bounds({"type": "gaussian", "noise_multiplier": 3.25})


@pytest.fixture(scope="module")
def open_client() -> Iterator[TestClient]:
    settings = Settings(redis_url=None, log_level="error", cors_origins=LISTED)
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.mark.parametrize("origin", LISTED)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_preflight_of_listed_origin_is_allowed(open_client: TestClient, origin: str, method: str) -> None:
    asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "content-type, prefer"}
    answer = open_client.options(ROUTE, headers={"Origin": origin} | asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert method in answer.headers["access-control-allow-methods"].split(", ")
    assert {"content-type", "prefer"} <= set(answer.headers["access-control-allow-headers"].lower().split(", "))
    assert answer.headers["access-control-max-age"] == str(PREFLIGHT_SECONDS)
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", LISTED)
@pytest.mark.parametrize("path", [ROUTE, "/v1/version", "/nowhere", "/v1/sweeps"])
def test_every_answer_to_listed_origin_can_be_read(open_client: TestClient, origin: str, path: str) -> None:
    """A page of a listed origin can read every answer, and every problem.

    Both paths of dispatch are tested: the fast one and that of the framework.
    """
    answer = open_client.request("POST" if path == ROUTE else "GET", path, json=BODY, headers={"Origin": origin})
    assert answer.headers["access-control-allow-origin"] == origin
    assert "Origin" in answer.headers["vary"]
    assert answer.headers["access-control-expose-headers"] == ", ".join(RESPONSE_HEADERS)


@pytest.mark.parametrize("origin", OTHER)
def test_other_origin_gets_no_permission(open_client: TestClient, origin: str) -> None:
    preflight = open_client.options(ROUTE, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 400
    answer = open_client.get("/v1/version", headers={"Origin": origin})
    for response in (preflight, answer):
        assert "access-control-allow-origin" not in response.headers


def test_no_origin_is_allowed_by_default(client: TestClient) -> None:
    answer = client.post(ROUTE, json=BODY, headers={"Origin": LISTED[0]})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "value",
    [
        "*",
        '["*"]',
        '["null"]',
        "https://dashboard.example.com",
        '"https://dashboard.example.com"',
        "{}",
        "[1]",
        '["https://dashboard.example.com/"]',
        '["https://Dashboard.example.com"]',
        '["https://dashboard.example.com:443"]',
        '["https://*.example.com"]',
        '["https://user@dashboard.example.com"]',
        '["dashboard.example.com"]',
        '["ftp://dashboard.example.com"]',
        '["https://dashboard.example.com:99999"]',
        '["https://[::1"]',
        '["https://a.example.com", "https://"]',
    ],
)
def test_invalid_origin_is_rejected_at_start(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_CORS_ORIGINS", value)
    with pytest.raises(ConfigurationError, match="PRIVACY_BOUNDS_CORS_ORIGINS is not accepted: "):
        read_settings()


def test_origins_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_CORS_ORIGINS", json.dumps(LISTED))
    assert read_settings().cors_origins == LISTED
    with pytest.raises(ValidationError):
        Settings(cors_origins=("*",))
