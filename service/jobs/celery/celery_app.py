"""Celery application, whose messages wake workers when there are chunks to compute.

A message has no content. The store decides which chunk is computed (`store.py`), so an attacker who can write messages
can only wake workers. Each engine version has its own queue. Results do not pass through Celery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from celery import Celery
from kombu.entity import Queue

from service.jobs.celery.store import RedisStore
from service.jobs.celery.transport import TASK, make_transport
from service.settings import Settings

KEY_PREFIX: Final = "privacy_bounds:celery:"
MAX_WAKE_MESSAGES: Final = 8
"""Largest number of messages in a queue. More messages would not wake workers sooner."""
VISIBILITY_SECONDS: Final = 10
"""Seconds after which an unacknowledged message is delivered again, to an idle worker."""

SETTINGS: Final[dict[str, Any]] = {
    "accept_content": ["json"],
    "task_serializer": "json",
    "result_serializer": "json",
    "event_serializer": "json",
    "result_backend": None,
    "task_ignore_result": True,
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_create_missing_queues": False,
    "worker_prefetch_multiplier": 1,
    "worker_enable_remote_control": False,
    "worker_send_task_events": False,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_channel_error_retry": True,  # a full Redis rejects commands: the worker waits until there is room
    "broker_connection_timeout": 5,
    "broker_pool_limit": 2,
}
"""Settings of Celery that are the same for every engine version."""


def queue_name(engine_version: str) -> str:
    """Return the name of the Celery queue with the jobs of an engine version."""
    return f"work-{engine_version}"


def _transport_options(queue: str) -> dict[str, Any]:
    # all keys of unacknowledged messages belong to this queue alone
    return {
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_throttle": 1,  # search for unacknowledged messages about every second
        "priority_steps": [0],
        "unacked_key": f"unacked:{queue}",
        "unacked_index_key": f"unacked_index:{queue}",
        "unacked_mutex_key": f"unacked_mutex:{queue}",
        "global_keyprefix": KEY_PREFIX,
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 5,
    }


def make_celery_app(settings: Settings, engine_version: str, on_dropped: Callable[[str], None]) -> Celery:
    """Build the Celery application of one process.

    `settings` name the Redis server, and the application uses the queue of `engine_version`. `on_dropped` is called
    with the reason for each message that is dropped as invalid.
    """
    url = "" if settings.redis_url is None else settings.redis_url.get_secret_value()
    app = Celery("privacy_bounds", broker=url, set_as_current=False)
    queue = queue_name(engine_version)
    app.conf.update(
        **SETTINGS,
        task_default_queue=queue,
        task_queues=[Queue(queue)],
        broker_transport=make_transport(app, on_dropped),
        broker_transport_options=_transport_options(queue),
    )
    return app


def wake_workers(app: Celery, store: RedisStore, engine_version: str) -> bool:
    """Send wake messages if a chunk (range of points of a job) waits to be computed, and return whether one waits.

    The queue is filled to MAX_WAKE_MESSAGES (8) messages. A wake message tells a worker of `engine_version` to look for
    chunks. Raise JobsUnavailable, and the errors of kombu while Redis is unavailable.
    """
    queue = queue_name(engine_version)
    if not store.has_claimable_chunk(engine_version):
        return False
    for _ in range(store.queue_length(KEY_PREFIX + queue), MAX_WAKE_MESSAGES):
        app.send_task(TASK, queue=queue, retry=False)
    return True
