"""Requests that reach their time limit in a worker: what is known by then is sent, and nothing is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from api_schemas.bounds import BoundsRequest
from api_schemas.sweeps import SweepsRequest, SweepsResponse
from service.execution.worker import WorkerResult
from service.resources.bounds import BOUNDS
from service.resources.digest import digest
from service.resources.sweeps.sweeping import SWEEPS
from service.telemetry.metrics import Metrics
from tests.execution.fakes import ENGINE_VERSION, make_pool, make_runner
from tests.resources.sweep_cases import NAMED, parsed

LIMIT_SECONDS = 6.0
OUT_OF_TIME = "/problems/out-of-time"
ONE_BY_ONE: dict[str, Any] = {
    "type": "composed",
    "mechanisms": [
        {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.011, "steps": 700},
        {"type": "dpsgd", "noise_multiplier": 1.3, "sample_rate": 0.013, "steps": 900},
    ],
}
TOGETHER: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 0.6, "sample_rate": 0.01, "steps": 12}


def long_sweep(mechanism: dict[str, Any], place: str) -> SweepsRequest:
    """Return a sweep that takes minutes."""
    vary = {place: {"from": 0.6, "to": 0.9, "count": 4_000}}
    questions = [{"type": "epsilon", "delta": 1e-5}, {"type": "reconstruction", "baseline_success": 1e-3}]
    return parsed({"mechanism": mechanism, "vary": vary, "questions": questions})


@pytest.mark.parametrize(
    "request_",
    [
        long_sweep(ONE_BY_ONE, "/mechanism/mechanisms/0/noise_multiplier"),
        long_sweep(TOGETHER, "/mechanism/noise_multiplier"),
    ],
    ids=["one by one", "together"],
)
async def test_finished_points_are_sent_and_the_rest_are_problems(metrics: Metrics, request_: SweepsRequest) -> None:
    pool = make_pool(metrics, preloaded_modules=("service.resources.sweeps.sweeping",))
    runner = make_runner(metrics, pool, max_cost=10**12)
    await pool.start()
    pool._time_limit_seconds = LIMIT_SECONDS
    answer = await runner.run(SWEEPS, request_)
    await pool.close()
    response = SweepsResponse.model_validate_json(answer.body)
    late = [problem.point for problem in response.problems]
    assert {problem.type for problem in response.problems} == {OUT_OF_TIME}
    assert response.points == request_.point_count == len(response.answers[0].value)
    assert late == list(range(late[0], response.points)), "points are answered in their order"
    assert [index for index, value in enumerate(response.answers[0].value) if value is None] == late
    assert all(column.tolerance_met[index] for column in response.answers for index in range(late[0])), "none is cut"
    assert answer.cache == "unstored"
    assert runner.cached(SWEEPS, digest(SWEEPS.name, ENGINE_VERSION, request_)) is None
    asked = request_.asked(request_.places, next(iter(request_.points())))
    alone = json.loads(BOUNDS.body(asked, NAMED, ENGINE_VERSION))["answers"][0]
    lower, upper = response.answers[0].lower[0], response.answers[0].upper[0]
    assert max(lower or 0.0, alone["lower"]) <= min(upper or 0.0, alone["upper"])


async def test_sweep_within_its_time_limit_is_stored(metrics: Metrics) -> None:
    request = parsed(
        {
            "mechanism": TOGETHER,
            "vary": {"/mechanism/steps": {"values": [500, 600]}},
            "questions": [{"type": "epsilon", "delta": 1e-5}],
        }
    )
    pool = make_pool(metrics, preloaded_modules=("service.resources.sweeps.sweeping",))
    runner = make_runner(metrics, pool, max_cost=10**12)
    try:
        assert [(await runner.run(SWEEPS, request)).cache for _ in range(2)] == ["computed", "memory"]
    finally:
        await pool.close()


async def test_bounds_end_early_in_the_worker(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of the cost estimate travels to the worker in place of the resource, and ends early as well."""
    request = BoundsRequest.model_validate_json(
        json.dumps({"mechanism": ONE_BY_ONE, "questions": [{"type": "epsilon", "delta": 1e-5}]})
    )
    pool = make_pool(metrics, preloaded_modules=("service.resources.bounds",))
    sent: list[bool] = []
    compute = pool.compute

    async def record(*call: Any, ends_early: bool = False) -> WorkerResult:
        sent.append(ends_early)
        return replace(await compute(*call), is_complete=False)

    monkeypatch.setattr(pool, "compute", record)
    runner = make_runner(metrics, pool, max_cost=10**12)
    try:
        answers = [await runner.run(BOUNDS, request) for _ in range(2)]
    finally:
        await pool.close()
    assert sent == [True, True]
    assert {answer.cache for answer in answers} == {"unstored"}
