"""Looks after the jobs of a cluster: sends what was never sent or got lost, and forgets what is old.

Every worker and every instance of the service has one; at any time one of them is at work. Celery brings back what a
lost worker had; what is lost in any other way (a message that was taken out of its queue and never begun, a service
that ended between accepting a job and sending its pieces, a Redis that forgot its last second) is missing in the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, final

from structlog.typing import FilteringBoundLogger

from service.jobs.celery.store import LEASE_SECONDS, SEEN_SECONDS, RedisStore, Sent
from service.jobs.errors import JobNotFound, JobsError

PERIOD_SECONDS: Final = 2.0
FORGET_SECONDS: Final = 60.0


@final
class Keeper:
    """A thread. `send`: puts the message of a piece of a job on its way; `worker`: a name, where this is one; `look`:
    what else is looked at as often, while Redis answers.
    """

    def __init__(
        self,
        store: RedisStore,
        send: Callable[[str, Sent], None],
        logger: FilteringBoundLogger,
        worker: str | None = None,
        look: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._send = send
        self._logger = logger
        self._worker = worker
        self._more = look
        self._forgot = 0.0
        self._workers: int | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self._thread.join(timeout=PERIOD_SECONDS)

    def workers(self) -> int | None:
        """Workers that were there a few seconds ago; None where Redis does not answer."""
        return self._workers

    def fill(self, name: str) -> None:
        """Send as many pieces of a job as may be on their way."""
        while (sent := self._store.carve(name)) is not None:
            self._send(name, sent)

    def _run(self) -> None:
        pause = 0.0
        while not self._done.wait(pause):
            pause = PERIOD_SECONDS
            try:
                self._look()
                self._workers = len(self._store.workers(SEEN_SECONDS))
            except Exception as error:  # noqa: BLE001 - Redis is away, in the words of two libraries
                self._logger.warning("jobs", state="unavailable", cause=type(error).__name__)
                self._workers = None
                # Who computes renews leases as soon as Redis is back: until then nothing is lost that looks so.
                pause = LEASE_SECONDS

    def _look(self) -> None:
        if self._worker is not None:
            self._store.present(self._worker)
        if self._more is not None:
            self._more()
        if not self._store.is_keeper(0.9 * PERIOD_SECONDS):
            return
        for name in self._store.active():
            try:
                for lost in self._store.lost(name):
                    self._logger.info("jobs", state="sent again", points=lost.piece.points)
                    self._send(name, lost)
                self.fill(name)
            except JobNotFound:
                continue
        now = time.time()
        if now - self._forgot > FORGET_SECONDS:
            self._forgot = now
            try:
                self._store.forget(now)
            except JobsError as error:
                self._logger.warning("jobs", state="unavailable", cause=type(error).__name__)
