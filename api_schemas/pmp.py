"""Shared parts of the resources for practical membership privacy (PMP)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from api_schemas.base import named_schema
from api_schemas.enclosures import EnclosedNumber, EnclosedProbability

LARGEST_POINTS: Final = 10_000

EpsilonPmp = Annotated[
    EnclosedNumber,
    Field(
        description="Smallest epsilon, in nats, at which the releases with and without any point of the parent set are "
        "indistinguishable for someone who knows the parent set, but not which half of it the data are."
    ),
]
SuccessBound = Annotated[
    EnclosedProbability,
    Field(description="No such attacker tells membership with a larger chance: 1/(1 + e^-epsilon)."),
]
EtaMip = Annotated[
    EnclosedProbability,
    Field(description="Membership inference privacy eta that follows: tanh(epsilon/2)/2, half the largest advantage."),
]
PmpDirection = Annotated[
    Literal["in_over_out", "out_over_in"],
    named_schema(
        "PmpDirection",
        "in_over_out: the outcome is likelier with the point than without it; out_over_in: less likely.",
    ),
]
Query = Annotated[
    Literal["sum", "mean"],
    named_schema("Query", "What of the n records of the data is released with Gaussian noise.", examples=["mean"]),
]
PointIndex = Annotated[int, Field(ge=0, description="Position of the point in the request, from 0.")]
