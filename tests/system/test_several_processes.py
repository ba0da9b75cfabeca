"""`privacy-bounds serve --workers N`: several processes behind one port give the same answers."""

from __future__ import annotations

import re
from pathlib import Path
from signal import SIGKILL

import httpx2
import psutil
import pytest

from tests.system.jobs import SEAL_KEY, submit, sweep, wait_for, wait_until_ended
from tests.system.running_server import running_server
from tests.system.test_processes import is_gone

QUICK = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [{"type": "advantage"}]}
DEAR = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}


def counted(url: httpx2.URL, route: str) -> float:
    """Return the requests to a route, as counted by whichever process answers on a new connection."""
    text = httpx2.get(url.join("/metrics")).text
    found = re.findall(rf'http_requests_total{{method="POST",route="{route}",status="200"}} ([\d.]+)', text)
    return sum(map(float, found))


@pytest.mark.thorough
def test_processes_share_a_port_counts_results_and_jobs(tmp_path: Path, redis_url: str) -> None:
    settings = {"redis_url": redis_url, "seal_key": SEAL_KEY, "log_level": "warning", "worker_niceness": "0"}
    with running_server(tmp_path, command="--workers 2", **settings) as client:
        supervisor = psutil.Process(client.process_id)  # type: ignore[attr-defined]
        url = client.base_url
        wait_for(lambda: ready(supervisor))
        for _ in range(20):
            assert httpx2.post(url.join("/v1/bounds"), json=QUICK).status_code == 200
        for _ in range(6):
            assert counted(url, "/v1/bounds") == 20
        origins = [httpx2.post(url.join("/v1/bounds"), json=DEAR).headers["cache-status"] for _ in range(20)]
        assert sum("fwd=miss; stored" in origin for origin in origins) == 1, "one of them computes, for all"
        victim = serving(supervisor)[0]
        victim.kill()
        wait_for(lambda: is_gone(victim))
        wait_for(lambda: ready(supervisor))
        assert counted(url, "/v1/bounds") == 40, "what a process counted stays counted"
        job = submit(client, "sweeps", sweep(500))
        assert wait_until_ended(client, job)["state"] == "succeeded"
        assert {httpx2.get(url.join(job)).status_code for _ in range(10)} == {200}


@pytest.mark.thorough
def test_processes_share_results_and_jobs_without_redis_and_folder(tmp_path: Path) -> None:
    """Processes of one service share results and jobs without Redis and without a data folder.

    Any of them may answer. Their common temporary folder is removed with the supervisor.
    """
    temporary, state = tmp_path / "temporary", tmp_path / "no folder"
    temporary.mkdir()
    state.touch()
    settings = {"data_folder": "", "log_level": "warning", "worker_niceness": "0"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        patch.setenv("XDG_STATE_HOME", str(state))
        with running_server(tmp_path, command="--workers 2", **settings) as client:
            supervisor = psutil.Process(client.process_id)  # type: ignore[attr-defined]
            url = client.base_url
            wait_for(lambda: ready(supervisor))
            for asked in (QUICK, DEAR):
                digest = httpx2.post(url.join("/v1/bounds"), json=asked).json()["digest"]
                found = [httpx2.get(url.join(f"/v1/results/{digest}")) for _ in range(20)]
                assert {each.status_code for each in found} == {200}
                assert len({each.content for each in found}) == 1
            assert httpx2.get(url.join("/v1/results/sha256:" + 64 * "0")).status_code == 404
            job = submit(client, "sweeps", sweep(500))
            assert {httpx2.get(url.join(job)).status_code for _ in range(20)} == {200}
            assert wait_until_ended(client, job)["state"] == "succeeded"
            [folder] = temporary.glob("*/processes")
            assert folder.stat().st_mode & 0o777 == 0o700
        assert not list(temporary.glob("*/processes"))


def ready(supervisor: psutil.Process) -> bool:
    """Return whether both processes have a warm worker, which exists before they listen."""
    return [bool(child.children(recursive=True)) for child in serving(supervisor)] == [True, True]


def serving(supervisor: psutil.Process) -> list[psutil.Process]:
    return [child for child in supervisor.children() if not is_gone(child) and child.cmdline()[-2:-1] == ["--socket"]]


@pytest.mark.thorough
def test_processes_end_with_their_supervisor(tmp_path: Path) -> None:
    with running_server(tmp_path, -SIGKILL, command="--workers 2", log_level="warning") as client:
        supervisor = psutil.Process(client.process_id)  # type: ignore[attr-defined]
        children = supervisor.children(recursive=True)
        assert len(children) >= 2
        supervisor.kill()
        wait_for(lambda: all(map(is_gone, children)))
