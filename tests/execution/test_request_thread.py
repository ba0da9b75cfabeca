"""Long requests are parsed beside the event loop: one at a time, requesters in turn, and no long step of the loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from service.execution import request_thread as module
from service.execution.errors import QueueFull
from service.execution.request_thread import MAX_QUEUED_CALLS, RequestThread
from tests.execution.loop_steps import outcome_of, runner_without_workers, steps
from tests.resources.large_requests import KINDS, large_request
from tests.slow_marker import thorough

LONGEST_SECONDS = 0.05
"""CPU seconds. Parsing in the loop takes less than 20 ms, or more on a machine with other work."""


async def test_requesters_take_turns() -> None:
    aside, gate, order = RequestThread(), threading.Event(), list[str]()
    first = asyncio.create_task(aside.call("first", gate.wait))
    await asyncio.sleep(0)
    calls = [aside.call(name[0], order.append, name) for name in ("a1", "a2", "a3", "b1", "b2", "c1")]
    waiting = asyncio.gather(*calls)
    await asyncio.sleep(0.02)
    gate.set()
    await asyncio.gather(first, waiting)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_error_is_raised_and_next_call_runs() -> None:
    aside = RequestThread()
    found = await asyncio.gather(
        aside.call("a", int, "no number"), aside.call("a", int, "7"), aside.call("b", int, "8"), return_exceptions=True
    )
    assert isinstance(found[0], ValueError)
    assert found[1:] == [7, 8]


async def test_newcomer_replaces_last_call_of_largest_requester() -> None:
    aside, gate = RequestThread(), threading.Event()
    running = asyncio.create_task(aside.call("flood", gate.wait))
    await asyncio.sleep(0)
    flood = [asyncio.create_task(aside.call("flood", int, number)) for number in range(MAX_QUEUED_CALLS)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await aside.call("flood", int, 1)
    polite = asyncio.create_task(aside.call("polite", int, 5))
    with pytest.raises(QueueFull):
        await flood[-1]
    gate.set()
    assert await polite == 5
    assert await asyncio.gather(running, *flood[:-1]) == [True, *range(MAX_QUEUED_CALLS - 1)]


async def test_cancelled_calls_block_no_other() -> None:
    aside, gate = RequestThread(), threading.Event()
    calls = [asyncio.create_task(aside.call(name, gate.wait)) for name in ("a", "b", "b", "c")]
    await asyncio.sleep(0.02)
    calls[1].cancel()
    calls[0].cancel()  # The call goes on in its thread.
    await asyncio.sleep(0.02)
    gate.set()
    assert await asyncio.gather(*calls[2:]) == [True, True]
    assert await aside.call("d", int, 3) == 3


def parts(count: int, first: float) -> dict[str, Any]:
    made = [{"type": "gaussian", "noise_multiplier": first + number / 100} for number in range(count)]
    return {"type": "composed", "mechanisms": made}


@pytest.mark.parametrize("seed", range(20))
async def test_any_order_of_arrivals_and_cancellations_keeps_queue_consistent(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue of requests to parse stays consistent for any order of arrivals and cancellations.

    Only QueueFull is raised, and a later call runs at once.
    """
    monkeypatch.setattr(module, "MAX_QUEUED_CALLS", 6)
    random, line = np.random.default_rng(seed), RequestThread()
    calls: list[asyncio.Task[int]] = []
    for _ in range(300):
        if random.random() < 0.6:
            calls.append(asyncio.create_task(line.call(f"requester {random.integers(4)}", int, 1)))
        elif calls:
            calls[random.integers(len(calls))].cancel()
        if random.random() < 0.4:
            await asyncio.sleep(0)
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in found} == {int, QueueFull, asyncio.CancelledError}
    assert await asyncio.wait_for(line.call("another", int, 2), 5) == 2


async def test_steps_of_the_loop_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of the event loop is short while it serves sweeps, comparisons and imports of many parts.

    These requests once blocked it longest.
    """
    runner = runner_without_workers()
    bodies: list[tuple[str, Any]] = [
        (
            "sweeps",
            {
                "mechanism": parts(256, 1.0),
                "vary": {"/mechanism/mechanisms/0/noise_multiplier": {"from": 1, "to": 2, "count": 40}},
                "questions": [{"type": "epsilon", "delta": 1e-5}],
            },
        ),
        (
            "comparisons",
            {
                "runs": [{"name": f"run {each}", "mechanism": parts(256, 1.0 + each)} for each in range(8)],
                "questions": [{"type": "epsilon", "delta": 1e-5}],
            },
        ),
    ]
    for name, body in bodies:
        await outcome_of(
            runner, name, {**body, "questions": [{"type": "advantage"}]}
        )  # the first request imports modules
        with steps(monkeypatch) as found:
            assert await outcome_of(runner, name, body) == "NobodyComputes"
        assert max(found) < LONGEST_SECONDS, name


@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 12))])
async def test_random_large_requests_have_no_long_step(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random, runner = np.random.default_rng(seed), runner_without_workers()
    longest: dict[str, float] = {}
    for _ in range(2):  # Modules loaded by the first requests are not timed again.
        for name in KINDS:
            _, body = large_request(random, (name,))
            with steps(monkeypatch) as found:
                await outcome_of(runner, name, body)
            longest[name] = max(found)
    assert max(longest.values()) < LONGEST_SECONDS, longest
