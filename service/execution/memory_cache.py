"""Cache of results in the memory of this process, accounted to the requesters that caused them.

When the cache is full, the requester with the largest share loses its least recently used result. A requester that
sends thousands of distinct requests therefore evicts its own results.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Final, NamedTuple, final

LOCAL_REQUESTER: Final = "local"
"""Requester that results without a client are accounted to, such as results of jobs."""

Key = tuple[str, str]


class _RequesterEntries:
    __slots__ = ("bodies", "name", "size")

    def __init__(self, name: str) -> None:
        self.name = name
        self.bodies: OrderedDict[Key, bytes] = OrderedDict()
        self.size = 0


class _HeapEntry(NamedTuple):
    # negative, so that the requester with the largest weight in bytes comes first
    negative_weight: float
    name: str


@final
class InMemoryResultCache:
    """Cache of response bodies with a limit on entries and a limit on bytes.

    In a full cache, the requester with the largest weight loses its least recently used result. The weight is the bytes
    of its results plus `max_bytes / max_entries` for each result.
    """

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entry_weight = max_bytes / max_entries
        self._entries_by_requester: dict[str, _RequesterEntries] = {}
        self._owners: dict[Key, _RequesterEntries] = {}
        self._weight_heap: list[_HeapEntry] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def size_bytes(self) -> int:
        """Total bytes of all cached bodies."""
        return self._bytes

    def lookup(self, computation: str, digest: str) -> bytes | None:
        """Return the cached response body of a request digest, or None when it is not cached.

        `computation` names the resource. The method is `get` without a coroutine.
        """
        key = computation, digest
        holding = self._owners.get(key)
        if holding is None:
            return None
        holding.bodies.move_to_end(key)
        return holding.bodies[key]

    async def get(self, computation: str, digest: str) -> bytes | None:
        """Return the cached response body of a request digest, or None when it is not cached.

        `computation` names the resource.
        """
        return self.lookup(computation, digest)

    def put(self, computation: str, digest: str, body: bytes, requester: str = LOCAL_REQUESTER) -> None:
        """Store a response body, accounted to a requester (group or address).

        `computation` names the resource, and `digest` is that of the request. A body larger than the cache is not
        stored.
        """
        if len(body) > self._max_bytes:
            return
        key = computation, digest
        before = self._owners.get(key)
        if before is not None:
            self._remove(before, key)
        holding = self._entries_by_requester.get(requester)
        if holding is None:
            holding = self._entries_by_requester[requester] = _RequesterEntries(requester)
        holding.bodies[key] = body
        holding.size += len(body)
        self._bytes += len(body)
        self._owners[key] = holding
        self._push_weight(holding)
        while self._bytes > self._max_bytes or len(self._owners) > self._max_entries:
            self._evict_one()

    def remove(self, computation: str, digest: str) -> None:
        """Remove the response body of a digest, if the cache holds it. `computation` names the resource."""
        holding = self._owners.get((computation, digest))
        if holding is not None:
            self._remove(holding, (computation, digest))
            self._push_weight(holding)

    def clear(self) -> None:
        """Remove the results of all requesters (groups or addresses)."""
        self._entries_by_requester.clear()
        self._owners.clear()
        self._weight_heap.clear()
        self._bytes = 0

    async def flush(self) -> None:
        """Return immediately, because `put` stores bodies synchronously."""

    def _evict_one(self) -> None:
        claim = heapq.heappop(self._weight_heap)
        holding = self._entries_by_requester.get(claim.name)
        if holding is None or -claim.negative_weight < self._weight(holding):
            return  # the heap has a newer entry of this requester
        if -claim.negative_weight == self._weight(holding):
            self._remove(holding, next(iter(holding.bodies)))
        self._push_weight(holding)

    def _remove(self, holding: _RequesterEntries, key: Key) -> None:
        size = len(holding.bodies.pop(key))
        holding.size -= size
        self._bytes -= size
        del self._owners[key]
        if not holding.bodies:
            del self._entries_by_requester[holding.name]

    def _push_weight(self, holding: _RequesterEntries) -> None:
        if holding.bodies:
            heapq.heappush(self._weight_heap, _HeapEntry(-self._weight(holding), holding.name))
        if len(self._weight_heap) > 2 * len(self._entries_by_requester) + 64:
            self._weight_heap = [
                _HeapEntry(-self._weight(each), each.name) for each in self._entries_by_requester.values()
            ]
            heapq.heapify(self._weight_heap)

    def _weight(self, holding: _RequesterEntries) -> float:
        return holding.size + self._entry_weight * len(holding.bodies)
