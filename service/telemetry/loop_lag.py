"""How late the event loop is: what every request waits for, whoever is to blame."""

from __future__ import annotations

import asyncio
from typing import Final

from service.telemetry.metrics import Metrics

INTERVAL_SECONDS: Final = 0.1


async def watch(metrics: Metrics) -> None:
    """Sleep again and again, and count how much too long each time. Ends when it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        metrics.loop_was_late(max(0.0, loop.time() - due))
