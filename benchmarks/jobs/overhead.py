"""What a piece costs through Celery beside its computation, in two parts that are added up: a message that finds its
piece done already (given out, looked up, acknowledged), and what the worker does beside computing one that is not (its
lease, its results, the message about the next one).
"""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import Any

from benchmarks.jobs.requests import closed_forms
from benchmarks.jobs.setting import SEAL_KEY, clustered
from service.execution.seals import Seals
from service.jobs.celery.cluster import make_cluster, queue_lists, send
from service.jobs.celery.store import RedisStore, Sent
from service.jobs.job import Job, Kept, Piece, new_id
from service.jobs.lines import packed
from service.jobs.repository import Quota
from service.settings import Settings

MESSAGES = 300
LINES = b'{"point":0,"numbers":{"/mechanism/noise_multiplier":1.0},"answers":[{"value":0.3829249225480262}]}\n' * 500


def seconds_for_a_piece() -> tuple[float, float]:
    """The two parts."""
    with clustered(1) as setting:
        job = setting.submit(closed_forms(2_000))
        setting.wait(job)
        url = f"redis://127.0.0.1:{setting.redis_port}/0"
        settings = Settings(redis_url=url, seal_key=SEAL_KEY, jobs_backend="celery")  # pyright: ignore[reportArgumentType]
        app = make_cluster(settings)
        with closing(RedisStore(url, Seals([SEAL_KEY]), queue_lists())) as store:
            started = time.perf_counter()
            for _ in range(MESSAGES):
                send(app, job.rpartition("/")[2], Sent(Piece(0, 1), 0, 0), 8.0)
            sent = time.perf_counter() - started
            while store.waiting():
                time.sleep(0.01)
            given_out = max(time.perf_counter() - started, sent) / MESSAGES
            return given_out, statistics.median(_beside(store, app) for _ in range(MESSAGES))


def _beside(store: RedisStore, app: Any) -> float:
    now = time.time()
    whole = Job(
        id=new_id(),
        resource="sweeps",
        digest="",
        engine_version="none",
        cost=10**12,
        total=1_000,
        created=now,
        expires=now,
        kept_seconds=0,
        requester="127.0.0.1",
        updated=now,
    )
    store.add(whole, b"{}", None, b"", Quota(10**6, 2**30), 500)
    first = store.carve(whole.id)
    assert first is not None
    started = time.perf_counter()
    store.take(whole.id, first.piece, first.number)
    store.beat(whole.id, first.piece)
    following = store.keep(whole.id, Kept(first.piece, packed(LINES)), 500)
    assert following is not None
    send(app, whole.id, following, 8.0)
    passed = time.perf_counter() - started
    store.cancel(whole.id)
    return passed
