"""API keys in Redis, for services on several machines.

Each record is sealed with the seal key of the service. A writer to Redis without that key can remove keys, and can put
back a record that was there before, but can neither make a key nor change its scopes.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, cast, final

from typing_extensions import override

from service.access.api_keys import ApiKey, key_from_record
from service.access.errors import KeyStoreError
from service.access.key_store import MOST_KEYS, KeyStore, StoredKey

KEYS: Final = "privacy_bounds:access:keys"
REVISION: Final = "privacy_bounds:access:revision"
KIND: Final = "api_key"
TIMEOUT_SECONDS: Final = 2.0


class Seal(Protocol):
    """Authenticator of stored entries with one key (`service.execution.entry_mac`)."""

    def sign(self, kind: str, name: str, body: bytes) -> bytes:
        """Return the entry to store for `body`: the body with its authentication code.

        `kind` and `name` identify the entry, and are authenticated, too.
        """
        ...

    def verify(self, kind: str, name: str, entry: bytes | str) -> bytes | None:
        """Return the body of a stored entry, or None if its authentication code is wrong.

        `kind` and `name` identify the entry.
        """
        ...


@final
class RedisKeys(KeyStore):
    """Store of API keys in a hash of Redis.

    The first of the `seal_keys` seals entries and makes digests, and entries sealed with any of them are accepted.
    Methods raise KeyStoreError if Redis does not respond within two seconds.
    """

    def __init__(self, url: str, seal_keys: Sequence[str], seal_of: Callable[[str], Seal]) -> None:
        import redis
        from redis.exceptions import RedisError

        self._client: Any = cast("Any", redis.Redis).from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        )
        self._errors = (RedisError, OSError)
        self._seals = [
            (seal_of(each), hmac.digest(each.encode(), b"privacy-bounds api keys", "sha256")) for each in seal_keys
        ]

    @override
    def revision(self) -> Hashable:
        with self._translated():
            found: Hashable = self._client.get(REVISION)
            return found

    @override
    def read(self) -> list[StoredKey]:
        with self._translated():
            entries: dict[bytes, bytes] = self._client.hgetall(KEYS)
        return [key for name, entry in entries.items() if (key := self._opened(name, entry)) is not None]

    @override
    def digest_key(self) -> bytes:
        # follows from the first seal key, so that nothing has to be stored
        return self._seals[0][1]

    @override
    def put(self, key: ApiKey) -> None:
        seal, _ = self._seals[0]
        with self._translated():
            if self._client.hlen(KEYS) >= MOST_KEYS and not self._client.hexists(KEYS, key.id):
                raise KeyStoreError(f"there are {MOST_KEYS} keys; revoke some first")
            entry = seal.sign(KIND, key.id, json.dumps(key.record()).encode())
            self._client.pipeline().hset(KEYS, key.id, entry).incr(REVISION).execute()

    @override
    def remove(self, identifier: str) -> bool:
        with self._translated():
            removed, _ = self._client.pipeline().hdel(KEYS, identifier).incr(REVISION).execute()
            return bool(removed)

    def _opened(self, name: bytes, entry: bytes) -> StoredKey | None:
        for seal, digest_key in self._seals:
            body = seal.verify(KIND, name.decode("ascii", "replace"), entry)
            if body is not None:
                with suppress(ValueError):  # a record of another version
                    return StoredKey(key_from_record(json.loads(body)), digest_key)
        return None

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except self._errors as error:
            raise KeyStoreError(f"Redis: {type(error).__name__}") from error
