"""Calibration of estimated costs by measured CPU time, learned while the service runs."""

from __future__ import annotations

import math
from typing import Final, final

from service.execution.worker_admission import COST_UNITS_PER_SECOND
from service.telemetry.metrics import Metrics

NEWEST_WEIGHT: Final = 1 / 16
"""Weight of the newest computation in the exponential mean of log ratios."""
MAX_RATIO: Final = 8.0
"""Bound of the ratio and of its inverse. A few unusual computations say little about the next one."""
MIN_SECONDS: Final = 0.001
"""Lower bound of quotes and measurements in seconds. Below it, most of the time is overhead and not engine work."""


@final
class CostCalibration:
    """Ratio of measured to estimated CPU time, for each composition engine of each resource.

    The ratio is an exponentially weighted geometric mean, from 1/8 to 8, and 1 before the first measurement. It orders
    the queue and estimates waits. A request is rejected only if both its estimated cost and its cost times the ratio
    exceed the limit.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._log_ratios: dict[tuple[str, str], float] = {}

    def corrected_cost(self, computation: str, engine: str, cost: int) -> int:
        """Return `cost` times the ratio of measured to estimated CPU time of the engine, rounded up.

        Costs are in units of about 1 us of CPU time. The ratio is that of `engine` for the resource `computation`.
        """
        return math.ceil(cost * math.exp(self._log_ratios.get((computation, engine), 0.0)))

    def rejection_cost(self, computation: str, engine: str, cost: int) -> int:
        """Return the cost to compare with the limit: the smaller of the estimate `cost` and its corrected value.

        Costs are in units of about 1 us of CPU time. The corrected value uses the measured times of `engine` for the
        resource `computation`.
        """
        return min(cost, self.corrected_cost(computation, engine, cost))

    def observe(self, computation: str, engine: str, cost: int, seconds: float) -> None:
        """Update the ratio of measured to estimated CPU time of an engine with one computation.

        `cost` is the estimate of the computation in units of about 1 us, and `seconds` its measured CPU time. The
        newest computation has weight 1/16. Both times count as at least 1 ms.
        """
        quoted = max(cost / COST_UNITS_PER_SECOND, MIN_SECONDS)
        newest = math.log(max(seconds, MIN_SECONDS) / quoted)
        before = self._log_ratios.get((computation, engine), 0.0)
        most = math.log(MAX_RATIO)
        after = min(max(before + NEWEST_WEIGHT * (min(max(newest, -most), most) - before), -most), most)
        self._log_ratios[computation, engine] = after
        self._metrics.set_cost_ratio(computation, engine, math.exp(after))
