"""Overview of the jobs in Redis for operators: active jobs, workers, dispatched chunks, and removal."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

from typing_extensions import override

from service.jobs.celery.scripts import REMOVAL
from service.jobs.errors import JobNotFound
from service.jobs.job import Chunk, StoredJob
from service.jobs.repository import Backlog, DispatchedChunk, JobRepository, Worker

PAGE: Final = 50
MOST_DIGITS: Final = 16
PIECE: Final = re.compile(rb"([0-9]{1,16})-([0-9]{1,16})")
SOMEBODY: Final = "a worker of the cluster"
"""Name of the holder of a claim, because Redis does not record which worker holds it."""

_ACTIVE: Final = """
local found = {}
for _, name in ipairs(call('ZRANGE', P .. 'active', ARGV[1], ARGV[2])) do
  local ok, fields = pcall(head, name)
  table.insert(found, {name, ok and fields or {}})
end
return found
"""

_BACKLOG: Final = """
local oldest = call('ZRANGE', P .. 'active', 0, 0, 'WITHSCORES')
return {call('ZCARD', P .. 'active'), oldest[2] or false}
"""

_HELD: Final = """
local name = ARGV[1]
local found = {head(name)}
if #found[1] == 0 then return found end
local v, seen = lane(name), {}
for _, each in ipairs(call('ZRANGE', key(name, 'waiting'), 0, -1)) do
  local piece, tries = string.match(each, '^(%S+) (%d+)$')
  if piece then
    seen[piece] = true
    table.insert(found, {piece, tries, ''})
  end
end
local claims = call('HGETALL', key(name, 'claims'))
for at = 1, #claims, 2 do
  local piece, tries = claims[at], claims[at + 1]
  if tonumber(tries) and not seen[piece] then
    table.insert(found, {piece, tries, call('ZSCORE', v .. 'leases', name .. ' ' .. piece) or '0'})
  end
end
return found
"""

_ANNOUNCED: Final = "return call('ZREVRANGE', P .. 'workers', 0, -1, 'WITHSCORES')"

_PROBE: Final = "return call('SET', P .. 'probe', 1, 'PX', 1)"

TRACE_SECONDS: Final = 7 * 86_400
"""Seconds for which Redis keeps the traceparent of a job."""
_KEEP_TRACE: Final = "return call('SET', P .. 'trace:' .. ARGV[1], ARGV[2], 'EX', ARGV[3])"
_TRACE: Final = "return call('GET', P .. 'trace:' .. ARGV[1])"

_REMOVE: Final = (
    REMOVAL
    + """
local name = ARGV[1]
if call('EXISTS', key(name)) == 0 then return 0 end
if is_active(name) then finish(name, 'cancelled') end
remove(name)
return 1
"""
)


class RedisOverview(JobRepository, ABC):
    """Part of the Redis job storage with the queries of operators."""

    @abstractmethod
    def _run(self, script: str, *values: Any) -> Any: ...

    @abstractmethod
    def _readable_jobs(self, found: Any, *, give_up: bool = True) -> Iterator[StoredJob]: ...

    @abstractmethod
    def _parse_job(self, job_id: str, pairs: Sequence[bytes]) -> StoredJob: ...

    @override
    def backlog(self) -> Backlog:
        jobs, oldest = self._run(_BACKLOG)
        return Backlog(int(jobs), None if oldest is None else float(oldest))

    @override
    def active(self) -> Sequence[StoredJob]:
        jobs: list[StoredJob] = []
        start = 0
        while found := self._run(_ACTIVE, start, start + PAGE - 1):
            jobs += self._readable_jobs(found, give_up=False)
            start += PAGE
        return jobs

    @override
    def announced_workers(self) -> Sequence[Worker]:
        # forgotten 10 minutes after the last announcement, at the next announcement of any worker
        found = self._run(_ANNOUNCED)
        named = (each.decode(errors="replace").partition(" ") for each in found[::2])
        return [Worker(name, version, float(seen)) for (name, _, version), seen in zip(named, found[1::2], strict=True)]

    @override
    def dispatched_chunks(self, job_id: str) -> Sequence[DispatchedChunk]:
        # Redis does not store which worker holds a claim
        record, *found = self._run(_HELD, job_id)
        self._parse_job(job_id, record)
        chunks: list[DispatchedChunk] = []
        for text, tries, until in found:
            match = PIECE.fullmatch(text)
            if match is None or not tries.isdigit() or len(tries) > MOST_DIGITS:  # whoever can write put it there
                continue
            worker = SOMEBODY if until else ""
            chunks.append(DispatchedChunk(Chunk(int(match[1]), int(match[2])), int(tries), worker, float(until or 0)))
        return sorted(chunks, key=lambda each: each.chunk.start)

    @override
    def keep_trace(self, job_id: str, traceparent: str) -> None:
        self._run(_KEEP_TRACE, job_id, traceparent, TRACE_SECONDS)

    @override
    def trace_of(self, job_id: str) -> str | None:
        found = self._run(_TRACE, job_id)
        return None if found is None else found.decode(errors="replace")

    @override
    def probe(self) -> None:
        self._run(_PROBE)

    @override
    def remove(self, job_id: str) -> None:
        if not self._run(_REMOVE, job_id):
            raise JobNotFound
