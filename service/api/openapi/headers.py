"""Headers of the published document: response headers, headers of stored results, and request headers."""

from __future__ import annotations

from typing import Any, Final

TEXT: Final = {"type": "string"}

PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "required": False,
        "description": "Entity tags of the client's results. The service responds with status 304 if a tag "
        "names this result.",
        "schema": TEXT,
        "example": f'"sha256:{"0123456789abcdef" * 4}"',
    },
    "Prefer": {
        "name": "Prefer",
        "in": "header",
        "required": False,
        "description": "Preference `respond-async` (RFC 7240) turns the request into a job, unless the service "
        "answers at once. With `wait=N`, the request becomes a job after N seconds.",
        "schema": TEXT,
        "example": "respond-async, wait=10",
    },
}
HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-ID": {
        "description": "Identifier of the request in the logs. The service keeps the identifier that a client sends.",
        "schema": TEXT,
    },
    "Server-Timing": {
        "description": "Duration of the computation in milliseconds. Responses of the HTTP server itself omit "
        "this header.",
        "schema": TEXT,
    },
    "ETag": {"description": "Digest of the result in quotes, a strong entity tag.", "schema": TEXT},
    "Content-Location": {"description": "Address of the result while it is stored.", "schema": TEXT},
    "Cache-Status": {
        "description": "Whether the result was cached or computed for this request (RFC 9211).",
        "schema": TEXT,
    },
    "WWW-Authenticate": {
        "description": "Challenge of the scheme `Bearer` (RFC 6750), with the missing scope for status 403.",
        "schema": TEXT,
    },
    "Location": {"description": "Address of the job.", "schema": TEXT},
    "Preference-Applied": {"description": "Preferences of `Prefer` that the service applied.", "schema": TEXT},
    "RateLimit-Policy": {
        "description": "Limit on the work of the caller: units `q` in each window of `w` seconds. The header is absent "
        "if the operator sets no limit.",
        "schema": TEXT,
        "example": '"work";q=60000000;w=60;qu="work-units"',
    },
    "RateLimit": {
        "description": "Remaining work units `r` of the caller, and seconds `t` until the window ends.",
        "schema": TEXT,
        "example": '"work";r=59000000;t=34',
    },
    "Retry-After": {"description": "Number of seconds to wait before the next attempt.", "schema": {"type": "integer"}},
}
RESPONSE_HEADERS: Final = ("X-Request-ID", "Server-Timing")
RESULT_HEADERS: Final = ("ETag", "Cache-Status")
RATE_HEADERS: Final = ("RateLimit", "RateLimit-Policy")
COMPUTATION_HEADERS: Final = (*RESULT_HEADERS, "Content-Location")


def document_headers(document: dict[str, Any]) -> None:
    """Add descriptions of headers to an OpenAPI document, in place.

    The headers are those of every response, and the request headers of stored results.
    """
    document["components"]["headers"] = HEADERS
    document["components"]["parameters"] = PARAMETERS
    for item in document["paths"].values():
        for operation in item.values():
            responses = operation["responses"]
            if "304" in responses:
                operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/IfNoneMatch"})
            is_computation = "202" in responses and "200" in responses
            is_result = is_computation or "304" in responses
            if is_computation:
                operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/Prefer"})
            result_headers = COMPUTATION_HEADERS if is_computation else RESULT_HEADERS
            for status, answer in responses.items():
                names = [*RESPONSE_HEADERS]
                if is_result and status in ("200", "304"):
                    names += result_headers
                if status in ("200", "202", "429") and "429" in responses:
                    names += RATE_HEADERS
                if status in ("429", "503") and "application/problem+json" in answer.get("content", {}):
                    names.append("Retry-After")
                if status in ("401", "403"):
                    names.append("WWW-Authenticate")
                if status == "202":
                    names += ["Location", "Retry-After", *(["Preference-Applied"] if "200" in responses else [])]
                answer["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in sorted(names)}
