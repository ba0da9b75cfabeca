"""A full disk under API keys and backups, and computations beyond the memory of a worker."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from service.jobs.local.store import SqliteStore
from service.jobs.repository import Quota
from tests.access.keys import bearer, make_key
from tests.system.jobs import ADVANTAGE, new_job, state_of, submit, wait_until_ended
from tests.system.running_server import running_server
from tests.system.test_operate_jobs import mounted
from tests.timeouts import TEST_TIMEOUT

QUICK = {"mechanism": {"type": "gaussian", "noise_multiplier": 3.0}, "questions": [ADVANTAGE]}
LARGE = {
    "mechanism": {"type": "poisson_sampled", "sample_rate": 0.01, "mechanism": QUICK["mechanism"]},
    "questions": [{"type": "delta", "epsilon": 1.0}],
    "method": "monte_carlo",
    "samples": 10**7,
}

pytestmark = pytest.mark.thorough


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of one megabyte."""
    with mounted(tmp_path / "small", "size=1m"):
        yield tmp_path / "small"


def fill(folder: Path) -> Path:
    """Fill the file system of a folder to its last byte, and return the file that fills it."""
    path = folder / "filling"
    with path.open("wb", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return path


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command with a data folder, and return its exit code and what it printed."""
    environment = os.environ | {"PRIVACY_BOUNDS_DATA_FOLDER": str(folder)}
    command = [sys.executable, "-m", "service.cli", *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TEST_TIMEOUT)
    return ended.returncode, ended.stdout, ended.stderr


def test_full_disk_changes_no_key(tmp_path: Path, small_disk: Path) -> None:
    """A full disk changes no key.

    Existing keys work, no key is printed that is not stored, and nothing is left of the attempt.
    """
    key = make_key(small_disk, "compute")
    filling = fill(small_disk)
    before = {path.name: path.read_bytes() for path in small_disk.iterdir() if path != filling}
    code, printed, error = run(small_disk, "keys", "create", "--scope", "compute")
    assert (code, printed, error.count("\n")) == (2, "", 1)
    assert "No space left on device" in error
    assert {path.name: path.read_bytes() for path in small_disk.iterdir() if path != filling} == before
    with running_server(
        tmp_path, data_folder=str(small_disk), require_authentication="true", log_level="critical"
    ) as client:
        assert client.post("/v1/bounds", json=QUICK, headers=bearer(key)).status_code == 200
        assert client.post("/v1/bounds", json=QUICK).status_code == 401
        filling.unlink()
        code, printed, _ = run(small_disk, "keys", "create", "--scope", "compute")
        assert code == 0
        assert client.post("/v1/bounds", json=QUICK, headers=bearer(printed.strip())).status_code == 200


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_full_disk_leaves_no_half_of_a_backup(tmp_path: Path, small_disk: Path, command: str) -> None:
    """A full disk leaves no unfinished backup.

    The message is one sentence, no file is added to the disk, and the same command succeeds on another disk.
    """
    data, archive = tmp_path / "data", tmp_path / "backup.zip"
    with closing(SqliteStore(data)) as store:
        for _ in range(20):
            store.add(new_job(), json.dumps(os.urandom(2**14).hex()).encode(), None, b"", Quota(100, 2**30), 1)
    assert run(data, "backup", str(archive))[0] == 0
    fill(small_disk)
    before = {path.name for path in small_disk.iterdir()}
    if command == "backup":
        code, printed, error = run(data, "backup", str(small_disk / "backup.zip"))
    else:
        code, printed, error = run(small_disk, "restore", str(archive))
    assert (code, printed, error.count("\n")) == (2, "", 1), error
    assert {path.name for path in small_disk.iterdir()} - {"jobs.lock"} == before
    assert run(tmp_path / "other", "restore", str(archive))[0] == 0


@pytest.fixture
def small_worker(tmp_path: Path) -> Iterator[httpx2.Client]:
    """Yield a service whose workers have as little memory as the settings allow."""
    limits = {"worker_memory_limit_bytes": str(256 * 2**20), "worker_count": "1", "job_workers": "1"}
    with running_server(
        tmp_path, **limits, worker_niceness="0", log_level="critical", time_limit_seconds=str(TEST_TIMEOUT)
    ) as client:
        yield client


def test_computation_beyond_memory_ends_alone(small_worker: httpx2.Client) -> None:
    """A computation beyond the memory of a worker ends alone.

    Its request or job gets a problem, and the next request and job are computed.
    """
    refused = small_worker.post("/v1/bounds", json=LARGE)
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/out-of-memory")
    assert small_worker.post("/v1/bounds", json=QUICK | {"method": "ground_truth"}).status_code == 200
    job = submit(small_worker, "bounds", LARGE)
    following = submit(small_worker, "bounds", QUICK)
    wait_until_ended(small_worker, job)
    assert "/problems/out-of-memory" in small_worker.get(job).text + small_worker.get(f"{job}/results").text
    assert wait_until_ended(small_worker, following)["state"] == "succeeded"
    assert state_of(small_worker, following)["progress"]["failed"] == 0
