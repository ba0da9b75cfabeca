"""Direction in which the calibrated parameter meets each target of a calibration, and the theorem behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

from api_schemas.calibrations import CalibrationsRequest
from api_schemas.discrete_mechanisms import RandomizedResponseMechanism
from api_schemas.mechanisms import ShuffledReportsMechanism
from api_schemas.pointers import Place
from api_schemas.questions import GdpMuQuestion
from api_schemas.targets import CalibrationTarget
from api_schemas.threat_models import (
    MixtureThreatModel,
    PracticalThreatModel,
    ThreatModelSpec,
    WorstCaseThreatModel,
)
from service.privacy.calibration import monotone
from service.privacy.calibration.monotone import Law
from service.privacy.threat_models.relaxed import is_bounded_by_worst_case
from service.resources.parts import mechanism_of, threat_model_of
from service.resources.read_numbers import is_guarantee

NOT_PROVED: Final = "not proved; checked at the evaluated numbers"
NOTHING: Final = Law(0, "no target depends on the number")


@final
@dataclass(frozen=True, slots=True)
class Directions:
    """Direction in which each target of a calibration is met, as the calibrated parameter grows.

    A target is a question with a limit on its answer.

    Attributes
    ----------
    needs : tuple of int or None
        For each target: 1 (met from some value of the parameter on), -1 (met up to some value), 0 (independent of the
        parameter) or None (unknown).
    private : int or None
        1 if larger values are more private, -1 if smaller values are more private, None if unknown.
    theorem : str
        Theorem behind the directions; "" if one of them has none.
    """

    needs: tuple[int | None, ...]
    private: int | None
    theorem: str

    @property
    def fixed(self) -> tuple[int, ...]:
        """Indices of the targets whose answers do not depend on the calibrated parameter."""
        return tuple(index for index, need in enumerate(self.needs) if need == 0)

    @property
    def group(self) -> tuple[int, ...]:
        """Indices of the targets that determine the found value: those that need more privacy, if any.

        Without such targets, these are the targets that need less privacy. If `side` is None, they are the targets with
        an unknown direction.
        """
        side = self.side
        return tuple(index for index, need in enumerate(self.needs) if need in (None, side))

    @property
    def others(self) -> tuple[int, ...]:
        """Indices of the targets that need the opposite direction to those of `group`."""
        moving = (index for index, need in enumerate(self.needs) if need != 0)
        return tuple(index for index in moving if index not in self.group)

    @property
    def side(self) -> int | None:
        """Side on which the targets of `group` are met: 1 for large values, -1 for small ones, None if unknown."""
        if self.private is None or None in self.needs:
            return None
        return self.private if self.private in self.needs else -self.private


def directions(request: CalibrationsRequest) -> Directions:
    """Return in which direction each target of a calibration is met, by theorems about monotonicity."""
    place = request.place
    laws = list(_laws(request, place))
    of_question = "question" in place.steps[:3]
    needs = tuple(
        _needed(law.sign, target, of_question=of_question) for law, target in zip(laws, request.targets, strict=True)
    )
    known = [index for index, law in enumerate(laws) if law.sign != 0]
    signs = {needs[index] if of_question else laws[index].sign for index in known}
    [private] = signs if len(signs) == 1 else [None]
    theorems = [laws[index].theorem for index in known]
    return Directions(needs, private, "; ".join(dict.fromkeys(theorems)) if all(theorems) else "")


def _laws(request: CalibrationsRequest, place: Place) -> Iterator[Law]:
    for index, target in enumerate(request.targets):
        model = request.threat_model_of(target)
        match place.steps:
            case ("mechanism", *_):
                law = NOTHING if _is_ignored_by_attacker(place, model, request) else _of_mechanism(place, model)
                yield Law(law.sign) if _has_moving_range(target) else law
            case ("threat_model", *_) if target.threat_model is None:
                yield _of_attacker(place, target)
            case ("targets", number, "threat_model", *_) if number == index:
                yield _of_attacker(place, target)
            case ("targets", number, "question", *_) if number == index:
                yield monotone.law_of_question(_quantity_of(target), place.name, _side_of(target))
            case _:
                yield NOTHING


def _of_mechanism(place: Place, model: ThreatModelSpec) -> Law:
    sent = place.owner.__dict__
    law = monotone.law_of_mechanism(place.kind, place.name, sent, worst_case=_is_worst_case(model))
    return Law(law.sign) if _is_of_shuffled_responses(place) else law


def _is_of_shuffled_responses(place: Place) -> bool:
    # The upper bounds of shuffled randomised responses rest on different theorems for few and for many responses, so
    # that these bounds are not proved to be monotone.
    owner = place.owner
    if isinstance(owner, ShuffledReportsMechanism):
        return isinstance(owner.randomizer, RandomizedResponseMechanism)
    return isinstance(owner, RandomizedResponseMechanism) and "randomizer" in place.steps


def _is_ignored_by_attacker(place: Place, model: ThreatModelSpec, request: CalibrationsRequest) -> bool:
    # Only an attacker with a stated privacy parameter ignores numbers: those that the worst case ignores, and every
    # number if only the stated parameter bounds the attacker.
    if not isinstance(model, PracticalThreatModel):
        return False
    if _of_mechanism(place, WorstCaseThreatModel(type="worst_case")).sign == 0:
        return True
    if place.name not in monotone.NOT_IN_SAMPLING:
        return False
    attacker = threat_model_of(model)
    return not is_bounded_by_worst_case(attacker, mechanism_of(request.mechanism))


def _of_attacker(place: Place, target: CalibrationTarget) -> Law:
    law = monotone.law_of_threat_model(place.kind, place.name)
    return Law(law.sign) if _has_moving_range(target) else law


def _needed(sign: int | None, target: CalibrationTarget, *, of_question: bool) -> int | None:
    if sign is None:
        return None
    rises = sign if of_question else sign * (1 if is_guarantee(target.question, target.reads) else -1)
    return rises if target.at_most is None else -rises


def rise_sign(need: int | None, target: CalibrationTarget) -> int:
    """Return 1 or -1 if the answer to a target rises or falls with the calibrated parameter, else 0.

    `target` is a question with a limit on its answer. `need` is 1 if the target is met from some value of the parameter
    on, -1 if it is met up to some value, 0 if the answer is constant, and None if nothing is known. The result is 0 in
    the last two cases.
    """
    return (need or 0) if target.at_most is None else -(need or 0)


def _quantity_of(target: CalibrationTarget) -> str:
    return target.reads if target.question.type == "trade_off" else target.question.type


def _side_of(target: CalibrationTarget) -> str | None:
    return getattr(target.question, "side", None)


def _has_moving_range(target: CalibrationTarget) -> bool:
    # a range of the type II error is a range of the false positive rate that moves with the curve
    return isinstance(target.question, GdpMuQuestion) and target.question.type_two_error_min > 0


def _is_worst_case(model: ThreatModelSpec) -> bool:
    if isinstance(model, MixtureThreatModel):
        return all(_is_worst_case(part.threat_model) for part in model.components)
    return isinstance(model, WorstCaseThreatModel)
