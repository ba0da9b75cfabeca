"""Fair queue for workers: requesters share worker time, not the number of requests.

The queue keeps an account of used worker seconds for each requester. The next computation belongs to the requester
with the smallest sum of its account and the estimated seconds of the computation, of which at most `MAX_RANK_SECONDS`
count. Short work of a requester with a small account therefore runs first. Each other requester can overtake long work
with at most `MAX_RANK_SECONDS` of work. The discipline is fair queueing with a virtual time (WF2Q+, Bennett and Zhang
1997): the account of a new requester starts at the virtual time, or at the smallest account with queued work.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, final

Lane = Literal["ordinary", "reserve"]

MAX_RANK_SECONDS: Final = 2.0
"""Largest estimate that counts for the order. Longer work is ordered as if it took this long."""


@final
class QueuedComputation:
    """Computation that needs a worker, with the requesters that wait for its result.

    While the computation waits, the queue holds one entry for each requester, except for requesters that a full queue
    has rejected or evicted. The first entry that reaches the front starts the computation. `seconds` is the estimated
    time, and `is_short` whether a reserve worker may run the computation.
    """

    __slots__ = ("entries", "granted", "is_short", "requesters", "seconds", "started_at")

    def __init__(self, requester: str) -> None:
        self.requesters = Counter((requester,))
        self.seconds = 0.0
        self.is_short = False
        self.started_at: float | None = None
        """Monotonic time at which a worker received the computation. None before that."""
        self.entries: dict[str, QueueEntry] = {}
        self.granted: asyncio.Future[Lane] | None = None
        """Future with the lane that runs the computation. The future fails with QueueFull when the last entry is
        evicted. None while the computation does not wait.
        """

    @property
    def is_waiting(self) -> bool:
        """Whether the computation waits for a worker and was not cancelled."""
        return self.granted is not None and not self.granted.done()


@final
@dataclass(eq=False, frozen=True, slots=True)
class QueueEntry:
    """Entry of the queue: one requester (group or address) that waits for one computation."""

    requester: str
    work: QueuedComputation


@dataclass(slots=True)
class _Account:
    used_seconds: float
    running_seconds: float = 0.0
    running_count: int = 0
    last_start: int = 0
    queue: list[tuple[float, QueueEntry]] = field(default_factory=list[tuple[float, QueueEntry]])
    """Entries sorted by rank. The rank is the account at the time of queueing plus the seconds of the computation."""

    @property
    def charged_seconds(self) -> float:
        return self.used_seconds + self.running_seconds


@final
class FairQueue:
    """Queue of computations for one kind of workers, with an account of used worker seconds for each requester."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._virtual_time = 0.0
        self._starts = 0

    def __iter__(self) -> Iterator[QueueEntry]:
        for account in self._accounts.values():
            yield from (entry for _, entry in account.queue)

    def append(self, entry: QueueEntry) -> None:
        """Insert an entry after the entries of the same requester (group or address) with an equal rank.

        The rank is the requester's account of worker seconds plus the estimated seconds of the computation, of which at
        most 2 s count.
        """
        account = self._account(entry.requester)
        insort(
            account.queue, (account.charged_seconds + _rank_seconds(entry.work), entry), key=lambda ranked: ranked[0]
        )

    def remove(self, entry: QueueEntry) -> None:
        """Remove an entry from the queue. Do nothing if the entry was removed before."""
        account = self._accounts.get(entry.requester)
        if account is not None:
            account.queue[:] = (ranked for ranked in account.queue if ranked[1] is not entry)

    def start(self, requester: str, work: QueuedComputation) -> None:
        """Record that a computation of this requester starts, and add its estimated seconds to the account."""
        account = self._account(requester)
        self._starts += 1
        account.last_start = self._starts
        account.running_seconds += work.seconds
        account.running_count += 1

    def finish(self, requester: str, work: QueuedComputation, seconds: float) -> None:
        """Replace the estimate of a finished computation by its measured seconds in the account of the requester.

        The virtual time grows by `seconds` over the number of requesters with work. A new account starts at the virtual
        time, or at the smallest account of a waiting requester if that is larger. The account of a requester without
        work is forgotten once it is at most the virtual time.
        """
        account = self._accounts[requester]
        account.running_count -= 1
        account.running_seconds = account.running_seconds - work.seconds if account.running_count else 0.0
        account.used_seconds += seconds
        active = [each for each in self._accounts.values() if each.queue or each.running_count]
        self._virtual_time = self._virtual_time + seconds / len(active) if active else 0.0
        for name, each in tuple(self._accounts.items()):
            if not (each.queue or each.running_count) and (each.used_seconds <= self._virtual_time or not active):
                del self._accounts[name]

    def next_entry(self) -> QueueEntry | None:
        """Return the entry (requester and computation) that should start next, or None when the queue is empty.

        The entry has the smallest sum of two terms: its requester's account of worker seconds, and the estimated
        seconds of its computation, of which at most 2 s count. Only the first entry of each requester competes.
        """
        waiting = [account for account in self._accounts.values() if account.queue]
        if not waiting:
            return None
        best = min(
            waiting, key=lambda each: (each.charged_seconds + _rank_seconds(each.queue[0][1].work), each.last_start)
        )
        return best.queue[0][1]

    def work_ahead_seconds(self, requester: str, work: QueuedComputation) -> float:
        """Return the estimated seconds of all queued computations that would start before `work` of this requester.

        Running computations do not count.
        """
        account = self._account(requester)
        rank = account.charged_seconds + _rank_seconds(work)
        before = sum(entry.work.seconds for entry_rank, entry in account.queue if entry_rank <= rank)
        limit = rank + before
        for other in self._accounts.values():
            taken = other.charged_seconds
            for _, entry in () if other is account else other.queue:
                if taken + _rank_seconds(entry.work) > limit:
                    break
                before += entry.work.seconds
                taken += entry.work.seconds
        return before

    def eviction_candidate(self, newcomer: str, *, is_short: bool) -> QueueEntry | None:
        """Return the entry to remove from a full queue: the last one of the requester with the most entries.

        A requester is a group or an address. `is_short` selects entries of short or of long computations. Return None
        when the requester `newcomer` holds at least as many entries.
        """
        counts = Counter(entry.requester for entry in self if entry.work.is_short is is_short)
        largest, count = max(counts.items(), key=lambda item: item[1], default=(newcomer, 0))
        if count <= counts[newcomer]:
            return None
        queue = reversed(self._accounts[largest].queue)
        return next(entry for _, entry in queue if entry.work.is_short is is_short)

    def _account(self, requester: str) -> _Account:
        account = self._accounts.get(requester)
        if account is None or not (account.queue or account.running_count):
            smallest = min((each.used_seconds for each in self._accounts.values() if each.queue), default=0.0)
            start = max(self._virtual_time, smallest)
            if account is None:
                account = self._accounts[requester] = _Account(start)
            account.used_seconds = max(account.used_seconds, start)
        return account


def _rank_seconds(work: QueuedComputation) -> float:
    return min(work.seconds, MAX_RANK_SECONDS)
