"""Limits on the work of a requester: in memory, in a real Redis for several instances, and over HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.execution import work_limits
from service.execution.client import WaitingClient
from service.execution.errors import ClientGone, OutOfTime, WorkLimitExceeded
from service.execution.work_limits import HIT_UNITS, LARGE_UNITS, WorkLimits
from service.main import create_app
from service.settings import Settings
from service.telemetry.logs import make_logger
from tests.api.requests import ADVANTAGE, GAUSSIAN, bounds
from tests.api.test_decisions import run
from tests.conftest import RedisServer
from tests.execution.fakes import DEAR, FAKE, FakeRequest, logged, make_metrics, make_pool, make_runner
from tests.timeouts import TEST_TIMEOUT

UNITS = 1_000_000


class Clock:
    """Clock of the windows, which a test advances."""

    def __init__(self) -> None:
        self.seconds = 600_000.0

    def __call__(self) -> float:
        return self.seconds


def limits(url: str | None = None, clock: Clock | None = None, log: io.BytesIO | None = None) -> WorkLimits:
    logger = make_logger("info", log or io.BytesIO())
    return WorkLimits(f"{UNITS}/minute", url, make_metrics(), logger, clock or Clock())


@pytest.mark.parametrize("cost", [1_000, LARGE_UNITS, 300_000])
async def test_account_has_room_for_exactly_the_units_of_a_window(cost: int) -> None:
    clock = Clock()
    made = limits(clock=clock)
    account, other = made.account("one"), made.account("two")
    for _ in range(UNITS // cost):
        await account.charge(cost)
    left = UNITS % cost
    assert account.used == UNITS - left
    with pytest.raises(WorkLimitExceeded) as refused:
        await account.charge(left + 1)
    assert (refused.value.estimate, refused.value.limit) == (left + 1, UNITS)
    assert refused.value.retry_after_seconds == 60
    await other.charge(cost)  # another requester has an account of its own
    clock.seconds += 59.5
    assert account.seconds_left() == 1
    with pytest.raises(WorkLimitExceeded):
        await account.charge(left + 1)
    clock.seconds += 0.5
    assert account.used == 0
    await account.charge(UNITS)
    await made.close()


async def test_charge_is_replaced_by_the_work_that_was_done() -> None:
    clock = Clock()
    made = limits(clock=clock)
    account = made.account("one")
    for spent in (0, 100, 700_000):
        charge = await account.charge(500_000)
        before = account.used
        account.settle(charge, spent)
        assert account.used == before - 500_000 + spent
    with pytest.raises(WorkLimitExceeded):
        await account.charge(500_000)
    clock.seconds += 60
    charge = await account.charge(10)
    clock.seconds += 60
    account.settle(charge, 10**9)  # of a window that has ended
    assert account.used == 0
    await made.close()


async def test_work_above_a_whole_window_runs_in_a_fresh_window_only() -> None:
    clock = Clock()
    made = limits(clock=clock)
    account = made.account("one")
    charge = await account.charge(50 * UNITS)
    assert charge.units == account.used == UNITS
    clock.seconds += 60
    await account.charge(1)
    with pytest.raises(WorkLimitExceeded):
        await account.charge(50 * UNITS)
    assert account.used == 1
    await made.close()


async def test_headers_name_quota_window_and_rest() -> None:
    made = limits()
    account = made.account("one")
    await account.charge(1_234)
    assert dict(account.headers()) == {
        b"ratelimit-policy": b'"work";q=1000000;w=60;qu="work-units"',
        b"ratelimit": b'"work";r=998766;t=60',
    }
    await made.close()


async def test_instances_with_one_redis_count_together(redis_url: str) -> None:
    clock = Clock()
    one, two = limits(redis_url, clock), limits(redis_url, clock)
    for made in (one, two) * 5:
        await made.account("group:a").charge(UNITS // 10)
    for made in (one, two):
        with pytest.raises(WorkLimitExceeded):
            await made.account("group:a").charge(LARGE_UNITS)
        await made.account("group:b").charge(LARGE_UNITS)
    clock.seconds += 60
    charge = await one.account("group:a").charge(UNITS)
    with pytest.raises(WorkLimitExceeded):
        await two.account("group:a").charge(LARGE_UNITS)
    one.account("group:a").settle(charge, 10)
    await one.close()
    await asyncio.sleep(work_limits.SEND_SECONDS)
    await two.account("group:a").charge(UNITS - 10)
    await two.close()


async def test_small_charges_reach_the_other_instances(redis_url: str) -> None:
    one, two = limits(redis_url), limits(redis_url)
    for _ in range(200):
        await one.account("a").charge(LARGE_UNITS // 10)
    assert one.account("a").used == UNITS
    await one.close()  # sends what waits
    with pytest.raises(WorkLimitExceeded):
        await two.account("a").charge(LARGE_UNITS)
    await two.close()


async def test_parallel_charges_of_instances_never_exceed_the_limit(redis_url: str) -> None:
    made = [limits(redis_url) for _ in range(4)]
    cost = 70_000
    found = await asyncio.gather(*(each.account("a").charge(cost) for each in made * 10), return_exceptions=True)
    granted = [each for each in found if not isinstance(each, BaseException)]
    assert all(isinstance(each, WorkLimitExceeded) for each in found if isinstance(each, BaseException))
    assert 1 <= len(granted) <= UNITS // cost
    await asyncio.gather(*(each.close() for each in made))


async def test_each_instance_counts_alone_while_redis_is_away(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_limits, "PAUSE_SECONDS", 0.0)
    log = io.BytesIO()
    made = limits(own_redis.url, log=log)
    account = made.account("a")
    await account.charge(UNITS // 2)
    own_redis.kill()
    await account.charge(UNITS // 2)
    with pytest.raises(WorkLimitExceeded):
        await account.charge(LARGE_UNITS)
    own_redis.start()
    account.settle(await made.account("b").charge(LARGE_UNITS), 0)
    states = [json.loads(line)["state"] for line in log.getvalue().splitlines()]
    assert states == ["each process counts alone", "counted together again"]
    await made.close()


async def test_accounts_of_ended_windows_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_limits, "MOST_ACCOUNTS", 10)
    clock = Clock()
    made = limits(clock=clock)
    await made.account("busy").charge(900_000)
    for number in range(100):
        await made.account(f"requester {number}").charge(LARGE_UNITS)
    assert made.account("busy").used == 900_000, "a flood of names does not clear the account with the most work"
    await made.close()


@contextmanager
def application(**values: Any) -> Generator[TestClient]:
    settings = {"redis_url": None, "log_level": "error", "work_limit": f"{UNITS}/day", **values}
    with TestClient(create_app(Settings.model_validate(settings))) as client:
        yield client


def left(answer: Any) -> int:
    found = re.fullmatch(r'"work";r=([0-9]+);t=([0-9]+)', answer.headers["ratelimit"])
    assert found
    assert 1 <= int(found[2]) <= 86_400
    assert answer.headers["ratelimit-policy"] == f'"work";q={UNITS};w=86400;qu="work-units"'
    return int(found[1])


def test_answers_are_charged_by_their_work() -> None:
    with application() as client:
        assert left(client.get("/v1/jobs")) == UNITS, "reading is not work"
        closed = client.post("/v1/bounds", json=bounds())
        rest = left(closed)
        assert 0 < UNITS - rest < 3_000
        again = client.post("/v1/bounds", json=bounds())
        assert rest - left(again) == HIT_UNITS
        before = left(again)
        estimate = client.post("/v1/estimates", json={"resource": "assessments", "request": run()}).json()["cost"]
        assessed = client.post("/v1/assessments", json=run())
        assert assessed.headers["cache-status"] == "privacy-bounds; fwd=miss; stored"
        assert before - left(assessed) > HIT_UNITS
        assert before - left(assessed) != estimate, "the CPU time has replaced the estimate"
        before = left(assessed)
        assert before - left(client.post("/v1/assessments", json=run())) == HIT_UNITS


async def test_work_without_an_answer_is_charged_by_the_time_in_a_worker(tmp_path: Path) -> None:
    """Work that ends without an answer is charged by its time in a worker.

    Otherwise a caller could use a worker until the time limit, or leave shortly before, for the estimate alone.
    """
    metrics, made = make_metrics(), limits()
    pool = make_pool(metrics, time_limit_seconds=0.5)
    runner, account = make_runner(metrics, pool), made.account("one")
    await pool.start()
    with pytest.raises(OutOfTime):
        await runner.run(
            FAKE, FakeRequest(action="sleep", amount=600.0, cost=DEAR), WaitingClient("one", account=account)
        )
    assert account.used == 500_000

    log, account = tmp_path / "log", made.account("two")
    pool._time_limit_seconds = TEST_TIMEOUT

    async def leave() -> None:
        await logged(log)
        await asyncio.sleep(0.2)

    asked = FakeRequest(action="sleep", amount=600.0, cost=DEAR, log=str(log))
    with pytest.raises(ClientGone):
        await runner.run(FAKE, asked, WaitingClient("two", leave, account))
    assert account.used >= 200_000

    async def leave_at_once() -> None:
        await asyncio.sleep(0)

    account = made.account("three")
    with pytest.raises(ClientGone):
        await runner.run(FAKE, asked, WaitingClient("three", leave_at_once, account))
    assert account.used == DEAR, "no worker had begun"
    await made.close()
    await pool.close()


def test_jobs_are_charged_once_and_refused_above_the_limit() -> None:
    sweep = {
        "mechanism": GAUSSIAN,
        "vary": {"/mechanism/noise_multiplier": {"from": 0.5, "to": 5.0, "count": 300}},
        "questions": [ADVANTAGE],
    }
    body = {"resource": "sweeps", "request": sweep}
    with application() as client:
        cost = client.post("/v1/estimates", json=body).json()["cost"]
        keyed = {"Idempotency-Key": "one"}
        first = client.post("/v1/jobs", json=body, headers=keyed)
        assert cost < UNITS
        assert (first.status_code, left(first)) == (202, UNITS - cost)
        again = client.post("/v1/jobs", json=body, headers=keyed)
        assert (again.json()["id"], left(again)) == (first.json()["id"], left(first))
        refused = None
        for _ in range(UNITS // cost + 1):
            refused = client.post("/v1/jobs", json=body)
        assert refused is not None
        assert refused.status_code == 429
        for path in ("", "/results", "/events"):
            assert client.get(f"/v1/jobs/{first.json()['id']}{path}").status_code == 200, "reading goes on"


def test_refusal_names_cost_limit_wait_and_remedy() -> None:
    with application(work_limit="1/minute") as client:
        client.post("/v1/bounds", json=bounds())
        refused = client.post("/v1/assessments", json=run())
        problem = refused.json()
        assert (refused.status_code, problem["type"]) == (429, "/problems/work-limit-exceeded")
        assert (problem["limit"], problem["estimated_cost"] > 1) == (1, True)
        assert "Retry-After" in problem["detail"]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["ratelimit"].startswith('"work";r=0;t=')
        page = client.get(problem["type"], headers={"Accept": "text/html"})
        assert "PRIVACY_BOUNDS_WORK_LIMIT" in page.text
        metrics = client.get("/metrics").text
        assert 'privacy_bounds_rejected_total{reason="work"} 1.0' in metrics
        assert client.post("/v1/bounds", json=bounds()).status_code == 429
        assert 'cache="memory"' not in client.get("/metrics").text, "a refused hit is no result"
        assert client.get("/livez").status_code == client.get("/readyz").status_code == 200


def test_no_limit_means_no_headers() -> None:
    with application(work_limit=None) as client:
        answer = client.post("/v1/bounds", json=bounds())
        assert not {"ratelimit", "ratelimit-policy"} & set(answer.headers)


@pytest.mark.parametrize("text", ["", "0/minute", "10", "10/fortnight", "1e6/minute", "-5/second", "10/0 seconds"])
def test_setting_refuses_other_texts(text: str) -> None:
    with pytest.raises(ValueError, match="units and a window"):
        Settings.model_validate({"work_limit": text})
