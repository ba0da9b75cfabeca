"""Answers of jobs of a cluster, stored in Redis beside those of requests."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast, final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from service.computations.abstract import Computation
from service.execution.result_cache import sealed_result
from service.execution.seals import Seals
from service.settings import Settings

TIMEOUT_SECONDS = 5.0


@final
class SharedAnswers:
    """The results that all instances share, as a worker writes them: with their seal and their lifetime."""

    def __init__(self, settings: Settings) -> None:
        url = "" if settings.redis_url is None else settings.redis_url.get_secret_value()
        self._client: Any = cast("Any", redis.Redis).from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS, retry=Retry(NoBackoff(), 0)
        )
        self._seals = Seals([key.get_secret_value() for key in settings.seal_key])
        self._ttl_seconds = settings.result_ttl_seconds
        self._cost_floor = settings.redis_cost_floor

    def keep(self, computation: Computation[Any, Any], digest: str, body: bytes, cost: int) -> None:
        """Store an answer. What Redis refuses is missing there: the job keeps its answer in any case."""
        if cost < self._cost_floor:
            return
        key, entry = sealed_result(self._seals, computation.name, digest, body)
        with suppress(RedisError, OSError):
            self._client.set(key, entry, ex=self._ttl_seconds)
