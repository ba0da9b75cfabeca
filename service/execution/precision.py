"""Which ground truth a less precise request can be answered from: one entry per question, whatever digits were asked.

The entry lies under the digest of the request without its digits, and names digits and digest of a stored answer. It is
only a hint: it is believed where that digest is the one that this very request has with those digits, so an altered
entry names nothing, and the answer is computed.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from pydantic import BaseModel

from service.computations.digest import digest as request_digest

FIELD: Final = "digits"


def entries_of(computation: str) -> str:
    """Under which name the memory keeps the entries that name ground truths."""
    return f"{computation}:digits"


def question_digest(resource: str, engine_version: str, request: BaseModel) -> str:
    """The digest of a request whatever its digits: the name of its entry."""
    return _digest_at(resource, engine_version, request, None)


def entry(digest: str, digits: int) -> bytes:
    """An entry that names an answer with so many digits."""
    return json.dumps({"digest": digest, FIELD: digits}).encode()


def named_digest(found: bytes, resource: str, engine_version: str, request: BaseModel, digits: int) -> str | None:
    """The digest of the answer that an entry names, where it serves this request of `digits` digits; else None."""
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
