"""Malformed messages: anyone who can write to Redis can add them to the queue of a worker, which continues."""

from __future__ import annotations

import base64
import json
import random
from contextlib import closing, suppress
from typing import Any

import redis

from service.jobs.celery.celery_app import KEY_PREFIX, make_celery_app, queue_name
from service.jobs.celery.transport import TASK, make_message
from service.settings import Settings
from tests.execution.fakes import SEAL_KEY
from tests.timeouts import TEST_TIMEOUT

SEED = 20266
ROUNDS = 40
NESTED = "[" * 100_000


def wrong_values(source: random.Random) -> Any:
    """Draw a value of any kind, in place of a valid one."""
    return source.choice([None, 7, -1.5, True, "", "x", "\x00", [], ["x"], [[]], {}, {"x": [{}]}, "9" * 10**5])


def garbage(source: random.Random, whole: dict[str, Any]) -> bytes:
    """Draw an invalid message, or a message with one invalid part."""
    kind = source.randrange(6)
    if kind == 0:
        return source.randbytes(int(10 ** source.uniform(0, 6)))
    if kind == 1:
        return source.choice([b"", b"x", NESTED.encode(), b"NaN", b"1e999", json.dumps(wrong_values(source)).encode()])
    if kind == 2:
        sent = json.dumps(whole).encode()
        return sent[: source.randrange(len(sent))]
    if kind == 3:
        return json.dumps(
            whole | {"body": base64.b64encode(source.randbytes(40)).decode()[source.randrange(3) :]}
        ).encode()
    place: Any = whole
    held, key = whole, "headers"
    while isinstance(place, dict) and (source.random() < 0.7 or place is whole):
        held, key = place, source.choice(list(place))
        place = held[key]
    if kind == 4:
        del held[key]
    else:
        held[key] = wrong_values(source)
    return json.dumps(whole).encode()


def test_malformed_messages_are_dropped_and_counted(redis_url: str) -> None:
    source = random.Random(SEED)
    dropped: list[str] = []
    settings = Settings.model_validate({"redis_url": redis_url, "seal_key": SEAL_KEY})
    app: Any = make_celery_app(settings, "1", dropped.append)
    received: list[Any] = []

    def receive(message: Any) -> None:
        received.append((message.headers["task"], message.payload))
        message.ack()

    queue, accepted = queue_name("1"), 0
    with redis.Redis.from_url(redis_url) as database, closing(app), app.connection_for_read() as connection:
        consumer = connection.Consumer([app.amqp.queues[queue]], on_message=receive, accept=["json"])
        with consumer:
            for _ in range(ROUNDS):
                sent = garbage(source, make_message(app, queue))
                database.lpush(KEY_PREFIX + queue, sent)
            while database.llen(KEY_PREFIX + queue):
                with suppress(TimeoutError):
                    connection.drain_events(timeout=TEST_TIMEOUT)
            accepted = len(received)
            assert len(dropped) + accepted >= ROUNDS
            app.send_task(TASK, queue=queue)
            while len(received) == accepted:
                connection.drain_events(timeout=TEST_TIMEOUT)
        assert not database.exists(f"{KEY_PREFIX}unacked:{queue}")
    # Any message that names the task wakes the worker: the rest of the message is ignored.
    assert {task for task, _ in received} == {TASK}
    assert all(payload[:2] == [[], {}] for _, payload in received)
    assert len(dropped) > ROUNDS / 3
