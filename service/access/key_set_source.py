"""Source of a JWK set: a file, or an address that is fetched periodically."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, final

from service.access.signing_keys import LARGEST_SET_BYTES, InvalidKeySet, SigningKey, read_key_set

if TYPE_CHECKING:
    import httpx2

FETCH_SECONDS: Final = 5.0
"""Time limit for one fetch, from the name of the host to the last byte."""
REFRESH_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 10.0
"""Least time between two attempts, whatever the tokens name."""
LONGEST_STALE_SECONDS: Final = 86_400.0
"""Time for which keys stay valid while their source does not answer."""


class KeySetReader(Protocol):
    """Function that returns the bytes of a set of public keys (JWK set), or raises InvalidKeySet."""

    async def __call__(self) -> bytes:
        """Return the bytes of the set of public keys (JWK set)."""
        ...


@final
class FileReader:
    """Reader of a set of public keys (JWK set) in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(self) -> bytes:
        """Return what `read` returns, without blocking the event loop. Raise InvalidKeySet as `read` does."""
        return await asyncio.to_thread(self.read)

    def read(self) -> bytes:
        """Return the content of the file, cut off one byte after the largest allowed size (256 KB).

        The additional byte shows that a file is too long. Raise InvalidKeySet if the file cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                return file.read(LARGEST_SET_BYTES + 1)
        except OSError as error:
            raise InvalidKeySet(f"{self._path}: {error.strerror}") from error


@final
class AddressReader:
    """Reader of a set of public keys (JWK set) at an address.

    Redirects are not followed, and answers of more than 256 KB or after five seconds are refused.
    """

    def __init__(self, url: str, *, seconds: float = FETCH_SECONDS) -> None:
        self._url, self._seconds = url, seconds

    async def __call__(self) -> bytes:
        """Return the body of the answer from the address. Raise InvalidKeySet for every failure."""
        import httpx2

        try:
            async with (
                asyncio.timeout(self._seconds),
                httpx2.AsyncClient(follow_redirects=False, timeout=self._seconds) as client,
                client.stream("GET", self._url, headers={"Accept-Encoding": "identity"}) as answer,
            ):
                if answer.status_code != HTTPStatus.OK:
                    raise InvalidKeySet(f"the address of the JWK set answers with status {answer.status_code}")
                return await _limited_body(answer)
        except TimeoutError:
            raise InvalidKeySet(f"the address of the JWK set does not answer within {self._seconds:g} s") from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise InvalidKeySet(f"the address of the JWK set cannot be read: {type(error).__name__}") from error


async def _limited_body(answer: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > LARGEST_SET_BYTES:
            raise InvalidKeySet(f"the JWK set is longer than {LARGEST_SET_BYTES} bytes")
    return bytes(body)


@final
class KeySetSource:
    """Public keys of an issuer of tokens in memory.

    The keys are read in the background, and again for a token that names an unknown key. `report` receives a phrase
    when the source fails, and an empty text when it answers again. `generation` counts the successful readings.
    """

    def __init__(
        self, read: KeySetReader, report: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._report = report
        self._clock = clock
        self._keys: tuple[SigningKey, ...] = ()
        self._tried = self._succeeded = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self.failure = ""
        """Phrase that says why the keys cannot be read, or ""."""
        self.generation = 0
        """Number of times that keys were read. Results of earlier keys are void."""

    @property
    def keys(self) -> tuple[SigningKey, ...] | None:
        """Keys of the last successful reading, or None if that was more than a day ago or never took place."""
        return self._keys if self._clock() - self._succeeded <= LONGEST_STALE_SECONDS else None

    async def refresh(self) -> None:
        """Read the keys of the issuer again, unless a reading began within the last ten seconds.

        Requests share one reading. A failure is reported, and raises nothing.
        """
        is_reading = self._reading is not None and not self._reading.done()
        if is_reading or self._clock() - self._tried >= RETRY_SECONDS:
            await self._read_once()

    async def keep_current(self) -> None:
        """Read the keys of the issuer now and every ten minutes (every ten seconds after a failure), without end."""
        while True:
            await self._read_once()
            await asyncio.sleep(RETRY_SECONDS if self.failure else REFRESH_SECONDS)

    async def _read_once(self) -> None:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._refresh())
        await asyncio.shield(self._reading)

    async def _refresh(self) -> None:
        self._tried = self._clock()
        try:
            found = await asyncio.to_thread(read_key_set, await self._read())
        except InvalidKeySet as error:
            failure = str(error)
        else:
            failure, self._succeeded = "", self._clock()
            self._keys = found
            self.generation += 1
        if failure != self.failure:
            self.failure = failure
            self._report(failure)
