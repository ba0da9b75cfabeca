"""Request and response of `POST /v1/pmp/exponential`: PMP of the exponential mechanism on a given parent set.

PMP is practical membership privacy: the attacker does not know which records were drawn. The parent set is the
population from which the data are drawn.
"""

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
    """An exponential mechanism on a random half D of a parent set of 2n points.

    The mechanism draws one of m objects w with weights exp(-epsilon loss(w, D)/(2 sensitivity)). The request has either
    `losses`, or `points`, `objects` and `clip_radius`. The latter give the Euclidean loss |w - x| with each point
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
        Field(description="Distance of an object and a point, with `points` only.", exclude_if=is_none),
    ] = None
    clip_radius: Annotated[
        Length | None,
        Field(
            description="Norm C to which every point is clipped, with `points` only.",
            examples=[10.0],
            exclude_if=is_none,
        ),
    ] = None
    aggregate: Annotated[Literal["mean", "sum"], Field(description="mean or sum of the losses of the n records.")] = (
        "mean"
    )
    sensitivity: Annotated[
        Length | None,
        Field(
            description="Largest change of the aggregated loss of any object by the replacement of one record. "
            "Required with `losses`. Default with `points`: (C + largest of min(C, |w|))/n for the "
            "mean, and n times this number for the sum.",
            examples=[5.5],
            exclude_if=is_none,
        ),
    ] = None
    exact: Annotated[
        bool | None,
        Field(
            description="Whether the service sums all C(2n, n) subsets. Default: true up to n = 14. The value "
            "true is allowed up to n = 17 and sums more subsets for epsilon_on_population.",
            exclude_if=is_none,
        ),
    ] = None
    samples: Annotated[
        Annotated[int, Field(ge=0, le=MOST_SAMPLES)] | None,
        Field(
            description="Number of sampled subsets for each object, if not all subsets are summed. 0 gives the "
            "certified swap bound alone; otherwise at least 100. Default: 2000, or a smaller number "
            "for a fast answer.",
            examples=[2000],
            exclude_if=is_none,
        ),
    ] = None
    seed: Annotated[
        Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None,
        Field(description="Seed of the samples. Default: 0.", examples=[0], exclude_if=is_none),
    ] = None
    confidence: Annotated[
        Annotated[float, Field(ge=0.5, le=0.999999999)] | None,
        Field(
            description="Least probability that a sampled enclosure holds. Default: 0.999.",
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
            raise limit_error(pointer, f"The parent set must have an even number of points. It has {self.point_count}.")
        self._settle_sampling()
        return self

    def _only_losses(self) -> None:
        for name in ("points", "objects", "loss", "clip_radius"):
            if getattr(self, name) is not None:
                raise limit_error(f"/{name}", "Send either losses, or points with objects and clip_radius.")
        if self.sensitivity is None:
            raise limit_error("/sensitivity", "Required with losses, because the parent set alone does not bound them.")
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
            raise limit_error("/exact", f"All subsets are summed only for at most {2 * EXACT_AT_MOST} points.")
        if self.enumerates:
            for name in ("samples", "seed", "confidence"):
                if getattr(self, name) is not None:
                    raise limit_error(
                        f"/{name}",
                        "Send this field only if subsets are drawn, not if all subsets are summed (see exact).",
                    )
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
            raise limit_error(
                "/samples", f"Subsets are drawn only for at most {LARGEST_SAMPLED_POINTS} points. Send 0."
            )
        if samples * self.point_count > LARGEST_SAMPLED_NUMBERS:
            raise limit_error("/samples", f"Samples times points may be at most {LARGEST_SAMPLED_NUMBERS:.0e}.")
        for name, default in (("seed", 0), ("confidence", DEFAULT_CONFIDENCE)):
            if held[name] is None:
                held[name] = default if samples else None
            elif not samples:
                raise limit_error(
                    f"/{name}",
                    "Send this field only if subsets are drawn. Here samples is 0, or too few samples are possible.",
                )

    @property
    def _may_be_sampled(self) -> bool:
        return self.point_count <= LARGEST_SAMPLED_POINTS

    @property
    def point_count(self) -> int:
        """Size of the parent set (population of which the data are a part), 2n."""
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
        """Whether the computation sums over all halves of the parent set (population of which the data are a part)."""
        return self.data_size <= EXACT_BY_DEFAULT if self.exact is None else self.exact


def sampling_work(objects: int, points: int) -> float:
    """Return the number of operations to draw one sample of every object."""
    return objects * (points**2 / 4 * (objects + 4) + 2_500 * points)


def _check_rows(rows: Rows, pointer: str, length: int) -> None:
    for index, row in enumerate(rows):
        if len(row) != length:
            raise limit_error(f"{pointer}/{index}", f"Every row must have {length} numbers. This row has {len(row)}.")


class ExponentialMaximiser(TypedDict):
    """Point and object that attain the PMP parameter epsilon_pmp, or its upper bound if not all subsets were summed."""

    object: Annotated[int, Field(ge=0, description="Index of the object in the request, from 0.")]
    point: PointIndex
    direction: PmpDirection


class EpsilonOnPopulation(TypedDict):
    """Differential privacy among the halves of this parent set, by the two definitions in the literature."""

    exact: Annotated[
        EnclosedNumber,
        Field(
            description="Largest |ln p(w|D)/p(w|D')| over objects and halves D, D' that differ in one point, in nats."
        ),
    ]
    sensitivity: Annotated[
        EnclosedNumber,
        Field(
            description="epsilon times the ratio of the sensitivity on this parent set to the sensitivity of "
            "the mechanism. It is at least the exact value."
        ),
    ]


class SamplesDrawn(TypedDict):
    """Number and seed of the samples of a statistical answer."""

    samples: Annotated[int, Field(description="Number of sampled subsets for each object.", examples=[2_000])]
    seed: Annotated[int, Field(description="Seed of the samples.", examples=[0])]
    confidence: Annotated[
        float, Field(description="Least probability that the sampled enclosure holds.", examples=[0.999])
    ]


class ReplaceOneWorstCase(TypedDict):
    """The adversary of differential privacy, who knows all records but one, on any data."""

    epsilon: Annotated[
        EnclosedNumber, Field(description="Privacy parameter epsilon of the mechanism in nats, for replaced records.")
    ]
    tight: Tight
    source: Source


class PmpExponentialResponse(Result):
    """PMP parameter with its enclosure, and related privacy parameters.

    All numbers that do not follow from epsilon_pmp are certified.
    """

    relative_tolerance: RelativeTolerance
    epsilon: Annotated[float, Field(description="Privacy parameter epsilon from the request, in nats.")]
    sensitivity: Annotated[float, Field(description="Sensitivity in the weights of the mechanism.")]
    data_size: Annotated[int, Field(description="Number n of records, half of the points.")]
    epsilon_pmp: EpsilonPmp
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: Annotated[
        Literal["enumeration", "sampling", "swap_bound"],
        named_schema(
            "PmpMethod",
            "enumeration: all subsets were summed. sampling: some subsets were sampled, in addition to the swap "
            "bound. swap_bound: the certified bound alone.",
        ),
    ]
    tolerance_met: ToleranceMet
    limit: LimitIfWide = None
    source: Source
    maximiser: ExponentialMaximiser
    swap_bound: Annotated[NonNegative, Field(description="Certified upper bound of epsilon_pmp for any n.")]
    sampling: Annotated[SamplesDrawn | None, Field(description="Samples of the answer. null: nothing was sampled.")]
    epsilon_on_population: EpsilonOnPopulation
    success_bound: SuccessBound
    eta_mip: EtaMip
    worst_case: ReplaceOneWorstCase
    notes: Notes
    assumptions: Assumptions
