"""Measurement of the lag of the event loop, which delays every request."""

from __future__ import annotations

import asyncio
from typing import Final

from service.telemetry.metrics import Metrics

INTERVAL_SECONDS: Final = 0.1


async def measure_loop_lag(metrics: Metrics) -> None:
    """Sleep repeatedly and record by how many seconds each sleep was too long, until the task is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        metrics.observe_loop_lag(max(0.0, loop.time() - due))
