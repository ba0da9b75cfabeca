"""Settings of the service: one frozen value, read from environment variables PRIVACY_BOUNDS_*, never at import."""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args
from urllib.parse import quote, urlsplit

from pydantic import AliasChoices, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.access.addresses import is_loopback
from service.access.algorithms import Algorithm
from service.secret_files import SUFFIX, read_secret_files

PREFIX: Final = "PRIVACY_BOUNDS_"
SHORTEST_SEAL_KEY: Final = 32
LARGEST_PORT: Final = 65_535
USUAL_PORTS: Final = {"http": 80, "https": 443}
LONGEST_SOCKET_PATH: Final = 107
"""Bytes, of Linux; elsewhere fewer, which is an error where the socket is made."""

WORK_LIMIT: Final = r"[1-9][0-9]{0,17}/([1-9][0-9]{0,5} )?(second|minute|hour|day)s?"

EARLIER_NAMES: Final = frozenset({f"{PREFIX}REDIS_DEAR_TIMEOUT_SECONDS"})
"""Names of environment variables of earlier versions, which are accepted as aliases."""
CLIENT_NAMES: Final = frozenset({f"{PREFIX}API_KEY"})
"""Names of environment variables of clients, which the service does not read."""
LONGEST_CLOCK_SKEW_SECONDS: Final = 300

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
CostUnits = Annotated[int, Field(ge=0, description="Cost in units of about one microsecond of CPU time.")]


def default_worker_count() -> int:
    """Return the number of cores less one, at least 1 and at most 4: one core stays with the event loop."""
    return min(4, max(1, (os.cpu_count() or 2) - 1))


class Settings(BaseSettings):
    """All settings of the service. Host and port are not among them: they are arguments of `privacy-bounds serve`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", populate_by_name=True
    )

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

    max_body_bytes: Count = Field(
        default=2**20, description="Longest request body in bytes. Longer bodies receive status 413."
    )
    max_upload_bytes: Count = Field(
        default=2**26,
        description=(
            "Longest archive of arrays in bytes. Longer archives receive status 413. All "
            "archives together may take four times this size."
        ),
    )
    max_cost: CostUnits = Field(
        default=20_000_000,
        description="Highest estimated cost of a request. The service rejects requests that certainly cost more.",
    )

    worker_count: Count = Field(
        default_factory=default_worker_count,
        description=(
            "Number of worker processes. One worker is warm before the service is ready. An additional "
            "worker takes only short computations."
        ),
    )
    worker_niceness: Annotated[int, Field(ge=0, le=19)] = Field(
        default=10,
        description=(
            "Scheduling niceness of workers. A higher value keeps inexpensive requests fast "
            "beside expensive computations."
        ),
    )
    worker_memory_limit_bytes: Annotated[int, Field(ge=256 * 2**20)] = Field(
        default=2**30, description="Data segment limit of a worker process in bytes."
    )
    time_limit_seconds: Seconds = Field(
        default=30.0,
        description="Time limit of a computation in seconds. The service then ends the worker and responds with "
        "status 504. Sweeps stop at three quarters of the limit and return the points answered so far.",
    )
    queue_limit: Count = Field(
        default=64,
        description=(
            "Number of computations that may wait for a worker, and as many short ones. Above the limit, "
            "the requester with most waiting computations receives status 503."
        ),
    )
    queue_wait_limit_seconds: Seconds = Field(
        default=30.0,
        description="Longest accepted estimate of the wait for a worker, in seconds. Longer estimates "
        "receive status 503.",
    )

    cross_check_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.01,
        description="Share of the answers of `/v1/bounds` that an independent engine computes again while no request "
        "waits. 0 switches the checks off.",
    )

    jobs_backend: Literal["embedded", "celery"] = Field(
        default="embedded",
        description="Backend for jobs. embedded: processes of this instance. celery: workers of a cluster "
        "(`privacy-bounds worker`), which need `REDIS_URL` and `SEAL_KEY`.",
    )
    data_folder: Path | None = Field(
        default=None,
        description="Folder of embedded jobs, of API keys in files and of quarantined results. Absent: "
        "`privacy-bounds serve` uses `privacy-bounds` below `$XDG_STATE_HOME` or `~/.local/state`.",
    )
    job_workers: Count = Field(
        default_factory=default_worker_count,
        description=(
            "Number of worker processes for jobs, of `serve` with embedded jobs or of one `worker`. They "
            "run only while jobs exist."
        ),
    )
    job_points: Count = Field(default=1_000_000, description="Largest number of points in a job.")
    job_max_cost: CostUnits = Field(
        default=40_000_000_000,
        description="Highest estimated cost of a job. The service rejects jobs that certainly cost more.",
    )
    job_time_limit_seconds: Seconds = Field(
        default=600.0,
        description=(
            "Time limit of a job with a single request, in seconds. Points of sweeps have the limit "
            "`TIME_LIMIT_SECONDS`."
        ),
    )
    jobs_at_once: Count = Field(
        default=1_000,
        description=(
            "Number of waiting and running jobs. One client may have at most half of them. "
            "Above the limit, requests receive status 503."
        ),
    )
    job_stored_bytes: Count = Field(
        default=2**30,
        description="Bytes of requests and results of all jobs. One client may use at most half. Above the limit, "
        "the service deletes the jobs that ended first, starting with the client that uses most. If that "
        "is not enough, requests receive status 503.",
    )
    job_age_limit_seconds: Seconds = Field(
        default=7 * 86_400, description="Age limit of a job in seconds. A job that has not ended by then fails."
    )
    job_ttl_seconds: Count = Field(
        default=7 * 86_400, description="Seconds for which a job and its results are kept after the end of the job."
    )

    max_connections: Count = Field(
        default=512,
        description=(
            "Number of simultaneous connections. Above the limit, the service closes an idle "
            "connection, or responds with status 503."
        ),
    )
    max_connections_per_client: Count = Field(
        default=128, description="Number of simultaneous connections of one client address."
    )
    trusted_proxies: str = Field(
        default="",
        description=(
            "Trusted proxies: addresses or networks, separated by commas. Their header `X-Forwarded-For` "
            "determines the client address."
        ),
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="JSON list of origins whose pages may call the service from a browser, for example "
        '`["https://dashboard.example.com"]`. An origin is a scheme and a host, with any port other than the default. '
        "Cookies are never used.",
    )
    max_url_bytes: Count = Field(
        default=8_192, description="Longest request target in bytes. Longer targets receive status 414."
    )
    max_header_bytes: Count = Field(
        default=32_768,
        description="Longest headers in bytes, names and values together. Longer headers receive status 431.",
    )
    receive_timeout_seconds: Seconds = Field(
        default=30.0,
        description="Time limit for the arrival of headers and body, in seconds. Later requests receive status 408.",
    )
    send_timeout_seconds: Seconds = Field(
        default=30.0,
        description="Time limit for a client that reads almost nothing of a response, in seconds. The service then "
        "closes the connection. A client that reads steadily has no limit.",
    )
    keep_alive_seconds: Count = Field(
        default=75,
        description="Seconds for which an idle connection stays open after a response. Set this longer than the idle "
        "time of the load balancer, which otherwise responds with status 502.",
    )
    shutdown_timeout_seconds: Count = Field(
        default=20,
        description=(
            "Seconds for which requests may run after SIGTERM. Later requests receive status 503. Set this "
            "below the grace period of the container."
        ),
    )
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0,
        description=(
            "Seconds after SIGTERM in which `/readyz` responds with status 503 while requests are still "
            "served. The service then stops."
        ),
    )

    work_limit: str | None = Field(
        default=None,
        description="Work units that one caller may use in a window of time, for example `60000000/minute` or "
        "`1000000000/2 hours`. A unit is about one microsecond of CPU time. Windows start at multiples of their "
        "length. Callers of one group share the limit. A caller without credentials is an address. Above the limit, "
        "requests receive status 429. Absent: no limit.",
    )
    audit_log: str | None = Field(
        default=None,
        description="Path of the audit stream, or `-` for standard output. The stream has one line of JSON for each "
        "request and each decision, and no bodies. Absent: no stream.",
    )

    operator_bind: str | None = Field(
        default=None,
        description="Address `host:port` or `unix:path` for `/metrics`, the details of `/readyz` and the "
        "administration of jobs. Absent: `/metrics` and the details are on the public port.",
    )

    signing_keys: Path | None = Field(
        default=None,
        description="PEM file with Ed25519 keys, which only the user of the service may read. The first key "
        "signs statements, and all public keys are published at `/.well-known/privacy-bounds-keys`. Absent: nothing is "
        "signed.",
    )
    traces_endpoint: str | None = Field(
        default=None,
        description="Address of an OTLP receiver over HTTP for traces, for example `http://collector:4318`. Absent: no "
        "traces. Standard variables such as `OTEL_EXPORTER_OTLP_HEADERS` apply.",
    )
    traces_sample_ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=1.0,
        description="Share of traced requests, between 0 and 1, of those without a header `traceparent`. Requests with "
        "this header follow its decision.",
    )

    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="Log level. `info` writes one event for each request, and `warning` only failures."
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

    @field_validator("jobs_backend")
    @classmethod
    def _has_what_it_needs(cls, backend: str, info: ValidationInfo) -> str:
        if backend == "celery" and not (info.data.get("redis_url", True) and info.data.get("seal_key", True)):
            raise ValueError(f"celery needs {PREFIX}REDIS_URL and {PREFIX}SEAL_KEY")
        return backend

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

    @field_validator("work_limit")
    @classmethod
    def _rate(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(WORK_LIMIT, given):
            raise ValueError(
                "must be a number of units and a window, for example `60000000/minute` or `1000000/10 seconds`"
            )
        return given

    @field_validator("traces_endpoint")
    @classmethod
    def _receiver(cls, given: str | None) -> str | None:
        if given is not None and not _is_plain_address(given):
            raise ValueError("must be an `http://` or `https://` address without user, query and fragment")
        return given

    @field_validator("operator_bind")
    @classmethod
    def _bindable(cls, given: str | None) -> str | None:
        if given is not None:
            address_of(given)
        return given

    @property
    def operator_address(self) -> tuple[str, int] | Path | None:
        """Address of the operator port: (host, port), or a Unix socket.

        It is None where operators use the public port.
        """
        return None if self.operator_bind is None else address_of(self.operator_bind)

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, given: str) -> str:
        names = [name.strip() for name in given.split(",") if name.strip()]
        for name in names:
            try:
                ipaddress.ip_network(name, strict=False)
            except ValueError:
                raise ValueError("must be addresses or networks, separated by commas") from None
        return ",".join(names)


def _is_plain_address(text: str) -> bool:
    """Return whether a text is an `http://` or `https://` address without user, query and fragment."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in USUAL_PORTS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        return False
    return is_address and not (parts.username or parts.query or parts.fragment)


def is_key_set_place(text: str) -> bool:
    """Return whether a text is an absolute path, or an address over HTTPS or on this machine, for a set of keys.

    Nobody on the way can change the answers of such an address.
    """
    if text.startswith("/"):
        return True
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
        )
    except ValueError:
        return False


def is_origin(text: str) -> bool:
    """Return whether a text is an origin exactly as browsers send it (RFC 6454, section 6.2)."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:  # brackets without an address, or a port that is no number
        return False
    if not host or parts.scheme not in USUAL_PORTS or not re.fullmatch(r"[a-z0-9.:_-]+", host):
        return False
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{name}:{port}"
    return port != USUAL_PORTS[parts.scheme] and text == f"{parts.scheme}://{place}"


def address_of(bind: str) -> tuple[str, int] | Path:
    """Return (host, port) for `host:port`, and the path for `unix:path`. Raise ValueError."""
    kind, _, path = bind.partition(":")
    if kind == "unix":
        if not 0 < len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            raise ValueError(f"the path of a Unix socket must have 1 to {LONGEST_SOCKET_PATH} bytes")
        return Path(path)
    host, _, port = bind.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) <= LARGEST_PORT
    is_host = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not host or not is_port or not is_host:
        raise ValueError("must be `host:port`, `[IPv6 address]:port` or `unix:path`")
    return host.strip("[]"), int(port)


class ConfigurationError(Exception):
    """Environment variables that are invalid or unknown.

    Each argument is one sentence, which does not contain the value.
    """


def read_settings() -> Settings:
    """Return the settings of the environment. Raise ConfigurationError for invalid values and unknown names."""
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
