"""Answer of a question: an enclosure with its safe bound, source and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from service.privacy.enclosure import Enclosure

SafeEnd = Literal["upper", "lower"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Answer of one question about a curve.

    Attributes
    ----------
    value : Enclosure
        The number, in the unit of the question.
    safe_end : {"upper", "lower"}
        The bound that never states more privacy than there is.
    source : str
        The theorem behind the answer.
    notes : tuple of str
        Remarks for the reader of the answer.
    """

    value: Enclosure
    safe_end: SafeEnd
    source: str
    notes: tuple[str, ...] = ()

    @property
    def safe_value(self) -> float:
        """The bound of the enclosure that never states more privacy than there is."""
        return self.value.upper if self.safe_end == "upper" else self.value.lower
