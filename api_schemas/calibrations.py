"""Request of `POST /v1/calibrations`: one number of a request is free, and limits on answers determine it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Self, cast

from pydantic import AliasChoices, ConfigDict, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from api_schemas.base import Request, is_none
from api_schemas.free_parameters import free_place, with_numbers
from api_schemas.limits import check_tree, limit_error
from api_schemas.mechanisms import MechanismSpec
from api_schemas.pointers import LONGEST_POINTER, Place, place_of
from api_schemas.questions import listed_numbers
from api_schemas.scalar_types import DEFAULT_TOLERANCE, LARGEST_LIST
from api_schemas.targets import CalibrationTarget
from api_schemas.threat_models import ThreatModelSpec, settled, usual_worst_case

LARGEST_TARGETS: Final = 16
FREE_PARTS: Final = {
    "mechanism": "the mechanism",
    "threat_model": "a threat model",
    "question": "the question of a target",
}


class CalibrationBounds(Request):
    """Closed search range of the free number of a calibration."""

    model_config = ConfigDict(serialize_by_alias=True)

    least: Annotated[
        Annotated[float, Field(ge=0, le=1e15)] | None,
        Field(
            validation_alias=AliasChoices("from", "min"),
            serialization_alias="from",
            description="Smallest number of the search range. Default: the smallest allowed value of the field.",
            examples=[0.5],
            exclude_if=is_none,
        ),
    ] = None
    most: Annotated[
        Annotated[float, Field(ge=0, le=1e15)] | None,
        Field(
            validation_alias=AliasChoices("to", "max"),
            serialization_alias="to",
            description="Largest number of the search range. Default: the largest allowed value of the field.",
            examples=[10.0],
            exclude_if=is_none,
        ),
    ] = None


Free = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_POINTER,
        description="JSON pointer to the free number in the mechanism, a threat model or the question of a "
        "target. The number in the request is only the start of the search. If `records` is absent, "
        "the search starts at 1.",
        examples=["/mechanism/noise_multiplier"],
    ),
]
Tolerance = Annotated[
    float,
    Field(
        ge=1e-12,
        le=1,
        validation_alias=AliasChoices("relative_tolerance", "rtol"),
        description="Relative distance between the value and the neighbour that fails a target. Integers are exact.",
        examples=[1e-6],
    ),
]


class CalibrationsRequest(Request):
    """A mechanism with one free number, and the targets of the calibration."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)
    free: Free
    targets: Annotated[
        tuple[CalibrationTarget, ...],
        Field(
            min_length=1,
            max_length=LARGEST_TARGETS,
            description="Targets of the calibration. The calibrated value meets all of them.",
        ),
    ]
    bounds: Annotated[
        CalibrationBounds | None,
        Field(description="Search range. Default: the whole range of the field.", exclude_if=is_none),
    ] = None
    relative_tolerance: Tolerance = DEFAULT_TOLERANCE

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_tree(self.mechanism)
        self._settle(threat_model=settled(self.threat_model, self.mechanism))
        self._settle(targets=tuple(map(self._settled, self.targets)))
        if sum(listed_numbers(target.question) for target in self.targets) > LARGEST_LIST:
            raise limit_error(
                "/targets", f"The lists of all questions together may contain at most {LARGEST_LIST} numbers."
            )
        if self.bounds == CalibrationBounds():
            self._settle(bounds=None)
        place = self._free_place()
        self._settle(free=place.pointer)
        for index, target in enumerate(self.targets):
            try:
                target.check_limit(whatever=place.steps[:3] == ("targets", index, "question"))
            except PydanticCustomError as error:
                context = cast("dict[str, Any]", error.context)
                raise limit_error(f"/targets/{index}/{context['field']}", context["sentence"]) from None
        self._check_contradictions()
        _ = self.interval
        return self

    @property
    def place(self) -> Place:
        """Position of the free number in the request of a calibration."""
        return place_of(self, self.free)

    @property
    def interval(self) -> tuple[float, float]:
        """Search interval (lowest, highest) of the free number. Raises PydanticCustomError for an empty interval."""
        shape = self.place.shape
        low, high = shape.minimum or 0.0, 1e15 if shape.maximum is None else shape.maximum
        sent = CalibrationBounds() if self.bounds is None else self.bounds
        for name, end in (("from", sent.least), ("to", sent.most)):
            if end is not None and not (low <= end <= high and (end > low or not shape.minimum_excluded)):
                raise limit_error(f"/bounds/{name}", f"Must be in the range of the free number, {shape.interval()}.")
        low, high = low if sent.least is None else sent.least, high if sent.most is None else sent.most
        if shape.kind == "integer":
            low, high = math.ceil(low), math.floor(high)
        if low >= high:
            raise limit_error("/bounds", "`from` must be below `to`.")
        return low, high

    def threat_model_of(self, target: CalibrationTarget) -> ThreatModelSpec:
        """Return the threat model of a calibration target: that of the target itself, or else that of the request."""
        return self.threat_model if target.threat_model is None else target.threat_model

    def at(self, number: float, place: Place) -> CalibrationsRequest:
        """Return the request with this value of the free number. Raise ValidationError for an invalid number."""
        changed = with_numbers(self, [(place, number)])
        return self.model_copy(update={name: _PARTS[name].validate_python(sent) for name, sent in changed.items()})

    def _settled(self, target: CalibrationTarget) -> CalibrationTarget:
        if target.threat_model is None:
            return target
        return target.model_copy(update={"threat_model": settled(target.threat_model, self.mechanism)})

    def _free_place(self) -> Place:
        place = free_place(self, self.free, "/free", FREE_PARTS)
        if place.steps[0] == "threat_model" and all(target.threat_model is not None for target in self.targets):
            raise limit_error(
                "/free", "Every target has a threat model of its own, so no target depends on this threat model."
            )
        return place

    def _check_contradictions(self) -> None:
        most: dict[Any, float] = {}
        for target in self.targets:
            if target.at_most is not None:
                key = _what(self, target)
                most[key] = min(target.at_most, most.get(key, target.at_most))
        for index, target in enumerate(self.targets):
            limit = most.get(_what(self, target))
            if target.at_least is not None and limit is not None and target.at_least > limit:
                sentence = "Contradicts another target, whose limit `at_most` on the same question is smaller."
                raise limit_error(f"/targets/{index}/at_least", sentence)


def _what(request: CalibrationsRequest, target: CalibrationTarget) -> Any:
    """Return a key that is equal for two targets of a calibration exactly if they limit the same answer.

    A question with a free parameter has another key than a question with a fixed one.
    """
    free = request.place.steps
    mine = free[0] == "targets" and request.targets[cast("int", free[1])] is target
    return target.question, target.reads, request.threat_model_of(target), mine


_PARTS: Final[dict[str, TypeAdapter[Any]]] = {
    "mechanism": TypeAdapter(MechanismSpec),
    "threat_model": TypeAdapter(ThreatModelSpec),
    "targets": TypeAdapter(tuple[CalibrationTarget, ...]),
}
