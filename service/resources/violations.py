"""Violated invariants that proofs guarantee: some end a computation, others only remove one engine's answer.

A survived violation is no longer an exception when the answer is complete. `collect_violations` reports it to the
caller that runs the computation, in this process or in a worker.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import final

from service.privacy.errors import NumericalFailure

_collected: ContextVar[list[NumericalFailure] | None] = ContextVar("noted", default=None)


def is_violation(error: Exception) -> bool:
    """Return whether an exception reports that a proved invariant did not hold."""
    return isinstance(error, NumericalFailure)


def record_violation(violation: NumericalFailure) -> None:
    """Record a violated invariant that does not end the computation of the current answer.

    Outside a block of `collect_violations`, do nothing.
    """
    collected = _collected.get()
    if collected is not None:
        collected.append(violation)


def collect_violations() -> AbstractContextManager[list[NumericalFailure]]:
    """Return a context manager that yields the list of all violated invariants recorded in its block."""
    return _ViolationCollector()


@final
class _ViolationCollector:
    # a class, because a generator would take longer than an answer in closed form
    __slots__ = ("_before",)

    def __enter__(self) -> list[NumericalFailure]:
        collected: list[NumericalFailure] = []
        self._before = _collected.set(collected)
        return collected

    def __exit__(self, *_: object) -> None:
        _collected.reset(self._before)
