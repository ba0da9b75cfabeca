"""Redis client with a circuit breaker, so that an unavailable Redis delays a request by one short timeout at most.

The timeout of a call is the configured one, or `ROUND_TRIPS` measured round trips if that is longer. Connections are
opened before they are needed.

The breaker has three states. *answers*: every call is sent. *slow*: several responses in a row exceeded the short
timeout, which a busy event loop can cause as well; only calls with a long timeout are sent. *away*: a connection
failed, or a call with a long timeout received no response; no call is sent. In the last two states a background task
probes Redis until Redis responds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, final

from structlog.typing import FilteringBoundLogger

from service.telemetry.metrics import Metrics, RedisOperation

if TYPE_CHECKING:
    from redis.asyncio import Redis

Answer = TypeVar("Answer")
CircuitState = Literal["answers", "slow", "away"]

PREOPENED_CONNECTIONS = 16
ROUND_TRIPS = 4
MAX_LEARNED_SECONDS = 0.02
"""Largest timeout that is derived from round trips. Computing is faster than waiting for a slower Redis."""
UNAVAILABLE_AFTER_SECONDS = 0.1
"""Timeouts above this value, and above the configured one, are long: without a response in time, Redis is away."""
NEWEST_WEIGHT = 1 / 8
"""Weight of the newest round trip in the exponential mean."""
PROBE_SECONDS = 0.25
PROBE_TIMEOUT_SECONDS = 1.0
TIMEOUTS_UNTIL_SLOW = 3
"""Number of consecutive timeouts that opens the breaker. A busy event loop can delay a single response."""


class RedisUnavailable(Exception):
    """Raised when Redis does not respond: the call timed out, or the breaker is open.

    Callers continue without Redis.
    """


@final
class RedisCircuitBreaker:
    """Redis client with a circuit breaker, which sends no calls for a while after Redis did not respond.

    `timeout_seconds` is the shortest timeout of a `call`. Each change of the state is logged as an event `redis` with
    its cause.
    """

    def __init__(
        self, url: str, timeout_seconds: float, metrics: Metrics, logger: FilteringBoundLogger | None = None
    ) -> None:
        from redis.exceptions import RedisError, ResponseError

        from service.execution.redis_connections import build_client, call_timed

        self._errors, self._response_errors = (RedisError, OSError), ResponseError
        self._client = build_client(url, PROBE_TIMEOUT_SECONDS)
        self._timed = partial(call_timed, self._client)
        self.timeout_seconds = timeout_seconds
        self._metrics = metrics
        metrics.redis_configured.set(1)
        self._logger = logger
        self._state: CircuitState | None = None
        self._consecutive_timeouts = 0
        self.round_trip_seconds = 0.0
        """Exponential mean of the recent round trips, in seconds."""
        self._probe: asyncio.Task[None] | None = None

    @property
    def available(self) -> bool:
        """Whether every call is sent to Redis, which has responded in time to one of the last three calls."""
        return self._state == "answers"

    @property
    def is_open(self) -> bool:
        """Whether no call is sent to Redis.

        The circuit breaker is open before `start`. It opens when a connection fails, or when a call with a long timeout
        (above the configured one and above 0.1 s) has no response. It stays open until Redis responds to a probe.
        """
        return self._state not in ("answers", "slow")

    async def start(self) -> None:
        """Send one ping to Redis. Without a response within one second, start the task that probes Redis.

        Nothing is raised without a response.
        """
        failure = await self._ping_failure()
        if failure is None:
            self._set_circuit("answers", "it answers")
        else:
            self._metrics.count_redis_failure("connect")
            self._set_circuit("away", failure)

    async def stop(self) -> None:
        """Stop the background task that probes Redis, and close all connections."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        await self._client.aclose()

    async def call(
        self,
        operation: RedisOperation,
        command: Callable[[Redis], Awaitable[Answer]],
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Send a command to Redis and return the response.

        Raise RedisUnavailable immediately when the circuit breaker is open, after the timeout, and for a command that
        Redis rejects. The timeout is the longest of `timeout_seconds`, the configured timeout, and four measured round
        trips (at most 20 ms). While Redis is slow, only calls with a timeout above the configured one and above 0.1 s
        are sent. Opening a connection may take the time of the timeout in addition. `operation` names the command in
        metrics.
        """
        learnt = min(ROUND_TRIPS * self.round_trip_seconds, MAX_LEARNED_SECONDS)
        timeout = max(timeout_seconds or 0.0, self.timeout_seconds, learnt)
        is_patient = timeout > max(self.timeout_seconds, UNAVAILABLE_AFTER_SECONDS)
        if self.is_open or (self._state == "slow" and not is_patient):
            raise RedisUnavailable
        try:
            answer, seconds = await self._timed(command, timeout)
        except TimeoutError as error:
            self._consecutive_timeouts += 1
            self._metrics.count_redis_failure(operation)
            if is_patient:
                self._set_circuit("away", f"no answer to a {operation} within {timeout:g} s")
            elif self._consecutive_timeouts >= TIMEOUTS_UNTIL_SLOW and self._state == "answers":
                self._set_circuit(
                    "slow", f"{self._consecutive_timeouts} answers in a row took longer than {timeout:g} s"
                )
            raise RedisUnavailable from error
        except self._response_errors as error:  # Redis is up but rejects the command (type of a key, out of memory)
            self._metrics.count_redis_failure(operation)
            raise RedisUnavailable from error
        except self._errors as error:
            self._metrics.count_redis_failure(operation)
            self._set_circuit("away", f"{type(error).__name__} at a {operation}")
            raise RedisUnavailable from error
        self._consecutive_timeouts = 0
        if operation != "write":  # writes are pipelines of many commands
            self.round_trip_seconds += NEWEST_WEIGHT * (seconds - self.round_trip_seconds)
        return answer

    async def _ping_failure(self) -> str | None:
        ping = partial(self._timed, lambda client: cast("Any", client).ping(), PROBE_TIMEOUT_SECONDS)
        try:
            await ping()
            await asyncio.gather(*(ping() for _ in range(PREOPENED_CONNECTIONS)))
            _, self.round_trip_seconds = await ping()
        except TimeoutError:
            return f"no answer to a ping within {PROBE_TIMEOUT_SECONDS:g} s"
        except self._errors as error:
            return f"{type(error).__name__} at a ping"
        return None

    def _set_circuit(self, circuit: CircuitState, cause: str) -> None:
        # a cause names the type of an error, never an address or a password
        if circuit != self._state:
            self._state = circuit
            self._metrics.redis_available.set(int(circuit == "answers"))
            if self._logger is not None:
                log = self._logger.info if circuit == "answers" else self._logger.warning
                log("redis", circuit=circuit, cause=cause)
        self._consecutive_timeouts = 0
        if circuit != "answers" and (self._probe is None or self._probe.done()):
            self._probe = asyncio.get_running_loop().create_task(self._probe_until_available())

    async def _probe_until_available(self) -> None:
        while self._state != "answers":
            await asyncio.sleep(PROBE_SECONDS)
            failure = await self._ping_failure()
            self._set_circuit("answers" if failure is None else "away", failure or "it answers again")
