"""Allowance of work of a request, and its division among evaluations.

Work is counted in the numeric core, in units of about 1 us of CPU time. An evaluation ends when its share of the work
is spent. The answer then has the width that was reached, with `tolerance_met: false`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, final

from service.privacy.numerics.work import Work, at_most

MOST_WORK: Final = 8e6
"""Approximate microseconds of CPU time. The allowance is well below the time limit of a worker, since counts are
approximate and machines differ."""
OF_SEVERAL: Final = 2.0
"""Ratio of the allowance of several questions to that of one. Several may need more together, but never delay long."""
SURELY_TOO_LONG: Final = 20e6
"""A request whose cost certainly exceeds this is work for a job."""
WORK_OF_A_JOB: Final = 400e6
"""Allowance of such a request, which is the same for every caller."""
SMALLEST_SHARE: Final = 1 / 6
"""Smallest share of the remaining work for an evaluation, however many follow. Most evaluations are inexpensive or use
cached results."""


def share(work: Work, left: int) -> float:
    """Return how much of `work` the next one of `left` evaluations may use, in microseconds of CPU time.

    This is an equal share of the remaining work, but at least one sixth of it.
    """
    return work.left * max(1 / max(left, 1), SMALLEST_SHARE)


@final
class WorkBudgetShares:
    """Division of the work (CPU time) that a request may use among its successive parts."""

    def __init__(self, work: Work, parts: int) -> None:
        self._work, self._left = work, parts

    @contextmanager
    def next_share(self, parts: int = 1) -> Generator[None]:
        """Limit the work in a `with` block to the shares of the next `parts` parts, and take these shares.

        Evaluations in the block end with the bounds reached so far when the shares are spent.
        """
        with at_most(min(parts * share(self._work, self._left), self._work.left)):
            yield
        self._left -= parts
