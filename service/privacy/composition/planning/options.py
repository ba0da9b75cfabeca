"""Options of the engines that take any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

MIXED_TOLERANCE: Final = 1e-6
"""Relative width to which components of a mixture are asked for: a mixture is searched for, and finer lattices would
cost seconds for every look."""


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
    """monte_carlo: probability that all enclosures of an answer hold together."""
    digits: int = 25
    """ground_truth: decimal digits, 15 to 50."""
    relative_tolerance: float = 1e-6
    """auto: relative width above which the next engine is asked as well."""

    def for_parts(self, count: int) -> EngineOptions:
        """For each of the curves that are mixed: enclosures that hold with some probability must all hold together."""
        if count == 1:
            return self
        confidence = 1 - (1 - self.confidence) / count
        tolerance = max(self.relative_tolerance, MIXED_TOLERANCE)
        return replace(self, confidence=confidence, relative_tolerance=tolerance)


DEFAULT_OPTIONS: Final = EngineOptions()
