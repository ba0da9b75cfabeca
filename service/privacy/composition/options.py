"""Options of the engines that take any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What a request may say about how to compute; each engine reads its own fields and ignores the others."""

    order: int = 4
    """edgeworth: order of the series, 0 to 4."""
    samples: int = 100_000
    """monte_carlo: draws of the loss of a whole run, for each hypothesis."""
    seed: int = 0
    """monte_carlo: of the generator; the same seed gives the same numbers."""
    confidence: float = 0.999
    """monte_carlo: probability that the enclosure of a reading holds."""
    digits: int = 25
    """ground_truth: decimal digits, 15 to 50."""
    relative_tolerance: float = 1e-9
    """auto: relative width above which the next engine is asked as well."""


MIXED_TOLERANCE: Final = 1e-6
"""Relative width to which components of a mixture are asked for: a mixture is searched for, and finer lattices would
cost seconds for every look."""
DEFAULT_OPTIONS: Final = EngineOptions()
