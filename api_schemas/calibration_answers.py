"""Response of `POST /v1/calibrations`: a number, the targets met there, and the failing target beside it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from api_schemas.answers import Answer
from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.base import Response, Result, is_none, named_schema
from api_schemas.calibrations import CalibrationBounds, Free, Tolerance
from api_schemas.enclosures import LimitIfWide
from api_schemas.mechanisms import MechanismSpec
from api_schemas.targets import CalibrationTarget
from api_schemas.threat_models import ThreatModelSpec

Number = Annotated[int | float, Field(description="A number; an integer where the field is one.")]


class Neighbour(Response):
    """A number beside the value, and the answer to one target there."""

    value: Annotated[Number, Field(description="The number.")]
    target: Annotated[int, Field(ge=0, description="Which target, counted from 0.")]
    answer: Answer
    distance: Annotated[float, Field(ge=0, description="From the value, relative to it.")]


class NoWitness(Response):
    """Why there is no number within the tolerance at which a target provably fails."""

    reason: Annotated[str, Field(description="Why, in a sentence.")]
    undecided: Annotated[
        Neighbour | None, Field(description="The neighbour, where its enclosure straddles a limit; else null.")
    ]
    fails: Annotated[
        Neighbour | None,
        Field(description="The nearest number that was found where a target provably fails; null: none was found."),
    ]


class Monotonicity(Response):
    """Whether all numbers on one side of the value meet the targets."""

    proved: Annotated[
        bool,
        Field(
            description="Whether the answers are monotone in the number by the theorem; else they were monotone, or "
            "not, along the numbers that were looked at."
        ),
    ]
    met_side: Annotated[
        Literal["larger", "smaller"] | None,
        Field(
            description="The side of the value on which all numbers of the range meet the targets, as far as they are "
            "served: above the value, or below. Stated only where that is proved, else null: of `met`, `notes` say why."
        ),
    ]
    theorem: Annotated[str, Field(description="The theorem, or what was checked.")]


class TargetWorstCase(Response):
    """The answer to a target against the worst case, which stands beside a relaxed threat model."""

    target: Annotated[int, Field(ge=0, description="Which target, counted from 0.")]
    threat_model: ThreatModelSpec
    answer: Answer


CalibrationStatus = Annotated[
    Literal["met", "trivially_met", "infeasible", "undecided"],
    named_schema(
        "CalibrationStatus",
        "met: every target is met at the value; `witness` is a neighbour at which a target fails, or `no_witness` says "
        "why none is named. trivially_met: every target is met over the whole range, as far as it is served, by the "
        "theorem of `monotone`; the value is the least private end. infeasible: no number of the range meets every "
        "target, which is proved; the value is the number that was looked at and is nearest to it. undecided: no "
        "number that was looked at is proved to meet every target, and that none does is not proved either; `notes` "
        "say why, for example that the work of a calibration was used up.",
        examples=["met"],
    ),
]


class CalibrationsResponse(Result):
    """The least private number at which every target is met for sure, and the neighbour at which one fails for sure."""

    mechanism: Annotated[MechanismSpec, Field(description="With the value in its place.")]
    threat_model: Annotated[ThreatModelSpec, Field(description="With the value in its place.")]
    free: Free
    targets: Annotated[tuple[CalibrationTarget, ...], Field(description="With the value in its place.")]
    bounds: Annotated[
        CalibrationBounds | None, Field(description="As sent; absent where it was.", exclude_if=is_none)
    ] = None
    relative_tolerance: Tolerance
    status: CalibrationStatus
    value: Annotated[Number, Field(description="The number that was searched for.")]
    answers: Annotated[tuple[Answer, ...], Field(description="At the value, one for each target, in their order.")]
    binding: Annotated[int, Field(ge=0, description="The target that is nearest to its limit there, counted from 0.")]
    witness: Annotated[
        Neighbour | None,
        Field(
            description="The neighbour, within the tolerance, at which a target provably fails: the value could not be "
            "less private. Of what is infeasible, the value itself, where a target provably fails there. null: see "
            "no_witness."
        ),
    ]
    no_witness: Annotated[NoWitness | None, Field(description="null where there is a witness.")]
    monotone: Monotonicity
    tolerance_met: Annotated[
        bool, Field(description="There is a witness, or every number that is less private meets the targets too.")
    ]
    limit: LimitIfWide = None
    worst_cases: Annotated[
        tuple[TargetWorstCase, ...],
        Field(description="Beside each target against a relaxed threat model: the worst case at the value."),
    ]
    readings: Annotated[int, Field(ge=0, description="How many numbers were looked at.")]
    assumptions: Assumptions
    hazards: Hazards
    notes: Annotated[tuple[str, ...], Field(description="What a reader should know about the search.")]
