"""Compression of long texts by gzip."""

from __future__ import annotations

import asyncio
import gzip
from typing import Final

SHORTEST_BYTES: Final = 1_000
"""Shortest body that is compressed. A shorter one fits into a single packet."""
LEVEL: Final = 6
GZIP_ETAG_SUFFIX: Final = "-gzip"
"""Suffix of the entity tag of a compressed body. Different bytes need different strong tags (RFC 9110, section 8.8.1).
"""


async def compress(body: bytes) -> bytes:
    """Return a response body compressed by gzip, outside the event loop. Equal bodies give equal bytes."""
    return await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
