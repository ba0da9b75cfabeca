"""Metric of event loop lag."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from service.telemetry.loop_lag import measure_loop_lag
from tests.execution.fakes import counted, make_metrics
from tests.timeouts import TEST_TIMEOUT


async def test_blocked_loop_is_measured() -> None:
    metrics = make_metrics()
    watching = asyncio.create_task(measure_loop_lag(metrics))
    await asyncio.sleep(0)
    time.sleep(0.4)  # noqa: ASYNC251 - blocks the loop, as nothing should
    async with asyncio.timeout(TEST_TIMEOUT):
        while not counted(metrics, "privacy_bounds_event_loop_lag_seconds_count"):
            await asyncio.sleep(0)
    assert counted(metrics, "privacy_bounds_event_loop_lag_seconds_sum") > 0.25
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
