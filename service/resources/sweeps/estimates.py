"""Estimated cost of a sweep."""

from __future__ import annotations

import math
from typing import Any, Final

from pydantic import ValidationError

from api_schemas.sweeps import SweepsRequest
from service.privacy.composition.inversion.run_law import MOST_PARTS, RunLaw
from service.privacy.composition.planning.choose import steps_of
from service.privacy.composition.planning.contour_inversion import CONTOUR
from service.privacy.composition.planning.parts import contour_parts
from service.privacy.composition.summands.catalogue import described_run
from service.privacy.errors import PrivacyComputationError
from service.privacy.mechanisms.abstract import GaussianMixturePart
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.threat_models.worst_case import WorstCase
from service.resources.abstract import Quote
from service.resources.bounds import ResolvedRequest, bounds_quote
from service.resources.estimates import UNCERTAINTY, parts_of

SAMPLED: Final = 24
"""Points whose quotes determine the quote of a sweep. A quote takes about 0.1 ms."""
SAMPLED_PARTS: Final = 150
"""Largest number of parts of all these points together. Larger descriptions use fewer points."""
POINT_COST: Final = 300
"""Cost of validating and writing a point, in microseconds."""

OF_MANY, OF_MIXTURES = 1 / 20, 1 / 4
"""Ratio of the cost of a run in a batch to its cost alone, for each kind of steps: sampled Gaussian steps, and
mixtures. The first run of a batch has its whole cost."""


def sweeps_quote(request: SweepsRequest) -> Quote:
    """Return the estimated cost of a sweep, in microseconds of CPU time, from the estimates of some points.

    A sweep never runs in the event loop. The points are spread over the whole sweep. In a batch of points that are
    evaluated together, the first point has its whole cost and each further point a share of it.
    """
    count = request.point_count
    parts = parts_of(request.mechanism, (request.threat_model,))
    stride = math.ceil(count / max(1, min(SAMPLED, SAMPLED_PARTS // parts)))
    looked = list(request.points_at(range(stride // 2 if count > 1 else 0, count, stride)))
    quotes = [_point_quote(request, request.places, numbers) for numbers in looked]
    costs = [quote.cost for quote in quotes]
    shared = [cost * _relative_cost_in_block(quote) for cost, quote in zip(costs, quotes, strict=True)]
    largest = max(quotes, key=lambda quote: quote.cost)
    first = max(cost - share for cost, share in zip(costs, shared, strict=True))
    total = math.ceil((sum(shared) / len(looked) + POINT_COST) * count + first)
    return Quote(total, engine=largest.engine, uncertainty_factor=UNCERTAINTY)


def _point_quote(request: SweepsRequest, places: Any, numbers: tuple[float, ...]) -> Quote:
    try:
        return bounds_quote(request.asked(places, numbers))
    except (ValidationError, PrivacyComputationError):
        return Quote(0)


def _relative_cost_in_block(quote: Quote) -> float:
    # the cost of a point beside others, relative to its cost alone
    if quote.engine != CONTOUR or quote.prepared is None:
        return 1.0
    resolved: ResolvedRequest = quote.prepared.plans
    if not isinstance(resolved.threat_model, WorstCase) or isinstance(resolved.mechanism, Mixture):
        return 1.0
    parts = contour_parts(steps_of(resolved.mechanism, resolved.threat_model.neighbours))
    if parts is None or len(parts) > MOST_PARTS:
        return 1.0
    run = described_run(parts)
    if RunLaw.of(run.gaussian_mu_squared, run.summands).unit is None:
        return 1.0
    each = OF_MIXTURES if isinstance(parts[0][0], GaussianMixturePart) else OF_MANY
    return each * len(parts)
