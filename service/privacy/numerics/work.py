"""How much a computation has done, and how much it may: counted, never timed, so that the same request has one answer.

Engines say what they do where it is much: about microseconds of CPU. Searches, and engines before they make anything
dear, ask whether the allowance is spent, and end with what is proved by then: every enclosure stays valid, and is wide
where nothing more could be done. Outside `at_most` nothing is counted.

A request with many parts may have a deadline as well (`ends_when`). Parts that are complete by then are sent. A part
that the deadline cut short is not, and nothing of the response is stored, because another day it has other parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

Result = TypeVar("Result")


@final
@dataclass(slots=True, eq=False)
class Deadline:
    """When the parts of a request end: `is_over(share)` says whether this share of their time is over. `was_met`:
    whether a part ended by that.
    """

    is_over: Callable[[float], bool]
    was_met: bool = False

    def has_passed(self, share: float = 1.0) -> bool:
        """Return whether this share of the time is over, and remember that it was."""
        is_over = self.is_over(share)
        self.was_met = self.was_met or is_over
        return is_over


@final
@dataclass(slots=True, eq=False)
class Work:
    """`done` so far, and the count at which it ends; both in microseconds, roughly. `kept`: results of this request.

    `cut_short`: whether a search of the present reading ended because the allowance was spent.
    """

    done: float = 0.0
    end: float = math.inf
    kept: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    cut_short: bool = False
    deadline: Deadline | None = None

    @property
    def left(self) -> float:
        """What may still be done."""
        return max(self.end - self.done, 0.0)


_COUNTED: ContextVar[Work | None] = ContextVar("work", default=None)
_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_when(is_over: Callable[[float], bool]) -> Generator[Deadline]:
    """End the parts of a request when it is time. What is counted apart has no deadline: others use it, too."""
    deadline = Deadline(is_over)
    token = _DEADLINE.set(deadline)
    try:
        yield deadline
    finally:
        _DEADLINE.reset(token)


def is_late(share: float = 1.0) -> bool:
    """Return whether this share of the time of the request is over; False without a deadline."""
    deadline = _DEADLINE.get()
    return deadline is not None and deadline.has_passed(share)


def at_most(allowance: float) -> AbstractContextManager[Work]:
    """Work inside is counted and may come to this; inside another allowance, to no more than what that has left."""
    return _AtMost(allowance)


@final
class _AtMost:
    """A class, not a generator, which would cost several times as much: closed forms are read within two of these."""

    __slots__ = ("_allowance", "_before", "_token", "_work")

    def __init__(self, allowance: float) -> None:
        self._allowance = allowance

    def __enter__(self) -> Work:
        work = _COUNTED.get()
        self._token = None
        if work is None:
            work = Work(deadline=_DEADLINE.get())
            self._token = _COUNTED.set(work)
        self._work, self._before = work, work.end
        work.end = min(work.end, work.done + self._allowance)
        return work

    def __exit__(self, *_: object) -> None:
        self._work.end = self._before
        if self._token is not None:
            _COUNTED.reset(self._token)


@contextmanager
def counted_apart() -> Generator[Work]:
    """Work inside is counted by itself and without an end, whoever asks for it: of what is kept for others too."""
    work = Work()
    token = _COUNTED.set(work)
    try:
        yield work
    finally:
        _COUNTED.reset(token)


def count_work(microseconds: float) -> None:
    """Counts work."""
    work = _COUNTED.get()
    if work is not None:
        work.done += microseconds


def counted_work() -> float:
    """What was done so far; 0 where nothing is counted."""
    work = _COUNTED.get()
    return 0.0 if work is None else work.done


def kept_once(key: Hashable, compute: Callable[[], Result]) -> Result:
    """Return what `compute` returned the first time that this request needed `key`. Outside `at_most`, compute."""
    work = _COUNTED.get()
    if work is None:
        return compute()
    if key not in work.kept:
        work.kept[key] = compute()
    found: Result = work.kept[key]
    return found


def keep(key: Hashable, value: object) -> None:
    """Replace what `kept_once` returns for `key` in this request."""
    work = _COUNTED.get()
    if work is not None:
        work.kept[key] = value


def remaining_work() -> float:
    """What may still be done; infinite where nothing is counted."""
    work = _COUNTED.get()
    return math.inf if work is None else work.left


def is_spent(needed: float = 0.0) -> bool:
    """Whether no more should be begun; `needed`: work of what would be begun."""
    work = _COUNTED.get()
    if work is None:
        return False
    is_late = work.deadline is not None and work.deadline.has_passed()
    if not is_late and work.done < work.end and work.left >= needed:
        return False
    work.cut_short = True
    return True


def begin_reading() -> None:
    """Forget whether earlier searches ended because the allowance was spent."""
    work = _COUNTED.get()
    if work is not None:
        work.cut_short = False


def was_cut_short() -> bool:
    """Return whether a search ended because the allowance was spent, since `begin_reading`."""
    work = _COUNTED.get()
    return work is not None and work.cut_short
