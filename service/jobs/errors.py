"""What can go wrong with jobs, as one tree.

JobsError
- JobNotFound              no job has this id: never, or not any more
- JobsUnavailable          nothing can be accepted or read now: the file or Redis does not take or give it
- IdempotencyKeyReused     another job has this key
- InvalidJob               the request in a job is none of its resource
- PageBeyondEnd            there is no point where the page should start
- InvalidCursor            no page of a list begins here
- JobTooOld                the job did not end within the age limit
- ResultsTooLarge          the results do not fit into the space for all jobs
"""

from __future__ import annotations

from api_schemas.problems import FieldError


class JobsError(Exception):
    """Base of all errors of the room of jobs."""


class JobNotFound(JobsError):
    """No job has this id: it never had, or it has been forgotten."""


class JobsUnavailable(JobsError):
    """What keeps the jobs does not answer, or has no room. `reason` is for the log: it names no place."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class IdempotencyKeyReused(JobsError):
    """The key of this request was given with another body."""

    name, sentence = "Idempotency-Key", ""


class InvalidJob(JobsError):
    """The request in a job is none of its resource. `errors`: where, from the whole body on, and why."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        self.errors = errors
        super().__init__(f"{len(errors)} places are wrong")


class PageBeyondEnd(JobsError):
    """The job has no point where the page should start. `name`: of the parameter; `sentence`: what is allowed."""

    name = "start"

    def __init__(self, total: int) -> None:
        self.sentence = f"Must be below {total}, the points of the job."
        super().__init__(f"{total} points")


class InvalidCursor(JobsError):
    """The cursor is not one that a page of the list named as `next`."""

    name, sentence = "cursor", "Must be the `next` of a page of this list."


class JobTooOld(JobsError):
    """The job did not end within the age limit. `limit_seconds`: the limit."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        super().__init__(f"not done {limit_seconds:g} s after it was accepted")


class ResultsTooLarge(JobsError):
    """The results of the job do not fit into the space for all jobs."""
