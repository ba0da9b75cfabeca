"""The asynchronous Python client beside a bare loop of httpx2, and the time that an import of the client takes."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx2

from benchmarks.http.bodies import fresh_noise, gaussian
from benchmarks.http.server import SERVICE, running
from benchmarks.numbers.start import cpu_seconds_of
from benchmarks.report import Reach, Section, Table
from privacy_bounds import AsyncClient

ROUNDS: Final = 15
REQUESTS: Final = 200
AT_ONCE: Final = 16
DELTA: Final = 1e-5
SMALLEST_RATIO: Final = 0.8
IMPORT_ROUNDS: Final = 9
IMPORTS: Final = {
    "nothing": "pass",
    "import privacy_bounds": "import privacy_bounds",
    "Client, without a request": "from privacy_bounds import Client; Client('http://127.0.0.1:9')",
    "AsyncClient, without a request": "from privacy_bounds import AsyncClient; AsyncClient('http://127.0.0.1:9')",
    "Local, first answer": "from privacy_bounds import Local; Local().epsilon((1.0, 0.01, 1000), delta=1e-5)",
}


@dataclass(frozen=True)
class Loop:
    """Time of one round of requests: wall-clock seconds, and CPU seconds of this process."""

    seconds: float
    cpu: float


def measure() -> Section:
    section = Section("Python client")
    with running(SERVICE) as server:
        rounds = asyncio.run(_rounds(f"http://127.0.0.1:{server.port}"))
    ours, raw = rounds
    ratio = median(theirs.seconds / mine.seconds for mine, theirs in zip(ours, raw, strict=True))
    processor = median(theirs.cpu / mine.cpu for mine, theirs in zip(ours, raw, strict=True))
    section.tables += [_table(ours, raw), _imports()]
    section.reaches.append(
        Reach(
            f"AsyncClient, {REQUESTS} closed-form answers, {AT_ONCE} at a time",
            f">= {SMALLEST_RATIO} x a bare loop of httpx2",
            f"{ratio:.2f} x by time, {processor:.2f} x by CPU of the client",
            processor >= SMALLEST_RATIO,  # on shared cores, times depend on the neighbours
        )
    )
    return section


async def _rounds(url: str) -> tuple[list[Loop], list[Loop]]:
    """Return the times of the loop by the client and of the bare HTTP loop, in interleaved rounds.

    The first round of each is not counted.
    """
    ours: list[Loop] = []
    raw: list[Loop] = []
    async with AsyncClient(url) as client, bare_loop(url) as ask_raw:

        async def ask() -> Any:
            run = {"type": "gaussian", "noise_multiplier": fresh_noise()}
            return await client.epsilon(run, delta=DELTA)

        for _ in range(ROUNDS + 1):
            raw.append(await _timed(ask_raw))
            ours.append(await _timed(ask))
    return ours[1:], raw[1:]


@asynccontextmanager
async def bare_loop(url: str) -> AsyncGenerator[Callable[[], Awaitable[Any]]]:
    """Yield a function that posts a request body of bytes and decodes the JSON of the response, without our client."""
    bodies = gaussian({"type": "epsilon", "delta": DELTA})
    async with httpx2.AsyncClient(base_url=url, headers={"Content-Type": "application/json"}) as client:

        async def ask() -> Any:
            response = await client.post("/v1/bounds", content=next(bodies))
            response.raise_for_status()
            return response.json()["answers"][0]["value"]

        yield ask


async def _timed(ask: Callable[[], Awaitable[Any]]) -> Loop:
    left = iter(range(REQUESTS))

    async def work() -> None:
        for _ in left:
            await ask()

    gc.collect()
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return Loop(time.perf_counter() - started, time.process_time() - cpu)


def _table(ours: list[Loop], raw: list[Loop]) -> Table:
    rows = [
        (
            name,
            f"{REQUESTS / median(each.seconds for each in loops):.0f}",
            f"{median(each.cpu for each in loops) / REQUESTS * 1e6:.0f}",
        )
        for name, loops in (("AsyncClient", ours), ("bare loop of httpx2", raw))
    ]
    return Table(
        f"{REQUESTS} closed-form answers, {AT_ONCE} at a time, {ROUNDS} interleaved rounds, medians",
        ("loop", "answers, 1/s", "CPU us of the client for one"),
        rows,
        (
            "Every request is new to the service. The bare loop sends ready bytes and decodes JSON; AsyncClient also "
            "encodes the request, checks the answer with the model of the contract, and keeps the limits.",
        ),
    )


def _imports() -> Table:
    with TemporaryDirectory() as folder:
        commands = {name: [sys.executable, "-c", code] for name, code in IMPORTS.items()}
        found: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(IMPORT_ROUNDS + 1):
            for name, command in commands.items():
                seconds = cpu_seconds_of(command, Path(folder))
                if number:  # the first round writes the bytecode
                    found[name].append(seconds)
    rows = [(name, f"{median(values):.3f}") for name, values in found.items()]
    return Table("A new process with the client (CPU s, medians, interleaved)", ("what it does", "CPU s"), rows)
