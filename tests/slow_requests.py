"""Requests that certainly take long, for tests of events during a computation or of its end."""

from __future__ import annotations

from typing import Any, Final

DPSGD: Final[dict[str, Any]] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
LONG: Final[dict[str, Any]] = {
    "mechanism": {"type": "composed", "mechanisms": [DPSGD | {"noise_multiplier": 1 + n / 100} for n in range(64)]},
    "questions": [{"type": "delta", "epsilon": 1 + n / 300} for n in range(256)],
    "method": "ground_truth",
    "digits": 50,
}
"""About half a minute on one core: a machine ten times as fast needs seconds."""
MORE_THAN_ITS_PRICE: Final = "100000000000"
"""A `max_cost` that admits the request."""
