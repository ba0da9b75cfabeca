"""Cost of a chunk in a cluster beside its computation: claim, renewal and results.

Celery is not included: one message wakes a worker, which computes until no chunk is left.
"""

from __future__ import annotations

import statistics
import time
from contextlib import closing

from benchmarks.jobs.setting import SEAL_KEY, clustered
from service.execution.entry_mac import EntryAuthenticator
from service.jobs.celery.store import RedisStore
from service.jobs.job import StoredJob, new_id
from service.jobs.repository import Quota
from service.jobs.results_codec import compress

PIECES = 300
LINES = b'{"point":0,"numbers":{"/mechanism/noise_multiplier":1.0},"answers":[{"value":0.3829249225480262}]}\n' * 500


def seconds_for_a_piece() -> float:
    """Return the seconds that a chunk of 500 points costs beside its computation.

    The result is the median over some hundred chunks.
    """
    with clustered(1) as setting:
        url = f"redis://127.0.0.1:{setting.redis_port}/0"
        with closing(RedisStore(url, EntryAuthenticator([SEAL_KEY]))) as store:
            now = time.time()
            job = StoredJob(
                id=new_id(),
                resource="sweeps",
                digest="",
                engine_version="none",
                cost=10**12,
                total=500 * (PIECES + 1),
                created=now,
                expires=now,
                kept_seconds=60,
                requester="127.0.0.1",
            )
            store.add(job, b"{}", None, b"", Quota(10**6, 2**30), 500)
            return statistics.median(_seconds(store) for _ in range(PIECES))


def _seconds(store: RedisStore) -> float:
    started = time.perf_counter()
    claim = store.claim("none", "benchmark", 60.0)
    assert claim is not None
    store.renew(claim, 60.0)
    store.save(claim, compress(LINES), 500)
    return time.perf_counter() - started
