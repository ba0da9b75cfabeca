"""Chunks of a sweep, ranges of its points that a job computes in one piece.

A chunk is itself a sweep of listed points.
"""

from __future__ import annotations

from typing import Final

from api_schemas.long_sweeps import LongSweepsRequest, PieceOfSweep
from api_schemas.sweeps import LARGEST_POINTS, LARGEST_SWEPT_NUMBERS, SweepsRequest, SweepsResponse, SweptNumbers
from service.rendering.tables.sweeps import cells_of_json_line, to_json_lines
from service.resources.abstract import BLOCK_POINTS, Chunking
from service.resources.sweeps.blocks import block_points
from service.resources.sweeps.estimates import sweeps_quote


def points_of(request: LongSweepsRequest) -> int:
    """Return the number of points that a sweep evaluates."""
    return request.point_count


def max_chunk_points(request: LongSweepsRequest) -> int:
    """Return the largest number of points of one chunk of a job.

    With the other points of their blocks (points that are evaluated together), they must fit into a sweep.
    """
    return max(1, min(LARGEST_POINTS - 2 * BLOCK_POINTS, LARGEST_SWEPT_NUMBERS // request.quantity_count))


def chunk_request(request: LongSweepsRequest, start: int, stop: int) -> SweepsRequest:
    """Return the points `start` to `stop - 1` of a sweep as a separate sweep, with the other points of their blocks.

    A block is a range of points that are evaluated together.
    """
    held = request.__dict__
    sent = {name: held[name] for name in SweepsRequest.model_fields if held[name] is not None}
    size = block_points(request)
    begin = start - start % size
    columns = request.columns(begin, min(stop + -stop % size, request.point_count))
    listed = {pointer: SweptNumbers(values=numbers) for pointer, numbers in columns.items()}
    window = {"first": start - begin, "count": stop - start}
    return PieceOfSweep.model_validate(sent | {"vary": listed, "combine": "zip"} | window)


def lines_of(body: bytes, start: int) -> bytes:
    """Return the response `body` to a chunk of a sweep as JSON lines, one for each point.

    `start` is the index of the first point of the chunk.
    """
    return to_json_lines(SweepsResponse.model_validate_json(body), start).encode()


CHUNKING: Final = Chunking(
    request_type=LongSweepsRequest,
    points=points_of,
    largest_points=LARGEST_POINTS,
    max_chunk_points=max_chunk_points,
    chunk_request=chunk_request,
    lines=lines_of,
    cells=cells_of_json_line,
    quote=sweeps_quote,
)
