"""Response of `GET /v1/catalogue`: every mechanism, threat model, question and method, derived from the schemas."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from api_schemas.base import Request, Response, is_none
from api_schemas.bounds import BoundsRequest
from api_schemas.fields import shape_of, shape_of_field, spellings, type_of, unit_of
from api_schemas.mechanisms import MechanismSpec
from api_schemas.options import OPTIONS
from api_schemas.questions import QuestionSpec
from api_schemas.threat_models import ThreatModelSpec


class Parameter(Response):
    """One field of a mechanism, threat model or question, or one option of a method."""

    name: Annotated[str, Field(description="Name of the field.", examples=["noise_multiplier"])]
    aliases: Annotated[
        tuple[str, ...], Field(description="Alternative names that requests may use.", examples=[["noiseMultiplier"]])
    ]
    kind: Annotated[str, Field(description="number, integer, choice, list or object.", examples=["number"])]
    allowed: Annotated[
        str, Field(description="Allowed values in words.", examples=["a finite number in [0.0001, 1e+15]"])
    ]
    required: Annotated[bool, Field(description="Whether the field is required.")]
    description: Annotated[
        str,
        Field(
            description="Meaning of the field.",
            examples=["Standard deviation of the Gaussian noise, divided by the add/remove sensitivity."],
        ),
    ]
    minimum: Annotated[
        float | None,
        Field(
            description="Smallest value, for a list of its items. The field is absent without a minimum.",
            examples=[0.0001],
            exclude_if=is_none,
        ),
    ] = None
    maximum: Annotated[
        float | None,
        Field(
            description="Largest value, for a list of its items. The field is absent without a maximum.",
            examples=[1000000000000000.0],
            exclude_if=is_none,
        ),
    ] = None
    minimum_excluded: Annotated[bool, Field(description="Whether the minimum itself is excluded.")]
    unit: Annotated[
        str | None,
        Field(
            description="Unit of the number. The field is absent without a unit.", exclude_if=is_none, examples=["nats"]
        ),
    ] = None
    default: Annotated[
        str | float | None,
        Field(
            description="Default value. The field is absent without a default.", examples=[0.001], exclude_if=is_none
        ),
    ] = None
    example: Annotated[Any, Field(description="Example value.", examples=[1.0], exclude_if=is_none)] = None


class CatalogueEntry(Response):
    """One member of a union: the value of its `type`, a description, and its fields."""

    type: Annotated[str, Field(description="Value of the discriminator `type`.", examples=["gaussian"])]
    description: Annotated[
        str, Field(description="Description of the object.", examples=["A query of sensitivity 1 with Gaussian noise."])
    ]
    parameters: Annotated[tuple[Parameter, ...], Field(description="Fields of the object, without `type`.")]


class CatalogueResource(Response):
    """A resource with its path and the media types of its requests and responses."""

    operation: Annotated[
        str, Field(description="`operationId` of the resource in the OpenAPI document.", examples=["curves"])
    ]
    path: Annotated[str, Field(description="Path for POST requests.", examples=["/v1/curves"])]
    description: Annotated[
        str,
        Field(
            description="Purpose of the resource.",
            examples=["Compute bounds on the success of an attacker against one mechanism."],
        ),
    ]
    takes: Annotated[
        tuple[str, ...], Field(description="Accepted media types of requests.", examples=[["application/json"]])
    ]
    answers_in: Annotated[
        tuple[str, ...],
        Field(
            description="Media types of responses, selected with `Accept`. The first is the default.",
            examples=[["application/json", "image/svg+xml"]],
        ),
    ]


class CatalogueResponse(Response):
    """All parts of a bounds request, and every resource with its media types."""

    engine_version: Annotated[
        str,
        Field(
            description="Version of the numerical engine. Every digest includes this version.", examples=["2026.11.22"]
        ),
    ]
    mechanisms: Annotated[tuple[CatalogueEntry, ...], Field(description="Available mechanisms.")]
    threat_models: Annotated[tuple[CatalogueEntry, ...], Field(description="Available threat models.")]
    questions: Annotated[
        tuple[CatalogueEntry, ...], Field(description="Available questions about the trade-off curve.")
    ]
    methods: Annotated[
        tuple[str, ...],
        Field(description="Allowed values of `method`.", examples=[["auto", "closed_form", "contour", "all"]]),
    ]
    options: Annotated[tuple[Parameter, ...], Field(description="Additional fields of some methods.")]
    resources: Annotated[tuple[CatalogueResource, ...], Field(description="Available resources and their media types.")]


@cache
def catalogue(engine_version: str, resources: tuple[CatalogueResource, ...]) -> CatalogueResponse:
    """Return the catalogue of this version of the contract, with the resources of a service."""
    return CatalogueResponse(
        engine_version=engine_version,
        mechanisms=_entries(MechanismSpec),
        threat_models=_entries(ThreatModelSpec),
        questions=_entries(QuestionSpec),
        methods=shape_of_field(BoundsRequest.model_fields["method"]).choices,
        options=tuple(_parameter(name, BoundsRequest.model_fields[name]) for name in OPTIONS),
        resources=resources,
    )


def _entries(union: Any) -> tuple[CatalogueEntry, ...]:
    return tuple(_entry(model) for model in shape_of(union).models)


def _entry(model: type[Request]) -> CatalogueEntry:
    parameters = tuple(_parameter(name, field) for name, field in model.model_fields.items() if name != "type")
    return CatalogueEntry(type=type_of(model), description=inspect.getdoc(model) or "", parameters=parameters)


def _parameter(name: str, field: FieldInfo) -> Parameter:
    shape = shape_of_field(field)
    range_of = shape_of(shape.item) if shape.item is not None else shape
    return Parameter(
        name=name,
        aliases=spellings(name, field)[1:],
        kind=shape.kind,
        allowed=shape.sentence(),
        required=field.is_required(),
        description=field.description or "",
        minimum=range_of.minimum,
        maximum=range_of.maximum,
        minimum_excluded=range_of.minimum_excluded,
        unit=unit_of(field),
        default=None if field.default is PydanticUndefined else field.default,
        example=next(iter(field.examples or ()), None),
    )
