"""Headers of the published document: response headers, headers of stored results, and request headers."""

from __future__ import annotations

from typing import Any, Final

TEXT: Final = {"type": "string"}

PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "required": False,
        "description": "Entity tags of results that the client has; one that names this result is answered with 304.",
        "schema": TEXT,
        "example": f'"sha256:{"0123456789abcdef" * 4}"',
    },
    "Prefer": {
        "name": "Prefer",
        "in": "header",
        "required": False,
        "description": "`respond-async` (RFC 7240): the request becomes a job, unless it is answered at once; with "
        "`wait=N`, if it takes longer than N seconds.",
        "schema": TEXT,
        "example": "respond-async, wait=10",
    },
}
HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-ID": {"description": "Names the request in the logs; one that is sent is kept.", "schema": TEXT},
    "Server-Timing": {
        "description": "Milliseconds that the answer took; not where the server itself refuses.",
        "schema": TEXT,
    },
    "ETag": {"description": "The digest of the result, in quotes: a strong entity tag.", "schema": TEXT},
    "Content-Location": {"description": "Where the result can be fetched while it is stored.", "schema": TEXT},
    "Cache-Status": {"description": "Whether the result was computed for this request (RFC 9211).", "schema": TEXT},
    "Location": {"description": "Where the job is.", "schema": TEXT},
    "Preference-Applied": {"description": "What `Prefer` asked for and was done.", "schema": TEXT},
    "Retry-After": {"description": "After how many seconds to try again.", "schema": {"type": "integer"}},
}
RESPONSE_HEADERS: Final = ("X-Request-ID", "Server-Timing")
RESULT_HEADERS: Final = ("ETag", "Cache-Status")
COMPUTATION_HEADERS: Final = (*RESULT_HEADERS, "Content-Location")


def document_headers(document: dict[str, Any]) -> None:
    """Add descriptions of the headers of every response, and of the request headers of stored results."""
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
                if status == "503" and "application/problem+json" in answer.get("content", {}):
                    names.append("Retry-After")
                if status == "202":
                    names += ["Location", "Retry-After", *(["Preference-Applied"] if "200" in responses else [])]
                answer["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in sorted(names)}
