"""Keys of a store in memory, so that a request reads no file and waits for no Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from hmac import compare_digest
from typing import Final, final

from service.access.api_keys import KEY_TEXT, SECRET_BYTES, digest_of
from service.access.caller import Caller
from service.access.errors import AuthenticationUnavailable, KeyStoreError, Unauthenticated
from service.access.key_store import KeyStore, StoredKey

REFRESH_SECONDS: Final = 1.0
"""Time between two readings of the store, and so the longest time for which a revoked key is accepted."""
UNKNOWN_SECONDS: Final = 0.2
"""Least time between two readings of the store for unknown keys. A request with an unknown key waits for that time."""
LONGEST_STALE_SECONDS: Final = 300.0
"""Time for which the keys stay valid while the store does not answer."""
_UNREAD: Final = object()
_NO_DIGEST: Final = bytes(SECRET_BYTES)


@final
class KeyRing:
    """API keys of a store in memory, read again when the store has changed.

    `report` receives a phrase when the store stops answering, and an empty text when it answers again. Meanwhile the
    last keys stay valid for LONGEST_STALE_SECONDS (5 minutes).
    """

    def __init__(
        self, store: KeyStore, report: Callable[[str], None], *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._report = report
        self._wall_clock = wall_clock
        self._keys: dict[bytes, StoredKey] = {}
        self._revision: object = _UNREAD
        self._began = self._succeeded = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self.failure = ""
        """Phrase that says why the store cannot be read, or ""."""

    async def caller(self, text: bytes) -> Caller:
        """Return the caller whose API key is `text`.

        Raise Unauthenticated for an unknown, wrong or expired key. Raise AuthenticationUnavailable if the store could
        not be read for 5 minutes. An unknown key waits up to 0.2 s for another reading of the store.
        """
        found = KEY_TEXT.fullmatch(text)
        if found is None:
            raise Unauthenticated(is_wrong=True)
        identifier, secret = found.groups()
        if identifier not in self._keys:
            await self._refresh_for_unknown(identifier)
        stored = self._keys.get(identifier)
        digest_key = _NO_DIGEST if stored is None else stored.digest_key
        expected = _NO_DIGEST if stored is None else stored.key.digest_bytes
        is_equal = compare_digest(digest_of(digest_key, identifier, secret), expected)
        if time.monotonic() - self._succeeded > LONGEST_STALE_SECONDS:
            raise AuthenticationUnavailable
        if stored is None or not is_equal or self._has_expired(stored):
            raise Unauthenticated(is_wrong=True)
        return stored.key.caller

    async def refresh(self) -> None:
        """Read the API keys of the store if it has changed. Requests that wait at the same time share one reading.

        A failure of the store is reported, and raises nothing.
        """
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_store())
        await asyncio.shield(self._reading)

    async def _refresh_for_unknown(self, identifier: bytes) -> None:
        # the key may have been created just now
        now = time.monotonic()
        while identifier not in self._keys and self._began < now:
            await asyncio.sleep(max(0.0, self._began + UNKNOWN_SECONDS - time.monotonic()))
            await self.refresh()

    async def keep_current(self) -> None:
        """Read the store of API keys every second if it has changed, without end."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await self.refresh()

    async def _read_store(self) -> None:
        began = time.monotonic()
        try:
            found = await asyncio.to_thread(self._changed_keys)
        except KeyStoreError as error:
            failure = str(error)
        else:
            failure, self._succeeded = "", began
            if found is not None:
                self._revision, self._keys = found
        self._began = began
        if failure != self.failure:
            self.failure = failure
            self._report(failure)

    def _changed_keys(self) -> tuple[Hashable, dict[bytes, StoredKey]] | None:
        revision = self._store.revision()
        if revision == self._revision:
            return None
        return revision, {each.key.id.encode(): each for each in self._store.read()}

    def _has_expired(self, stored: StoredKey) -> bool:
        return stored.key.expires is not None and self._wall_clock() >= stored.key.expires
