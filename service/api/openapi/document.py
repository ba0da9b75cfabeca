"""Published OpenAPI document: builder that adds what route signatures do not describe.

These are request bodies, problem documents and examples.
"""

from __future__ import annotations

from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from api_schemas.base import Request as RequestModel
from api_schemas.examples import INVALID_REQUEST_EXAMPLE, response_examples
from api_schemas.jobs import JobRequest, JobResponse
from api_schemas.problems import Problem
from api_schemas.signatures import ENVELOPE_MEDIA_TYPE, Envelope
from service.access.caller import AccessScope
from service.api.deprecation import DEPRECATED
from service.api.openapi.components import add_requests, hoist_components
from service.api.openapi.headers import document_headers
from service.api.openapi.property_examples import add_property_examples
from service.api.openapi.summaries import SUMMARIES
from service.api.route_scopes import OPTIONAL_SCOPES, route_scopes
from service.problems import SERVER_PROBLEMS
from service.rendering.registry import JSON, renderings_of
from service.resources.abstract import Computation

SCHEMA_REFERENCE = "#/components/schemas/{model}"

PROBLEM_TITLES = {
    400: "The body is not valid JSON, or the request is not valid HTTP.",
    401: "The service requires credentials, and the request has no valid ones.",
    403: "The credentials lack the scope of this operation.",
    404: "The resource does not exist or is no longer stored.",
    406: "The resource has no representation in the accepted media types.",
    408: "The request did not arrive within the time limit.",
    413: "The body exceeds the size limit.",
    414: "The path and query exceed the size limit.",
    415: "The `Content-Type` is not plain JSON.",
    422: "The body is valid JSON, but not a valid request. `errors` lists positions and reasons.",
    429: "The caller has used up its work for the current window. `Retry-After` gives the waiting time.",
    431: "The headers exceed the size limit.",
    500: "The computation failed. The response contains no number.",
    503: "The queue or the number of connections is at its limit. `Retry-After` gives the waiting time.",
    504: "The computation exceeded its time limit.",
    505: "The request line has a version other than HTTP/1.1 or HTTP/1.0.",
}

SIGNED: dict[str, Any] = {ENVELOPE_MEDIA_TYPE: {"schema": {"$ref": SCHEMA_REFERENCE.format(model=Envelope.__name__)}}}
"""Content of a response as a signed statement, which services with a signing key have."""

BINARY = {"schema": {"type": "string", "format": "binary"}}

TAGS = [
    {"name": "bounds", "description": "Bounds on the success of an attacker against one mechanism."},
    {"name": "curves", "description": "Trade-off curves for plots, and their comparison."},
    {"name": "comparisons", "description": "Comparison of several runs by answers and curves."},
    {"name": "claims", "description": "Verification of privacy claims against proved bounds."},
    {"name": "certificates", "description": "Proofs of single numbers by the independent checker."},
    {"name": "calibrations", "description": "Calibration of one number of a request to several targets."},
    {"name": "sweeps", "description": "Equal questions about many runs with varied numbers."},
    {"name": "assessments", "description": "Privacy report and policy decision for one run."},
    {"name": "conversions", "description": "Conversions between notions of privacy, and noise for a target."},
    {"name": "imports", "description": "Import of mechanisms from the state of other libraries."},
    {"name": "audits", "description": "Evidence of observed or simulated attacks, compared with theoretical bounds."},
    {"name": "pmp", "description": "Practical membership privacy of a mechanism on given or simulated data."},
    {"name": "jobs", "description": "Asynchronous requests, with progress and results."},
    {"name": "results", "description": "Stored results and decisions, by digest."},
    {"name": "signatures", "description": "Public keys of signed statements."},
    {"name": "discovery", "description": "Available resources, limits and versions."},
    {"name": "operations", "description": "Health checks and metrics for operators."},
]

ASYNC_RESPONSE: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The service accepted the request as a job, according to `Prefer: respond-async`.",
        "model": JobResponse,
    }
}
"""Entry of `responses=` for resources that also run as jobs."""

NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "The client already has the result that `If-None-Match` names."}
}
"""Entry of `responses=` for a result that the client already has."""

SECURITY_SCHEME = "bearer"
SECURITY_SCHEMES = {
    SECURITY_SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "API key of the service, or signed token of its issuer. A service that only its own machine "
        "reaches may require no credentials. Each operation lists the scope that it needs.",
    }
}

SERVER_STATUSES = tuple(sorted({kind.status for kind in SERVER_PROBLEMS.values()}))
"""Statuses with which the server may answer any request, before the application receives it."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the entries of `responses=` for problems with these statuses, by status."""
    content = {"application/problem+json": {"schema": {"$ref": SCHEMA_REFERENCE.format(model=Problem.__name__)}}}
    return {status: {"description": PROBLEM_TITLES[status], "content": content} for status in statuses}


def request_body(computation: Computation[Any, Any]) -> dict[str, Any]:
    """Return `openapi_extra=` for the route of a resource: schema and examples of the request body."""
    reference = {"$ref": SCHEMA_REFERENCE.format(model=computation.request_type.__name__)}
    content: dict[str, Any] = {JSON: {"schema": reference, "examples": computation.examples}}
    if computation.read_archive is not None:
        archive = {
            "type": "string",
            "format": "binary",
            "description": "An .npz archive whose arrays have the names of the fields.",
        }
        content["application/octet-stream"] = {"schema": archive}  # which generated clients can send
    return {"requestBody": {"required": True, "content": content}}


def rendered_content(computation: Computation[Any, Any]) -> dict[int | str, dict[str, Any]]:
    """Return entries of `responses=`, by status: the media types of a resource other than JSON, and the problem 406."""
    text = {"schema": {"type": "string"}}
    forms = {form.media_type: text if form.is_text else BINARY for form in renderings_of(computation.name).values()}
    return {200: {"content": forms | SIGNED}, **problems(406)}


def any_result(offered: tuple[Computation[Any, Any], ...]) -> dict[int | str, dict[str, Any]]:
    """Return the entry 200 of `responses=` for a route that returns a result of any of the resources `offered`.

    The routes of the resources document the types. No response model is given, because the validator of a union of all
    types is expensive to build and never used.
    """
    types = [{"$ref": SCHEMA_REFERENCE.format(model=each.response_type.__name__)} for each in offered]
    schema = {"anyOf": types, "title": "Response Result"}
    return {200: {"content": {JSON: {"schema": schema}} | SIGNED}}


def install(app: FastAPI, request_models: tuple[type[RequestModel], ...]) -> None:
    """Make the application publish an OpenAPI document with the schemas that `request_body` and `problems` refer to.

    `request_models` are the models of all request bodies.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build_document(app, request_models)
        return app.openapi_schema

    app.openapi = openapi  # the documented way to replace it


def _build_document(app: FastAPI, request_models: tuple[type[RequestModel], ...]) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version=app.openapi_version,
        summary=app.summary,
        description=app.description,
        tags=app.openapi_tags,
        license_info=app.license_info,
        routes=app.routes,
    )
    scopes = route_scopes()
    for path, item in document["paths"].items():
        for operation in item.values():
            operation["summary"] = SUMMARIES[operation["operationId"]]
            if path in DEPRECATED:
                operation["deprecated"] = True
            needed: AccessScope | None = OPTIONAL_SCOPES.get(path)
            if scopes[path] not in ("open", "authenticated"):
                needed = cast("AccessScope", scopes[path])
            if needed is not None:
                operation["security"] = [{SECURITY_SCHEME: [needed]}, {}]
            statuses = SERVER_STATUSES if needed is None else (*SERVER_STATUSES, 401, 403)
            for status, answer in problems(*statuses).items():
                operation["responses"].setdefault(str(status), answer)
    _, requests = models_json_schema(
        [(model, "validation") for model in (*request_models, JobRequest, Problem, Envelope)],
        ref_template=SCHEMA_REFERENCE,
    )
    add_requests(document, requests["$defs"])
    hoist_components(document)
    _add_response_examples(document)
    add_property_examples(document)
    document_headers(document)
    document["servers"] = [{"url": "/", "description": "This service."}]
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    document["security"] = []  # of operations that name no scope
    return document


def _add_response_examples(document: dict[str, Any]) -> None:
    examples = response_examples()
    for item in document["paths"].values():
        for operation in item.values():
            answered = examples.get(operation["operationId"], {})
            if answered:
                content = operation["responses"]["200"]["content"]["application/json"]
                content["examples"] = {name: {"value": value} for name, value in answered.items()}
            if "requestBody" in operation:
                content = operation["responses"]["422"]["content"]["application/problem+json"]
                content["examples"] = {"invalid_request": {"value": INVALID_REQUEST_EXAMPLE}}
