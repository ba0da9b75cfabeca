"""Results in memory: limits, and eviction of the requester that holds most."""

from __future__ import annotations

import random
from collections import OrderedDict

import pytest

from service.execution.memory_cache import InMemoryResultCache

SEED = 20264


def test_cache_is_bounded_in_entries_and_evicts_least_recently_used() -> None:
    cache = InMemoryResultCache(2, 1_000)
    cache.put("c", "1", b"one")
    cache.put("c", "2", b"two")
    assert cache.lookup("c", "1") == b"one"
    cache.put("c", "3", b"three")
    assert cache.lookup("c", "2") is None
    assert (cache.lookup("c", "1"), cache.lookup("c", "3")) == (b"one", b"three")
    assert cache.size_bytes == 8


def test_cache_is_bounded_in_bytes() -> None:
    cache = InMemoryResultCache(100, 10)
    for name in "abcdef":
        cache.put("c", name, b"1234")
    assert len(cache) == 2
    assert cache.size_bytes == 8
    cache.put("c", "large", bytes(11))
    assert cache.lookup("c", "large") is None
    cache.put("c", "f", b"12")
    assert cache.size_bytes == 6


def test_flood_of_distinct_results_evicts_its_own() -> None:
    cache = InMemoryResultCache(100, 10_000)
    for number in range(40):
        cache.put("c", f"polite {number}", b"12345", "polite")
    for number in range(10_000):
        cache.put("c", f"flood {number}", b"12345", "flood")
    assert all(cache.lookup("c", f"polite {number}") for number in range(40))
    assert len(cache) == 100
    assert cache.lookup("c", "flood 9999")


def test_large_results_of_one_requester_evict_its_own() -> None:
    cache = InMemoryResultCache(1_000, 10_000)
    for number in range(100):
        cache.put("c", f"polite {number}", b"12345", "polite")
    for number in range(100):
        cache.put("c", f"large {number}", bytes(3_000), "large")
    assert all(cache.lookup("c", f"polite {number}") for number in range(100))
    assert cache.size_bytes <= 10_000


class Model:
    """Expected content of the cache, found by a search over all entries."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self.bodies: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def weight(self, requester: str) -> float:
        own = [len(body) for holder, body in self.bodies.values() if holder == requester]
        return sum(own) + self.max_bytes / self.max_entries * len(own)

    def put(self, name: str, body: bytes, requester: str) -> None:
        self.bodies.pop(name, None)
        self.bodies[name] = requester, body
        while len(self.bodies) > self.max_entries or self.size() > self.max_bytes:
            largest = max(self.weight(holder) for holder, _ in self.bodies.values())
            tied = {holder for holder, _ in self.bodies.values() if self.weight(holder) == largest}
            first = min(tied)
            del self.bodies[next(each for each, (holder, _) in self.bodies.items() if holder == first)]

    def size(self) -> int:
        return sum(len(body) for _, body in self.bodies.values())


@pytest.mark.parametrize("seed", range(SEED, SEED + 10))
def test_cache_content_matches_plain_search(seed: int) -> None:
    source = random.Random(seed)
    cache, model = InMemoryResultCache(16, 4_096), Model(16, 4_096)
    for _ in range(600):
        name = str(source.randrange(60))
        if source.random() < 0.4:
            found = cache.lookup("c", name)
            assert (found or b"") == model.bodies.get(name, ("", b""))[1]
            if name in model.bodies:
                model.bodies.move_to_end(name)
        else:
            body = bytes(source.choice((10, 100, 1_000)))
            requester = source.choice("aaaaabbc")
            cache.put("c", name, body, requester)
            model.put(name, body, requester)
        assert (len(cache), cache.size_bytes) == (len(model.bodies), model.size())
        assert len(cache._weight_heap) <= 2 * len(cache._entries_by_requester) + 66
