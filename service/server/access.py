"""Authentication of the service: what the settings require, and the parts that check credentials.

The libraries of tokens take 9 MB, and are imported only where an issuer is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Final, final

from structlog.typing import FilteringBoundLogger

from service.access.addresses import is_loopback
from service.access.authenticator import HEADER, Authenticator
from service.access.errors import AccessError, AuthenticationUnavailable, KeyStoreError
from service.access.key_redis import RedisKeys
from service.access.key_ring import KeyRing
from service.access.key_store import KeyFile, KeyStore
from service.execution.entry_mac import EntryAuthenticator
from service.server.serve import default_state_folder
from service.settings import PREFIX, Settings

CHOICES: Final = (
    "so authentication must be configured (`privacy-bounds keys create --scope compute` makes a key, "
    f"{PREFIX}TOKEN_ISSUER accepts tokens, {PREFIX}REQUIRE_AUTHENTICATION=true asks for either), or switched off with "
    f"{PREFIX}REQUIRE_AUTHENTICATION=false."
)


@final
class CannotAuthenticate(Exception):
    """Raised for settings of credentials with which the service must not start.

    The message is one sentence for the operator.
    """


def requires_credentials(settings: Settings, host: str) -> bool:
    """Return whether requests to the public port at `host` need credentials, by the settings.

    Without a setting they do if the service listens beyond this machine, or if an issuer of tokens is set.
    """
    if settings.require_authentication is not None:
        return settings.require_authentication
    return settings.token_issuer is not None or not is_loopback(host)


def operators_require_credentials(settings: Settings, host: str) -> bool:
    """Return whether requests to the operator port need credentials, if the public port is at `host`.

    Nobody but the user of the service reaches a Unix socket, so that it needs none. Without an operator port the result
    is False.
    """
    address = settings.operator_address
    if address is None or isinstance(address, Path):
        return False
    return requires_credentials(settings, host) or requires_credentials(settings, address[0])


def ensure_authentication(settings: Settings, host: str | None) -> None:
    """Raise CannotAuthenticate unless credentials can be checked wherever the settings ask for them.

    If nothing but its address makes the service require credentials, there must be an API key. `host` is the host of
    the public port, or None for a process that has only an operator port.
    """
    operators = settings.operator_address
    hosts = [each for each in (host, operators[0] if isinstance(operators, tuple) else None) if each is not None]
    closed = [each for each in hosts if requires_credentials(settings, each)]
    if not closed:
        return
    needs_keys = settings.require_authentication is None and settings.token_issuer is None
    try:
        store = key_store(settings)
        # A service that knows that it requires credentials starts without Redis, and answers 503 until Redis is there.
        keys = store.read() if needs_keys or isinstance(store, KeyFile) else []
    except KeyStoreError as error:
        raise CannotAuthenticate(f"credentials cannot be checked: {error}.") from None
    if settings.token_jwks is not None and settings.token_jwks.startswith("/"):
        _ensure_key_set(Path(settings.token_jwks))
    if needs_keys and not keys:
        raise CannotAuthenticate(f"other machines can reach {closed[0] or 'every address'}, {CHOICES}")


def _ensure_key_set(path: Path) -> None:
    from service.access.key_set_source import FileReader
    from service.access.signing_keys import InvalidKeySet, read_key_set

    try:
        read_key_set(FileReader(path).read())
    except InvalidKeySet as error:
        raise CannotAuthenticate(f"credentials cannot be checked: {error}.") from None


def key_store(settings: Settings) -> KeyStore:
    """Return the store of API keys that the settings select: in Redis, or in the data folder.

    Raise KeyStoreError if keys in Redis lack the address of Redis or the seal key.
    """
    kind = settings.keys_store or ("redis" if settings.jobs_backend == "celery" else "file")
    if kind == "file":
        return KeyFile(settings.data_folder or default_state_folder())
    if settings.redis_url is None or not settings.seal_key:
        raise KeyStoreError(f"keys in Redis need {PREFIX}REDIS_URL and {PREFIX}SEAL_KEY")
    return RedisKeys(
        settings.redis_url.get_secret_value(),
        [key.get_secret_value() for key in settings.seal_key],
        lambda key: EntryAuthenticator([key]),
    )


def build_authenticator(settings: Settings, logger: FilteringBoundLogger) -> Authenticator:
    """Return the check of credentials that the settings describe. Raise KeyStoreError.

    Nothing is checked outside its context `running`.
    """
    keys = KeyRing(key_store(settings), _failure_logger(logger, "keys"))
    issuer, audience, place = settings.token_issuer, settings.token_audience, settings.token_jwks
    if issuer is None or audience is None or place is None:
        return Authenticator(keys)
    from service.access.key_set_source import AddressReader, FileReader, KeySetSource
    from service.access.tokens import TokenRules, TokenVerifier

    reader = FileReader(Path(place)) if place.startswith("/") else AddressReader(place)
    source = KeySetSource(reader, _failure_logger(logger, "issuer"))
    rules = TokenRules(
        issuer, audience, settings.token_algorithms, settings.token_clock_skew_seconds, settings.token_group_claim
    )
    return Authenticator(keys, TokenVerifier(rules, source), source)


def metrics_guard(settings: Settings) -> Callable[[list[str]], int] | None:
    """Return the check of requests for the metrics of a worker, or None if they need no credentials.

    The check takes the Authorization headers of a request and returns an HTTP status: 200 for an API key with the scope
    `metrics`, 403 for other keys, 401 without a valid key, and 503 while the store of keys cannot be read. The check
    accepts no tokens, and reads the store of keys for each request, since metrics are read a few times a minute. A Unix
    socket needs no credentials.
    """
    address = settings.operator_address
    if not isinstance(address, tuple) or not requires_credentials(settings, address[0]):
        return None
    keys = KeyRing(key_store(settings), lambda _: None)
    taking_turns = Lock()

    async def check(values: list[str]) -> int:
        await keys.refresh()
        try:
            caller = await Authenticator(keys).caller((HEADER, value.encode("latin-1")) for value in values)
        except AuthenticationUnavailable:
            return HTTPStatus.SERVICE_UNAVAILABLE
        except AccessError:
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.OK if "metrics" in caller.scopes else HTTPStatus.FORBIDDEN

    def guard(values: list[str]) -> int:
        with taking_turns:
            return asyncio.run(check(values))

    return guard


def _failure_logger(logger: FilteringBoundLogger, source: str) -> Callable[[str], None]:
    def report(failure: str) -> None:
        if failure:
            logger.warning("authentication", source=source, state="failed", reason=failure)
        else:
            logger.info("authentication", source=source, state="answers")

    return report
