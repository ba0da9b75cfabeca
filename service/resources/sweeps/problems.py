"""Problems of points of a sweep, in the format of problems of requests."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import ValidationError

from api_schemas.problems import FieldError, ProblemType, field_errors
from service.privacy.errors import (
    DeadlinePassed,
    DisputedRun,
    NumericalFailure,
    OutOfDomain,
    PrivacyComputationError,
    UnsupportedCombination,
)
from service.resources.abstract import ResponseFields


class Kind(NamedTuple):
    """Type and title of a problem document (RFC 9457). A test compares them with those of `service/problems.py`."""

    type: ProblemType
    title: str


INVALID: Final = Kind("/problems/invalid-request", "Invalid request")
KINDS: Final[dict[type[PrivacyComputationError], Kind]] = {
    OutOfDomain: Kind("/problems/out-of-domain", "Value outside the domain"),
    UnsupportedCombination: Kind("/problems/unsupported-combination", "Combination not supported"),
    NumericalFailure: Kind("/problems/numerical-failure", "Numerical failure"),
    DeadlinePassed: Kind("/problems/out-of-time", "Time limit exceeded"),
    DisputedRun: Kind("/problems/result-quarantined", "Result under examination"),
}
LASTING: Final = frozenset(KINDS[error].type for error in (OutOfDomain, UnsupportedCombination, NumericalFailure)) | {
    INVALID.type
}
NO_TIME: Final = (
    "The sweep reached its time limit before this point was answered. Send the sweep to POST /v1/jobs, or send "
    "the unanswered points in another sweep."
)
DISPUTED: Final = (
    "Two independent engines disagree about this run, so its numbers are not served. Do not use earlier copies of them."
)
NO_NUMBER: Final = "A check of the computation failed. The response contains no number."


def is_lasting(problem_type: str) -> bool:
    """Return whether every computation of the same request has a problem of this type.

    Problems of time and memory depend on the machine, and disputed runs on the service.
    """
    return problem_type in LASTING


def problem_of(point: int, error: Exception) -> ResponseFields:
    """Return the problem of the point with the index `point` of a sweep, as fields of `PointProblem`.

    Raises `error` itself unless it is an error of a request.
    """
    kind, errors = _kind_and_errors(error)
    return {"point": point, **kind._asdict(), "errors": errors}


def _kind_and_errors(error: Exception) -> tuple[Kind, tuple[FieldError, ...]]:
    match error:
        case ValidationError():
            return INVALID, tuple(field_errors(error))
        case OutOfDomain():
            detail = f"{error.name} must be {error.domain}." + (f" {error.remedy}" if error.remedy else "")
        case UnsupportedCombination():
            detail = f"{error.requested} is not supported: {error.reason} Supported: {', '.join(error.supported)}."
        case NumericalFailure():
            detail = NO_NUMBER
        case DeadlinePassed():
            detail = NO_TIME
        case DisputedRun():
            detail = DISPUTED
        case _:
            raise error
    return KINDS[type(error)], (FieldError(pointer=error.pointer, detail=detail),)
