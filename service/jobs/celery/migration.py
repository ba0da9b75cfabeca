"""Migration of jobs that an early release of the service stored in Redis with another layout (schema 1).

Ended jobs keep their results. Active jobs lose their results: they are queued under their engine version, and restarted
if that version has no worker. The migration is idempotent, also when two processes run it at the same time.
"""

from __future__ import annotations

import json
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from api_schemas.jobs import ENDED
from service.execution.entry_mac import EntryAuthenticator
from service.jobs.celery.store import RedisStore
from service.jobs.errors import JobNotFound
from service.jobs.job import Chunk, ChunkResult, StoredJob

ACTIVE: Final = "privacy_bounds:jobs:active"
JOB: Final = "privacy_bounds:job:"
EXPIRY: Final = f"{JOB}expiry"
PARTS: Final = ("", ":pending", ":leases", ":lines", ":index")
LEFT: Final = tuple(f"privacy_bounds:jobs:{part}" for part in ("numbers", "workers", "keeper"))
AT_ONCE: Final = 50
REQUESTER: Final = "unknown"


def migrate(store: RedisStore, logger: FilteringBoundLogger) -> None:
    """Move jobs from the Redis layout of an early release to the current layout, up to 100 in one call.

    A job whose record is unsigned or malformed is deleted with a warning in the log. Raise JobsUnavailable if Redis
    does not respond.
    """
    with store.client.connection() as client:
        # Migrate active jobs first, so that workers of the early release claim no more of their chunks.
        names = client.zrange(ACTIVE, 0, AT_ONCE - 1) or client.zrange(EXPIRY, 0, AT_ONCE - 1)
    if not names:
        return
    for name in (each.decode() for each in names):
        try:
            _migrate_job(store, name)
        except (JobNotFound, LookupError, ValueError, TypeError) as error:  # an invalid record does not stop the others
            logger.warning("jobs", state="not carried over", cause=type(error).__name__)
        with store.client.connection() as client:
            pipeline = client.pipeline()
            pipeline.unlink(*(f"{JOB}{name}{part}" for part in PARTS), *LEFT)
            pipeline.zrem(ACTIVE, name)
            pipeline.zrem(EXPIRY, name)
            pipeline.execute()
    logger.info("jobs", state="carried over", jobs=len(names))


def _migrate_job(store: RedisStore, job_id: str) -> None:
    with store.client.connection() as client:
        held = client.hgetall(JOB + job_id)
        lines = client.hgetall(f"{JOB}{job_id}:lines")
        if b"idempotency" in held:  # which were not those of a requester
            client.unlink(held[b"idempotency"])
    job, request = (
        _read_early_job(store.authenticator, job_id, held),
        store.authenticator.verify("request", job_id, held.get(b"request", b"")),
    )
    if request is None:
        raise JobNotFound
    chunks = (
        [_migrated_chunk(store.authenticator, job_id, *entry) for entry in lines.items()] if job.state in ENDED else []
    )
    store.import_job(job, request, chunks)


def _read_early_job(seals: EntryAuthenticator, job_id: str, held: dict[bytes, bytes]) -> StoredJob:
    record = seals.verify("job", job_id, held.get(b"record", b""))
    if record is None:
        raise JobNotFound
    fields: dict[str, Any] = json.loads(record)
    fields |= {"kept_seconds": fields["expires"] - fields["created"], "requester": REQUESTER}
    state: Any = held.get(b"state", b"").decode()
    if state not in ENDED:
        return StoredJob(id=job_id, **fields, updated=fields["created"])
    problem = held.get(b"problem")
    return StoredJob(
        id=job_id,
        **fields,
        state=state,
        done=int(held[b"done"]),
        failed=int(held[b"failed"]),
        revision=int(held[b"revision"]),
        updated=float(held.get(b"updated", 0)),
        problem=None if problem is None else seals.verify("problem", job_id, problem),
    )


def _migrated_chunk(seals: EntryAuthenticator, job_id: str, text: bytes, sealed: bytes) -> ChunkResult:
    lines = seals.verify("lines", f"{job_id}:{text.decode()}", sealed)
    if lines is None:
        raise JobNotFound
    start, _, stop = text.decode().partition("-")
    return ChunkResult(Chunk(int(start), int(stop)), lines)
