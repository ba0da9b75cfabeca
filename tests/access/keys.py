"""Keys for tests: made in a store, as the command `privacy-bounds keys create` makes them."""

from __future__ import annotations

import time
from pathlib import Path

from service.access.api_keys import new_key
from service.access.caller import AccessScope
from service.access.key_store import KeyFile


def make_key(
    folder: Path,
    *scopes: AccessScope,
    name: str | None = None,
    group: str | None = None,
    expires_in_seconds: float | None = None,
) -> str:
    """Store a new API key with these `scopes` in the file of a folder, and return its text."""
    store, now = KeyFile(folder), time.time()
    expires = None if expires_in_seconds is None else now + expires_in_seconds
    made = new_key(store.digest_key(), name=name, group=group, scopes=frozenset(scopes), now=now, expires=expires)
    store.put(made[0])
    return made[1]


def bearer(text: str) -> dict[str, str]:
    """Return the header with a key or a token."""
    return {"Authorization": f"Bearer {text}"}
