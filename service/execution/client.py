"""Who sends a request: the name that every share is counted by, and whether the client still waits for an answer."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True)
class WaitingClient:
    """`requester`: whose shares are used; `gone()` returns when the client has gone away."""

    requester: str
    gone: Callable[[], Awaitable[None]] = _never


LOCAL: Final = WaitingClient("local")
"""A caller in this process, who waits for as long as it takes."""


@lru_cache(maxsize=1024)  # a client asks more than once
def requester_at(address: str | None) -> str:
    """Return the requester at an address: of IPv6 the network of 64 bits, any address of which one machine can take."""
    if address is None:
        return "unknown"
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a path of a Unix socket, a name that a proxy wrote
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


def requester_of(scope: Mapping[str, Any]) -> str:
    """Return the requester of an ASGI scope. What the server says is the peer, or whom a trusted proxy forwards for."""
    address = scope.get("client")
    return requester_at(address[0] if address else None)
