"""Results over HTTP: the bytes as they were stored, with the headers that name them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, final

from fastapi import Request, Response
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from service.api.compression import SHORTEST_BYTES, TAGGED, packed
from service.api.dependencies import Services, services_of
from service.api.later import job_sender, parse_prefer_wait, respond_async
from service.api.negotiation import header, preferred, takes_gzip
from service.api.problems import BodyTooLarge, UnsupportedMediaType
from service.computations.abstract import Computation
from service.execution.client import WaitingClient
from service.execution.resource_budget import Reservation, TransferDeadline
from service.execution.runner import ComputedResult
from service.parsing import InvalidRequest
from service.rendering.registry import JSON, Rendering, media_types, renderings_of
from service.telemetry.http import request_context
from service.telemetry.metrics import CacheOutcome

CACHE_STATUS: dict[CacheOutcome, str] = {
    "memory": "privacy-bounds; hit; detail=memory",
    "redis": "privacy-bounds; hit; detail=redis",
    "collapsed": "privacy-bounds; fwd=miss; collapsed",
    "computed": "privacy-bounds; fwd=miss; stored",
    "unstored": "privacy-bounds; fwd=miss",
}
"""RFC 9211."""

NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "`If-None-Match` names this result."}}
UNSTORED = {"Cache-Control": "no-store"}
"""Of an answer that no digest names, because the same request has another one another day."""
LONGEST_LENGTH_DIGITS = 15
SLICE_BYTES = 2**16
PATIENCE_SECONDS = 1.0
LEAST_BYTES_PER_SECOND = 32 * 1024
"""A body that arrives more slowly, for longer than that, gives way first."""
LARGEST_BODIES_AT_ONCE = 32
LARGEST_UPLOADS_AT_ONCE = 4
"""Of the largest size; more of those that are smaller."""
ARCHIVE_TYPES = frozenset({"application/octet-stream", "application/zip", "application/x-npz"})


async def answer_computation(computation: Computation[Any, Any], request: Request) -> Response:
    """Run a computation on the body of a request; the body goes to the validator as it was sent."""
    sent = dict(request.scope["headers"])
    services = services_of(request)
    renderings = renderings_of(computation.name)
    form = None
    if renderings:
        form = renderings.get(preferred(header(request, b"accept"), media_types(computation.name)))
    if form is not None:
        services.renderings.prewarm(form)
    media_type = _media_type(sent.get(b"content-type", b"").decode("latin-1"))
    if media_type == JSON:
        body = await _read_json(request, services, sent)
        patience = None if b"prefer" not in sent else parse_prefer_wait(request.headers.getlist("prefer"))
        if patience is not None:
            later = await respond_async(computation, body, patience, services, job_sender(request))
            if isinstance(later, Response):
                return later
            answer = later
        else:
            answer = await services.runner.answer(computation, body, client_of(request))
    elif media_type in ARCHIVE_TYPES and computation.read_archive is not None:
        answer = await _answer_archive(computation, computation.read_archive, request, sent.get(b"content-length"))
    else:
        raise UnsupportedMediaType
    record = request_context(request.scope)
    record.digest, record.cache, record.compute_seconds = answer.digest, answer.cache, answer.compute_seconds
    if computation.decision is not None:
        read = computation.response_type.model_validate_json
        record.decision = computation.decision(await asyncio.to_thread(read, answer.body))
    headers = {"Cache-Status": CACHE_STATUS[answer.cache]}
    if renderings:
        headers["Vary"] = "Accept"
    if form is not None:
        return await _answer_in_form(form, computation, answer, request, headers)
    if answer.cache == "unstored":
        return stored_response(request, "", answer.body, headers | UNSTORED)
    headers["ETag"], headers["Content-Location"] = f'"{answer.digest}"', f"/v1/results/{answer.digest}"
    return stored_response(request, answer.digest, answer.body, headers)


async def _answer_in_form(
    form: Rendering,
    computation: Computation[Any, Any],
    answer: ComputedResult,
    request: Request,
    headers: dict[str, str],
) -> Response:
    """An answer in another form: with a tag of its own, as it is no stored result, and compressed where that is
    accepted and it is text.
    """
    zips = form.is_text and takes_gzip(request)
    tag = f"{answer.digest};{form.media_type}{TAGGED if zips else ''}"
    headers |= {"X-Content-Type-Options": "nosniff", **form.headers}
    headers |= {"Vary": "Accept, Accept-Encoding"} if form.is_text else {}
    if form.file_name is not None:
        name = await asyncio.to_thread(form.file_name, answer.body)
        headers["Content-Disposition"] = f'inline; filename="{name}"'
    tagged = headers | {"ETag": f'"{tag}"'}
    written = await services_of(request).renderings.render(form, computation, answer, client_of(request))
    if not written.is_complete:  # it will be another one tomorrow: no tag names it
        tagged = headers | UNSTORED
    body = written.body
    if zips and len(body) >= SHORTEST_BYTES:
        body = await packed(body)
        tagged |= {"Content-Encoding": "gzip"}
    return stored_response(request, tag, body, tagged, form.content_type)


async def read_json_body(request: Request, services: Services) -> bytes:
    """The body of a request that has to be JSON. Raises UnsupportedMediaType, BodyTooLarge."""
    sent = dict(request.scope["headers"])
    if _media_type(sent.get(b"content-type", b"").decode("latin-1")) != JSON:
        raise UnsupportedMediaType
    return await _read_json(request, services, sent)


async def _read_json(request: Request, services: Services, sent: dict[bytes, bytes]) -> bytes:
    """Read the body. It counts as a share of its requester while it arrives; from then on its computation counts."""
    limit = services.settings.max_body_bytes
    _check_length(sent.get(b"content-length", b"0"), limit)
    body, is_complete = await _receive(request, limit)
    if is_complete:
        return body
    async with services.bodies.reserve(request_context(request.scope).requester) as share:
        return await _read_rest(request, body, limit, share)


async def _answer_archive(
    computation: Computation[Any, Any], read: Callable[[bytes], Any], request: Request, declared: bytes | None
) -> ComputedResult:
    """ComputedResult an archive of arrays, which may be much longer than JSON and is not kept for a second look.

    It counts as a share of its requester until it is answered. When the requester has to give way, the archives that
    are still arriving go first, then those that are computed: their computation ends as if the client had gone.
    """
    services = services_of(request)
    limit = services.settings.max_upload_bytes
    _check_length(declared or b"0", limit)
    client = client_of(request)
    body, is_complete = await _receive(request, limit)
    async with services.uploads.reserve(client.requester) as share:
        share.extend(len(body))
        if not is_complete:
            body = await _read_rest(request, body, limit, share)
        try:
            parsed = await asyncio.to_thread(read, body)
        except ValidationError as error:
            raise InvalidRequest(error) from None
        return await services.runner.run_in_thread(computation, parsed, client)


def client_of(request: Request) -> WaitingClient:
    """Who asks, when the whole body has been read: what comes then is that the client has gone, or nothing."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return WaitingClient(request_context(request.scope).requester, gone)


def stored_response(
    request: Request, tag: str, body: bytes, headers: dict[str, str], media_type: str = JSON
) -> Response:
    """Return a result, or 304 to a GET of what the client has."""
    if has(request, tag):
        return Response(status_code=304, headers=headers)
    if len(body) > SLICE_BYTES:
        return SlicedResponse(body, headers=headers, media_type=media_type)
    return WholeResponse(body, headers, media_type)


def has(request: Request, tag: str) -> bool:
    """Whether the client has this result already, and reads it: a POST is answered with what it asks for (RFC 9110,
    section 13.1.2: 304 is for GET and HEAD).
    """
    return request.scope["method"] == "GET" and names_entity(header(request, b"if-none-match"), tag)


@final
class WholeResponse(Response):
    """A body with the headers that it is given, and what it is: written in a third of the framework's time, which every
    closed form would pay.
    """

    def __init__(self, body: bytes, headers: Mapping[str, str], media_type: str) -> None:
        self.status_code, self.body, self.background = 200, body, None
        self.raw_headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        self.raw_headers += (b"content-length", b"%d" % len(body)), (b"content-type", media_type.encode())

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


@final
class SlicedResponse(Response):
    """Sends a long body piece by piece, each when the one before it is taken: slow clients share one copy."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body), SLICE_BYTES):
            end = start + SLICE_BYTES
            piece = bytes(self.body[start:end])
            await send({"type": "http.response.body", "body": piece, "more_body": end < len(self.body)})
            await asyncio.sleep(0)  # quick clients leave the event loop to others as well


def _check_length(declared: bytes, limit: int) -> None:
    """Check the announced length before any of a body is read. Raises BodyTooLarge."""
    if len(declared) > LONGEST_LENGTH_DIGITS or (declared.isdigit() and int(declared) > limit):
        raise BodyTooLarge


async def _receive(request: Request, left: int) -> tuple[bytes, bool]:
    """Return the bytes of a body that have come, and whether they are the last. Raises BodyTooLarge."""
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    piece: bytes = message.get("body", b"")
    if len(piece) > left:
        raise BodyTooLarge
    return piece, not message.get("more_body", False)


async def _read_rest(request: Request, begin: bytes, limit: int, share: Reservation) -> bytes:
    """Return the whole body, which begins like this; read as little as possible of one that is too long."""
    loop = asyncio.get_running_loop()
    pace = TransferDeadline(loop.time(), PATIENCE_SECONDS, LEAST_BYTES_PER_SECOND)
    pieces, size, is_complete = [begin], len(begin), False
    share.extend(size - share.size)
    while not is_complete:
        share.overdue_at = pace.at
        piece, is_complete = await _receive(request, limit - size)
        size += len(piece)
        share.extend(len(piece))
        pace.advance(loop.time(), len(piece))
        pieces.append(piece)
    share.overdue_at = math.inf
    return b"".join(pieces)


def _media_type(content_type: str) -> str:
    return JSON if content_type == JSON else content_type.partition(";")[0].strip().lower()


def names_entity(if_none_match: str, own: str) -> bool:
    """Whether the header lists this result (weak comparison, RFC 9110 section 13.1.2)."""
    tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
    return any(tag in ("*", f'"{own}"') for tag in tags)
