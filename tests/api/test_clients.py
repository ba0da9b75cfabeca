"""Client of a request: the peer of the connection, or the address that a trusted proxy forwards."""

from __future__ import annotations

import ipaddress
import random
from typing import Any

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.execution.client import requester_from_scope
from service.server.application import create_server
from service.settings import Settings
from tests.slow_marker import thorough

SEED = 20262
PROXIES = "10.0.0.0/8,192.0.2.7"
ADDRESSES = ("10.0.0.1", "10.9.9.9", "192.0.2.7", "192.0.2.8", "203.0.113.5", "203.0.113.6", "2001:db8::1")


async def key_of(settings: Settings, peer: str, forwarded: list[str]) -> str:
    """Return the client key that a server with these settings assigns to a request."""
    configuration = create_server(settings, "127.0.0.1", 0).config
    configuration.load()
    keys: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        keys.append(requester_from_scope(scope))

    served: Any = configuration.loaded_app
    assert isinstance(served, ProxyHeadersMiddleware) == bool(settings.trusted_proxies)
    if settings.trusted_proxies:
        served.app = application
    else:
        served = application
    headers = [(b"x-forwarded-for", ", ".join(forwarded).encode())] if forwarded else []
    scope = {"type": "http", "scheme": "http", "client": (peer, 1), "headers": headers}
    await served(scope, None, None)
    return keys[0]


@pytest.mark.parametrize("requests", [15, thorough(60)])
async def test_client_is_nearest_address_that_is_no_trusted_proxy(requests: int) -> None:
    """The client is the nearest address that is not a trusted proxy. Earlier entries of the header are not trusted."""
    source = random.Random(SEED)
    networks = [ipaddress.ip_network(name) for name in PROXIES.split(",")]
    for _ in range(requests):
        peer = source.choice(ADDRESSES)
        forwarded = source.choices([*ADDRESSES, "nonsense"], k=source.randint(0, 4))
        path = [*forwarded, peer]
        while len(path) > 1 and any(ipaddress.ip_address(path[-1]) in network for network in networks):
            path.pop()
            if path[-1] == "nonsense":
                break
        nearest = "2001:db8::/64" if path[-1] == "2001:db8::1" else path[-1]
        assert await key_of(Settings(trusted_proxies=PROXIES), peer, forwarded) == nearest
        plain = "2001:db8::/64" if peer == "2001:db8::1" else peer
        assert await key_of(Settings(), peer, forwarded) == plain
