"""JSON pointers to numbers of a request, and the request with other values at these positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, final

from pydantic import BaseModel

from api_schemas.base import Request
from api_schemas.fields import FieldShape, find_field, shape_of, shape_of_field, type_of

LONGEST_POINTER: Final = 500
NO_NUMBER: Final = "Must point to a number of the request: {why}."


class NoSuchNumber(LookupError):
    """Raised for a pointer that does not lead to a number. The text states the reason."""


@final
@dataclass(frozen=True, slots=True)
class Place:
    """Position of a number in a request.

    `steps` is the path from the outermost object, with the names of the contract. `owner` is the innermost object
    around the number, `name` the field of that object. `number` is the value, None for an absent field. `shape` has the
    allowed range.
    """

    steps: tuple[str | int, ...]
    owner: Request
    name: str
    number: float | None
    shape: FieldShape

    @property
    def pointer(self) -> str:
        """JSON pointer in the spelling of the contract."""
        return "".join(f"/{step}" for step in self.steps)

    @property
    def kind(self) -> str:
        """Value of `type` of the innermost object around the number, or "" without one."""
        return type_of(type(self.owner)) if "type" in type(self.owner).model_fields else ""


def place_of(request: Request, pointer: str) -> Place:
    """Return the position of the number at a JSON pointer, whose names may be aliases. Raise NoSuchNumber."""
    if not pointer.startswith("/"):
        raise NoSuchNumber(NO_NUMBER.format(why="a JSON pointer starts with a slash"))
    value: Any = request
    steps: list[str | int] = []
    owner, name, shape = request, "", FieldShape(kind="object")
    for token in pointer[1:].split("/"):
        spelled = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Request):
            found = find_field(type(value), spelled)
            if found is None or spelled == "type":
                fields = ", ".join(each for each in type(value).model_fields if each != "type")
                raise NoSuchNumber(NO_NUMBER.format(why=f"the object there has these fields: {fields}"))
            owner, name = value, found[0]
            shape, value = shape_of_field(found[1]), value.__dict__[name]
            steps.append(name)
        elif isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            index = int(spelled) if spelled.isdecimal() and spelled.isascii() and len(spelled) < 7 else len(items)
            if index >= len(items) or spelled != str(index):
                raise NoSuchNumber(NO_NUMBER.format(why=f"{name} is a list of {len(items)}, counted from 0"))
            shape, value = _item(shape), items[index]
            steps.append(index)
        else:
            raise NoSuchNumber(NO_NUMBER.format(why=f"{name} has no members"))
    return Place(tuple(steps), owner, name, _number(value, name), shape)


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        raise NoSuchNumber(NO_NUMBER.format(why=f"{name} is a list; send the index of an entry"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        what = "an object" if isinstance(value, BaseModel) else "no number"
        raise NoSuchNumber(NO_NUMBER.format(why=f"{name} is {what}"))
    return value


def _item(shape: FieldShape) -> FieldShape:
    """Return the shape (type and range) of an entry of a list, or of a number that may also be a list."""
    return FieldShape(kind="object") if shape.item is None else shape_of(shape.item)


def as_sent(value: Any) -> Any:
    """Return the value of a part of a request as a client would send it, without defaults and derived fields."""
    if isinstance(value, BaseModel):
        held = value.__dict__
        return {name: as_sent(held[name]) for name in type(value).model_fields if name in value.model_fields_set}
    if isinstance(value, tuple):
        return tuple(map(as_sent, cast("tuple[Any, ...]", value)))
    return value


def replaced(value: Any, steps: tuple[str | int, ...], number: float, follows: tuple[str, ...] = ()) -> Any:
    """Return the fields of a part of a request, with another number at the end of the path `steps`.

    Defaults and derived fields are omitted, and so are the fields in `follows`.
    """
    first, rest = steps[0], steps[1:]
    if isinstance(first, int):
        items = list(cast("tuple[Any, ...]", value))
        items[first] = replaced(items[first], rest, number, follows) if rest else number
        return tuple(items)
    fields = dict(cast("Mapping[str, Any]", value))
    if rest:
        fields[first] = replaced(fields[first], rest, number, follows)
        last = all(isinstance(step, int) for step in rest)
    else:
        fields[first], last = number, True
    return {name: held for name, held in fields.items() if not (last and name in follows)}
