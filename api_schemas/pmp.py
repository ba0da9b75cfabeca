"""Shared parts of the resources for practical membership privacy (PMP).

The *parent set* is the population of records, and the data are a random half of it. The *PMP parameter* bounds what a
release tells about the membership of each point.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from api_schemas.base import named_schema
from api_schemas.enclosures import EnclosedNumber, EnclosedProbability

LARGEST_POINTS: Final = 10_000

EpsilonPmp = Annotated[
    EnclosedNumber,
    Field(
        description="Smallest epsilon, in nats, for which releases with and without any point are "
        "indistinguishable. The attacker knows the parent set, but not the half that is the data."
    ),
]
SuccessBound = Annotated[
    EnclosedProbability,
    Field(description="Largest success probability of such an attacker: 1/(1 + e^-epsilon_pmp)."),
]
EtaMip = Annotated[
    EnclosedProbability,
    Field(description="Membership inference privacy eta: tanh(epsilon_pmp/2)/2, half the largest advantage."),
]
PmpDirection = Annotated[
    Literal["in_over_out", "out_over_in"],
    named_schema(
        "PmpDirection",
        "in_over_out: the outcome is more likely with the point than without it. out_over_in: less likely.",
    ),
]
Query = Annotated[
    Literal["sum", "mean"],
    named_schema("Query", "sum or mean of the n records, released with Gaussian noise.", examples=["mean"]),
]
PointIndex = Annotated[int, Field(ge=0, description="Index of the point in the request, from 0.")]
