"""Settings about stored results: Redis, seal keys, and the cache in memory."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

from pydantic import AliasChoices, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from service.settings.fields import PREFIX, CostUnits, Count, Seconds, SettingsFields

SHORTEST_SEAL_KEY: Final = 32


class StoreSettings(SettingsFields):
    """Settings about stored results: Redis, seal keys, and the cache in memory."""

    redis_password: SecretStr | None = Field(
        default=None,
        description="Password for `REDIS_URL`, in plain form without URL encoding.",
    )
    redis_url: SecretStr | None = Field(
        default=None,
        description=(
            "Address of Redis with the scheme `redis://`, `rediss://` or `unix://`. Absent: results are "
            "kept in memory only."
        ),
    )
    redis_timeout_seconds: Seconds = Field(
        default=0.003,
        description="Longest wait of a request for one response of Redis, in seconds. Afterwards the request "
        "continues without Redis. Use four round trips for a distant Redis (at most 20 ms).",
    )
    redis_expensive_timeout_seconds: Seconds = Field(
        default=0.25,
        description=(
            "Longest wait of an expensive computation for one response of Redis, in seconds. The wait never "
            "exceeds the estimated cost."
        ),
        validation_alias=AliasChoices(
            f"{PREFIX}REDIS_EXPENSIVE_TIMEOUT_SECONDS", f"{PREFIX}REDIS_DEAR_TIMEOUT_SECONDS"
        ),
    )
    redis_cost_floor: CostUnits = Field(
        default=1_000,
        description="Results below this cost are neither read from Redis nor written to it.",
    )
    seal_key: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(),
        description="Keys that seal entries of Redis, each with at least 32 characters. Separate several keys by "
        "commas, or send a JSON list. The first key seals, and all keys are accepted. Absent: a random "
        "key, and results are not shared.",
    )
    result_ttl_seconds: Count = Field(default=30 * 86_400, description="Seconds for which Redis keeps a result.")
    ground_truth_ttl: Count = Field(default=180, description="Days for which Redis keeps a ground truth.")
    memory_cache_entries: Count = Field(
        default=4_096,
        description="Number of results in memory. The requester with most results loses its least recently used "
        "result first.",
    )
    memory_cache_bytes: Count = Field(default=32 * 2**20, description="Bytes of results in memory.")

    @field_validator("seal_key", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        text = given.strip()
        try:
            keys: Any = json.loads(text) if text.startswith("[") else text.split(",")
        except ValueError:
            raise ValueError("must be text or a JSON list of texts") from None
        return tuple(key.strip() if isinstance(key, str) else key for key in keys)

    @field_validator("seal_key")
    @classmethod
    def _long_enough(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(key.get_secret_value()) < SHORTEST_SEAL_KEY for key in keys):
            raise ValueError(f"each key must have at least {SHORTEST_SEAL_KEY} characters")
        return keys

    @field_validator("redis_url")
    @classmethod
    def _address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            try:
                parts = urlsplit(url.get_secret_value())
                is_address = parts.scheme in ("redis", "rediss", "unix") and (parts.port is None or parts.port > 0)
            except ValueError:  # a port that is no number
                is_address = False
            if not is_address:
                raise ValueError("must be a `redis://`, `rediss://` or `unix://` address")
        return url

    @field_validator("redis_url")
    @classmethod
    def _with_password(cls, url: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        password: SecretStr | None = info.data.get("redis_password")
        if url is None or password is None:
            return url
        parts = urlsplit(url.get_secret_value())
        if parts.password is not None:
            raise ValueError(
                f"the address contains a password, and {PREFIX}REDIS_PASSWORD is also set; set one of them"
            )
        place = parts.netloc.rpartition("@")[2]
        access = f"{parts.username or ''}:{quote(password.get_secret_value(), safe='')}"
        return SecretStr(parts._replace(netloc=f"{access}@{place}").geturl())
