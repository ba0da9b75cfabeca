"""gzip for who takes it, of texts that are long enough to gain by it."""

from __future__ import annotations

import asyncio
import gzip
from typing import Final

SHORTEST_BYTES: Final = 1_000
"""A packet holds as much: less is not sent any sooner."""
LEVEL: Final = 6
TAGGED: Final = "-gzip"
"""Ends the tag of what is sent compressed: other bytes have another strong tag (RFC 9110, section 8.8.1)."""


async def packed(body: bytes) -> bytes:
    """The body compressed, outside the event loop; equal bodies give equal bytes."""
    return await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
