"""Options of the engines that take any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from service.privacy.composition.planning.accuracy import DEFAULT_TOLERANCE, MIXTURE, Accuracy


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
    relative_tolerance: float = DEFAULT_TOLERANCE
    """contour, discretised: relative width aimed at. auto: width above which the next engine is asked as well."""

    @property
    def accuracy(self) -> Accuracy:
        """The width that every engine aims at."""
        return Accuracy(self.relative_tolerance)

    def no_finer_than(self, width: float) -> EngineOptions:
        """Return the options with a relative tolerance of at least `width`."""
        return self if self.relative_tolerance >= width else replace(self, relative_tolerance=width)

    def for_parts(self, count: int) -> EngineOptions:
        """For each of the curves that are mixed: enclosures that hold with some probability must all hold together."""
        if count == 1:
            return self
        return replace(self, confidence=1 - (1 - self.confidence) / count).no_finer_than(MIXTURE)


DEFAULT_OPTIONS: Final = EngineOptions()
