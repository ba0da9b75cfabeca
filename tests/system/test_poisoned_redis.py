"""A writer to Redis can cause recomputation but no forged result, on every route."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import redis
from starlette.testclient import TestClient

from service.execution.entry_mac import EntryAuthenticator
from service.execution.result_cache import MAX_ENTRY_BYTES
from service.main import create_app
from service.parsing import parse_request
from service.resources.catalogue import resources
from service.settings import Settings
from tests.execution.fakes import SEAL_KEY
from tests.timeouts import TEST_TIMEOUT

SEED = 20264
HIT = "privacy-bounds; hit; detail=redis"
BODY = b'"sealed":'
Entries = dict[bytes, bytes]
Forger = Callable[[random.Random, Entries, bytes], bytes]


def renumbered(entry: bytes) -> bytes:
    """Replace the last replaceable digit of the body in a Redis entry."""
    place = max(entry.rfind(digit) for digit in (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8"))
    return entry[:place] + b"9" + entry[place + 1 :]


def sealed_by_others(key: bytes, entry: bytes) -> bytes:
    _, kind, computation, name = key.decode().split(":", 3)
    body = renumbered(entry[entry.index(BODY) + len(BODY) : -1])
    return EntryAuthenticator(["who wrote this had no key of ours"]).sign(f"{kind}:{computation}", name, body)


def flipped(entry: bytes, bit: int) -> bytes:
    return entry[: bit // 8] + bytes([entry[bit // 8] ^ 1 << bit % 8]) + entry[bit // 8 + 1 :]


FORGERS: dict[str, Forger] = {
    "another number": lambda _, entries, key: renumbered(entries[key]),
    "sealed with another key": lambda _, entries, key: sealed_by_others(key, entries[key]),
    "an entry of another name": lambda _, entries, key: next(entry for name, entry in entries.items() if name != key),
    "without its seal": lambda _, entries, key: entries[key][entries[key].index(BODY) + len(BODY) : -1],
    "one bit": lambda source, entries, key: flipped(entries[key], source.randrange(8 * len(entries[key]))),
    "cut": lambda source, entries, key: entries[key][: source.randrange(len(entries[key]))],
    "longer": lambda source, entries, key: entries[key] + b" " * int(10 ** source.uniform(0, 6)) + b"}",
    "noise": lambda source, *_: source.randbytes(int(10 ** source.uniform(0, 6))),
}


@pytest.fixture
def client(redis_url: str) -> Iterator[TestClient]:
    """Yield a service with no memory cache, and everything in Redis."""
    settings = Settings.model_validate(
        {
            "redis_url": redis_url,
            "redis_timeout_seconds": 20.0,
            "redis_cost_floor": 0,
            "seal_key": SEAL_KEY,
            "memory_cache_bytes": 1,
            "worker_count": 1,
            "time_limit_seconds": TEST_TIMEOUT,
            "worker_niceness": 0,
            "log_level": "error",
        }
    )
    with TestClient(create_app(settings)) as client:
        yield client


def requests(client: TestClient) -> list[tuple[str, Any]]:
    """Return the shortest example of every route that a worker computes, and a ground truth."""
    release = {"type": "gaussian", "noise_multiplier": 2.0}
    truth = {"mechanism": release, "questions": [{"type": "delta", "epsilon": 1.0}], "method": "ground_truth"}
    audit = {"simulate": {"dimension": 4, "queries": 20}, "batch_size": 8}  # Shorter than its examples.
    found: list[tuple[str, Any]] = [("/v1/bounds", truth), ("/v1/audits/glir", audit)]
    computed = {each.path for each in resources()} - {"/v1/audits/glir"}
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        if "post" in operations and path in computed:
            examples = operations["post"]["requestBody"]["content"]["application/json"]["examples"].values()
            shared = [example["value"] for example in examples if not is_inline(path, example["value"])]
            found += [(path, sent) for sent in sorted(shared, key=lambda sent: len(json.dumps(sent)))[:1]]
    return found


def is_inline(path: str, body: Any) -> bool:
    """Return whether the event loop computes the request, which does not use Redis."""
    [computation] = [each for each in resources() if each.path == path]
    return computation.quote(parse_request(computation.request_type, json.dumps(body).encode())).inline


def entries_of(store: redis.Redis, count: int) -> Entries:
    """Wait for `count` entries, and return all of them."""
    deadline = time.monotonic() + TEST_TIMEOUT
    while True:
        keys = [key for key in store.scan_iter("privacy_bounds:*") if b":lease:" not in key]
        if len(keys) == count:
            entries = {key: store.get(key) for key in sorted(keys)}
            assert all(isinstance(entry, bytes) for entry in entries.values())
            return cast("Entries", entries)
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_poisoned_entries_are_never_served(client: TestClient, redis_url: str) -> None:
    source = random.Random(SEED)
    asked = requests(client)
    assert len({path for path, _ in asked}) > 8

    def answers() -> list[Any]:
        return [client.post(path, json=body) for path, body in asked]

    truths = answers()
    assert [answer.status_code for answer in truths] == [200] * len(asked), [answer.text for answer in truths]
    with redis.Redis.from_url(redis_url) as store:
        count = len(asked) + 1  # A ground truth has an additional entry for its digits.
        entries = entries_of(store, count)
        assert {answer.headers["cache-status"] for answer in answers()} == {HIT}, "whole entries are served"
        for name, forge in FORGERS.items():
            store.mset({key: forge(source, entries, key) for key in entries})
            for answer in truths:
                assert client.get(answer.headers["content-location"]).status_code == 404, name
            for answer, truth in zip(answers(), truths, strict=True):
                assert answer.headers["cache-status"] != HIT, name
                assert answer.content == truth.content, name
            deadline = time.monotonic() + TEST_TIMEOUT
            while entries_of(store, count) != entries:  # Recomputed results are stored again.
                assert time.monotonic() < deadline
                time.sleep(0.01)
        for key, entry in entries.items():
            if truths[1].json()["digest"].encode() in key:
                store.set(key, entry + b" " * MAX_ENTRY_BYTES)
        assert client.post(asked[1][0], json=asked[1][1]).headers["cache-status"] != HIT
