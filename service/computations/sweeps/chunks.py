"""A sweep a piece at a time: a piece is a sweep of its own, with the numbers of its points listed."""

from __future__ import annotations

from typing import Final

from api_schemas.long_sweeps import LongSweepsRequest, PieceOfSweep
from api_schemas.sweeps import LARGEST_POINTS, LARGEST_SWEPT_NUMBERS, SweepsRequest, SweepsResponse, SweptNumbers
from service.computations.abstract import BLOCK_POINTS, Chunking
from service.computations.sweeps.blocks import block_points
from service.computations.sweeps.estimates import sweeps_quote
from service.rendering.tables.sweeps import cells_of_json_line, to_json_lines


def points_of(request: LongSweepsRequest) -> int:
    """Number of points."""
    return request.point_count


def max_chunk_points(request: LongSweepsRequest) -> int:
    """So many points make a sweep, with the rest of their blocks."""
    return max(1, min(LARGEST_POINTS - 2 * BLOCK_POINTS, LARGEST_SWEPT_NUMBERS // request.quantity_count))


def chunk_request(request: LongSweepsRequest, start: int, stop: int) -> SweepsRequest:
    """The points from `start` up to `stop`, and the others of their blocks: zipped, whatever the whole is."""
    held = request.__dict__
    sent = {name: held[name] for name in SweepsRequest.model_fields if held[name] is not None}
    size = block_points(request)
    begin = start - start % size
    columns = request.columns(begin, min(stop + -stop % size, request.point_count))
    listed = {pointer: SweptNumbers(values=numbers) for pointer, numbers in columns.items()}
    window = {"first": start - begin, "count": stop - start}
    return PieceOfSweep.model_validate(sent | {"vary": listed, "combine": "zip"} | window)


def lines_of(body: bytes, start: int) -> bytes:
    """The response to a piece as lines of JSON."""
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
