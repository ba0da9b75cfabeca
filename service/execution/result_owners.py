"""Owners of stored results: which groups of callers have received which result.

With authentication, a group may read a stored result by its digest only if the service has answered this group with
this result. The result itself is stored once, and serves the computations of all groups. Owners are stored like
results: in memory, where the other processes of a supervisor find them, and in Redis if the result is there. Without an
entry the result counts as missing.
"""

from __future__ import annotations

from typing import Final, final

from service.execution.client import owner_of
from service.execution.memory_cache import InMemoryResultCache
from service.execution.shared_cache import SharedCache
from service.execution.sibling_processes import Lookup, SiblingProcesses

NAMESPACE: Final = "owners"
"""Name under which processes and Redis look owners up, in place of the name of a computation."""
ENTRY: Final = b"1"
ENTRY_BYTES: Final = 256


@final
class ResultOwners:
    """Record of the requesters that received each result: in this process, in its sibling processes, and in Redis.

    `shared` is the cache in Redis, None without Redis. `max_entries` limits the entries in memory. A requester with the
    most entries loses its oldest entry first.
    """

    def __init__(self, max_entries: int, shared: SharedCache | None) -> None:
        self._memory = InMemoryResultCache(max_entries, max_entries * ENTRY_BYTES)
        self._shared = shared
        self.siblings: SiblingProcesses | None = None
        """Other processes of the supervisor, or None."""

    def record(self, digest: str, requester: str, *, is_shared: bool) -> None:
        """Record that a requester received the result of a digest.

        Callers without a group count as one owner. `is_shared` is whether Redis may have the result.
        """
        name = entry_name(digest, requester)
        if self._memory.lookup(NAMESPACE, name) is not None:
            return
        self._memory.put(NAMESPACE, name, ENTRY, requester)
        if is_shared and self._shared is not None:
            self._shared.cache.put_owner(name)

    async def has_received(self, digest: str, requester: str) -> bool:
        """Return whether the owner of this requester received the result of a digest.

        Look in this process, in its sibling processes and in Redis. A record that was evicted, or that an unavailable
        Redis holds, counts as missing.
        """
        name = entry_name(digest, requester)
        if self._memory.lookup(NAMESPACE, name) is not None:
            return True
        if self.siblings is not None and await self.siblings.find((NAMESPACE,), name) is not None:
            return True
        shared = self._shared
        return shared is not None and await shared.cache.has_owner(name, shared.expensive_timeout_seconds)

    def lookup_with(self, results: Lookup) -> Lookup:
        """Return a lookup for sibling processes: of owners, and of results by `results`, in the memory of this process.

        The lookup returns None for a missing entry.
        """

        def lookup(name: str, digest: str) -> bytes | None:
            return self._memory.lookup(NAMESPACE, digest) if name == NAMESPACE else results(name, digest)

        return lookup


def entry_name(digest: str, requester: str) -> str:
    """Return the name, without spaces, of the Redis entry that says that a requester's owner received a result.

    `digest` is that of the result.
    """
    return f"{digest};{owner_of(requester)}"
