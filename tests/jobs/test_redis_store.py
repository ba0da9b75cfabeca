"""Jobs in Redis: effects of a poisoned record, of a hanging Redis, and of an earlier layout on clients of jobs."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from service.execution.entry_mac import EntryAuthenticator
from service.execution.errors import QueueFull
from service.jobs.celery.blocking_redis import PROBE_SECONDS, TIMEOUT_SECONDS
from service.jobs.celery.migration import migrate
from service.jobs.celery.scripts import PREFIX, SCHEMA_KEY
from service.jobs.celery.store import RedisStore
from service.jobs.diagnosis import explain_store_failure
from service.jobs.errors import IdempotencyKeyReused, JobNotFound, JobsError, JobsUnavailable
from service.jobs.job import Chunk, StoredJob
from service.jobs.repository import ClaimedChunk, Quota
from service.jobs.results_codec import compress
from tests.conftest import RedisServer, stopped
from tests.execution.fakes import SEAL_KEY
from tests.system.jobs import new_job
from tests.timeouts import TEST_TIMEOUT

QUOTA = Quota(1_000, 2**30)
SEED = 20265
KINDS: dict[str, Any] = {
    "missing": None,
    "empty": "",
    "no number": "seven",
    "huge": "9" * 400,
    "negative": "-1",
    "NaN": "nan",
    "infinite": "inf",
    "fraction": "0.5",
    "noise": bytes(range(256)),
}
FIELDS = (
    *("record", "about", "version", "requester", "generation", "total", "created", "kept_seconds", "done", "failed"),
    *("state", "updated", "revision", "expires", "point_cost", "work", "size", "cursor", "bytes", "accepted_bytes"),
    *("idempotency", "problem"),
)
PARTS = ("", ":request", ":lines", ":index", ":waiting", ":claims")
TYPES: dict[str, tuple[str, ...]] = {
    "text": ("SET", "x"),
    "list": ("RPUSH", "x", "y z", "0-9 x"),
    "hash": ("HSET", "0-1", "x", "x", "nan"),
    "set": ("SADD", "x"),
    "sorted set": ("ZADD", "0", "x", "1", "9-"),
}


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_url, EntryAuthenticator([SEAL_KEY]))) as store:
        yield store


def accepted(store: RedisStore, key: str | None = None, **fields: Any) -> StoredJob:
    return store.add(new_job(**fields), b"{}", key, b"", QUOTA, 2)


def lines(points: int) -> bytes:
    return compress(b"{}\n" * points)


def finish_all(store: RedisStore, version: str = "1") -> list[tuple[str, Chunk]]:
    """Compute all chunks that can be claimed, and return them in order."""
    found: list[tuple[str, Chunk]] = []
    while (claim := store.claim(version, "worker", TEST_TIMEOUT)) is not None:
        found.append((claim.job.id, claim.chunk))
        with suppress(JobNotFound, JobsUnavailable):
            store.save(claim, lines(claim.chunk.points), 2)
    return found


def poisons() -> list[tuple[str, tuple[str, ...]]]:
    """Return commands that corrupt a part of a job's records in Redis."""
    found: list[tuple[str, tuple[str, ...]]] = [
        ("", ("HDEL", field) if value is None else ("HSET", field, value))
        for field in FIELDS
        for value in KINDS.values()
    ]
    return found + [(part, command) for part in PARTS for command in TYPES.values()]


def call_everything(store: RedisStore, job: StoredJob, held: ClaimedChunk, source: random.Random) -> None:
    """Call every method in random order. Only errors of jobs are caught."""
    calls: list[Callable[[], object]] = [
        lambda: store.get(job.id),
        lambda: store.request(job.id),
        lambda: store.results(job.id, 0, 3),
        lambda: store.renew(held, TEST_TIMEOUT),
        lambda: store.list(None, 10, None),
        lambda: store.orphans("2", 0.0),
        lambda: accepted(store, key="key", total=9),
        lambda: store.save(held, lines(2), 2),
        lambda: store.restart(job.id, 0, "2", "sha256:1", 2),
        lambda: store.purge(time.time(), QUOTA, 3_600.0),
        lambda: store.fail(job.id, 0, b"{}"),
        lambda: store.cancel(job.id),
    ]
    source.shuffle(calls)
    for call in calls:
        with suppress(JobsError, QueueFull):
            call()


def test_poisoned_record_is_not_a_job_and_blocks_no_other(store: RedisStore, redis_url: str) -> None:
    """A poisoned record is no job, and blocks no other job.

    No method raises anything but an error of jobs, which the API maps to 404 or 503.
    """
    source = random.Random(SEED)
    with redis.Redis.from_url(redis_url) as database:
        for part, (command, *values) in source.sample(poisons(), 90):
            database.flushdb()
            job = accepted(store, key="key", total=9)
            kept, held, back = (store.claim("1", "worker", TEST_TIMEOUT) for _ in range(3))
            assert kept is not None
            assert held is not None
            assert back is not None
            store.save(kept, lines(2), 2)
            store.requeue(back, back.chunk.halves(), 1)
            innocent = accepted(store, total=5, requester="another")
            key = f"{PREFIX}job:{job.id}{part}"
            if command not in ("HSET", "HDEL") or part:
                database.delete(key)
            database.execute_command(command, key, *values)
            call_everything(store, job, held, source)
            finish_all(store)
            assert store.get(innocent.id).state == "succeeded", (part, command, values)
            store.purge(time.time() + 3_600.0, QUOTA, 36_000.0)


def test_abandoned_records_are_reported_once(store: RedisStore, redis_url: str) -> None:
    jobs = [accepted(store, total=9) for _ in range(3)]
    with redis.Redis.from_url(redis_url) as database:
        database.hset(f"{PREFIX}job:{jobs[0].id}", "about", "garbage")
        database.zadd(f"{PREFIX}job:{jobs[1].id}:waiting", {"garbage": 0})
    assert not store.unreadable_records()
    finish_all(store)
    assert set(store.unreadable_records()) == {jobs[0].id, jobs[1].id}
    assert not store.unreadable_records()
    assert store.get(jobs[2].id).state == "succeeded"


def test_reader_with_other_key_ends_no_job(store: RedisStore, redis_url: str) -> None:
    jobs = [accepted(store), accepted(store)]
    with closing(RedisStore(redis_url, EntryAuthenticator(["x" * 40]))) as another:
        assert list(another.active()) == []
        assert another.list(None, 10, None).jobs == ()
    assert [job.state for job in store.active()] == ["queued", "queued"]
    assert [job.id for job in store.active()] == [job.id for job in jobs]


def test_garbage_in_chunks_and_workers_hides_no_job(store: RedisStore, redis_url: str) -> None:
    job = accepted(store, total=9)
    claim = store.claim("1", "worker", TEST_TIMEOUT)
    assert claim is not None
    with redis.Redis.from_url(redis_url) as database:
        key = f"{PREFIX}job:{job.id}"
        database.hset(f"{key}:claims", mapping={"garbage": "3", "1-": "3", b"\xff": "3", "4-5": "9" * 15, "6-7": "-3"})
        database.zadd(f"{key}:waiting", {b"garbage": 0, b"\xff\xfe": 1})
        database.zadd(f"{PREFIX}workers", {b"\xff 1": time.time(), b"nothing": time.time()})
    assert claim.chunk in [held.chunk for held in store.dispatched_chunks(job.id)]
    assert "\ufffd" in {worker.name for worker in store.announced_workers()}
    assert len(store.present_workers(TEST_TIMEOUT)) == 2


def test_no_version_counts_as_absent_after_redis_outage(store: RedisStore, redis_url: str) -> None:
    job = accepted(store)
    store.announce("one", "1")
    with redis.Redis.from_url(redis_url) as database:
        past = time.time() - 60
        database.zadd(f"{PREFIX}workers", {"one 1": past})
        database.hset(f"{PREFIX}job:{job.id}", "updated", past)
        assert [orphan.id for orphan in store.orphans("2", 15.0)] == [job.id]
        database.set(f"{PREFIX}seen", past)  # Redis comes back, and a worker of another version is faster.
        store.announce("two", "2")
        assert store.orphans("2", 15.0) == []


def test_results_of_other_generation_are_rejected(store: RedisStore, redis_url: str) -> None:
    """Results of another generation of the service are rejected.

    The signature of a line covers the digest and the generation, so a line of another version is invalid.
    """
    job = accepted(store, total=2)
    [(_, chunk)] = finish_all(store)
    other = accepted(store, total=2)
    claim = store.claim("1", "worker", TEST_TIMEOUT)
    assert claim is not None
    anew = store.restart(other.id, 0, "2", "sha256:1", 2)
    assert (anew.generation, anew.engine_version, anew.digest) == (1, "2", "sha256:1")
    assert not store.renew(claim, TEST_TIMEOUT)
    assert store.save(claim, lines(2), 2).done == 0, "a claim of an earlier generation changes nothing"
    assert store.fail(other.id, 0, b"{}").state == "queued"
    assert store.claim("1", "worker", TEST_TIMEOUT) is None
    assert finish_all(store, "2") == [(other.id, chunk)]
    with redis.Redis.from_url(redis_url) as database:
        names = [f"{PREFIX}job:{each.id}:lines" for each in (job, other)]
        [foreign], [field] = database.hvals(names[0]), database.hkeys(names[1])
        database.hset(names[1], field, foreign)
    with pytest.raises(JobsUnavailable):
        store.results(other.id, 0)


def test_commands_per_chunk_do_not_depend_on_job_size(store: RedisStore, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as database:

        def commands_of_a_piece() -> int:
            database.config_resetstat()
            claim = store.claim("1", "worker", TEST_TIMEOUT)
            assert claim is not None
            store.renew(claim, TEST_TIMEOUT)
            store.save(claim, lines(1), 2)
            store.list(None, 10, None)
            store.purge(time.time(), QUOTA, 3_600.0)
            return sum(each["calls"] for each in database.info("commandstats").values())

        plenty = Quota(10**6, 2**30)
        found: list[int] = []
        for count in (10, 990):
            for number in range(count):
                store.add(new_job(requester=f"requester {number % 10}", total=9), b"{}", None, b"", plenty, 2)
            found.append(commands_of_a_piece())
        assert found[1] <= found[0] + 10 < 150


def test_expired_claim_is_reissued_unless_redis_was_away(store: RedisStore, redis_url: str) -> None:
    accepted(store, total=2)
    first = store.claim("1", "worker", 0.05)
    assert first is not None
    time.sleep(0.1)
    second = store.claim("1", "another", 0.05)
    assert second is not None
    assert (second.chunk, second.tries) == (first.chunk, 1)
    assert not store.renew(first, TEST_TIMEOUT)
    with redis.Redis.from_url(redis_url) as database:
        database.set(f"{PREFIX}seen", time.time() - 60)  # Nobody could renew anything for a minute.
    time.sleep(0.1)
    assert store.claim("1", "a third", 0.05) is None
    assert store.save(first, lines(2), 2).state == "succeeded", "lines of an earlier claim are as good as any"


def test_single_requester_gets_half_and_leaves_room(store: RedisStore) -> None:
    quota = Quota(10, 2**20)

    def most(requester: str, request: bytes = b"{}") -> int:
        for count in range(100):
            try:
                store.add(new_job(requester=requester), request, None, b"", quota, 1)
            except QueueFull:
                return count
        raise AssertionError

    assert (most("a"), most("b"), most("c"), most("d")) == (5, 3, 1, 1)
    for job in store.list(None, 100, None).jobs:
        store.cancel(job.id)
    # Ended jobs give way to new ones, as long as active jobs leave room.
    assert most("a", bytes(2**17)) == 4
    assert most("b", bytes(2**17)) == 2


def test_pages_of_jobs_are_complete_and_newest_first(store: RedisStore) -> None:
    names = [accepted(store, requester="ab"[number % 2], created=1e9 + number // 3).id for number in range(20)]
    seen: list[str] = []
    cursor = None
    while True:
        page = store.list(None, 3, cursor)
        seen += [job.id for job in page.jobs]
        if page.next is None:
            break
        cursor = page.next
    assert sorted(seen) == sorted(names)
    assert [name for name in seen if name in names[:3]] == seen[-3:]
    assert {job.requester for job in store.list("a", 100, None).jobs} == {"a"}
    store.add(new_job(), b"{}", "key", b"1", QUOTA, 1)
    with pytest.raises(IdempotencyKeyReused):
        store.add(new_job(), b"{}", "key", b"2", QUOTA, 1)
    assert store.add(new_job(requester="c"), b"{}", "key", b"2", QUOTA, 1).requester == "c"


def test_layout_of_newer_version_is_rejected_with_sentence(store: RedisStore, redis_url: str) -> None:
    job = accepted(store)
    with redis.Redis.from_url(redis_url) as database:
        database.set(SCHEMA_KEY, "3")
    for call in (lambda: accepted(store), lambda: store.get(job.id), lambda: store.claim("1", "worker", 1.0)):
        with pytest.raises(JobsUnavailable) as caught:
            call()
        assert caught.value.reason == "the jobs in Redis were written by a newer version of the service"


def test_calls_fail_fast_while_redis_hangs(own_redis: RedisServer) -> None:
    """Calls fail fast while Redis hangs.

    A service has four threads and 48 clients. Each thread waits once, and all other calls fail at once.
    """
    assert own_redis.process is not None
    with closing(RedisStore(own_redis.url, EntryAuthenticator([SEAL_KEY]))) as store, ThreadPoolExecutor(4) as threads:
        job = accepted(store)

        def fails() -> bool:
            try:
                store.get(job.id)
            except JobsUnavailable:
                return True
            return False

        with stopped(own_redis.process.pid):
            started = time.monotonic()
            assert all(threads.map(lambda _: fails(), range(48)))
            assert time.monotonic() - started < 4 * TIMEOUT_SECONDS
        deadline = time.monotonic() + TEST_TIMEOUT
        while fails():
            assert time.monotonic() < deadline
            time.sleep(PROBE_SECONDS / 5)
        assert store.get(job.id) == job


def test_full_server_rejects_jobs_and_keeps_existing_ones(tmp_path: Path, each_server: str) -> None:
    server = RedisServer(tmp_path, executable=each_server)
    server.start()
    try:
        with (
            closing(RedisStore(server.url, EntryAuthenticator([SEAL_KEY]))) as store,
            redis.Redis.from_url(server.url) as database,
        ):
            ended, expiring = accepted(store), accepted(store)
            for each in (ended, expiring):
                store.cancel(each.id)
            job = accepted(store, total=4)
            claim = store.claim("1", "worker", TEST_TIMEOUT)
            assert claim is not None
            database.config_set("maxmemory", 1)
            for call in (lambda: accepted(store), lambda: store.claim("1", "worker", TEST_TIMEOUT)):
                with pytest.raises(JobsUnavailable):
                    call()
            with pytest.raises(JobsUnavailable) as caught:
                store.probe()
            assert "Redis has no memory left. Raise maxmemory" in explain_store_failure(caught.value.reason)
            # Commands that free a claim are still allowed, so that no chunk is lost between two commands.
            assert store.save(claim, lines(2), 2).done == 2
            assert store.get(job.id).state == "running"
            # Removal frees space, in the byte counts too: for an operator, and when a job expires.
            before = int(database.get(f"{PREFIX}stored") or 0)
            store.remove(ended.id)
            between = int(database.get(f"{PREFIX}stored") or 0)
            assert list(store.purge(time.time() + 10**6, QUOTA, 10**7)) == []
            after = int(database.get(f"{PREFIX}stored") or 0)
            assert before > between > after
            assert [each.id for each in store.list(None, 10, None).jobs] == [job.id]
            database.config_set("maxmemory", 0)
            assert [chunk for _, chunk in finish_all(store)] == [Chunk(2, 4)]
            assert store.get(job.id).state == "succeeded"
    finally:
        server.stop()


class RecordingLogger:
    """A logger that stores its events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **fields})

    warning = error = info


def write_earlier(database: Any, name: str, state: str, chunks: list[str], **fields: Any) -> None:
    """Write a job in the layout of version 0.5.0 of the service."""
    seals, now = EntryAuthenticator([SEAL_KEY]), time.time()
    record: dict[str, Any] = {"resource": "bounds", "digest": "sha256:0", "engine_version": "0", "cost": 4, "total": 4}
    record |= {"created": now, "expires": now + 60}
    done = sum(int(chunk[2]) - int(chunk[0]) for chunk in chunks)
    key = f"privacy_bounds:job:{name}"
    held: dict[str, Any] = {
        "record": seals.sign("job", name, json.dumps(record).encode()),
        "request": seals.sign("request", name, b"{}"),
    }
    held |= {"total": 4, "urgency": 0, "at_once": 64, "size": 2, "cursor": 4, "done": done, "failed": 0}
    held |= {"state": state, "updated": now, "revision": 3, "idempotency": "privacy_bounds:jobs:key:0"}
    database.hset(key, mapping=held | fields)
    for chunk in chunks:
        database.hset(f"{key}:lines", chunk, seals.sign("lines", f"{name}:{chunk}", lines(2)))
        database.zadd(f"{key}:index", {chunk: int(chunk[0])})
    database.zadd("privacy_bounds:job:expiry", {name: now + 60})
    if state in ("queued", "running"):
        database.zadd("privacy_bounds:jobs:active", {name: now})
    database.set("privacy_bounds:jobs:key:0", f"fingerprint {name}")


def test_jobs_of_earlier_layout_are_migrated(store: RedisStore, redis_url: str) -> None:
    logger: Any = RecordingLogger()
    with redis.Redis.from_url(redis_url) as database:
        write_earlier(database, "active", "running", ["0-2"])
        write_earlier(database, "ended", "succeeded", ["0-2", "2-4"])
        write_earlier(database, "cancelled", "cancelled", ["2-4"])
        write_earlier(database, "broken", "running", [], record="none")
        database.rpush("privacy_bounds:job:list", "x")
        database.zadd("privacy_bounds:jobs:active", {"list": 1, "gone": 2})
        for _ in range(4):
            migrate(store, logger)
        assert [each.decode() for each in database.scan_iter("privacy_bounds:job:*")] == []
        assert not database.exists("privacy_bounds:jobs:active", "privacy_bounds:jobs:key:0")
    assert {job.id for job in store.list(None, 10, None).jobs} == {"active", "ended", "cancelled"}
    assert [kept.chunk for kept in store.results("ended", 0, 5)] == [Chunk(0, 2), Chunk(2, 4)]
    assert [kept.chunk for kept in store.results("cancelled", 0, 5)] == [Chunk(2, 4)]
    assert (store.get("ended").state, store.get("active").state) == ("succeeded", "queued")
    [orphan] = store.orphans("1", 0.0)
    store.restart(orphan.id, 0, "1", "sha256:1", 4)
    assert store.request("active") == b"{}"
    assert finish_all(store) == [("active", Chunk(0, 4))]
    assert store.get("active").done == 4
    store.purge(time.time() + 120, QUOTA, 3_600.0)
    assert store.list(None, 10, None).jobs == ()
