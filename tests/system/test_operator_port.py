"""`PRIVACY_BOUNDS_OPERATOR_BIND`: a separate port or socket for operators."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from service.server.serve import PROBLEM_EXIT_CODE, UNABLE_TO_LISTEN_EXIT_CODE
from tests.conftest import port_of, reserved_port
from tests.slow_marker import sample_of
from tests.system.jobs import wait_for
from tests.system.running_server import running_server
from tests.timeouts import TEST_TIMEOUT

QUICK = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [{"type": "advantage"}]}


@contextmanager
def operator(path: Path) -> Generator[httpx2.Client]:
    """Yield a client of the operator socket."""
    transport = httpx2.HTTPTransport(uds=str(path))
    with httpx2.Client(transport=transport, base_url="http://operator", timeout=TEST_TIMEOUT) as client:
        yield client


def test_operator_socket_has_details_that_public_port_omits(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    with running_server(tmp_path, operator_bind=f"unix:{path}", log_level="warning") as client:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert client.post("/v1/bounds", json=QUICK).status_code == 200
        assert client.get("/metrics").status_code == 404
        assert client.get("/operate/jobs").status_code == 404
        # The scheduler of jobs starts beside the server: until its first report, the service is degraded.
        wait_for(lambda: client.get("/readyz").json()["status"] == "ready")
        assert client.get("/readyz?verbose").json() == {"status": "ready", "checks": []}
        with operator(path) as theirs:
            assert 'http_requests_total{method="POST",route="/v1/bounds"' in theirs.get("/metrics").text
            assert theirs.get("/readyz?verbose").json()["checks"]
            assert theirs.get("/livez").json() == {"status": "live"}
            assert theirs.post("/v1/bounds", json=QUICK).status_code == 404
            assert theirs.get("/openapi.json").status_code == 404
    assert not path.exists()


@pytest.mark.thorough
def test_several_processes_share_one_operator_port(tmp_path: Path) -> None:
    with closing(reserved_port()) as place:
        port = port_of(place)
        bind = f"127.0.0.1:{port}"
        with running_server(tmp_path, command="--workers 2", operator_bind=bind, log_level="warning") as client:
            supervisor = psutil.Process(client.process_id)  # type: ignore[attr-defined]
            wait_for(lambda: len([each for each in supervisor.children() if each.children()]) == 2)
            for _ in range(20):
                assert httpx2.post(client.base_url.join("/v1/bounds"), json=QUICK).status_code == 200
            line = 'http_requests_total{method="POST",route="/v1/bounds",status="200"} 20.0'
            for _ in range(5):
                assert line in httpx2.get(f"http://{bind}/metrics").text
            assert httpx2.get(client.base_url.join("/metrics")).status_code == 404


def serve(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "serve", *arguments],
        env=os.environ | {f"PRIVACY_BOUNDS_{name.upper()}": value for name, value in settings.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=TEST_TIMEOUT,
    )


@sample_of(1)
@pytest.mark.parametrize("command", [(), ("--workers", "2"), ("--share-port",)])
def test_operator_port_in_use_is_one_sentence(command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = serve("--port", "0", *command, operator_bind=bind)
    assert ended.returncode == UNABLE_TO_LISTEN_EXIT_CODE
    assert ended.stderr == f"privacy-bounds: cannot listen on {bind}: Address already in use\n"


def test_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve("--port", str(port))
    assert ended.returncode == UNABLE_TO_LISTEN_EXIT_CODE
    assert ended.stderr == f"privacy-bounds: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@sample_of(3)
@pytest.mark.parametrize("bind", ["9100", "host:", "host:0", "host:70000", "::1:9100", "unix:", "unix:" + "x" * 108])
def test_invalid_bind_is_one_sentence(bind: str) -> None:
    ended = serve(operator_bind=bind)
    assert ended.returncode == PROBLEM_EXIT_CODE
    assert ended.stderr.startswith("privacy-bounds: PRIVACY_BOUNDS_OPERATOR_BIND is not accepted: ")
    assert ended.stderr.count("\n") == 1


@sample_of(4)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--port", "70000"), PROBLEM_EXIT_CODE),
        (("--port", "-1"), PROBLEM_EXIT_CODE),
        (("--port", "eighty"), PROBLEM_EXIT_CODE),
        (("--workers", "0"), PROBLEM_EXIT_CODE),
        (("--host", "no.such.host.invalid"), UNABLE_TO_LISTEN_EXIT_CODE),
        (("--host", "a..b"), UNABLE_TO_LISTEN_EXIT_CODE),
        (("--host", "a..b", "--workers", "2"), UNABLE_TO_LISTEN_EXIT_CODE),
        (("--host", "a..b", "--share-port"), UNABLE_TO_LISTEN_EXIT_CODE),
    ],
    ids=str,
)
def test_service_that_cannot_start_prints_no_traceback(arguments: tuple[str, ...], code: int) -> None:
    ended = serve(*arguments)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    *_, last = [line for line in ended.stderr.splitlines() if not line.startswith("Help: ")]
    assert last.startswith("privacy-bounds")


def test_draining_service_is_unready_and_answers(tmp_path: Path) -> None:
    with running_server(tmp_path, drain_seconds="4", log_level="warning") as client:
        assert client.get("/readyz").status_code == 200
        began = time.monotonic()
        os.kill(client.process_id, signal.SIGTERM)  # type: ignore[attr-defined]
        wait_for(lambda: httpx2.get(client.base_url.join("/readyz")).status_code == 503)
        checks = client.get("/readyz").json()["checks"]
        assert [each["name"] for each in checks if each["status"] == "failed"] == ["shutdown"]
        assert client.post("/v1/bounds", json=QUICK).status_code == 200
        psutil.Process(client.process_id).wait(TEST_TIMEOUT)  # type: ignore[attr-defined]
        assert time.monotonic() - began >= 4
