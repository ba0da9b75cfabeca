"""Wrong methods and wrong parameters of every documented path name what is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from tests.contract.published_document import PATH

DOCUMENT: Final[dict[str, Any]] = json.loads(PATH.read_text("utf-8"))
PATHS: Final[dict[str, Any]] = DOCUMENT["paths"]
UNLISTED: Final = {"/": {"GET"}, "/docs": {"GET"}, "/guide/": {"GET"}, "/errata": {"GET"}, "/openapi.json": {"GET"}}
METHODS: Final = {path: {method.upper() for method in item} for path, item in PATHS.items()} | UNLISTED
IDS: Final = {"{job_id}": "0" * 32, "{digest}": "0" * 64, "{id}": "0" * 64, "{name}": "not-found"}


def address(path: str) -> str:
    for name, value in IDS.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("path", METHODS)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST", "GET"])
def test_wrong_method_lists_allowed_ones(client: TestClient, path: str, method: str) -> None:
    if method in METHODS[path]:
        return
    answer = client.request(method, address(path))
    allowed = METHODS[path] | ({"HEAD"} if "GET" in METHODS[path] else set())
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed
    assert answer.json()["type"] == "/problems/method-not-allowed"
    assert all(name in answer.json()["detail"] for name in allowed)


def parameters() -> Iterator[tuple[str, str, str, str]]:
    """Yield the path and name of each parameter, a value out of its range, and what the error has to contain."""
    for path, item in PATHS.items():
        for given in item.get("get", {}).get("parameters", []):
            name = given.get("$ref", "").rpartition("/")[2]
            each: dict[str, Any] = DOCUMENT["components"]["parameters"][name] if name else given
            if each["in"] != "query":
                continue
            schema = each["schema"].get("anyOf", [each["schema"]])[0]
            if "minimum" in schema:
                yield path, each["name"], str(schema["minimum"] - 1), str(schema["minimum"])
                yield path, each["name"], "many", str(schema["minimum"])
            if "maximum" in schema:
                yield path, each["name"], str(schema["maximum"] + 1), str(schema["maximum"])
            if "maxLength" in schema:
                yield path, each["name"], "x" * (schema["maxLength"] + 1), str(schema["maxLength"])


@pytest.mark.parametrize(("path", "name", "value", "bound"), list(parameters()))
def test_parameter_outside_of_its_range_names_the_range(
    client: TestClient, path: str, name: str, value: str, bound: str
) -> None:
    answer = client.get(address(path), params={name: value})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["detail"].startswith(f"{name}: Must ")
    assert f" {bound}" in error["detail"].rstrip(".")


def test_every_documented_range_is_tested() -> None:
    assert len(list(parameters())) >= 8
