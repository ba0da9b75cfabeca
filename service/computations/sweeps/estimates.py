"""What a sweep costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.sweeps import SweepsRequest
from service.computations.abstract import Quote
from service.computations.bounds import bounds_quote
from service.computations.estimates import UNCERTAINTY, parts_of
from service.privacy.composition.planning.contour_inversion import CONTOUR
from service.privacy.errors import PrivacyComputationError

SAMPLED: Final = 24
"""Points that are looked at for the price of a sweep: pricing one costs some 0.1 ms."""
SAMPLED_PARTS: Final = 150
"""Parts of all these points together, beyond which there are fewer of them."""
POINT_COST: Final = 300
"""Of a point that has no answer, or none that costs anything, in units of cost: it is validated and written."""

OF_MANY: Final = 1 / 20
"""What a run costs that is read together with others, over what it costs alone."""


def sweeps_quote(request: SweepsRequest) -> Quote:
    """So many times what some of the points cost, which are spread over all of them. Never for the event loop."""
    count = request.point_count
    parts = parts_of(request.mechanism, (request.threat_model,))
    stride = math.ceil(count / max(1, min(SAMPLED, SAMPLED_PARTS // parts)))
    places, quotes = request.places, list[Quote]()
    looked = list(request.points_at(range(stride // 2 if count > 1 else 0, count, stride)))
    for numbers in looked:
        asked = _asked(request, places, numbers)
        if asked is not None:
            quotes.append(asked)
    total = sum(quote.cost for quote in quotes) + POINT_COST * len(looked)
    dearest = max(quotes, key=lambda quote: quote.cost, default=Quote(0))
    return Quote(math.ceil(total / len(looked) * count), engine=dearest.engine, uncertainty=UNCERTAINTY)


def _asked(request: SweepsRequest, places: Any, numbers: tuple[float, ...]) -> Quote | None:
    """What a point costs; None where it has a problem."""
    try:
        asked: BoundsRequest = request.asked(places, numbers)
        alone = bounds_quote(asked)
    except (ValidationError, PrivacyComputationError):
        return None
    shared = alone.engine == CONTOUR and asked.threat_model.type == "worst_case"
    return replace(alone, cost=math.ceil(alone.cost * OF_MANY)) if shared else alone
