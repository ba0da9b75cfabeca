"""Extra latency of a request while Redis is lost: frozen (it keeps connections and answers nothing) or killed.

The extra latency is latency minus `compute` of Server-Timing, minus the same difference without any Redis. Requests are
composed runs, because less expensive requests do not use Redis.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.request
from collections.abc import Iterator
from statistics import median
from typing import Final

from benchmarks.http.bodies import GAMMA, dpsgd
from benchmarks.http.redis import RedisServer, executable, redis_server
from benchmarks.http.server import SERVICE, Server, running
from benchmarks.report import Reach, Section, Table

LOSSES: Final = 7
REQUESTS: Final = 12
"""Requests after each loss, before each loss, and without Redis."""
LARGEST_SECONDS: Final = 0.005
RECOVERY_SECONDS: Final = 10.0
COMPUTED: Final = re.compile(r"compute;dur=([0-9.]+)")


def measure() -> Section:
    section = Section("Redis gone")
    program = executable()
    if program is None:
        section.reaches.append(Reach("Redis gone: a request pays", "<= 5 ms", "no redis-server here", met=False))
        return section
    bodies = dpsgd(GAMMA)
    without: list[float] = []
    live: list[float] = []
    frozen: list[list[float]] = []
    with (
        running(SERVICE) as plain,
        redis_server(program) as redis,
        running(SERVICE, settings={"PRIVACY_BOUNDS_REDIS_URL": redis.url}) as service,
    ):
        _waits(plain, bodies)
        _waits(service, bodies)
        for _ in range(LOSSES):
            without += _waits(plain, bodies)
            live += _waits(service, bodies)
            redis.freeze()
            frozen.append(_waits(service, bodies))
            redis.thaw()
            _wait_until_ready(service)
        killed = _after_kill(redis, service, bodies)
    base = median(without)
    dearest = max(median(waits[index] for waits in frozen) for index in range(REQUESTS)) - base
    after_kill = median(killed) - base
    section.reaches.append(
        Reach(
            "Redis gone: a request pays",
            "<= 5 ms",
            f"frozen: {dearest * 1e3:.2f} ms (the dearest of the {REQUESTS} requests after a loss, median of {LOSSES} "
            f"losses), killed: {after_kill * 1e3:.2f} ms (median)",
            max(dearest, after_kill) <= LARGEST_SECONDS,
        )
    )
    section.tables.append(_table(base, {"no Redis set": without, "Redis answers": live}, frozen, killed))
    return section


def _table(base: float, steady: dict[str, list[float]], frozen: list[list[float]], killed: list[float]) -> Table:
    later = [wait for waits in frozen for wait in waits[4:]]
    found = steady | {f"frozen, request {index + 1}": [waits[index] for waits in frozen] for index in range(4)}
    found |= {"frozen, later": later, "killed": killed}
    rows = [
        (name, f"{(median(waits) - base) * 1e3:.2f}", f"{(max(waits) - base) * 1e3:.2f}")
        for name, waits in found.items()
    ]
    return Table("Waiting beside the computation, less that without Redis (ms)", ("state", "median", "largest"), rows)


def _waits(server: Server, bodies: Iterator[bytes]) -> list[float]:
    """Return for each request, sent one by one on one connection, its seconds outside the computation."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    found: list[float] = []
    for _ in range(REQUESTS):
        body = next(bodies)
        started = time.perf_counter()
        connection.request("POST", "/v1/bounds", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        seconds = time.perf_counter() - started
        timing = COMPUTED.search(answer.headers.get("Server-Timing", ""))
        if answer.status != http.client.OK or timing is None:
            raise RuntimeError(f"status {answer.status}")
        found.append(seconds - float(timing[1]) / 1e3)
    connection.close()
    return found


def _after_kill(redis: RedisServer, service: Server, bodies: Iterator[bytes]) -> list[float]:
    redis.kill()
    return _waits(service, bodies)


def _wait_until_ready(service: Server) -> None:
    deadline = time.monotonic() + RECOVERY_SECONDS
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/readyz", timeout=10) as answer:
            if json.load(answer)["status"] == "ready":
                return
        time.sleep(0.05)
    raise RuntimeError("Redis was not found again")
