"""Endpoint of every resource (`/v1/bounds`, `/v1/sweeps`, ...): read a request, compute its answer, and send it.

The bytes sent are those of a stored result, or a rendering of them in the media type that the client accepts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fastapi import Request, Response
from pydantic import ValidationError

from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.api.access_layer import require_scope
from service.api.compression import GZIP_ETAG_SUFFIX, SHORTEST_BYTES, compress
from service.api.content_negotiation import accepts_gzip
from service.api.dependencies import AppServices, services_of
from service.api.jobs.async_preference import job_sender, parse_prefer_wait, respond_async
from service.api.request_reading import (
    check_length,
    media_type_of,
    read_json,
    read_rest,
    receive_part,
    waiting_client,
)
from service.api.responses import result_response
from service.api.signed_responses import negotiate_with_statement, sign_report, statement_response
from service.execution.errors import OutOfTime
from service.execution.stored_results import ComputedResult
from service.parsing import InvalidRequest
from service.problems import UnsupportedMediaType
from service.rendering.registry import HTML, JSON, Rendering, media_types, renderings_of
from service.resources.abstract import Computation
from service.telemetry.http import request_context
from service.telemetry.metrics import CacheOutcome

CACHE_STATUS: Final[dict[CacheOutcome, str]] = {
    "memory": "privacy-bounds; hit; detail=memory",
    "redis": "privacy-bounds; hit; detail=redis",
    "collapsed": "privacy-bounds; fwd=miss; collapsed",
    "computed": "privacy-bounds; fwd=miss; stored",
    "unstored": "privacy-bounds; fwd=miss",
}
"""Values of the header `Cache-Status` (RFC 9211)."""
UNSTORED: Final = {"Cache-Control": "no-store"}
"""Header of an answer without a digest: a later request may have another answer."""
ARCHIVE_TYPES: Final = frozenset({"application/octet-stream", "application/zip", "application/x-npz"})


async def answer_computation(computation: Computation[Any, Any], request: Request) -> Response:
    """Return the HTTP response to a request to a resource.

    `computation` has the function, the schema and the cost of the resource. Raise NotAcceptable before anything is
    computed, and the errors of reading, computing and rendering.
    """
    services = services_of(request)
    renderings = renderings_of(computation.name)
    media_type = negotiate_with_statement(request, services, media_types(computation.name))
    rendering = renderings.get(media_type)
    if rendering is not None:
        services.renderings.prewarm(rendering)
    answer = await _compute_or_enqueue(computation, request, services)
    if isinstance(answer, Response):
        return answer
    context = request_context(request.scope)
    context.digest, context.cache, context.compute_seconds = answer.digest, answer.cache, answer.compute_seconds
    if computation.decision is not None:
        read = computation.response_type.model_validate_json
        context.decision = computation.decision(await asyncio.to_thread(read, answer.body))
    headers = {"Cache-Status": CACHE_STATUS[answer.cache]}
    if renderings or services.signer is not None:
        headers["Vary"] = "Accept"
    if media_type == ENVELOPE_MEDIA_TYPE:
        return await _signed_response(answer, request, headers)
    if rendering is not None:
        return await _rendered_response(rendering, computation, answer, request, headers)
    if answer.cache == "unstored":
        return result_response(request, "", answer.body, headers | UNSTORED)
    headers["ETag"], headers["Content-Location"] = f'"{answer.digest}"', f"/v1/results/{answer.digest}"
    return result_response(request, answer.digest, answer.body, headers)


async def _compute_or_enqueue(
    computation: Computation[Any, Any], request: Request, services: AppServices
) -> ComputedResult | Response:
    sent = dict(request.scope["headers"])
    media_type = media_type_of(sent)
    if media_type == JSON:
        body = await read_json(request, services, sent)
        wait_seconds = None if b"prefer" not in sent else parse_prefer_wait(request.headers.getlist("prefer"))
        if wait_seconds is not None:
            require_scope(request.scope, "jobs")
            return await respond_async(computation, body, wait_seconds, services, job_sender(request))
        return await services.runner.answer(computation, body, waiting_client(request))
    if media_type in ARCHIVE_TYPES and computation.read_archive is not None:
        return await _answer_archive(computation, computation.read_archive, request, sent.get(b"content-length"))
    raise UnsupportedMediaType


async def _signed_response(answer: ComputedResult, request: Request, headers: dict[str, str]) -> Response:
    # an answer that the time limit cut short has no digest, and computing it again may give another one
    if answer.cache == "unstored":
        raise OutOfTime(services_of(request).settings.time_limit_seconds)
    headers["Content-Location"] = f"/v1/results/{answer.digest}"
    return await statement_response(request, answer.digest, answer.body, headers, named=answer.request)


async def _rendered_response(
    rendering: Rendering,
    computation: Computation[Any, Any],
    answer: ComputedResult,
    request: Request,
    headers: dict[str, str],
) -> Response:
    is_gzip = rendering.is_text and accepts_gzip(request)
    signer = services_of(request).signer if rendering.media_type == HTML else None
    key = "" if signer is None else f";{signer.keys.id}"
    tag = f"{answer.digest};{rendering.media_type}{key}{GZIP_ETAG_SUFFIX if is_gzip else ''}"
    headers |= {"X-Content-Type-Options": "nosniff", **rendering.headers}
    headers |= {"Vary": "Accept, Accept-Encoding"} if rendering.is_text else {}
    if rendering.file_name is not None:
        name = await asyncio.to_thread(rendering.file_name, answer.body)
        headers["Content-Disposition"] = f'inline; filename="{name}"'
    tagged = headers | {"ETag": f'"{tag}"'}
    rendered = await services_of(request).renderings.render(rendering, computation, answer, waiting_client(request))
    if not rendered.is_complete:  # a later request may have another body, which this tag must not name
        tagged = headers | UNSTORED
    body = rendered.body
    if rendering.media_type == HTML:
        body = await sign_report(services_of(request), answer, body)
    if is_gzip and len(body) >= SHORTEST_BYTES:
        body = await compress(body)
        tagged |= {"Content-Encoding": "gzip"}
    return result_response(request, tag, body, tagged, rendering.content_type)


async def _answer_archive(
    computation: Computation[Any, Any], read: Callable[[bytes], Any], request: Request, declared: bytes | None
) -> ComputedResult:
    # The memory is reserved for the requester until the answer is sent. When memory is short, archives that are still
    # arriving are dropped first, then archives whose computation runs, as if the client had disconnected.
    services = services_of(request)
    limit = services.settings.max_upload_bytes
    check_length(declared or b"0", limit)
    client = waiting_client(request)
    body, is_complete = await receive_part(request, limit)
    async with services.upload_memory.reserve(client.requester) as reservation:
        reservation.extend(len(body))
        if not is_complete:
            body = await read_rest(request, body, limit, reservation)
        try:
            parsed = await asyncio.to_thread(read, body)
        except ValidationError as error:
            raise InvalidRequest(error) from None
        return await services.runner.run_in_thread(computation, parsed, client)
