"""Errors that a caller may receive, as one tree, and the problem document (RFC 9457) for each.

Exception
- RequestBodyError            parsing.py: invalid bodies
  - MalformedJson
  - NotANumber
  - InvalidRequest
  - TooManyJsonValues
  - DuplicateKeys
- ArchiveError                resources/array_archive.py: invalid archives of arrays
- PrivacyComputationError     privacy/errors.py: requests that the core rejects, and failed checks
  - OutOfDomain
  - UnsupportedCombination
  - NumericalFailure
  - DeadlinePassed
- ExecutionError              execution/errors.py: failures to run a computation
  - ComputeBudgetExceeded
  - QueueFull
  - OutOfTime
  - OutOfMemory
  - WorkerDied
  - ClientGone                (without a response)
- JobsError                   jobs/errors.py: failures of jobs
  - JobNotFound
  - JobsUnavailable
  - IdempotencyKeyReused
  - InvalidJob
  - PageBeyondEnd
  - InvalidCursor
  - JobTooOld
  - ResultsTooLarge
- ApiError                    this module: errors that only occur over HTTP
  - UnsupportedMediaType
  - BodyTooLarge
  - ShuttingDown
  - ResultNotFound
  - DecisionNotFound
  - NotAcceptable
  - InvalidParameter

Each package defines its own errors without reference to HTTP. The tables below define titles, statuses and guidance.
This module imports no web framework, since the command line reports problems too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from api_schemas.problems import FieldError, Problem, ProblemType, field_errors
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
from service.resources.array_archive import ArchiveError


class ApiError(Exception):
    """Base of all errors that only occur over HTTP."""


class UnsupportedMediaType(ApiError):
    """Raised for a body whose `Content-Type` is not plain JSON."""


class BodyTooLarge(ApiError):
    """Raised for a body that exceeds the size limit."""


class ShuttingDown(ApiError):
    """Raised when the service stops before the answer is complete."""


class ResultNotFound(ApiError):
    """Raised for a digest without a stored result."""


class DecisionNotFound(ApiError):
    """Raised for an id without a stored decision."""


class NotAcceptable(ApiError):
    """Raised when the client accepts none of the media types of a resource."""

    def __init__(self, offered: tuple[str, ...]) -> None:
        self.offered = offered
        super().__init__(", ".join(offered))


class InvalidParameter(ApiError):
    """Raised for an invalid query parameter or header. sentence: the allowed values."""

    def __init__(self, name: str, sentence: str) -> None:
        self.name, self.sentence = name, sentence
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class ProblemDefinition:
    """Common part of all problem documents of one type. `guidance` is the remedy, or "" if every error has its own."""

    type: ProblemType
    """URI reference that names the type."""
    title: str
    status: int
    guidance: str = ""

    def problem(self, *, instance: str, request_id: str, **details: Any) -> Problem:
        """Return a problem of this type. `detail` defaults to the guidance, and `errors` (invalid members) to none."""
        said: dict[str, Any] = {"detail": self.guidance, "errors": (), **details}
        return Problem(
            type=self.type, title=self.title, status=self.status, instance=instance, request_id=request_id, **said
        )


INTERNAL_ERROR: Final = ProblemDefinition(
    "/problems/internal-error",
    "Internal error",
    500,
    "Something went wrong here, and it is not your request. The request id helps to find it in the logs.",
)
INVALID_PARAMETER: Final = ProblemDefinition(
    "/problems/invalid-parameter", "Invalid parameter", 422, "Does not have the documented form."
)

ServerRejection = Literal[
    "malformed-http",
    "http-version-not-supported",
    "request-timeout",
    "uri-too-long",
    "headers-too-large",
    "too-many-connections",
    "shutting-down",
]
"""Reasons for which the server rejects a request before, or instead of, the application."""

SERVER_PROBLEMS: Final[dict[ServerRejection, ProblemDefinition]] = {
    "malformed-http": ProblemDefinition(
        "/problems/malformed-http",
        "Not HTTP",
        400,
        "What was sent is not an HTTP request, or too many requests at once.",
    ),
    "http-version-not-supported": ProblemDefinition(
        "/problems/http-version-not-supported",
        "HTTP version not supported",
        505,
        "This service speaks HTTP/1.1 and HTTP/1.0. Name one of them in the request line.",
    ),
    "request-timeout": ProblemDefinition(
        "/problems/request-timeout",
        "Request took too long to arrive",
        408,
        "Headers and body of a request have to arrive sooner than they did.",
    ),
    "uri-too-long": ProblemDefinition(
        "/problems/uri-too-long",
        "Request target too long",
        414,
        "The path and the query are longer than this service reads.",
    ),
    "headers-too-large": ProblemDefinition(
        "/problems/headers-too-large", "Headers too large", 431, "The headers are longer than this service reads."
    ),
    "too-many-connections": ProblemDefinition(
        "/problems/too-many-connections",
        "Too many connections",
        503,
        "Too many connections are open. Close or use those there are, then try again.",
    ),
    "shutting-down": ProblemDefinition(
        "/problems/shutting-down",
        "Shutting down",
        503,
        "This instance is about to end. Send the request again, to another one.",
    ),
}

TIME_LIMIT: Final = ProblemDefinition(
    "/problems/out-of-time",
    "Time limit exceeded",
    504,
    "The computation met its time limit and was ended. Ask fewer questions, for fewer points, or with a larger "
    "tolerance; or send it to POST /v1/jobs, or with the header `Prefer: respond-async`: jobs may take longer.",
)

ERROR_PROBLEMS: Final[dict[type[Exception], ProblemDefinition]] = {
    MalformedJson: ProblemDefinition("/problems/malformed-json", "Body is not JSON", 400),
    NotANumber: ProblemDefinition(
        "/problems/malformed-json", "Body is not JSON", 400, "JSON has no NaN and no infinity; send a finite number."
    ),
    InvalidRequest: ProblemDefinition("/problems/invalid-request", "Invalid request", 422),
    TooManyJsonValues: ProblemDefinition(
        "/problems/invalid-request",
        "Invalid request",
        422,
        f"A request may hold at most {TooManyJsonValues.limit} values and {TooManyJsonValues.object_limit} objects. "
        "Send equal neighbours of a schedule or history as one.",
    ),
    DuplicateKeys: ProblemDefinition(
        "/problems/invalid-request", "Invalid request", 422, "This key is given more than once; give it once."
    ),
    ArchiveError: ProblemDefinition("/problems/invalid-request", "Invalid request", 422),
    OutOfDomain: ProblemDefinition("/problems/out-of-domain", "Value outside the domain", 422),
    UnsupportedCombination: ProblemDefinition("/problems/unsupported-combination", "Combination not supported", 422),
    NumericalFailure: ProblemDefinition(
        "/problems/numerical-failure",
        "Numerical failure",
        500,
        "A check of the computation failed, so no number is given. The request id is in the logs.",
    ),
    ComputeBudgetExceeded: ProblemDefinition(
        "/problems/compute-budget-exceeded",
        "Compute budget exceeded",
        422,
        "The estimated cost is above the limit; nothing was computed. Send it to POST /v1/jobs, or with the header "
        "`Prefer: respond-async`, where the limit is higher; or ask fewer questions, or for fewer points.",
    ),
    QueueFull: ProblemDefinition(
        "/problems/overloaded",
        "Overloaded",
        503,
        "Too much work waits already. Try again after the time in `Retry-After`.",
    ),
    OutOfTime: TIME_LIMIT,
    DeadlinePassed: TIME_LIMIT,
    OutOfMemory: ProblemDefinition(
        "/problems/out-of-memory",
        "Memory limit exceeded",
        422,
        "The computation needs more memory than GET /v1/limits allows. Ask fewer questions, or send less.",
    ),
    WorkerDied: ProblemDefinition(
        "/problems/worker-died",
        "Computation was ended",
        500,
        "The process of the computation ended before it answered. No other request is affected; try again.",
    ),
    JobNotFound: ProblemDefinition(
        "/problems/job-not-found",
        "Job not found",
        404,
        "No job has this id here. Jobs are forgotten some time after they have ended; GET /v1/limits says when.",
    ),
    JobsUnavailable: ProblemDefinition(
        "/problems/jobs-unavailable",
        "Jobs are not available",
        503,
        "What keeps the jobs does not answer or has no room. Jobs that were accepted are kept; try again. Requests "
        "that are answered at once are not affected.",
    ),
    IdempotencyKeyReused: ProblemDefinition(
        "/problems/idempotency-key-reused",
        "Idempotency-Key used before",
        422,
        "This key was sent with another request. Choose a new key for a new job.",
    ),
    InvalidJob: ProblemDefinition("/problems/invalid-request", "Invalid request", 422),
    PageBeyondEnd: INVALID_PARAMETER,
    InvalidCursor: INVALID_PARAMETER,
    JobTooOld: ProblemDefinition(
        "/problems/out-of-time",
        "Time limit exceeded",
        504,
        "The job did not end within the age limit of jobs. Send it again in smaller parts, or when less work waits.",
    ),
    ResultsTooLarge: ProblemDefinition(
        "/problems/overloaded",
        "Overloaded",
        503,
        "The results of the job do not fit into the space for all jobs. Send it again in smaller parts.",
    ),
    NotAcceptable: ProblemDefinition(
        "/problems/not-acceptable",
        "Not acceptable",
        406,
        "There is no such form of this. `supported` lists those there are.",
    ),
    InvalidParameter: INVALID_PARAMETER,
    UnsupportedMediaType: ProblemDefinition(
        "/problems/unsupported-media-type",
        "Unsupported media type",
        415,
        "Send the body as plain JSON with the header `Content-Type: application/json`.",
    ),
    BodyTooLarge: ProblemDefinition(
        "/problems/body-too-large",
        "Body too large",
        413,
        "The body is longer than this service reads; GET /v1/limits says how long it may be. Send equal neighbours of "
        "a schedule or history as one.",
    ),
    ShuttingDown: SERVER_PROBLEMS["shutting-down"],
    ResultNotFound: ProblemDefinition(
        "/problems/result-not-found",
        "Result not found",
        404,
        "No result with this digest is stored here. Results may be forgotten: send the request again.",
    ),
    DecisionNotFound: ProblemDefinition(
        "/problems/decision-not-found",
        "Decision not found",
        404,
        "No decision with this id is stored here. Decisions are forgotten with their results: send the assessment "
        "again, with its policy.",
    ),
}
"""Problem definition of every exception that receives a response. A base class covers its subclasses."""

HTTP_PROBLEMS: Final[dict[int, ProblemDefinition]] = {
    404: ProblemDefinition(
        "/problems/not-found",
        "Not found",
        404,
        "There is nothing at this path. GET /v1/catalogue lists what can be asked, /docs every path.",
    ),
    405: ProblemDefinition(
        "/problems/method-not-allowed",
        "Method not allowed",
        405,
        "This path does not take this method; `Allow` lists those it takes.",
    ),
}
"""Problem definitions for statuses that the web framework raises itself."""

ALL_PROBLEMS: Final = (INTERNAL_ERROR, *SERVER_PROBLEMS.values(), *ERROR_PROBLEMS.values(), *HTTP_PROBLEMS.values())
"""Definitions of all problems. A type may have several definitions."""


def definition_of(error: Exception) -> ProblemDefinition:
    """Return the definition of the nearest base class of an error, or INTERNAL_ERROR."""
    return next((ERROR_PROBLEMS[base] for base in type(error).__mro__ if base in ERROR_PROBLEMS), INTERNAL_ERROR)


def problem_of(error: Exception, instance: str, request_id: str) -> Problem:
    """Return the problem that reports an exception. It contains no request data and no text of unknown exceptions."""
    definition = definition_of(error)
    return definition.problem(instance=instance, request_id=request_id, **_details(error, definition.guidance))


def _details(error: Exception, guidance: str) -> dict[str, Any]:
    """Return the members of a problem document that depend on the error."""
    match error:
        case InvalidRequest() | MalformedJson():
            return _body_details(tuple(field_errors(error.validation)))
        case ArchiveError():
            return _body_details((FieldError(pointer=error.pointer, detail=error.sentence),))
        case TooManyJsonValues():
            return _body_details((FieldError(pointer="", detail=guidance),))
        case NotANumber() | DuplicateKeys():
            return _body_details(tuple(FieldError(pointer=pointer, detail=guidance) for pointer in error.pointers))
        case OutOfDomain():
            detail = f"{error.name} must be {error.domain}." + (f" {error.remedy}" if error.remedy else "")
            return {"detail": detail, "errors": (FieldError(pointer=error.pointer, detail=detail),)}
        case UnsupportedCombination():
            detail = f"{error.requested} is not supported: {error.reason}"
            errors = (FieldError(pointer=error.pointer, detail=f"Supported: {', '.join(error.supported)}."),)
            return {"detail": detail, "errors": errors, "supported": error.supported}
        case InvalidJob():
            return _body_details(error.errors)
        case InvalidParameter() | PageBeyondEnd() | InvalidCursor() | IdempotencyKeyReused():
            return _parameter_details(error.name, error.sentence or guidance)
        case NotAcceptable():
            return {"errors": (FieldError(pointer="", detail=f"Accept: {guidance}"),), "supported": error.offered}
        case ComputeBudgetExceeded():
            return {"estimated_cost": error.estimate, "limit": error.limit}
        case _:
            return {}


def _parameter_details(name: str, sentence: str) -> dict[str, Any]:
    return {"detail": f"{name}: {sentence}", "errors": (FieldError(pointer="", detail=f"{name}: {sentence}"),)}


def _body_details(errors: tuple[FieldError, ...]) -> dict[str, Any]:
    count = "One place in the body is wrong." if len(errors) == 1 else f"{len(errors)} places in the body are wrong."
    return {"detail": count, "errors": errors}
