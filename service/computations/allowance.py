"""How much work a request may do, and how its readings share it: what is not found by then comes back as wide as it is
known, with `tolerance_met: false`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, final

from service.privacy.numerics.work import Work, at_most

MOST_WORK: Final = 8e6
"""In microseconds of CPU, roughly: well below the time limit of a worker, for no count is exact and machines differ."""
OF_SEVERAL: Final = 1.5
"""Quotient of the allowance of several questions and that of one: they may need more together, but never wait long."""
SURELY_TOO_LONG: Final = 20e6
"""What surely costs more is work for a job, ..."""
WORK_OF_A_JOB: Final = 400e6
"""... and may do more: the same request has the same allowance, whoever waits for it."""
SMALLEST_SHARE: Final = 1 / 6
"""Of what is left, for each reading, however many follow: most are cheap, or read what others kept."""


def share(work: Work, left: int) -> float:
    """What one of so many readings may take of the work that is left; the last one all of it."""
    return work.left * max(1 / max(left, 1), SMALLEST_SHARE)


@final
class WorkBudgetShares:
    """The allowance of what consists of so many parts, one after another."""

    def __init__(self, work: Work, parts: int) -> None:
        self._work, self._left = work, parts

    @contextmanager
    def next_share(self) -> Generator[None]:
        """The work inside is that of the next part."""
        with at_most(share(self._work, self._left)):
            yield
        self._left -= 1
