"""Composition of the checks of answers by independent engines, and of the quarantine of disputed results."""

from __future__ import annotations

from typing import Final

from structlog.typing import FilteringBoundLogger

from service.engine_version import ENGINE_VERSION
from service.execution.cross_check import CrossChecker
from service.execution.quarantine import FILE_NAME, ResultQuarantine
from service.execution.runner import ComputationRunner
from service.execution.worker_pool import WorkerPool
from service.resources.abstract import BodyProducer
from service.settings import Settings
from service.telemetry.metrics import Metrics

LOWEST_PRIORITY: Final = 19
"""Niceness of the process that checks answers."""


def build_quarantine(settings: Settings, logger: FilteringBoundLogger) -> ResultQuarantine:
    """Return the store of results that a cross check contradicts, with its file in the data folder.

    Without a data folder it is in memory. The log receives one event when the file becomes unreadable, and one when the
    file can be read again.
    """

    def report(failure: str) -> None:
        if failure:
            logger.error("quarantine", state="failed", reason=failure)
        else:
            logger.info("quarantine", state="answers")

    folder = settings.data_folder
    return ResultQuarantine(folder and folder / FILE_NAME, report)


def build_cross_checker(
    settings: Settings, runner: ComputationRunner, pool: WorkerPool, metrics: Metrics, logger: FilteringBoundLogger
) -> CrossChecker:
    """Return the checks of answers by independent engines. Their process starts with the first check."""
    checker = CrossChecker(
        share=settings.cross_check_share,
        resources=frozenset({"bounds"}),
        check_of=_cross_check_of,
        pool=pool,
        is_idle=runner.is_idle,
        forget=runner.results.forget,
        quarantine=runner.results.quarantine,
        metrics=metrics,
        logger=logger,
        engine_version=ENGINE_VERSION,
    )
    if settings.cross_check_share > 0:
        runner.offer_cross_check = checker.offer
    return checker


def _cross_check_of(body: bytes) -> BodyProducer:
    # the module is loaded with the first check
    from service.resources.certificates.cross_check import BoundsCrossCheck

    return BoundsCrossCheck(body)
