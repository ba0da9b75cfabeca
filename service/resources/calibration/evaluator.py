"""Evaluation of a calibration at one value of the calibrated parameter: answers to all targets, and which are met."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from api_schemas.bounds import BoundsRequest
from api_schemas.calibrations import CalibrationsRequest
from api_schemas.free_parameters import DOES_NOT_FIT
from api_schemas.nested import bounds_request, repoint
from api_schemas.pointers import Place
from api_schemas.targets import CalibrationTarget, value_range
from api_schemas.threat_models import ThreatModelSpec
from service.privacy.composition.planning.plan import Plan
from service.privacy.enclosure import Evidence
from service.privacy.errors import DisputedRun, NumericalFailure, PrivacyComputationError, UnsupportedCombination
from service.privacy.numerics.work import at_most, is_spent, remaining_work
from service.privacy.threat_models.relaxed import worst_case_beside
from service.resources.abstract import ResponseFields
from service.resources.answers import EngineAnswer, evaluate_question
from service.resources.disputed import refuse_disputed
from service.resources.parts import attribute_error, mechanism_of, options_of, threat_model_of
from service.resources.read_numbers import ReadNumber
from service.resources.violations import record_violation

MOST_WORK: Final = 7_000_000
"""Counted work of all evaluations of a calibration, in microseconds."""
SHARE: Final = 1 / 2
"""Share of the remaining work that one evaluation may take."""
FINER: Final = 4
"""Ratio of the tolerance of the number to the tolerance of the answers. As a rule, the answers change at least half as
fast as the number."""
WORK_EXHAUSTED: Final = "the calibration has reached its work limit."
NO_BOUND: Final = "an approximation has no bound to compare with a target."


@final
@dataclass(frozen=True, slots=True)
class TargetEvaluation:
    """Result of one target of a calibration at one value of the calibrated parameter.

    A target is a question with a limit on its answer, and `lower` and `upper` bound this answer.

    Attributes
    ----------
    meets, fails : bool
        Whether the target is certainly met, or certainly fails. Both are false if the limit lies inside the enclosure.
    height : float
        Distance from the limit of the bound of the answer that has to meet it, as a difference of log odds. It is
        positive while the target is not met. For answers without a largest possible value, such as epsilon, it is a
        difference of logarithms.
    to_failing : float
        How much larger the height must be for the target to fail provably; negative if the target fails.
    answer : dict
        Answer in the format of `/v1/bounds`.
    """

    lower: float
    upper: float
    meets: bool
    fails: bool
    height: float
    to_failing: float
    answer: ResponseFields


@final
@dataclass(frozen=True, slots=True)
class PointEvaluation:
    """Results of all targets of a calibration at one value of the calibrated parameter, `number`."""

    number: float
    targets: tuple[TargetEvaluation, ...]

    def meets(self, group: Sequence[int]) -> bool:
        """Return whether all targets with the indices `group` are met at this value of the calibrated parameter."""
        return all(self.targets[index].meets for index in group)

    def failing(self, group: Sequence[int]) -> int | None:
        """Return the first of the target indices `group` whose target certainly fails at this value, or None."""
        return next((index for index in group if self.targets[index].fails), None)

    def height(self, group: Sequence[int]) -> float:
        """Return the largest height of the targets with the indices `group`.

        The height is the distance of a target from being met, positive while it is not met.
        """
        return max((self.targets[index].height for index in group), key=_nan_as_least)

    def to_failing(self, group: Sequence[int]) -> float:
        """Return how much larger the largest height of `group` must be for a target to fail provably.

        The height is the distance of a target from being met (`TargetEvaluation`). `group` has indices of targets.
        """
        return min(self.targets[index].to_failing for index in group)

    def binding(self, group: Sequence[int]) -> int:
        """Return the index, among the indices `group`, of the target with the largest height: the one that decides."""
        return max(group, key=lambda index: _nan_as_least(self.targets[index].height))


@final
@dataclass(frozen=True, slots=True)
class Group:
    """Targets of a calibration with the same attacker, as one request for bounds.

    `indices` are those of the targets, and `places` has their JSON pointers by the pointers in the request for bounds.
    """

    request: BoundsRequest
    indices: tuple[int, ...]
    places: Mapping[str, str]

    def plan(self) -> Plan:
        """Return the engine and curves for this request, with their cost. Raises PrivacyComputationError."""
        refuse_disputed(self.request.mechanism, self.request.threat_model)
        mechanism, options = mechanism_of(self.request.mechanism), options_of(self.request)
        return threat_model_of(self.request.threat_model).plan(mechanism, "auto", options)


@final
@dataclass
class Evaluator:
    """Evaluations of one calibration at values of the calibrated parameter, each computed once.

    Attributes
    ----------
    place : Place
        Position of the calibrated parameter in the request.
    fixed : tuple of int
        Indices of the targets whose answers do not depend on the parameter. They are evaluated once and stored in
        `kept`, by index.
    planned : Mapping of BoundsRequest to Plan
        Plans (engines, curves and costs) that are already made, by request.
    evaluations : dict
        Evaluations so far, by value of the parameter.
    refusals : dict
        Errors at values of the parameter that cannot be evaluated, by value.
    """

    request: CalibrationsRequest
    place: Place
    fixed: tuple[int, ...] = ()
    planned: Mapping[BoundsRequest, Plan] = field(default_factory=dict[BoundsRequest, Plan])
    kept: dict[int, TargetEvaluation] = field(default_factory=dict[int, TargetEvaluation])
    evaluations: dict[float, PointEvaluation] = field(default_factory=dict[float, PointEvaluation])
    refusals: dict[float, Exception] = field(default_factory=dict[float, Exception])

    @property
    def most_work(self) -> float:
        """Counted work that all evaluations together may use, in microseconds of CPU time."""
        return MOST_WORK

    def at(self, number: float) -> PointEvaluation | None:
        """Return the evaluation at a value of the calibrated parameter.

        The result is None if the request there is invalid, not supported or too expensive, or if the work is used up.
        Raises DisputedRun.
        """
        if number not in self.evaluations and number not in self.refusals:
            try:
                self.evaluations[number] = self._evaluate(number)
            except DisputedRun:  # no other number is nearer to the limit
                raise
            except (*DOES_NOT_FIT, PrivacyComputationError) as error:
                if isinstance(error, NumericalFailure):
                    record_violation(error)
                self.refusals[number] = error
        return self.evaluations.get(number)

    def _evaluate(self, number: float) -> PointEvaluation:
        if is_spent() and self.evaluations:
            raise UnsupportedCombination("mechanism", "this number", WORK_EXHAUSTED, ("a larger relative_tolerance",))
        request = self.with_number(number)
        found: dict[int, TargetEvaluation] = {}
        asked = [group for group in groups_of(request) if not self.kept.keys() >= {*group.indices}]
        for place, group in enumerate(asked):
            try:
                with at_most(remaining_work() * SHARE / (len(asked) - place)):
                    found |= self._evaluate_group(group, request)
            except PrivacyComputationError as error:
                located = (
                    error if error.pointer else attribute_error(error, "/threat_model", group.request.threat_model)
                )
                located.pointer = repoint(located.pointer, group.places)
                raise located from None
        found |= self.kept
        return PointEvaluation(number, tuple(found[index] for index in range(len(found))))

    def _evaluate_group(self, group: Group, request: CalibrationsRequest) -> Iterator[tuple[int, TargetEvaluation]]:
        # evaluated in the order of `/v1/bounds`, so that the answers are equal
        asked = group.request
        plan = self.planned.get(asked) or group.plan()
        model = threat_model_of(asked.threat_model)
        conditional = worst_case_beside(model, mechanism_of(asked.mechanism)) is not None
        answers: dict[Any, EngineAnswer] = {}
        for place, (index, question) in enumerate(zip(group.indices, asked.questions, strict=True)):
            if index in self.kept:
                continue
            if question not in answers:
                try:
                    model.check_question(question.type, getattr(question, "prior", None))
                    answers[question] = evaluate_question(plan.curves, question, asked.relative_tolerance)
                except PrivacyComputationError as error:
                    raise attribute_error(error, f"/questions/{place}", question) from None
            if answers[question].evidence is Evidence.ASYMPTOTIC:
                raise UnsupportedCombination("threat_model", "calibration", NO_BOUND, ("step_curve chi_square, exact",))
            answer = answers[question].answer(question, conditional=conditional)
            evaluation = _target_evaluation(request.targets[index], answer)
            if index in self.fixed:
                self.kept[index] = evaluation
            yield index, evaluation

    def typed(self, number: float) -> float:
        """Return the value `number` of the calibrated parameter with the type of its field (int or float)."""
        return round(number) if self.place.shape.kind == "integer" else float(number)

    def with_number(self, number: float) -> CalibrationsRequest:
        """Return the calibration request with `number` as the calibrated parameter. Raises ValidationError."""
        return self.request.at(self.typed(number), self.place)


def groups_of(request: CalibrationsRequest) -> list[Group]:
    """Return the targets of a calibration grouped by attacker, in the order of first appearance.

    Raises PydanticCustomError if the mechanism or a question does not fit an attacker, as `/v1/bounds` does.
    """
    by_model: dict[ThreatModelSpec, list[int]] = {}
    for index, target in enumerate(request.targets):
        by_model.setdefault(request.threat_model_of(target), []).append(index)
    found: list[Group] = []
    for model, indices in by_model.items():
        own = request.targets[indices[0]].threat_model is not None
        places = {"/threat_model": f"/targets/{indices[0]}/threat_model" if own else "/threat_model"}
        places |= {f"/questions/{number}": f"/targets/{index}/question" for number, index in enumerate(indices)}
        questions = tuple(request.targets[index].question for index in indices)
        tolerance = request.relative_tolerance / FINER
        asked = bounds_request(request.mechanism, model, questions, places, tolerance)
        found.append(Group(asked, tuple(indices), places))
    return found


def _target_evaluation(target: CalibrationTarget, answer: ResponseFields) -> TargetEvaluation:
    read = ReadNumber.of(answer, target.reads)
    lower, upper = read.lower or 0.0, math.inf if read.upper is None else read.upper
    below = upper <= target.limit or read.is_below(target.limit)
    above = lower >= target.limit or read.is_above(target.limit)
    heights = tuple(_height_above_limit(target, end, place, read) for place, end in enumerate((lower, upper)))
    if target.at_least is None:
        return TargetEvaluation(lower, upper, below, read.is_above(target.limit), heights[1], -heights[0], answer)
    return TargetEvaluation(lower, upper, above, read.is_below(target.limit), heights[0], -heights[1], answer)


def _height_above_limit(target: CalibrationTarget, value: float, place: int, read: ReadNumber) -> float:
    least, most = value_range(target)
    logarithm = None if read.log10 is None or least > 0 else read.log10[place] * math.log(10)
    height = (_log_odds(value, least, most) if logarithm is None else logarithm) - _log_odds(target.limit, least, most)
    return height if target.at_least is None else -height


def _log_odds(value: float, least: float, most: float) -> float:
    if not least < value < most:
        return -math.inf if value <= least else math.inf
    return math.log(value - least) - (math.log(most - value) if most < math.inf else 0.0)


def _nan_as_least(height: float) -> float:
    return -math.inf if math.isnan(height) else height
