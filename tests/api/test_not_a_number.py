"""NaN and infinities anywhere in the body of any route are invalid JSON: status 400, with a pointer to each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from api_schemas.sweeps import escaped
from tests.api.requests import JSON
from tests.contract.published_document import PATH

PATHS: dict[str, Any] = json.loads(PATH.read_text("utf-8"))["paths"]
ROUTES = {
    route: [
        example["value"] for example in item["post"]["requestBody"]["content"]["application/json"]["examples"].values()
    ]
    for route, item in PATHS.items()
    if "post" in item
}
MARK = "here stands no number"


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place


def replaced(value: Any, place: tuple[str | int, ...]) -> Any:
    copy = json.loads(json.dumps(value))
    held = copy
    for key in place[:-1]:
        held = held[key]
    held[place[-1]] = MARK
    return copy


@pytest.mark.parametrize("route", ROUTES)
def test_nan_or_infinity_anywhere_returns_400_with_pointer(client: TestClient, route: str) -> None:
    generator = np.random.default_rng(5)
    for example in ROUTES[route]:
        places = list(leaves(example))
        for chosen in generator.choice(len(places), min(6, len(places)), replace=False):
            place, word = places[chosen], str(generator.choice(["NaN", "Infinity", "-Infinity"]))
            body = json.dumps(replaced(example, place)).replace(f'"{MARK}"', word)
            answer = client.post(route, content=body, headers=JSON)
            assert answer.status_code == 400
            problem = answer.json()
            assert problem["type"] == "/problems/malformed-json"
            assert [error["pointer"] for error in problem["errors"]] == [
                "".join(f"/{escaped(str(key))}" for key in place)
            ]


def test_nan_as_string_returns_422(client: TestClient) -> None:
    """The string "NaN" in place of a number gives status 422, because strings are no numbers."""
    body = {"mechanism": {"type": "gaussian", "noise_multiplier": "NaN"}, "questions": [{"type": "advantage"}]}
    assert client.post("/v1/bounds", content=json.dumps(body), headers=JSON).status_code == 422
