"""Blocking Redis client for threads that fails fast: a circuit breaker and a bounded pool of connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast, final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError
from redis.retry import Retry

from service.jobs.errors import JobNotFound, JobsUnavailable

TIMEOUT_SECONDS: Final = 2.0
PROBE_SECONDS: Final = 0.5
"""Seconds between two probes while Redis is unavailable. All other calls fail immediately."""
CONNECTIONS: Final = 16
UNREADABLE_PARTS: Final = ("WRONGTYPE", "user_script")
"""Parts of error messages of Redis for a key of another type, or for a field that is not a number."""
REJECTION_PARTS: Final = ("OOM", "READONLY", "MISCONF", "NOPERM", "can't run", "can't access")
"""Parts of error messages of Redis, also within scripts, for rejected commands."""
CODES: Final[dict[type[Exception], str]] = {
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    NoPermissionError: "NOPERM",
}
"""Error codes that redis-py removes from the messages of these errors."""
NEWER_SCHEMA: Final = "SCHEMA"
LONGEST_REASON: Final = 60


@final
class BlockingRedisClient:
    """Thread-safe Redis client whose calls wait at most two seconds."""

    def __init__(self, url: str) -> None:
        pool = cast("Any", redis.BlockingConnectionPool).from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=TIMEOUT_SECONDS,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._client: Any = redis.Redis(connection_pool=pool)
        self._lock = threading.Lock()
        self._probe_at: float | None = None
        """Monotonic time of the next probe, or None while Redis responds."""

    def close(self) -> None:
        """Close all connections to Redis."""
        self._client.close()
        self._client.connection_pool.disconnect()

    @contextmanager
    def connection(self) -> Generator[Any]:
        """Yield the client for a block of commands.

        After a failure, raise JobsUnavailable immediately except for one trial call every PROBE_SECONDS (0.5 s). Raise
        JobsUnavailable also for commands that Redis rejects. Raise JobNotFound for a record that a script cannot read.
        """
        self._check_circuit()
        try:
            yield self._client
        except ResponseError as error:
            self._probe_at = None
            raise _translate_error(error) from error
        except (RedisError, OSError) as error:
            self._probe_at = time.monotonic() + PROBE_SECONDS
            raise JobsUnavailable(f"Redis: {type(error).__name__}") from error
        self._probe_at = None

    def _check_circuit(self) -> None:
        with self._lock:
            now = time.monotonic()
            if self._probe_at is not None:
                if now < self._probe_at:
                    raise JobsUnavailable("Redis is away")
                self._probe_at = now + TIMEOUT_SECONDS + PROBE_SECONDS  # who comes meanwhile does not wait


def _translate_error(error: ResponseError) -> Exception:
    text = str(error).partition(" script: ")[0].rstrip(".")
    if text.startswith(NEWER_SCHEMA):
        return JobsUnavailable("the jobs in Redis were written by a newer version of the service")
    is_refusal = type(error) is not ResponseError or any(part in text for part in REJECTION_PARTS)
    if not is_refusal and any(part in text for part in UNREADABLE_PARTS):
        return JobNotFound("the record of the job cannot be read")
    code = CODES.get(type(error)) or next((part for part in REJECTION_PARTS if part in text), "")
    reason = text if text.startswith(code) else f"{code} {text}"
    return JobsUnavailable(f"Redis refuses: {reason[:LONGEST_REASON]}")
