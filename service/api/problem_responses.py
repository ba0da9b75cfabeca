"""Problem responses over HTTP, and the exception handlers of the application."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match

from api_schemas.problems import FieldError, Problem
from service.access.errors import MissingScope, Unauthenticated
from service.execution.errors import ClientGone, QueueFull, WorkLimitExceeded
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
CHALLENGE = 'Bearer realm="privacy-bounds"'


def _problem_response(problem: Problem, record: RequestContext, headers: dict[str, str] | None = None) -> Response:
    record.problem = problem.type
    return Response(problem.json_bytes(), problem.status, {"Cache-Control": "no-store", **(headers or {})}, MEDIA_TYPE)


def error_response(error: Exception, scope: MutableMapping[str, Any]) -> Response:
    """Return the HTTP response to an exception, a problem document.

    `scope` is the ASGI scope of the request. Errors with status 500 are logged with their traceback.
    """
    record = request_context(scope)
    problem = problem_of(error, scope["path"], record.request_id)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR and record.error is None:
        record.error = error
    return _problem_response(problem, record, error_headers(error, problem.status))


def error_headers(error: Exception, status: int) -> dict[str, str]:
    """Return the headers of the response to `error`: when to try again, or which credentials to send (RFC 6750).

    `status` is the HTTP status of the response. Other errors have no such header, unless the status is 503: try again
    after one second.
    """
    match error:
        case QueueFull() | WorkLimitExceeded():
            return {"Retry-After": str(error.retry_after_seconds)}
        case Unauthenticated():
            return {"WWW-Authenticate": CHALLENGE + (', error="invalid_token"' if error.is_wrong else "")}
        case MissingScope():
            return {"WWW-Authenticate": f'{CHALLENGE}, error="insufficient_scope", scope="{error.scope}"'}
        case _:
            return {"Retry-After": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}


def unknown_error(scope: MutableMapping[str, Any]) -> Response:
    """Return the response to an unexpected exception: status 500, with a fixed text."""
    return error_response(Exception(), scope)


def shutting_down(scope: MutableMapping[str, Any]) -> Response:
    """Return the response to a request that the server cancels because it stops."""
    return error_response(ShuttingDown(), scope)


def install(app: FastAPI) -> None:
    """Install handlers for every known exception in the application. The outermost middleware handles unknown ones."""

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
    details: dict[str, str] = {}
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = _allowed_methods(request)
        headers = {"Allow": ", ".join(allowed)}
        details["detail"] = f"This path takes {' or '.join(filter(None, (', '.join(allowed[:-1]), allowed[-1])))}."
    problem = definition.problem(instance=request.scope["path"], request_id=record.request_id, **details)
    return _problem_response(problem, record, headers)


def _allowed_methods(request: Request) -> list[str]:
    # HEAD stands beside GET
    routes: list[BaseRoute] = request.app.router.routes
    scope = {key: request.scope[key] for key in ("type", "path", "root_path", "headers") if key in request.scope}
    found = [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return [each for method in found for each in (("GET", "HEAD") if method == "GET" else (method,))]


async def _client_disconnected(_request: Request, _error: Exception) -> Response:
    # nobody receives this response
    return Response(status_code=400)


async def _invalid_parameters(request: Request, error: Exception) -> Response:
    # bodies are validated elsewhere
    if not isinstance(error, RequestValidationError):
        raise error
    record = request_context(request.scope)
    errors = tuple(_parameter_error(request.scope.get("route"), entry) for entry in error.errors())
    problem = INVALID_PARAMETER.problem(
        instance=request.scope["path"],
        request_id=record.request_id,
        detail=" ".join(each.detail for each in errors),
        errors=errors,
    )
    return _problem_response(problem, record)


def _parameter_error(route: object, entry: Mapping[str, Any]) -> FieldError:
    place, name, *_ = (*map(str, entry["loc"]), "")
    return FieldError(pointer="", detail=f"{name}: {_allowed_values_sentence(route, place, name)}")


def _allowed_values_sentence(route: object, place: str, name: str) -> str:
    fields: list[Any] = getattr(getattr(route, "dependant", None), f"{place}_params", [])
    found: list[list[Any]] = [field.field_info.metadata for field in fields if field.alias == name]
    rules = found[0] if found else []
    least, most, longest = (
        next((getattr(rule, limit) for rule in rules if hasattr(rule, limit)), None)
        for limit in ("ge", "le", "max_length")
    )
    if longest is not None:
        return f"Must have at most {longest} characters."
    if least is None:
        return INVALID_PARAMETER.guidance
    return f"Must be an integer of at least {least}." if most is None else f"Must be an integer from {least} to {most}."
