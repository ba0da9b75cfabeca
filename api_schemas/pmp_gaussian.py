"""Request and response of `POST /v1/pmp/gaussian`: PMP of a sum or mean with Gaussian noise on a given parent set.

PMP is practical membership privacy: the attacker does not know which records were drawn. The parent set is the
population from which the data are drawn.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from api_schemas.assumptions_and_hazards import Assumptions
from api_schemas.base import Request, Result, is_none
from api_schemas.choices import Evidence
from api_schemas.enclosures import Conditional, EnclosedNumber, Notes, Source, Tight
from api_schemas.limits import limit_error
from api_schemas.pmp import Query
from api_schemas.scalar_types import POSITIVE_ZERO, Epsilon, UnitInterval

LARGEST_POINT_COUNT: Final = 50_000
LARGEST_POINT_DIMENSION: Final = 4_096
LARGEST_POINT_NUMBERS: Final = 2**22
"""Coordinates of all points together."""
LARGEST_COORDINATE: Final = 1e12
RATIO_ROUNDING: Final = 1e-9

Coordinate = Annotated[float, Field(ge=-LARGEST_COORDINATE, le=LARGEST_COORDINATE), POSITIVE_ZERO]


class DpTarget(Request):
    """Target of the noise calibration: differential privacy for replaced records.

    The service chooses the smallest sufficient noise.
    """

    epsilon: Epsilon
    delta: Annotated[
        float, Field(ge=1e-300, lt=1, description="Privacy parameter delta of the target.", examples=[0.01])
    ]


class PmpGaussianParameters(Request):
    """Parameters of a Gaussian PMP request, which JSON requests and uploaded archives share.

    PMP is practical membership privacy: the attacker does not know which records were drawn.
    """

    query: Query = "mean"
    clip_radius: Annotated[
        Annotated[float, Field(ge=1e-12, le=1e15)] | None,
        Field(
            description="Norm C to which every record is clipped. Default: no clipping.",
            examples=[50.0],
            exclude_if=is_none,
        ),
    ] = None
    noise_std: Annotated[
        Annotated[float, Field(ge=1e-12, le=1e15)] | None,
        Field(
            description="Standard deviation of the noise on each coordinate of the release. Required without `target`.",
            examples=[0.5],
            exclude_if=is_none,
        ),
    ] = None
    target: Annotated[
        DpTarget | None,
        Field(
            description="Differential privacy that determines the noise. Requires `clip_radius`.", exclude_if=is_none
        ),
    ] = None
    delta: Annotated[
        UnitInterval | None,
        Field(
            description="Delta of practical membership privacy. Default: the delta of the target.",
            examples=[0.01],
            exclude_if=is_none,
        ),
    ] = None
    parent_ratio: Annotated[
        Annotated[float, Field(gt=1, le=1e6)] | None,
        Field(
            description="Size of the parent set divided by the size of the data. Default: 2.",
            examples=[2.0],
            exclude_if=is_none,
        ),
    ] = None

    @model_validator(mode="after")
    def _one_noise(self) -> Self:
        if (self.noise_std is None) == (self.target is None):
            raise limit_error("", "Send exactly one of `noise_std` and `target`.")
        if self.target is not None and self.clip_radius is None:
            raise limit_error(
                "/clip_radius", "Required with `target`, because unclipped records have unlimited influence."
            )
        if self.delta is None:
            if self.target is None:
                raise limit_error("/delta", "Required: a number in [0, 1].")
            self._settle(delta=self.target.delta)
        return self

    def data_size_of(self, count: int) -> int:
        """Return the number n of training records, which are drawn from `count` points.

        Raise PydanticCustomError unless n is whole and 0 < n < `count`.
        """
        if self.parent_ratio is None:
            if count % 2:
                raise limit_error(
                    "/points",
                    f"Must be an even number of points without `parent_ratio`. The request has {count} points.",
                )
            return count // 2
        exact = count / self.parent_ratio
        size = round(exact)
        if not 1 <= size < count or abs(exact - size) > RATIO_ROUNDING * count:
            raise limit_error(
                "/parent_ratio", f"{count} points divided by parent_ratio must be an integer below {count}."
            )
        return size


class PmpGaussianRequest(PmpGaussianParameters):
    """A parent set, a random share of it as the data (default: half), and the noisy release of their sum or mean."""

    points: Annotated[
        tuple[Annotated[tuple[Coordinate, ...], Field(min_length=1, max_length=LARGEST_POINT_DIMENSION)], ...],
        Field(
            min_length=2,
            max_length=LARGEST_POINT_COUNT,
            description="Parent set of shape [N, d], with every record that may be in the data.",
            examples=[[[0.0], [0.3], [0.7], [1.1]]],
        ),
    ]

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        dimension = len(self.points[0])
        for place, point in enumerate(self.points):
            if len(point) != dimension:
                raise limit_error(f"/points/{place}", f"Must have {dimension} coordinates, like the first point.")
        self.data_size_of(len(self.points))
        return self


class GaussianWorstCase(TypedDict):
    """Privacy against an attacker who knows all records but one, for any data within the clipping radius."""

    epsilon: Annotated[
        EnclosedNumber, Field(description="Privacy parameter epsilon in nats. Infinity: records are not clipped.")
    ]
    tight: Tight
    delta: Annotated[float, Field(description="Privacy parameter delta of the stated epsilon.")]
    source: Source


class PmpGaussianResponse(Result):
    """PMP parameter of the release with its enclosure, and the differential privacy of the release."""

    query: Query
    data_size: Annotated[int, Field(description="Number n of records in the data.")]
    points: Annotated[int, Field(description="Size N of the parent set.")]
    dimension: Annotated[int, Field(description="Number d of coordinates of a point.")]
    noise_std: Annotated[
        float,
        Field(
            description="Standard deviation of the noise, from the request or calibrated to the target and rounded up."
        ),
    ]
    delta: Annotated[float, Field(description="Delta of practical membership privacy.")]
    epsilon_pmp: Annotated[
        EnclosedNumber,
        Field(
            description="Smallest epsilon, in nats, for which releases with and without any point are (epsilon, "
            "delta)-indistinguishable. The attacker knows the parent set, but not the share that "
            "is the data."
        ),
    ]
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    most_exposed_point: Annotated[
        int, Field(ge=0, description="Index of the point with the upper bound, in the order of the request from 0.")
    ]
    success_bound: Annotated[
        float, Field(description="Largest success probability of such an attacker, on average over releases.")
    ]
    worst_case: GaussianWorstCase
    source: Source
    notes: Notes
    assumptions: Assumptions
