"""Rejections by the server: complete responses for requests that never reach the application."""

from __future__ import annotations

import secrets
from functools import cache
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.problems import SERVER_PROBLEMS, ServerRejection

REQUEST_ID_LENGTH: Final = 32


def rejection_bytes(reason: ServerRejection) -> bytes:
    """Return the response to a rejected connection as bytes, with a problem document and a new request id."""
    return secrets.token_hex(REQUEST_ID_LENGTH // 2).encode().join(_parts_around_request_ids(reason))


@cache
def _parts_around_request_ids(reason: ServerRejection) -> tuple[bytes, bytes, bytes]:
    # The request id stands in a header and in the problem document: the bytes before, between and after both are
    # cached.
    kind = SERVER_PROBLEMS[reason]
    mark = "0" * REQUEST_ID_LENGTH
    problem = kind.problem(instance="", request_id=mark).json_bytes()
    headers = [
        b"content-type: application/problem+json",
        b"content-length: %d" % len(problem),
        b"cache-control: no-store",
        b"connection: close",
        *([b"retry-after: 1"] if kind.status == 503 else []),
        b"x-request-id: " + mark.encode(),
    ]
    whole = STATUS_LINE[kind.status] + b"\r\n".join(headers) + b"\r\n\r\n" + problem
    before, between, after = whole.split(mark.encode())
    return before, between, after
