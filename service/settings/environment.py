"""Settings of the environment: one frozen value, read from variables PRIVACY_BOUNDS_*, never at import."""

from __future__ import annotations

import difflib
import os
from typing import Any, Final, get_args

from pydantic import SecretStr, ValidationError

from service.secret_files import SUFFIX, read_secret_files
from service.settings.callers import CallerSettings
from service.settings.computations import ComputationSettings
from service.settings.connections import ConnectionSettings
from service.settings.fields import PREFIX
from service.settings.jobs import JobSettings
from service.settings.operation import OperationSettings
from service.settings.stores import StoreSettings

EARLIER_NAMES: Final = frozenset({f"{PREFIX}REDIS_DEAR_TIMEOUT_SECONDS"})
"""Names of environment variables of earlier versions, which are accepted as aliases."""
CLIENT_NAMES: Final = frozenset({f"{PREFIX}API_KEY"})
"""Names of environment variables of clients, which the service does not read."""


class Settings(OperationSettings, ConnectionSettings, JobSettings, ComputationSettings, StoreSettings, CallerSettings):
    """All settings of the service. Host and port are not among them: they are arguments of `privacy-bounds serve`.

    Fields are validated from the last base to the first: settings of jobs after those of stores, which they need.
    """


class ConfigurationError(Exception):
    """Environment variables that are invalid or unknown.

    Each argument is one sentence, which does not contain the value.
    """


def read_settings() -> Settings:
    """Return the settings of the environment.

    Raise ConfigurationError for invalid values, and for unknown names that begin with PRIVACY_BOUNDS_.
    """
    secrets = {f"{PREFIX}{field.upper()}": field for field in secret_fields()}
    names = {f"{PREFIX}{field.upper()}" for field in Settings.model_fields} | EARLIER_NAMES
    names |= {name + SUFFIX for name in secrets}
    in_files, sentences = read_secret_files(os.environ, secrets)
    accepted = names | CLIENT_NAMES
    sentences += [
        _unknown(name, names) for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in accepted
    ]
    given: dict[str, Any] = {secrets[name]: value for name, value in in_files.items()}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        for detail in error.errors(include_input=False, include_url=False):
            reason = detail["msg"].removeprefix("Value error, ").rstrip(".")
            name = PREFIX + str(detail["loc"][0]).upper().removeprefix(PREFIX)
            sentences.append(f"{name} is not accepted: {reason[:1].lower()}{reason[1:]}.")
        raise ConfigurationError(*dict.fromkeys(sentences)) from None
    if sentences:
        raise ConfigurationError(*sentences)
    return settings


def secret_fields() -> list[str]:
    """Return the names of the settings that are secret. The variable `NAME_FILE` names a file with such a value."""
    return [name for name, field in Settings.model_fields.items() if _holds_secret(field.annotation)]


def _holds_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(map(_holds_secret, get_args(annotation)))


def _unknown(name: str, names: set[str]) -> str:
    near = difflib.get_close_matches(name.upper(), sorted(names), n=1)
    return f"{name} is not a setting{f'; did you mean {near[0]}?' if near else '.'}"
