"""What a sweep costs."""

from __future__ import annotations

import math
from typing import Any, Final

from pydantic import ValidationError

from api_schemas.sweeps import SweepsRequest
from service.computations.abstract import Quote
from service.computations.bounds import ResolvedRequest, bounds_quote
from service.computations.estimates import UNCERTAINTY, parts_of
from service.privacy.composition.inversion.run import MOST_KINDS, ContourRun
from service.privacy.composition.planning.choose import steps_of
from service.privacy.composition.planning.contour_inversion import CONTOUR
from service.privacy.composition.planning.parts import contour_parts
from service.privacy.composition.summands.catalogue import described_run
from service.privacy.errors import PrivacyComputationError
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.threat_models.worst_case import WorstCase

SAMPLED: Final = 24
"""Points that are looked at for the price of a sweep: pricing one costs some 0.1 ms."""
SAMPLED_PARTS: Final = 150
"""Parts of all these points together, beyond which there are fewer of them."""
POINT_COST: Final = 300
"""Of a point that has no answer, or none that costs anything, in units of cost: it is validated and written."""

OF_MANY: Final = 1 / 20
"""Share of its cost alone that each run costs which is read together with others; the first one costs all of it."""


def sweeps_quote(request: SweepsRequest) -> Quote:
    """Return the cost of a sweep from some of its points, which are spread over all of them. Never for the event loop.

    Runs that are read together cost the first of them, and a share of each.
    """
    count = request.point_count
    parts = parts_of(request.mechanism, (request.threat_model,))
    stride = math.ceil(count / max(1, min(SAMPLED, SAMPLED_PARTS // parts)))
    looked = list(request.points_at(range(stride // 2 if count > 1 else 0, count, stride)))
    quotes = [_asked(request, request.places, numbers) for numbers in looked]
    alone = [quote.cost for quote in quotes if not _is_read_together(quote)]
    together = [quote.cost for quote in quotes if _is_read_together(quote)]
    each = (sum(alone) + OF_MANY * sum(together)) / len(looked) + POINT_COST
    largest = max(quotes, key=lambda quote: quote.cost)
    total = math.ceil(each * count + (1 - OF_MANY) * max(together, default=0))
    return Quote(total, engine=largest.engine, uncertainty_factor=UNCERTAINTY)


def _asked(request: SweepsRequest, places: Any, numbers: tuple[float, ...]) -> Quote:
    """Return the cost of a point; nothing where it has a problem."""
    try:
        return bounds_quote(request.asked(places, numbers))
    except (ValidationError, PrivacyComputationError):
        return Quote(0)


def _is_read_together(quote: Quote) -> bool:
    """Whether the run of a point is inverted, and evaluated together with runs of the same law."""
    if quote.engine != CONTOUR or quote.prepared is None:
        return False
    resolved: ResolvedRequest = quote.prepared.plans
    if not isinstance(resolved.threat_model, WorstCase) or isinstance(resolved.mechanism, Mixture):
        return False
    parts = contour_parts(steps_of(resolved.mechanism, resolved.threat_model.neighbours))
    if parts is None or len(parts) > MOST_KINDS:
        return False
    run = described_run(parts)
    return ContourRun.of(run.gaussian_mu_squared, run.summands).unit is not None
