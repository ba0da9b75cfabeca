"""Sweep as the request of a job, with a hundred times more points. A job computes it in chunks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field
from typing_extensions import override

from api_schemas.base import is_none
from api_schemas.sweeps import LARGEST_POINTS, LARGEST_VARIED, Pointer, SweepsRequest, SweptNumbers

LARGEST_JOB_POINTS: Final = 1_000_000
LARGEST_JOB_NUMBERS: Final = 10_000_000
"""Points times the numbers that are read of each."""


class PieceOfSweep(SweepsRequest):
    """Neighbouring points of a sweep, some of which are requested. The others complete a block of points."""

    largest_points: ClassVar[int] = 2 * LARGEST_POINTS
    largest_numbers: ClassVar[int] = LARGEST_JOB_NUMBERS

    first: Annotated[int, Field(ge=0, description="Place of the first point that is asked for.")]
    count: Annotated[int, Field(ge=1, description="How many points are asked for.")]

    @property
    @override
    def asked_points(self) -> range:
        return range(self.first, self.first + self.count)


class ManySweptNumbers(SweptNumbers):
    """Numbers at one position of a sweep. A range may have more values than in a sweep without a job."""

    count: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_JOB_POINTS)] | None,
        Field(description="Number of values from the first to the last.", examples=[20], exclude_if=is_none),
    ] = None


class LongSweepsRequest(SweepsRequest):
    """Sweep that a job computes."""

    largest_points: ClassVar[int] = LARGEST_JOB_POINTS
    largest_numbers: ClassVar[int] = LARGEST_JOB_NUMBERS

    vary: Annotated[dict[Pointer, ManySweptNumbers], Field(min_length=1, max_length=LARGEST_VARIED)]  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
