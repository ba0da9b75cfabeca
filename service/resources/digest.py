"""Digest of a result: SHA-256 of the canonical form (RFC 8785) of its request."""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from typing import Any, Final, cast

import rfc8785
from pydantic import BaseModel

DIGEST_PREFIX: Final = "sha256:"
LARGEST_CANONICAL_INTEGER: Final = 2**53 - 1
LARGEST_SMALL_NUMBER: Final = 1e-4
"""Python writes smaller numbers with an exponent."""
LEADING_ZEROS: Final = 6
"""RFC 8785 uses an exponent only for numbers with at least this many zeros after the point."""


def canonical_bytes(resource: str, engine_version: str, request: BaseModel) -> bytes:
    """Return the RFC 8785 form (canonical JSON) of {engine_version, request, resource}.

    Aliases of the request are resolved and defaults filled in. Absent optional fields stay absent.
    """
    members = f'"engine_version":{_string(engine_version)},"request":{canonical_text(request)}'
    return f'{{{members},"resource":{_string(resource)}}}'.encode()


def digest(resource: str, engine_version: str, request: BaseModel) -> str:
    """Return the SHA-256 digest of a request to `resource`: `sha256:` and 64 hexadecimal digits."""
    return bytes_digest(canonical_bytes(resource, engine_version, request))


def text_digest(canonical: str) -> str:
    """Return the SHA-256 digest of a text in canonical form: `sha256:` and 64 hexadecimal digits."""
    return bytes_digest(canonical.encode())


def bytes_digest(canonical: bytes) -> str:
    """Return the SHA-256 digest of bytes in canonical form: `sha256:` and 64 hexadecimal digits."""
    return DIGEST_PREFIX + hashlib.sha256(canonical).hexdigest()


def canonical_text(value: Any) -> str:
    """Return the canonical JSON text (RFC 8785) of `value`, plain data or a model, as `rfc8785.dumps` writes it.

    Model fields that hold None are omitted, and so are words that equal an omitted default. The function needs a
    quarter of the time of `rfc8785.dumps`, to which it passes huge numbers, strings with escapes and data without a
    canonical form.
    """
    kind = cast("type[object]", type(value))
    if kind is float:
        return _number(value)
    if kind is tuple or kind is list:
        return "[" + ",".join([canonical_text(item) for item in value]) + "]"
    if kind is str:
        return _string(value)
    if kind is int:
        # Parsers of JSON disagree about larger integers; RFC 8785, appendix D, writes them as strings.
        return str(value) if abs(value) <= LARGEST_CANONICAL_INTEGER else f'"{value}"'
    if _is_model(kind):
        return _model_text(value)
    if kind is dict:
        mapping = cast("dict[str, Any]", value)
        names = sorted(mapping, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join([f"{_string(name)}:{canonical_text(mapping[name])}" for name in names]) + "}"
    return rfc8785.dumps(value).decode()


@cache  # isinstance is slow for models
def _is_model(kind: type[object]) -> bool:
    return issubclass(kind, BaseModel)


def _model_text(value: BaseModel) -> str:
    held = value.__dict__
    members: list[str] = []
    for key, name, left_out in _keys_names_and_defaults(type(value)):
        field = held[name]
        if field is None:
            continue
        kind = cast("type[object]", type(field))
        if kind is float:
            members.append(key + _number(field))
        elif _is_model(kind):
            members.append(key + _model_text(field))
        elif kind is not str:
            members.append(key + canonical_text(field))
        elif field != left_out:
            members.append(key + _string(field))
    return "{" + ",".join(members) + "}"


@cache
def _keys_names_and_defaults(model: type[BaseModel]) -> tuple[tuple[str, str, object], ...]:
    fields = model.model_fields
    excluded = {name: field.default for name, field in fields.items() if field.exclude_if is not None}
    written = {field.serialization_alias or name: name for name, field in fields.items()}
    return tuple((f"{_string(key)}:", written[key], excluded.get(written[key])) for key in sorted(written))


@lru_cache(maxsize=1024)
def _string(value: str) -> str:
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return rfc8785.dumps(value).decode()


def _number(value: float) -> str:
    # Python and RFC 8785 use the same digits. Exponents, whole numbers and the sign of zero differ.
    text = repr(value)
    if value == 0:
        return "0"
    if "e" not in text and text[-1].isdigit():
        return text.removesuffix(".0")
    if not 0 < value < LARGEST_SMALL_NUMBER:
        return rfc8785.dumps(value).decode()
    digits, _, exponent = text.partition("e-")
    zeros = int(exponent) - 1
    if zeros < LEADING_ZEROS:
        return f"0.{'0' * zeros}{digits.replace('.', '')}"
    return f"{digits}e-{zeros + 1}"
