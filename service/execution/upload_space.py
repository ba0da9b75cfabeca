"""Memory for uploads that are being received or wait for their computation: bounded for all together."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, final

from service.execution.errors import QueueFull

LARGEST_UPLOADS_AT_ONCE: Final = 4
RETRY_AFTER_SECONDS: Final = 2


@final
class UploadSpace:
    """Room for so many uploads of the largest size, or for more that are smaller; of one event loop."""

    def __init__(self, largest_bytes: int) -> None:
        self.largest_bytes = largest_bytes
        self._free = LARGEST_UPLOADS_AT_ONCE * largest_bytes

    @contextmanager
    def hold(self, size: int) -> Generator[None]:
        """Room for `size` bytes until the block ends. Raises QueueFull where there is none."""
        if size > self._free:
            raise QueueFull(RETRY_AFTER_SECONDS)
        self._free -= size
        try:
            yield
        finally:
            self._free += size
