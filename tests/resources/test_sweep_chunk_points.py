"""Chunks of a sweep: together they are the sweep, for any chunk size and combination of its numbers."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any, TypeVar

import pytest

from api_schemas.long_sweeps import LongSweepsRequest
from api_schemas.sweeps import SweepsRequest
from service.resources.sweeps.chunks import CHUNKING
from service.resources.sweeps.estimates import sweeps_quote

SEED = 20264
Model = TypeVar("Model", SweepsRequest, LongSweepsRequest)
RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
QUESTIONS = [{"type": "epsilon", "delta": 1e-5}]


def read(model: type[Model], sent: dict[str, Any]) -> Model:
    return model.model_validate_json(json.dumps(sent))


def answered_points(piece: SweepsRequest) -> list[tuple[float, ...]]:
    """Return the points that a chunk answers, among those of their blocks."""
    return list(piece.points())[piece.asked_points.start : piece.asked_points.stop]


def sweep(source: random.Random, combine: str) -> dict[str, Any]:
    """Draw ranges and lists of odd lengths, of integers and other numbers."""
    sizes = [source.randint(2, 9) for _ in range(3)] if combine == "product" else [source.randint(2, 40)] * 3
    listed = [source.uniform(0.5, 4.0) for _ in range(sizes[0])]
    vary = {
        "/mechanism/noise_multiplier": {"values": listed},
        "/mechanism/steps": {"from": 1, "to": 10_000, "count": sizes[1], "spacing": source.choice(["linear", "log"])},
        "/questions/0/delta": {"from": 1e-9, "to": 1e-3, "count": sizes[2], "spacing": "log"},
    }
    return {"mechanism": RUN, "vary": vary, "combine": combine, "questions": QUESTIONS}


@pytest.mark.parametrize("combine", ["product", "zip"])
def test_chunks_have_the_points_of_the_sweep_in_order(combine: str) -> None:
    source = random.Random(SEED)
    for _ in range(20):
        sent = sweep(source, combine)
        whole, long = read(SweepsRequest, sent), read(LongSweepsRequest, sent)
        points = list(whole.points())
        assert CHUNKING.points(long) == len(points) == len(list(long.points_at(range(len(points)))))
        cuts = sorted({0, len(points), *(source.randrange(len(points)) for _ in range(4))})
        pieces = [CHUNKING.chunk_request(long, start, stop) for start, stop in itertools.pairwise(cuts)]
        assert [point for piece in pieces for point in answered_points(piece)] == points
        assert all(piece.places == whole.places for piece in pieces)
        assert sweeps_quote(whole) == sweeps_quote(long)


def test_last_points_of_a_million_are_built_alone() -> None:
    vary = {"/mechanism/noise_multiplier": {"from": 0.5, "to": 50.0, "count": 1_000_000, "spacing": "log"}}
    long = read(LongSweepsRequest, {"mechanism": RUN, "vary": vary, "questions": QUESTIONS})
    assert CHUNKING.points(long) == 1_000_000
    [*_, last] = answered_points(CHUNKING.chunk_request(long, 999_990, 1_000_000))
    assert last == (50.0,)
