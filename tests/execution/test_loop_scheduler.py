"""Time slicing of steps that are ready together: the event loop runs between them, and steps keep their order."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from service.execution import loop_scheduler
from service.execution.loop_scheduler import SLICE_SECONDS, LoopTimeSlicer

SEED = 20261


async def test_event_loop_runs_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one slice and one step pass between two rounds of the loop, however many steps are ready (simulated
    clock).
    """
    source = random.Random(SEED)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(loop_scheduler, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    gate = LoopTimeSlicer()
    done: list[int] = []

    async def step(number: int, seconds: float) -> None:
        await gate.acquire()
        clock.now += seconds
        done.append(number)

    async def looks() -> float:
        longest = 0.0
        while len(done) < len(steps) - len(given_up):
            before = clock.now
            await asyncio.sleep(0)
            longest = max(longest, clock.now - before)
        return longest

    for _ in range(20):
        done.clear()
        seconds = [source.choice((0.0, 1e-4, 0.02)) for _ in range(60)]
        steps = [asyncio.create_task(step(number, taken)) for number, taken in enumerate(seconds)]
        given_up: set[int] = set()
        looking = asyncio.create_task(looks())
        await asyncio.sleep(0)
        for number in source.sample(range(60), 5):
            if number not in done and steps[number].cancel():
                given_up.add(number)
        assert await looking <= SLICE_SECONDS + 0.02 + 1e-9
        assert done == [number for number in range(60) if number not in given_up]


async def test_single_step_does_not_wait() -> None:
    gate = LoopTimeSlicer()
    for _ in range(3):
        with pytest.raises(StopIteration):
            gate.acquire().send(None)
        await asyncio.sleep(0)
