"""Errors of the storage and computation of jobs.

JobsError
- JobNotFound              no job has this id, or the job has expired
- JobsUnavailable          the storage of jobs cannot be read or written
- IdempotencyKeyReused     another job has this idempotency key
- InvalidJob               the request in a job does not match its resource
- PageBeyondEnd            a page of results starts beyond the last point
- InvalidCursor            the cursor belongs to no page of the list
- JobTooOld                the job exceeded the age limit
- ResultsTooLarge          the results exceed the storage quota of all jobs
"""

from __future__ import annotations

from api_schemas.problems import FieldError


class JobsError(Exception):
    """Base class of all errors in `service.jobs`."""


class JobNotFound(JobsError):
    """Unknown id of a job, or id of a job that has expired."""


class JobsUnavailable(JobsError):
    """Storage of jobs that does not respond or has no room. `reason` is for the log and contains no address."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class IdempotencyKeyReused(JobsError):
    """Idempotency key that the requester has sent with a different body before."""

    name, sentence = "Idempotency-Key", ""


class InvalidJob(JobsError):
    """Request in a job that does not match its resource. `errors` holds JSON pointers into the body, and reasons."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        self.errors = errors
        super().__init__(f"{len(errors)} places are wrong")


class PageBeyondEnd(JobsError):
    """Page of results that starts beyond the last point. `name` is the parameter, `sentence` the allowed range."""

    name = "start"

    def __init__(self, total: int) -> None:
        self.sentence = f"Must be below {total}, the number of points of the job."
        super().__init__(f"{total} points")


class InvalidCursor(JobsError):
    """Cursor that no page of the list returned as `next`."""

    name, sentence = "cursor", "Must be the `next` of a page of this list."


class JobTooOld(JobsError):
    """Job that did not end within the age limit of `limit_seconds`."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        super().__init__(f"not done {limit_seconds:g} s after it was accepted")


class ResultsTooLarge(JobsError):
    """Job whose results exceed the storage quota of all jobs together."""
