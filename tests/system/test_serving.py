"""End to end: a server process, bytes over a socket, real signals, and the command line."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import RedisServer
from tests.execution.fakes import SEAL_KEY
from tests.slow_marker import thorough
from tests.slow_requests import LONG, MORE_THAN_ITS_PRICE
from tests.system.jobs import wait_for
from tests.system.running_server import running_server
from tests.system.test_processes import workers_of
from tests.timeouts import TEST_TIMEOUT

DPSGD = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "reconstruction", "baseline_success": 0.001}, {"type": "epsilon", "delta": 1e-5}],
}
GAUSSIAN = {"mechanism": {"type": "gaussian", "noise_multiplier": 2.0}, "questions": [{"type": "advantage"}]}


def command(*arguments: str, send: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        input=send,
        capture_output=True,
        check=False,
        timeout=TEST_TIMEOUT,
    )


@pytest.mark.parametrize("request_", [DPSGD, thorough(GAUSSIAN)], ids=["dpsgd", "gaussian"])
def test_http_and_command_line_give_the_same_bytes(
    server: httpx2.Client, tmp_path: Path, request_: dict[str, Any]
) -> None:
    over_http = server.post("/v1/bounds", json=request_)
    assert over_http.status_code == 200
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request_))
    from_file = command("bounds", str(file))
    from_input = command("bounds", "-", send=file.read_bytes())
    assert (from_file.returncode, from_file.stderr) == (0, b"")
    assert from_file.stdout == from_input.stdout == over_http.content
    again = server.post("/v1/bounds", json=request_)
    assert again.content == over_http.content
    assert again.headers["cache-status"].startswith("privacy-bounds; hit")


def test_readme_example_matches_reference(server: httpx2.Client) -> None:
    """The example of README.md matches the reference values of the benchmark case C1.

    They are gamma(1e-3) = 4.06844788114255e-3 +- 2e-17 and epsilon(1e-5) = 1.8282366665 +- 2e-10.
    """
    gamma, epsilon = server.post("/v1/bounds", json=DPSGD).json()["answers"]
    assert gamma["lower"] <= 4.06844788114255e-3 + 2e-17
    assert 4.06844788114255e-3 - 2e-17 <= gamma["upper"] <= gamma["lower"] * (1 + 1e-9)
    assert epsilon["lower"] <= 1.8282366665 + 2e-10
    assert 1.8282366665 - 2e-10 <= epsilon["upper"] <= epsilon["lower"] * (1 + 1e-9)
    assert gamma["value"] == gamma["upper"] >= gamma["lower"] > 0.001
    assert gamma["evidence"] == epsilon["evidence"] == "certified"


def test_command_line_prints_problem_of_rejected_request() -> None:
    refused = command("bounds", "-", send=b'{"mechanism": {"type": "gdp", "mu": -1}, "questions": []}')
    assert (refused.returncode, refused.stdout) == (2, b"")
    problem = json.loads(refused.stderr)
    assert (problem["status"], problem["type"]) == (422, "/problems/invalid-request")
    assert {"/mechanism/mu", "/questions"} == {error["pointer"] for error in problem["errors"]}


@pytest.mark.thorough
def test_command_line_prints_problem_of_malformed_request() -> None:
    malformed = command("bounds", "-", send=b"{")
    assert (malformed.returncode, json.loads(malformed.stderr)["status"]) == (2, 400)


def test_command_line_reports_missing_file(tmp_path: Path) -> None:
    missing = command("bounds", str(tmp_path / "nothing.json"))
    assert missing.returncode == 2
    assert b"nothing.json" in missing.stderr
    assert b"Traceback" not in missing.stderr


WRONG_SETTINGS: list[dict[str, tuple[str, str]]] = [
    {
        "MAX_COST": ("many", "is not accepted: "),
        "TIME_LIMIT_SECONDS": ("-1", "is not accepted: input should be greater than 0."),
        "REDIS_ULR": ("redis://:sekrit@x", "is not a setting; did you mean PRIVACY_BOUNDS_REDIS_URL?"),
        "SEAL_KEY": ("sekrit", "is not accepted: each key must have at least 32 characters."),
        "REDIS_URL": ("sekrit://x", "is not accepted: "),
        "TRUSTED_PROXIES": ("10.0.0.0/8, nowhere", "is not accepted: "),
    },
    {
        "SEAL_KEY": ("[sekrit", "is not accepted: "),
        "REDIS_URL": ("redis://sekrit:port", "is not accepted: "),
    },
]


@pytest.mark.parametrize("wrong", WRONG_SETTINGS)
def test_every_wrong_setting_is_one_sentence(wrong: dict[str, tuple[str, str]]) -> None:
    started = subprocess.run(
        [sys.executable, "-m", "service.cli", "serve"],
        env=os.environ | {f"PRIVACY_BOUNDS_{name}": value for name, (value, _) in wrong.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=TEST_TIMEOUT,
    )
    assert (started.returncode, started.stdout) == (2, "")
    sentences = started.stderr.splitlines()
    assert len(sentences) == len(wrong)
    for name, (_, said) in wrong.items():
        assert any(sentence.startswith(f"privacy-bounds: PRIVACY_BOUNDS_{name} {said}") for sentence in sentences), name
    assert all(sentence[-1] in ".?" and "sekrit" not in sentence.lower() for sentence in sentences)


def test_command_line_answers_without_web_framework() -> None:
    script = (
        "import sys, service.command.main\n"
        "assert service.command.main.main(['bounds', '-']) == 0\n"
        "unwanted = {'fastapi', 'starlette', 'uvicorn', 'redis', 'pebble', 'prometheus_client'}\n"
        "sys.exit(', '.join(unwanted & set(sys.modules)) or 0)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(GAUSSIAN).encode(),
        capture_output=True,
        check=False,
        timeout=TEST_TIMEOUT,
    )
    assert (run.returncode, run.stderr) == (0, b"")


def test_killed_worker_costs_at_most_one_request(tmp_path: Path) -> None:
    """A worker killed by SIGKILL costs at most one of several expensive requests, and the next one is answered."""
    with running_server(tmp_path, worker_count="1") as client:
        assert client.get("/readyz").status_code == 200
        [worker] = workers_of(client)
        first = client.post("/v1/bounds", json=DPSGD)
        assert first.status_code == 200
        assert workers_of(client) == [worker], "warm before it was needed, and kept"
        worker.kill()
        again = client.post("/v1/bounds", json=DPSGD | {"relative_tolerance": 1e-8})
        assert again.status_code == 200
        assert again.json()["answers"] == first.json()["answers"]


@pytest.mark.thorough
def test_request_beyond_time_limit_gets_problem_and_service_continues(tmp_path: Path) -> None:
    """A request beyond the time limit gets a problem, and the service continues.

    The limit is checked every tenth of a second, so a fast request may be answered by then.
    """
    with running_server(tmp_path, worker_count="1", time_limit_seconds="0.01", max_cost=MORE_THAN_ITS_PRICE) as client:
        late = client.post("/v1/bounds", json=LONG)
        assert (late.status_code, late.json()["type"]) == (504, "/problems/out-of-time")
        assert client.get("/livez").status_code == 200
        assert client.get("/readyz").status_code == 200


def test_sweep_beyond_time_limit_sends_finished_points(tmp_path: Path) -> None:
    runs = {"type": "dpsgd", "noise_multiplier": 0.6, "sample_rate": 0.01, "steps": 12}
    vary = {"/mechanism/noise_multiplier": {"from": 0.6, "to": 0.9, "count": 4_000}}
    body = {"mechanism": runs, "vary": vary, "questions": [{"type": "epsilon", "delta": 1e-5}]}
    with running_server(tmp_path, worker_count="1", time_limit_seconds="6", max_cost=MORE_THAN_ITS_PRICE) as client:
        found = client.post("/v1/sweeps", json=body)
        assert found.status_code == 200
        assert found.headers["cache-control"] == "no-store"
        assert "etag" not in found.headers
        assert "stored" not in found.headers["cache-status"]
        late = [problem["point"] for problem in found.json()["problems"]]
        assert {problem["type"] for problem in found.json()["problems"]} == {"/problems/out-of-time"}
        assert late == list(range(late[0], 4_000))
        assert None not in found.json()["answers"][0]["upper"][: late[0]]
        rows = client.post("/v1/sweeps", json=body, headers={"Accept": "text/csv"})
        assert (rows.status_code, rows.headers["cache-control"], "etag" in rows.headers) == (200, "no-store", False)
        assert client.get(f"/v1/results/{found.json()['digest']}").status_code == 404


def test_request_beyond_budget_is_rejected_with_estimate_and_limit(server: httpx2.Client) -> None:
    dear = {"mechanism": DPSGD["mechanism"], "methods": ["ground_truth"], "grid": {"count": 10_000}}
    refused = server.post("/v1/curves", json=dear)
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/compute-budget-exceeded")
    assert refused.json()["estimated_cost"] > refused.json()["limit"] == server.get("/v1/limits").json()["cost"]


def test_results_are_shared_through_redis_and_survive_its_loss(own_redis: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    shared = {"redis_url": own_redis.url, "seal_key": SEAL_KEY, "redis_cost_floor": "0", "redis_timeout_seconds": "20"}
    with running_server(tmp_path / "1", **shared) as one, running_server(tmp_path / "2", **shared) as two:
        computed = one.post("/v1/bounds", json=DPSGD)
        assert computed.headers["cache-status"] == "privacy-bounds; fwd=miss; stored"
        wait_for(lambda: two.get(computed.headers["content-location"]).status_code == 200)
        found = two.post("/v1/bounds", json=DPSGD)
        assert found.headers["cache-status"] == "privacy-bounds; hit; detail=redis"
        assert found.content == computed.content
        assert one.get("/readyz").json()["status"] == "ready"

        own_redis.kill()
        alone = two.post("/v1/bounds", json=DPSGD | {"relative_tolerance": 1e-7})
        assert (alone.status_code, alone.headers["cache-status"]) == (200, "privacy-bounds; fwd=miss; stored")
        degraded = two.get("/readyz")
        assert (degraded.status_code, degraded.json()["status"]) == (200, "degraded")
        assert re.search(r"privacy_bounds_redis_failures_total\{operation=\"\w+\"\} [1-9]", two.get("/metrics").text)

        own_redis.start()
        wait_for(lambda: two.get("/readyz").json()["status"] == "ready")
        assert two.post("/v1/bounds", json=DPSGD | {"relative_tolerance": 1e-8}).status_code == 200
    events = [json.loads(line) for line in (tmp_path / "2" / "server.log").read_text().splitlines()]
    changes = [event for event in events if event["event"] == "redis"]
    assert [(event["circuit"], event["level"]) for event in changes] == [
        ("answers", "info"),
        ("away", "warning"),
        ("answers", "info"),
    ], "each change once"
    assert all(event["cause"] for event in changes)
    assert "ConnectionError" in changes[1]["cause"]


def test_log_is_json_with_one_event_per_request(tmp_path: Path) -> None:
    with running_server(tmp_path) as client:
        client.post("/v1/bounds", json=GAUSSIAN, headers={"X-Request-ID": "in-the-log"})
        with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
            connection.sendall(b"this is not HTTP\r\n\r\n")
            with connection.makefile("rb") as reading:
                answer = reading.read()
            assert answer.startswith(b"HTTP/1.1 400")
            assert b"/problems/malformed-http" in answer
    events = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    assert [event["event"] for event in events if event["event"] != "request"] == ["started", "stopped"]
    [event] = [event for event in events if event.get("request_id") == "in-the-log"]
    assert (event["route"], event["status"], event["cache"]) == ("/v1/bounds", 200, "computed")
    assert event["digest"].startswith("sha256:")
