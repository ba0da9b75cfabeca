"""Message authentication codes of entries in Redis.

An attacker with write access to Redis, but without the key, can delete entries but cannot forge a result. The code is
HMAC-SHA-256 over kind, name and body of an entry. The length of each part precedes the part, so that different triples
have different messages. A valid code proves that a process with the key stored this body under this name. The first key
signs, and all keys verify, so that a key can be replaced while entries of the old key remain readable.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final, final

RANDOM_KEY_BYTES: Final = 32
_PREFIX: Final = b'{"hmac_sha256":"'
_SEPARATOR: Final = b'","sealed":'
_SUFFIX: Final = b"}"
_DIGITS: Final = 2 * hashlib.sha256().digest_size
_START: Final = len(_PREFIX) + _DIGITS + len(_SEPARATOR)


@final
class EntryAuthenticator:
    """Authenticator of Redis entries with shared keys, or with a random key of this process if `keys` is empty.

    A key is any text; the settings reject short keys. Other processes, and later processes, cannot verify entries that
    were signed with a random key.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self.shared = bool(keys)
        self._keys = [key.encode() for key in keys] or [secrets.token_bytes(RANDOM_KEY_BYTES)]

    def sign(self, kind: str, name: str, body: bytes) -> bytes:
        """Return the Redis entry to store for a body: the message authentication code, followed by the body.

        The code covers kind, name and body, so that an entry is valid under its own name only. The entry is JSON if the
        body is JSON.
        """
        return _PREFIX + _tag(self._keys[0], kind, name, body) + _SEPARATOR + body + _SUFFIX

    def verify(self, kind: str, name: str, entry: bytes | str) -> bytes | None:
        """Return the body of a Redis entry, or None if its code is not valid for this kind and name.

        A valid message authentication code proves that a process with a shared key stored the body.
        """
        if not isinstance(entry, bytes) or not entry.startswith(_PREFIX) or not entry.endswith(_SUFFIX):
            return None
        given = entry[len(_PREFIX) : len(_PREFIX) + _DIGITS]
        body = entry[_START : -len(_SUFFIX)]
        for key in self._keys:
            if hmac.compare_digest(given, _tag(key, kind, name, body)):
                return body if entry[len(_PREFIX) + _DIGITS : _START] == _SEPARATOR else None
        return None


def _tag(key: bytes, kind: str, name: str, body: bytes) -> bytes:
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in (kind.encode(), name.encode(), body):
        mac.update(len(part).to_bytes(8, "big"))
        mac.update(part)
    return mac.hexdigest().encode()
