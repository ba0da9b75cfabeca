"""One table from exception to problem (RFC 9457). Knows no web framework: the command line reports problems too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from api_schemas.problems import FieldError, Problem, ProblemType, field_errors
from service.computations.array_archive import ArchiveError
from service.execution.errors import ComputeBudgetExceeded, OutOfMemory, OutOfTime, QueueFull, WorkerDied
from service.execution.request_body import DuplicateKeys, InvalidRequest, MalformedJson, NotANumber, TooManyValues
from service.privacy.errors import NumericalFailure, OutOfDomain, UnsupportedCombination


class UnsupportedMediaType(Exception):
    """The body does not say that it is plain JSON."""


class BodyTooLarge(Exception):
    """The body is longer than the service reads."""


class ShuttingDown(Exception):
    """The service ends before the answer is there."""


class ResultNotFound(Exception):
    """No result with this digest is stored here."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """What all problems of one kind have in common."""

    type: ProblemType
    """The URI reference that names the kind."""
    title: str
    status: int


UNKNOWN = ProblemKind("/problems/internal-error", "Internal error", 500)
INVALID_PARAMETER = ProblemKind("/problems/invalid-parameter", "Invalid parameter", 422)

ServerRefusal = Literal[
    "malformed-http",
    "request-timeout",
    "uri-too-long",
    "headers-too-large",
    "too-many-connections",
    "shutting-down",
]
"""What the server refuses before, or instead of, the application."""

SERVER_KINDS: Final[dict[ServerRefusal, ProblemKind]] = {
    "malformed-http": ProblemKind("/problems/malformed-http", "Not HTTP", 400),
    "request-timeout": ProblemKind("/problems/request-timeout", "Request took too long to arrive", 408),
    "uri-too-long": ProblemKind("/problems/uri-too-long", "Request target too long", 414),
    "headers-too-large": ProblemKind("/problems/headers-too-large", "Headers too large", 431),
    "too-many-connections": ProblemKind("/problems/too-many-connections", "Too many connections", 503),
    "shutting-down": ProblemKind("/problems/shutting-down", "Shutting down", 503),
}

SERVER_DETAILS: Final[dict[ServerRefusal, str]] = {
    "malformed-http": "What was sent is not an HTTP request, or too many requests at once.",
    "request-timeout": "Headers and body of a request have to arrive sooner than they did.",
    "uri-too-long": "The path and the query are longer than this service reads.",
    "headers-too-large": "The headers are longer than this service reads.",
    "too-many-connections": "Too many connections are open. Close or use those there are, then try again.",
    "shutting-down": "This instance is about to end. Send the request again, to another one.",
}

KINDS: dict[type[Exception], ProblemKind] = {
    MalformedJson: ProblemKind("/problems/malformed-json", "Body is not JSON", 400),
    NotANumber: ProblemKind("/problems/malformed-json", "Body is not JSON", 400),
    InvalidRequest: ProblemKind("/problems/invalid-request", "Invalid request", 422),
    TooManyValues: ProblemKind("/problems/invalid-request", "Invalid request", 422),
    DuplicateKeys: ProblemKind("/problems/invalid-request", "Invalid request", 422),
    ArchiveError: ProblemKind("/problems/invalid-request", "Invalid request", 422),
    UnsupportedMediaType: ProblemKind("/problems/unsupported-media-type", "Unsupported media type", 415),
    BodyTooLarge: ProblemKind("/problems/body-too-large", "Body too large", 413),
    ResultNotFound: ProblemKind("/problems/result-not-found", "Result not found", 404),
    OutOfDomain: ProblemKind("/problems/out-of-domain", "Value outside the domain", 422),
    UnsupportedCombination: ProblemKind("/problems/unsupported-combination", "Combination not supported", 422),
    NumericalFailure: ProblemKind("/problems/numerical-failure", "Numerical failure", 500),
    ComputeBudgetExceeded: ProblemKind("/problems/compute-budget-exceeded", "Compute budget exceeded", 422),
    QueueFull: ProblemKind("/problems/overloaded", "Overloaded", 503),
    OutOfTime: ProblemKind("/problems/out-of-time", "Time limit exceeded", 504),
    OutOfMemory: ProblemKind("/problems/out-of-memory", "Memory limit exceeded", 422),
    ShuttingDown: SERVER_KINDS["shutting-down"],
    WorkerDied: ProblemKind("/problems/worker-died", "Computation was ended", 500),
}
"""The kind of every exception that is answered; a base class covers its children."""

HTTP_KINDS: dict[int, ProblemKind] = {
    404: ProblemKind("/problems/not-found", "Not found", 404),
    405: ProblemKind("/problems/method-not-allowed", "Method not allowed", 405),
}
"""The kind of what the web framework refuses by itself."""


def kind_of(error: Exception) -> ProblemKind:
    """The kind of the nearest base class in the table; UNKNOWN where there is none."""
    return next((KINDS[base] for base in type(error).__mro__ if base in KINDS), UNKNOWN)


def problem_of(error: Exception, instance: str, request_id: str) -> Problem:
    """The problem that an exception is reported as. Neither what was sent nor an unknown exception's text is in it."""
    kind = kind_of(error)
    return Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        instance=instance,
        request_id=request_id,
        **_particulars(error),
    )


def _particulars(error: Exception) -> dict[str, Any]:
    """`detail`, `errors` and what else a problem says about this one occurrence."""
    match error:
        case InvalidRequest() | MalformedJson():
            errors = tuple(field_errors(error.validation))
            return {"detail": _count(errors), "errors": errors}
        case TooManyValues():
            errors = (
                FieldError(
                    pointer="",
                    detail=f"A request may hold at most {error.limit} values and {error.object_limit} objects.",
                ),
            )
            return {"detail": _count(errors), "errors": errors}
        case ArchiveError():
            errors = (FieldError(pointer=error.pointer, detail=error.sentence),)
            return {"detail": _count(errors), "errors": errors}
        case NotANumber():
            sentence = "JSON has no NaN and no infinity; send a finite number."
            errors = tuple(FieldError(pointer=pointer, detail=sentence) for pointer in error.pointers)
            return {"detail": _count(errors), "errors": errors}
        case DuplicateKeys():
            sentence = "This key is given more than once; give it once."
            errors = tuple(FieldError(pointer=pointer, detail=sentence) for pointer in error.pointers)
            return {"detail": _count(errors), "errors": errors}
        case OutOfDomain():
            detail = f"{error.name} must be {error.domain}." + (f" {error.remedy}" if error.remedy else "")
            return {"detail": detail, "errors": (FieldError(pointer=_pointer(error), detail=detail),)}
        case UnsupportedCombination():
            detail = f"{error.requested} is not supported: {error.reason}"
            errors = (FieldError(pointer=_pointer(error), detail=f"Supported: {', '.join(error.supported)}."),)
            return {"detail": detail, "errors": errors, "supported": error.supported}
        case ComputeBudgetExceeded():
            detail = (
                "The estimated cost is above the limit; nothing was computed. Ask fewer questions, or for fewer points."
            )
            return {"detail": detail, "errors": (), "estimated_cost": error.estimate, "limit": error.limit}
        case _:
            return {"detail": DETAILS.get(type(error), UNKNOWN_DETAIL), "errors": ()}


UNKNOWN_DETAIL = "Something went wrong here, and it is not your request. The request id helps to find it in the logs."
DETAILS: dict[type[Exception], str] = {
    UnsupportedMediaType: "Send the body as plain JSON with the header `Content-Type: application/json`.",
    BodyTooLarge: "The body is longer than this service reads; GET /v1/limits says how long it may be.",
    ShuttingDown: SERVER_DETAILS["shutting-down"],
    ResultNotFound: "No result with this digest is stored here. Results may be forgotten: send the request again.",
    NumericalFailure: "A check of the computation failed, so no number is given. The request id is in the logs.",
    QueueFull: "Too much work waits already. Try again after the time in `Retry-After`.",
    OutOfTime: "The computation met its time limit and was ended. Ask fewer questions, or for fewer points.",
    OutOfMemory: "The computation needs more memory than GET /v1/limits allows. Ask fewer questions, or send less.",
    WorkerDied: "The process of the computation ended before it answered. No other request is affected; try again.",
}


def _pointer(error: Exception) -> str:
    """The place in the request that a computation blamed; the whole body where it named none."""
    return str(getattr(error, "pointer", ""))


def _count(errors: tuple[FieldError, ...]) -> str:
    return "One place in the body is wrong." if len(errors) == 1 else f"{len(errors)} places in the body are wrong."
