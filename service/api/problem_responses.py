"""Problem responses over HTTP, and the exception handlers of the application."""

from __future__ import annotations

from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from api_schemas.problems import FieldError, Problem
from service.execution.errors import ClientGone, QueueFull
from service.problems import (
    ERROR_PROBLEMS,
    HTTP_PROBLEMS,
    INVALID_PARAMETER,
    ProblemDefinition,
    ShuttingDown,
    problem_of,
)
from service.telemetry.http import RequestContext, request_context

MEDIA_TYPE = "application/problem+json"


def problem_response(problem: Problem, record: RequestContext, headers: dict[str, str] | None = None) -> Response:
    """Return a problem document as an HTTP response, and record its type in the log entry of the request."""
    record.problem = problem.type
    return Response(problem.json_bytes(), problem.status, {"Cache-Control": "no-store", **(headers or {})}, MEDIA_TYPE)


def error_response(error: Exception, scope: MutableMapping[str, Any]) -> Response:
    """Return the response to an exception. Errors of the service are logged with their traceback."""
    record = request_context(scope)
    problem = problem_of(error, scope["path"], record.request_id)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR and record.error is None:
        record.error = error
    seconds = error.retry_after_seconds if isinstance(error, QueueFull) else 1
    headers = {"Retry-After": str(seconds)} if problem.status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return problem_response(problem, record, headers)


def unknown_error(scope: MutableMapping[str, Any]) -> Response:
    """Return the response to an unexpected exception: a fixed text."""
    return error_response(Exception(), scope)


def shutting_down(scope: MutableMapping[str, Any]) -> Response:
    """Return the response to a request that the server cancels."""
    return error_response(ShuttingDown(), scope)


def install(app: FastAPI) -> None:
    """Install handlers for every known exception. The outermost middleware handles unknown ones."""

    async def handle(request: Request, error: Exception) -> Response:
        return error_response(error, request.scope)

    for error_type in ERROR_PROBLEMS:
        app.add_exception_handler(error_type, handle)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    for error_type in (ClientDisconnect, ClientGone):
        app.add_exception_handler(error_type, _client_disconnected)


async def _http_exception(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    definition = HTTP_PROBLEMS.get(error.status_code)
    if definition is None:
        definition = ProblemDefinition(
            "/problems/http-error", "Request refused", error.status_code, "The request was refused."
        )
    record = request_context(request.scope)
    problem = definition.problem(instance=request.scope["path"], request_id=record.request_id)
    return problem_response(problem, record, _with_head_allowed(dict(error.headers or {})))


def _with_head_allowed(headers: dict[str, str]) -> dict[str, str]:
    """Add HEAD to an `Allow` header with GET, since the service answers HEAD wherever it answers GET."""
    return {
        name: f"{value}, HEAD"
        if name.lower() == "allow" and {"GET", "HEAD"} & set(value.split(", ")) == {"GET"}
        else value
        for name, value in headers.items()
    }


async def _client_disconnected(_request: Request, _error: Exception) -> Response:
    """Return an empty response. The client disconnected, so that nobody receives it."""
    return Response(status_code=400)


async def _invalid_parameters(request: Request, error: Exception) -> Response:
    """Return the problem of invalid path or query parameters. Bodies are validated elsewhere."""
    if not isinstance(error, RequestValidationError):
        raise error
    names = [".".join(str(part) for part in entry["loc"]) for entry in error.errors()]
    record = request_context(request.scope)
    problem = INVALID_PARAMETER.problem(
        instance=request.scope["path"],
        request_id=record.request_id,
        detail=f"Invalid: {', '.join(names)}.",
        errors=tuple(FieldError(pointer="", detail=f"{name}: {INVALID_PARAMETER.guidance}") for name in names),
    )
    return problem_response(problem, record)
