"""All checks of a deployment, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from service.doctor import machine, secrets, storage
from service.doctor.finding import Finding
from service.settings import ConfigurationError, Settings, read_settings

REMEDY = "The guide, Operating, Settings, lists the settings and their ranges."


def examine(default_folder: Path, url: str | None) -> Iterator[Finding]:
    """Yield the findings of all checks. `url` is the address of a running service, or None, so that none is checked.

    `default_folder` is the data folder without a setting. The checks change nothing but a key of Redis, which expires.
    """
    yield from machine.check_versions()
    yield from machine.check_user()
    yield from machine.check_temporary_folder()
    yield from machine.check_numbers()
    try:
        settings = read_settings()
    except ConfigurationError as error:
        yield from (Finding("settings", "failed", sentence, REMEDY) for sentence in error.args)
    else:
        yield Finding("settings", "ok", "All settings are valid.")
        yield from _examine_settings(settings, default_folder)
    yield from secrets.check_secret_files()
    if url is not None:
        from service.doctor.service_checks import check_service

        yield from check_service(url)


def _examine_settings(settings: Settings, default_folder: Path) -> Iterator[Finding]:
    yield from machine.check_memory(settings)
    yield from secrets.check_seal_key(settings)
    yield from secrets.check_redis_password(settings)
    from service.doctor.signing import check_signing_keys

    yield from check_signing_keys(settings)
    yield from storage.check_data_folder(settings, default_folder)
    yield from storage.check_quarantine(settings, default_folder)
    from service.doctor.redis import check_redis

    yield from check_redis(settings)
    from service.doctor.authentication import check_authentication

    yield from check_authentication(settings)
