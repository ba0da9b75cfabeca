"""Second computation of a share of the answers by independent engines, after they were sent.

A check runs in a process of its own, with the lowest priority, and starts only while no request waits or runs. Answers
whose enclosures do not meet are quarantined: they are removed from all caches, and neither they nor other numbers of
their run are served again.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, final

from pydantic import BaseModel
from structlog.typing import FilteringBoundLogger

from service.execution.quarantine import ResultQuarantine
from service.execution.worker_pool import WorkerPool
from service.resources.abstract import BodyProducer
from service.resources.disputed import run_digest
from service.telemetry.metrics import Metrics

LARGEST_QUEUE: Final = 16
"""Answers that wait for a check. Further answers are not checked."""
LARGEST_MEMORY: Final = 4_096
"""Digests of checked answers that are not checked again."""
IDLE_POLL_SECONDS: Final = 0.1

Draw = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _SentAnswer:
    computation: str
    request: BaseModel
    digest: str
    body: bytes


@final
class CrossChecker:
    """Checks of a share of the answers of some resources.

    `share` is the probability with which an answer of the `resources` is checked. `check_of(answer)` takes the bytes of
    an answer, and returns the computation that checks it. That computation returns `{"outcome": ..., "reasons": [...]}`
    with one of the outcomes `agreed`, `not_decided`, `not_covered` and `disagreed`. Checks run while `is_idle()` says
    that no request waits or runs. After `disagreed`, `forget(computation, digest)` removes the result from all caches.
    """

    def __init__(
        self,
        *,
        share: float,
        resources: frozenset[str],
        check_of: Callable[[bytes], BodyProducer],
        pool: WorkerPool,
        is_idle: Callable[[], bool],
        forget: Callable[[str, str], None],
        quarantine: ResultQuarantine,
        metrics: Metrics,
        logger: FilteringBoundLogger,
        engine_version: str,
        draw: Draw = random.random,
    ) -> None:
        self._share, self._resources, self._draw = share, resources, draw
        self._check_of, self._pool, self._is_idle, self._forget = check_of, pool, is_idle, forget
        self._quarantine, self._metrics, self._logger = quarantine, metrics, logger
        self._engine_version = engine_version
        self._waiting: asyncio.Queue[_SentAnswer] = asyncio.Queue(LARGEST_QUEUE)
        self._seen: OrderedDict[str, None] = OrderedDict()

    def offer(self, computation: str, request: BaseModel, digest: str, body: bytes) -> None:
        """Offer an answer for a later check, and return immediately.

        The answer is checked if its resource is selected, a random draw selects it, its digest was not checked lately,
        and fewer than 16 answers wait. `computation` names the resource. `digest` is that of `request`, and `body` the
        answer.
        """
        if computation not in self._resources or self._draw() >= self._share or digest in self._seen:
            return
        try:
            self._waiting.put_nowait(_SentAnswer(computation, request, digest, body))
        except asyncio.QueueFull:
            self._metrics.count_cross_check("skipped")
            return
        self._seen[digest] = None
        if len(self._seen) > LARGEST_MEMORY:
            self._seen.popitem(last=False)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Check offered answers in the background while the block runs.

        Without a share (0) nothing is checked. The pool of the checks is closed at the end of the block.
        """
        task = asyncio.create_task(self._check_all()) if self._share > 0 else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await self._pool.close()

    async def _check_all(self) -> None:
        while True:
            answer = await self._waiting.get()
            while not self._is_idle():  # noqa: ASYNC110 - the queue has no event for its end
                await asyncio.sleep(IDLE_POLL_SECONDS)
            try:
                await self._check(answer)
            except Exception as error:  # noqa: BLE001 - one failed check must not end all later checks
                self._metrics.count_cross_check("failed")
                self._logger.warning("cross_check_failed", digest=answer.digest, error=type(error).__name__)

    async def _check(self, answer: _SentAnswer) -> None:
        computed = await self._pool.compute(
            self._check_of(answer.body), answer.request, answer.digest, self._engine_version
        )
        report: dict[str, Any] = json.loads(computed.body)
        self._metrics.count_cross_check(report["outcome"])
        if report["outcome"] == "disagreed":
            reason = "; ".join(report["reasons"])
            request: Any = answer.request
            run = run_digest(self._engine_version, request.mechanism, request.threat_model)
            self._logger.error("cross_check_disagreed", digest=answer.digest, run=run, reason=reason)
            try:
                self._quarantine.add(answer.digest, reason, run)
            finally:  # also without room on the disk
                self._forget(answer.computation, answer.digest)
