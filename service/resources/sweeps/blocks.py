"""Blocks of points of a sweep. Blocks start at fixed indices, and the runs of a block are evaluated together.

Jointly evaluated runs share nodes, so that the last digits of a point depend on the other points of its block. A block
is the same for a whole sweep, a chunk of a job, and a single point. Therefore every digit is the same, however a job is
divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, final

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.mechanisms import is_one_step
from api_schemas.pointers import Place
from api_schemas.sweeps import SweepsRequest
from service.privacy.errors import DeadlinePassed, NumericalFailure, PrivacyComputationError
from service.privacy.numerics.work import is_late
from service.resources.abstract import BLOCK_POINTS, ResponseFields
from service.resources.bounds import ResolvedRequest, read_bounds
from service.resources.estimates import parts_of
from service.resources.sweeps.batch_evaluation import resolve_together
from service.resources.violations import record_violation

BLOCK_PARTS: Final = 2_048
"""Largest number of parts of descriptions in memory."""


@final
@dataclass(frozen=True, slots=True)
class Point:
    """Answer to a point of a sweep: the fields of its response, or None and an `error`."""

    fields: ResponseFields | None
    error: ValidationError | PrivacyComputationError | None = None


_LATE: Final = Point(None, DeadlinePassed())


def block_points(request: SweepsRequest) -> int:
    """Return the number of points in a block, which are evaluated together; the last block may have fewer.

    The number is the same for a sweep and its chunks.
    """
    if is_one_step(request.mechanism) or request.threat_model.type != "worst_case":
        return 1  # no joint evaluation
    parts = parts_of(request.mechanism, (request.threat_model,))
    return max(1, min(BLOCK_POINTS, BLOCK_PARTS // parts))


def evaluate_points(request: SweepsRequest) -> Iterator[tuple[tuple[float, ...], Point]]:
    """Yield the varied numbers and the answer of every requested point of a sweep, in order.

    One block (points that are evaluated together) is in memory at a time.
    """
    places, numbers, asked = request.places, list(request.points()), request.asked_points
    size = block_points(request)
    for start in range(asked.start - asked.start % size, asked.stop, size):
        block = numbers[start : start + size]
        wanted = range(max(asked.start, start) - start, min(asked.stop, start + len(block)) - start)
        yield from zip(block[wanted.start : wanted.stop], _evaluate_block(request, places, block, wanted), strict=True)


def _evaluate_block(
    request: SweepsRequest, places: Sequence[Place], block: Sequence[tuple[float, ...]], wanted: range
) -> Iterator[Point]:
    if is_late():
        yield from repeat(_LATE, len(wanted))
        return
    asked = [_request(request, places, each) for each in block]
    known = [each if isinstance(each, BoundsRequest) else None for each in asked]
    try:
        resolved_requests = [None] if len(block) == 1 else resolve_together(known, wanted)
    except DeadlinePassed:
        resolved_requests = [None] * len(wanted)
    for place, resolved in zip(wanted, resolved_requests, strict=True):
        each = asked[place]
        if not isinstance(each, BoundsRequest):
            yield Point(None, each)
            continue
        yield _LATE if is_late() else _evaluate_point(each, resolved)


def _evaluate_point(asked: BoundsRequest, resolved: ResolvedRequest | None) -> Point:
    # an answer computed after the deadline could be needlessly wide
    try:
        point = Point(read_bounds(asked, resolved)[0])
    except PrivacyComputationError as error:
        if isinstance(error, NumericalFailure):
            record_violation(error)
        point = Point(None, error)
    return _LATE if is_late() else point


def _request(
    request: SweepsRequest, places: Sequence[Place], numbers: tuple[float, ...]
) -> BoundsRequest | ValidationError:
    try:
        return request.asked(places, numbers)
    except ValidationError as error:
        return error
