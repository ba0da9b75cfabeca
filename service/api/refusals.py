"""What the server answers where a request never comes as far as the application: the bytes of a problem document."""

from __future__ import annotations

import secrets
from functools import cache
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.api.problems import SERVER_KINDS, ServerRefusal

REQUEST_ID_LENGTH: Final = 32


def refusal(reason: ServerRefusal) -> bytes:
    """A whole response, with a request id of its own."""
    return secrets.token_hex(REQUEST_ID_LENGTH // 2).encode().join(_parts(reason))


@cache
def _parts(reason: ServerRefusal) -> tuple[bytes, bytes, bytes]:
    """What comes before, between and after the two places of the request id; made once, so that refusing is cheap."""
    kind = SERVER_KINDS[reason]
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
