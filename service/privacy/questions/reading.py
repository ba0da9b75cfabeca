"""What a question answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from service.privacy.enclosure import Enclosure

SafeEnd = Literal["upper", "lower"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One number read off a curve.

    `safe_end`: the end that never promises more privacy than there is. `source`: the theorem behind the reading.
    """

    value: Enclosure
    safe_end: SafeEnd
    source: str
    notes: tuple[str, ...] = ()

    @property
    def safe_value(self) -> float:
        """The end of the enclosure that may be trusted."""
        return self.value.upper if self.safe_end == "upper" else self.value.lower
