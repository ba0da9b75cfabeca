"""The queue for workers: requesters share the workers by work, not by the number of requests.

Each requester has an account of the seconds of work that it had. The next turn goes to the requester with the smallest
account, the work it asks for added (at most `LONGEST_PREFERENCE_SECONDS` of it). Short work of a requester that has had
little is therefore next, and long work is overtaken by at most that much work of each other requester. This is fair
queueing with a virtual time (WF2Q+, Bennett and Zhang 1997): a newcomer begins at the equal share of all accounts, or
at the smallest account that waits.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, final

Lane = Literal["ordinary", "reserve"]

LONGEST_PREFERENCE_SECONDS: Final = 2.0
"""Work that takes longer is ordered as if it took this long."""


@final
class QueuedWork:
    """One computation that needs a worker, and the requesters that wait for it.

    While it waits, it has a place in the queue for each of them that has room in its share. The first turn counts.
    """

    __slots__ = ("is_short", "places", "requesters", "seconds", "turn")

    def __init__(self, requester: str) -> None:
        self.requesters = Counter((requester,))
        self.seconds = 0.0
        self.is_short = False
        self.places: dict[str, QueuePlace] = {}
        self.turn: asyncio.Future[Lane] | None = None
        """Result: where the work runs. Fails when the work has lost its last place. None: it does not wait."""

    @property
    def is_waiting(self) -> bool:
        """Whether the work has no turn yet, and its task is there to take one."""
        return self.turn is not None and not self.turn.done()


@final
@dataclass(eq=False, frozen=True, slots=True)
class QueuePlace:
    """A place in the queue: one requester waits for one computation."""

    requester: str
    work: QueuedWork


@dataclass(slots=True)
class _Account:
    had: float
    running: float = 0.0
    runs: int = 0
    last_turn: int = 0
    line: list[tuple[float, QueuePlace]] = field(default_factory=list[tuple[float, QueuePlace]])
    """Places in their order, each with its rank: the account when the place was taken, with its work."""

    @property
    def taken(self) -> float:
        return self.had + self.running


@final
class FairQueue:
    """The line for one kind of workers, with the accounts of what these workers did. All times are seconds."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._level = 0.0
        self._turns = 0

    def __iter__(self) -> Iterator[QueuePlace]:
        for account in self._accounts.values():
            yield from (place for _, place in account.line)

    def append(self, place: QueuePlace) -> None:
        """Add a place, behind the places of its requester that rank as high."""
        account = self._account(place.requester)
        insort(account.line, (account.taken + _preference(place.work), place), key=lambda entry: entry[0])

    def remove(self, place: QueuePlace) -> None:
        """Remove a place, wherever it is; do nothing where it was removed before."""
        account = self._accounts.get(place.requester)
        if account is not None:
            account.line[:] = (entry for entry in account.line if entry[1] is not place)

    def begin(self, requester: str, work: QueuedWork) -> None:
        """Give a requester its turn."""
        account = self._account(requester)
        self._turns += 1
        account.last_turn = self._turns
        account.running += work.seconds
        account.runs += 1

    def end(self, requester: str, work: QueuedWork, took: float) -> None:
        """Charge a requester for work that has ended."""
        account = self._accounts[requester]
        account.runs -= 1
        account.running = account.running - work.seconds if account.runs else 0.0
        account.had += took
        active = [each for each in self._accounts.values() if each.line or each.runs]
        self._level = self._level + took / len(active) if active else 0.0
        for name, each in tuple(self._accounts.items()):
            if not (each.line or each.runs) and (each.had <= self._level or not active):
                del self._accounts[name]

    def first(self) -> QueuePlace | None:
        """Return the place whose turn is next."""
        waiting = [account for account in self._accounts.values() if account.line]
        if not waiting:
            return None
        best = min(waiting, key=lambda each: (each.taken + _preference(each.line[0][1].work), each.last_turn))
        return best.line[0][1]

    def seconds_before(self, requester: str, work: QueuedWork) -> float:
        """Return the work of all places that would have their turn before a new place of this requester."""
        account = self._account(requester)
        rank = account.taken + _preference(work)
        before = sum(place.work.seconds for own_rank, place in account.line if own_rank <= rank)
        limit = rank + before
        for other in self._accounts.values():
            taken = other.taken
            for _, place in () if other is account else other.line:
                if taken + _preference(place.work) > limit:
                    break
                before += place.work.seconds
                taken += place.work.seconds
        return before

    def last_of_largest(self, newcomer: str, *, is_short: bool) -> QueuePlace | None:
        """Return the last place of the requester with most places of this kind; None where the newcomer has as many."""
        counts = Counter(place.requester for place in self if place.work.is_short is is_short)
        largest, count = max(counts.items(), key=lambda item: item[1], default=(newcomer, 0))
        if count <= counts[newcomer]:
            return None
        line = reversed(self._accounts[largest].line)
        return next(place for _, place in line if place.work.is_short is is_short)

    def _account(self, requester: str) -> _Account:
        account = self._accounts.get(requester)
        if account is None or not (account.line or account.runs):
            smallest = min((each.had for each in self._accounts.values() if each.line), default=0.0)
            start = max(self._level, smallest)
            if account is None:
                account = self._accounts[requester] = _Account(start)
            account.had = max(account.had, start)
        return account


def _preference(work: QueuedWork) -> float:
    return min(work.seconds, LONGEST_PREFERENCE_SECONDS)
