"""The published OpenAPI document: what routes that read raw bytes cannot tell the framework by their signatures."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from api_schemas.base import Request as RequestModel
from api_schemas.examples import INVALID_REQUEST_EXAMPLE, response_examples
from api_schemas.jobs import JobRequest, JobResponse
from api_schemas.problems import Problem
from service.api.components import add_requests, name_components
from service.api.headers import describe_headers
from service.api.problems import SERVER_KINDS
from service.computations.abstract import Computation
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

LATER: dict[int | str, dict[str, Any]] = {
    202: {"description": "Accepted as a job, as `Prefer: respond-async` asks for.", "model": JobResponse}
}
"""`responses=` entry of what is also answered later."""

SERVER_STATUSES = tuple(sorted({kind.status for kind in SERVER_KINDS.values()}))
"""What the server may answer to anything, before the application sees it."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses=` entries for problems with these statuses."""
    content = {"application/problem+json": {"schema": {"$ref": SCHEMA_REFERENCE.format(model=Problem.__name__)}}}
    return {status: {"description": PROBLEM_TITLES[status], "content": content} for status in statuses}


def request_body(computation: Computation[Any, Any]) -> dict[str, Any]:
    """`openapi_extra=` for the route of a resource, which validates its body itself."""
    reference = {"$ref": SCHEMA_REFERENCE.format(model=computation.request_type.__name__)}
    content: dict[str, Any] = {JSON: {"schema": reference, "examples": computation.examples}}
    if computation.read_archive is not None:
        archive = {"type": "string", "format": "binary", "description": "An .npz archive of the same names."}
        content["application/octet-stream"] = {"schema": archive}  # which generated clients can send
    return {"requestBody": {"required": True, "content": content}}


def other_forms(computation: Computation[Any, Any]) -> dict[int | str, dict[str, Any]]:
    """`responses=` entry for what a resource also answers in, where the client's `Accept` asks for it."""
    text = {"schema": {"type": "string"}}
    forms = {form.media_type: text if form.is_text else BINARY for form in renderings_of(computation.name).values()}
    return {200: {"content": forms}, **problems(406)} if forms else {}


def any_answer(offered: tuple[Computation[Any, Any], ...]) -> dict[int | str, dict[str, Any]]:
    """`responses=` entry for an answer of any of these resources, whose own routes document their types.

    A response model would be one union of all types, whose validator is expensive to build and never used.
    """
    types = [{"$ref": SCHEMA_REFERENCE.format(model=each.response_type.__name__)} for each in offered]
    schema = {"anyOf": types, "title": "Response Result"}
    return {200: {"content": {JSON: {"schema": schema}}}}


def install(app: FastAPI, request_models: tuple[type[RequestModel], ...]) -> None:
    """Publish a document that also has the schemas named by `request_body` and `problems`."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, request_models)
        return app.openapi_schema

    app.openapi = openapi  # the documented way to replace it


def _document(app: FastAPI, request_models: tuple[type[RequestModel], ...]) -> dict[str, Any]:
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
    name_components(document)
    _add_response_examples(document)
    describe_headers(document)
    document["servers"] = [{"url": "/", "description": "This service."}]
    document["security"] = []  # nobody has to say who they are
    return document


def _add_response_examples(document: dict[str, Any]) -> None:
    """What is answered: to an example of a request, under its name, and to a request that is not valid."""
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
