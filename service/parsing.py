"""Parsing of request bodies: from JSON bytes to validated models, with errors that the API can report."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel, ValidationError

RequestModel = TypeVar("RequestModel", bound=BaseModel)


class RequestValidator(Protocol):
    """Function that validates a JSON body as a request model. The function raises ValidationError."""

    def __call__(self, request_type: type[RequestModel], body: bytes, /) -> RequestModel:
        """Return the validated request in a JSON body."""
        ...


def validate_plain(request_type: type[RequestModel], body: bytes, /) -> RequestModel:
    """Validate a body against the schema alone, without resolving imports in it. Raise ValidationError."""
    return request_type.model_validate_json(body)


class RequestBodyError(Exception):
    """Base class of all errors in a request body."""


class MalformedJson(RequestBodyError):
    """Body that is not JSON in UTF-8, or that is nested deeper than any valid request.

    `validation` is the error of the parser.
    """

    def __init__(self, validation: ValidationError) -> None:
        self.validation = validation
        super().__init__("the body is not JSON")


class NotANumber(RequestBodyError):
    """Body that contains NaN, Infinity or -Infinity, which JSON does not define but many parsers accept.

    `pointers` are JSON pointers to these values.
    """

    def __init__(self, pointers: tuple[str, ...]) -> None:
        self.pointers = pointers
        super().__init__(f"no JSON: not a number at {', '.join(pointers)}")


class InvalidRequest(RequestBodyError):
    """Body that is JSON but does not match the schema of the request.

    `validation` has the error of each field.
    """

    def __init__(self, validation: ValidationError) -> None:
        self.validation = validation
        super().__init__("the body is not a request")


class TooManyJsonValues(RequestBodyError):
    """Body with more than `limit` values or `object_limit` objects, which no valid request has.

    Commas and opening braces are counted. Validating all values would take too long.
    """

    limit = 32_000
    object_limit = 5_000

    def __init__(self) -> None:
        super().__init__(f"more than {self.limit} values or {self.object_limit} objects")


class DuplicateKeys(RequestBodyError):
    """JSON objects with duplicate keys. Parsers disagree on which value counts, so the body is rejected.

    `pointers` are JSON pointers to the keys.
    """

    def __init__(self, pointers: tuple[str, ...]) -> None:
        self.pointers = pointers
        super().__init__(f"keys given more than once: {', '.join(pointers)}")


class _DuplicateKeyFound(Exception):
    pass


def parse_request(
    request_type: type[RequestModel], body: bytes, validate: RequestValidator = validate_plain
) -> RequestModel:
    """Parse a UTF-8 JSON body and return the validated request.

    Raise the subclass of RequestBodyError that says what is wrong.
    """
    # A wrong value costs a microsecond and an object three, and a body has room for a quarter of a million. 10 000
    # phases of three numbers, 256 questions and 256 components of the greatest depth have fewer commas and braces.
    if body.count(b",") > TooManyJsonValues.limit or body.count(b"{") > TooManyJsonValues.object_limit:
        raise TooManyJsonValues
    try:
        request = validate(request_type, body)
    except ValidationError as error:
        if error.error_count() == 1 and error.errors(include_input=False)[0]["type"] == "json_invalid":
            raise MalformedJson(error) from None
        _reject_non_finite(body)
        raise InvalidRequest(error) from None
    _reject_non_finite(body)
    reject_duplicate_keys(body.decode())  # pydantic keeps the last one, and limits the depth of what it accepts
    return request


def reject_duplicate_keys(text: str) -> None:
    """Raise DuplicateKeys if an object in a JSON text has a key twice. The text is valid and of limited depth."""
    try:
        _DUPLICATE_KEY_DECODER.raw_decode(text.lstrip())
    except _DuplicateKeyFound:
        pairs = json.loads(text, object_pairs_hook=_ObjectPairs, parse_float=str, parse_int=str)
        raise DuplicateKeys(tuple(_duplicate_key_pointers("", pairs))) from None


def _reject_non_finite(body: bytes) -> None:
    # the validator has parsed the body, so that its depth is limited
    if b"NaN" in body or b"Infinity" in body:
        read = json.loads(
            body, object_pairs_hook=_ObjectPairs, parse_float=str, parse_int=str, parse_constant=_NonFiniteConstant
        )
        found = tuple(_constant_pointers("", read))
        if found:
            raise NotANumber(found)


def _reject_duplicate_pairs(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _DuplicateKeyFound


_DUPLICATE_KEY_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_pairs, parse_float=str, parse_int=str)


class _NonFiniteConstant(str):
    """Marker of a NaN, Infinity or -Infinity literal, as opposed to a string with the same text."""

    __slots__ = ()


class _ObjectPairs(list[tuple[str, Any]]):
    """JSON object as a list of key-value pairs, which includes duplicate keys."""


def _duplicate_key_pointers(pointer: str, value: object) -> list[str]:
    if isinstance(value, _ObjectPairs):
        found = [
            f"{pointer}/{_escape_token(key)}" for key, count in Counter(key for key, _ in value).items() if count > 1
        ]
        for key, item in value:
            found += _duplicate_key_pointers(f"{pointer}/{_escape_token(key)}", item)
        return found
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [
            place for index, item in enumerate(items) for place in _duplicate_key_pointers(f"{pointer}/{index}", item)
        ]
    return []


def _constant_pointers(pointer: str, value: object) -> list[str]:
    if isinstance(value, _NonFiniteConstant):
        return [pointer]
    if isinstance(value, _ObjectPairs):
        return [place for key, item in value for place in _constant_pointers(f"{pointer}/{_escape_token(key)}", item)]
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [place for index, item in enumerate(items) for place in _constant_pointers(f"{pointer}/{index}", item)]
    return []


def _escape_token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
