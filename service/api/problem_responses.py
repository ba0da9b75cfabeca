"""Problems over HTTP: responses, handlers for the framework, and what OpenAPI says about them."""

from __future__ import annotations

from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from api_schemas.problems import FieldError, Problem
from service.api.problems import (
    HTTP_KINDS,
    INVALID_PARAMETER,
    KINDS,
    ProblemKind,
    ShuttingDown,
    problem_of,
)
from service.execution.errors import ClientGone, QueueFull
from service.telemetry.http import RequestContext, request_context

MEDIA_TYPE = "application/problem+json"


def problem_response(problem: Problem, record: RequestContext, headers: dict[str, str] | None = None) -> Response:
    """A problem as an HTTP response; the log gets its kind."""
    record.problem = problem.type
    return Response(problem.json_bytes(), problem.status, {"Cache-Control": "no-store", **(headers or {})}, MEDIA_TYPE)


def error_response(error: Exception, scope: MutableMapping[str, Any]) -> Response:
    """The response to an exception. What is not the client's fault goes to the log with its traceback."""
    record = request_context(scope)
    problem = problem_of(error, scope["path"], record.request_id)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR and record.error is None:
        record.error = error
    seconds = error.retry_after_seconds if isinstance(error, QueueFull) else 1
    headers = {"Retry-After": str(seconds)} if problem.status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return problem_response(problem, record, headers)


def unknown_error(scope: MutableMapping[str, Any]) -> Response:
    """The answer to an exception that nobody expected: a fixed text."""
    return error_response(Exception(), scope)


def shutting_down(scope: MutableMapping[str, Any]) -> Response:
    """The answer to a request that is cancelled by the server."""
    return error_response(ShuttingDown(), scope)


def install(app: FastAPI) -> None:
    """Answer every known exception with its problem. Unknown ones are left to the outermost middleware."""

    async def known(request: Request, error: Exception) -> Response:
        return error_response(error, request.scope)

    for error_type in KINDS:
        app.add_exception_handler(error_type, known)
    app.add_exception_handler(HTTPException, _refused_by_framework)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    for gone in (ClientDisconnect, ClientGone):
        app.add_exception_handler(gone, _nobody_listens)


async def _refused_by_framework(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    kind = HTTP_KINDS.get(error.status_code)
    if kind is None:
        kind = ProblemKind("/problems/http-error", "Request refused", error.status_code, "The request was refused.")
    record = request_context(request.scope)
    problem = kind.problem(instance=request.scope["path"], request_id=record.request_id)
    return problem_response(problem, record, _with_head(dict(error.headers or {})))


def _with_head(headers: dict[str, str]) -> dict[str, str]:
    """HEAD is taken wherever GET is."""
    return {
        name: f"{value}, HEAD"
        if name.lower() == "allow" and {"GET", "HEAD"} & set(value.split(", ")) == {"GET"}
        else value
        for name, value in headers.items()
    }


async def _nobody_listens(_request: Request, _error: Exception) -> Response:
    """The client went away while it sent its body or waited: not a defect, and nobody reads this."""
    return Response(status_code=400)


async def _invalid_parameters(request: Request, error: Exception) -> Response:
    """Parameters of the path or the query; bodies never come this way."""
    if not isinstance(error, RequestValidationError):
        raise error
    names = [".".join(str(part) for part in entry["loc"]) for entry in error.errors()]
    record = request_context(request.scope)
    problem = INVALID_PARAMETER.problem(
        instance=request.scope["path"],
        request_id=record.request_id,
        detail=f"Invalid: {', '.join(names)}.",
        errors=tuple(FieldError(pointer="", detail=f"{name}: {INVALID_PARAMETER.remedy}") for name in names),
    )
    return problem_response(problem, record)
