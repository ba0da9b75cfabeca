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
from service.privacy.mechanisms.abstract import GaussianMixturePart
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.threat_models.worst_case import WorstCase

SAMPLED: Final = 24
"""Points that are looked at for the price of a sweep: pricing one costs some 0.1 ms."""
SAMPLED_PARTS: Final = 150
"""Parts of all these points together, beyond which there are fewer of them."""
POINT_COST: Final = 300
"""Of a point that has no answer, or none that costs anything, in units of cost: it is validated and written."""

OF_MANY, OF_MIXTURES = 1 / 20, 1 / 4
"""Share of the cost of a run alone that each run of a batch costs, for each kind of steps: sampled Gaussian steps, and
mixtures. The first run of a batch has its whole cost.
"""


def sweeps_quote(request: SweepsRequest) -> Quote:
    """Return the cost of a sweep from some of its points, which are spread over all of them. Never for the event loop.

    Runs of a batch cost the first of them, and a share of each.
    """
    count = request.point_count
    parts = parts_of(request.mechanism, (request.threat_model,))
    stride = math.ceil(count / max(1, min(SAMPLED, SAMPLED_PARTS // parts)))
    looked = list(request.points_at(range(stride // 2 if count > 1 else 0, count, stride)))
    quotes = [_asked(request, request.places, numbers) for numbers in looked]
    costs = [quote.cost for quote in quotes]
    shared = [cost * _share(quote) for cost, quote in zip(costs, quotes, strict=True)]
    largest = max(quotes, key=lambda quote: quote.cost)
    first = max(cost - share for cost, share in zip(costs, shared, strict=True))
    total = math.ceil((sum(shared) / len(looked) + POINT_COST) * count + first)
    return Quote(total, engine=largest.engine, uncertainty_factor=UNCERTAINTY)


def _asked(request: SweepsRequest, places: Any, numbers: tuple[float, ...]) -> Quote:
    """Return the cost of a point; nothing where it has a problem."""
    try:
        return bounds_quote(request.asked(places, numbers))
    except (ValidationError, PrivacyComputationError):
        return Quote(0)


def _share(quote: Quote) -> float:
    """Return the share of the cost of a point alone that it has in a batch; 1 where its run is evaluated alone."""
    if quote.engine != CONTOUR or quote.prepared is None:
        return 1.0
    resolved: ResolvedRequest = quote.prepared.plans
    if not isinstance(resolved.threat_model, WorstCase) or isinstance(resolved.mechanism, Mixture):
        return 1.0
    parts = contour_parts(steps_of(resolved.mechanism, resolved.threat_model.neighbours))
    if parts is None or len(parts) > MOST_KINDS:
        return 1.0
    run = described_run(parts)
    if ContourRun.of(run.gaussian_mu_squared, run.summands).unit is None:
        return 1.0
    each = OF_MIXTURES if isinstance(parts[0][0], GaussianMixturePart) else OF_MANY
    return each * len(parts)
