"""Redis transport of kombu that tolerates invalid messages in the queue.

kombu and Celery raise errors for invalid messages, and some of these errors stop a worker. This transport reads only
the task name of a message. A message with the right name is replaced by one that this process built, and any other
message is dropped.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, cast
from uuid import uuid4

from celery import Celery
from kombu.transport import redis

TASK: Final = "privacy_bounds.work"
_redis: Any = redis  # kombu has no types


def make_transport(app: Celery, on_dropped: Callable[[str], None]) -> Any:
    """Return a transport class for Celery that delivers only messages of the task TASK.

    `on_dropped` is called with the reason for each dropped message.
    """

    class QoS(_redis.QoS):
        def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
            try:
                super().restore_by_tag(tag, client, leftmost)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                self._remove_from_indices(tag).execute()
                on_dropped(type(error).__name__)

    class Channel(_redis.Channel):
        def _brpop_read(self, **options: Any) -> Any:
            try:
                return super()._brpop_read(**options)
            except (ValueError, RecursionError) as error:  # no JSON: kombu has taken it out of its list
                on_dropped(type(error).__name__)
                return True

    class Transport(_redis.Transport):
        def _deliver(self, message: Any, queue: str) -> None:
            if _is_task_message(message):
                super()._deliver(make_message(app, queue), queue)
            else:
                on_dropped("no message of a task of the service")

    Channel.QoS = QoS
    Transport.Channel = Channel
    return Transport


def _is_task_message(message: Any) -> bool:
    headers: Any = cast("Any", message).get("headers") if isinstance(message, dict) else None
    return isinstance(headers, dict) and cast("Any", headers).get("task") == TASK


def make_message(app: Celery, queue: str) -> dict[str, Any]:
    """Return the message that wakes a worker: the only task of the service, for the Celery queue `queue`.

    The message has the form in which kombu stores messages in Redis lists.
    """
    made = cast("Any", app).amqp.as_task_v2(str(uuid4()), TASK)
    return {
        "body": base64.b64encode(json.dumps(made.body).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": made.headers,
        "properties": {
            **made.properties,
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": queue},
            "delivery_tag": str(uuid4()),
        },
    }
