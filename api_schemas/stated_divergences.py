"""Releases of which only bounds of Renyi divergences are known: zCDP and RDP."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from api_schemas.base import Infinite, Request, field_error, named_schema
from api_schemas.scalar_types import POSITIVE_ZERO

LARGEST_DIVERGENCE: Final = 1e6
LARGEST_ORDER: Final = 1e9
LARGEST_ORDERS: Final = 1024
INFINITE_WORDS: Final = ("Infinity", "infinity", "inf")
"""Spellings of an infinite order. Responses have the first one."""


def _spelled(value: Any) -> Any:
    return INFINITE_WORDS[0] if isinstance(value, str) and value in INFINITE_WORDS else value


def as_numbers(values: Sequence[float | str]) -> list[float]:
    """Return orders or bounds as floats."""
    return [float(value) for value in values]


Order = Annotated[Annotated[float, Field(ge=1, le=LARGEST_ORDER)] | Infinite, BeforeValidator(_spelled)]
"""Order of a Renyi divergence."""
Divergence = Annotated[
    Annotated[float, Field(ge=0, le=LARGEST_DIVERGENCE), POSITIVE_ZERO] | Infinite, BeforeValidator(_spelled)
]
"""Bound of a Renyi divergence, in nats."""
BoundedDirections = Annotated[
    Literal["both", "forward_only"],
    named_schema(
        "BoundedDirections",
        "Renyi divergences that have the stated bounds. both: those of either output law from the other, with and "
        "without the record. forward_only: only those of the law with the record from the law without the record.",
        examples=["both"],
    ),
]


class ZcdpMechanism(Request):
    """Any mechanism that is rho-zero-concentrated differentially private.

    Between neighbours all Renyi divergences of order a are at most rho a. Every answer is the worst case over all such
    mechanisms.
    """

    type: Literal["zcdp"]
    rho: Annotated[
        float,
        Field(
            ge=0,
            le=LARGEST_DIVERGENCE,
            description="Bound of all Renyi divergences over their order, for one record. A delta is not part of zCDP.",
            examples=[0.5],
        ),
        POSITIVE_ZERO,
    ]

    @model_validator(mode="before")
    @classmethod
    def _has_no_delta(cls, sent: Any) -> Any:
        members: object = sent
        if isinstance(members, dict) and "delta" in members:
            raise field_error("delta", "zCDP has no delta. Send delta in a question of type epsilon.")
        return sent


class RdpMechanism(Request):
    """Any mechanism with stated bounds of its Renyi divergences at some orders.

    Every answer is the worst case over all such mechanisms.
    """

    type: Literal["rdp"]
    orders: Annotated[
        tuple[Order, ...],
        Field(
            min_length=1,
            max_length=LARGEST_ORDERS,
            validation_alias=AliasChoices("orders", "alphas"),
            description='Rising orders. 1 is the Kullback-Leibler divergence, "Infinity" the largest privacy loss.',
            examples=[[2.0, 4.0, 8.0, 16.0, 32.0]],
        ),
    ]
    epsilons: Annotated[
        tuple[Divergence, ...],
        Field(
            min_length=1,
            max_length=LARGEST_ORDERS,
            validation_alias=AliasChoices("epsilons", "rdp"),
            description="Bound at each order, in nats. Bounds do not fall, because a divergence rises with its order. "
            '"Infinity" is no bound; at least one bound is finite.',
            examples=[[1.0, 2.0, 4.0, 8.0, 16.0]],
        ),
    ]
    directions: BoundedDirections = "both"

    @model_validator(mode="after")
    def _bounds_fit(self) -> Self:
        orders, epsilons = as_numbers(self.orders), as_numbers(self.epsilons)
        if any(low >= high for low, high in pairwise(orders)):
            raise field_error("orders", "The orders must rise. Sort them, and send each order once.")
        if len(self.epsilons) != len(self.orders):
            raise field_error("epsilons", "There must be as many epsilons as orders.")
        if any(low > high for low, high in pairwise(epsilons)):
            sentence = "The epsilons must not fall with the order. "
            sentence += "Replace an epsilon by that of the next larger order where it is larger."
            raise field_error("epsilons", sentence)
        if math.isinf(epsilons[0]):
            raise field_error("epsilons", "At least one epsilon must be finite. Without any bound nothing is private.")
        return self
