"""Results of points as lines of JSON, and what a worker process is told to compute of a job."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final

from service.computations.abstract import Computation
from service.computations.catalogue import resource
from service.jobs.job import Piece

LEVEL: Final = 1
"""Of the compression: numbers with their ends shrink to a third, in a tenth of a millisecond for a hundred points."""

COUNT_BYTES: Final = 4
PROBLEM: Final = b',"problem":{'
"""In a line, and nowhere else in it: what is between quotes has none that are not escaped."""
BEFORE_RESPONSE, AFTER_RESPONSE = b'{"point":0,"response":', b"}\n"


def packed(lines: bytes) -> bytes:
    """Lines as they are kept, behind the number of those that are problems."""
    return lines.count(PROBLEM).to_bytes(COUNT_BYTES, "big") + zlib.compress(lines, LEVEL)


def unpacked(kept: bytes) -> bytes:
    """Lines as they were."""
    return zlib.decompress(memoryview(kept)[COUNT_BYTES:])


def failed_in(kept: bytes) -> int:
    """How many of the lines are problems."""
    return int.from_bytes(kept[:COUNT_BYTES], "big")


def rows(kept: bytes) -> Iterator[dict[str, Any]]:
    """The objects of these lines."""
    return map(json.loads, unpacked(kept).splitlines())


def failure_lines(piece: Piece, problem: bytes) -> bytes:
    """The lines of points that have the same problem."""
    return packed(
        b"".join(
            b'{"point":%d%b%b\n' % (point, PROBLEM, problem[1:] + b"}") for point in range(piece.start, piece.stop)
        )
    )


def response_in(kept: bytes) -> bytes:
    """The response of a job of one request, to the byte."""
    return whole_response(unpacked(kept))


def answer_in(computation: Computation[Any, Any], kept: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """Return the response of a job of one request, and what the log says about the decision in it."""
    body = response_in(kept)
    if computation.decision is None:
        return body, None
    return body, computation.decision(computation.response_type.model_validate_json(body))


def line_of(response: bytes) -> bytes:
    """Return the one line of a job of one request, as it is kept."""
    return packed(BEFORE_RESPONSE + response + AFTER_RESPONSE)


def whole_response(line: bytes) -> bytes:
    """The same, of its one line."""
    return line.rstrip(b"\n")[len(BEFORE_RESPONSE) : -len(AFTER_RESPONSE.rstrip(b"\n"))]


@final
@dataclass(frozen=True, slots=True)
class PieceOf:
    """What a worker process computes of a job: the points of a request of the resource `name`, from `start` on."""

    name: str
    start: int

    def body(self, request: Any, digest: str, engine_version: str) -> bytes:
        """The lines as they are kept."""
        computation = resource(self.name)
        body = computation.body(request, digest, engine_version)
        if computation.pieces is None:
            return line_of(body)
        return packed(computation.pieces.lines(body, self.start))
