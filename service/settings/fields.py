"""Base of all settings, and the types of their values."""

from __future__ import annotations

import os
from typing import Annotated, Final

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX: Final = "PRIVACY_BOUNDS_"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
CostUnits = Annotated[int, Field(ge=0, description="Cost in units of about one microsecond of CPU time.")]


class SettingsFields(BaseSettings):
    """Base of a group of settings. A subclass declares fields, with defaults.

    Fields are read from environment variables with the prefix PRIVACY_BOUNDS_. Empty variables count as absent, an
    unknown argument is an error, and settings cannot be changed.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", populate_by_name=True
    )


def default_worker_count() -> int:
    """Return the number of cores less one, at least 1 and at most 4: one core stays with the event loop."""
    return min(4, max(1, (os.cpu_count() or 2) - 1))
