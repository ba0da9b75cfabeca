"""Index of stored ground truths (answers with any number of digits).

A request for fewer digits is answered from a stored result with more digits.

The index has one pointer per question. Its key is the digest of the request without `digits`, its value the number of
digits and the digest of a stored result. A pointer is only a hint: `resolve_pointer` recomputes the digest from the
request and these digits, and ignores a pointer with another digest. A forged pointer therefore only causes a
recomputation.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from pydantic import BaseModel

from service.resources.digest import digest as request_digest

FIELD: Final = "digits"


def index_namespace(computation: str) -> str:
    """Return the name under which caches store pointers to ground truths of the resource `computation`.

    A ground truth is a result with many proved digits.
    """
    return f"{computation}:digits"


def question_digest(resource: str, engine_version: str, request: BaseModel) -> str:
    """Return the digest of a request to `resource` without its field `digits`.

    The field counts as None, so that the digest is the same for every number of digits. It is the key of a pointer to a
    stored ground truth (result with many proved digits) for this question.
    """
    return _digest_at(resource, engine_version, request, None)


def encode_pointer(digest: str, digits: int) -> bytes:
    """Return the pointer to a stored result as JSON bytes: its digest and its number of digits."""
    return json.dumps({"digest": digest, FIELD: digits}).encode()


def resolve_pointer(found: bytes, resource: str, engine_version: str, request: BaseModel, digits: int) -> str | None:
    """Return the digest of the stored result that the pointer `found` (bytes of `encode_pointer`) names.

    Return None if the pointer is malformed, if the result has fewer than `digits` digits, or if the digest is not that
    of `request` with the number of digits in the pointer.
    """
    try:
        read: Any = json.loads(found)
    except ValueError:  # no JSON, or not even text
        return None
    if not isinstance(read, dict):
        return None
    members = cast("dict[str, Any]", read)
    more = members.get(FIELD)
    if type(more) is not int or more < digits:
        return None
    digest = _digest_at(resource, engine_version, request, more)
    return digest if members.get("digest") == digest else None


def _digest_at(resource: str, engine_version: str, request: BaseModel, digits: int | None) -> str:
    return request_digest(resource, engine_version, request.model_copy(update={FIELD: digits}))
