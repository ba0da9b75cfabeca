"""A stored ground truth answers requests for fewer digits, has a longer lifetime, and never answers other requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from service.execution.entry_mac import EntryAuthenticator
from service.execution.ground_truth_index import encode_pointer, question_digest, resolve_pointer
from service.execution.redis_client import RedisCircuitBreaker
from service.telemetry.metrics import Metrics
from tests.execution.fakes import (
    DEAR,
    ENGINE_VERSION,
    FAKE,
    SEAL_KEY,
    FakeRequest,
    computations_logged,
    counted,
    make_pool,
    make_runner,
    make_shared,
)
from tests.timeouts import TEST_TIMEOUT


@pytest.fixture
async def link(redis_url: str, metrics: Metrics) -> AsyncIterator[RedisCircuitBreaker]:
    link = RedisCircuitBreaker(redis_url, TEST_TIMEOUT, metrics)
    await link.start()
    yield link
    await link.stop()


def question_key(request: FakeRequest) -> str:
    return f"privacy_bounds:digits:fake:{question_digest(FAKE.name, ENGINE_VERSION, request)}"


def sealed(request: FakeRequest, body: bytes) -> bytes:
    return EntryAuthenticator([SEAL_KEY]).sign("digits:fake", question_digest(FAKE.name, ENGINE_VERSION, request), body)


@pytest.mark.parametrize("cost", [1, DEAR])
async def test_stored_result_answers_fewer_digits(metrics: Metrics, tmp_path: Path, cost: int) -> None:
    pool, log = make_pool(metrics), tmp_path / "log"
    runner = make_runner(metrics, pool)

    def at(digits: int) -> FakeRequest:
        return FakeRequest(digits=digits, cost=cost, log=str(log))

    forty = await runner.run(FAKE, at(40))
    fewer = await runner.run(FAKE, at(25))
    assert (forty.cache, fewer.cache) == ("computed", "memory")
    assert (fewer.digest, fewer.body) == (forty.digest, forty.body)
    fifty = await runner.run(FAKE, at(50))
    assert fifty.cache == "computed"
    assert (await runner.run(FAKE, at(41))).digest == fifty.digest
    assert (await runner.run(FAKE, at(40))).digest == forty.digest
    assert computations_logged(log) == 2
    other = await runner.run(FAKE, FakeRequest(digits=25, cost=cost, log=str(log), amount=1.0))
    assert other.cache == "computed"
    await pool.close()


async def test_results_in_doubles_are_not_indexed(metrics: Metrics, link: RedisCircuitBreaker, redis_url: str) -> None:
    pool, shared = make_pool(metrics), make_shared(link, metrics)
    runner = make_runner(metrics, pool, shared)
    plain = await runner.run(FAKE, FakeRequest(amount=2.0, cost=DEAR))
    await shared.cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        assert client.get(question_key(FakeRequest(amount=2.0, cost=DEAR))) is None
        assert 0 < client.ttl(f"privacy_bounds:result:fake:{plain.digest}") <= 60
    await pool.close()


async def test_ground_truth_is_shared_and_lives_longer(
    metrics: Metrics, link: RedisCircuitBreaker, redis_url: str, tmp_path: Path
) -> None:
    pool, log = make_pool(metrics), tmp_path / "log"
    request = FakeRequest(digits=40, cost=DEAR, log=str(log))
    shared = make_shared(link, metrics)
    forty = await make_runner(metrics, pool, shared).run(FAKE, request)
    await shared.cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        for key in (f"privacy_bounds:result:fake:{forty.digest}", question_key(request)):
            assert 60 < client.ttl(key) <= 600
    elsewhere = make_runner(metrics, pool, make_shared(link, metrics))
    for digits in (15, 40):
        answer = await elsewhere.run(FAKE, FakeRequest(digits=digits, cost=DEAR, log=str(log)))
        assert (answer.digest, answer.body) == (forty.digest, forty.body)
    assert computations_logged(log) == 1
    await pool.close()


@pytest.mark.parametrize("altered", ["seal", "text", "list", "digits", "digest", "missing"])
async def test_altered_entry_is_a_miss_and_is_replaced(
    metrics: Metrics, link: RedisCircuitBreaker, redis_url: str, tmp_path: Path, altered: str
) -> None:
    pool, log = make_pool(metrics), tmp_path / "log"
    forty, few = (FakeRequest(digits=digits, cost=DEAR, log=str(log), amount=3.0) for digits in (40, 25))
    shared = make_shared(link, metrics)
    stored = await make_runner(metrics, pool, shared).run(FAKE, forty)
    other = await make_runner(metrics, pool, shared).run(FAKE, FakeRequest(digits=40, amount=4.0, cost=DEAR))
    await shared.cache.flush()
    with redis.Redis.from_url(redis_url) as client:
        client.set(
            question_key(few),
            {
                "seal": encode_pointer(stored.digest, 40),
                "text": sealed(few, b"\xff\x00"),
                "list": sealed(few, b"[40]"),
                "digits": sealed(few, encode_pointer(stored.digest, 41)),
                "digest": sealed(few, encode_pointer(other.digest, 40)),
                "missing": sealed(few, encode_pointer(stored.digest, 40)),
            }[altered],
        )
        if altered == "missing":
            client.delete(f"privacy_bounds:result:fake:{stored.digest}")
        answer = await make_runner(metrics, pool, shared).run(FAKE, few)
        await shared.cache.flush()
        assert answer.cache == "computed"
        assert answer.digest not in (stored.digest, other.digest)
        listed = client.get(question_key(few))
        assert isinstance(listed, bytes)
        assert encode_pointer(answer.digest, 25) in listed
    assert computations_logged(log) == 2
    assert counted(metrics, "privacy_bounds_redis_bad_entries_total") == (altered == "seal")
    await pool.close()


@pytest.mark.parametrize(
    "found", [b"", b"7", b"{}", b'{"digits":true,"digest":""}', b'{"digits":"40"}', b'{"digits":1e2}']
)
def test_invalid_entry_resolves_to_nothing(found: bytes) -> None:
    assert resolve_pointer(found, FAKE.name, ENGINE_VERSION, FakeRequest(digits=20), 20) is None


def test_fewer_digits_than_requested_do_not_answer() -> None:
    request = FakeRequest(digits=30)
    twenty = FakeRequest(digits=20)
    assert question_digest("fake", "1", request) == question_digest("fake", "1", twenty)
    assert question_digest("fake", "1", request) != question_digest("fake", "2", request)
    digest = resolve_pointer(encode_pointer("x", 20), "fake", "1", request, 30)
    assert digest is None
