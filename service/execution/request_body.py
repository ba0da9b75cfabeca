"""From the bytes of a request to its validated value, without a detour through Python objects."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel, ValidationError

RequestModel = TypeVar("RequestModel", bound=BaseModel)


class Validate(Protocol):
    """From JSON to a request; raises ValidationError."""

    def __call__(self, request_type: type[RequestModel], body: bytes, /) -> RequestModel:
        """The request in a body of JSON."""
        ...


def by_itself(request_type: type[RequestModel], body: bytes, /) -> RequestModel:
    """As the contract alone has it: what is imported stays as it was sent."""
    return request_type.model_validate_json(body)


class RequestBodyError(Exception):
    """Base of what can be wrong with a body."""


class MalformedJson(RequestBodyError):
    """The body is not JSON in UTF-8, or nested deeper than any request."""

    def __init__(self, validation: ValidationError) -> None:
        self.validation = validation
        super().__init__("the body is not JSON")


class NotANumber(RequestBodyError):
    """The body writes NaN, Infinity or -Infinity, which many readers take and JSON does not have.

    `pointers` are JSON pointers to them.
    """

    def __init__(self, pointers: tuple[str, ...]) -> None:
        self.pointers = pointers
        super().__init__(f"no JSON: not a number at {', '.join(pointers)}")


class InvalidRequest(RequestBodyError):
    """The body is JSON, but not a request of the contract."""

    def __init__(self, validation: ValidationError) -> None:
        self.validation = validation
        super().__init__("the body is not a request")


class TooManyValues(RequestBodyError):
    """The body has more values than any request of the contract. Looking at each of them would take too long."""

    limit = 32_000
    object_limit = 5_000

    def __init__(self) -> None:
        super().__init__(f"more than {self.limit} values or {self.object_limit} objects")


class DuplicateKeys(RequestBodyError):
    """JSON objects that give a key twice: readers disagree about which of the two counts, so neither does.

    `pointers` are JSON pointers to the keys.
    """

    def __init__(self, pointers: tuple[str, ...]) -> None:
        self.pointers = pointers
        super().__init__(f"keys given more than once: {', '.join(pointers)}")


class _KeyTwice(Exception):
    pass


def parse_request(request_type: type[RequestModel], body: bytes, validate: Validate = by_itself) -> RequestModel:
    """The request in a body of UTF-8 JSON. Raises RequestBodyError."""
    # A wrong value costs a microsecond and an object three, and a body has room for a quarter of a million. 10 000
    # phases of three numbers, 256 questions and 256 components of the greatest depth have fewer commas and braces.
    if body.count(b",") > TooManyValues.limit or body.count(b"{") > TooManyValues.object_limit:
        raise TooManyValues
    try:
        request = validate(request_type, body)
    except ValidationError as error:
        if error.error_count() == 1 and error.errors(include_input=False)[0]["type"] == "json_invalid":
            raise MalformedJson(error) from None
        _refuse_not_a_number(body)
        raise InvalidRequest(error) from None
    _refuse_not_a_number(body)
    # The validator of pydantic keeps the last of equal keys. What it accepted is known to be small in depth, so that
    # reading it once more is safe; numbers are left as text.
    try:
        _KEYS_ONCE.raw_decode(body.decode().lstrip())
    except _KeyTwice:
        pairs = json.loads(body, object_pairs_hook=_Pairs, parse_float=str, parse_int=str)
        raise DuplicateKeys(tuple(_keys_twice("", pairs))) from None
    return request


def _refuse_not_a_number(body: bytes) -> None:
    """Refuse numbers that are none, in a body that the validator could read and whose depth is known to be small."""
    if b"NaN" in body or b"Infinity" in body:
        read = json.loads(body, object_pairs_hook=_Pairs, parse_float=str, parse_int=str, parse_constant=_Constant)
        found = tuple(_constants("", read))
        if found:
            raise NotANumber(found)


def _refuse_key_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _KeyTwice


_KEYS_ONCE = json.JSONDecoder(object_pairs_hook=_refuse_key_twice, parse_float=str, parse_int=str)


class _Constant(str):
    """NaN, Infinity or -Infinity, and no string."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its keys."""


def _keys_twice(pointer: str, value: object) -> list[str]:
    if isinstance(value, _Pairs):
        found = [f"{pointer}/{_escaped(key)}" for key, count in Counter(key for key, _ in value).items() if count > 1]
        for key, item in value:
            found += _keys_twice(f"{pointer}/{_escaped(key)}", item)
        return found
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [place for index, item in enumerate(items) for place in _keys_twice(f"{pointer}/{index}", item)]
    return []


def _constants(pointer: str, value: object) -> list[str]:
    if isinstance(value, _Constant):
        return [pointer]
    if isinstance(value, _Pairs):
        return [place for key, item in value for place in _constants(f"{pointer}/{_escaped(key)}", item)]
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [place for index, item in enumerate(items) for place in _constants(f"{pointer}/{index}", item)]
    return []


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
