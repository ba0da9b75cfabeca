"""Clients that send too much, too little or too slowly, and clients that never read: real sockets and a real server.

In every test `/livez` answers, memory does not grow, and every rejected client gets a problem. `make system` also
limits the delay of `/livez`, which depends on other load of the machine.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from service.settings import Settings
from tests.conftest import stopped
from tests.slow_requests import DPSGD, LONG, MORE_THAN_ITS_PRICE
from tests.system.jobs import first_that_computes, wait_for
from tests.system.running_server import POST, connect, running_server
from tests.system.test_processes import workers_of
from tests.timeouts import TEST_TIMEOUT

LONGEST_WAIT = float(os.environ.get("LONGEST_WAIT_SECONDS", "inf"))
MOST_MEMORY = 50 * 2**20
READERS = 100
MOST_CONNECTIONS = Settings().max_connections


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Yield a service with one worker, for which every request is expensive."""
    limits = {"receive_timeout_seconds": "2", "send_timeout_seconds": "2", "log_level": "error"}
    workers = {"worker_count": "1", "time_limit_seconds": str(TEST_TIMEOUT), "queue_wait_limit_seconds": "100000"}
    with running_server(tmp_path_factory.mktemp("server"), **limits, **workers) as client:
        client.get("/livez")
        yield client


@contextmanager
def watched(client: httpx2.Client) -> Generator[None]:
    """Request `/livez` continuously from another address during the block, and watch the memory."""
    waits: list[float] = []
    statuses: set[int | str] = set()
    done = threading.Event()

    def ask() -> None:
        other = httpx2.HTTPTransport(local_address="127.0.0.8")
        with httpx2.Client(base_url=client.base_url, timeout=TEST_TIMEOUT, transport=other) as asking:
            while not waits or not done.is_set():
                started = time.perf_counter()
                try:
                    statuses.add(asking.get("/livez").status_code)
                except httpx2.TransportError as error:
                    statuses.add(repr(error))
                waits.append(time.perf_counter() - started)
                time.sleep(0.02)

    process = psutil.Process(client.process_id)  # type: ignore[attr-defined]
    before = process.memory_info().rss
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
        time.sleep(0.2)
        grown = process.memory_info().rss - before
    finally:
        done.set()
        thread.join()
    print(f"livez {len(waits)} times, longest {max(waits):.3f} s; memory {grown / 2**20:+.1f} MiB")  # noqa: T201
    assert statuses == {200}
    assert max(waits) < LONGEST_WAIT
    assert grown < MOST_MEMORY


def answer_to(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Read a connection to its end, and return status and problem."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, received[:300]
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    ("start", "status", "kind"),
    [
        (b"GET /livez HTTP/1.1\r\nX-Long: ", 431, "headers-too-large"),
        (b"GET /", 414, "uri-too-long"),
        (b"GET /?", 414, "uri-too-long"),
        (b"GET /livez HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431, "headers-too-large"),
        (b"\x16\x03\x01 not HTTP", 400, "malformed-http"),
    ],
)
def test_endless_head_is_rejected(server: httpx2.Client, start: bytes, status: int, kind: str) -> None:
    with watched(server), connect(server) as connection:
        sent, piece = 0, b"x" * 2**20
        with suppress(ConnectionError):
            connection.sendall(start)
            while sent < 200 * 2**20 and not _has_answer(connection):
                sent += connection.send(piece)
        assert sent < 100 * 2**20
        answered, problem = answer_to(connection)
    assert (answered, problem["status"], problem["type"]) == (status, status, f"/problems/{kind}")


def _has_answer(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(TEST_TIMEOUT)


def test_half_sent_requests_give_way_and_time_out(server: httpx2.Client) -> None:
    """Half-sent requests give way to other requests of their address, and time out.

    Nine hundred connections from one address send halves. `/livez` from that address is answered.
    """
    halves = (b"GET /livez HTTP/1.1\r\nHo", b"", POST % 500_000 + b"{" * 60_000)
    displaced = refusals(server, "too-many-connections")
    with ExitStack() as stack, watched(server):
        connections = [stack.enter_context(connect(server)) for _ in range(900)]
        for number, connection in enumerate(connections):
            with suppress(ConnectionError):
                connection.sendall(halves[number % 3])
        assert httpx2.get(server.base_url.join("/livez"), timeout=TEST_TIMEOUT).status_code == 200
        assert answer_to(connections[-1])[1]["type"] == "/problems/request-timeout"
        assert refusals(server, "too-many-connections") > displaced


def test_connections_from_many_addresses_give_way(server: httpx2.Client) -> None:
    """The newest connections are served if there are more than allowed in total.

    Each address has fewer connections than allowed per address.
    """
    displaced = refusals(server, "too-many-connections")
    with ExitStack() as stack, watched(server):
        connections = [
            stack.enter_context(connect(server, f"127.0.1.{1 + number // 100}"))
            for number in range(MOST_CONNECTIONS + 50)
        ]
        for connection in connections[-100:]:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert refusals(server, "too-many-connections") > displaced


def test_stalled_uploads_leave_room_for_others(server: httpx2.Client) -> None:
    head = POST.replace(b"/v1/bounds", b"/v1/audits/glir").replace(b"json", b"x-npz") % 60_000_000
    with ExitStack() as stack, watched(server):
        stalled = [stack.enter_context(connect(server)) for _ in range(8)]
        for connection in stalled:
            connection.sendall(head + b"PK")
        given = server.post("/v1/audits/glir", content=b"PK", headers={"Content-Type": "application/x-npz"})
        assert given.status_code == 422, "there was room to look at it"
        for _ in range(10):  # One byte at a time is too slow.
            with suppress(ConnectionError):
                for connection in stalled:
                    connection.sendall(b"x")
            time.sleep(0.05)
        for connection in stalled:
            assert answer_to(connection)[0] == 408


def test_clients_that_never_read_are_disconnected(server: httpx2.Client) -> None:
    rates = [round((index + 0.5) / 5_000, 4) for index in range(5_000)]
    body = json.dumps(
        {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [{"type": "trade_off", "false_positive_rates": rates}]}
    )
    size = len(server.post("/v1/bounds", content=body, headers={"Content-Type": "application/json"}).content)
    assert size > 500_000
    requests = 6 * (
        POST % len(body) + body.encode()
    )  # Few bytes to send, and a response larger than the kernel buffers.
    left = refusals(server, "response-not-taken")
    with ExitStack() as stack, watched(server):
        readers = [stack.enter_context(connect(server, buffer=4096)) for _ in range(READERS)]
        for reader in readers:
            with suppress(ConnectionError):
                reader.sendall(requests)
        wait_for(lambda: refusals(server, "response-not-taken") - left >= READERS)


def refusals(client: httpx2.Client, reason: str) -> int:
    metrics = httpx2.get(
        client.base_url.join("/metrics"), timeout=TEST_TIMEOUT
    )  # On a connection that was not displaced.
    counted = re.search(rf'server_refusals_total\{{reason="{reason}"\}} (\d+)', metrics.text)
    return int(counted[1]) if counted else 0


def test_shutdown_ends_within_its_deadline(tmp_path: Path) -> None:
    """The service ends within its shutdown deadline of one second, and unfinished requests get problems.

    One is a computation of many seconds, and the other has sent half a body.
    """
    body = json.dumps(LONG).encode()
    with (
        running_server(
            tmp_path, max_cost=MORE_THAN_ITS_PRICE, worker_count="1", shutdown_timeout_seconds="1"
        ) as client,
        connect(client) as computed,
        connect(client) as half_sent,
    ):
        half_sent.sendall(POST % 1000 + b"{")
        computed.sendall(POST % len(body) + body)
        first_that_computes(lambda: workers_of(client))  # All earlier data have been read by then.
        psutil.Process(client.process_id).send_signal(signal.SIGTERM)  # type: ignore[attr-defined]
        for connection in (half_sent, computed):
            status, problem = answer_to(connection)
            assert (status, problem["type"]) == (503, "/problems/shutting-down")


def test_flood_leaves_polite_client_its_turn(server: httpx2.Client) -> None:
    """A flood of requests from one address leaves another address its turn.

    Eighty connections, which claim to be from many addresses, send work of tenths of a second each. The worker is
    stopped, so that all of them wait. The other address sends one request.
    """

    def work(number: int, questions: int = 18, digits: int = 50) -> bytes:
        asked = [{"type": "delta", "epsilon": 1 + n / 300 + number / 1e6} for n in range(questions)]
        truth = {"mechanism": DPSGD, "questions": asked, "method": "ground_truth", "digits": digits}
        body = json.dumps(truth).encode()
        head = POST.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 10.0.0.%d\r\n\r\n")
        return head % (len(body), number) + body

    [worker] = workers_of(server)
    with ExitStack() as stack:
        flood = [stack.enter_context(connect(server)) for _ in range(80)]
        with stopped(worker.pid):
            for number, connection in enumerate(flood):
                connection.sendall(work(number))
            wait_for(lambda: 503 in _statuses(flood))  # The queue is full.
            polite = stack.enter_context(connect(server, "127.0.0.2"))
            polite.sendall(work(100, questions=1, digits=20))
        assert polite.recv(100).startswith(b"HTTP/1.1 200")
        statuses = _statuses(flood)
    print(f"of the flood were served {statuses.count(200)}, refused {statuses.count(503)}")  # noqa: T201
    assert statuses.count(200) < (len(flood) - statuses.count(503)) / 3


def _statuses(connections: list[socket.socket]) -> list[int]:
    """Return the statuses of the connections that have a response by now."""
    readable = select.select(connections, [], [], 0)[0]
    return [int(connection.recv(12, socket.MSG_PEEK)[9:]) for connection in readable]
