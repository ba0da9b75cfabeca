"""Checks of Redis: reach, round trip, permissions of the user, persistence, memory, clock, jobs and their workers."""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final, cast
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from service.doctor.finding import Finding, as_mebibytes
from service.doctor.storage import LARGEST_CLOCK_SKEW_SECONDS
from service.engine_version import ENGINE_VERSION
from service.execution.entry_mac import EntryAuthenticator
from service.jobs.celery.store import WORKER_PRESENT_SECONDS, RedisStore
from service.jobs.diagnosis import format_duration, remedy_for
from service.jobs.errors import JobsUnavailable
from service.settings import PREFIX, Settings

TIMEOUT_SECONDS: Final = 2.0
PINGS: Final = 20
OLDEST_VERSION: Final = 6
KEY: Final = "privacy_bounds:doctor:"
TOO_MANY_RIGHTS: Final = (("CONFIG", "GET", "maxmemory"), ("KEYS", "privacy_bounds:doctor"), ("ACL", "LIST"))
"""Commands that the service never sends and that harm its neighbours. None of them changes anything."""
USER: Final = "Give the user the permissions in deploy/redis/start.sh."


def check_redis(settings: Settings) -> Iterator[Finding]:
    """Yield whether Redis serves as the settings need it.

    Without an address of Redis in the settings, yield one finding that nothing is wrong. An unreachable Redis is a
    failure.
    """
    if settings.redis_url is None:
        yield Finding("redis", "ok", "No Redis is set: results are kept in memory, and jobs in the data folder.")
        return
    url = settings.redis_url.get_secret_value()
    try:
        with closing(_connect(url)) as client:
            client.ping()
            yield from _check_connection(client, settings)
            yield from _check_permissions(client)
            yield from _check_server(client, settings)
    except (RedisError, OSError) as error:
        yield _unreachable(error)
        return
    yield _check_transport(url)
    yield from check_anonymous_access(url)
    if settings.jobs_backend == "celery":
        yield from _check_jobs(url, settings)


def _connect(url: str, **changes: Any) -> Any:
    make = cast("Any", redis.Redis).from_url
    waits = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
    return make(url, **waits, retry=Retry(NoBackoff(), 0), **changes)


def _unreachable(error: Exception) -> Finding:
    name = type(error).__name__
    if isinstance(error, NoPermissionError):
        return Finding("redis", "failed", "Redis denies the user a command that the service needs.", USER)
    remedy = remedy_for("AuthenticationError" if isinstance(error, AuthenticationError) else name)
    return Finding("redis", "failed", f"Redis does not answer: {name}.", remedy or remedy_for("ConnectionError"))


def _check_connection(client: Any, settings: Settings) -> Iterator[Finding]:
    seconds: list[float] = []
    for _ in range(PINGS):
        began = time.perf_counter()
        client.ping()
        seconds.append(time.perf_counter() - began)
    typical = sorted(seconds)[PINGS // 2]
    sentence = f"Redis answers in {typical * 1e3:.2g} ms."
    if 4 * typical > max(settings.redis_timeout_seconds, 0.02):
        remedy = f"Move Redis nearer, or set {PREFIX}REDIS_TIMEOUT_SECONDS to {4 * typical:.2g}."
        yield Finding("redis", "warning", f"{sentence} Most requests do not wait that long.", remedy)
    else:
        yield Finding("redis", "ok", sentence)


def _check_permissions(client: Any) -> Iterator[Finding]:
    # missing permissions are a failure, and needless ones a warning
    key = KEY + secrets.token_hex(8)
    needed: dict[str, Callable[[], Any]] = {
        "SET": lambda: client.set(key, "1", px=10_000),
        "GET": lambda: client.get(key),
        "EVAL": lambda: client.eval("return redis.call('GET', KEYS[1])", 1, key),
        "MULTI": lambda: client.pipeline(transaction=True).set(key, "2", px=10_000).execute(),
        "DEL": lambda: client.delete(key),
        "INFO": lambda: client.info("memory"),
        "TIME": client.time,
    }
    denied: list[str] = []
    for name, call in needed.items():
        try:
            call()
        except NoPermissionError:
            denied.append(name)
        except ResponseError as error:
            reason = str(error)[:60]
            yield Finding("redis user", "failed", f"Redis refuses {name}: {reason}.", remedy_for(reason))
            return
    if denied:
        yield Finding("redis user", "failed", f"The user of Redis may not use {', '.join(denied)}.", USER)
        return
    allowed = [command[0] for command in TOO_MANY_RIGHTS if _is_permitted(client, command)]
    if allowed:
        yield Finding("redis user", "warning", f"The user of Redis may use {', '.join(allowed)} too.", USER)
    else:
        yield Finding(
            "redis user", "ok", "The user of Redis has the permissions that the service needs, and no others."
        )


def _is_permitted(client: Any, command: tuple[str, ...]) -> bool:
    try:
        client.execute_command(*command)
    except ResponseError:
        return False
    return True


def check_anonymous_access(url: str) -> Iterator[Finding]:
    """Yield whether Redis at `url` answers without a password: a failure, or a warning if Redis is on this machine."""
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    try:
        with closing(_connect(bare)) as client:
            client.ping()
    except (RedisError, OSError):
        yield Finding("redis access", "ok", "Redis refuses whoever has no password.")
        return
    status = "warning" if _is_local(url) else "failed"
    remedy = "Set a password and `user default off`, as deploy/redis does."
    yield Finding("redis access", status, "Redis answers without a password.", remedy)


def _check_transport(url: str) -> Finding:
    if urlsplit(url).scheme in ("rediss", "unix") or _is_local(url):
        return Finding("redis transport", "ok", "Nobody on the network reads what is sent to Redis.")
    remedy = "Beyond one machine use a rediss:// address, or a network that only the service and Redis have."
    return Finding("redis transport", "warning", "What is sent to Redis is not encrypted.", remedy)


def _is_local(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or "localhost"
    if parts.scheme == "unix" or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_server(client: Any, settings: Settings) -> Iterator[Finding]:
    about: dict[str, Any] = client.info()
    found = str(about.get("redis_version", "0"))
    if int(found.partition(".")[0]) < OLDEST_VERSION:
        yield Finding(
            "redis version", "failed", f"Redis has version {found}.", f"Use version {OLDEST_VERSION} or later."
        )
    else:
        yield Finding("redis version", "ok", f"Redis has version {found}.")
    seconds, microseconds = cast("tuple[int, int]", client.time())
    apart = abs(seconds + microseconds / 1e6 - time.time())
    if apart > LARGEST_CLOCK_SKEW_SECONDS:
        sentence = f"The clocks of this machine and of Redis differ by {format_duration(apart)}."
        yield Finding("clock", "failed", sentence, "Set both clocks by NTP.")
    else:
        yield Finding("clock", "ok", "The clocks of this machine and of Redis agree.")
    yield from check_memory(about, settings)
    if settings.jobs_backend == "celery":
        yield _check_persistence(about)


def check_memory(about: dict[str, Any], settings: Settings) -> Iterator[Finding]:
    """Yield whether the memory of Redis has room for jobs, and whether Redis never evicts them.

    `about` is the reply of Redis to INFO.
    """
    most, policy = int(about.get("maxmemory", 0)), str(about.get("maxmemory_policy", ""))
    if settings.jobs_backend == "celery" and policy.startswith("allkeys"):
        sentence = f"Redis may evict accepted jobs: its policy is {policy}."
        yield Finding("redis memory", "failed", sentence, "Set maxmemory-policy volatile-lru.")
    elif not most:
        yield Finding(
            "redis memory", "warning", "Redis has no maxmemory: it grows until the kernel ends it.", "Set it."
        )
    elif settings.jobs_backend == "celery" and 2 * settings.job_stored_bytes > most:
        sentence = f"Jobs may store {as_mebibytes(settings.job_stored_bytes)}, and Redis {as_mebibytes(most)}."
        yield Finding("redis memory", "warning", sentence, f"Set {PREFIX}JOB_STORED_BYTES to half of maxmemory.")
    else:
        yield Finding("redis memory", "ok", f"Redis may use {as_mebibytes(most)} with the policy {policy}.")


def _check_persistence(about: dict[str, Any]) -> Finding:
    if not int(about.get("aof_enabled", 0)):
        sentence = "Redis has no append-only file: a restart loses all jobs."
        return Finding("redis persistence", "failed", sentence, "Set appendonly yes, as deploy/redis/redis.conf does.")
    if about.get("aof_last_write_status") != "ok":
        remedy = remedy_for("MISCONF")
        return Finding("redis persistence", "failed", "Redis cannot write its append-only file.", remedy)
    return Finding("redis persistence", "ok", "Redis writes its append-only file.")


def _check_jobs(url: str, settings: Settings) -> Iterator[Finding]:
    # missing workers are a warning, and unreadable jobs a failure
    keys = [key.get_secret_value() for key in settings.seal_key]
    try:
        with closing(RedisStore(url, EntryAuthenticator(keys))) as store:
            count, readable = store.backlog().jobs, len(store.active())
            present = store.present_workers(WORKER_PRESENT_SECONDS)
    except JobsUnavailable as error:
        yield Finding("jobs", "failed", f"Jobs cannot be read: {error.reason}.", remedy_for(error.reason))
        return
    if readable < count:
        sentence = f"{count - readable} of {count} active jobs are not sealed with a key of this machine."
        yield Finding("jobs", "failed", sentence, f"Give all services and workers the same {PREFIX}SEAL_KEY.")
    else:
        yield Finding("jobs", "ok", f"{count} jobs wait or run, and all are readable.")
    versions = sorted({each for _, each in present})
    if not present:
        yield Finding(
            "workers", "warning", "No worker is running: jobs are accepted and wait.", "Start privacy-bounds worker."
        )
    elif ENGINE_VERSION not in versions:
        sentence = f"Workers have engine version {', '.join(versions)}, and this installation {ENGINE_VERSION}."
        yield Finding("workers", "warning", sentence, "Finish the upgrade: start workers of this version.")
    else:
        yield Finding("workers", "ok", f"{len(present)} workers are running.")
