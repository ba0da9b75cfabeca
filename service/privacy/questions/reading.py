"""Answer of a question: an enclosure with its safe bound, source and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain

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


def check_probabilities(**given: float) -> None:
    """Raise OutOfDomain for the first of the given numbers, by the names of their fields, that is no probability.

    Parameters
    ----------
    **given : float
        Numbers by name.

    Raises
    ------
    OutOfDomain
        If a number is outside [0, 1] or NaN.
    """
    for name, value in given.items():
        if not 0 <= value <= 1:
            raise OutOfDomain(name, value, "in [0, 1]")
