"""Checks of authentication: whether callers need credentials, and whether somebody has valid ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from service.access.api_keys import ApiKey
from service.access.errors import KeyStoreError
from service.access.key_set_source import FileReader
from service.access.signing_keys import InvalidKeySet, read_key_set
from service.doctor.finding import Finding
from service.jobs.diagnosis import format_duration
from service.server.access import key_store
from service.settings import PREFIX, Settings

SOON_SECONDS: Final = 7 * 86_400
CREATE: Final = "privacy-bounds keys create --scope compute --name NAME"


def check_authentication(settings: Settings) -> Iterator[Finding]:
    """Yield whether requests need credentials, and whether the store and the issuer of credentials are usable.

    If a setting switches credentials off, yield one warning.
    """
    if settings.require_authentication is False:
        sentence = "Requests need no credentials."
        remedy = f"Set {PREFIX}REQUIRE_AUTHENTICATION=true where other machines reach the service."
        yield Finding("authentication", "warning", sentence, remedy)
        return
    try:
        if settings.token_jwks is not None and settings.token_jwks.startswith("/"):
            read_key_set(FileReader(Path(settings.token_jwks)).read())
        keys = [stored.key for stored in key_store(settings).read()]
    except (KeyStoreError, InvalidKeySet) as error:
        remedy = f"Correct {PREFIX}KEYS_STORE or {PREFIX}TOKEN_JWKS, or run the command as the user of the service."
        yield Finding("authentication", "failed", f"Credentials cannot be checked: {error}.", remedy)
        return
    now = time.time()
    valid = [key for key in keys if key.expires is None or key.expires > now]
    if valid or settings.token_issuer is not None:
        issuer = "" if settings.token_issuer is None else ", and tokens of one issuer"
        yield Finding("authentication", "ok", f"Requests need credentials: {len(valid)} valid API keys{issuer}.")
        yield from _check_keys(valid, settings, now)
    elif settings.require_authentication:
        sentence = "Nobody can call the service: there is no valid API key, and no issuer of tokens."
        yield Finding("authentication", "failed", sentence, f"Make a key: {CREATE}.")
    else:
        sentence = "There is no API key: the service listens on addresses of this machine alone."
        yield Finding("authentication", "ok", sentence)


def _check_keys(keys: Sequence[ApiKey], settings: Settings, now: float) -> Iterator[Finding]:
    ending = [key for key in keys if key.expires is not None and key.expires < now + SOON_SECONDS]
    if ending:
        first = min(key.expires or now for key in ending)
        sentence = f"{len(ending)} API keys end soon, the first in {format_duration(first - now)}."
        yield Finding("authentication", "warning", sentence, "privacy-bounds keys rotate ID")
    if isinstance(settings.operator_address, tuple) and not any("metrics" in key.scopes for key in keys):
        sentence = "No API key has the scope metrics, which Prometheus needs on the operator port."
        remedy = "privacy-bounds keys create --scope metrics --name prometheus"
        yield Finding("authentication", "warning", sentence, remedy)
