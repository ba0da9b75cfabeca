"""Resource `POST /v1/sweeps`: each point is a separate request for bounds, and many points are evaluated together."""

from __future__ import annotations

from typing import Final, final

from api_schemas.assumptions_and_hazards import Assumption, Hazard
from api_schemas.sweep_examples import SWEEPS_EXAMPLES
from api_schemas.sweeps import SweepsRequest, SweepsResponse
from api_schemas.threat_models import ThreatModelSpec
from service.privacy.errors import DeadlinePassed
from service.privacy.numerics.work import is_late
from service.resources.abstract import Computation, ResponseFields
from service.resources.parts import echo_options
from service.resources.sweeps.blocks import Point, evaluate_points
from service.resources.sweeps.chunks import CHUNKING
from service.resources.sweeps.columns import Column, Quantity, quantities
from service.resources.sweeps.estimates import sweeps_quote
from service.resources.sweeps.problems import problem_of


def _compute_sweeps(request: SweepsRequest, digest: str, engine_version: str) -> ResponseFields:
    places = request.places
    is_relaxed = request.threat_model.type != "worst_case"
    rows = _SweepRows(tuple(quantities(request.questions, places)), is_relaxed=is_relaxed)
    columns: list[list[float]] = [[] for _ in places]
    for numbers, point in evaluate_points(request):
        for column, number in zip(columns, numbers, strict=True):
            column.append(number)
        rows.add(point)
    if not rows.has_answers and is_late():
        raise DeadlinePassed
    return {
        "digest": digest,
        "engine_version": engine_version,
        **echo_options(request),
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        "questions": request.questions,
        "method": request.method,
        "combine": request.combine,
        "points": rows.points,
        "columns": {place.pointer: column for place, column in zip(places, columns, strict=True)},
        "answers": [column.response_fields for column in rows.columns],
        "worst_case": rows.worst_case,
        "problems": rows.problems,
        "assumptions": list(rows.assumptions.values()),
        "hazards": list(rows.hazards.values()),
    }


@final
class _SweepRows:
    def __init__(self, read: tuple[Quantity, ...], *, is_relaxed: bool) -> None:
        self.points = 0
        self.has_answers = False
        self.columns = [Column(each) for each in read]
        self._beside = [Column(each) for each in read] if is_relaxed else []
        self.problems: list[ResponseFields] = []
        self.assumptions, self.hazards = dict[str, Assumption](), dict[str, Hazard]()
        self._models: list[ThreatModelSpec] = []

    def add(self, point: Point) -> None:
        answers = beside = None
        if point.error is not None:
            self.problems.append(problem_of(self.points, point.error))
        if point.fields is not None:
            answers, self.has_answers = point.fields["answers"], True
            self.assumptions |= {each.text: each for each in point.fields["assumptions"]}
            self.hazards |= {each.text: each for each in point.fields["hazards"]}
            if point.fields["worst_case"] is not None:
                beside, model = point.fields["worst_case"]["answers"], point.fields["worst_case"]["threat_model"]
                if model not in self._models:
                    self._models = [*self._models, model][:2]  # two suffice to know that they differ
        for column in self.columns:
            column.add(answers)
        for column in self._beside:
            column.add(beside)
        self.points += 1

    @property
    def worst_case(self) -> ResponseFields | None:
        if not self._models:
            return None
        model = self._models[0] if len(self._models) == 1 else None
        return {"threat_model": model, "answers": [column.response_fields for column in self._beside]}


SWEEPS: Final = Computation(
    name="sweeps",
    path="/v1/sweeps",
    description="Answer the same questions about up to 10 000 runs with varied numbers. The response has one column "
    "for each answer.",
    examples=SWEEPS_EXAMPLES,
    request_type=SweepsRequest,
    response_type=SweepsResponse,
    function=_compute_sweeps,
    quote=sweeps_quote,
    chunking=CHUNKING,
    ends_early=True,
)
