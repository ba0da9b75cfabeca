"""Errors between a valid request and its result.

ExecutionError
- ComputeBudgetExceeded    the estimated cost is above the limit of this service.
- WorkLimitExceeded        the requester has used up the work of its window of time.
- QueueFull                the queue has no room for the request; the client should retry later.
- OutOfTime                the computation exceeded its time limit and was killed.
- OutOfMemory              the computation exceeded the memory limit of its process.
- WorkerDied               the process of the computation ended unexpectedly.
- ResultQuarantined        two engines dispute the result, which is never served again.
- ClientGone               the client disconnected before the result was ready.
"""

from __future__ import annotations

from typing import Literal

Shortage = Literal["queue", "share", "wait"]
"""Reason of QueueFull: the queue is full, a requester with fewer entries took the entry, or the wait is too long."""


class ExecutionError(Exception):
    """Base class of all errors in `service.execution`."""


class ComputeBudgetExceeded(ExecutionError):
    """Raised for an estimated cost above the limit of the service, so that nothing was computed.

    `estimate` and `limit` are in units of about 1 us of CPU time.
    """

    def __init__(self, estimate: int, limit: int) -> None:
        self.estimate, self.limit = estimate, limit
        super().__init__(f"estimated cost {estimate} is above the limit {limit}")


class WorkLimitExceeded(ExecutionError):
    """Raised for work of one requester above the limit of a time window; nothing was computed.

    Costs are in units of about 1 us. `retry_after_seconds` is the time until the window ends.
    """

    def __init__(self, estimate: int, limit: int, retry_after_seconds: int) -> None:
        self.estimate, self.limit, self.retry_after_seconds = estimate, limit, retry_after_seconds
        super().__init__(f"work {estimate} exceeds what is left of {limit}, retry after {retry_after_seconds} s")


class QueueFull(ExecutionError):
    """Raised for a full queue, or when no resource is free.

    `retry_after_seconds` is the estimated time until there is room.
    """

    def __init__(self, retry_after_seconds: int, reason: Shortage = "queue") -> None:
        self.retry_after_seconds = retry_after_seconds
        self.reason: Shortage = reason
        super().__init__(f"queue full, retry after {retry_after_seconds} s")


class OutOfTime(ExecutionError):
    """Raised when a computation exceeds its time limit and its process was killed. `limit_seconds` is the limit."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        super().__init__(f"not done within {limit_seconds:g} s")


class OutOfMemory(ExecutionError):
    """Raised when a computation exceeds the memory limit of its worker process. `limit_bytes` is the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(f"more than {limit_bytes} bytes needed")


class WorkerDied(ExecutionError):
    """Raised when a worker process ended before it returned a result: it crashed or was killed from outside."""


class ResultQuarantined(ExecutionError):
    """Raised for a result that two independent engines dispute. Its digest is never served again."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__(f"{digest} is quarantined")


class ClientGone(ExecutionError):
    """Raised when the client disconnected while its result was computed, so that nobody receives it.

    `worker_seconds` is the time for which a worker computed, if the client was the last one.
    """

    worker_seconds: float = 0.0
