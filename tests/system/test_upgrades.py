"""Services of two versions on one data folder, in turn and side by side, during jobs."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, closing
from pathlib import Path
from signal import SIGKILL

import httpx2
import pytest

from service.jobs.local.store import SqliteStore
from tests.system.jobs import done, state_of, submit, sweep, wait_for, wait_until_ended
from tests.system.running_server import running_server

SETTINGS = {"worker_niceness": "0", "worker_count": "1", "job_workers": "1", "log_level": "warning"}
POINTS = 24_000
PATCH = """
import os
if os.environ.get("TEST_ENGINE_VERSION"):
    import service.engine_version
    service.engine_version.ENGINE_VERSION = os.environ["TEST_ENGINE_VERSION"]
    from service.jobs import results_codec
    whole = results_codec.ChunkTask.body
    def body(self, request, digest, engine_version):
        made = results_codec.decompress(whole(self, request, digest, engine_version))
        return results_codec.compress(made.replace(b'{"point"', b'{"by":"%b","point"' % engine_version.encode()))
    results_codec.ChunkTask.body = body
"""
"""Patch that makes a service another version whose lines name it. Every process reads it at start."""


@pytest.fixture(autouse=True)
def _patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "patch"
    place.mkdir()
    (place / "sitecustomize.py").write_text(PATCH)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(place), os.environ.get("PYTHONPATH", ""), str(Path.cwd())]))


def makers(client: httpx2.Client, job: str) -> tuple[list[int], set[str]]:
    """Return the points of a job in order, and the versions of the service that computed its result lines."""
    points: list[int] = []
    versions: set[str] = set()
    with client.stream("GET", f"{job}/results", headers={"accept": "application/x-ndjson"}) as answer:
        for line in answer.iter_lines():
            row = json.loads(line)
            assert row["problem"] is None
            points.append(row["point"])
            versions.add(row["by"])
    return points, versions


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [1, 2, 10])
def test_rolling_upgrades_and_rollbacks_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """Rolling upgrades and rollbacks lose no result of a job.

    In each round the other version starts, both compute, and the first one stops or is killed. Then the roles change.
    """
    data = tmp_path / "data"

    def serving(number: int) -> AbstractContextManager[httpx2.Client]:
        monkeypatch.setenv("TEST_ENGINE_VERSION", f"test-{number % 2}")
        folder = tmp_path / f"server{number}"
        folder.mkdir()
        return running_server(folder, -SIGKILL, **{**SETTINGS, "data_folder": str(data)})

    jobs: list[str] = []
    begun_anew: dict[str, int] = {}
    here = serving(0)
    client = here.__enter__()
    with closing(SqliteStore(data)) as store:
        for number in range(1, rounds + 1):
            there = serving(number)
            other = there.__enter__()
            jobs.append(submit(client, "sweeps", sweep(POINTS)))
            name = jobs[-1].rpartition("/")[2]
            wait_for(lambda client=client, job=jobs[-1]: done(client, job) > 0)
            quick = submit(other, "sweeps", sweep(500))
            wait_until_ended(other, quick)
            assert makers(other, quick) == (list(range(500)), {f"test-{number % 2}"})
            active = [job for job in jobs if state_of(other, job)["state"] == "running"]
            assert jobs[-1] in active
            assert store.get(name).generation == 0, "both are here"
            if number % 2:
                os.kill(client.process_id, SIGKILL)  # type: ignore[attr-defined]
            here.__exit__(None, None, None)
            for job in active:
                begun_anew[job] = begun_anew.get(job, 0) + 1
                wait_for(
                    lambda job=job, other=other, number=number: (
                        state_of(other, job)["engine_version"] == f"test-{number % 2}"
                    )
                )
            here, client = there, other
        for job in jobs:
            found = wait_until_ended(client, job)
            assert (found["state"], found["progress"]["failed"]) == ("succeeded", 0)
            assert makers(client, job) == (list(range(POINTS)), {found["engine_version"]})
            assert store.get(job.rpartition("/")[2]).generation == begun_anew[job]
    here.__exit__(None, None, None)
