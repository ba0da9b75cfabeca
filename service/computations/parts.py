"""The parts of a request as values of the core, and errors of the core as errors of a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from api_schemas import mechanisms, threat_models
from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.base import Request
from api_schemas.fields import shape_of, type_of
from api_schemas.mechanisms import MechanismSpec, is_one_step, nodes_of
from api_schemas.options import OPTIONS, MethodOptions
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.errors import NumericalFailure, OutOfDomain, PrivacyComputationError, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.mixture import WeightedMechanism
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.catalogue import THREAT_MODELS
from service.privacy.threat_models.membership import WeightedSusceptibility
from service.privacy.threat_models.mixture import Adversary
from service.privacy.threat_models.worst_case import WorstCase

CORE: Final[Mapping[type[Request], Callable[..., Any]]] = {
    **{
        model: catalogue[type_of(model)]
        for union, catalogue in ((MechanismSpec, MECHANISMS), (ThreatModelSpec, THREAT_MODELS))
        for model in shape_of(union).models
        if type_of(model) in catalogue
    },
    mechanisms.MixtureComponent: WeightedMechanism,
    threat_models.AdversaryComponent: Adversary,
    threat_models.Subpopulation: WeightedSusceptibility,
}
"""The value of the core that each part of a request describes: its fields have the same names. What is imported is read
before a request comes here."""

OPTION_FIELDS: Final = tuple(MethodOptions.model_fields)

PLACES: Final[Mapping[str, str]] = {
    "mechanism": "/mechanism",
    "threat_model": "/threat_model",
    "method": "/method",
}
"""Where a request has the parts that a combination of parts can fail at."""


def mechanism_of(spec: MechanismSpec) -> AbstractMechanism:
    """The mechanism of the core that a specification describes. Raises with the pointer `/mechanism`."""
    if is_one_step(spec):  # made sooner than found
        return _build(spec)
    hashable: Any = spec  # frozen, which its type does not say
    return _mechanism_of(hashable)


@lru_cache(maxsize=16)  # asked for twice: a request is priced before it is computed
def _mechanism_of(spec: MechanismSpec) -> AbstractMechanism:
    return _build(spec)


def _build(spec: MechanismSpec) -> AbstractMechanism:
    try:
        mechanism: AbstractMechanism = _value(spec)
    except PrivacyComputationError as error:
        raise attribute_error(error, "/mechanism", *nodes_of(spec)) from None
    return mechanism


def threat_model_of(spec: ThreatModelSpec) -> AbstractThreatModel:
    """The threat model of the core that a specification describes."""
    if isinstance(spec, WorstCaseThreatModel):
        return _worst_case_of(spec.neighboring_relation, spec.records)
    model: AbstractThreatModel = _value(spec)
    return model


@lru_cache(maxsize=64)  # nearly every request has the same one
def _worst_case_of(relation: NeighboringRelation, records: int | None) -> WorstCase:
    return WorstCase(relation, records)


def worst_case_spec(model: WorstCase) -> WorstCaseThreatModel:
    """How the worst case that stands beside a relaxed threat model is written."""
    return WorstCaseThreatModel(
        type="worst_case", neighboring_relation=model.neighboring_relation, records=model.records
    )


def assumptions_of(model: AbstractThreatModel, mechanism: AbstractMechanism) -> tuple[Assumption, ...]:
    """What the answers against an adversary rest on, beside what those about the mechanism do."""
    return tuple(assumption_of(premise) for premise in model.premises(mechanism))


def assumption_of(premise: Premise) -> Assumption:
    """A premise of the core as it travels."""
    return Assumption.model_validate({"code": premise.code, "text": premise.text, "holds": premise.holds})


def options_of(request: Request) -> EngineOptions:
    """The options of a request that has the fields of `api_schemas.options`; what is absent keeps its default."""
    held = request.__dict__
    given = {name: held[name] for name in OPTIONS if held[name] is not None}
    tolerance: float = held["relative_tolerance"]
    if not given and tolerance == DEFAULT_OPTIONS.relative_tolerance:
        return DEFAULT_OPTIONS
    return EngineOptions(relative_tolerance=tolerance, **given)


def echo_options(request: MethodOptions) -> dict[str, Any]:
    """The options of a request as its response says them again, in their order."""
    held = request.__dict__
    return {name: held[name] for name in OPTION_FIELDS if held[name] is not None}


def attribute_error(
    error: PrivacyComputationError, pointer: str, *parts: Request, places: Mapping[str, str] = PLACES
) -> PrivacyComputationError:
    """The error with the place in the request that it is about: `pointer`, which leads to `parts`, or one of `places`.

    A value outside a domain is the client's only if the client can name it; inside the core it is a defect.
    """
    if isinstance(error, OutOfDomain) and not any(error.name in type(part).model_fields for part in parts):
        return NumericalFailure(str(error)).with_traceback(error.__traceback__)
    if not error.pointer:
        error.pointer = pointer
        if isinstance(error, UnsupportedCombination):
            error.pointer = places.get(error.field, pointer)
    return error


def _value(part: Any) -> Any:
    if isinstance(part, float):
        return part
    kind = cast("type[Any]", type(part))
    if kind in CORE or isinstance(part, Request):  # models take long to say what they are an instance of
        return CORE[kind](**{name: _value(value) for name, value in part.__dict__.items() if name != "type"})
    return tuple(map(_value, cast("tuple[Any, ...]", part))) if isinstance(part, tuple) else part
