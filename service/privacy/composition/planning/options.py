"""Options of the engines that a request may set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from service.privacy.composition.planning.accuracy import DEFAULT_TOLERANCE, MIXTURE, Accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Options of a request for all engines. Each engine uses its own fields and ignores the others."""

    order: int = 4
    """Order of the series of `edgeworth`, 0 to 4."""
    samples: int = 100_000
    """Number of draws of `monte_carlo`: losses of a whole run, for each hypothesis."""
    seed: int = 0
    """Seed of the generator of `monte_carlo`. Equal seeds give equal numbers."""
    confidence: float = 0.999
    """Probability with which all enclosures of an answer of `monte_carlo` hold together."""
    digits: int = 25
    """Decimal digits of `ground_truth`, 15 to 50."""
    relative_tolerance: float = DEFAULT_TOLERANCE
    """Relative width that `contour` and `discretised` aim at; `auto` adds another engine above this width."""
    long_lists: bool = False
    """Whether all numbers are read in long lists, for which a second engine would take minutes. Not set by requests."""

    @property
    def accuracy(self) -> Accuracy:
        """Relative widths of enclosures that the engines aim at for the requested `relative_tolerance`."""
        return Accuracy(self.relative_tolerance, long_lists=self.long_lists)

    def no_finer_than(self, width: float) -> EngineOptions:
        """Return the options with a relative tolerance of at least `width`."""
        return self if self.relative_tolerance >= width else replace(self, relative_tolerance=width)

    def for_components(self, count: int) -> EngineOptions:
        """Return the options of each of `count` curves that are mixed.

        The enclosures of all curves must hold together, so the error probability 1 - `confidence` is divided by
        `count`. The relative tolerance is at least `MIXTURE`. A single curve keeps the options.
        """
        if count == 1:
            return self
        return replace(self, confidence=1 - (1 - self.confidence) / count).no_finer_than(MIXTURE)


DEFAULT_OPTIONS: Final = EngineOptions()
