"""Published OpenAPI document: request bodies, problems and examples that route signatures do not describe."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from api_schemas.base import Request as RequestModel
from api_schemas.examples import INVALID_REQUEST_EXAMPLE, response_examples
from api_schemas.jobs import JobRequest, JobResponse
from api_schemas.problems import Problem
from service.api.openapi.components import add_requests, hoist_components
from service.api.openapi.headers import document_headers
from service.api.openapi.property_examples import add_property_examples
from service.computations.abstract import Computation
from service.problems import SERVER_PROBLEMS
from service.rendering.registry import JSON, renderings_of

SCHEMA_REFERENCE = "#/components/schemas/{model}"

PROBLEM_TITLES = {
    400: "The body is not JSON, or the request not HTTP.",
    404: "Not found.",
    406: "There is no form of this that the client takes.",
    408: "The request took too long to arrive.",
    413: "The body is too long.",
    414: "The path and query are too long.",
    415: "The body is not plain JSON by its `Content-Type`.",
    422: "The body is JSON, but not a request that can be answered; `errors` says where and why.",
    431: "The headers are too long.",
    500: "The computation failed; no number is given.",
    503: "Too much work waits, or too many connections; `Retry-After` says when to try again.",
    504: "The computation met its time limit.",
    505: "The request line names another version than HTTP/1.1 or HTTP/1.0.",
}

BINARY = {"schema": {"type": "string", "format": "binary"}}

TAGS = [
    {"name": "bounds", "description": "What an attacker can gain from a mechanism, question by question."},
    {"name": "curves", "description": "Trade-off curves to plot, and which of them is harder to attack."},
    {"name": "comparisons", "description": "Several runs side by side, and which of them is harder to attack."},
    {"name": "claims", "description": "Numbers that somebody states, held against what is proved."},
    {"name": "calibrations", "description": "The least private number of a request at which every target is met."},
    {"name": "sweeps", "description": "The same questions about many runs that differ in some numbers."},
    {"name": "assessments", "description": "What to say and to decide about one run."},
    {"name": "conversions", "description": "From one notion of privacy to another, and the noise for a target."},
    {"name": "imports", "description": "What other libraries keep of a run, as a mechanism of this service."},
    {"name": "audits", "description": "Evidence of attacks, given or simulated, against the bounds of theory."},
    {"name": "pmp", "description": "Practical membership privacy of a mechanism on given or simulated data."},
    {"name": "jobs", "description": "Requests that are computed later, in pieces where they are large."},
    {"name": "results", "description": "Stored results by digest."},
    {"name": "discovery", "description": "What this service offers, and how much of it."},
    {"name": "operations", "description": "For those who run the service."},
]

ASYNC_RESPONSE: dict[int | str, dict[str, Any]] = {
    202: {"description": "Accepted as a job, as `Prefer: respond-async` asks for.", "model": JobResponse}
}
"""Entry of `responses=` for resources that also run as jobs."""

NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "`If-None-Match` names this result."}}
"""Entry of `responses=` for a result that the client already has."""

SERVER_STATUSES = tuple(sorted({kind.status for kind in SERVER_PROBLEMS.values()}))
"""Statuses with which the server may answer any request, before the application receives it."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the entries of `responses=` for problems with these statuses."""
    content = {"application/problem+json": {"schema": {"$ref": SCHEMA_REFERENCE.format(model=Problem.__name__)}}}
    return {status: {"description": PROBLEM_TITLES[status], "content": content} for status in statuses}


def request_body(computation: Computation[Any, Any]) -> dict[str, Any]:
    """Return `openapi_extra=` for the route of a resource, which validates its body itself."""
    reference = {"$ref": SCHEMA_REFERENCE.format(model=computation.request_type.__name__)}
    content: dict[str, Any] = {JSON: {"schema": reference, "examples": computation.examples}}
    if computation.read_archive is not None:
        archive = {"type": "string", "format": "binary", "description": "An .npz archive of the same names."}
        content["application/octet-stream"] = {"schema": archive}  # which generated clients can send
    return {"requestBody": {"required": True, "content": content}}


def rendered_content(computation: Computation[Any, Any]) -> dict[int | str, dict[str, Any]]:
    """Return the entry of `responses=` for the other media types of a resource."""
    text = {"schema": {"type": "string"}}
    forms = {form.media_type: text if form.is_text else BINARY for form in renderings_of(computation.name).values()}
    return {200: {"content": forms}, **problems(406)} if forms else {}


def any_result(offered: tuple[Computation[Any, Any], ...]) -> dict[int | str, dict[str, Any]]:
    """Return the entry of `responses=` for a result of any of these resources. Their own routes document the types.

    A response model would be a union of all types, whose validator is expensive to build and never used.
    """
    types = [{"$ref": SCHEMA_REFERENCE.format(model=each.response_type.__name__)} for each in offered]
    schema = {"anyOf": types, "title": "Response Result"}
    return {200: {"content": {JSON: {"schema": schema}}}}


def install(app: FastAPI, request_models: tuple[type[RequestModel], ...]) -> None:
    """Install a document generator that adds the schemas that `request_body` and `problems` refer to."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = build_document(app, request_models)
        return app.openapi_schema

    app.openapi = openapi  # the documented way to replace it


def build_document(app: FastAPI, request_models: tuple[type[RequestModel], ...]) -> dict[str, Any]:
    """Build the document of an application."""
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
    for item in document["paths"].values():
        for operation in item.values():
            for status, answer in problems(*SERVER_STATUSES).items():
                operation["responses"].setdefault(str(status), answer)
    _, requests = models_json_schema(
        [(model, "validation") for model in (*request_models, JobRequest, Problem)], ref_template=SCHEMA_REFERENCE
    )
    add_requests(document, requests["$defs"])
    hoist_components(document)
    _add_response_examples(document)
    add_property_examples(document)
    document_headers(document)
    document["servers"] = [{"url": "/", "description": "This service."}]
    document["security"] = []  # nobody has to say who they are
    return document


def _add_response_examples(document: dict[str, Any]) -> None:
    """Add example responses: answers to example requests, and the problem of an invalid request."""
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
