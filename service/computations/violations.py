"""Violated invariants: those that end a computation, and those that an answer of many engines survives.

A survived one is no exception any more when the answer is done, and would be known to nobody but its reader: `noted`
keeps it for whoever runs the computation, in this process or in a worker.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import final

from service.privacy.errors import NumericalFailure

_collected: ContextVar[list[NumericalFailure] | None] = ContextVar("noted", default=None)


def is_violation(error: Exception) -> bool:
    """Whether an exception says that an invariant did not hold which proofs guarantee."""
    return isinstance(error, NumericalFailure)


def record_violation(violation: NumericalFailure) -> None:
    """Keep a violation that the answer under way survives; nothing where nobody collects them."""
    collected = _collected.get()
    if collected is not None:
        collected.append(violation)


def collect_violations() -> AbstractContextManager[list[NumericalFailure]]:
    """The list of all violations noted until the block ends."""
    return _Collector()


@final
class _Collector:
    """A class, not a generator, which would cost several times as much for every closed form."""

    __slots__ = ("_before",)

    def __enter__(self) -> list[NumericalFailure]:
        collected: list[NumericalFailure] = []
        self._before = _collected.set(collected)
        return collected

    def __exit__(self, *_: object) -> None:
        _collected.reset(self._before)
