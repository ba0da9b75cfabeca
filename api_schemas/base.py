"""Base classes of all requests and responses."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError, to_json

EXAMPLE_DIGEST: Final = "sha256:f0108e05446416bd458241fb67b861f05f22c2853c742160e79aacbd3b39c0a8"
COMPONENT: Final = "x-component"
"""Keyword of a schema that is published once, under a name of its own, and referred to everywhere else."""


def field_error(field: str, sentence: str) -> PydanticCustomError:
    """Return an error of an object validator that points to one field of the object."""
    return PydanticCustomError("settled", "{sentence}", {"sentence": sentence, "field": field})


def _describe_type(schema: dict[str, Any]) -> None:
    """Add a description to the constant property `type`, which selects one model of a union."""
    discriminator = schema.get("properties", {}).get("type", {})
    if "const" in discriminator:
        discriminator.setdefault("description", f"Discriminator of the object, always `{discriminator['const']}`.")


class Request(BaseModel):
    """Request of a client: frozen, with strict JSON types, without unknown fields, NaN or infinity."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        json_schema_serialization_defaults_required=True,
        json_schema_extra=_describe_type,
    )

    def _settle(self, **fields: object) -> None:
        """Set fields of a frozen request during its validation.

        Only validators call this method, before any other code holds the request.
        """
        vars(self).update(fields)


class Response(BaseModel):
    """Base of all responses. Every field is always present, except fields that declare otherwise (`exclude_if`).

    Unknown fields are ignored on reading, so that a client can read the responses of later versions.
    """

    model_config = ConfigDict(
        defer_build=True,  # many processes never read a response
        frozen=True,
        ser_json_inf_nan="strings",
        json_schema_serialization_defaults_required=True,
    )

    def json_bytes(self) -> bytes:
        """Return the response body: UTF-8 JSON, infinities as strings ("Infinity", "-Infinity"), no negative zero."""
        return without_negative_zeros(self.__pydantic_serializer__.to_json(self))


class Result(Response):
    """Response that is stored under the digest of its request."""

    digest: Annotated[
        str,
        Field(
            pattern="^sha256:[0-9a-f]{64}$",
            description="Identifier of this result. `GET /v1/results/{digest}` returns the result while it is stored.",
            examples=[EXAMPLE_DIGEST],
        ),
    ]
    engine_version: Annotated[
        str,
        Field(
            description="Version of the numerical engine. The digest includes this version.", examples=["2026.11.22"]
        ),
    ]


def json_bytes(response: Response | dict[str, Any]) -> bytes:
    """Return the bytes of `Response.json_bytes`, for a response or for its fields in order.

    Validation of a response would cost more than most answers. A test compares the bytes with those of the response.
    """
    return without_negative_zeros(to_json(response, inf_nan_mode="strings"))


NEGATIVE_ZERO: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-0\.0(?=[,\]}]|$)')
"""A string of a JSON document, to be skipped, or a negative zero."""
NEGATIVE_ZERO_ENDS: Final = (b"-0.0,", b"-0.0}", b"-0.0]")


def without_negative_zeros(body: bytes) -> bytes:
    """Return a compact JSON document in which every negative zero is 0.0. Strings are unchanged.

    Rounding and negation produce negative zeros throughout the computations, and "-0.0" looks like a defect to readers.
    """
    if b"-0.0" not in body or not (body == b"-0.0" or any(end in body for end in NEGATIVE_ZERO_ENDS)):
        return body
    return NEGATIVE_ZERO.sub(lambda found: b"0.0" if found[0] == b"-0.0" else found[0], body)


def is_none(value: object) -> bool:
    """Return whether a value is None. As `exclude_if` of a field, the function omits the field from the JSON."""
    return value is None


def named_schema(
    name: str,
    description: str,
    *,
    examples: list[Any] | None = None,
    discriminator: str | None = None,
    member_names: list[str] | None = None,
) -> Any:
    """Return a `Field(...)` for a type that is a named component of the published document.

    Such types are enumerations and unions. A field of this type may have its own description. `member_names` are names
    for the enumeration members in generated clients, for values that are not identifiers.
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
_INFINITY: Final = _word("Infinity", "Infinity", "Infinity, in place of a finite number.")
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
                _word("NegativeInfinity", "-Infinity", "Negative infinity, below every finite number."),
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
    WithJsonSchema({"anyOf": [{"type": "number"}, _word("MinusInfinity", "-Infinity", "Logarithm of zero.")]}),
]
"""A decimal logarithm; the one of zero is "-Infinity"."""
