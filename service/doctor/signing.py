"""Check of the keys that sign answers."""

from __future__ import annotations

import os
from collections.abc import Iterator

from service.doctor.finding import Finding
from service.settings import PREFIX, Settings
from service.signing.errors import UnusableKeys
from service.signing.keys import read_signing_keys


def check_signing_keys(settings: Settings) -> Iterator[Finding]:
    """Yield whether the service can sign. A service with an unusable file of keys does not start."""
    if settings.signing_keys is None:
        yield Finding("signing keys", "ok", "No signing keys are set: answers are not signed.")
        return
    try:
        keys = read_signing_keys(settings.signing_keys)
    except UnusableKeys as error:
        sentence = f"The service cannot sign: {error.sentence}."
        remedy = f"Give {PREFIX}SIGNING_KEYS a PEM file with Ed25519 keys that only user {os.geteuid()} may read."
        yield Finding("signing keys", "failed", sentence, remedy)
        return
    sentence = f"Key {keys.id} signs, and {len(keys.public)} public keys are published."
    yield Finding("signing keys", "ok", sentence)
