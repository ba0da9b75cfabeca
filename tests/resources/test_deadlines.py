"""Requests whose time is over: bounds that are proved by then contain the truth, over the whole request space."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from service.execution import worker
from service.importers.catalogue import validate_with_imports
from service.parsing import RequestBodyError, parse_request
from service.privacy.errors import PrivacyComputationError
from service.resources.catalogue import resource
from service.resources.deadlines import ends_after
from tests.frozen.answers import DIGEST, ENGINE
from tests.resources.request_space import any_request, body

CHEAP = 30_000
"""Estimated microseconds up to which a request is computed here."""
EARLY = ("bounds", "curves", "comparisons")


def _numbers(answer: Any) -> list[dict[str, Any]]:
    """Return all enclosures in an answer, in their order."""
    if isinstance(answer, dict):
        own = [answer] if {"lower", "upper"} <= answer.keys() else []
        return own + [number for value in answer.values() for number in _numbers(value)]
    return [number for value in answer for number in _numbers(value)] if isinstance(answer, list) else []


def _meet(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two enclosures, or all enclosures of two lists, have a common number."""
    ends = [[np.array(each[end], dtype=float) for end in ("lower", "upper")] for each in (one, other)]
    low, high = np.fmax(ends[0][0], ends[1][0]), np.fmin(ends[0][1], ends[1][1])
    return not bool((low > high).any())


def _without_time(name: str, sent: dict[str, Any]) -> int:
    """Return how many enclosures without any time contain those with time."""
    computation = resource(name)
    try:
        request = parse_request(computation.request_type, json.dumps(sent).encode(), validate_with_imports)
        if computation.quote(request).cost > CHEAP:
            return 0
        with ends_after(0.0):
            early = json.loads(computation.body(request, DIGEST, ENGINE))
        full = json.loads(computation.body(request, DIGEST, ENGINE))
    except (RequestBodyError, PrivacyComputationError, ValidationError):
        return 0
    early_numbers, full_numbers = _numbers(early), _numbers(full)
    assert len(early_numbers) == len(full_numbers)
    for late, known in zip(early_numbers, full_numbers, strict=True):
        if isinstance(known["lower"], list) and len(known["lower"]) != len(late["lower"]):
            continue
        assert _meet(late, known), sent
    return len(full_numbers)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 8))])
def test_bounds_without_time_contain_the_truth(seed: int) -> None:
    found = 0
    for index in range(60):
        random = np.random.default_rng([23, seed, index])
        name, sent = any_request(random) if index % 2 else ("bounds", body(random))
        if name in EARLY:
            found += _without_time(name, sent)
    assert found > 20


def test_answers_cut_by_time_are_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "DEADLINE_SHARE", 0.0)
    computation = resource("bounds")
    run = {"type": "dpsgd", "noise_multiplier": 0.8, "sample_rate": 0.01, "steps": 300}
    sent = {"mechanism": run, "questions": [{"type": "epsilon", "delta": 1e-5}, {"type": "advantage"}]}
    request = parse_request(computation.request_type, json.dumps(sent).encode(), validate_with_imports)
    late, on_time = (worker.execute(computation, request, DIGEST, ENGINE, 60.0, early) for early in (True, False))
    assert isinstance(late, worker.WorkerResult)
    assert isinstance(on_time, worker.WorkerResult)
    assert not late.is_complete
    assert on_time.is_complete
    cut = json.loads(late.body)["answers"]
    assert {answer["limit"]["code"] for answer in cut} == {"time_spent"}


def test_wide_bracket_that_time_cut_does_not_say_that_no_request_narrows_it() -> None:
    """Time is the reason also for answers between two theorems, because a later request may be narrower."""
    sent = {
        "mechanism": {
            "type": "composed",
            "mechanisms": [{"type": "zcdp", "rho": 0.3}, {"type": "laplace", "noise_multiplier": 1.5}],
        },
        "questions": [{"type": "epsilon", "delta": 1e-5}],
    }
    computation = resource("bounds")
    request = parse_request(computation.request_type, json.dumps(sent).encode(), validate_with_imports)
    codes = []
    for seconds in (0.0, math.inf):
        with ends_after(seconds):
            (answer,) = json.loads(computation.body(request, DIGEST, ENGINE))["answers"]
        codes.append(answer["limit"]["code"])
    assert codes == ["time_spent", "two_theorems"]
