"""The Celery application: JSON only, one queue with priorities, messages that come again when a worker is lost.

A message names a piece of a job and nothing more; what is computed is what the store says (`store.py`), so that who can
write messages can only make workers look. No results travel through Celery.
"""

from __future__ import annotations

from typing import Any, Final

from celery import Celery
from kombu.entity import Queue

from service.jobs.celery.store import Sent
from service.jobs.sizes import CLASSES, PIECE_LIMIT_SECONDS
from service.settings import Settings

TASK: Final = "privacy_bounds.piece"
KEY_PREFIX: Final = "privacy_bounds:celery:"
QUEUE: Final = "pieces"
SEPARATOR: Final = "\x06\x16"
"""What kombu puts between a queue and a priority."""
PRIORITIES: Final = list(range(len(CLASSES) + 1))
VISIBILITY_SECONDS: Final = 10
"""After this a message that nobody acknowledged comes again: longer than a piece may take."""


def queue_lists() -> tuple[str, ...]:
    """The lists in Redis that hold the messages, most urgent first."""
    return tuple(KEY_PREFIX + (f"{QUEUE}{SEPARATOR}{priority}" if priority else QUEUE) for priority in PRIORITIES)


def make_cluster(settings: Settings) -> Celery:
    """The application of one process."""
    url = "" if settings.redis_url is None else settings.redis_url.get_secret_value()
    app = Celery("privacy_bounds", broker=url, set_as_current=False)
    options: dict[str, Any] = {
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_throttle": 1,  # look for them every second or so, not every hundred
        "priority_steps": PRIORITIES,
        "queue_order_strategy": "priority",
        "global_keyprefix": KEY_PREFIX,
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 5,
    }
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        event_serializer="json",
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_time_limit=PIECE_LIMIT_SECONDS,
        task_default_queue=QUEUE,
        task_queues=[Queue(QUEUE)],
        task_create_missing_queues=False,
        task_default_priority=PRIORITIES[-1],
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_lost_wait=1.0,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_transport_options=options,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=5,
        broker_pool_limit=2,
    )
    return app


def send(app: Celery, job: str, sent: Sent, limit_seconds: float) -> None:
    """A message about a piece. Raises what kombu raises where Redis is away; then the piece counts as lost later."""
    piece = sent.piece
    app.send_task(
        TASK,
        kwargs={"job": job, "start": piece.start, "stop": piece.stop, "number": sent.number},
        priority=sent.urgency,
        time_limit=limit_seconds,
        retry=False,
    )
