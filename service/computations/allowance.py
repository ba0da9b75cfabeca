"""How much work a request may do, and how its readings share it: what is not found by then comes back as wide as it is
known, with `tolerance_met: false`.
"""

from __future__ import annotations

from typing import Final

from service.privacy.numerics.work import Work

MOST_WORK: Final = 10e6
"""In microseconds of CPU, roughly: well below the time limit of a worker, for no count is exact and machines differ."""
LEAST_SHARE: Final = 1 / 6
"""Of what is left, for each reading, however many follow: most are cheap, or read what others kept."""


def share(work: Work, left: int) -> float:
    """What one of so many readings may take of the work that is left; the last one all of it."""
    return work.left * max(1 / max(left, 1), LEAST_SHARE)
