"""Who asks, as far as it matters here: whose turn it is, and whether anybody still waits for an answer."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True)
class Client:
    """`key` says whose share of the workers is used; `gone()` returns when the client has gone away."""

    key: str
    gone: Callable[[], Awaitable[None]] = _never


LOCAL: Final = Client("local")
"""A caller in this process, who waits for as long as it takes."""


@lru_cache(maxsize=1024)  # a client asks more than once
def client_key(address: str | None) -> str:
    """An address as one client: of IPv6 the network of 64 bits, any address of which one machine can take."""
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
