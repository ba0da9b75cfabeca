"""Constraints and descriptions of fields, extracted from the schemas for error messages and for the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from api_schemas.base import Request
from api_schemas.texts import Written

Annotation = Any
"""A type expression; Python has no better name for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldShape:
    """Parsed type expression of a field of a request.

    Bounds and lengths are None without a limit. `models` are the members of a union, or a single model. `choices` are
    the allowed words, also for a list or number that may be a word. `phases` is whether the number may be a list of
    numbers. `item` is the type of list entries, or of the values of a map with names that the client chooses. `written`
    is the format of a text.
    """

    kind: Literal["number", "integer", "text", "choice", "list", "map", "object", "other"]
    choices: tuple[str, ...] = ()
    models: tuple[type[Request], ...] = ()
    item: Annotation = None
    minimum: float | None = None
    maximum: float | None = None
    minimum_excluded: bool = False
    maximum_excluded: bool = False
    shortest: int | None = None
    longest: int | None = None
    phases: bool = False
    written: str | None = None

    def sentence(self) -> str:
        """Return the allowed values in words, to follow "must be" in an error message."""
        if self.kind in ("number", "integer"):
            noun = "a finite number" if self.kind == "number" else "an integer (written without fraction or exponent)"
            phases = f", or a list of {self.shortest} to {self.longest} of them" if self.phases else ""
            words = "".join(f' or "{choice}"' for choice in self.choices)
            return (f"{noun} in {self.interval()}" if self.interval() else noun) + phases + words
        if self.kind == "choice":
            quoted = [f'"{choice}"' for choice in self.choices]
            return quoted[0] if len(quoted) == 1 else f"one of {', '.join(quoted)}"
        if self.kind == "text":
            return self.written or (
                f"a text of {self.shortest or 0} to {self.longest} printable characters" if self.longest else "a text"
            )
        if self.kind == "list":
            size = f"a list of {self.shortest or 0} to {self.longest} items" if self.longest else "a list"
            return " or ".join((size, *(f'"{choice}"' for choice in self.choices)))
        if len(self.models) > 1:
            return f"an object whose `type` is one of {', '.join(map(type_of, self.models))}"
        if self.kind == "map":
            return f"an object of {self.shortest or 0} to {self.longest} members"
        return "a JSON object" if self.kind == "object" else "a value of the documented type"

    def interval(self) -> str:
        """Return the range in interval notation, or "" without a range."""
        if self.minimum is None or self.maximum is None:
            return ""
        left, right = "(" if self.minimum_excluded else "[", ")" if self.maximum_excluded else "]"
        return f"{left}{_short(self.minimum)}, {_short(self.maximum)}{right}"


def _short(number: float) -> str:
    return f"{number:.12g}"


def shape_of(annotation: Annotation, metadata: tuple[Any, ...] = ()) -> FieldShape:
    """Parse the type expression of a field. `metadata` has the annotations around the expression."""
    annotation, inner = _unwrap(annotation)
    metadata = (*inner, *metadata)
    origin = get_origin(annotation)
    if origin is Literal:
        return FieldShape(kind="choice", choices=tuple(str(choice) for choice in get_args(annotation)))
    models = tuple(_request_models(annotation))
    if models:
        return FieldShape(kind="object", models=models)
    members = [member for member in get_args(annotation) if member is not type(None)]
    if origin in (Union, UnionType) and len(members) == 2:
        listed, word = map(shape_of, members)
        if listed.kind in ("number", "integer") and word.kind == "list":
            return replace(listed, item=word.item, shortest=word.shortest, longest=word.longest, phases=True)
        named = listed.kind in ("list", "number") and word.kind == "choice"
        return replace(listed, choices=word.choices) if named else FieldShape(kind="other")
    lengths = _first(metadata, MinLen, "min_length"), _first(metadata, MaxLen, "max_length")
    if origin is tuple:
        return FieldShape(kind="list", item=get_args(annotation)[0], shortest=lengths[0], longest=lengths[1])
    if origin is dict:
        return FieldShape(kind="map", item=get_args(annotation)[1], shortest=lengths[0], longest=lengths[1])
    if annotation is str:
        written = next((each.words for each in metadata if isinstance(each, Written)), None)
        return FieldShape(kind="text", shortest=lengths[0], longest=lengths[1], written=written)
    if annotation not in (int, float):
        return FieldShape(kind="other")
    above, below = _first(metadata, Gt, "gt"), _first(metadata, Lt, "lt")
    return FieldShape(
        kind="integer" if annotation is int else "number",
        minimum=_first(metadata, Ge, "ge") if above is None else above,
        maximum=_first(metadata, Le, "le") if below is None else below,
        minimum_excluded=above is not None,
        maximum_excluded=below is not None,
    )


def shape_of_field(field: FieldInfo) -> FieldShape:
    """Return the shape (type and range) of a field of a model."""
    return shape_of(field.annotation, tuple(field.metadata))


def spellings(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return all accepted spellings of a field, the name of the field first."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(choice for choice in alias.choices if isinstance(choice, str))
    return (name,)


def unit_of(field: FieldInfo) -> str | None:
    """Return the unit of a field of a request, or None without a unit."""
    extra = cast("object", field.json_schema_extra)
    unit = cast("dict[str, object]", extra).get("x-unit") if isinstance(extra, dict) else None
    return None if unit is None else str(unit)


def find_field(model: type[Request], spelling: str) -> tuple[str, FieldInfo] | None:
    """Return name and definition of the field of a model that has this spelling, or None."""
    for name, field in model.model_fields.items():
        if spelling in spellings(name, field):
            return name, field
    return None


@cache
def field_shape(model: type[Request], name: str) -> FieldShape:
    """Return the cached shape of a field by its name.

    Spellings from requests are not accepted here, since they would fill the cache without limit.
    """
    return shape_of_field(model.model_fields[name])


@cache
def type_of(model: type[Request]) -> str:
    """Return the value of `type` that selects this request model in a union."""
    return str(get_args(model.model_fields["type"].annotation)[0])


def request_model(name: str) -> type[Request] | None:
    """Return the request model whose class has this name, or None."""
    if name not in _MODELS:
        found = next((model for model in _descendants(Request) if model.__name__ == name), None)
        if found is None:
            return None
        _MODELS[name] = found
    return _MODELS[name]


_MODELS: Final[dict[str, type[Request]]] = {}
"""Request models by their names, as far as they were asked for."""


def _descendants(model: type[Request]) -> Iterator[type[Request]]:
    for child in model.__subclasses__():
        yield child
        yield from _descendants(child)


def _unwrap(annotation: Annotation) -> tuple[Annotation, tuple[Any, ...]]:
    """Return a type without `Annotated` and `| None`, and the metadata of both, innermost first."""
    metadata: tuple[Any, ...] = ()
    while True:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            annotation, metadata = arguments[0], (*arguments[1:], *metadata)
        elif origin in (Union, UnionType) and type(None) in arguments and len(arguments) == 2:
            annotation = next(argument for argument in arguments if argument is not type(None))
        else:
            return annotation, tuple(_flattened(metadata))


def _flattened(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from item.metadata
        else:
            yield item


def _first(metadata: tuple[Any, ...], kind: type, attribute: str) -> Any:
    return next((getattr(item, attribute) for item in metadata if isinstance(item, kind)), None)


def _request_models(annotation: Annotation) -> Iterator[type[Request]]:
    if isinstance(annotation, type) and issubclass(annotation, Request):
        yield annotation
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _request_models(_unwrap(member)[0])
