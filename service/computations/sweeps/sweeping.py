"""`POST /v1/sweeps`: every point is a request for bounds of its own, many of which are read at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, final

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.caveats import Assumption, Hazard
from api_schemas.sweep_examples import SWEEPS_EXAMPLES
from api_schemas.sweeps import SweepsRequest, SweepsResponse
from service.computations.abstract import Computation, Quote, ResponseFields
from service.computations.bounds import bounds_quote, read_bounds
from service.computations.parts import options_as_sent
from service.computations.prices import DOUBT
from service.computations.sweeps.columns import Answers, Quantity, column_of, quantities
from service.computations.sweeps.problems import problem_of
from service.computations.violations import note
from service.interop.sweep_tables import RENDERINGS
from service.privacy.errors import NumericalFailure, PrivacyComputationError

SAMPLED: Final = 24
"""Points that are looked at for the price of a sweep: pricing one costs some 0.1 ms."""
POINT_COST: Final = 300
"""Of a point that has no answer, or none that costs anything, in units of cost: it is validated and written."""


@final
@dataclass(frozen=True, slots=True)
class _Point:
    """`told`: the fields of the response to its request; None where there is none."""

    told: ResponseFields | None

    @property
    def answers(self) -> Answers:
        return None if self.told is None else self.told["answers"]

    @property
    def worst_case(self) -> Answers:
        return None if self.told is None or self.told["worst_case"] is None else self.told["worst_case"]["answers"]


def compute_sweeps(request: SweepsRequest, digest: str, engine_version: str) -> ResponseFields:
    """Ask at every point. A point that fails has a problem in its place; raises for nothing that is about one alone."""
    places, numbers = request.places, list(request.points())
    problems: list[ResponseFields] = []
    points: list[_Point] = []
    for index, each in enumerate(numbers):
        try:
            points.append(_Point(read_bounds(request.asked(places, each))[0]))
        except (ValidationError, PrivacyComputationError) as error:
            if isinstance(error, NumericalFailure):
                note(error)
            problems.append(problem_of(index, error))
            points.append(_Point(None))
    read = tuple(quantities(request.questions, places))
    return {
        "digest": digest,
        "engine_version": engine_version,
        **options_as_sent(request),
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        "questions": request.questions,
        "method": request.method,
        "combine": request.combine,
        "points": len(points),
        "columns": {
            place.pointer: list(column) for place, column in zip(places, zip(*numbers, strict=True), strict=True)
        },
        "answers": [column_of(quantity, [point.answers for point in points]) for quantity in read],
        "worst_case": _worst_case(read, points),
        "problems": problems,
        **_grounds(points),
    }


def _worst_case(read: Sequence[Quantity], points: Sequence[_Point]) -> ResponseFields | None:
    """What stands beside a relaxed threat model."""
    models = [point.told["worst_case"]["threat_model"] for point in points if point.told and point.told["worst_case"]]
    if not models:
        return None
    same = all(model == models[0] for model in models)
    answers = [point.worst_case for point in points]
    return {
        "threat_model": models[0] if same else None,
        "answers": [column_of(quantity, answers) for quantity in read],
    }


def _grounds(points: Sequence[_Point]) -> ResponseFields:
    """What the answers of any point rest on, and what they do not cover, said once."""
    assumptions: dict[str, Assumption] = {}
    hazards: dict[str, Hazard] = {}
    for point in points:
        if point.told is not None:
            assumptions |= {each.text: each for each in point.told["assumptions"]}
            hazards |= {each.text: each for each in point.told["hazards"]}
    return {"assumptions": list(assumptions.values()), "hazards": list(hazards.values())}


def sweeps_quote(request: SweepsRequest) -> Quote:
    """So many times what some of the points cost, which are spread over all of them. Never for the event loop."""
    count = request.point_count
    stride = math.ceil(count / SAMPLED)
    places, quotes = request.places, list[Quote]()
    looked = list(islice(request.points(), stride // 2 if count > 1 else 0, None, stride))
    for numbers in looked:
        asked = _asked(request, places, numbers)
        if asked is not None:
            quotes.append(asked)
    total = sum(quote.cost for quote in quotes) + POINT_COST * len(looked)
    dearest = max(quotes, key=lambda quote: quote.cost, default=Quote(0))
    return Quote(math.ceil(total / len(looked) * count), engine=dearest.engine, doubt=DOUBT)


def _asked(request: SweepsRequest, places: Any, numbers: tuple[float, ...]) -> Quote | None:
    """What a point costs; None where it has a problem."""
    try:
        asked: BoundsRequest = request.asked(places, numbers)
        return bounds_quote(asked)
    except (ValidationError, PrivacyComputationError):
        return None


SWEEPS: Final = Computation(
    name="sweeps",
    path="/v1/sweeps",
    description="The same questions about up to 10 000 runs that differ in some numbers, as columns.",
    examples=SWEEPS_EXAMPLES,
    request_type=SweepsRequest,
    response_type=SweepsResponse,
    function=compute_sweeps,
    quote=sweeps_quote,
    renderings=RENDERINGS,
)
