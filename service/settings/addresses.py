"""Checks of addresses in settings: URLs of services and key sets, origins of browsers, and `host:port` to listen on."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from service.access.addresses import is_loopback

LARGEST_PORT: Final = 65_535
USUAL_PORTS: Final = {"http": 80, "https": 443}
LONGEST_SOCKET_PATH: Final = 107
"""Bytes, of Linux; elsewhere fewer, which is an error where the socket is made."""


def is_plain_address(text: str) -> bool:
    """Return whether a text is an `http://` or `https://` address without user, query and fragment."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in USUAL_PORTS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        return False
    return is_address and not (parts.username or parts.query or parts.fragment)


def is_key_set_place(text: str) -> bool:
    """Return whether a text may name a key set: an absolute path, or an address over HTTPS or on this machine.

    Nobody on the way can change the answers of such an address.
    """
    if text.startswith("/"):
        return True
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
        )
    except ValueError:
        return False


def is_origin(text: str) -> bool:
    """Return whether a text is an origin exactly as browsers send it (RFC 6454, section 6.2).

    An origin has a scheme and a host in lower case, a port only if it is not the usual one, and no path.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:  # brackets without an address, or a port that is no number
        return False
    if not host or parts.scheme not in USUAL_PORTS or not re.fullmatch(r"[a-z0-9.:_-]+", host):
        return False
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{name}:{port}"
    return port != USUAL_PORTS[parts.scheme] and text == f"{parts.scheme}://{place}"


def address_of(bind: str) -> tuple[str, int] | Path:
    """Return (host, port) for `host:port`, and the path for `unix:path`.

    Raise ValueError for any other text, for port 0, and for a path of more than 107 bytes.
    """
    kind, _, path = bind.partition(":")
    if kind == "unix":
        if not 0 < len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            raise ValueError(f"the path of a Unix socket must have 1 to {LONGEST_SOCKET_PATH} bytes")
        return Path(path)
    host, _, port = bind.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) <= LARGEST_PORT
    is_host = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not host or not is_port or not is_host:
        raise ValueError("must be `host:port`, `[IPv6 address]:port` or `unix:path`")
    return host.strip("[]"), int(port)
