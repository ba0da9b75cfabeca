"""The link to Redis, with a circuit breaker: waits are short, and there is none while Redis is known to be away.

How far away Redis is, is learnt from its answers: a request waits for `ROUND_TRIPS` of them, where that is longer than
the setting. Connections are opened before they are needed.

Three states. *answers*: every call is tried. *slow*: answers came later than a cheap request waits for, which a busy
event loop can also be the reason of; cheap requests do without, dear work, which may wait longer, still asks. *away*:
a connection failed, or nothing came even for those who wait long; nobody asks. In the latter two one background task
asks until there is an answer. So a dead Redis costs each request at most one short wait, and most requests nothing.
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
Circuit = Literal["answers", "slow", "away"]

CONNECTIONS_IN_ADVANCE = 16
ROUND_TRIPS = 4
LONGEST_LEARNT_SECONDS = 0.02
"""Beyond this Redis is too far away for requests that would rather compute."""
PATIENT_SECONDS = 0.1
"""No answer within a wait that is longer, and longer than the setting, means that Redis is away."""
LEARNING = 1 / 8
"""Weight of the newest round trip."""
PROBE_SECONDS = 0.25
PROBE_TIMEOUT_SECONDS = 1.0
LATE_ANSWERS_UNTIL_SLOW = 3
"""A busy event loop can make one answer look late; a Redis that is away makes all of them late."""


class RedisAway(Exception):
    """Redis did not answer in time, or is known not to answer. Callers do without."""


@final
class RedisLink:
    """A Redis client with a circuit breaker. `timeout_seconds` bounds every `attempt` that does not bring its own.

    Every change of the circuit is one event `redis` of the log, with its cause. The client's package is loaded with the
    first link: it takes megabytes, and many services have no Redis.
    """

    def __init__(
        self, url: str, timeout_seconds: float, metrics: Metrics, logger: FilteringBoundLogger | None = None
    ) -> None:
        from redis.exceptions import RedisError, ResponseError

        from service.execution.redis_connections import make_client, timed

        self._errors, self._refusals = (RedisError, OSError), ResponseError
        self._client = make_client(url, PROBE_TIMEOUT_SECONDS)
        self._timed = partial(timed, self._client)
        self.timeout_seconds = timeout_seconds
        self._metrics = metrics
        self._logger = logger
        self._circuit: Circuit | None = None
        self._late_answers = 0
        self.round_trip_seconds = 0.0
        """How long answers take, lately."""
        self._probe: asyncio.Task[None] | None = None

    @property
    def available(self) -> bool:
        """Whether Redis answered last time, in time."""
        return self._circuit == "answers"

    @property
    def away(self) -> bool:
        """Whether no request asks Redis, because it does not answer."""
        return self._circuit not in ("answers", "slow")

    async def start(self) -> None:
        """Ask once; if there is no answer, go on asking in the background."""
        failure = await self._failure()
        if failure is None:
            self._become("answers", "it answers")
        else:
            self._metrics.redis_failed("connect")
            self._become("away", failure)

    async def stop(self) -> None:
        """Stop asking and close all connections."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        await self._client.aclose()

    async def attempt(
        self,
        operation: RedisOperation,
        call: Callable[[Redis], Awaitable[Answer]],
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Return the answer of `call`. Raise RedisAway at once where the circuit says so, else after the timeout.

        Opening a connection may take the timeout as well. `timeout_seconds`: for callers that can wait longer.
        """
        learnt = min(ROUND_TRIPS * self.round_trip_seconds, LONGEST_LEARNT_SECONDS)
        timeout = max(timeout_seconds or 0.0, self.timeout_seconds, learnt)
        is_patient = timeout > max(self.timeout_seconds, PATIENT_SECONDS)
        if self.away or (self._circuit == "slow" and not is_patient):
            raise RedisAway
        try:
            answer, seconds = await self._timed(call, timeout)
        except TimeoutError as error:
            self._late_answers += 1
            self._metrics.redis_failed(operation)
            if is_patient:
                self._become("away", f"no answer to a {operation} within {timeout:g} s")
            elif self._late_answers >= LATE_ANSWERS_UNTIL_SLOW and self._circuit == "answers":
                self._become("slow", f"{self._late_answers} answers in a row took longer than {timeout:g} s")
            raise RedisAway from error
        except self._refusals as error:  # it answers, only not this (a key of another type, no memory left)
            self._metrics.redis_failed(operation)
            raise RedisAway from error
        except self._errors as error:
            self._metrics.redis_failed(operation)
            self._become("away", f"{type(error).__name__} at a {operation}")
            raise RedisAway from error
        self._late_answers = 0
        if operation != "write":  # those are many at once
            self.round_trip_seconds += LEARNING * (seconds - self.round_trip_seconds)
        return answer

    async def _failure(self) -> str | None:
        """Return why Redis does not answer. None: it does, and connections are open in advance."""
        ping = partial(self._timed, lambda client: cast("Any", client).ping(), PROBE_TIMEOUT_SECONDS)
        try:
            await ping()
            await asyncio.gather(*(ping() for _ in range(CONNECTIONS_IN_ADVANCE)))
            _, self.round_trip_seconds = await ping()
        except TimeoutError:
            return f"no answer to a ping within {PROBE_TIMEOUT_SECONDS:g} s"
        except self._errors as error:
            return f"{type(error).__name__} at a ping"
        return None

    def _become(self, circuit: Circuit, cause: str) -> None:
        """Change the circuit, if this is a change. Causes name kinds of errors, never addresses or passwords."""
        if circuit != self._circuit:
            self._circuit = circuit
            self._metrics.redis_available.set(int(circuit == "answers"))
            if self._logger is not None:
                log = self._logger.info if circuit == "answers" else self._logger.warning
                log("redis", circuit=circuit, cause=cause)
        self._late_answers = 0
        if circuit != "answers" and (self._probe is None or self._probe.done()):
            self._probe = asyncio.get_running_loop().create_task(self._ask_until_it_answers())

    async def _ask_until_it_answers(self) -> None:
        while self._circuit != "answers":
            await asyncio.sleep(PROBE_SECONDS)
            failure = await self._failure()
            self._become("answers" if failure is None else "away", failure or "it answers again")
