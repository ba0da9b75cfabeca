"""Deadlines of requests with many parts. Time is read here: `service/privacy` reads no clock and asks if it is time."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager

from service.privacy.numerics.work import Deadline, ends_when


def ends_after(seconds: float = math.inf) -> AbstractContextManager[Deadline]:
    """Give the parts of a request this long from now. Without a number there is no deadline."""
    start = time.monotonic()
    return ends_when(lambda share: time.monotonic() >= start + share * seconds)
