"""Seals: who can write to Redis, but has no key, can make this service forget, never say what it did not compute.

A seal is HMAC-SHA-256 over what an entry is, what it is named and its bytes, each with its length before it, so that no
two different triples are the same text. It proves that a process with the key stored these bytes under this name,
whatever their length: nothing else about them has to be believed. The first key seals; all of them open, so that a key
can be replaced without a day on which nothing is found.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final, final

RANDOM_KEY_BYTES: Final = 32
_BEFORE: Final = b'{"hmac_sha256":"'
_BETWEEN: Final = b'","sealed":'
_AFTER: Final = b"}"
_DIGITS: Final = 2 * hashlib.sha256().digest_size
_START: Final = len(_BEFORE) + _DIGITS + len(_BETWEEN)


@final
class Seals:
    """Seals of one process, or of all that are given the same keys.

    A key is any text; short ones are refused by the settings. Without keys a random one is made: entries of this
    process are then of use to nobody else, and to itself until it ends.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self.shared = bool(keys)
        self._keys = [key.encode() for key in keys] or [secrets.token_bytes(RANDOM_KEY_BYTES)]

    def seal(self, kind: str, name: str, body: bytes) -> bytes:
        """The entry of a body, itself JSON where the body is."""
        return _BEFORE + _tag(self._keys[0], kind, name, body) + _BETWEEN + body + _AFTER

    def open(self, kind: str, name: str, entry: bytes | str) -> bytes | None:
        """The body of an entry; None where no key sealed exactly this body as this kind under this name."""
        if not isinstance(entry, bytes) or not entry.startswith(_BEFORE) or not entry.endswith(_AFTER):
            return None
        given = entry[len(_BEFORE) : len(_BEFORE) + _DIGITS]
        body = entry[_START : -len(_AFTER)]
        for key in self._keys:
            if hmac.compare_digest(given, _tag(key, kind, name, body)):
                return body if entry[len(_BEFORE) + _DIGITS : _START] == _BETWEEN else None
        return None


def _tag(key: bytes, kind: str, name: str, body: bytes) -> bytes:
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in (kind.encode(), name.encode(), body):
        mac.update(len(part).to_bytes(8, "big"))
        mac.update(part)
    return mac.hexdigest().encode()
