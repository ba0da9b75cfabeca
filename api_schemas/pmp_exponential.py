"""Request and response of `POST /v1/pmp/exponential`: PMP of the exponential mechanism on a given parent set."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from api_schemas.assumptions_and_hazards import Assumptions
from api_schemas.base import NonNegative, Request, Result, is_none, named_schema
from api_schemas.choices import Evidence
from api_schemas.enclosures import Conditional, EnclosedNumber, LimitIfWide, Notes, Source, Tight, ToleranceMet
from api_schemas.limits import limit_error
from api_schemas.pmp import LARGEST_POINTS, EpsilonPmp, EtaMip, PmpDirection, PointIndex, SuccessBound
from api_schemas.scalar_types import DEFAULT_TOLERANCE, LARGEST_SEED, Epsilon, RelativeTolerance

LARGEST_OBJECTS: Final = 1_024
LARGEST_DIMENSION: Final = 1_024
LARGEST_NUMBER: Final = 1e12
EXACT_BY_DEFAULT, EXACT_AT_MOST = 14, 17
FEWEST_SAMPLES, MOST_SAMPLES = 100, 100_000
LARGEST_SAMPLED_NUMBERS: Final = 20_000_000
LARGEST_SAMPLED_POINTS: Final = 4_000
DEFAULT_SAMPLES, DEFAULT_SAMPLING_WORK = 2_000, 3e10
DEFAULT_CONFIDENCE: Final = 0.999

Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Rows = tuple[Annotated[tuple[Number, ...], Field(min_length=1, max_length=LARGEST_POINTS)], ...]
Length = Annotated[float, Field(ge=1e-9, le=LARGEST_NUMBER)]


class PmpExponentialRequest(Request):
    """An exponential mechanism that draws one of m objects w with weights exp(-epsilon loss(w, D)/(2 sensitivity)), and
    the parent set of 2n points of which its data D are a random half.

    Either `losses`, or `points`, `objects` and `clip_radius` for the Euclidean loss |w - x|, each point
    clipped to the radius.
    """

    epsilon: Epsilon
    losses: Annotated[
        Annotated[Rows, Field(min_length=1, max_length=LARGEST_OBJECTS)] | None,
        Field(
            description="Loss of every object (rows) at every point (columns) of the parent set.",
            examples=[[[0.0, 1.0, 0.5, 2.0], [1.0, 0.0, 0.25, 1.0]]],
            exclude_if=is_none,
        ),
    ] = None
    points: Annotated[
        Annotated[Rows, Field(min_length=2, max_length=LARGEST_POINTS)] | None,
        Field(
            description="The 2n points of the parent set, each with d coordinates.",
            examples=[[[0.2], [1.5], [-0.4], [2.5]]],
            exclude_if=is_none,
        ),
    ] = None
    objects: Annotated[
        Annotated[Rows, Field(min_length=1, max_length=LARGEST_OBJECTS)] | None,
        Field(description="The objects w, each with d coordinates.", examples=[[[1.0], [-1.0]]], exclude_if=is_none),
    ] = None
    loss: Annotated[
        Literal["euclidean"] | None,
        Field(description="Loss of an object at a point: their distance; with `points` only.", exclude_if=is_none),
    ] = None
    clip_radius: Annotated[
        Length | None,
        Field(
            description="Norm C to which every point is clipped; with `points` only.",
            examples=[10.0],
            exclude_if=is_none,
        ),
    ] = None
    aggregate: Annotated[
        Literal["mean", "sum"], Field(description="How the losses of the n records of the data become one.")
    ] = "mean"
    sensitivity: Annotated[
        Length | None,
        Field(
            description="Largest change of the aggregated loss of any object when one record is replaced; required "
            "with `losses`; with `points` absent: (C + largest of min(C, |w|))/n for the mean, n times it for the sum.",
            examples=[5.5],
            exclude_if=is_none,
        ),
    ] = None
    exact: Annotated[
        bool | None,
        Field(
            description="Whether all C(2n, n) subsets are summed; absent: up to n = 14. true: up to n = 17, and more "
            "subsets for epsilon_on_population. false: never.",
            exclude_if=is_none,
        ),
    ] = None
    samples: Annotated[
        Annotated[int, Field(ge=0, le=MOST_SAMPLES)] | None,
        Field(
            description="Where subsets are not summed: how many are drawn for each object, 0 (the certified swap bound "
            "alone) or at least 100; absent: 2000, or as many as are quick.",
            examples=[2000],
            exclude_if=is_none,
        ),
    ] = None
    seed: Annotated[
        Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None,
        Field(description="Seed of the samples; absent: 0.", examples=[0], exclude_if=is_none),
    ] = None
    confidence: Annotated[
        Annotated[float, Field(ge=0.5, le=0.999999999)] | None,
        Field(
            description="Least probability that a sampled enclosure holds; absent: 0.999.",
            examples=[0.999],
            exclude_if=is_none,
        ),
    ] = None
    relative_tolerance: RelativeTolerance = DEFAULT_TOLERANCE

    @model_validator(mode="after")
    def _one_population(self) -> Self:
        if self.losses is not None:
            self._only_losses()
        else:
            self._only_points()
        if self.point_count % 2:
            pointer = "/points" if self.losses is None else "/losses"
            raise limit_error(pointer, f"The parent set must have an even number of points; it has {self.point_count}.")
        self._settle_sampling()
        return self

    def _only_losses(self) -> None:
        for name in ("points", "objects", "loss", "clip_radius"):
            if getattr(self, name) is not None:
                raise limit_error(f"/{name}", "Send either losses, or points with objects and clip_radius.")
        if self.sensitivity is None:
            raise limit_error(
                "/sensitivity", "Required with losses: what bounds them beyond the parent set is not known here."
            )
        _check_rows(self.losses or (), "/losses", self.point_count)

    def _only_points(self) -> None:
        for name in ("points", "objects", "clip_radius"):
            if getattr(self, name) is None:
                raise limit_error(f"/{name}", "Required, unless losses are sent: points, objects and clip_radius.")
        self._settle(loss="euclidean")
        dimension = len(next(iter(self.points or ())))
        if dimension > LARGEST_DIMENSION:
            raise limit_error("/points/0", f"A point may have at most {LARGEST_DIMENSION} coordinates.")
        _check_rows(self.points or (), "/points", dimension)
        _check_rows(self.objects or (), "/objects", dimension)

    def _settle_sampling(self) -> None:
        if self.exact and self.data_size > EXACT_AT_MOST:
            raise limit_error("/exact", f"All subsets can be summed up to {2 * EXACT_AT_MOST} points.")
        if self.enumerates:
            for name in ("samples", "seed", "confidence"):
                if getattr(self, name) is not None:
                    raise limit_error(f"/{name}", "Only where subsets are drawn, not where all are summed: see exact.")
            return
        held = vars(self)
        if self.samples is None:
            affordable = int(DEFAULT_SAMPLING_WORK / sampling_work(self.object_count, self.point_count))
            largest = min(DEFAULT_SAMPLES, affordable, LARGEST_SAMPLED_NUMBERS // self.point_count)
            held["samples"] = largest if largest >= FEWEST_SAMPLES and self._may_be_sampled else 0
        samples: int = held["samples"]
        if 0 < samples < FEWEST_SAMPLES:
            raise limit_error("/samples", f"Must be 0 or at least {FEWEST_SAMPLES}.")
        if samples and not self._may_be_sampled:
            raise limit_error("/samples", f"Subsets are drawn of at most {LARGEST_SAMPLED_POINTS} points; send 0.")
        if samples * self.point_count > LARGEST_SAMPLED_NUMBERS:
            raise limit_error("/samples", f"Samples times points may be at most {LARGEST_SAMPLED_NUMBERS:.0e}.")
        for name, default in (("seed", 0), ("confidence", DEFAULT_CONFIDENCE)):
            if held[name] is None:
                held[name] = default if samples else None
            elif not samples:
                raise limit_error(f"/{name}", "Only where subsets are drawn: samples is 0, or too few are affordable.")

    @property
    def _may_be_sampled(self) -> bool:
        return self.point_count <= LARGEST_SAMPLED_POINTS

    @property
    def point_count(self) -> int:
        """Size of the parent set, 2n."""
        return len(self.points or ()) if self.losses is None else len(self.losses[0])

    @property
    def object_count(self) -> int:
        """Number of objects to choose from, m."""
        return len(self.objects or () if self.losses is None else self.losses)

    @property
    def data_size(self) -> int:
        """Number of records of the data, n."""
        return self.point_count // 2

    @property
    def enumerates(self) -> bool:
        """Whether the computation sums over all subsets."""
        return self.data_size <= EXACT_BY_DEFAULT if self.exact is None else self.exact


def sampling_work(objects: int, points: int) -> float:
    """Return the number of operations to draw one sample of every object."""
    return objects * (points**2 / 4 * (objects + 4) + 2_500 * points)


def _check_rows(rows: Rows, pointer: str, length: int) -> None:
    for index, row in enumerate(rows):
        if len(row) != length:
            raise limit_error(f"{pointer}/{index}", f"Every row must have {length} numbers; this one has {len(row)}.")


class ExponentialMaximiser(TypedDict):
    """Point and object at which epsilon_pmp is attained, or its upper bound if not all subsets were summed."""

    object: Annotated[int, Field(ge=0, description="Position of the object in the request, from 0.")]
    point: PointIndex
    direction: PmpDirection


class EpsilonOnPopulation(TypedDict):
    """Differential privacy among the halves of this parent set, which the literature reads in two ways."""

    exact: Annotated[
        EnclosedNumber,
        Field(description="Largest |ln p(w|D)/p(w|D')| over objects and halves D, D' that differ in one point."),
    ]
    sensitivity: Annotated[
        EnclosedNumber,
        Field(
            description="epsilon times the sensitivity on this parent set over the sensitivity: never the smaller one."
        ),
    ]


class SamplesDrawn(TypedDict):
    """Number and seed of the samples of a statistical answer."""

    samples: Annotated[int, Field(description="Subsets drawn for each object.")]
    seed: Annotated[int, Field(description="Seed of the draws.")]
    confidence: Annotated[float, Field(description="Least probability that the sampled enclosure holds.")]


class ReplaceOneWorstCase(TypedDict):
    """The adversary of differential privacy, who knows all records but one, on any data."""

    epsilon: Annotated[EnclosedNumber, Field(description="Of the mechanism, when one record is replaced.")]
    tight: Tight
    source: Source


class PmpExponentialResponse(Result):
    """The PMP parameter with its enclosure; beside it what it compares with. Other numbers than those that follow from
    epsilon_pmp are certified."""

    relative_tolerance: RelativeTolerance
    epsilon: Annotated[float, Field(description="As in the request.")]
    sensitivity: Annotated[float, Field(description="The one that the weights were scaled with.")]
    data_size: Annotated[int, Field(description="n, half of the points.")]
    epsilon_pmp: EpsilonPmp
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: Annotated[
        Literal["enumeration", "sampling", "swap_bound"],
        named_schema(
            "PmpMethod",
            "enumeration: all subsets were summed; sampling: some were drawn, beside the swap bound; swap_bound: the "
            "certified bound alone.",
        ),
    ]
    tolerance_met: ToleranceMet
    limit: LimitIfWide = None
    source: Source
    maximiser: ExponentialMaximiser
    swap_bound: Annotated[
        NonNegative, Field(description="A certified upper bound on epsilon_pmp that holds for any n.")
    ]
    sampling: Annotated[SamplesDrawn | None, Field(description="null where nothing was drawn.")]
    epsilon_on_population: EpsilonOnPopulation
    success_bound: SuccessBound
    eta_mip: EtaMip
    worst_case: ReplaceOneWorstCase
    notes: Notes
    assumptions: Assumptions
