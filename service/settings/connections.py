"""Settings about connections, and how they end."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import Field, field_validator

from service.settings.fields import Count, Seconds, SettingsFields


class ConnectionSettings(SettingsFields):
    """Settings about connections, and how they end."""

    max_connections: Count = Field(
        default=512,
        description=(
            "Number of simultaneous connections. Above the limit, the service closes an idle "
            "connection, or responds with status 503."
        ),
    )
    max_connections_per_client: Count = Field(
        default=128, description="Number of simultaneous connections of one client address."
    )
    trusted_proxies: str = Field(
        default="",
        description=(
            "Trusted proxies: addresses or networks, separated by commas. Their header `X-Forwarded-For` "
            "determines the client address."
        ),
    )
    max_url_bytes: Count = Field(
        default=8_192, description="Longest request target in bytes. Longer targets receive status 414."
    )
    max_header_bytes: Count = Field(
        default=32_768,
        description="Longest headers in bytes, names and values together. Longer headers receive status 431.",
    )
    receive_timeout_seconds: Seconds = Field(
        default=30.0,
        description="Time limit for the arrival of headers and body, in seconds. Later requests receive status 408.",
    )
    send_timeout_seconds: Seconds = Field(
        default=30.0,
        description="Time limit for a client that reads almost nothing of a response, in seconds. The service then "
        "closes the connection. A client that reads steadily has no limit.",
    )
    keep_alive_seconds: Count = Field(
        default=75,
        description="Seconds for which an idle connection stays open after a response. Set this longer than the idle "
        "time of the load balancer, which otherwise responds with status 502.",
    )
    shutdown_timeout_seconds: Count = Field(
        default=20,
        description=(
            "Seconds for which requests may run after SIGTERM. Later requests receive status 503. Set this "
            "below the grace period of the container."
        ),
    )
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0,
        description=(
            "Seconds after SIGTERM in which `/readyz` responds with status 503 while requests are still "
            "served. The service then stops."
        ),
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, given: str) -> str:
        names = [name.strip() for name in given.split(",") if name.strip()]
        for name in names:
            try:
                ipaddress.ip_network(name, strict=False)
            except ValueError:
                raise ValueError("must be addresses or networks, separated by commas") from None
        return ",".join(names)
