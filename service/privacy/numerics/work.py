"""How much a computation has done, and how much it may: counted, never timed, so that the same request has one answer.

Engines say what they do where it is much: about microseconds of CPU. Searches, and engines before they make anything
dear, ask whether the allowance is spent, and end with what is proved by then: every enclosure stays valid, and is wide
where nothing more could be done. Outside `at_most` nothing is counted.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import final


@final
@dataclass(slots=True, eq=False)
class Work:
    """`done` so far, and at which count it ends; both in microseconds, roughly."""

    done: float = 0.0
    end: float = math.inf

    @property
    def left(self) -> float:
        """What may still be done."""
        return max(self.end - self.done, 0.0)


_COUNTED: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def at_most(allowance: float) -> Generator[Work]:
    """Work inside is counted and may come to this; inside another allowance, to no more than what that has left."""
    work = _COUNTED.get()
    token = None
    if work is None:
        work = Work()
        token = _COUNTED.set(work)
    before = work.end
    work.end = min(before, work.done + allowance)
    try:
        yield work
    finally:
        work.end = before
        if token is not None:
            _COUNTED.reset(token)


def did(microseconds: float) -> None:
    """Counts work."""
    work = _COUNTED.get()
    if work is not None:
        work.done += microseconds


def is_spent() -> bool:
    """Whether no more should be begun."""
    work = _COUNTED.get()
    return work is not None and work.done >= work.end
