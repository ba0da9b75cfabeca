"""Request bodies: size and rate limits, and the memory that a requester's incoming bodies may use."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect

from service.api.caller_context import work_account_of
from service.api.dependencies import AppServices
from service.execution.client import WaitingClient
from service.execution.resource_budget import Reservation, TransferDeadline
from service.problems import BodyTooLarge, UnsupportedMediaType
from service.rendering.registry import JSON
from service.telemetry.http import request_context

LONGEST_LENGTH_DIGITS: Final = 15
GRACE_SECONDS: Final = 1.0
LEAST_BYTES_PER_SECOND: Final = 32 * 1024
"""Rate below which a body, after the grace period, is the first to be dropped when memory is short."""
LARGEST_BODIES_AT_ONCE: Final = 32
LARGEST_UPLOADS_AT_ONCE: Final = 4
"""Number of bodies of the largest size that fit into memory at the same time. Smaller bodies are more numerous."""


async def read_json_body(request: Request, services: AppServices) -> bytes:
    """Return the request body, after a check that its media type is JSON.

    Raise UnsupportedMediaType or BodyTooLarge.
    """
    sent = dict(request.scope["headers"])
    if media_type_of(sent) != JSON:
        raise UnsupportedMediaType
    return await read_json(request, services, sent)


async def read_json(request: Request, services: AppServices, sent: dict[bytes, bytes]) -> bytes:
    """Return the bytes of a request body, whose headers are `sent`. Raise BodyTooLarge and QueueFull.

    Neither its content type nor its syntax is checked. While the body arrives, its memory is reserved for the requester
    (group or address).
    """
    limit = services.settings.max_body_bytes
    check_length(sent.get(b"content-length", b"0"), limit)
    body, is_complete = await receive_part(request, limit)
    if is_complete:
        return body
    async with services.json_memory.reserve(request_context(request.scope).requester) as reservation:
        return await read_rest(request, body, limit, reservation)


def waiting_client(request: Request) -> WaitingClient:
    """Return the client of a request whose body was read completely.

    The next message of this client can only be its disconnect.
    """

    async def wait_disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return WaitingClient(request_context(request.scope).requester, wait_disconnected, work_account_of(request))


def media_type_of(sent: dict[bytes, bytes]) -> str:
    """Return the media type of a body by its `Content-Type` header, in lower case and without parameters.

    The text is empty without the header. `sent` has the headers of the request by their names in lower case.
    """
    content_type = sent.get(b"content-type", b"").decode("latin-1")
    return JSON if content_type == JSON else content_type.partition(";")[0].strip().lower()


def check_length(declared: bytes, limit: int) -> None:
    """Raise BodyTooLarge if `declared`, the value of Content-Length, exceeds `limit` bytes or has over 15 digits.

    A value that is no number is accepted; the body itself is counted.
    """
    if len(declared) > LONGEST_LENGTH_DIGITS or (declared.isdigit() and int(declared) > limit):
        raise BodyTooLarge


async def receive_part(request: Request, left: int) -> tuple[bytes, bool]:
    """Receive the next part of a request body. Return its bytes, and whether the body is complete.

    Raise BodyTooLarge if the part has more than `left` bytes, and ClientDisconnect.
    """
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    part: bytes = message.get("body", b"")
    if len(part) > left:
        raise BodyTooLarge
    return part, not message.get("more_body", False)


async def read_rest(request: Request, begin: bytes, limit: int, reservation: Reservation) -> bytes:
    """Read the rest of a request body after `begin`, and return the whole body.

    Raise BodyTooLarge as soon as the body exceeds `limit`. The memory is accounted to `reservation`, which becomes
    overdue while the body arrives at less than 32 KB/s. Raise QueueFull if the reservation is revoked, and
    ClientDisconnect.
    """
    loop = asyncio.get_running_loop()
    deadline = TransferDeadline(loop.time(), GRACE_SECONDS, LEAST_BYTES_PER_SECOND)
    parts, size, is_complete = [begin], len(begin), False
    reservation.extend(size - reservation.size)
    while not is_complete:
        reservation.overdue_at = deadline.at
        part, is_complete = await receive_part(request, limit - size)
        size += len(part)
        reservation.extend(len(part))
        deadline.advance(loop.time(), len(part))
        parts.append(part)
    reservation.overdue_at = math.inf
    return b"".join(parts)
