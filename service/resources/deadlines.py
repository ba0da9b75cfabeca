"""Deadlines of requests with many parts. Only this module reads the clock: the core asks whether time is up."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager
from typing import Final

from service.privacy.numerics.work import Deadline, compute_once, ends_when, is_late

_BEGUN_LATE: Final = "evaluations begun after the deadline"


def ends_after(seconds: float = math.inf) -> AbstractContextManager[Deadline]:
    """Return a context manager that sets a deadline for the parts of a request after this many seconds.

    The default sets no deadline.
    """
    start = time.monotonic()
    return ends_when(lambda share: time.monotonic() >= start + share * seconds)


def is_too_late(*, has_answer: bool) -> bool:
    """Return whether the time of the request is over, so that no further evaluation is begun.

    One evaluation is begun even then if none was before it, since an answer without any evaluation is of little use.

    Parameters
    ----------
    has_answer : bool
        Whether an evaluation of the same curves is complete. Its numbers bound all others.

    Returns
    -------
    bool
        False before the deadline, and once in a request after the deadline.
    """
    if not is_late():
        return False
    begun = compute_once(_BEGUN_LATE, list[None])
    if has_answer or begun:
        return True
    begun.append(None)
    return False
