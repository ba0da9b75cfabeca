"""Checks of secrets: seal keys and the modes of files that hold secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from service.doctor.finding import Finding
from service.secret_files import SUFFIX
from service.settings import PREFIX, Settings, secret_fields

PUBLISHED: Final = frozenset({"published-and-so-of-no-use-to-anybody", "privacy-bounds"})
"""Seal key and password that stood in the compose file of version 0.1."""
LEAST_DIFFERENT_CHARACTERS: Final = 8
RANDOM: Final = "Make a random key: openssl rand -hex 32."


def check_seal_key(settings: Settings) -> Iterator[Finding]:
    """Yield whether entries of Redis are sealed with keys that nobody can guess.

    A published key is a failure. A missing key (with Redis), one with less than 8 different characters, and a repeated
    key are warnings.
    """
    keys = [key.get_secret_value() for key in settings.seal_key]
    if not keys:
        if settings.redis_url is None:
            yield Finding("seal key", "ok", "No seal key is set, and without Redis none is needed.")
        else:
            sentence = "No seal key is set: results in Redis are lost with this process and not shared."
            yield Finding("seal key", "warning", sentence, f"Set {PREFIX}SEAL_KEY. {RANDOM}")
    elif PUBLISHED & set(keys):
        sentence = "A seal key is published: anybody who can write to Redis can say what was computed."
        yield Finding("seal key", "failed", sentence, RANDOM)
    elif any(len(set(key)) < LEAST_DIFFERENT_CHARACTERS for key in keys):
        yield Finding("seal key", "warning", "A seal key has few different characters.", RANDOM)
    elif len(set(keys)) < len(keys):
        yield Finding("seal key", "warning", "A seal key is listed twice.", f"List each key once in {PREFIX}SEAL_KEY.")
    else:
        yield Finding("seal key", "ok", f"Seal keys: {len(keys)}. The first of them seals.")


def check_redis_password(settings: Settings) -> Iterator[Finding]:
    """Yield a failure if the password of Redis is a published one, which is no secret, and nothing otherwise."""
    if settings.redis_password is not None and settings.redis_password.get_secret_value() in PUBLISHED:
        yield Finding("redis password", "failed", "The password of Redis is published.", "Set another password.")


def check_secret_files(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yield for each file of a secret whether other users of the machine may read or write it.

    The variables `NAME_FILE` of the `environment` name the files. Files that do not exist are left out here.
    """
    for field in secret_fields():
        name = f"{PREFIX}{field.upper()}{SUFFIX}"
        path = environment.get(name)
        if not path:
            continue
        try:
            mode = stat.S_IMODE(Path(path).stat().st_mode)
        except OSError:
            continue  # the check of the settings reports the file
        if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
            sentence = f"The file of {name} has mode {mode:04o}: other users may read or change it."
            yield Finding("secret files", "warning", sentence, "Give the file mode 0400 or 0440.")
        else:
            yield Finding("secret files", "ok", f"The file of {name} has mode {mode:04o}.")
