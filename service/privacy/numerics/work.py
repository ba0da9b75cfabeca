"""Counted work of a computation and its allowance, the work that a request may use.

Work is counted, never timed, so that equal requests have equal answers. Engines count expensive steps in microseconds
of CPU time, roughly. Searches, and engines before an expensive step, check whether the allowance is spent. They then
end with the bounds that are proved so far: every enclosure stays valid, and is wide where the work did not suffice.
Outside `at_most` no work is counted.

A request with many parts may also have a deadline (`ends_when`). The response contains the parts that are complete by
then. It does not contain the part that the deadline interrupts. The service does not store such a response, because a
later response to the same request may have other parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final

Result = TypeVar("Result")
Argument = TypeVar("Argument")

LAST_SHARE: Final = 1.1
"""Share of the time before a deadline after which curves are not evaluated any more."""


class _OutOfTime(Exception):
    """Raised by `count_work` to end a computation in `within_time`."""


@final
@dataclass(slots=True, eq=False)
class Deadline:
    """Deadline for the parts of a request.

    Attributes
    ----------
    is_over : callable
        Returns whether a share of the available time is over.
    was_met : bool
        Whether a part asked and was told that its share of the time is over, so that the deadline interrupted it.
    """

    is_over: Callable[[float], bool]
    was_met: bool = False

    def has_passed(self, share: float = 1.0) -> bool:
        """Return whether `share` (0 to 1) of the time before the deadline is over, and set `was_met` if it is."""
        is_over = self.is_over(share)
        self.was_met = self.was_met or is_over
        return is_over


@final
@dataclass(slots=True, eq=False)
class Work:
    """Counted work of a request, its limit, and the results that the request keeps.

    Attributes
    ----------
    done : float
        Work so far, in microseconds of CPU time, roughly.
    end : float
        Value of `done` at which the allowed work is spent.
    kept : dict
        Results that this request computes only once.
    cut_short : bool
        Whether a search of the present evaluation ended because the allowed work was spent, or the deadline passed.
    deadline : Deadline or None
        Deadline of the request; None without one, and for work that other requests share.
    """

    done: float = 0.0
    end: float = math.inf
    kept: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    cut_short: bool = False
    deadline: Deadline | None = None
    may_stop: bool = False

    @property
    def left(self) -> float:
        """Remaining work in microseconds of CPU time, roughly; infinite without a limit."""
        return max(self.end - self.done, 0.0)


_COUNTED: ContextVar[Work | None] = ContextVar("work", default=None)
_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_when(is_over: Callable[[float], bool]) -> Generator[Deadline]:
    """End the parts of a request, in this block, once `is_over(share)` is true for their share of the time (0 to 1).

    The functions `is_late` and `is_spent` tell this to the parts; nothing is raised. Work inside `count_separately` has
    no deadline, because other requests use its results too.
    """
    deadline = Deadline(is_over)
    token = _DEADLINE.set(deadline)
    try:
        yield deadline
    finally:
        _DEADLINE.reset(token)


def is_late(share: float = 1.0) -> bool:
    """Return whether `share` (0 to 1) of the time of the request is over; False without a deadline."""
    deadline = _DEADLINE.get()
    return deadline is not None and deadline.has_passed(share)


def at_most(allowance: float) -> AbstractContextManager[Work]:
    """Count the work in this block, and limit it to `allowance` microseconds and to what an outer limit has left.

    Nothing is raised at the limit: `is_spent` then tells searches to end.
    """
    return _AtMost(allowance)


@final
class _AtMost:
    """Context manager that counts and limits work, which is CPU time in microseconds.

    A generator would cost several times as much, and an answer in closed form uses two of these context managers.
    """

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
def count_separately() -> Generator[Work]:
    """Count the CPU time of this block separately from the request, and without a limit.

    Other requests share the results of the block.
    """
    work = Work()
    token = _COUNTED.set(work)
    try:
        yield work
    finally:
        _COUNTED.reset(token)


def count_work(microseconds: float) -> None:
    """Add `microseconds` of CPU time to the counted work of the request.

    A computation in `within_time` ends here if the request is out of time.
    """
    work = _COUNTED.get()
    if work is not None:
        work.done += microseconds
        if work.may_stop and is_out_of_time():
            raise _OutOfTime


def counted_work() -> float:
    """Return the work counted so far.

    Returns
    -------
    float
        Microseconds of CPU time, roughly; 0 outside `at_most`.
    """
    work = _COUNTED.get()
    return 0.0 if work is None else work.done


def compute_once(key: Hashable, compute: Callable[[], Result]) -> Result:
    """Return the result of `compute`, which is called once for each key of a request.

    Outside of a counting block (`at_most`) every call computes the result anew.
    """
    work = _COUNTED.get()
    if work is None:
        return compute()
    if key not in work.kept:
        work.kept[key] = compute()
    found: Result = work.kept[key]
    return found


def compute_complete_once(owner: object, key: Hashable, compute: Callable[[], Result]) -> Result:
    """Return the result of `compute`, which a request keeps for each `owner` and `key` if no search was cut short.

    Outside of a counting block (`at_most`) every call computes the result anew.
    """
    work = _COUNTED.get()
    if work is None:
        return compute()
    name = (id(owner), key)
    if name not in work.kept:
        found, is_complete = run_to_end(compute)
        if not is_complete:
            return found
        work.kept[name] = owner, found  # the stored owner keeps its id
    result: Result = work.kept[name][1]
    return result


def replace_kept(key: Hashable, value: object) -> None:
    """Replace the result stored for `key`, which `compute_once` returns in this request, by `value`.

    Outside of a counting block (`at_most`) nothing is stored.
    """
    work = _COUNTED.get()
    if work is not None:
        work.kept[key] = value


def remaining_work() -> float:
    """Return the remaining work that the request may use.

    Returns
    -------
    float
        Microseconds of CPU time, roughly; infinite outside `at_most`.
    """
    work = _COUNTED.get()
    return math.inf if work is None else work.left


def is_spent(needed: float = 0.0) -> bool:
    """Return whether the allowed work does not cover `needed` further microseconds, or the deadline has passed."""
    work = _COUNTED.get()
    if work is None:
        return False
    is_late = work.deadline is not None and work.deadline.has_passed()
    if not is_late and work.done < work.end and work.left >= needed:
        return False
    work.cut_short = True
    return True


def is_out_of_time() -> bool:
    """Return whether the deadline of the request is so far behind that no curve is evaluated any more.

    Numbers that are not known by then have the bounds of guessing, which cost nothing. Searches that only end because
    their work is spent still evaluate bounds that need little work.
    """
    work = _COUNTED.get()
    if work is None or work.deadline is None or not work.deadline.has_passed(LAST_SHARE):
        return False
    work.cut_short = True
    return True


def within_time(compute: Callable[[Argument], Result], guess: Callable[[Argument], Result], at: Argument) -> Result:
    """Return `compute(at)`, or `guess(at)` if the request runs out of time before or during the computation.

    Inside `compute`, `count_work` raises an exception when time is over. So `compute` leaves no partial results in
    objects that other requests use, unless it computes them in `count_separately`.
    """
    work = _COUNTED.get()
    if work is None or work.deadline is None:
        return compute(at)
    if is_out_of_time():
        return guess(at)
    before, work.may_stop = work.may_stop, True
    try:
        return compute(at)
    except _OutOfTime:
        return guess(at)
    finally:
        work.may_stop = before


def run_to_end(compute: Callable[[], Result]) -> tuple[Result, bool]:
    """Return the result of `compute`, and whether all its searches ended before the allowed work was spent."""
    work = _COUNTED.get()
    if work is None:
        return compute(), True
    before, work.cut_short = work.cut_short, False
    try:
        return compute(), not work.cut_short
    finally:
        work.cut_short = work.cut_short or before


def share_between(first: Callable[[], Result], second: Callable[[], Result]) -> tuple[Result, Result]:
    """Return the results of `first` and `second`, which share the remaining work of the request.

    `first` may use half of the remaining work. It runs again with all remaining work if it was cut short and `second`
    leaves work unused.
    """
    work = _COUNTED.get()
    if work is None:
        return first(), second()
    before = work.cut_short
    with at_most(work.left / 2):
        found, is_complete = run_to_end(first)
    if is_complete:
        return found, second()
    work.cut_short = before
    other = second()
    return (found if is_spent() else first()), other


def begin_evaluation() -> None:
    """Forget whether earlier searches of the request ended because its allowed work was spent."""
    work = _COUNTED.get()
    if work is not None:
        work.cut_short = False


def was_cut_short() -> bool:
    """Return whether a search ended because the allowed work was spent, since `begin_evaluation`."""
    work = _COUNTED.get()
    return work is not None and work.cut_short
