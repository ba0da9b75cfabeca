"""What prices of an engine are worth, by what its computations took: learned while the service runs."""

from __future__ import annotations

import math
from typing import Final, final

from service.execution.admission import COST_UNITS_PER_SECOND
from service.telemetry.metrics import Metrics

WEIGHT: Final = 1 / 16
"""Weight of the newest computation."""
LARGEST: Final = 8.0
"""A ratio is never more than this, nor less than its inverse: a few odd computations say little about the next one."""
SHORTEST_SECONDS: Final = 0.001
"""Quotes and measurements below it count as this: what is shorter is mostly not the engine's."""


@final
class Corrections:
    """One ratio, measured over quoted CPU, for every engine of every computation: a geometric mean that forgets.

    It orders queues and quotes waits, where nothing depends on a few per cent. Of refusals it can only take back: a
    request is refused when its price and what becomes of it by the ratio are both above the limit, so that what was
    once accepted is accepted whatever ran in between.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logs: dict[tuple[str, str], float] = {}

    def expected(self, computation: str, engine: str, cost: int) -> int:
        """The cost that was quoted, corrected."""
        return math.ceil(cost * math.exp(self._logs.get((computation, engine), 0.0)))

    def refused_at(self, computation: str, engine: str, cost: int) -> int:
        """What a request is refused by: the smaller of the two."""
        return min(cost, self.expected(computation, engine, cost))

    def measured(self, computation: str, engine: str, cost: int, seconds: float) -> None:
        """A computation that was quoted at `cost` took so many seconds of CPU."""
        quoted = max(cost / COST_UNITS_PER_SECOND, SHORTEST_SECONDS)
        newest = math.log(max(seconds, SHORTEST_SECONDS) / quoted)
        before = self._logs.get((computation, engine), 0.0)
        most = math.log(LARGEST)
        after = min(max(before + WEIGHT * (min(max(newest, -most), most) - before), -most), most)
        self._logs[computation, engine] = after
        self._metrics.price_ratio(computation, engine, math.exp(after))
