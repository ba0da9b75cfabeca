"""The service with a clock in its event loop: `python -m benchmarks.http.sampled_service PORT`.

The clock schedules a tick every 2 ms. `GET /gaps` returns the longest gap between two ticks since the last call, in
seconds. `wall` is the full gap. `blocked` subtracts the time in which the thread was runnable but had no core, as Linux
reports it. `cpu` is the CPU time of the thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass
from typing import Final

import uvicorn
import uvloop
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.main import create_app
from service.settings import Settings

TICK_SECONDS: Final = 0.002


@dataclass(frozen=True)
class Tick:
    """Times of a thread so far, in seconds: wall clock, CPU time, and time runnable without a core."""

    wall: float
    cpu: float
    ready: float

    @staticmethod
    def now(schedule: int) -> Tick:
        ready = int(os.pread(schedule, 100, 0).split()[1]) / 1e9
        return Tick(time.perf_counter(), time.thread_time(), ready)


def open_schedule() -> int:
    """Open the schedstat file of this thread, for `Tick.now`."""
    return os.open("/proc/thread-self/schedstat", os.O_RDONLY)


@dataclass
class Gaps:
    """Longest times without progress of an event loop so far, in seconds.

    `schedule` comes from `open_schedule` in the thread of the loop.
    """

    schedule: int
    wall: float = 0.0
    blocked: float = 0.0
    cpu: float = 0.0

    def watch(self, loop: asyncio.AbstractEventLoop, last: Tick) -> None:
        """Record a tick and schedule the next one.

        The loop calls this timer before any other ready callback. A task that sleeps would wait for several rounds of
        the loop, each with a request of every connection.
        """
        tick = Tick.now(self.schedule)
        self.add(last, tick, TICK_SECONDS)
        loop.call_later(TICK_SECONDS, self.watch, loop, tick)

    def add(self, last: Tick, tick: Tick, wanted: float = 0.0) -> None:
        """Record the time between two ticks of the loop minus `wanted`, the scheduled time."""
        wall = tick.wall - last.wall - wanted
        self.wall = max(self.wall, wall)
        self.blocked = max(self.blocked, wall - (tick.ready - last.ready))
        self.cpu = max(self.cpu, tick.cpu - last.cpu)

    async def answer(self, _: Request) -> Response:
        body = json.dumps({"wall": self.wall, "blocked": self.blocked, "cpu": self.cpu})
        self.wall = self.blocked = self.cpu = 0.0
        return Response(body, media_type="application/json")


async def serve(port: int) -> None:
    gaps = Gaps(open_schedule())
    app = create_app(Settings())
    app.router.routes.append(Route("/gaps", gaps.answer))
    gaps.watch(asyncio.get_running_loop(), Tick.now(gaps.schedule))
    configuration = uvicorn.Config(
        app, host="127.0.0.1", port=port, access_log=False, log_config=None, server_header=False
    )
    await uvicorn.Server(configuration).serve()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
