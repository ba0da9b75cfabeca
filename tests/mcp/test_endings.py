"""Ends of the protocol's server: signals, closed streams, and clients that disconnect or never end a request."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from service.mcp.server import MOST_SESSIONS
from service.mcp.streams import READ_BYTES, LineWriter, read_lines
from tests.mcp.test_protocol import BOUNDS, COMMAND, http_server
from tests.slow_marker import thorough
from tests.slow_requests import LONG, MORE_THAN_ITS_PRICE
from tests.timeouts import TEST_TIMEOUT

ABOUT: Final = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE: Final = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT}
INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HEADERS: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def a_call(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "bounds", "arguments": arguments}}


def send(process: subprocess.Popen[bytes], *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
    process.stdin.flush()


@contextmanager
def started() -> Generator[subprocess.Popen[bytes]]:
    """Yield a server over standard streams that has answered its first message, and kill it at the end."""
    pipe, given = subprocess.PIPE, os.environ | {"PRIVACY_BOUNDS_MAX_COST": MORE_THAN_ITS_PRICE}
    with subprocess.Popen(COMMAND, env=given, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        try:
            send(process, INITIALIZE, INITIALIZED)
            assert process.stdout is not None
            assert b'"id":1' in process.stdout.readline()
            yield process
        finally:
            process.kill()


def assert_ends(process: subprocess.Popen[bytes], end: Callable[[], None]) -> None:
    """Check that a server ends in order: exit code 0, nothing on standard error, and no process left."""
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    end()
    assert process.wait(TEST_TIMEOUT) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert not psutil.wait_procs(children, timeout=TEST_TIMEOUT)[1]


def wait_for_work(process: psutil.Process) -> list[psutil.Process]:
    """Return the child processes of a server as soon as one of them computes."""
    children = process.children(recursive=True)
    before = {each.pid: each.cpu_times().user for each in children}
    limit = time.monotonic() + TEST_TIMEOUT
    while time.monotonic() < limit:
        if any(each.cpu_times().user > before[each.pid] + 0.3 for each in children):
            return children
        time.sleep(0.05)
    raise AssertionError("no worker computes")


@pytest.mark.parametrize(
    ("sent", "busy"),
    [
        thorough(signal.SIGINT, False),
        (signal.SIGTERM, True),
        *(thorough(*row) for row in ((signal.SIGINT, True), (signal.SIGTERM, False))),
        *(thorough(signal.SIGHUP, busy) for busy in (False, True)),
    ],
)
def test_signal_ends_a_server_whose_client_sends_nothing(sent: signal.Signals, *, busy: bool) -> None:
    with started() as process:
        if busy:
            send(process, a_call(LONG))
            wait_for_work(psutil.Process(process.pid))
        assert_ends(process, lambda: process.send_signal(sent))


def test_closed_output_ends_the_server() -> None:
    with started() as process:
        assert process.stdout is not None
        process.stdout.close()
        assert_ends(process, lambda: send(process, a_call(BOUNDS)))


@pytest.mark.thorough
def test_end_of_input_ends_a_server_whose_client_reads_nothing() -> None:
    with started() as process:
        assert process.stdin is not None
        # Together the answers are larger than the buffer of a pipe.
        send(process, *({"jsonrpc": "2.0", "id": n, "method": "tools/list"} for n in range(2, 12)))
        assert_ends(process, process.stdin.close)


@pytest.mark.parametrize("sent", [thorough(signal.SIGINT), thorough(signal.SIGTERM)])
def test_signal_ends_a_server_over_http(sent: signal.Signals) -> None:
    with http_server() as (_, process):
        assert_ends(process, lambda: process.send_signal(sent))


def opened_session(address: str) -> httpx2.Response:
    return httpx2.post(address, json=INITIALIZE, headers=HEADERS, timeout=TEST_TIMEOUT)


def connected(address: str, body: bytes, length: int, **headers: str) -> socket.socket:
    """Return a connection that has sent a request with a body of a declared length."""
    place = urlsplit(address)
    connection = socket.create_connection((place.hostname, place.port), TEST_TIMEOUT)
    sent = HEADERS | headers | {"Host": place.netloc, "Content-Length": str(length)}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    connection.sendall(f"POST {place.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


@pytest.mark.thorough
def test_worker_of_a_client_that_disconnects_is_freed() -> None:
    """The worker of a client that disconnects is freed, also in a session of an older version of the protocol."""
    with http_server(max_cost=MORE_THAN_ITS_PRICE) as (address, process):
        session = opened_session(address).headers["mcp-session-id"]
        body = json.dumps(a_call(LONG)).encode()
        with connected(address, body, len(body), **{"Mcp-Session-Id": session}):
            children = wait_for_work(psutil.Process(process.pid))
        deadline = time.monotonic() + TEST_TIMEOUT / 4
        while all(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.thorough
def test_number_of_sessions_is_bounded() -> None:
    with http_server() as (address, _), httpx2.Client(headers=HEADERS, timeout=TEST_TIMEOUT) as client:
        statuses = [client.post(address, json=INITIALIZE).status_code for _ in range(MOST_SESSIONS + 1)]
    assert statuses == [200] * MOST_SESSIONS + [503]


@pytest.mark.thorough
def test_half_sent_request_leaves_no_traceback() -> None:
    with http_server() as (address, process):
        with connected(address, b'{"jsonrpc":', 1000):
            pass
        assert opened_session(address).status_code == 200
        assert_ends(process, lambda: process.send_signal(signal.SIGTERM))


async def lines_of(parts: list[bytes], longest: int) -> list[str]:
    """Return the lines that a reader gets from a pipe into which `parts` are written.

    The reader cuts lines that are longer than `longest`.
    """
    reading, writing = os.pipe()

    async def write() -> None:
        writer = LineWriter(writing)
        for part in parts:
            await writer.write(part.decode("utf-8", "surrogateescape"))
        os.close(writing)

    task = asyncio.create_task(write())
    found = [line async for line in read_lines(reading, longest)]
    await task
    os.close(reading)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_lines_are_those_of_the_text_however_it_arrives(seed: int) -> None:
    """The lines that are read are those of the text, in whatever pieces it arrives.

    None is lost or split, and one that is too long is cut. Lines and pieces are random.
    """
    drawn = random.Random(seed)
    longest = drawn.choice([1, 7, 1000, READ_BYTES, 3 * READ_BYTES])
    lengths = [drawn.choice([0, 1, 6, 7, 8, 999, 1001, READ_BYTES - 1, READ_BYTES, 200_000]) for _ in range(12)]
    lines = ["".join(drawn.choices('ab{}" ', k=length)) for length in lengths]
    whole = "\n".join(lines).encode()
    cuts = sorted(drawn.sample(range(len(whole) + 1), min(9, len(whole))))
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    expected = [line[:longest] for line in lines]
    if not lines[-1]:
        expected.pop()
    assert asyncio.run(lines_of(parts, longest)) == expected
