"""Long responses: complete if read steadily, ended if never read, and ended on shutdown."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from service.jobs.service import MAX_STREAMS
from tests.slow_marker import thorough
from tests.system.jobs import submit, sweep, wait_for
from tests.system.running_server import connect, running_server
from tests.system.test_attacks import refusals
from tests.timeouts import TEST_TIMEOUT

TIMEOUT_SECONDS = 2
PIPELINED = 14
DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\nAccept-Encoding: identity\r\n\r\n"
LINES, EVENTS = "application/x-ndjson", "text/event-stream"
ENDED = b"\r\n0\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with running_server(
        tmp_path_factory.mktemp("server"),
        send_timeout_seconds=str(TIMEOUT_SECONDS),
        max_connections_per_client=str(2 * MAX_STREAMS),
        log_level="error",
        job_workers="1",
    ) as client:
        yield client


@pytest.fixture
def job(server: httpx2.Client) -> Iterator[str]:
    """Yield a job that does not end by itself."""
    place = submit(server, "sweeps", sweep(1_000_000))
    yield place
    server.delete(place)


def followed(
    client: httpx2.Client, job: str, form: str, address: str = "127.0.0.1", buffer: int | None = None
) -> socket.socket:
    connection = connect(client, address, buffer=buffer)
    below = "events" if form == EVENTS else "results"
    connection.sendall(f"GET {job}/{below} HTTP/1.1\r\nHost: a\r\nAccept: {form}\r\n\r\n".encode())
    return connection


def status(connection: socket.socket) -> int:
    return int(connection.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL)[9:])


def rest(connection: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionError):
        while piece := connection.recv(65_536):
            received += piece
    return received


@pytest.mark.thorough
def test_steadily_read_response_is_complete(server: httpx2.Client) -> None:
    """A response that is read steadily is complete, although reading takes several times the send timeout.

    The kernel buffers less than half of the response.
    """
    size = len(server.get("/openapi.json").content)
    whole = PIPELINED * size
    with connect(server, buffer=65_536) as reader:
        reader.sendall(PIPELINED * DOCUMENT)
        received, started = b"", time.monotonic()
        while len(received) < whole:
            time.sleep(0.05)
            piece = reader.recv(int(whole / (20 * 3 * TIMEOUT_SECONDS)))
            assert piece, f"cut after {len(received)} bytes of {whole}"
            received += piece
    assert time.monotonic() - started > 2 * TIMEOUT_SECONDS
    assert received.count(b"HTTP/1.1 200 OK") == PIPELINED


def test_reader_that_takes_almost_nothing_is_disconnected(server: httpx2.Client) -> None:
    left = refusals(server, "response-not-taken")
    with connect(server, buffer=4_096) as reader:
        reader.sendall(PIPELINED * DOCUMENT)

        def is_left() -> bool:
            reader.recv(1)
            return refusals(server, "response-not-taken") > left

        wait_for(is_left, TEST_TIMEOUT)


@pytest.mark.parametrize("form", [thorough(EVENTS), LINES])
def test_unread_stream_is_ended(server: httpx2.Client, job: str, form: str) -> None:
    """A stream that is never read is ended, also one of small events, which the kernel would buffer for hours."""
    left = refusals(server, "response-not-taken")
    with followed(server, job, form, buffer=2_048):
        wait_for(lambda: refusals(server, "response-not-taken") > left)


def test_followers_of_one_client_leave_room_for_others(server: httpx2.Client, job: str) -> None:
    with ExitStack() as stack:
        hostile = [stack.enter_context(followed(server, job, EVENTS, "127.0.0.2")) for _ in range(MAX_STREAMS + 10)]
        statuses = [status(each) for each in hostile]
        assert statuses.count(200) >= MAX_STREAMS
        polite = [stack.enter_context(followed(server, job, form, "127.0.0.3")) for form in (EVENTS, LINES)]
        assert [status(each) for each in polite] == [200, 200]
        again = stack.enter_context(followed(server, job, EVENTS, "127.0.0.2"))
        assert status(again) == 503, "it has most"
        for each in polite:
            assert each.recv(65_536)


@pytest.mark.thorough
def test_streams_end_on_shutdown(tmp_path: Path) -> None:
    """Streams end at once on shutdown, not at the deadline.

    Events end properly. Lines are cut, so that nobody mistakes them for complete.
    """
    with running_server(
        tmp_path, shutdown_timeout_seconds=str(int(TEST_TIMEOUT)), job_workers="1", log_level="warning"
    ) as client:
        process = psutil.Process(client.process_id)  # type: ignore[attr-defined]
        job = submit(client, "sweeps", sweep(1_000_000))
        with (
            followed(client, job, EVENTS) as events,
            followed(client, job, LINES) as lines,
            followed(client, job, LINES, buffer=4_096) as unread,
        ):
            assert {status(each) for each in (events, lines, unread)} == {200}
            wait_for(lambda: client.get(job).json()["progress"]["done"] > 0)
            started = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert rest(events).endswith(ENDED)
            assert not rest(lines).endswith(ENDED)
            wait_for(lambda: process.status() == psutil.STATUS_ZOMBIE)
            assert time.monotonic() - started < TEST_TIMEOUT / 4
    assert "Traceback" not in (tmp_path / "server.log").read_text()
