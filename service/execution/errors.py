"""What can go wrong between a valid request and its computation, as one tree.

ExecutionError
- ComputeBudgetExceeded    the estimate is above what this service computes
- QueueFull                too much work waits already; later is better
- OutOfTime                the computation met its time limit and was killed
- OutOfMemory              the computation met the memory limit of its process
- WorkerDied               the process of the computation ended, and not by our hand
- ClientGone               nobody waits for the answer any more
"""

from __future__ import annotations

from typing import Literal

Shortage = Literal["queue", "share", "wait"]
"""Why there is no place in the queue: all are taken, a requester with fewer places took this one, the wait is long."""


class ExecutionError(Exception):
    """Base of all errors of the execution room."""


class ComputeBudgetExceeded(ExecutionError):
    """The estimated cost of a request is above the limit; nothing was computed. Both in units of about 1 us of CPU."""

    def __init__(self, estimate: int, limit: int) -> None:
        self.estimate, self.limit = estimate, limit
        super().__init__(f"estimated cost {estimate} is above the limit {limit}")


class QueueFull(ExecutionError):
    """Too many computations wait for a worker; `retry_after_seconds` is the estimated time until a place is free."""

    def __init__(self, retry_after_seconds: int, reason: Shortage = "queue") -> None:
        self.retry_after_seconds = retry_after_seconds
        self.reason: Shortage = reason
        super().__init__(f"queue full, retry after {retry_after_seconds} s")


class OutOfTime(ExecutionError):
    """The computation met its time limit; its process was killed."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        super().__init__(f"not done within {limit_seconds:g} s")


class OutOfMemory(ExecutionError):
    """The computation met the memory limit of its process."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(f"more than {limit_bytes} bytes needed")


class WorkerDied(ExecutionError):
    """The process of the computation ended before it answered (killed from outside, or crashed)."""


class ClientGone(ExecutionError):
    """The client went away while its answer was computed; the answer has no reader."""
