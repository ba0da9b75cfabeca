"""Every error that a caller can meet, in one tree, and the problem (RFC 9457) that each is answered with.

Exception
- RequestBodyError            parsing.py: what can be wrong with a body
  - MalformedJson
  - NotANumber
  - InvalidRequest
  - TooManyJsonValues
  - DuplicateKeys
- ArchiveError                computations/array_archive.py: what can be wrong with an archive of arrays
- PrivacyComputationError     privacy/errors.py: what the numeric core refuses, or cannot vouch for
  - OutOfDomain
  - UnsupportedCombination
  - NumericalFailure
  - DeadlinePassed
- ExecutionError              execution/errors.py: what can happen between a valid request and its computation
  - ComputeBudgetExceeded
  - QueueFull
  - OutOfTime
  - OutOfMemory
  - WorkerDied
  - ClientGone                (nobody is left to be answered)
- JobsError                   jobs/errors.py: what can happen to a request that is computed later
  - JobNotFound
  - JobsUnavailable
  - IdempotencyKeyReused
  - InvalidJob
  - PageBeyondEnd
  - InvalidCursor
  - JobTooOld
  - ResultsTooLarge
- ApiError                    here: what only a service over HTTP has
  - UnsupportedMediaType
  - BodyTooLarge
  - ShuttingDown
  - ResultNotFound
  - DecisionNotFound
  - NotAcceptable
  - InvalidParameter

A room knows its own errors and nothing of HTTP; titles, statuses and remedies are in the tables below. This module
knows no web framework: the command line reports problems too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from api_schemas.problems import FieldError, Problem, ProblemType, field_errors
from service.computations.array_archive import ArchiveError
from service.execution.errors import ComputeBudgetExceeded, OutOfMemory, OutOfTime, QueueFull, WorkerDied
from service.jobs.errors import (
    IdempotencyKeyReused,
    InvalidCursor,
    InvalidJob,
    JobNotFound,
    JobsUnavailable,
    JobTooOld,
    PageBeyondEnd,
    ResultsTooLarge,
)
from service.parsing import DuplicateKeys, InvalidRequest, MalformedJson, NotANumber, TooManyJsonValues
from service.privacy.errors import DeadlinePassed, NumericalFailure, OutOfDomain, UnsupportedCombination


class ApiError(Exception):
    """Base of all errors of this room."""


class UnsupportedMediaType(ApiError):
    """The body does not say that it is plain JSON."""


class BodyTooLarge(ApiError):
    """The body is longer than the service reads."""


class ShuttingDown(ApiError):
    """The service ends before the answer is there."""


class ResultNotFound(ApiError):
    """No result with this digest is stored here."""


class DecisionNotFound(ApiError):
    """No decision with this id is stored here."""


class NotAcceptable(ApiError):
    """The client takes none of the forms that there are."""

    def __init__(self, offered: tuple[str, ...]) -> None:
        self.offered = offered
        super().__init__(", ".join(offered))


class InvalidParameter(ApiError):
    """A parameter of the query, or a header, that is not as documented; `sentence`: what is allowed."""

    def __init__(self, name: str, sentence: str) -> None:
        self.name, self.sentence = name, sentence
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """What all problems of one kind have in common. `remedy`: what to do; "" where every error says it for itself."""

    type: ProblemType
    """The URI reference that names the kind."""
    title: str
    status: int
    remedy: str = ""

    def problem(self, *, instance: str, request_id: str, **particulars: Any) -> Problem:
        """One occurrence: `detail`, by default the remedy, `errors`, by default none, and what else a problem has."""
        said: dict[str, Any] = {"detail": self.remedy, "errors": (), **particulars}
        return Problem(
            type=self.type, title=self.title, status=self.status, instance=instance, request_id=request_id, **said
        )


UNKNOWN: Final = ProblemKind(
    "/problems/internal-error",
    "Internal error",
    500,
    "Something went wrong here, and it is not your request. The request id helps to find it in the logs.",
)
INVALID_PARAMETER: Final = ProblemKind(
    "/problems/invalid-parameter", "Invalid parameter", 422, "Does not have the documented form."
)

ServerRefusal = Literal[
    "malformed-http",
    "http-version-not-supported",
    "request-timeout",
    "uri-too-long",
    "headers-too-large",
    "too-many-connections",
    "shutting-down",
]
"""What the server refuses before, or instead of, the application."""

SERVER_KINDS: Final[dict[ServerRefusal, ProblemKind]] = {
    "malformed-http": ProblemKind(
        "/problems/malformed-http",
        "Not HTTP",
        400,
        "What was sent is not an HTTP request, or too many requests at once.",
    ),
    "http-version-not-supported": ProblemKind(
        "/problems/http-version-not-supported",
        "HTTP version not supported",
        505,
        "This service speaks HTTP/1.1 and HTTP/1.0. Name one of them in the request line.",
    ),
    "request-timeout": ProblemKind(
        "/problems/request-timeout",
        "Request took too long to arrive",
        408,
        "Headers and body of a request have to arrive sooner than they did.",
    ),
    "uri-too-long": ProblemKind(
        "/problems/uri-too-long",
        "Request target too long",
        414,
        "The path and the query are longer than this service reads.",
    ),
    "headers-too-large": ProblemKind(
        "/problems/headers-too-large", "Headers too large", 431, "The headers are longer than this service reads."
    ),
    "too-many-connections": ProblemKind(
        "/problems/too-many-connections",
        "Too many connections",
        503,
        "Too many connections are open. Close or use those there are, then try again.",
    ),
    "shutting-down": ProblemKind(
        "/problems/shutting-down",
        "Shutting down",
        503,
        "This instance is about to end. Send the request again, to another one.",
    ),
}

TIME_LIMIT: Final = ProblemKind(
    "/problems/out-of-time",
    "Time limit exceeded",
    504,
    "The computation met its time limit and was ended. Ask fewer questions, for fewer points, or with a larger "
    "tolerance; or send it to POST /v1/jobs, or with the header `Prefer: respond-async`: jobs may take longer.",
)

KINDS: Final[dict[type[Exception], ProblemKind]] = {
    MalformedJson: ProblemKind("/problems/malformed-json", "Body is not JSON", 400),
    NotANumber: ProblemKind(
        "/problems/malformed-json", "Body is not JSON", 400, "JSON has no NaN and no infinity; send a finite number."
    ),
    InvalidRequest: ProblemKind("/problems/invalid-request", "Invalid request", 422),
    TooManyJsonValues: ProblemKind(
        "/problems/invalid-request",
        "Invalid request",
        422,
        f"A request may hold at most {TooManyJsonValues.limit} values and {TooManyJsonValues.object_limit} objects. "
        "Send equal neighbours of a schedule or history as one.",
    ),
    DuplicateKeys: ProblemKind(
        "/problems/invalid-request", "Invalid request", 422, "This key is given more than once; give it once."
    ),
    ArchiveError: ProblemKind("/problems/invalid-request", "Invalid request", 422),
    OutOfDomain: ProblemKind("/problems/out-of-domain", "Value outside the domain", 422),
    UnsupportedCombination: ProblemKind("/problems/unsupported-combination", "Combination not supported", 422),
    NumericalFailure: ProblemKind(
        "/problems/numerical-failure",
        "Numerical failure",
        500,
        "A check of the computation failed, so no number is given. The request id is in the logs.",
    ),
    ComputeBudgetExceeded: ProblemKind(
        "/problems/compute-budget-exceeded",
        "Compute budget exceeded",
        422,
        "The estimated cost is above the limit; nothing was computed. Send it to POST /v1/jobs, or with the header "
        "`Prefer: respond-async`, where the limit is higher; or ask fewer questions, or for fewer points.",
    ),
    QueueFull: ProblemKind(
        "/problems/overloaded",
        "Overloaded",
        503,
        "Too much work waits already. Try again after the time in `Retry-After`.",
    ),
    OutOfTime: TIME_LIMIT,
    DeadlinePassed: TIME_LIMIT,
    OutOfMemory: ProblemKind(
        "/problems/out-of-memory",
        "Memory limit exceeded",
        422,
        "The computation needs more memory than GET /v1/limits allows. Ask fewer questions, or send less.",
    ),
    WorkerDied: ProblemKind(
        "/problems/worker-died",
        "Computation was ended",
        500,
        "The process of the computation ended before it answered. No other request is affected; try again.",
    ),
    JobNotFound: ProblemKind(
        "/problems/job-not-found",
        "Job not found",
        404,
        "No job has this id here. Jobs are forgotten some time after they have ended; GET /v1/limits says when.",
    ),
    JobsUnavailable: ProblemKind(
        "/problems/jobs-unavailable",
        "Jobs are not available",
        503,
        "What keeps the jobs does not answer or has no room. Jobs that were accepted are kept; try again. Requests "
        "that are answered at once are not affected.",
    ),
    IdempotencyKeyReused: ProblemKind(
        "/problems/idempotency-key-reused",
        "Idempotency-Key used before",
        422,
        "This key was sent with another request. Choose a new key for a new job.",
    ),
    InvalidJob: ProblemKind("/problems/invalid-request", "Invalid request", 422),
    PageBeyondEnd: INVALID_PARAMETER,
    InvalidCursor: INVALID_PARAMETER,
    JobTooOld: ProblemKind(
        "/problems/out-of-time",
        "Time limit exceeded",
        504,
        "The job did not end within the age limit of jobs. Send it again in smaller parts, or when less work waits.",
    ),
    ResultsTooLarge: ProblemKind(
        "/problems/overloaded",
        "Overloaded",
        503,
        "The results of the job do not fit into the space for all jobs. Send it again in smaller parts.",
    ),
    NotAcceptable: ProblemKind(
        "/problems/not-acceptable",
        "Not acceptable",
        406,
        "There is no such form of this. `supported` lists those there are.",
    ),
    InvalidParameter: INVALID_PARAMETER,
    UnsupportedMediaType: ProblemKind(
        "/problems/unsupported-media-type",
        "Unsupported media type",
        415,
        "Send the body as plain JSON with the header `Content-Type: application/json`.",
    ),
    BodyTooLarge: ProblemKind(
        "/problems/body-too-large",
        "Body too large",
        413,
        "The body is longer than this service reads; GET /v1/limits says how long it may be. Send equal neighbours of "
        "a schedule or history as one.",
    ),
    ShuttingDown: SERVER_KINDS["shutting-down"],
    ResultNotFound: ProblemKind(
        "/problems/result-not-found",
        "Result not found",
        404,
        "No result with this digest is stored here. Results may be forgotten: send the request again.",
    ),
    DecisionNotFound: ProblemKind(
        "/problems/decision-not-found",
        "Decision not found",
        404,
        "No decision with this id is stored here. Decisions are forgotten with their results: send the assessment "
        "again, with its policy.",
    ),
}
"""The kind of every exception that is answered; a base class covers its children."""

HTTP_KINDS: Final[dict[int, ProblemKind]] = {
    404: ProblemKind(
        "/problems/not-found",
        "Not found",
        404,
        "There is nothing at this path. GET /v1/catalogue lists what can be asked, /docs every path.",
    ),
    405: ProblemKind(
        "/problems/method-not-allowed",
        "Method not allowed",
        405,
        "This path does not take this method; `Allow` lists those it takes.",
    ),
}
"""The kind of what the web framework refuses by itself."""


def kind_of(error: Exception) -> ProblemKind:
    """The kind of the nearest base class in the table; UNKNOWN where there is none."""
    return next((KINDS[base] for base in type(error).__mro__ if base in KINDS), UNKNOWN)


def problem_of(error: Exception, instance: str, request_id: str) -> Problem:
    """The problem that an exception is reported as. Neither what was sent nor an unknown exception's text is in it."""
    kind = kind_of(error)
    return kind.problem(instance=instance, request_id=request_id, **_particulars(error, kind.remedy))


def _particulars(error: Exception, remedy: str) -> dict[str, Any]:
    """What a problem says about this one occurrence, where that is more than the remedy."""
    match error:
        case InvalidRequest() | MalformedJson():
            return _in_the_body(tuple(field_errors(error.validation)))
        case ArchiveError():
            return _in_the_body((FieldError(pointer=error.pointer, detail=error.sentence),))
        case TooManyJsonValues():
            return _in_the_body((FieldError(pointer="", detail=remedy),))
        case NotANumber() | DuplicateKeys():
            return _in_the_body(tuple(FieldError(pointer=pointer, detail=remedy) for pointer in error.pointers))
        case OutOfDomain():
            detail = f"{error.name} must be {error.domain}." + (f" {error.remedy}" if error.remedy else "")
            return {"detail": detail, "errors": (FieldError(pointer=error.pointer, detail=detail),)}
        case UnsupportedCombination():
            detail = f"{error.requested} is not supported: {error.reason}"
            errors = (FieldError(pointer=error.pointer, detail=f"Supported: {', '.join(error.supported)}."),)
            return {"detail": detail, "errors": errors, "supported": error.supported}
        case InvalidJob():
            return _in_the_body(error.errors)
        case InvalidParameter() | PageBeyondEnd() | InvalidCursor() | IdempotencyKeyReused():
            return _in_a_parameter(error.name, error.sentence or remedy)
        case NotAcceptable():
            return {"errors": (FieldError(pointer="", detail=f"Accept: {remedy}"),), "supported": error.offered}
        case ComputeBudgetExceeded():
            return {"estimated_cost": error.estimate, "limit": error.limit}
        case _:
            return {}


def _in_a_parameter(name: str, sentence: str) -> dict[str, Any]:
    return {"detail": f"{name}: {sentence}", "errors": (FieldError(pointer="", detail=f"{name}: {sentence}"),)}


def _in_the_body(errors: tuple[FieldError, ...]) -> dict[str, Any]:
    count = "One place in the body is wrong." if len(errors) == 1 else f"{len(errors)} places in the body are wrong."
    return {"detail": count, "errors": errors}
