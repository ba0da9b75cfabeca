"""Signed statements over HTTP: which client receives one, and its response."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from fastapi import Request, Response

from api_schemas.signatures import ENVELOPE_MEDIA_TYPE, SignedKind
from service.api.content_negotiation import joined_header, negotiate_media_type
from service.api.dependencies import AppServices, services_of
from service.api.responses import result_response
from service.execution.stored_results import ComputedResult
from service.problems import NoStatement, NotAcceptable
from service.rendering.registry import JSON
from service.signing.errors import NotSignable

MARK: Final = "dsse"
"""Part of the media type by which most requests are recognised as ones without it."""
NO_KEY: Final = "This service has no signing key, and signs nothing. Its operator sets PRIVACY_BOUNDS_SIGNING_KEYS."


def negotiate_with_statement(request: Request, services: AppServices, offered: tuple[str, ...]) -> str:
    """Return the media type for a response that can be JSON, another type in `offered`, or a signed statement.

    For a resource with JSON alone, the header `Accept` counts only if it names signed statements. Raise NotAcceptable,
    and NoStatement if the client accepts nothing but a signed statement and the service has no key.
    """
    accept = joined_header(request, b"accept")
    names_statement = MARK in accept.lower()
    if len(offered) == 1 and not names_statement:
        return offered[0]
    signed = (*offered, ENVELOPE_MEDIA_TYPE) if services.signer is not None else offered
    try:
        return negotiate_media_type(accept, signed)
    except NotAcceptable:
        if names_statement and services.signer is None:
            raise NoStatement(offered, NO_KEY) from None
        raise


def vary_header(services: AppServices) -> dict[str, str]:
    """Return the header `Vary` for a resource whose only media types are JSON and signed statements.

    The mapping is empty for a service that signs nothing.
    """
    return {} if services.signer is None else {"Vary": "Accept"}


async def statement_response(
    request: Request,
    digest: str,
    body: bytes,
    headers: dict[str, str],
    *,
    kind: SignedKind = "answer",
    named: bytes | None = None,
) -> Response:
    """Return the signed statement about the answer or decision `body` as a response with these headers.

    Raise NoStatement without a signing key, and if the answer cannot be signed, for example because its request is not
    stored. `digest` is that of the request, and `named` has the bytes of the request. Without them, they are looked up
    beside the result. `kind` says what the body is, with "job" for the results of a job.
    """
    services = services_of(request)
    signer = services.signer
    if signer is None:
        raise NoStatement((JSON,), NO_KEY)
    found = named or await services.runner.results.find_request(digest)
    try:
        envelope = await asyncio.to_thread(signer.sign_answer, kind, found, body)
    except NotSignable as error:
        raise NoStatement((JSON,), error.sentence) from None
    tag = f"{digest};{kind};{signer.keys.id}"
    signed = headers | {"ETag": f'"{tag}"', "Vary": "Accept", "X-Content-Type-Options": "nosniff"}
    return result_response(request, tag, envelope, signed, ENVELOPE_MEDIA_TYPE)


async def sign_report(services: AppServices, answer: ComputedResult, report: bytes) -> bytes:
    """Return an HTML report with its signature, which refers to the `answer` that the report shows.

    The report stays without a signature if no key is set, if the answer is not stored, or if it cannot be signed.
    """
    if services.signer is None or answer.cache == "unstored":
        return report
    named = answer.request or await services.runner.results.find_request(answer.digest)
    with suppress(NotSignable):
        return await asyncio.to_thread(services.signer.sign_report, named, answer.body, report)
    return report
