"""`POST /v1/sweeps`: every point is a request for bounds of its own, many of which are read at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.caveats import Assumption, Hazard
from api_schemas.pointers import Place
from api_schemas.sweep_examples import SWEEPS_EXAMPLES
from api_schemas.sweeps import SweepsRequest, SweepsResponse
from service.computations.abstract import Computation, ResponseFields
from service.computations.bounds import read_bounds
from service.computations.parts import options_as_sent
from service.computations.sweeps.ahead import settings_of
from service.computations.sweeps.columns import Answers, Quantity, column_of, quantities
from service.computations.sweeps.pieces import PIECES
from service.computations.sweeps.prices import sweeps_quote
from service.computations.sweeps.problems import problem_of
from service.computations.violations import note
from service.interop.sweep_tables import RENDERINGS
from service.privacy.errors import NumericalFailure, PrivacyComputationError

TOGETHER: Final = 2_500
"""Points that are read together, which bounds the memory."""


@final
@dataclass(frozen=True, slots=True)
class _Point:
    """`told`: the fields of the response to its request; None where there is none, but an `error`."""

    told: ResponseFields | None
    error: ValidationError | PrivacyComputationError | None = None

    @property
    def answers(self) -> Answers:
        return None if self.told is None else self.told["answers"]

    @property
    def worst_case(self) -> Answers:
        return None if self.told is None or self.told["worst_case"] is None else self.told["worst_case"]["answers"]


def compute_sweeps(request: SweepsRequest, digest: str, engine_version: str) -> ResponseFields:
    """Ask at every point. A point that fails has a problem in its place; raises for nothing that is about one alone."""
    places, numbers = request.places, list(request.points())
    points: list[_Point] = []
    for start in range(0, len(numbers), TOGETHER):
        points += _read(request, places, numbers[start : start + TOGETHER])
    problems = [problem_of(index, point.error) for index, point in enumerate(points) if point.error is not None]
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


def _read(request: SweepsRequest, places: Sequence[Place], numbers: Sequence[tuple[float, ...]]) -> Iterator[_Point]:
    """Some points, read together as far as that goes."""
    asked = [_request(request, places, each) for each in numbers]
    settings = settings_of([each if isinstance(each, BoundsRequest) else None for each in asked])
    for each, setting in zip(asked, settings, strict=True):
        if not isinstance(each, BoundsRequest):
            yield _Point(None, each)
            continue
        try:
            yield _Point(read_bounds(each, setting)[0])
        except PrivacyComputationError as error:
            if isinstance(error, NumericalFailure):
                note(error)
            yield _Point(None, error)


def _request(
    request: SweepsRequest, places: Sequence[Place], numbers: tuple[float, ...]
) -> BoundsRequest | ValidationError:
    try:
        return request.asked(places, numbers)
    except ValidationError as error:
        return error


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
    pieces=PIECES,
)
