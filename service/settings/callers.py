"""Settings about who may call, and how much."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from service.access.algorithms import Algorithm
from service.settings.addresses import is_key_set_place, is_origin
from service.settings.fields import PREFIX, SettingsFields

WORK_LIMIT: Final = r"[1-9][0-9]{0,17}/([1-9][0-9]{0,5} )?(second|minute|hour|day)s?"
LONGEST_CLOCK_SKEW_SECONDS: Final = 300


class CallerSettings(SettingsFields):
    """Settings about who may call, and how much."""

    require_authentication: bool | None = Field(
        default=None,
        description="`true`: every request needs credentials, except to open routes. `false`: no request needs any. "
        "Absent: requests need credentials if the service listens beyond this machine, or if `TOKEN_ISSUER` is set.",
    )
    keys_store: Literal["file", "redis"] | None = Field(
        default=None,
        description="Store of API keys: `file` in the data folder, or `redis`, which needs `REDIS_URL` and `SEAL_KEY`. "
        "Absent: `redis` with `JOBS_BACKEND=celery`, otherwise `file`.",
    )
    token_issuer: str | None = Field(
        default=None,
        description="Issuer (`iss`) of accepted signed tokens (JWT). Set `TOKEN_AUDIENCE` and `TOKEN_JWKS` too.",
    )
    token_audience: str | None = Field(default=None, description="Audience (`aud`) that a token must name.")
    token_algorithms: Annotated[tuple[Algorithm, ...], NoDecode] = Field(
        default=("RS256", "ES256", "EdDSA"),
        min_length=1,
        description="Accepted algorithms of tokens, separated by commas: RS, PS or ES with 256, 384 or 512, or EdDSA.",
    )
    token_jwks: str | None = Field(
        default=None,
        validate_default=True,
        description="Public keys of the issuer, a JWK set: an `https://` address or the absolute path of a file.",
    )
    token_clock_skew_seconds: Annotated[float, Field(ge=0, le=LONGEST_CLOCK_SKEW_SECONDS)] = Field(
        default=30.0, description="Tolerated difference between the clocks of the issuer and the service, in seconds."
    )
    token_group_claim: str | None = Field(
        default=None,
        description="Claim of a token with the group of the caller, a text. Absent: each subject is its own group.",
    )
    work_limit: str | None = Field(
        default=None,
        description="Work units that one caller may use in a window of time, for example `60000000/minute` or "
        "`1000000000/2 hours`. A unit is about one microsecond of CPU time. Windows start at multiples of their "
        "length. Callers of one group share the limit. A caller without credentials is an address. Above the limit, "
        "requests receive status 429. Absent: no limit.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="JSON list of origins whose pages may call the service from a browser, for example "
        '`["https://dashboard.example.com"]`. An origin is a scheme and a host, with any port other than the default. '
        "Cookies are never used.",
    )

    @field_validator("token_algorithms", mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        return tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else given

    @field_validator("token_jwks")
    @classmethod
    def _complete(cls, place: str | None, info: ValidationInfo) -> str | None:
        given = [place, *(info.data.get(name) for name in ("token_issuer", "token_audience"))]
        if len({each is None for each in given}) > 1:
            raise ValueError(f"set {PREFIX}TOKEN_ISSUER, {PREFIX}TOKEN_AUDIENCE and {PREFIX}TOKEN_JWKS together")
        if place is not None and not is_key_set_place(place):
            raise ValueError("must be an `https://` address, or the absolute path of a file")
        return place

    @field_validator("work_limit")
    @classmethod
    def _rate(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(WORK_LIMIT, given):
            raise ValueError(
                "must be a number of units and a window, for example `60000000/minute` or `1000000/10 seconds`"
            )
        return given

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _origins(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        try:
            origins: Any = json.loads(given)
        except ValueError:
            origins = None
        if not isinstance(origins, list):
            raise ValueError('not a JSON list of texts such as `["https://dashboard.example.com"]`')
        return tuple(cast("list[Any]", origins))

    @field_validator("cors_origins")
    @classmethod
    def _exact_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        if not all(map(is_origin, origins)):
            raise ValueError(
                "each origin must be exactly what browsers send: `https://` or `http://`, a host in lower case, and a "
                "port unless it is the usual one; no path, no wildcard"
            )
        return origins
