"""API keys: text form, stored record, and digest of the secret.

A key is `pbk_`, an id of 16 hexadecimal digits, `_`, and a secret of 32 random bytes in base64url. Only HMAC-SHA-256 of
id and secret is stored. A secret of 256 bits cannot be guessed from its digest, so that no slow hash is needed.
"""

from __future__ import annotations

import hmac
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, final

from service.access.caller import SCOPES, Caller

PREFIX: Final = "pbk_"
ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
KEY_TEXT: Final = re.compile(rb"pbk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
KEY_ID: Final = re.compile("[0-9a-f]{16}")
NAME: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
NAME_RULE: Final = "use 1 to 64 letters, digits, dots, hyphens, underscores or @, and begin with a letter or digit"
_CONTEXT: Final = b"privacy-bounds api key\0"


@final
@dataclass(frozen=True)
class ApiKey:
    """Stored record of one API key, without its secret.

    Times are seconds since 1970, and `expires` None is never. `digest` is HMAC-SHA-256 of id and secret in hexadecimal
    digits.
    """

    id: str
    name: str
    group: str
    scopes: frozenset[str]
    digest: str
    created: float
    expires: float | None = None

    @cached_property
    def caller(self) -> Caller:
        """Caller of the service that presents this API key."""
        return Caller(self.name, self.group, self.scopes, "key", self.id)

    @cached_property
    def digest_bytes(self) -> bytes:
        """HMAC-SHA-256 of the id and the secret of the key, as 32 bytes."""
        return bytes.fromhex(self.digest)

    def record(self) -> dict[str, Any]:
        """Return the API key as the JSON members that a store writes."""
        return {
            "id": self.id,
            "name": self.name,
            "group": self.group,
            "scopes": sorted(self.scopes),
            "digest": self.digest,
            "created": self.created,
            "expires": self.expires,
        }


def key_from_record(record: Mapping[str, Any]) -> ApiKey:
    """Return the API key of a stored record.

    Raise ValueError for a record with missing, additional or invalid members, such as an unknown scope.
    """
    try:
        key = ApiKey(**dict[str, Any](record, scopes=frozenset[str](record["scopes"])))
        is_valid = (
            KEY_ID.fullmatch(key.id)
            and NAME.fullmatch(key.name)
            and NAME.fullmatch(key.group)
            and key.scopes <= SCOPES
            and len(key.digest_bytes) == SECRET_BYTES
            and math.isfinite(key.created)
            and (key.expires is None or math.isfinite(key.expires))
        )
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError("not a record of a key") from error
    if not is_valid:
        raise ValueError("not a record of a key")
    return key


def new_key(
    digest_key: bytes, *, name: str | None, group: str | None, scopes: frozenset[str], now: float, expires: float | None
) -> tuple[ApiKey, str]:
    """Return a new API key and its text, the only copy of its secret.

    `now` and `expires` are seconds since 1970; `expires` None is a key that does not expire. The name defaults to the
    id of the key, and the group to the name. `scopes` are those that the key grants. `digest_key` is the secret key of
    its digest.
    """
    identifier, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    own = name or identifier
    digest = digest_of(digest_key, identifier.encode(), secret.encode()).hex()
    return ApiKey(identifier, own, group or own, scopes, digest, now, expires), f"{PREFIX}{identifier}_{secret}"


def digest_of(digest_key: bytes, identifier: bytes, secret: bytes) -> bytes:
    """Return HMAC-SHA-256 of the id and the secret of an API key, with the secret key `digest_key`."""
    digest = _hmac_of_context(digest_key).copy()
    digest.update(identifier + b"_" + secret)
    return digest.digest()


@lru_cache(maxsize=4)  # a service has one or two of these keys
def _hmac_of_context(digest_key: bytes) -> hmac.HMAC:
    # OpenSSL takes several times as long for a new HMAC as for a copy
    return hmac.new(digest_key, _CONTEXT, "sha256")
