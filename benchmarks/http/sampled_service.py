"""The service with a clock in its event loop: `python -m benchmarks.http.sampled_service PORT`.

`GET /gaps` answers the longest time between two ticks since it was asked last: seconds on the wall, and seconds of CPU
that the loop's thread used in the gap that used most. A tick is asked for every 2 ms.
"""

from __future__ import annotations

import asyncio
import json
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


@dataclass
class Gaps:
    """The longest so far."""

    wall: float = 0.0
    cpu: float = 0.0

    def watch(self, loop: asyncio.AbstractEventLoop, wall: float, cpu: float) -> None:
        """A tick. The loop calls it as soon as it looks at its timers again, before anything that is ready then: a task
        that sleeps would wait for several rounds of the loop, each with a request of every connection.
        """
        now, used = time.perf_counter(), time.thread_time()
        self.wall, self.cpu = max(self.wall, now - wall - TICK_SECONDS), max(self.cpu, used - cpu)
        loop.call_later(TICK_SECONDS, self.watch, loop, now, used)

    async def answer(self, _: Request) -> Response:
        body = json.dumps({"wall": self.wall, "cpu": self.cpu})
        self.wall = self.cpu = 0.0
        return Response(body, media_type="application/json")


async def serve(port: int) -> None:
    gaps = Gaps()
    app = create_app(Settings())
    app.router.routes.append(Route("/gaps", gaps.answer))
    gaps.watch(asyncio.get_running_loop(), time.perf_counter(), time.thread_time())
    configuration = uvicorn.Config(
        app, host="127.0.0.1", port=port, access_log=False, log_config=None, server_header=False
    )
    await uvicorn.Server(configuration).serve()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
