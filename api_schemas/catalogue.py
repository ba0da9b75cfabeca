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
    """One field of an entry."""

    name: Annotated[str, Field(description="How we spell it.")]
    aliases: Annotated[tuple[str, ...], Field(description="Other spellings that are accepted on input.")]
    kind: Annotated[str, Field(description="number, integer, choice, list or object.", examples=["number"])]
    allowed: Annotated[str, Field(description="What is allowed, in words.")]
    required: Annotated[bool, Field(description="Whether it has to be sent.")]
    description: Annotated[str, Field(description="What it is.")]
    minimum: Annotated[
        float | None,
        Field(description="Smallest value, of a list of its items; absent where there is none.", exclude_if=is_none),
    ] = None
    maximum: Annotated[
        float | None,
        Field(description="Largest value, of a list of its items; absent where there is none.", exclude_if=is_none),
    ] = None
    minimum_excluded: Annotated[bool, Field(description="The minimum itself is not allowed.")]
    unit: Annotated[
        str | None, Field(description="Unit; absent where there is none.", exclude_if=is_none, examples=["nats"])
    ] = None
    default: Annotated[
        str | float | None,
        Field(description="What an absent field means; absent where there is no default.", exclude_if=is_none),
    ] = None
    example: Annotated[Any, Field(description="A usual value.", exclude_if=is_none)] = None


class CatalogueEntry(Response):
    """One member of a union: the value of its `type`, what it is, and its fields."""

    type: Annotated[str, Field(description="What selects it.")]
    description: Annotated[str, Field(description="What it is.")]
    parameters: Annotated[tuple[Parameter, ...], Field(description="Its fields, `type` aside.")]


class CatalogueResource(Response):
    """A resource: where requests to it go, in which forms they come, and in which forms it answers."""

    operation: Annotated[str, Field(description="Its name in the published document.", examples=["curves"])]
    path: Annotated[str, Field(description="Where requests are sent by POST.", examples=["/v1/curves"])]
    description: Annotated[str, Field(description="What it answers.")]
    takes: Annotated[
        tuple[str, ...], Field(description="Media types of its requests.", examples=[["application/json"]])
    ]
    answers_in: Annotated[
        tuple[str, ...],
        Field(
            description="Media types of its answers, asked for by `Accept`; the first where that says nothing.",
            examples=[["application/json", "image/svg+xml"]],
        ),
    ]


class CatalogueResponse(Response):
    """Everything that a bounds request can be made of, and every resource with its media types."""

    engine_version: Annotated[str, Field(description="Version of the numbers; part of every digest.")]
    mechanisms: Annotated[tuple[CatalogueEntry, ...], Field(description="What may have touched the data.")]
    threat_models: Annotated[tuple[CatalogueEntry, ...], Field(description="Who may attack.")]
    questions: Annotated[tuple[CatalogueEntry, ...], Field(description="What may be read off the trade-off curve.")]
    methods: Annotated[tuple[str, ...], Field(description="The values of `method`.")]
    options: Annotated[tuple[Parameter, ...], Field(description="Fields beside `method` that some methods take.")]
    resources: Annotated[tuple[CatalogueResource, ...], Field(description="What may be asked, and in which forms.")]


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
