"""Errors of the storage and computation of jobs.

JobsError
- JobNotFound              no job has this id, or the job has expired.
- JobsUnavailable          the storage of jobs cannot be read or written.
- IdempotencyKeyReused     another job has this idempotency key.
- InvalidJob               the request in a job does not match its resource.
- PageBeyondEnd            a page of results starts beyond the last point.
- InvalidCursor            the cursor belongs to no page of the list.
- JobTooOld                the job exceeded the age limit.
- ResultsTooLarge          the results exceed the storage quota of all jobs.
"""

from __future__ import annotations

from api_schemas.problems import FieldError


class JobsError(Exception):
    """Base class of all errors in `service.jobs`."""


class JobNotFound(JobsError):
    """Raised for the id of a job that is unknown, or that has expired."""


class JobsUnavailable(JobsError):
    """Raised when the storage of jobs does not respond or has no room.

    `reason` is a phrase for the log without addresses, such as the class of an error of Redis.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class IdempotencyKeyReused(JobsError):
    """Raised for an idempotency key that the requester has sent with a different body before."""

    name, sentence = "Idempotency-Key", ""


class InvalidJob(JobsError):
    """Raised for a job whose request does not match its resource.

    `errors` has JSON pointers into the body, and reasons.
    """

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        self.errors = errors
        super().__init__(f"{len(errors)} places are wrong")


class PageBeyondEnd(JobsError):
    """Raised for a page of results that starts beyond the last point.

    `name` is the parameter, `sentence` the allowed range.
    """

    name = "start"

    def __init__(self, total: int) -> None:
        self.sentence = f"Must be below {total}, the number of points of the job."
        super().__init__(f"{total} points")


class InvalidCursor(JobsError):
    """Raised for a cursor that no page of the list of jobs returned as `next`.

    Only its form is checked: a decimal number.
    """

    name, sentence = "cursor", "Must be the `next` of a page of this list."


class JobTooOld(JobsError):
    """Raised for a job that did not end within the age limit of `limit_seconds`."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        super().__init__(f"not done {limit_seconds:g} s after it was accepted")


class ResultsTooLarge(JobsError):
    """Raised for a job whose results exceed the storage quota of all jobs together."""
