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
    """A number near the calibrated one, and the answer to one target there."""

    value: Annotated[Number, Field(description="Value of the free number.")]
    target: Annotated[int, Field(ge=0, description="Index of the target, from 0.", examples=[0])]
    answer: Answer
    distance: Annotated[float, Field(ge=0, description="Relative distance from the calibrated value.")]


class NoWitness(Response):
    """Reason why no nearby number provably fails a target of the calibration."""

    reason: Annotated[
        str,
        Field(
            description="Reason in one sentence.",
            examples=["The enclosure of the target contains its limit at the neighbour."],
        ),
    ]
    undecided: Annotated[
        Neighbour | None, Field(description="Neighbour whose enclosure contains a limit. null: there is none.")
    ]
    fails: Annotated[
        Neighbour | None,
        Field(description="Nearest evaluated number that provably fails a target. null: there is none."),
    ]


class Monotonicity(Response):
    """Whether all numbers on one side of the calibrated one meet the targets."""

    proved: Annotated[
        bool,
        Field(
            description="Whether a theorem proves that the answers are monotone in the free number. Otherwise "
            "the search checked the evaluated numbers only."
        ),
    ]
    met_side: Annotated[
        Literal["larger", "smaller"] | None,
        Field(
            description="Side of the value, above or below, on which all numbers of the range provably meet the "
            "targets. null: no side is proved, and `notes` give the reason."
        ),
    ]
    theorem: Annotated[str, Field(description="Theorem, or description of the check.")]


class TargetWorstCase(Response):
    """Worst-case answer to one target, for comparison with a weaker attacker."""

    target: Annotated[int, Field(ge=0, description="Index of the target, from 0.", examples=[0])]
    threat_model: ThreatModelSpec
    answer: Answer


CalibrationStatus = Annotated[
    Literal["met", "trivially_met", "infeasible", "undecided"],
    named_schema(
        "CalibrationStatus",
        "met: the value meets every target. `witness` is a neighbour that fails a target, or `no_witness` gives "
        "the reason why there is none. trivially_met: the whole range meets every target, and the value is its "
        "least private number. infeasible: provably no number of the range meets every target, and the value "
        "is the evaluated number nearest to feasibility. undecided: no evaluated number provably meets every "
        "target, and infeasibility is not proved. `notes` give the reason.",
        examples=["met"],
    ),
]


class CalibrationsResponse(Result):
    """The least private number that provably meets every target, and a neighbour that provably fails a target."""

    mechanism: Annotated[MechanismSpec, Field(description="Mechanism of the request with the calibrated value.")]
    threat_model: Annotated[
        ThreatModelSpec, Field(description="Threat model of the request with the calibrated value.")
    ]
    free: Free
    targets: Annotated[
        tuple[CalibrationTarget, ...], Field(description="Targets of the request with the calibrated value.")
    ]
    bounds: Annotated[
        CalibrationBounds | None,
        Field(
            description="Search range of the request. The field is absent without a search range.", exclude_if=is_none
        ),
    ] = None
    relative_tolerance: Tolerance
    status: CalibrationStatus
    value: Annotated[Number, Field(description="The calibrated number.")]
    answers: Annotated[
        tuple[Answer, ...], Field(description="Answers at the value, one for each target in their order.")
    ]
    binding: Annotated[int, Field(ge=0, description="Index of the target nearest to its limit at the value, from 0.")]
    witness: Annotated[
        Neighbour | None,
        Field(
            description="Neighbour within the tolerance that provably fails a target, so that no less private "
            "value is possible. If the calibration is infeasible, the witness is the value itself. "
            "null: `no_witness` gives the reason."
        ),
    ]
    no_witness: Annotated[
        NoWitness | None, Field(description="Reason why there is no witness. null: a witness exists.")
    ]
    monotone: Monotonicity
    tolerance_met: Annotated[
        bool, Field(description="Whether a witness exists, or all less private numbers meet the targets too.")
    ]
    limit: LimitIfWide = None
    worst_cases: Annotated[
        tuple[TargetWorstCase, ...],
        Field(description="Worst-case answers at the value, for each target with a weaker threat model."),
    ]
    readings: Annotated[int, Field(ge=0, description="Number of evaluated values of the free number.")]
    assumptions: Assumptions
    hazards: Hazards
    notes: Annotated[
        tuple[str, ...], Field(description="Remarks about the search.", examples=[["The search evaluated 12 numbers."]])
    ]
