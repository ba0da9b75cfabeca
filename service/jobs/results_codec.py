"""Codec of the results of jobs (compressed JSON lines), and the task that computes a chunk of points."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final, final

from service.jobs.job import Chunk
from service.resources.abstract import Computation
from service.resources.catalogue import resource

COMPRESSION_LEVEL: Final = 1
"""zlib level. Level 1 reduces enclosures to a third of their size, at 0.1 ms per hundred points."""

COUNT_BYTES: Final = 4
PROBLEM: Final = b',"problem":{'
"""Text in the line of a failed point. JSON strings cannot contain this text, because their quotes are escaped."""
RESPONSE_PREFIX, RESPONSE_SUFFIX = b'{"point":0,"response":', b"}\n"


def compress(lines: bytes) -> bytes:
    """Return the JSON lines of results in their stored form: the number of failed points, then the compressed lines."""
    return lines.count(PROBLEM).to_bytes(COUNT_BYTES, "big") + zlib.compress(lines, COMPRESSION_LEVEL)


def decompress(kept: bytes) -> bytes:
    """Return the JSON lines of a chunk (range of points) from their stored form, which `compress` returns."""
    return zlib.decompress(memoryview(kept)[COUNT_BYTES:])


def failure_count(kept: bytes) -> int:
    """Return the number of failed points in the stored results `kept`, without decompressing them."""
    return int.from_bytes(kept[:COUNT_BYTES], "big")


def failure_lines(chunk: Chunk, problem: bytes) -> bytes:
    """Return the stored results of a chunk (range of points) whose points all have the same problem.

    `problem` is the JSON problem document.
    """
    return compress(
        b"".join(
            b'{"point":%d%b%b\n' % (point, PROBLEM, problem[1:] + b"}") for point in range(chunk.start, chunk.stop)
        )
    )


def stored_response(kept: bytes) -> bytes:
    """Return the response bytes of a job of a single request, from its stored results `kept`."""
    return extract_response(decompress(kept))


def stored_response_and_decision(
    computation: Computation[Any, Any], kept: bytes
) -> tuple[bytes, dict[str, Any] | None]:
    """Return the response bytes of a job of a single request, and the log fields of its policy decision, or None.

    `computation` is the resource, and `kept` are the stored results of the job.
    """
    body = stored_response(kept)
    if computation.decision is None:
        return body, None
    return body, computation.decision(computation.response_type.model_validate_json(body))


def response_line(response: bytes) -> bytes:
    """Return the stored form of the response of a job of a single request: one compressed JSON line."""
    return compress(RESPONSE_PREFIX + response + RESPONSE_SUFFIX)


def extract_response(line: bytes) -> bytes:
    """Return the response bytes in the JSON line `line` of a job that consists of a single request."""
    return line.rstrip(b"\n")[len(RESPONSE_PREFIX) : -len(RESPONSE_SUFFIX.rstrip(b"\n"))]


@final
@dataclass(frozen=True, slots=True)
class ChunkTask:
    """Task of a worker process: one chunk (range of points) of a job, from the point `start` on.

    `name` is the resource of the job.
    """

    name: str
    start: int

    def body(self, request: Any, digest: str, engine_version: str) -> bytes:
        """Return the results of the chunk in their stored form: compressed JSON lines.

        `request` has the points of the chunk, and `digest` and `engine_version` are those of the job.
        """
        computation = resource(self.name)
        body = computation.body(request, digest, engine_version)
        if computation.chunking is None:
            return response_line(body)
        return compress(computation.chunking.lines(body, self.start))
