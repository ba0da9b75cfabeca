"""Results in the memory of sibling processes: found, not found, and siblings that were killed or do not answer."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from service.execution import sibling_processes as siblings_module
from service.execution.memory_cache import InMemoryResultCache
from service.execution.sibling_processes import SiblingProcesses
from service.telemetry.metrics import Metrics
from tests.execution.fakes import FAKE, FakeRequest, make_pool, make_runner

Start = Callable[[int], tuple[SiblingProcesses, InMemoryResultCache]]
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Return a function that starts the sibling process with a given number."""

    def make(process: int) -> tuple[SiblingProcesses, InMemoryResultCache]:
        monkeypatch.setattr(os, "getpid", lambda: process)
        memory = InMemoryResultCache(10, 10**6)
        made = SiblingProcesses(tmp_path, memory.lookup)
        monkeypatch.undo()
        return made, memory

    return make


async def test_each_process_finds_results_of_others(start: Start) -> None:
    processes = [start(number) for number in range(3)]
    async with AsyncExitStack() as stack:
        for siblings, _ in processes:
            await stack.enter_async_context(siblings.serve())
        large = os.urandom(700_000)
        processes[2][1].put("curves", DIGEST, large)
        for siblings, _ in processes[:2]:
            assert await siblings.find(("bounds", "curves"), DIGEST) == large
            assert await siblings.find(("bounds",), DIGEST) is None
        assert await processes[2][0].find(("bounds", "curves"), DIGEST) is None, "it does not ask itself"


async def test_killed_sibling_is_removed_and_stuck_one_skipped(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings_module, "TIMEOUT_SECONDS", 0.1)
    (asking, _), (answering, memory) = start(1), start(9)
    memory.put("bounds", DIGEST, b"{}")
    stuck, dead = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    stuck.bind(str(tmp_path / "2.sock"))
    stuck.listen()
    dead.bind(str(tmp_path / "3.sock"))
    dead.close()
    async with asking.serve(), answering.serve():
        assert await asking.find(("bounds",), DIGEST) == b"{}"
        assert await asking.find(("bounds",), "sha256:0") is None
    assert {each.name for each in tmp_path.iterdir()} == {"2.sock"}
    stuck.close()


@pytest.mark.parametrize("sent", [b"\xff\xfe\n", b"\n", b"x" * 10_000, b""])
async def test_malformed_query_gets_empty_reply(start: Start, tmp_path: Path, sent: bytes) -> None:
    siblings, _ = start(1)
    async with siblings.serve():
        reader, writer = await asyncio.open_unix_connection(tmp_path / "1.sock")
        writer.write(sent)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


async def test_runner_finds_results_of_its_siblings(start: Start, metrics: Metrics) -> None:
    (mine, _), (other, memory) = start(1), start(2)
    pool = make_pool(metrics)
    computing, asking = (make_runner(metrics, pool, siblings=each) for each in (other, mine))
    computing.results._memory = memory
    async with mine.serve(), other.serve():
        answer = await computing.run(FAKE, FakeRequest(amount=4.0))
        assert await asking.results.find((FAKE.name,), answer.digest) == answer.body
    await pool.close()
