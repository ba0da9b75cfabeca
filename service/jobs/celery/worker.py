"""`privacy-bounds worker`: processes that compute pieces of jobs, given out by Celery."""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from celery import Celery, signals
from structlog.typing import FilteringBoundLogger

from service.execution.request_body import Validate
from service.execution.seals import Seals
from service.execution.worker import NUMERIC_THREAD_VARIABLES, end_with_parent
from service.jobs.celery.answers import SharedAnswers
from service.jobs.celery.cluster import TASK, make_cluster, queue_lists, send
from service.jobs.celery.hearing import Hearing, begin_anew
from service.jobs.celery.keeper import Keeper
from service.jobs.celery.piece import PieceWorker
from service.jobs.celery.store import RedisStore, Sent
from service.jobs.job import Piece
from service.jobs.sizes import PIECE_LIMIT_SECONDS
from service.jobs.work import Limits
from service.settings import Settings

PIECES_OF_A_PROCESS: Final = 10_000


def store_of(settings: Settings) -> RedisStore:
    """The jobs of the cluster that the settings name."""
    url = "" if settings.redis_url is None else settings.redis_url.get_secret_value()
    return RedisStore(url, Seals([key.get_secret_value() for key in settings.seal_key]), queue_lists())


def sender(app: Celery, limits: Limits) -> Callable[[str, Sent], None]:
    """What puts a message about a piece on its way. A single point may take longer than a piece of several."""

    def put(name: str, sent: Sent) -> None:
        longest = max(PIECE_LIMIT_SECONDS, limits.single_seconds, limits.point_seconds)
        send(app, name, sent, longest if sent.piece.points == 1 else PIECE_LIMIT_SECONDS)

    return put


def run_worker(
    settings: Settings,
    *,
    limits: Limits,
    engine_version: str,
    niceness: int,
    preloaded_modules: Sequence[str],
    warm_up: Callable[[], None],
    validate: Validate,
    describe: Callable[[Exception], bytes],
    logger: FilteringBoundLogger,
) -> int:
    """Compute pieces until a signal comes. What is loaded here is there in every process, which are forked."""
    _load(preloaded_modules, warm_up)
    app, store = make_cluster(settings), store_of(settings)
    hearing = Hearing(store.waiting)

    def make() -> PieceWorker:
        return PieceWorker(
            store=store_of(settings),
            send=sender(app, limits),
            limits=limits,
            engine_version=engine_version,
            memory_limit_bytes=settings.worker_memory_limit_bytes,
            validate=validate,
            describe=describe,
            store_answer=SharedAnswers(settings).keep,
            heard=hearing.heard,
            logger=logger,
        )

    def look() -> None:
        if hearing.is_deaf():
            logger.warning("jobs", state="worker begins anew", cause="messages wait and none comes")
            begin_anew()

    _add_task(app, make, settings.worker_memory_limit_bytes, niceness)
    name = f"{socket.gethostname()}:{os.getpid()}"
    keeper = Keeper(store, sender(app, limits), logger, worker=name, look=look)
    signals.worker_ready.connect(lambda **_: keeper.start(), weak=False)
    return _run(app, settings.job_workers)


def _load(modules: Sequence[str], warm_up: Callable[[], None]) -> None:
    for variable in NUMERIC_THREAD_VARIABLES:  # read where numeric libraries are loaded
        os.environ[variable] = "1"
    for module in modules:
        import_module(module)
    warm_up()


def _add_task(app: Celery, make: Callable[[], PieceWorker], memory_limit_bytes: int, niceness: int) -> None:
    """What every process does with a message. `make`: called in each, once it is limited."""
    worker: list[PieceWorker] = []

    @app.task(name=TASK)
    def piece(job: str, start: int, stop: int, number: int) -> None:
        worker[0].run(job, Piece(start, stop), number)

    @signals.worker_process_init.connect(weak=False)
    def begin(**_: Any) -> None:
        end_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_bytes, memory_limit_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.nice(niceness)
        worker[:] = [make()]


def _run(app: Celery, processes: int) -> int:
    """The exit code, when a signal has come."""
    # Who listens to this signal sets up logging in place of Celery; here it stays as it is.
    signals.setup_logging.connect(lambda **_: None, weak=False)
    logging.getLogger("celery.worker").setLevel(logging.ERROR)
    main = app.Worker(
        pool="prefork",
        concurrency=processes,
        max_tasks_per_child=PIECES_OF_A_PROCESS,
        loglevel="ERROR",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    main.start()
    return int(main.exitcode or 0)
