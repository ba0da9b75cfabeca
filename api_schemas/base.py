"""Base classes of everything on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError, to_json

COMPONENT: Final = "x-component"
"""Keyword of a schema that is published once, under a name of its own, and referred to everywhere else."""


def field_refusal(field: str, sentence: str) -> PydanticCustomError:
    """The error of an object's validator that is about one of its fields, which a pointer leads to."""
    return PydanticCustomError("settled", "{sentence}", {"sentence": sentence, "field": field})


class Request(BaseModel):
    """Something a client sends: frozen, strict JSON types, no unknown fields, no NaN or infinity.

    Where a response says it again, fields with a default are always there.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, json_schema_serialization_defaults_required=True
    )


class Response(BaseModel):
    """Something the service sends. Every field is always there, save those that say they may be absent (`exclude_if`).

    Unknown fields are ignored on reading, so that a client of today can read the answers of tomorrow.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings", json_schema_serialization_defaults_required=True)

    def json_bytes(self) -> bytes:
        """The body: UTF-8 JSON, infinities as the strings "Infinity" and "-Infinity"."""
        return self.__pydantic_serializer__.to_json(self)


class Result(Response):
    """A response that is stored under its digest."""

    digest: Annotated[
        str, Field(pattern="^sha256:[0-9a-f]{64}$", description="Names this result; see GET /v1/results/{digest}.")
    ]
    engine_version: Annotated[
        str, Field(description="Version of the numbers; part of the digest.", examples=["2026.11.22"])
    ]


def json_bytes(response: Response | dict[str, Any]) -> bytes:
    """What `Response.json_bytes` writes, of a response, or of its fields in their order.

    Building and checking a response costs more than most answers; a test holds the bytes to those of the response.
    """
    return to_json(response, inf_nan_mode="strings")


def is_none(value: object) -> bool:
    """For `exclude_if`: a field that holds None is left out of the JSON."""
    return value is None


def component(
    name: str,
    description: str,
    *,
    examples: list[Any] | None = None,
    discriminator: str | None = None,
    member_names: list[str] | None = None,
) -> Any:
    """`Field(...)` of a type that has a name in the published document: enumerations and unions that come often.

    A field of this type may have a description of its own. `member_names`: what generated clients call
    the members of an enumeration whose words are no names.
    """
    itself: dict[str, Any] = {"name": name, "description": description}
    if examples is not None:
        itself["examples"] = examples
    if member_names is not None:
        itself["x-enum-varnames"] = member_names
    return Field(
        description=description,
        examples=examples,
        discriminator=discriminator,
        json_schema_extra={COMPONENT: itself},
    )


def _word(name: str, word: str, description: str) -> dict[str, Any]:
    # An `enum`, as client generators misread a `const` beside numbers.
    return {"type": "string", "enum": [word], COMPONENT: {"name": name, "description": description}}


# JSON has no infinity, so it travels as a string.
_INFINITY: Final = _word("Infinity", "Infinity", "No finite number.")
NonNegative = Annotated[float, WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, _INFINITY]})]
"""A number that is not negative and may be infinite."""

Infinite = Annotated[Literal["Infinity"], WithJsonSchema(_INFINITY)]
"""How a client sends an infinite number, where there may be one."""

Signed = Annotated[
    float,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"},
                _INFINITY,
                _word("NegativeInfinity", "-Infinity", "Below every finite number."),
            ]
        }
    ),
]
"""A number of either sign that may be infinite."""

Probability = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
"""A number in [0, 1] that was computed."""

AdvantageOverPrior = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 2})]
"""Twice a difference of two probabilities."""

Log10 = Annotated[
    float,
    WithJsonSchema({"anyOf": [{"type": "number"}, _word("MinusInfinity", "-Infinity", "The logarithm of zero.")]}),
]
"""A decimal logarithm; the one of zero is "-Infinity"."""
