"""Thousands of distinct requests leave no memory, descriptor or thread behind. `make soak` runs longer and mixed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import httpx2
import psutil
import pytest

from tests.system.running_server import running_server
from tests.system.soak.footprint import footprint
from tests.system.soak.load import EXPECTED, INEXPENSIVE

WARM_UP, MEASURED = 1_200, 2_400
"""Numbers of requests. The warm-up fills bounded caches: of results, and of up to 1024 digests and addresses."""

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with running_server(
        tmp_path_factory.mktemp("server"), memory_cache_entries="64", worker_niceness="0", log_level="critical"
    ) as client:
        yield client


def smallest_request(client: httpx2.Client) -> int:
    """Return the bytes of the parsed headers of a request without a body.

    A request that stays reachable keeps at least its headers, so that growth below this size leaks no request. The test
    cannot see a smaller leak, such as a digest: fragments of freed memory have the same size. `make soak` finds it.
    """
    pairs = client.build_request("GET", "/").headers.raw
    return sys.getsizeof(pairs) + sum(sys.getsizeof(pair) + sum(map(sys.getsizeof, pair)) for pair in pairs)


@pytest.mark.parametrize("name", INEXPENSIVE)
def test_many_requests_leave_nothing_behind(server: httpx2.Client, name: str) -> None:
    service = psutil.Process(server.process_id)  # type: ignore[attr-defined]
    numbers = itertools.count()

    def send(count: int) -> None:
        statuses = {INEXPENSIVE[name](server, number) for number in itertools.islice(numbers, count)}
        assert statuses <= EXPECTED

    send(WARM_UP)
    before = footprint(service, (), 0)
    send(MEASURED)
    after = footprint(service, (), 0)
    grown = (after.service_bytes - before.service_bytes) / MEASURED
    print(f"{name}: {grown:.0f} bytes a request")  # noqa: T201
    assert grown < smallest_request(server)
    assert after.processes <= before.processes
    assert after.descriptors <= before.descriptors + 2, "the connection of this client, and one that is closing"
