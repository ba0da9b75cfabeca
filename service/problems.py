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
  - DisputedRun
- AccessError                 access/errors.py: who may call
  - Unauthenticated
  - MissingScope
  - AuthenticationUnavailable
- ExecutionError              execution/errors.py: failures to run a computation
  - ComputeBudgetExceeded
  - WorkLimitExceeded
  - QueueFull
  - OutOfTime
  - OutOfMemory
  - WorkerDied
  - ResultQuarantined
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
    - NoStatement
  - InvalidParameter

Each package defines its own errors without reference to HTTP. The tables below define titles, statuses and guidance.
This module imports no web framework, since the command line reports problems too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from api_schemas.problems import FieldError, Problem, ProblemType, field_errors
from service.access.errors import AuthenticationUnavailable, MissingScope, Unauthenticated
from service.execution.errors import (
    ComputeBudgetExceeded,
    OutOfMemory,
    OutOfTime,
    QueueFull,
    ResultQuarantined,
    WorkerDied,
    WorkLimitExceeded,
)
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
from service.privacy.errors import DeadlinePassed, DisputedRun, NumericalFailure, OutOfDomain, UnsupportedCombination
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
    """Raised for the digest of a result that is not stored."""


class DecisionNotFound(ApiError):
    """Raised for the id of a decision that is not stored."""


class NotAcceptable(ApiError):
    """Raised when the client accepts none of the offered media types of a resource."""

    def __init__(self, offered: tuple[str, ...]) -> None:
        self.offered = offered
        super().__init__(", ".join(offered))


class NoStatement(NotAcceptable):
    """Raised when the client accepts signed statements only, and there is none. `sentence` is the reason."""

    def __init__(self, offered: tuple[str, ...], sentence: str) -> None:
        self.sentence = sentence
        super().__init__(offered)


class InvalidParameter(ApiError):
    """Raised for an invalid query parameter or header. `sentence` states the allowed values."""

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
        """Return a problem of this type about the request with the URI `instance`.

        `detail` defaults to the guidance, and `errors` (invalid members) to none.
        """
        members: dict[str, Any] = {"detail": self.guidance, "errors": (), **details}
        return Problem(
            type=self.type, title=self.title, status=self.status, instance=instance, request_id=request_id, **members
        )


INTERNAL_ERROR: Final = ProblemDefinition(
    "/problems/internal-error",
    "Internal error",
    500,
    "The service failed, and the request is not the cause. Report the request id to the operators, who find it "
    "in the logs.",
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
        "The request is not valid HTTP. Check the request line and headers, and wait for a response before sending "
        "many more requests.",
    ),
    "http-version-not-supported": ProblemDefinition(
        "/problems/http-version-not-supported",
        "HTTP version not supported",
        505,
        "Send the request with HTTP/1.1 or HTTP/1.0.",
    ),
    "request-timeout": ProblemDefinition(
        "/problems/request-timeout",
        "Request took too long to arrive",
        408,
        "The headers and the body did not arrive within the time limit. Send the request again over a faster "
        "connection.",
    ),
    "uri-too-long": ProblemDefinition(
        "/problems/uri-too-long",
        "Request target too long",
        414,
        "The path and the query exceed the size limit. Send the data in the body.",
    ),
    "headers-too-large": ProblemDefinition(
        "/problems/headers-too-large",
        "Headers too large",
        431,
        "The headers exceed the size limit. Send fewer or shorter headers.",
    ),
    "too-many-connections": ProblemDefinition(
        "/problems/too-many-connections",
        "Too many connections",
        503,
        "Too many connections are open. Close or reuse connections, then try again.",
    ),
    "shutting-down": ProblemDefinition(
        "/problems/shutting-down",
        "Shutting down",
        503,
        "This instance is shutting down. Send the request again to another instance.",
    ),
}

TIME_LIMIT: Final = ProblemDefinition(
    "/problems/out-of-time",
    "Time limit exceeded",
    504,
    "The computation exceeded its time limit. Send fewer questions, fewer points or a larger tolerance. "
    "Alternatively, send the request to POST /v1/jobs or with the header `Prefer: respond-async`, because jobs "
    "have a longer limit.",
)

ERROR_PROBLEMS: Final[dict[type[Exception], ProblemDefinition]] = {
    MalformedJson: ProblemDefinition("/problems/malformed-json", "Body is not JSON", 400),
    NotANumber: ProblemDefinition(
        "/problems/malformed-json", "Body is not JSON", 400, "JSON has no NaN and no infinity. Send a finite number."
    ),
    InvalidRequest: ProblemDefinition("/problems/invalid-request", "Invalid request", 422),
    TooManyJsonValues: ProblemDefinition(
        "/problems/invalid-request",
        "Invalid request",
        422,
        f"A request may contain at most {TooManyJsonValues.limit} values and {TooManyJsonValues.object_limit} "
        "objects. Merge equal neighbours of a schedule or history.",
    ),
    DuplicateKeys: ProblemDefinition(
        "/problems/invalid-request",
        "Invalid request",
        422,
        "This key occurs more than once in one object. Send it once.",
    ),
    ArchiveError: ProblemDefinition("/problems/invalid-request", "Invalid request", 422),
    OutOfDomain: ProblemDefinition("/problems/out-of-domain", "Value outside the domain", 422),
    UnsupportedCombination: ProblemDefinition("/problems/unsupported-combination", "Combination not supported", 422),
    NumericalFailure: ProblemDefinition(
        "/problems/numerical-failure",
        "Numerical failure",
        500,
        "A check of the computation failed, so the response contains no number. Report the request id to the "
        "operators.",
    ),
    ComputeBudgetExceeded: ProblemDefinition(
        "/problems/compute-budget-exceeded",
        "Compute budget exceeded",
        422,
        "The estimated cost exceeds the limit, and nothing was computed. Send fewer questions or fewer points. "
        "Alternatively, send the request to POST /v1/jobs or with the header `Prefer: respond-async`, because jobs "
        "have a higher limit.",
    ),
    WorkLimitExceeded: ProblemDefinition(
        "/problems/work-limit-exceeded",
        "Work limit exceeded",
        429,
        "The work of this caller in the current window of time is at its limit, and nothing was computed. Send the "
        "request again after the time in `Retry-After`, or request a higher limit from the operator.",
    ),
    QueueFull: ProblemDefinition(
        "/problems/overloaded",
        "Overloaded",
        503,
        "The queue is full. Try again after the time in `Retry-After`.",
    ),
    OutOfTime: TIME_LIMIT,
    DeadlinePassed: TIME_LIMIT,
    OutOfMemory: ProblemDefinition(
        "/problems/out-of-memory",
        "Memory limit exceeded",
        422,
        "The computation needs more memory than the limit in GET /v1/limits. Send fewer questions or a smaller "
        "request.",
    ),
    WorkerDied: ProblemDefinition(
        "/problems/worker-died",
        "Computation was ended",
        500,
        "The process of the computation ended before it answered. Other requests are not affected. Try again.",
    ),
    ResultQuarantined: ProblemDefinition(
        "/problems/result-quarantined",
        "Result under examination",
        500,
        "Two independent engines disagree about this result, so it is not served. Do not use earlier copies of it. "
        "Report the digest to the operators, and send the request again after an upgrade of the engine.",
    ),
    DisputedRun: ProblemDefinition(
        "/problems/result-quarantined",
        "Result under examination",
        500,
        "Two independent engines disagree about this run. The service returns no number of this run, so do not use "
        "earlier copies. Send the request again after an upgrade of the engine.",
    ),
    Unauthenticated: ProblemDefinition(
        "/problems/unauthenticated",
        "Authentication required",
        401,
        "This route needs valid credentials. Send an API key or a token with the header `Authorization: Bearer`.",
    ),
    MissingScope: ProblemDefinition(
        "/problems/missing-scope",
        "Scope missing",
        403,
        "The credentials are valid, but lack the scope that this route needs. Use other credentials.",
    ),
    AuthenticationUnavailable: ProblemDefinition(
        "/problems/authentication-unavailable",
        "Authentication is not available",
        503,
        "The service cannot check credentials at the moment. Try again after the time in `Retry-After`.",
    ),
    JobNotFound: ProblemDefinition(
        "/problems/job-not-found",
        "Job not found",
        404,
        "No job has this id here. The service deletes jobs some time after their end; GET /v1/limits states the time.",
    ),
    JobsUnavailable: ProblemDefinition(
        "/problems/jobs-unavailable",
        "Jobs are not available",
        503,
        "The job storage does not respond or is full. Try again. Accepted jobs are kept, and requests without a "
        "job are not affected.",
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
        "The job did not end within the age limit of jobs. Send it again in smaller parts, or when the queue is "
        "shorter.",
    ),
    ResultsTooLarge: ProblemDefinition(
        "/problems/overloaded",
        "Overloaded",
        503,
        "The results of the job exceed the space for all jobs. Send the job again in smaller parts.",
    ),
    NotAcceptable: ProblemDefinition(
        "/problems/not-acceptable",
        "Not acceptable",
        406,
        "This representation does not exist. Send an `Accept` header with a type of `supported`.",
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
        "The body exceeds the size limit in GET /v1/limits. Merge equal neighbours of a schedule or history.",
    ),
    ShuttingDown: SERVER_PROBLEMS["shutting-down"],
    ResultNotFound: ProblemDefinition(
        "/problems/result-not-found",
        "Result not found",
        404,
        "No result with this digest is stored here. Results expire: send the request again.",
    ),
    DecisionNotFound: ProblemDefinition(
        "/problems/decision-not-found",
        "Decision not found",
        404,
        "No decision with this id is stored here. Decisions expire with their results: send the assessment again "
        "with its policy.",
    ),
}
"""Problem definition of every exception that receives a response. A base class covers its subclasses."""

HTTP_PROBLEMS: Final[dict[int, ProblemDefinition]] = {
    404: ProblemDefinition(
        "/problems/not-found",
        "Not found",
        404,
        "No resource has this path. GET /v1/catalogue lists the resources, and /docs lists all paths.",
    ),
    405: ProblemDefinition(
        "/problems/method-not-allowed",
        "Method not allowed",
        405,
        "This path does not support this method. The header `Allow` lists the supported methods.",
    ),
}
"""Problem definitions for statuses that the web framework raises itself."""

ALL_PROBLEMS: Final = (INTERNAL_ERROR, *SERVER_PROBLEMS.values(), *ERROR_PROBLEMS.values(), *HTTP_PROBLEMS.values())
"""Definitions of all problems. A type may have several definitions."""


def definition_of(error: Exception) -> ProblemDefinition:
    """Return the definition for an error or its nearest base class that has one, or INTERNAL_ERROR."""
    return next((ERROR_PROBLEMS[base] for base in type(error).__mro__ if base in ERROR_PROBLEMS), INTERNAL_ERROR)


def problem_of(error: Exception, instance: str, request_id: str) -> Problem:
    """Return the problem that reports an exception, without request data and texts of unknown exceptions.

    `instance` is the URI of the request that failed, and `request_id` its id in the log.
    """
    definition = definition_of(error)
    return definition.problem(instance=instance, request_id=request_id, **_members_by_error(error, definition.guidance))


def _members_by_error(error: Exception, guidance: str) -> dict[str, Any]:
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
        case NoStatement():
            errors = (FieldError(pointer="", detail=f"Accept: {error.sentence}"),)
            return {"detail": error.sentence, "errors": errors, "supported": error.offered}
        case NotAcceptable():
            return {"errors": (FieldError(pointer="", detail=f"Accept: {guidance}"),), "supported": error.offered}
        case ComputeBudgetExceeded() | WorkLimitExceeded():
            return {"estimated_cost": error.estimate, "limit": error.limit}
        case _:
            return {}


def _parameter_details(name: str, sentence: str) -> dict[str, Any]:
    return {"detail": f"{name}: {sentence}", "errors": (FieldError(pointer="", detail=f"{name}: {sentence}"),)}


def _body_details(errors: tuple[FieldError, ...]) -> dict[str, Any]:
    count = (
        "One position in the body is invalid."
        if len(errors) == 1
        else f"{len(errors)} positions in the body are invalid."
    )
    return {"detail": count, "errors": errors}
