"""Jobs of a cluster while any part is killed: real Redis with its file, real workers, real signals."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from signal import SIGKILL
from typing import Any

import httpx2
import psutil
import pytest
import redis

from service.engine_version import ENGINE_VERSION
from service.execution.entry_mac import EntryAuthenticator
from service.jobs.celery.celery_app import KEY_PREFIX, queue_name
from service.jobs.celery.scripts import PREFIX
from service.jobs.celery.store import RedisStore
from service.jobs.chunk_worker import CLAIM_SECONDS
from service.jobs.repository import Quota
from tests.conftest import RedisServer, stopped
from tests.slow_requests import LONG
from tests.system.jobs import (
    ADVANTAGE,
    SEAL_KEY,
    Cluster,
    assert_every_point_once,
    cluster,
    done,
    first_that_computes,
    kill_worker_processes,
    new_job,
    state_of,
    submit,
    sweep,
    wait_for,
    wait_until_ended,
)
from tests.system.running_server import running_server
from tests.system.stopped_threads import stopped_thread, thread_named
from tests.system.test_processes import is_gone

SERVICE = {"worker_count": "1", "log_level": "warning"}
SEED = 20268
POINTS = 40_000
"""The work takes seconds: a job that ends before the kill would show nothing."""
AGAIN_WITHIN = float(os.environ.get("JOB_AGAIN_SECONDS", "inf"))
FREE_WITHIN = float(os.environ.get("JOB_FREE_SECONDS", "inf"))


@pytest.mark.thorough
def test_decision_made_by_cluster_is_found_and_logged(tmp_path: Path) -> None:
    gate = {"name": "gate", "rules": [{"question": ADVANTAGE, "at_most": 0.9}]}
    subject = {"name": "next-word model", "version": "2.1.0"}
    body = {"mechanism": {"type": "gdp", "mu": 0.5}, "context": {"delta": 1e-5, "subject": subject}, "policy": gate}
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        found = wait_until_ended(client, submit(client, "assessments", body))
        place = f"/v1/decisions/{found['digest']}"
        wait_for(lambda: client.get(place).status_code == 200)  # An answer of Redis may be too late for one request.
        told = client.get(place).json()
        assert (told["result"], told["subject"]) == (found["digest"], subject)
        answer = client.post("/v1/assessments", json=body)
        assert "fwd=miss" not in answer.headers["cache-status"], "a job stores its answer where requests look for it"
        assert told["decision"] == answer.json()["decision"]
        log = [line for line in (tmp_path / "worker0.log").read_text().splitlines() if line.startswith("{")]
        [line] = [each for each in map(json.loads, log) if each["event"] == "decision"]
        assert (line["decision"], line["subject"], line["verdict"]) == (found["digest"], subject["name"], "met")


def a_worker_child(made: Cluster, client: httpx2.Client) -> None:
    kill_worker_processes(made)


def a_whole_worker(made: Cluster, client: httpx2.Client) -> None:
    made.workers[0].kill()
    made.workers[0].wait()


def redis_with_a_restart(made: Cluster, client: httpx2.Client) -> None:
    made.redis.kill()
    wait_for(lambda: client.get("/readyz").json()["status"] == "degraded")
    made.redis.start()


def redis_in_order(made: Cluster, client: httpx2.Client) -> None:
    made.redis.stop()
    made.redis.start()


KILLS = (a_worker_child, a_whole_worker, redis_with_a_restart, redis_in_order)


@pytest.mark.thorough
@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.__name__)
def test_killed_parts_lose_nothing(
    tmp_path: Path, each_server: str, kill: Callable[[Cluster, httpx2.Client], None]
) -> None:
    with cluster(tmp_path, server=each_server) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        job = submit(client, "sweeps", sweep(POINTS))
        wait_for(lambda: done(client, job) > 0)
        kill(made, client)
        before = time.monotonic()
        found = wait_until_ended(client, job)
        print(f"{kill.__name__}: ended {time.monotonic() - before:.1f} s after")  # noqa: T201
        assert found["progress"] == {"done": POINTS, "failed": 0, "total": POINTS}
        assert_every_point_once(client, job, POINTS)


@pytest.mark.thorough
def test_workers_continue_without_killed_service(tmp_path: Path) -> None:
    """Workers continue without the service after it was killed, and a service started later knows the job."""
    with cluster(tmp_path) as made:
        with running_server(tmp_path, -SIGKILL, **SERVICE, **made.settings) as client:
            job = submit(client, "sweeps", sweep(POINTS))
            wait_for(lambda: done(client, job) > 0)
            psutil.Process(client.process_id).kill()  # type: ignore[attr-defined]
        with running_server(tmp_path, **SERVICE, **made.settings) as client:
            assert wait_until_ended(client, job)["progress"] == {"done": POINTS, "failed": 0, "total": POINTS}
            assert_every_point_once(client, job, POINTS)


@pytest.mark.thorough
def test_chunk_of_lost_worker_restarts_within_half_a_minute(tmp_path: Path) -> None:
    """The chunk of a killed worker restarts on another worker within half a minute.

    It has one long computation.
    """
    with cluster(tmp_path) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        wait_for(lambda: "2 workers of the cluster" in client.get("/readyz?verbose").text)
        submit(client, "bounds", LONG)
        computing = first_that_computes(made.all_processes)
        busy = next(worker for worker in made.workers if computing in made.processes(worker))
        [idle] = [worker for worker in made.workers if worker is not busy]
        busy.kill()
        busy.wait()
        before = time.monotonic()
        first_that_computes(lambda: made.processes(idle))
        seconds = time.monotonic() - before
        print(f"begun again {seconds:.1f} s after its worker was killed")  # noqa: T201
        assert seconds < AGAIN_WITHIN


@pytest.mark.thorough
def test_cancelled_job_frees_its_worker(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        job = submit(client, "bounds", LONG)
        process = first_that_computes(lambda: made.processes(made.workers[0]))
        assert client.delete(job).json()["state"] == "cancelled"
        seconds = wait_for(lambda: is_gone(process))
        following = submit(client, "sweeps", sweep(10))
        assert wait_until_ended(client, following)["state"] == "succeeded"
        print(f"the worker was free {seconds:.2f} s after its job was cancelled")  # noqa: T201
        assert seconds < FREE_WITHIN
        assert state_of(client, job)["state"] == "cancelled"


@pytest.mark.thorough
def test_small_jobs_pass_large_ones(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        large = submit(client, "sweeps", sweep(1_000_000))
        wait_for(lambda: done(client, large) > 0)
        small = submit(client, "bounds", {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [ADVANTAGE]})
        assert wait_until_ended(client, small)["state"] == "succeeded"
        assert state_of(client, large)["state"] == "running"
        assert client.delete(large).json()["state"] == "cancelled"


@pytest.mark.thorough
def test_without_redis_only_jobs_are_rejected(tmp_path: Path) -> None:
    quick = {"mechanism": {"type": "gaussian", "noise_multiplier": 3.0}, "questions": [ADVANTAGE]}
    with cluster(tmp_path, workers=0) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        job = submit(client, "bounds", quick)
        made.redis.kill()
        for answer in (client.post("/v1/jobs", json={"resource": "bounds", "request": quick}), client.get(job)):
            assert (answer.status_code, answer.json()["type"]) == (503, "/problems/jobs-unavailable")
        assert client.post("/v1/bounds", json=quick).status_code == 200
        assert client.get("/readyz").json()["status"] == "degraded"
        made.redis.start()
        made.start_worker()
        assert wait_until_ended(client, job)["state"] == "succeeded"


@pytest.mark.thorough
def test_garbage_in_queue_ends_no_worker(tmp_path: Path) -> None:
    source = random.Random(SEED)
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        wait_for(lambda: "1 workers of the cluster" in client.get("/readyz?verbose").text)
        with redis.Redis.from_url(made.redis.url) as database:
            queue = KEY_PREFIX + queue_name(ENGINE_VERSION)
            for _ in range(100):
                kind = source.choice([b"", b"{}", b"[]", b'{"headers":{}}', source.randbytes(100), bytes(2**20)])
                database.lpush(queue, kind)
            wait_for(lambda: not database.llen(queue))
        job = submit(client, "sweeps", sweep(100))
        assert wait_until_ended(client, job)["state"] == "succeeded"
        assert made.workers[0].poll() is None
        assert (tmp_path / "worker0.log").read_text("utf-8").count("message dropped") == 100


@pytest.mark.thorough
def test_full_redis_ends_no_worker(tmp_path: Path) -> None:
    """A full Redis ends no worker: busy workers and starting workers wait until it has space."""
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        job = submit(client, "sweeps", sweep(5_000))
        wait_for(lambda: done(client, job) > 0)
        with redis.Redis.from_url(made.redis.configuring_url) as database:
            database.config_set("maxmemory", 1)
            late = made.start_worker()
            log = tmp_path / "worker1.log"
            wait_for(lambda: "maxmemory" in log.read_text("utf-8"))
            time.sleep(12.0)  # Longer than a message waits for its acknowledgement.
            assert [made.workers[0].poll(), late.poll()] == [None, None]
            database.config_set("maxmemory", 0)
        assert wait_until_ended(client, job)["state"] == "succeeded"
        assert_every_point_once(client, job, 5_000)


@pytest.mark.thorough
def test_stopped_computation_keeps_its_claim(tmp_path: Path) -> None:
    """A computation that is stopped keeps its claim on a chunk, which another process renews.

    A computation may hold the interpreter lock, and could not renew the claim itself.
    """
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        submit(client, "bounds", LONG)
        process = first_that_computes(made.all_processes)
        with stopped(process.pid):
            time.sleep(1.5 * CLAIM_SECONDS)
        first_that_computes(lambda: [process])
        assert "begun again" not in (tmp_path / "worker0.log").read_text("utf-8")


@pytest.mark.thorough
def test_worker_with_stalled_consumer_restarts_itself(tmp_path: Path) -> None:
    """A worker whose consumer of messages has stalled restarts itself.

    The consumer sends no requests, as happened after losses of Redis, while everything else of the worker runs.
    """
    points = 2_000
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        wait_for(lambda: "1 workers of the cluster" in client.get("/readyz?verbose").text)
        consumer = psutil.Process(made.workers[0].pid)
        wait_for(lambda: consumer.status() == psutil.STATUS_SLEEPING)
        with stopped_thread(consumer.pid, consumer.pid):
            job = submit(client, "sweeps", sweep(points))
            found = wait_until_ended(client, job)
        assert found["progress"] == {"done": points, "failed": 0, "total": points}
        assert_every_point_once(client, job, points)
        assert "begins by itself" in (tmp_path / "worker0.log").read_text("utf-8")


@pytest.mark.parametrize("promised", ["accepted", "cancelled"])
def test_accepted_jobs_survive_slow_disk(tmp_path: Path, promised: str) -> None:
    """Accepted jobs survive a slow disk: clients get no confirmation before Redis has written the job.

    With a busy disk, Redis answers up to two seconds before it writes.
    """
    with (
        cluster(tmp_path, workers=0) as made,
        closing(RedisStore(made.redis.url, EntryAuthenticator([SEAL_KEY]))) as store,
    ):
        before = store.add(new_job(), b"{}", None, b"", Quota(10, 2**20), 1)
        assert made.redis.process is not None
        server = made.redis.process.pid
        with stopped_thread(server, thread_named(server, "bio_aof")):
            wait_for(lambda: has_put_off_writing(made.redis))
            job = (
                store.add(new_job(), b"{}", None, b"", Quota(10, 2**20), 1)
                if promised == "accepted"
                else store.cancel(before.id)
            )
            made.redis.process.kill()
        made.redis.kill()
        made.redis.start()
        assert store.get(job.id).state == job.state


def has_put_off_writing(server: RedisServer) -> bool:
    with redis.Redis.from_url(server.url) as client:
        client.set("privacy_bounds:something", "else")
        return bool(client.info("persistence")["aof_buffer_length"])


@pytest.mark.thorough
def test_writer_to_redis_cannot_forge_results(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=1) as made, running_server(tmp_path, **SERVICE, **made.settings) as client:
        job = submit(client, "sweeps", sweep(10))
        wait_until_ended(client, job)
        other = submit(client, "sweeps", sweep(20))
        wait_until_ended(client, other)
        keys = [f"{PREFIX}job:{each.rpartition('/')[2]}" for each in (job, other)]
        database: Any = redis.Redis.from_url(made.redis.url)
        with database:
            [(piece, lines), *_] = database.hgetall(f"{keys[0]}:lines").items()
            foreign = next(iter(database.hgetall(f"{keys[1]}:lines").values()))
            for altered in (b"[]", lines.replace(b"sealed", b"s3aled"), lines[:-2] + b"x}", foreign):
                database.hset(f"{keys[0]}:lines", piece, altered)
                assert client.get(f"{job}/results").status_code == 503
            database.hset(f"{keys[0]}:lines", piece, lines)
            assert client.get(f"{job}/results").status_code == 200
            database.hset(keys[0], "record", database.hget(keys[1], "record"))
            assert client.get(job).status_code == 404
