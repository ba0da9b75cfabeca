"""Two versions of a cluster during jobs: upgrades and rollbacks, one worker after the other."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from service.execution.entry_mac import EntryAuthenticator
from service.jobs.celery.store import RedisStore
from tests.system.jobs import SEAL_KEY, Cluster, cluster, done, submit, sweep, wait_for, wait_until_ended
from tests.system.running_server import running_server
from tests.timeouts import TEST_TIMEOUT

ROUNDS = 10
POINTS = 30_000
SEED = 20267
SERVICE = {"worker_count": "1", "log_level": "warning"}


@contextmanager
def version(name: str) -> Generator[None]:
    """Start everything in the block with this engine version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTED_VERSION", name)
        yield


@contextmanager
def served_by(directory: Path, made: Cluster, name: str) -> Generator[httpx2.Client]:
    folder = directory / f"service {name}"
    folder.mkdir()
    with version(name), running_server(folder, **SERVICE, **made.settings) as client:
        yield client


def lines_of(client: httpx2.Client, job: str) -> tuple[list[int], set[str]]:
    """Return the points of all lines in order, and the versions that saved them."""
    with client.stream("GET", f"{job}/results", headers={"accept": "application/x-ndjson"}) as answer:
        assert answer.status_code == 200
        rows = [json.loads(line) for line in answer.iter_lines()]
    assert all(row["problem"] is None for row in rows)
    return [row["point"] for row in rows], {row["by"] for row in rows}


@pytest.mark.thorough
def test_upgrades_and_rollbacks_never_mix_versions_in_a_job(tmp_path: Path) -> None:
    """The results of a job are never from two versions of the service.

    Every job is completed by the version that accepted it, or restarted once by its successor.
    """
    source = random.Random(SEED)
    with (
        cluster(tmp_path, workers=0) as made,
        closing(RedisStore(made.redis.url, EntryAuthenticator([SEAL_KEY]))) as store,
        served_by(tmp_path, made, "1") as first,
        served_by(tmp_path, made, "2") as second,
    ):
        clients = {"1": first, "2": second}
        with version("1"):
            worker = made.start_worker()
        names = "1", "2"
        for number in range(ROUNDS):
            before, after = names if number % 2 == 0 else names[::-1]
            job = submit(clients[before], "sweeps", sweep(POINTS))
            wait_for(lambda: done(clients[before], job) > 0)  # noqa: B023
            with version(after):
                following = made.start_worker()
            if source.random() < 0.5:
                wait_for(lambda: after in {each for _, each in store.present_workers(5.0)})  # noqa: B023
            worker.send_signal(source.choice([signal.SIGTERM, signal.SIGKILL]))
            worker.wait(TEST_TIMEOUT)
            worker = following
            assert wait_until_ended(clients[after], job)["state"] == "succeeded"
            found = store.get(job.rpartition("/")[2])
            points, versions = lines_of(clients[source.choice(names)], job)
            assert points == list(range(POINTS))
            assert versions == {found.engine_version}
            assert found.generation == (found.engine_version == after)
            print(f"round {number}: {before} to {after}, done by {found.engine_version}")  # noqa: T201
