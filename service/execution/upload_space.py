"""Memory for bodies that are being received or wait for their computation: bounded for all together.

Space is taken as bytes arrive, so that who announces much and sends little holds little.
"""

from __future__ import annotations

from typing import Final, Self, final

from service.execution.errors import QueueFull

LARGEST_UPLOADS_AT_ONCE: Final = 4
LARGEST_BODIES_AT_ONCE: Final = 32
RETRY_AFTER_SECONDS: Final = 2


@final
class UploadSpace:
    """Room for so many bodies of the largest size, or for more that are smaller; of one event loop."""

    def __init__(self, largest_bytes: int, at_once: int = LARGEST_UPLOADS_AT_ONCE) -> None:
        self.largest_bytes = largest_bytes
        self._free = at_once * largest_bytes

    def hold(self) -> Held:
        """Nothing at first; what it has grown to is free again when the block ends."""
        return Held(self)

    def take(self, size: int) -> None:
        """Less room for others. Raises QueueFull where there is too little."""
        if size > self._free:
            raise QueueFull(RETRY_AFTER_SECONDS)
        self._free -= size

    def give_back(self, size: int) -> None:
        """More room for others."""
        self._free += size


@final
class Held:
    """The room of one body, for as long as the block that it is entered for."""

    __slots__ = ("_space", "size")

    def __init__(self, space: UploadSpace) -> None:
        self._space = space
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._space.give_back(self.size)

    def grow(self, size: int) -> None:
        """Room for so many more bytes. Raises QueueFull."""
        self._space.take(size)
        self.size += size
