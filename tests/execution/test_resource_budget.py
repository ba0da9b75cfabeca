"""Resource budget: the largest holder gives way at once, and smaller holders are never refused."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from service.execution.errors import QueueFull
from service.execution.resource_budget import Reservation, ResourceBudget, TransferDeadline

SEED = 20263
CASES = 200


class Holder:
    """Holder of a reservation, which keeps it until the test ends it or the budget revokes it."""

    def __init__(self, pot: ResourceBudget, requester: str, size: int = 0) -> None:
        self.requester = requester
        self.left = asyncio.Event()
        self.share: Reservation | None = None
        self.task = asyncio.create_task(self._hold(pot, size))

    async def _hold(self, pot: ResourceBudget, size: int) -> str:
        try:
            async with pot.reserve(self.requester, size) as self.share:
                await self.left.wait()
        except QueueFull as error:
            return "ended" if self.share is not None and error.retry_after_seconds > 0 else "refused"
        return "left"

    async def outcome(self) -> str:
        return await asyncio.wait_for(self.task, 5)


async def held(pot: ResourceBudget, *given: tuple[str, int]) -> list[Holder]:
    holders = [Holder(pot, requester, size) for requester, size in given]
    await asyncio.sleep(0)
    return holders


async def leave(holders: list[Holder]) -> list[str]:
    for holder in holders:
        holder.left.set()
    return [await holder.outcome() for holder in holders]


async def test_largest_holder_gives_way_and_never_the_newcomer() -> None:
    pot = ResourceBudget(4)
    large = await held(pot, *[("large", 1)] * 4)
    small = await held(pot, ("small", 1), ("other", 1), ("small", 1))
    assert sorted(await leave(large)) == ["ended", "ended", "left", "left"]
    assert await leave(small) == ["left", "left", "refused"], "two each: nobody has more than the newcomer would have"


async def test_units_are_free_before_holder_is_notified() -> None:
    pot = ResourceBudget(10)
    [large] = await held(pot, ("large", 10))
    async with pot.reserve("small") as share:
        share.extend(6)
        assert large.share is not None
        assert (share.size, large.share.size) == (6, 0)
    assert await leave([large]) == ["ended"]
    async with pot.reserve("next", 10):
        pass


async def test_among_equal_holders_stalled_one_gives_way() -> None:
    pot = ResourceBudget(3)
    holders = await held(pot, ("a", 1), ("b", 1), ("c", 1))
    with pytest.raises(QueueFull):
        async with pot.reserve("d", 1):
            pass
    assert holders[1].share is not None
    holders[1].share.overdue_at = 0.0
    async with pot.reserve("d", 1):
        pass
    assert await leave(holders) == ["left", "ended", "left"]


async def test_stalled_holder_gives_way_to_same_requester() -> None:
    pot = ResourceBudget(2)
    holders = await held(pot, ("a", 1), ("a", 1))
    assert holders[0].share is not None
    holders[0].share.overdue_at = 0.0
    async with pot.reserve("a", 1):
        pass
    assert await leave(holders) == ["ended", "left"]


async def test_exception_in_block_releases_the_share() -> None:
    pot = ResourceBudget(1)
    for error in (ValueError, TimeoutError, asyncio.CancelledError):
        with pytest.raises(error):
            async with pot.reserve("a", 1):
                raise error
    async with pot.reserve("b", 1):
        pass


async def test_eviction_cancels_whatever_is_awaited(awaited: Callable[[], Coroutine[Any, Any, object]]) -> None:
    pot = ResourceBudget(2)

    async def hold() -> None:
        async with pot.reserve("large", 2):
            await awaited()

    task = asyncio.create_task(hold())
    await asyncio.sleep(0.01)
    async with pot.reserve("small", 1):
        with pytest.raises(QueueFull):
            await asyncio.wait_for(task, 5)


@pytest.fixture(params=["sleep", "thread", "group"])
def awaited(request: pytest.FixtureRequest) -> Callable[[], Coroutine[Any, Any, object]]:
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(60))

    def waited() -> None:
        with suppress(RuntimeError):
            asyncio.run(asyncio.sleep(0.1))

    waits: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "sleep": lambda: asyncio.sleep(60),
        "thread": lambda: asyncio.to_thread(waited),
        "group": group,
    }
    return waits[request.param]


async def test_holder_below_fair_share_is_never_refused_or_evicted() -> None:
    """A holder below its fair share is never refused or evicted.

    Holders arrive, grow and leave at random. The units add up.
    """
    source = random.Random(SEED)
    for _ in range(CASES):
        units = source.randint(2, 30)
        pot = ResourceBudget(units)
        holders: list[Holder] = []
        for _ in range(40):
            requester = source.choice("abcd")
            size = source.randint(1, max(1, units // 3))
            now = [(each, each.share) for each in holders if each.share is not None and not each.share.is_revoked]
            totals = Counter(dict.fromkeys("abcd", 0))
            for each, share in now:
                totals[each.requester] += share.size
            newcomer = Holder(pot, requester, size)
            await asyncio.sleep(0)
            ended = [each for each, share in now if share.is_revoked]
            if newcomer.task.done():
                assert await newcomer.outcome() == "refused"
                assert not ended
                assert sum(totals.values()) + size > units
                assert totals[requester] + size > units / len(totals), "it would have had more than a fair share"
            else:
                holders.append(newcomer)
            assert all(totals[each.requester] > totals[requester] + size for each in ended)
            if source.random() < 0.3 and holders:
                gone = holders.pop(source.randrange(len(holders)))
                await leave([gone])
            taken = sum(each.share.size for each in holders if each.share is not None)
            assert taken <= units
        await leave(holders)
        async with pot.reserve("last", units):
            pass


def test_transfer_deadline_depends_on_rate_alone() -> None:
    steady, trickle, burst = (TransferDeadline(0.0, 10.0, 100.0) for _ in range(3))
    burst.advance(0.0, 10**9)
    assert burst.at == 10.0, "what was quick once does not buy rest for ever"
    for second in range(1, 100):
        steady.advance(float(second), 100)
        trickle.advance(float(second), 1)
        assert steady.at >= second
    assert trickle.at < 100
