"""Recognition of callers by the header `Authorization`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

from service.access.api_keys import PREFIX
from service.access.caller import Caller
from service.access.errors import Unauthenticated
from service.access.key_ring import KeyRing

if TYPE_CHECKING:
    from service.access.key_set_source import KeySetSource
    from service.access.tokens import TokenVerifier

HEADER: Final = b"authorization"
BEARER: Final = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*) *")
"""Form of the header (RFC 6750, section 2.1). The scheme has no case (RFC 9110, section 11.1)."""
_KEY_PREFIX: Final = PREFIX.encode()


@final
class Authenticator:
    """Check of the credentials in requests: API keys and, with `tokens`, signed tokens of an issuer.

    `source` has the public keys of the issuer. Without `tokens`, every credential that is no API key is refused.
    """

    def __init__(self, keys: KeyRing, tokens: TokenVerifier | None = None, source: KeySetSource | None = None) -> None:
        self._keys, self._tokens, self._source = keys, tokens, source

    async def caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        """Return the caller that the credentials in these HTTP headers identify.

        Raise Unauthenticated if the header `Authorization` is missing, repeated, or holds no valid credentials. Raise
        AuthenticationUnavailable while they cannot be checked.
        """
        sent = [value for name, value in headers if name == HEADER]
        if not sent:
            raise Unauthenticated
        found = BEARER.fullmatch(sent[0]) if len(sent) == 1 else None
        if found is None:
            raise Unauthenticated(is_wrong=True)
        credential = found[1]
        if credential.startswith(_KEY_PREFIX):
            return await self._keys.caller(credential)
        if self._tokens is None:
            raise Unauthenticated(is_wrong=True)
        return await self._tokens.caller(credential)

    def failure(self) -> str:
        """Return a phrase that says why the API keys or the keys of the issuer cannot be read at present, or "".

        Keys that were read before stay valid for a while.
        """
        return self._keys.failure or ("" if self._source is None else self._source.failure)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Read the API keys and the keys of the issuer, and keep them current during the block.

        A slow issuer does not delay the block. Failures are reported and raise nothing.
        """
        await self._keys.refresh()
        tasks = [asyncio.create_task(self._keys.keep_current())]
        if self._source is not None:
            tasks.append(asyncio.create_task(self._source.keep_current()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
