"""Deadlines of requests with many parts, by the clock: the core itself knows no clock, and is told when to end."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager

from service.privacy.numerics.work import Deadline, ends_when


def ends_after(seconds: float = math.inf) -> AbstractContextManager[Deadline]:
    """Give the parts of a request this long from now. Without a number there is no deadline."""
    start = time.monotonic()
    return ends_when(lambda share: time.monotonic() >= start + share * seconds)
