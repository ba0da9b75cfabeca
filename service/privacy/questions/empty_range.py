"""Notes on mu over a range of error rates in which the curve has no point, or possibly none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NOTHING_IN_RANGE: Final = (
    "No point of the curve has both error rates this large. The value 0 of mu means that the "
    "range is empty, not that nothing is revealed. See global_mu."
)
RANGE_MAY_BE_EMPTY: Final = (
    "No proof shows that a point of the worst case has both error rates this large. A mu of 0 "
    "may mean that the range is empty, not that nothing is revealed. See global_mu."
)


def range_may_be_empty(notes: Iterable[str]) -> bool:
    """Return whether the notes of an answer say that mu may be 0 because no point of the curve is in the range."""
    return not {NOTHING_IN_RANGE, RANGE_MAY_BE_EMPTY}.isdisjoint(notes)
