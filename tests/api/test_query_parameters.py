"""Routes for programs reject query parameters that they do not know, and pages and probes ignore them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from starlette.testclient import TestClient

VALUES: Final = {"{job_id}": "0" * 32, "{digest}": "sha256:" + "0" * 64, "{id}": "sha256:" + "0" * 64}


DOCUMENT: Final = json.loads((Path(__file__).parents[2] / "api_schemas" / "openapi.json").read_text("utf-8"))
OPERATIONS: Final = {path: operations["get"] for path, operations in DOCUMENT["paths"].items() if "get" in operations}
FOR_PROGRAMS: Final = [path for path in OPERATIONS if path.startswith("/v1/")]
PROBES: Final = [path for path in OPERATIONS if path not in FOR_PROGRAMS]


def filled(path: str) -> str:
    for name, value in VALUES.items():
        path = path.replace(name, value)
    assert "{" not in path, "add the parameter to VALUES"
    return path


@pytest.mark.parametrize("path", FOR_PROGRAMS)
def test_unknown_parameter_is_named_with_the_known_ones(client: TestClient, path: str) -> None:
    response = client.get(filled(path), params={"no_such": "secret"})
    assert response.status_code == 422
    problem = response.json()
    assert problem["type"] == "/problems/invalid-parameter"
    assert problem["detail"].startswith("no_such: Unknown parameter. ")
    assert "secret" not in response.text
    assert problem["errors"] == [{"pointer": "", "detail": problem["detail"]}]
    operation = OPERATIONS[path]
    assert "422" in operation["responses"]
    known = [each["name"] for each in operation.get("parameters", []) if each.get("in") == "query"]
    expected = f"The parameters are: {', '.join(known)}." if known else "This path takes no query parameters."
    assert problem["detail"].endswith(expected)


@pytest.mark.parametrize("path", FOR_PROGRAMS)
def test_known_parameters_are_accepted(client: TestClient, path: str) -> None:
    operation = OPERATIONS[path]
    known = {
        each["name"]: each["schema"].get("default")
        for each in operation.get("parameters", [])
        if each.get("in") == "query" and each["schema"].get("default") is not None
    }
    response = client.get(filled(path), params=known)
    assert "Unknown parameter" not in response.text


def test_nearest_parameter_is_suggested(client: TestClient) -> None:
    detail = client.get("/v1/jobs?limt=3").json()["detail"]
    assert detail == "limt: Unknown parameter. Did you mean `limit`? The parameters are: limit, cursor."


def test_several_parameters_are_named_briefly(client: TestClient) -> None:
    names = [f"{index}{'x' * 500}" for index in range(20)]
    detail = client.get("/v1/version", params=dict.fromkeys(names, "")).json()["detail"]
    assert detail.startswith("0xxx")
    assert "Unknown parameters. This path takes no query parameters." in detail
    assert len(detail) < 500


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/problems/not-found", *PROBES])
def test_pages_and_probes_ignore_unknown_parameters(client: TestClient, path: str) -> None:
    without, tracked = client.get(path), client.get(path, params={"utm_source": "mail", "v": "7"})
    assert without.status_code == tracked.status_code == 200
