"""Problems (RFC 9457), and the conversion of validation errors into JSON pointers to the body as it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import Field, ValidationError

from api_schemas.base import Request, Response, is_none, named_schema
from api_schemas.fields import FieldShape, field_shape, find_field, request_model, shape_of, spellings, type_of

LARGEST_ERROR_COUNT: Final = 1000
"""Above this many wrong places nobody reads a list, and making it would cost more than the request."""
LISTED_ERRORS: Final = 64
"""So many places are listed one by one."""


_ProblemType: TypeAlias = Literal[
    "/problems/authentication-unavailable",
    "/problems/body-too-large",
    "/problems/compute-budget-exceeded",
    "/problems/decision-not-found",
    "/problems/headers-too-large",
    "/problems/http-error",
    "/problems/http-version-not-supported",
    "/problems/idempotency-key-reused",
    "/problems/internal-error",
    "/problems/invalid-parameter",
    "/problems/invalid-request",
    "/problems/job-not-found",
    "/problems/jobs-unavailable",
    "/problems/malformed-http",
    "/problems/malformed-json",
    "/problems/method-not-allowed",
    "/problems/missing-scope",
    "/problems/not-acceptable",
    "/problems/not-found",
    "/problems/numerical-failure",
    "/problems/out-of-domain",
    "/problems/out-of-memory",
    "/problems/out-of-time",
    "/problems/overloaded",
    "/problems/request-timeout",
    "/problems/result-not-found",
    "/problems/result-quarantined",
    "/problems/shutting-down",
    "/problems/too-many-connections",
    "/problems/unauthenticated",
    "/problems/unsupported-combination",
    "/problems/unsupported-media-type",
    "/problems/uri-too-long",
    "/problems/work-limit-exceeded",
    "/problems/worker-died",
]
ProblemType = Annotated[
    _ProblemType,
    named_schema(
        "ProblemType",
        "Identifier of the kind of problem.",
        examples=["/problems/invalid-request"],
        member_names=[kind.rpartition("/")[2].replace("-", "_").upper() for kind in get_args(_ProblemType)],
    ),
]


class FieldError(Response):
    """Error at one position of the body. The error never repeats the offending value."""

    pointer: Annotated[
        str, Field(description="JSON pointer (RFC 6901) into the request body.", examples=["/mechanism/steps"])
    ]
    detail: Annotated[
        str,
        Field(description="Rule that the value violates.", examples=["Must be a finite number in [0.0001, 1e+15]."]),
    ]


class Problem(Response):
    """Reason why the service did not answer the request."""

    type: ProblemType
    title: Annotated[str, Field(description="Kind of the problem in words.", examples=["Invalid request"])]
    status: Annotated[int, Field(description="HTTP status code.", examples=[422])]
    detail: Annotated[str, Field(description="Description of this occurrence of the problem.")]
    instance: Annotated[str, Field(description="Path of the request.", examples=["/v1/bounds"])]
    request_id: Annotated[str, Field(description="Value of `X-Request-ID` of the request.")]
    errors: Annotated[tuple[FieldError, ...], Field(description="Errors of the body, each with its position.")]
    supported: Annotated[
        tuple[str, ...] | None,
        Field(description="Supported alternatives.", examples=[["auto", "closed_form"]], exclude_if=is_none),
    ] = None
    estimated_cost: Annotated[
        int | None,
        Field(description="Estimated cost in microseconds of CPU time.", examples=[52_000_000], exclude_if=is_none),
    ] = None
    limit: Annotated[
        int | None, Field(description="Limit that the request exceeds.", examples=[20_000_000], exclude_if=is_none)
    ] = None


def field_errors(error: ValidationError) -> list[FieldError]:
    """Return one entry for each invalid position, in the order of the schema. The last of many entries counts the rest.

    Tags that pydantic adds to locations are removed. Aliases keep the spelling of the request.
    """
    if error.error_count() > LARGEST_ERROR_COUNT:
        return [FieldError(pointer="", detail=f"More than {LARGEST_ERROR_COUNT} positions in the body are invalid.")]
    details = error.errors(include_url=False)
    # A list all of whose items are wrong is also reported as too short: say only what is wrong with the items.
    inside = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
    details = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in inside]
    listed = _without_alternatives(
        [
            _field_error(error.title, detail["type"], detail["loc"], detail.get("ctx", {}), detail["input"])
            for detail in details[:LISTED_ERRORS]
        ]
    )
    more = max(len(details) - LISTED_ERRORS, 0)
    return (
        [*listed, FieldError(pointer="", detail=f"{more} more positions in the body are invalid.")] if more else listed
    )


def _without_alternatives(errors: list[FieldError]) -> list[FieldError]:
    """Remove duplicate errors of fields that may be a list or a word, for which pydantic reports both alternatives."""
    pointers = [error.pointer for error in errors]
    return [
        error
        for index, error in enumerate(errors)
        if error not in errors[:index]
        and not (" items or " in error.detail and any(each.startswith(f"{error.pointer}/") for each in pointers))
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    """Position of an error: its pointer, the expected values, and the model of the field."""

    pointer: str
    shape: FieldShape
    model: type[Request] | None


TAGS: Final = ("number", "list")
"""What pydantic calls both types of a number that may be a list of numbers."""
_ANYTHING: Final = FieldShape(kind="other")


def _field_error(
    title: str, kind: str, location: tuple[int | str, ...], context: dict[str, Any], sent: object
) -> FieldError:
    place = _find(title, location)
    if "field" in context:  # our own checks of an object, about one of its fields
        spelled = _as_sent(place.shape.models, context["field"], sent)
        return FieldError(pointer=f"{place.pointer}/{spelled}", detail=context["sentence"])
    if "sentence" in context:  # our own checks: they say what is allowed, and where if it is not the whole object
        return FieldError(pointer=context.get("pointer", place.pointer), detail=context["sentence"])
    if kind == "json_invalid":
        return FieldError(pointer="", detail=f"The body must be valid JSON in UTF-8: {context['error']}.")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        known = tuple(map(type_of, place.shape.models))
        choices = FieldShape(kind="choice", choices=known)
        nearest = suggestion(str(context.get("tag", "")), known)
        return FieldError(pointer=f"{place.pointer}/type", detail=f"{nearest}Must be {choices.sentence()}.")
    if kind == "missing":
        return FieldError(pointer=place.pointer, detail=f"Required: {place.shape.sentence()}.")
    if kind == "extra_forbidden":
        return FieldError(pointer=place.pointer, detail=_why_forbidden(place.model, str(location[-1])))
    return FieldError(
        pointer=place.pointer, detail=f"Must be {place.shape.sentence()}.{_how_written(place.shape, sent)}"
    )


def _how_written(shape: FieldShape, sent: object) -> str:
    """Return a remedy for the number that the request sent as the text `sent`, or "".

    `shape` says whether the field takes numbers.
    """
    if shape.kind not in ("number", "integer") or not isinstance(sent, str):
        return ""
    share = " Send a share instead of a percentage: 0.01 for 1 %." if sent.rstrip().endswith("%") else ""
    return f" JSON numbers have no quotes.{share}"


def _as_sent(models: tuple[type[Request], ...], name: str, sent: object) -> str:
    """Return the spelling of the field `name` that a part of the request uses, or `name` if the field is absent.

    `models` are the possible models of the part `sent`.
    """
    fields = models[0].model_fields if len(models) == 1 else {}
    known = spellings(name, fields[name]) if name in fields else ()
    return next((each for each in known if isinstance(sent, dict) and each in sent), name)


@cache
def _by_type(models: tuple[type[Request], ...]) -> dict[str, type[Request]]:
    """Return the members of a union by the word that selects them."""
    return {type_of(model): model for model in models}


def _find(title: str, location: tuple[int | str, ...]) -> _Place:
    """Return the position of a validation error by following its location through the schema.

    `title` is the name of the outermost model.
    """
    root = request_model(title)
    shape = FieldShape(kind="object", models=(root,)) if root else _ANYTHING
    pointer, owner = "", root
    for step in location:
        tagged = _by_type(shape.models) if len(shape.models) > 1 else {}
        if step in tagged:
            owner = tagged[str(step)]
            shape = FieldShape(kind="object", models=(owner,))
            continue
        named = shape.kind in ("list", "number") and shape.choices
        if (named and isinstance(step, str)) or (shape.phases and step in TAGS):
            continue  # the name of one of both types
        pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
        if isinstance(step, int) or shape.kind == "map":
            shape = _ANYTHING if shape.item is None else shape_of(shape.item)
            owner = shape.models[0] if len(shape.models) == 1 else owner
            continue
        owner = shape.models[0] if len(shape.models) == 1 else None
        found = find_field(owner, step) if owner else None
        shape = field_shape(owner, found[0]) if owner and found else _ANYTHING
    return _Place(pointer, shape, owner)


_SAMPLING: Final = "Send the kind of batches as `sampling` of the mechanism dpsgd."
_RECORDS: Final = "Send `records` in the threat model worst_case, or in the context of an assessment."
_STATE: Final = (
    "Send the state of another library in place of a mechanism: "
    '{"mechanism": {"type": "imported", "content": <the state>}, ...}.'
)
SIMILAR: Final = 0.7
LONGEST_NAME: Final = 64
ELSEWHERE: Final = {
    "history": _STATE,
    "module_name": _STATE,
    "sampling": _SAMPLING,
    "shuffle": _SAMPLING,
    "poisson_sampling": _SAMPLING,
    "records": _RECORDS,
    "max_examples_per_user": _RECORDS,
}
"""Where fields belong that people send to other places, and what hangs on them."""


def _why_forbidden(model: type[Request] | None, spelling: str) -> str:
    if model is None:
        return "Unknown field."
    found = find_field(model, spelling)
    if found:
        return f"`{found[0]}` is also given, and both names mean one field. Send only one of them."
    known = [each for name, field in model.model_fields.items() for each in spellings(name, field)]
    names = ", ".join(spellings(name, field)[0] for name, field in model.model_fields.items())
    elsewhere = f"{ELSEWHERE[spelling]} " if spelling in ELSEWHERE else suggestion(spelling, known)
    return f"Unknown field. {elsewhere}The fields are: {names}."


def suggestion(sent: str, known: Sequence[str]) -> str:
    """Return a sentence with the `known` names that resemble the misspelt name `sent`, or ""."""
    # The comparison takes the product of both lengths; what is longer than any name is no misspelling.
    found = get_close_matches(sent.lower(), known, n=1, cutoff=SIMILAR) if len(sent) <= LONGEST_NAME else []
    return f"Did you mean `{found[0]}`? " if found else ""
