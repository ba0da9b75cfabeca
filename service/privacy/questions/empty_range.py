"""Notes on mu over a range of error rates in which the curve has no point, or possibly none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NOTHING_IN_RANGE: Final = (
    "No point of the curve has both rates this large: mu over that range is 0 because it is empty, not because nothing "
    "is revealed. See global_mu."
)
RANGE_MAY_BE_EMPTY: Final = (
    "It is not known whether any point of the worst case has both rates this large: mu over that range may be 0 "
    "because it is empty, not because nothing is revealed. See global_mu."
)


def range_may_be_empty(notes: Iterable[str]) -> bool:
    """Return whether the notes of an answer say that mu may be 0 because no point of the curve is in the range."""
    return not {NOTHING_IN_RANGE, RANGE_MAY_BE_EMPTY}.isdisjoint(notes)
