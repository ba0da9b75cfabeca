"""Client of a request: the key to which its work is accounted, and the state of the connection.

A *requester* is the group of an authenticated caller, or a client address (IPv6: a /64 network). Memory, queue places
and worker time are accounted to requesters. The *owner* of a job or of a stored result is the group of its requester.
Everything of callers without a group has one owner, the anonymous caller.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from service.execution.work_limits import WorkAccount

GROUP_PREFIX: Final = "group:"
HASHED_PREFIX: Final = "group#"
ANONYMOUS_OWNER: Final = ""
"""Owner of everything whose requester is an address, also of jobs that earlier versions stored."""
_PLAIN_GROUP: Final = re.compile(r"[\x21-\x7e]{1,128}")


async def _wait_forever() -> None:
    await asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True)
class WaitingClient:
    """Client that waits for a result.

    `requester` is the key that queues, caches and quotas account to. `wait_disconnected()` returns when the client has
    disconnected; the default never returns. `account` counts the work of the requester; None: its work has no limit.
    """

    requester: str
    wait_disconnected: Callable[[], Awaitable[None]] = _wait_forever
    account: WorkAccount | None = None


LOCAL_CLIENT: Final = WaitingClient("local")
"""Caller in this process, which never disconnects."""


@lru_cache(maxsize=1024)  # most clients send several requests
def requester_from_address(address: str | None) -> str:
    """Return the requester key of a client address, to which its work is accounted.

    IPv4 addresses and names of Unix sockets are returned unchanged. IPv6 addresses are reduced to their /64 network,
    because one machine can use any address of its network. Return "unknown" for None, and for names with the prefix of
    a key of a group. Other names are returned unchanged.
    """
    if address is None or address.startswith((GROUP_PREFIX, HASHED_PREFIX)):  # a proxy may forward any text
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
    """Return the requester key of an HTTP request, to which its work is accounted, from its ASGI scope.

    The server puts the address of the peer, or the address that a trusted proxy forwards, into the scope. Return
    "unknown" if the scope has no address.
    """
    address = scope.get("client")
    return requester_from_address(address[0] if address else None)


@lru_cache(maxsize=1024)
def requester_from_group(group: str) -> str:
    """Return the requester key of a group of callers, which starts with `group:`.

    Names with spaces, control characters or accents, of no character or of more than 128 are hashed (`group#`).
    """
    if _PLAIN_GROUP.fullmatch(group):
        return GROUP_PREFIX + group
    return HASHED_PREFIX + hashlib.sha256(group.encode(errors="surrogatepass")).hexdigest()


def owner_of(requester: str) -> str:
    """Return the owner of what a requester stores: the key of its group, or ANONYMOUS_OWNER for an address."""
    return requester if requester.startswith((GROUP_PREFIX, HASHED_PREFIX)) else ANONYMOUS_OWNER
