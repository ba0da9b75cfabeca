"""Results in the memory of this process, counted by who caused them.

When the memory is full, the requester that holds most loses its least recently used result: whoever asks for thousands
of distinct things pushes out its own.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Final, NamedTuple, final

LOCAL_REQUESTER: Final = "local"
"""Holds what no client asked for by itself: answers of jobs."""

Key = tuple[str, str]


class _Holding:
    """Results that one requester caused, least recently used first."""

    __slots__ = ("bodies", "name", "size")

    def __init__(self, name: str) -> None:
        self.name = name
        self.bodies: OrderedDict[Key, bytes] = OrderedDict()
        self.size = 0


class _Claim(NamedTuple):
    """How much a requester held when this was noted. Claims that no longer hold are skipped."""

    negative_weight: float
    name: str


@final
class InMemoryResultCache:
    """Bounded in entries and in bytes. A holding weighs its bytes, and for each entry an equal share of all bytes."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entry_weight = max_bytes / max_entries
        self._holdings: dict[str, _Holding] = {}
        self._holders: dict[Key, _Holding] = {}
        self._claims: list[_Claim] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._holders)

    @property
    def size_bytes(self) -> int:
        """Bytes of all bodies kept."""
        return self._bytes

    def lookup(self, computation: str, digest: str) -> bytes | None:
        """`get` without a detour through the event loop."""
        key = computation, digest
        holding = self._holders.get(key)
        if holding is None:
            return None
        holding.bodies.move_to_end(key)
        return holding.bodies[key]

    async def get(self, computation: str, digest: str) -> bytes | None:
        """Return the body, or None when it is not there."""
        return self.lookup(computation, digest)

    def put(self, computation: str, digest: str, body: bytes, requester: str = LOCAL_REQUESTER) -> None:
        """Keep a body that this requester caused; one that is larger than the whole cache is not kept."""
        if len(body) > self._max_bytes:
            return
        key = computation, digest
        before = self._holders.get(key)
        if before is not None:
            self._drop(before, key)
        holding = self._holdings.get(requester)
        if holding is None:
            holding = self._holdings[requester] = _Holding(requester)
        holding.bodies[key] = body
        holding.size += len(body)
        self._bytes += len(body)
        self._holders[key] = holding
        self._claim(holding)
        while self._bytes > self._max_bytes or len(self._holders) > self._max_entries:
            self._make_room()

    async def settle(self) -> None:
        """Return at once: every body is kept or forgotten by `put`."""

    def _make_room(self) -> None:
        """Drop one result of the largest holding."""
        claim = heapq.heappop(self._claims)
        holding = self._holdings.get(claim.name)
        if holding is None or -claim.negative_weight < self._weight(holding):
            return  # there is a newer claim
        if -claim.negative_weight == self._weight(holding):
            self._drop(holding, next(iter(holding.bodies)))
        self._claim(holding)

    def _drop(self, holding: _Holding, key: Key) -> None:
        size = len(holding.bodies.pop(key))
        holding.size -= size
        self._bytes -= size
        del self._holders[key]
        if not holding.bodies:
            del self._holdings[holding.name]

    def _claim(self, holding: _Holding) -> None:
        if holding.bodies:
            heapq.heappush(self._claims, _Claim(-self._weight(holding), holding.name))
        if len(self._claims) > 2 * len(self._holdings) + 64:
            self._claims = [_Claim(-self._weight(each), each.name) for each in self._holdings.values()]
            heapq.heapify(self._claims)

    def _weight(self, holding: _Holding) -> float:
        return holding.size + self._entry_weight * len(holding.bodies)
