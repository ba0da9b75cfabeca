"""Range of the cost of a request, and the unknowns on which the cost depends. Both follow from the request alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from api_schemas.jobs import CostUnknown
from service.resources.abstract import Quote
from service.resources.estimates import UNPRICED

COUNTED, SEARCHED, ON_LATTICES = 4.0, 64.0, 256.0
"""Ratio of the likely cost to the smallest cost: of work that is counted in advance (draws, pairs, trials), of
evaluations of curves, and of evaluations on lattices. Lattices cost next to nothing if the losses have few values."""
CEILING: Final = 8.0
"""Ratio of the largest cost of a closed form, over all its arguments, to its likely cost."""
MACHINES: Final = 2.0
"""Largest ratio of measured CPU time to counted work: machines and load differ."""
UNKNOWN_OF_ENGINES: Final[Mapping[str, CostUnknown]] = {
    "contour": "second_engine",
    "discretised": "lattice_spacing",
    UNPRICED: "parts",
}
UNKNOWN_OF_RESOURCES: Final[Mapping[str, CostUnknown]] = {"calibrations": "search_length", "sweeps": "shared_points"}


@final
@dataclass(frozen=True, slots=True)
class CostRange:
    """Costs in microseconds of CPU time, with least <= likely <= most.

    Attributes
    ----------
    least : int
        Smallest cost, for example if the first method tried is accurate enough.
    likely : int
        Expected cost. Most requests cost between a quarter of this value and four times this value.
    most : int
        Largest cost, at which the limit of work or of time ends the request.
    unknown : tuple
        Codes of the facts (`CostUnknown`) that determine the cost and are not known in advance.
    """

    least: int
    likely: int
    most: int
    unknown: tuple[CostUnknown, ...]


def cost_range(resource: str, quoted: Quote, limit_seconds: float) -> CostRange:
    """Return the range of the cost of a request to `resource`, in microseconds of CPU time.

    The request ends after `limit_seconds`. `quoted` is its estimate.
    """
    limit = limit_seconds * 1e6
    most = math.ceil(min(MACHINES * quoted.ceiling, limit) if quoted.ceiling else limit)
    likely = min(math.ceil(quoted.cost / CEILING) if quoted.inline else quoted.cost, most)
    found = UNKNOWN_OF_RESOURCES.get(resource), UNKNOWN_OF_ENGINES.get(quoted.engine)
    least = int(likely / _largest_ratio(quoted))
    return CostRange(least, likely, most, tuple(each for each in found if each is not None))


def _largest_ratio(quoted: Quote) -> float:
    if quoted.engine == "discretised":
        return ON_LATTICES
    return COUNTED if quoted.uncertainty_factor == 1.0 else SEARCHED
