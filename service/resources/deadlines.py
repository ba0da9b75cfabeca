"""Deadlines of requests with many parts. Only this module reads the clock: the core asks whether time is up."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager

from service.privacy.numerics.work import Deadline, ends_when


def ends_after(seconds: float = math.inf) -> AbstractContextManager[Deadline]:
    """Return a context manager that sets a deadline for the parts of a request after this many seconds.

    The default sets no deadline.
    """
    start = time.monotonic()
    return ends_when(lambda share: time.monotonic() >= start + share * seconds)
