"""Jobs from a notebook and from a shell, against a service in a process of its own."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from api_schemas.jobs import JobResponse
from privacy_bounds import (
    AsyncClient,
    AsyncJob,
    Client,
    InvalidAnswer,
    InvalidArgument,
    Local,
    PrivacyBoundsError,
    Refused,
    Unreachable,
)
from service.command import main as cli
from tests.client.faulty_server import Script, always, answer, faulty_server, in_turn
from tests.system.jobs import ADVANTAGE, sweep
from tests.system.running_server import running_server

STAMP = "2026-11-23T12:00:00Z"
JOB_STATE: dict[str, Any] = {
    "id": "j",
    "resource": "sweeps",
    "state": "running",
    "progress": {"done": 9, "failed": 0, "total": 9},
    "digest": "sha256:" + "0" * 64,
    "engine_version": "1",
    "estimated_cost": 1,
    "created_at": STAMP,
    "updated_at": STAMP,
    "expires_at": STAMP,
}
BOUNDS: dict[str, Any] = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [ADVANTAGE]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    settings = {"worker_niceness": "0", "worker_count": "1", "job_workers": "1", "log_level": "warning"}
    with running_server(tmp_path_factory.mktemp("server"), **settings) as client:
        yield client


def test_a_job_from_a_notebook(server: httpx2.Client) -> None:
    client = Client(str(server.base_url))
    estimate = client.estimate("sweeps", sweep(40))
    assert estimate.points == 40
    assert (estimate.least or 0) <= (estimate.likely or 0) <= (estimate.most or 0) > 0
    assert "shared_points" in estimate.unknown
    job = client.submit("sweeps", sweep(40), key="notebook")
    assert client.submit("/v1/sweeps", sweep(40), key="notebook").id == job.id
    received = list(job.events())
    assert [each.state for each in received][-1] == job.wait().state == "succeeded"
    assert [row["point"] for row in job.rows()] == list(range(40))
    assert [row["point"] for row in job.rows(38)] == [38, 39]
    assert client.submit("bounds", BOUNDS).response() == server.post("/v1/bounds", json=BOUNDS).json()
    with pytest.raises(Refused) as refused:
        client.submit("bounds", BOUNDS | {"mechanism": {"type": "gdp", "mu": -1}})
    assert refused.value.pointer == "/request/mechanism/mu"
    with pytest.raises(Refused, match="Job not found"):
        client.job("nobody").state()
    with pytest.raises(Unreachable):
        Client("http://127.0.0.1:9").job("nobody").state()


def test_a_job_and_an_estimate_are_awaited(server: httpx2.Client) -> None:
    async def work() -> None:
        async with AsyncClient(str(server.base_url)) as client:
            assert (await client.estimate("/v1/sweeps", sweep(40))).points == 40
            job = await client.submit("sweeps", sweep(40), key="awaited")
            assert (await client.submit("sweeps", sweep(40), key="awaited")).id == job.id
            states = [each.state async for each in job.events()]
            assert states[-1] == (await job.wait()).state == "succeeded"
            assert [row["point"] async for row in job.rows()] == list(range(40))
            assert [row["point"] async for row in job.rows(38)] == [38, 39]
            assert job.id in [each.id async for each in client.jobs()]
            assert job.id in [each.id for each in Client(str(server.base_url)).jobs()]
            assert (await client.job(job.id).cancel()).state == "succeeded"
            single = await client.submit("bounds", BOUNDS)
            assert await single.response() == server.post("/v1/bounds", json=BOUNDS).json()
            with pytest.raises(Refused, match="Job not found"):
                await client.job("nobody").wait()

    asyncio.run(work())


def test_a_client_in_this_process_has_no_jobs() -> None:
    with pytest.raises(InvalidArgument, match="need a service"):
        asyncio.run(AsyncClient(Local()).submit("bounds", BOUNDS))


def test_a_problem_of_a_job_is_a_refusal() -> None:
    problem = {
        "type": "/problems/out-of-time",
        "title": "Time limit exceeded",
        "status": 504,
        "detail": "Ask less.",
        "instance": "/v1/jobs",
        "request_id": "",
        "errors": [],
    }
    state = JobResponse.model_validate(JOB_STATE | {"state": "succeeded"}).json_bytes()
    row = json.dumps({"point": 0, "problem": problem}).encode() + b"\n"
    with (
        faulty_server(in_turn(answer(200, state), answer(200, row, "application/x-ndjson"))) as service,
        pytest.raises(Refused, match=r"Time limit exceeded \(504\)"),
    ):
        Client(service.url).job("j").response()
    cancelled = JobResponse.model_validate(JOB_STATE | {"state": "cancelled"}).json_bytes()
    with (
        faulty_server(in_turn(answer(200, cancelled), answer(200, b"", "application/x-ndjson"))) as service,
        pytest.raises(PrivacyBoundsError, match="cancelled, and has no response"),
    ):
        Client(service.url).job("j").response()


def listed(found: Any) -> list[Any]:
    return list(found if hasattr(found, "__iter__") else [found])


async def collected(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


def awaited(url: str, what: Callable[[AsyncJob], Any], **settings: Any) -> Any:
    async def work() -> Any:
        async with AsyncClient(url, **settings) as client:
            found = what(client.job("j"))
            return await (collected(found) if hasattr(found, "__aiter__") else found)

    return asyncio.run(work())


ENDLESS: dict[str, tuple[Script, type[PrivacyBoundsError]]] = {
    "breaks off": (always(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", close=True), Unreachable),
    "restarts": (always(answer(502, b"bad gateway", "text/plain")), Unreachable),
    "another server": (always(answer(200, b"<html></html>", "text/html")), InvalidAnswer),
    "rows without points": (always(answer(200, b'{"x": 1}\n', "application/x-ndjson")), InvalidAnswer),
    "events without jobs": (always(answer(200, b"data: {}\nid: 1\n", "text/event-stream")), InvalidAnswer),
    "events that end": (always(answer(200, b"", "text/event-stream")), PrivacyBoundsError),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_waiting_for_a_job_of_an_absent_service_ends(name: str) -> None:
    script, kind = ENDLESS[name]
    methods: list[Callable[[Any], Any]] = [lambda job: job.events(), lambda job: job.rows(), lambda job: job.wait()]
    if name.startswith("rows"):
        methods = methods[1:2]
    elif name.startswith("events"):
        methods = methods[:1]
    with faulty_server(script) as service:
        started = time.monotonic()
        for method in methods:
            with Client(service.url, retry_seconds=0.2) as client, pytest.raises(kind):
                listed(method(client.job("j")))
            with pytest.raises(kind):
                awaited(service.url, method, retry_seconds=0.2)
        assert time.monotonic() - started < 15


def test_waiting_endures_a_service_that_comes_back() -> None:
    ended = JobResponse.model_validate(JOB_STATE | {"state": "succeeded"}).json_bytes()
    away = answer(502, b"bad gateway", "text/plain")
    for method in (lambda job: job.wait(), lambda job: job.wait(60)):
        with faulty_server(in_turn(away, away, answer(200, ended))) as service:
            assert method(Client(service.url).job("j")).state == "succeeded"
        with faulty_server(in_turn(away, away, answer(200, ended))) as service:
            assert awaited(service.url, method).state == "succeeded"


def test_waiting_ends_after_its_time() -> None:
    running = JobResponse.model_validate(JOB_STATE).json_bytes()
    with faulty_server(always(answer(200, running))) as service:
        assert Client(service.url).job("j").wait(0.1).state == "running"
        assert awaited(service.url, lambda job: job.wait(0.1)).state == "running"


def test_a_job_from_a_shell(server: httpx2.Client, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    url = str(server.base_url)
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"resource": "sweeps", "request": sweep(30)}))

    def run(*arguments: str) -> tuple[int, bytes, bytes]:
        code = cli.main(["jobs", *arguments, "--url", url])
        written = capfdbinary.readouterr()
        return code, written.out, written.err

    code, name, _ = run("submit", str(file))
    assert code == 0
    code, received, progress = run("wait", name.decode().strip())
    assert (code, json.loads(received)["state"]) == (0, "succeeded")
    assert b"succeeded: 30 of 30" in progress
    code, lines, _ = run("results", name.decode().strip())
    assert [json.loads(line)["point"] for line in io.BytesIO(lines)] == list(range(30))
    assert json.loads(run("cancel", name.decode().strip())[1])["state"] == "succeeded"
    code, _, problem = run("state", "nobody")
    assert (code, json.loads(problem)["type"]) == (2, "/problems/job-not-found")
    file.write_text("[]")
    assert run("submit", str(file))[0] == run("submit", str(tmp_path / "nowhere"))[0] == 2


def test_a_shell_sees_repeated_attempts_on_standard_error_only(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    busy = answer(503, b"busy", "text/plain", Retry_After="0")
    state = JobResponse.model_validate(JOB_STATE).json_bytes()
    with faulty_server(in_turn(busy, answer(200, state))) as service:
        assert cli.main(["jobs", "state", "j", "--url", service.url]) == 0
    written = capfdbinary.readouterr()
    assert written.out == state + b"\n"
    assert b"The service is busy. Next attempt in 0.1" in written.err


def test_rows_go_on_where_a_connection_broke() -> None:
    """Rows of a result continue where a connection broke.

    Streams of lines break off when the server ends, and an incomplete line at the break does not count.
    """
    rows = [json.dumps({"point": point, "numbers": [1.0]}).encode() + b"\n" for point in range(9)]
    asked: list[str] = []

    class Breaking(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            self.close_connection = True
            self.send_response(200)
            if not self.path.endswith("/j"):
                start = int(self.path.rpartition("=")[2])
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                sent = b"".join(rows[start:])[: 130 if start < 8 else 10_000]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent) + (b"0\r\n\r\n" if start >= 8 else b""))
                return
            state = JobResponse.model_validate(JOB_STATE).json_bytes()
            self.send_header("Content-Length", str(len(state)))
            self.end_headers()
            self.wfile.write(state)

        @override
        def log_message(self, *_: object, **__: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Breaking) as service:
        threading.Thread(target=service.serve_forever).start()
        try:
            url = f"http://127.0.0.1:{service.server_port}"
            assert [row["point"] for row in Client(url).job("j").rows()] == list(range(9))
            assert [row["point"] for row in awaited(url, lambda job: job.rows())] == list(range(9))
        finally:
            service.shutdown()
    assert len([path for path in asked if "start=" in path]) > 2
