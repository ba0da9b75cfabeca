"""Client of a request: the key to which its work is accounted, and the state of the connection.

A *requester* is a client address (IPv6: a /64 network). Memory, queue places and worker time are accounted to
requesters.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final


async def _wait_forever() -> None:
    await asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True)
class WaitingClient:
    """Client that waits for a result.

    `requester` is the key that queues, caches and quotas account to. `wait_disconnected()` returns when the client has
    disconnected.
    """

    requester: str
    wait_disconnected: Callable[[], Awaitable[None]] = _wait_forever


LOCAL_CLIENT: Final = WaitingClient("local")
"""Caller in this process, which never disconnects."""


@lru_cache(maxsize=1024)  # most clients send several requests
def requester_from_address(address: str | None) -> str:
    """Return the key to which the work of a client address is accounted.

    IPv4 addresses and names of Unix sockets are returned unchanged. IPv6 addresses are reduced to their /64 network,
    because one machine can use any address of its network. Return "unknown" for None.
    """
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


def requester_from_scope(scope: Mapping[str, Any]) -> str:
    """Return the key to which the work of a request is accounted, from its ASGI scope.

    The server puts the address of the peer, or the address that a trusted proxy forwards, into the scope.
    """
    address = scope.get("client")
    return requester_from_address(address[0] if address else None)
