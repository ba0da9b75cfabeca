"""No response contains a negative zero: every function that writes JSON, every example, and a space of requests."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from api_schemas.base import Response, json_bytes, without_negative_zeros
from service.privacy.errors import PrivacyComputationError
from service.resources.abstract import Computation
from service.resources.catalogue import resource, resources
from tests.resources.nested_space import any_nested
from tests.resources.request_space import any_request
from tests.slow_marker import thorough

DEAREST = 30_000
"""Cost of a request in microseconds. More expensive requests are tested in longer runs."""


def read_number(text: str) -> float:
    number = float(text)
    assert number != 0 or math.copysign(1.0, number) > 0, f"{text} is a negative zero"
    return number


def parse_without_negative_zeros(body: bytes) -> Any:
    """Return the document, parsed by a parser that rejects negative zeros."""
    return json.loads(body, parse_float=read_number, parse_int=read_number)


class Numbers(Response):
    value: float
    list: tuple[float, ...]


def document(random: np.random.Generator, depth: int = 4) -> Any:
    """Draw any JSON value with many zeros of both signs, and texts that resemble them."""
    leaves = (
        0.0,
        -0.0,
        -0.05,
        -1e-300,
        -10.0,
        1,
        None,
        True,
        "-0.0",
        ',-0.0,"',
        '\\",-0.0]',
        "\\",
        'a"-0.0}',
        "ä-0.0,",
    )
    kind = random.integers(4) if depth else 0
    if kind < 2:
        return leaves[random.integers(len(leaves))]
    if kind == 2:
        return [document(random, depth - 1) for _ in range(random.integers(5))]
    return {f'{place}"-0.0,': document(random, depth - 1) for place in range(random.integers(5))}


@pytest.mark.parametrize("seed", range(200))
def test_other_content_is_unchanged(seed: int) -> None:
    sent = document(np.random.default_rng([20261201, seed]))
    compact = json.dumps(sent, separators=(",", ":"), ensure_ascii=False).encode()
    written = without_negative_zeros(compact)
    assert parse_without_negative_zeros(written) == sent
    assert written.count(b'"') == compact.count(b'"')
    assert json_bytes({"it": sent}) == b'{"it":' + json_bytes(sent) + b"}"
    parse_without_negative_zeros(json_bytes({"it": sent}))


def test_both_serialisers_write_no_negative_zero() -> None:
    fields: dict[str, Any] = {"value": -0.0, "list": (-0.0, -0.5, -0.0)}
    expected = b'{"value":0.0,"list":[0.0,-0.5,0.0]}'
    assert json_bytes(fields) == Numbers(**fields).json_bytes() == json_bytes(Numbers(**fields)) == expected


@pytest.mark.parametrize("computation", resources(), ids=lambda each: each.name)
def test_examples_have_no_negative_zero(computation: Computation[Any, Any]) -> None:
    for example in computation.examples.values():
        request = computation.request_type.model_validate_json(json.dumps(example["value"]))
        assert parse_without_negative_zeros(computation.body(request, "sha256:" + "0" * 64, "any"))


def pmp(random: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Draw few objects and points, many of them equal."""
    points = random.integers(-1, 2, (4, 1)).astype(float) * random.choice([1.0, -0.0])
    objects = random.integers(0, 2, (2, 1)).astype(float) * random.choice([1.0, 0.0])
    sent = {"points": points.tolist(), "objects": objects.tolist(), "clip_radius": 2.0}
    return "pmp-exponential", sent | {"epsilon": float(random.choice([0.5, 8.0]))}


@pytest.mark.parametrize("seed", [*range(6), *map(thorough, range(6, 60))])
def test_answers_have_no_negative_zero(seed: int) -> None:
    random = np.random.default_rng([20261202, seed])
    for draw in (any_request, pmp, *([any_nested] if seed % 6 == 0 else ())):
        name, sent = draw(random)
        computation = resource(name)
        try:
            request = computation.request_type.model_validate_json(json.dumps(sent))
            if computation.quote(request).cost <= DEAREST:
                parse_without_negative_zeros(computation.body(request, "sha256:" + "0" * 64, "any"))
        except (ValidationError, PrivacyComputationError):
            continue


def test_equal_objects_have_swap_bound_of_zero() -> None:
    computation = resource("pmp-exponential")
    sent = {"epsilon": 1.0, "points": [[0.0], [1.0]], "objects": [[0.5], [0.5]], "clip_radius": 1.0}
    request = computation.request_type.model_validate_json(json.dumps(sent))
    assert b'"swap_bound":0.0' in computation.body(request, "sha256:" + "0" * 64, "any")
