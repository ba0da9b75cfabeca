"""Budget of one bounded resource (bytes, connections), with reservations that are accounted to requesters.

A requester may reserve all free units. When units run out, a reservation of the requester that holds the most units is
revoked: its block ends with QueueFull. An overdue reservation (`Reservation.overdue_at`) counts double, so that among
requesters with equal amounts the one without progress loses its reservation. A requester that would hold the most units
itself is rejected.
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
class TransferDeadline:
    """Deadline of a transfer that must keep a minimum rate.

    Each transferred unit extends the deadline by `1 / rate` seconds, up to `patience` seconds from now. The first
    deadline is `patience` seconds after the start. `at` is the deadline on the clock of the event loop.
    """

    __slots__ = ("_patience", "_rate", "at")

    def __init__(self, now: float, patience: float, rate: float) -> None:
        self._patience, self._rate = patience, rate
        self.at = now + patience

    def advance(self, now: float, units: int) -> None:
        """Extend the deadline by `units`/rate seconds, to at most `patience` seconds after `now`.

        The time `now` is that of the event loop, in seconds, and `units` (such as bytes) were transferred.
        """
        self.at = min(now + self._patience, max(self.at, now) + units / self._rate)


@final
class Reservation:
    """Reserved units (such as bytes) of one holder, which count double from the event-loop time `overdue_at` on.

    `is_revoked` is whether the budget took the units back for another requester.
    """

    __slots__ = ("_budget", "_timeout", "is_revoked", "overdue_at", "requester", "size")

    def __init__(self, pot: ResourceBudget, requester: str, ending: asyncio.Timeout) -> None:
        self._budget = pot
        self._timeout = ending
        self.requester = requester
        self.size = 0
        self.overdue_at = math.inf
        self.is_revoked = False

    def extend(self, size: int) -> None:
        """Add `size` units to the reservation, and revoke other reservations if too few units are free.

        Raise QueueFull if the requester would then hold the most units, or if the reservation was revoked.
        """
        self._budget.evict_for(self, size)
        self._budget.account(self, size)

    def revoke(self) -> None:
        """Release the units immediately, and end the block of the holder with QueueFull.

        Do nothing if the reservation was revoked before.
        """
        if self.is_revoked:
            return
        self.is_revoked = True
        self._budget.account(self, -self.size)
        self._timeout.reschedule(asyncio.get_running_loop().time())


@final
class ResourceBudget:
    """Budget of one limited resource in one event loop: `units` in total, such as bytes of memory.

    A requester is a group or an address. `on_rejection` is called whenever a reservation is rejected or revoked.
    """

    def __init__(self, units: int, on_rejection: Callable[[], None] = lambda: None) -> None:
        self._free = units
        self._on_rejection = on_rejection
        self._totals: Counter[str] = Counter()
        self._reservations: set[Reservation] = set()

    @asynccontextmanager
    async def reserve(self, requester: str, size: int = 0) -> AsyncGenerator[Reservation]:
        """Reserve `size` units until the block ends, and yield the reservation, which the block may extend.

        Raise QueueFull if too few units are free and the requester itself would hold the most units. When the
        reservation is revoked, what the block awaits is cancelled, and QueueFull is raised.
        """
        share = None
        try:
            async with asyncio.timeout(None) as ending:
                share = Reservation(self, requester, ending)
                self._reservations.add(share)
                share.extend(size)
                yield share
        except TimeoutError:
            if share is None or not share.is_revoked:
                raise
            self._on_rejection()
            raise QueueFull(RETRY_AFTER_SECONDS) from None
        finally:
            if share is not None:
                self.account(share, -share.size)
                self._reservations.discard(share)

    def account(self, share: Reservation, size: int) -> None:
        """Add `size` units to the reservation `share`; a negative number returns units to the budget."""
        self._free -= size
        share.size += size
        self._totals[share.requester] += size
        if not self._totals[share.requester]:
            del self._totals[share.requester]

    def evict_for(self, newcomer: Reservation, size: int) -> None:
        """Revoke other reservations until `size` units are free for `newcomer`, those of the largest requester first.

        A requester is a group or an address. The units of a requester count double for overdue reservations, also for
        those of the newcomer's requester. Raise QueueFull without revoking any reservation if the requester of
        `newcomer` would then hold the most units.
        """
        found = None if newcomer.is_revoked else self._eviction_candidates(newcomer, size)
        if found is None:
            self._on_rejection()
            raise QueueFull(RETRY_AFTER_SECONDS)
        for share in found:
            share.revoke()

    def _eviction_candidates(self, newcomer: Reservation, size: int) -> list[Reservation] | None:
        # those of the largest requester first, and of those the overdue ones; None: `newcomer` would become the largest
        now = asyncio.get_running_loop().time()
        totals = self._totals.copy()
        missing = size - self._free
        found: list[Reservation] = []
        others = [share for share in self._reservations if share.size and share is not newcomer] if missing > 0 else []

        def order(share: Reservation) -> tuple[int, float]:
            return totals[share.requester] * (OVERDUE_WEIGHT if share.overdue_at < now else 1), -share.overdue_at

        while missing > 0:
            largest = max(others, key=order, default=None)
            if largest is None or order(largest)[0] <= self._totals[newcomer.requester] + size:
                return None
            found.append(largest)
            others.remove(largest)
            totals[largest.requester] -= largest.size
            missing -= largest.size
        return found
