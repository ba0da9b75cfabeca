"""Every route by every method and every state of credentials: nothing is answered or refused by mistake.

The routes come from the application itself, so that a new route is in the matrix. Its scope comes from the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.testclient import TestClient

from service.access.caller import SCOPES
from service.api.operators import operator_application
from service.api.route_scopes import route_scopes
from service.main import create_app
from service.server.application import access_layer
from service.settings import Settings
from tests.access.keys import bearer, make_key
from tests.access.test_tokens import AUDIENCE, ISSUER, JWKS, token
from tests.slow_marker import thorough

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
FILLED = {
    "digest": "sha256:" + "0" * 64,
    "id": "sha256:" + "0" * 64,
    "job_id": "0123456789abcdefghijklmnopqrstuv",
    "name": "out-of-time",
    "path": "index.html",
    "build": "none",
}
NO_ROUTES = (
    "/nothing",
    "/v1",
    "/v1/",
    "/v1/bounds/",
    "//v1/bounds",
    "/V1/bounds",
    "/operate",
    "/v1/ledgers",
    "/livez/",
)
REFUSALS = {401: "/problems/unauthenticated", 403: "/problems/missing-scope"}


def served_paths(app: FastAPI) -> set[str]:
    """Return the paths of all routes of an application, with their parameters."""
    return {str(route.path) for route in iter_route_contexts(app.router.routes) if route.path}


def address(path: str) -> str:
    """Return an address with values in place of the parameters."""
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: FILLED[found[1]], path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def app(folder: Path) -> FastAPI:
    key_set = folder / "jwks.json"
    key_set.write_text(json.dumps(JWKS))
    return create_app(
        Settings(
            data_folder=folder,
            redis_url=None,
            log_level="critical",
            token_issuer=ISSUER,
            token_audience=AUDIENCE,
            token_jwks=str(key_set),
        )
    )


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield client


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    """Return an API key for each scope alone, by the scope. The keys are stored in the folder."""
    return {scope: make_key(folder, scope) for scope in sorted(SCOPES)}


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    """Return a token for each scope alone, by the scope."""
    return {scope: token("EdDSA", scope=f"openid {scope}") for scope in sorted(SCOPES)}


def test_every_route_has_a_scope(app: FastAPI) -> None:
    """Every route has a scope in the table of scopes, and every route of the table is served.

    A new route has to be added to the table.
    """
    served = served_paths(app) | {"/operate/jobs", "/operate/jobs/{job_id}"}
    assert served - route_scopes().keys() == set()
    assert route_scopes().keys() - served <= {"/.well-known/{path:path}"}


def check(
    client: TestClient, paths: list[str], methods: tuple[str, ...], keys: dict[str, str], wrong: list[str]
) -> int:
    """Send every request of the matrix of paths, methods and keys.

    Return their number, and fail at the first unexpected answer.
    """
    scopes, count = route_scopes(), 0
    for path in paths:
        needed = scopes.get(path, "authenticated")
        states = [None, *wrong, *keys]
        for method in methods:
            for state in states:
                sent = {} if state is None else bearer(keys.get(state, state))
                status = client.request(method, address(path), headers=sent, follow_redirects=False).status_code
                is_known = state in keys
                expected = (
                    None
                    if needed == "open" or (is_known and needed in (state, "authenticated"))
                    else 403
                    if is_known
                    else 401
                )
                told = f"{method} {path} with {state!r:.30} gave {status}"
                assert (status == expected) if expected else (status not in REFUSALS), told
                count += 1
    return count


@pytest.mark.parametrize("methods", [("GET", "POST"), thorough(METHODS)], ids=len)
def test_matrix_of_routes_methods_and_credentials(
    app: FastAPI, client: TestClient, keys: dict[str, str], folder: Path, methods: tuple[str, ...]
) -> None:
    expired = make_key(folder, *SCOPES, expires_in_seconds=-1)
    other_secret = keys["compute"][:-1] + ("A" if keys["compute"][-1] != "A" else "B")
    wrong = [expired, other_secret, "nothing"]
    paths = [*sorted(served_paths(app)), *NO_ROUTES]
    assert check(client, paths, methods, keys, wrong) == len(paths) * len(methods) * (1 + len(wrong) + len(keys))


@pytest.mark.parametrize("methods", [("GET",), thorough(METHODS)], ids=len)
def test_matrix_of_routes_methods_and_tokens(
    app: FastAPI, client: TestClient, tokens: dict[str, str], methods: tuple[str, ...]
) -> None:
    changed: list[dict[str, Any]] = [{"exp": 1}, {"aud": "other"}, {"iss": "other"}]
    wrong = [token(scope=" ".join(SCOPES), **changes) for changes in changed]
    paths = [*sorted(served_paths(app)), *NO_ROUTES]
    assert check(client, paths, methods, tokens, wrong) == len(paths) * len(methods) * (1 + len(wrong) + len(tokens))


@pytest.mark.parametrize("ending", ["%0A", "%0D%0A", "%00", "%3F"])
def test_no_ending_of_a_path_gives_a_route_without_its_scope(
    app: FastAPI, client: TestClient, keys: dict[str, str], ending: str
) -> None:
    """A path with an additional ending never reaches a route without its scope.

    The patterns of the router ignore a line feed at the end. The key has a scope that no route needs.
    """
    scopes = route_scopes()
    for path in sorted(served_paths(app)):
        if scopes[path] not in ("open", "authenticated"):
            found = client.get(f"{address(path)}{ending}", headers=bearer(keys["ledgers:read"]))
            assert found.status_code in (307, 403, 404, 405), f"{path}{ending} gave {found.status_code}"


def test_matrix_of_operator_port(app: FastAPI, client: TestClient, keys: dict[str, str]) -> None:
    """The operator port answers and refuses every route as its table says.

    It has its own application, with the access layer of the public port.
    """
    services = client.app_state["services"]
    layers: dict[str, Any] = {repr(each.cls): each.cls for each in app.user_middleware}
    [protection] = [layer for name, layer in layers.items() if "AccessLayer" in name]
    [telemetry] = [layer for name, layer in layers.items() if "HttpTelemetry" in name]
    operators = operator_application(services, telemetry, protection)
    with TestClient(operators, raise_server_exceptions=False) as theirs:
        paths = sorted(served_paths(operators))
        assert "/operate/jobs/{job_id}" in paths
        assert check(theirs, paths, METHODS, keys, ["nothing"]) == len(paths) * len(METHODS) * (2 + len(keys))


def test_refusals_are_problems_with_a_challenge(client: TestClient, keys: dict[str, str]) -> None:
    """Refusals are problems with a challenge in the header `WWW-Authenticate`.

    The sentences are the same whatever is wrong, and name neither key nor caller.
    """
    none, wrong, other = (
        client.get("/v1/jobs", headers=sent) for sent in ({}, bearer("wrong"), bearer(keys["compute"]))
    )
    assert [each.json()["type"] for each in (none, wrong, other)] == [REFUSALS[401], REFUSALS[401], REFUSALS[403]]
    assert none.json()["detail"] == wrong.json()["detail"]
    assert none.headers["WWW-Authenticate"] == 'Bearer realm="privacy-bounds"'
    assert wrong.headers["WWW-Authenticate"] == 'Bearer realm="privacy-bounds", error="invalid_token"'
    challenge = 'Bearer realm="privacy-bounds", error="insufficient_scope", scope="jobs"'
    assert other.headers["WWW-Authenticate"] == challenge
    for each in (none, wrong, other):
        assert each.headers["Content-Type"] == "application/problem+json"
        assert each.headers["Cache-Control"] == "no-store"
        assert client.get(each.json()["type"]).status_code == 200


def test_details_of_readiness_need_a_scope(client: TestClient, keys: dict[str, str]) -> None:
    assert client.get("/readyz?verbose").status_code == 401
    assert client.get("/readyz?verbose=", headers=bearer("wrong")).status_code == 401
    assert client.get("/readyz?a=b&verbose=1", headers=bearer(keys["compute"])).status_code == 403
    assert client.get("/readyz?verbose", headers=bearer(keys["metrics"])).json()["checks"]
    for sent in ({}, bearer("wrong"), bearer(keys["compute"])):
        assert client.get("/readyz", headers=sent).json()["checks"] == []


def test_job_by_preference_needs_the_scope_of_jobs(client: TestClient, keys: dict[str, str], folder: Path) -> None:
    request = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [{"type": "advantage"}]}
    prefer = {"Prefer": "respond-async"}
    refused = client.post("/v1/bounds", json=request, headers=bearer(keys["compute"]) | prefer)
    assert (refused.status_code, refused.json()["type"]) == (403, REFUSALS[403])
    both = bearer(make_key(folder, "compute", "jobs"))
    assert client.post("/v1/bounds", json=request, headers=both | prefer).status_code in (200, 202)


def test_preflights_need_no_credentials(folder: Path) -> None:
    origin = "https://dashboard.example.com"
    settings = Settings(
        require_authentication=True, data_folder=folder, redis_url=None, log_level="critical", cors_origins=(origin,)
    )
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    with TestClient(create_app(settings)) as client:
        allowed = client.options("/v1/bounds", headers=asked)
        assert allowed.status_code == 200
        assert "authorization" in allowed.headers["Access-Control-Allow-Headers"].lower()
        refused = client.post("/v1/bounds", headers={"Origin": origin})
        assert refused.status_code == 401
        assert refused.headers["Access-Control-Allow-Origin"] == origin  # so that the page can show the problem


def test_nothing_is_asked_without_authentication() -> None:
    app = create_app(Settings(redis_url=None, log_level="critical"))
    assert access_layer(None)(app) is app
    with TestClient(app) as client:
        assert client.get("/v1/jobs", headers=bearer("wrong")).status_code == 200
        assert client.get("/readyz?verbose").json()["checks"]
