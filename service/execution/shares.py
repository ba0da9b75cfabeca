"""Shares: units of one bounded resource (bytes, places), counted by the requesters that hold them.

A requester may hold as many units as are free. When a unit is missing, the requester that holds most gives way: one of
its holders is ended with QueueFull. A holder that keeps others waiting (`Share.due`) weighs double, so that of
requesters with equal amounts the one that makes no progress gives way. The requester that would hold most itself is
refused.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, final

from service.execution.errors import QueueFull

RETRY_AFTER_SECONDS: Final = 2
OVERDUE_WEIGHT: Final = 2


@final
class Pace:
    """The rate that a client has to keep. Every unit buys time, up to `patience` seconds; `due`: when the time ends."""

    __slots__ = ("_patience", "_rate", "due")

    def __init__(self, now: float, patience: float, rate: float) -> None:
        self._patience, self._rate = patience, rate
        self.due = now + patience

    def moved(self, now: float, units: int) -> None:
        """Record that so many units have moved."""
        self.due = min(now + self._patience, max(self.due, now) + units / self._rate)


@final
class Share:
    """What one holder has. `due`: from this time of the event loop on the holder keeps others waiting."""

    __slots__ = ("_ending", "_pot", "due", "has_given_way", "requester", "size")

    def __init__(self, pot: Pot, requester: str, ending: asyncio.Timeout) -> None:
        self._pot = pot
        self._ending = ending
        self.requester = requester
        self.size = 0
        self.due = math.inf
        self.has_given_way = False

    def grow(self, size: int) -> None:
        """Hold so many more units. Raises QueueFull where nobody has to give way."""
        self._pot.make_room(self, size)
        self._pot.move(self, size)

    def end(self) -> None:
        """Release the units now, and end the holder's block with QueueFull."""
        if self.has_given_way:
            return
        self.has_given_way = True
        self._pot.move(self, -self.size)
        self._ending.reschedule(asyncio.get_running_loop().time())


@final
class Pot:
    """The units of one resource; of one event loop. `refused` is called whenever a holder is refused or ended."""

    def __init__(self, units: int, refused: Callable[[], None] = lambda: None) -> None:
        self._free = units
        self._refused = refused
        self._totals: Counter[str] = Counter()
        self._shares: set[Share] = set()

    @asynccontextmanager
    async def hold(self, requester: str, size: int = 0) -> AsyncGenerator[Share]:
        """Hold `size` units, and what the share grows to, until the block ends.

        Raises QueueFull where the requester holds most itself, and in the block when the holder gives way: whatever the
        block awaits is then cancelled.
        """
        share = None
        try:
            async with asyncio.timeout(None) as ending:
                share = Share(self, requester, ending)
                self._shares.add(share)
                share.grow(size)
                yield share
        except TimeoutError:
            if share is None or not share.has_given_way:
                raise
            self._refused()
            raise QueueFull(RETRY_AFTER_SECONDS) from None
        finally:
            if share is not None:
                self.move(share, -share.size)
                self._shares.discard(share)

    def move(self, share: Share, size: int) -> None:
        """Count units that a share took, or gave back."""
        self._free -= size
        share.size += size
        self._totals[share.requester] += size
        if not self._totals[share.requester]:
            del self._totals[share.requester]

    def make_room(self, newcomer: Share, size: int) -> None:
        """End holders of others until so many units are free. Raises QueueFull, and ends none, where that is unfair."""
        found = None if newcomer.has_given_way else self._who_give_way(newcomer, size)
        if found is None:
            self._refused()
            raise QueueFull(RETRY_AFTER_SECONDS)
        for share in found:
            share.end()

    def _who_give_way(self, newcomer: Share, size: int) -> list[Share] | None:
        """The holders to end, the largest first; None where the newcomer would then hold more than the next of them."""
        now = asyncio.get_running_loop().time()
        totals = self._totals.copy()
        missing = size - self._free
        found: list[Share] = []
        others = [share for share in self._shares if share.size and share is not newcomer] if missing > 0 else []

        def order(share: Share) -> tuple[int, float]:
            return totals[share.requester] * (OVERDUE_WEIGHT if share.due < now else 1), -share.due

        while missing > 0:
            largest = max(others, key=order, default=None)
            if largest is None or order(largest)[0] <= self._totals[newcomer.requester] + size:
                return None
            found.append(largest)
            others.remove(largest)
            totals[largest.requester] -= largest.size
            missing -= largest.size
        return found
