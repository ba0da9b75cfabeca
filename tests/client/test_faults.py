"""Clients over real sockets: every fault of a server or a connection is one error of the package, in bounded time."""

from __future__ import annotations

import asyncio
import copy
import gzip
import os
import pickle  # noqa: TID251 - what this process has written
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from api_schemas.problems import Problem
from privacy_bounds import (
    AsyncClient,
    Client,
    InvalidAnswer,
    InvalidArgument,
    Local,
    PrivacyBoundsError,
    Refused,
    Unreachable,
)
from tests.client.faulty_server import Closed, FaultyServer, Script, always, answer, faulty_server, in_turn
from tests.conftest import reserved_port
from tests.slow_marker import sample_of

RUN = {"type": "gaussian", "noise_multiplier": 2.0}
REQUEST = b'{"mechanism":{"type":"gaussian","noise_multiplier":2.0},"questions":[{"type":"advantage"}]}'
RIGHT = Local().send("/v1/bounds", REQUEST)
BUSY = Problem(
    type="/problems/overloaded",
    title="Overloaded",
    status=503,
    detail="Try again.",
    instance="/v1/bounds",
    request_id="1",
    errors=(),
).json_bytes()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Asked = Callable[..., Any]


def ask_waiting(url: str, **settings: Any) -> Any:
    with Client(url, **settings) as client:
        return client.advantage(RUN)


def ask_awaiting(url: str, **settings: Any) -> Any:
    async def ask() -> Any:
        async with AsyncClient(url, **settings) as client:
            return await client.advantage(RUN)

    return asyncio.run(ask())


both = pytest.mark.parametrize("ask", [ask_waiting, ask_awaiting], ids=["Client", "AsyncClient"])


def drip(_server: FaultyServer, _number: int) -> Iterable[bytes]:
    """Send a body byte by byte, each byte well within its time limit."""
    yield HEAD + b"Content-Length: 100000\r\n\r\n"
    for _ in range(200):
        time.sleep(0.05)
        yield b" "
    raise Closed


def silence(server: FaultyServer, _: int) -> Iterable[bytes]:
    server.stopped.wait(10)
    raise Closed


FAULTS: dict[str, tuple[Script, type[PrivacyBoundsError], str]] = {
    "a page": (always(answer(200, b"<html>welcome</html>", "text/html")), InvalidAnswer, "text/html"),
    "a page with a failure": (always(answer(404, b"<html>no</html>", "text/html")), InvalidAnswer, "404"),
    "a proxy without a service": (always(answer(502, b"bad gateway", "text/plain")), Unreachable, "502"),
    "JSON of another kind": (always(answer(200, b'{"ok": true}')), InvalidAnswer, "not from this service"),
    "JSON that is cut": (always(answer(200, RIGHT[:-9])), InvalidAnswer, "not from this service"),
    "a problem of another kind": (always(answer(400, b'{"title": "no"}')), InvalidAnswer, "400"),
    "a redirect": (always(answer(302, b"", Location="http://127.0.0.1:9/")), InvalidAnswer, "redirects to http"),
    "a redirect to nowhere": (always(answer(308, b"")), InvalidAnswer, "redirects to nowhere"),
    "not modified": (always(answer(304, b"")), InvalidAnswer, "304"),
    "half a body": (always(HEAD + b"Content-Length: 5000\r\n\r\n{", close=True), Unreachable, "breaks off"),
    "half a chunk": (
        always(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{", close=True),
        Unreachable,
        "breaks off",
    ),
    "half a header": (always(HEAD[:30], close=True), Unreachable, "breaks off"),
    "nothing": (always(close=True), Unreachable, "breaks off"),
    "no HTTP": (always(b"SSH-2.0-OpenSSH_9.6\r\n", close=True), Unreachable, "not HTTP"),
    "an announced length": (always(HEAD + b"Content-Length: 209715200\r\n\r\n{"), InvalidAnswer, "longer than 1 MiB"),
    "an unknown compression": (always(answer(200, RIGHT, Content_Encoding="br")), InvalidAnswer, "compresses by br"),
    "a broken compression": (always(answer(200, RIGHT, Content_Encoding="gzip")), InvalidAnswer, "decompressed"),
    "silence": (silence, Unreachable, "within 0.5 s"),
    "a slow body": (drip, Unreachable, "longer than 0.5 s"),
}


@both
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_error_that_says_what_happened(name: str, ask: Asked) -> None:
    script, kind, sentence = FAULTS[name]
    with faulty_server(script) as server:
        started = time.monotonic()
        with pytest.raises(PrivacyBoundsError, match=sentence) as caught:
            ask(server.url, timeout=0.5, retry_seconds=0.0, max_bytes=2**20)
        assert type(caught.value) is kind
        assert caught.value.__cause__ is None  # nothing of the HTTP library is shown
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        assert time.monotonic() - started < 5
        assert len(server.requests) == 1


@both
def test_a_right_answer_passes_every_check(ask: Asked) -> None:
    for sent in (answer(200, RIGHT), answer(200, gzip.compress(RIGHT), Content_Encoding="gzip")):
        with faulty_server(always(sent)) as server:
            assert ask(server.url) == Local().advantage(RUN)


def endless(_server: FaultyServer, _number: int) -> Iterable[bytes]:
    yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    for _ in range(200):
        yield b"100000\r\n" + b" " * 2**20 + b"\r\n"
    yield b"0\r\n\r\n"


def bomb(_: FaultyServer, __: int) -> Iterable[bytes]:
    yield answer(200, gzip.compress(bytes(200 * 2**20), 9), Content_Encoding="gzip")


@sample_of(2)
@both
@pytest.mark.parametrize("script", [endless, bomb])
def test_an_answer_of_200_megabytes_ends_at_the_limit(script: Script, ask: Asked) -> None:
    with faulty_server(script) as server:
        tracemalloc.start()
        try:
            with pytest.raises(InvalidAnswer, match="longer than 4 MiB, the limit `max_bytes`"):
                ask(server.url, max_bytes=4 * 2**20)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    if script is endless:
        assert peak < 32 * 2**20


@both
def test_a_redirect_is_not_followed_and_credentials_stay_with_the_host(ask: Asked) -> None:
    with faulty_server(always(answer(200, RIGHT))) as other:
        for status in (301, 302, 303, 307, 308):
            with faulty_server(always(answer(status, b"", Location=f"{other.url}/v1/bounds"))) as server:
                with pytest.raises(InvalidAnswer, match=f"redirects to {other.url}"):
                    ask(server.url, headers={"Authorization": "Bearer secret"})
                assert b"Bearer secret" in server.requests[0]
        assert other.connections == 0


@pytest.mark.parametrize(
    "path", ["@127.0.0.1:9/", "http://127.0.0.1:9/", "", "v1/bounds", "/v1/bounds HTTP/1.1\r\nX: y"]
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with faulty_server(always(answer(200, RIGHT))) as server, Client(server.url, headers={"X-Key": "secret"}) as client:
        with pytest.raises(InvalidArgument):
            client.send(path, b"{}")
        assert server.connections == 0


def test_a_job_id_stays_one_part_of_the_path() -> None:
    with faulty_server(always(answer(404, BUSY.replace(b"503", b"404")))) as server, Client(server.url) as client:
        with pytest.raises(Refused):
            client.job("../../other?x=").state()
        assert server.requests[0].startswith(b"GET /v1/jobs/..%2F..%2Fother%3Fx%3D HTTP/1.1")


def test_a_password_in_the_address_is_sent_and_not_shown() -> None:
    with closing(reserved_port()) as place:
        address = f"http://me:secret@127.0.0.1:{place.getsockname()[1]}"
        assert "secret" not in repr(Client(address))
        with pytest.raises(Unreachable) as caught:
            Client(address).advantage(RUN)
    assert "secret" not in str(caught.value)


@both
def test_refused_requests_are_repeated_when_the_service_says(ask: Asked) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)
    sent = (
        answer(503, BUSY, "application/problem+json", Retry_After="0"),
        answer(429, b"slow down", "text/plain", Retry_After=soon),
        answer(503, b"busy", "text/plain"),
        answer(200, RIGHT),
    )
    with faulty_server(in_turn(*sent)) as server:
        assert ask(server.url) == Local().advantage(RUN)
        assert len(server.requests) == len(sent)
        assert len(set(server.requests)) == 1  # the same bytes each time
        assert server.connections == 1


@both
def test_the_time_of_retry_after_is_kept(ask: Asked) -> None:
    with faulty_server(in_turn(answer(503, BUSY, Retry_After="1"), answer(200, RIGHT))) as server:
        started = time.monotonic()
        ask(server.url)
        assert time.monotonic() - started >= 1.0


@both
@pytest.mark.parametrize("retry_after", ["0", "-5", "1e-9", "nan", "soon", "", "0.1", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_repetition_ends_with_the_refusal(retry_after: str, ask: Asked) -> None:
    with faulty_server(always(answer(503, BUSY, Retry_After=retry_after))) as server:
        started = time.monotonic()
        with pytest.raises(Refused, match="Overloaded"):
            ask(server.url, retry_seconds=0.6)
        elapsed = time.monotonic() - started
        assert elapsed < 3
        # On a busy machine the first refusal may arrive when the time is already over.
        assert len(server.requests) >= 2 or elapsed > 0.6
        assert len(server.requests) <= 7


@both
@pytest.mark.parametrize("retry_after", ["3600", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_time_beyond_the_limit_is_not_waited_for(retry_after: str, ask: Asked) -> None:
    with faulty_server(always(answer(503, BUSY, Retry_After=retry_after))) as server:
        started = time.monotonic()
        with pytest.raises(Refused) as caught:
            ask(server.url, retry_seconds=60)
        assert time.monotonic() - started < 3
        assert caught.value.retry_after is not None
        assert caught.value.retry_after >= 3600
        assert len(server.requests) == 1


@both
def test_other_refusals_are_not_repeated(ask: Asked) -> None:
    for status in (400, 422, 500, 504):
        problem = BUSY.replace(b"503", str(status).encode())
        with faulty_server(always(answer(status, problem, Retry_After="0"))) as server:
            with pytest.raises(Refused):
                ask(server.url)
            assert len(server.requests) == 1


def test_a_problem_of_a_later_version_is_a_refusal() -> None:
    problem = BUSY.replace(b"/problems/overloaded", b"/problems/of-tomorrow").replace(b"503", b"422")
    with faulty_server(always(answer(422, problem))) as server, pytest.raises(Refused, match=r"Overloaded \(422\)"):
        ask_waiting(server.url)


def test_connections_are_reused() -> None:
    with faulty_server(always(answer(200, RIGHT))) as server, Client(server.url) as client:
        for _ in range(5):
            client.advantage(RUN)
        assert (server.connections, len(server.requests)) == (1, 5)
        client.close()
        client.advantage(RUN)
        assert server.connections == 2


def test_a_forked_process_opens_connections_of_its_own() -> None:
    with faulty_server(always(answer(200, RIGHT))) as server, Client(server.url) as client:
        expected = client.advantage(RUN)
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            os._exit(0 if client.advantage(RUN) == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.advantage(RUN) == expected
        assert server.connections == 2


def test_clients_and_answers_pass_to_other_processes() -> None:
    with faulty_server(always(answer(200, RIGHT))) as server:
        with Client(server.url, headers={"X-Key": "secret"}) as client:
            found = client.advantage(RUN)
            with pickle.loads(pickle.dumps(client)) as other:
                assert other.advantage(RUN) == found
        assert server.requests[0] == server.requests[1]
    for value in (found, Local().assess(RUN, {"delta": 1e-5}), Local(), AsyncClient(server.url)):
        assert repr(pickle.loads(pickle.dumps(value)))
        assert repr(copy.deepcopy(value))
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
    with pytest.raises(InvalidArgument, match="of this process"):
        pickle.loads(pickle.dumps(Local().curves(RUN, [0.1]))).plot()
    assert copy.deepcopy(Local().curves(RUN, [0.01, 0.1])).plot() is not None


def test_errors_pass_to_other_processes() -> None:
    with pytest.raises(Refused) as refused:
        Local().epsilon(RUN, delta=2.0)
    errors = (refused.value, InvalidAnswer("other", 200, None), Unreachable("gone", 503, 1.0), InvalidArgument("no"))
    for error in errors:
        other = pickle.loads(pickle.dumps(error))
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def test_an_asynchronous_client_uses_connections_and_no_threads() -> None:
    together = threading.Barrier(8, timeout=10)

    def script(_: FaultyServer, __: int) -> Iterable[bytes]:
        together.wait()
        yield answer(200, RIGHT)

    async def ask(url: str) -> tuple[list[Any], list[str]]:
        async with AsyncClient(url) as client:
            found = await asyncio.gather(*(client.advantage(RUN) for _ in range(8)))
            return found, [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncio")]

    with faulty_server(script) as server:
        found, threads = asyncio.run(ask(server.url))
        assert found == [Local().advantage(RUN)] * 8
        assert threads == []
        assert server.connections == 8


def test_an_asynchronous_client_serves_one_event_loop_after_another() -> None:
    with faulty_server(always(answer(200, RIGHT))) as server:
        client = AsyncClient(server.url)

        async def ask() -> float:
            value = (await client.advantage(RUN)).value
            await client.aclose()
            return value

        assert asyncio.run(ask()) == asyncio.run(ask()) == Local().advantage(RUN).value


@pytest.mark.parametrize("ask", [ask_waiting, ask_awaiting])
@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://",
        "http://a:99999",
        "http://a b",
        "http://a/?x=1",
        "http://a/#x",
        "http://[::1",
        "a:80",
    ],
)
def test_an_address_without_a_service_is_an_invalid_argument(url: str, ask: Asked) -> None:
    with pytest.raises(InvalidArgument, match="http://"):
        ask(url)


def test_headers_that_no_request_can_have_are_invalid_arguments() -> None:
    for value in ("a\r\nX: y", "ä", "\x00"):
        with pytest.raises(InvalidArgument, match="headers"):
            Client("http://127.0.0.1:9", headers={"X-Key": value})
    times: list[dict[str, Any]] = [{"timeout": 0.0}, {"timeout": float("nan")}, {"retry_seconds": -1.0}]
    for settings in times:
        with pytest.raises(InvalidArgument, match="seconds"):
            Client("http://127.0.0.1:9", **settings)
