"""Pools of worker processes and their admission, with the limits of the settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from service.execution.worker_admission import WorkerAdmission
from service.execution.worker_pool import WorkerPool
from service.preloaded import preloaded_modules
from service.self_test import warm_up
from service.settings import Settings
from service.telemetry.metrics import Metrics


def pool_factory(settings: Settings, metrics: Metrics) -> Callable[..., WorkerPool]:
    """Return a factory of worker pools with the limits of the settings.

    The caller of the factory chooses number and niceness of the workers.
    """
    return partial(
        WorkerPool,
        time_limit_seconds=settings.time_limit_seconds,
        memory_limit_bytes=settings.worker_memory_limit_bytes,
        preloaded_modules=preloaded_modules(),
        metrics=metrics,
        warm_up=warm_up,
    )


def build_admission(settings: Settings, worker_count: int, reserve_count: int = 0) -> WorkerAdmission:
    """Return the admission queue of a pool of `worker_count` processes, with the limits of the settings.

    `reserve_count` processes are for short computations only.
    """
    return WorkerAdmission(
        max_cost=settings.max_cost,
        worker_count=worker_count,
        reserve_count=reserve_count,
        queue_limit=settings.queue_limit,
        queue_wait_limit_seconds=settings.queue_wait_limit_seconds,
    )
