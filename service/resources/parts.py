"""Conversion of the parts of a request (mechanism, threat model, options) to values of the numeric core.

Errors of the core become errors with the JSON pointer of a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Final, cast

from api_schemas import mechanisms, threat_models
from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.base import Request
from api_schemas.fields import shape_of, type_of
from api_schemas.mechanisms import MechanismSpec, is_one_step, nodes_of
from api_schemas.options import OPTIONS, MethodOptions
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from api_schemas.trials import TrialCountSpec
from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.errors import NumericalFailure, OutOfDomain, PrivacyComputationError, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.mixture import WeightedMechanism
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.mechanisms.trials import TRIAL_LAWS
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.catalogue import threat_model_class
from service.privacy.threat_models.worst_case import WorstCase

OPTION_FIELDS: Final = tuple(MethodOptions.model_fields)

PLACES: Final[Mapping[str, str]] = {
    "mechanism": "/mechanism",
    "threat_model": "/threat_model",
    "method": "/method",
}
"""JSON pointers of the parts that an unsupported combination can name."""


def mechanism_of(spec: MechanismSpec) -> AbstractMechanism:
    """Return the core mechanism of a specification. Raises PrivacyComputationError with the pointer `/mechanism`."""
    if is_one_step(spec):  # building is faster than a cache lookup
        return _build(spec)
    hashable: Any = spec  # frozen at run time, unknown to the type checker
    return _mechanism_of(hashable)


@lru_cache(maxsize=16)  # used twice: by the quote and by the computation
def _mechanism_of(spec: MechanismSpec) -> AbstractMechanism:
    return _build(spec)


def _build(spec: MechanismSpec) -> AbstractMechanism:
    try:
        mechanism: AbstractMechanism = _value(spec)
    except PrivacyComputationError as error:
        raise attribute_error(error, "/mechanism", *nodes_of(spec)) from None
    return mechanism


def threat_model_of(spec: ThreatModelSpec) -> AbstractThreatModel:
    """Return the threat model of the numeric core that a request specifies."""
    if isinstance(spec, WorstCaseThreatModel):
        return _worst_case_of(spec.neighboring_relation, spec.records)
    model: AbstractThreatModel = _value(spec)
    return model


@lru_cache(maxsize=64)  # nearly all requests share one worst case
def _worst_case_of(relation: NeighboringRelation, records: int | None) -> WorstCase:
    return WorstCase(relation, records)


def worst_case_spec(model: WorstCase) -> WorstCaseThreatModel:
    """Return the specification of the worst case that accompanies the answers against a weaker attacker."""
    return WorstCaseThreatModel(
        type="worst_case", neighboring_relation=model.neighboring_relation, records=model.records
    )


def assumptions_of(model: AbstractThreatModel, mechanism: AbstractMechanism) -> tuple[Assumption, ...]:
    """Return the assumptions about an attacker, in addition to those about the mechanism."""
    return tuple(assumption_of(premise) for premise in model.premises(mechanism))


def assumption_of(premise: Premise) -> Assumption:
    """Return a premise of the core as an assumption of the response."""
    return Assumption.model_validate({"code": premise.code, "text": premise.text, "holds": premise.holds})


def options_of(request: Request) -> EngineOptions:
    """Return the engine options in a request. Absent fields keep their default."""
    held = request.__dict__
    given = {name: held[name] for name in OPTIONS if held[name] is not None}
    tolerance: float = held["relative_tolerance"]
    if not given and tolerance == DEFAULT_OPTIONS.relative_tolerance:
        return DEFAULT_OPTIONS
    return EngineOptions(relative_tolerance=tolerance, **given)


def echo_options(request: MethodOptions) -> dict[str, Any]:
    """Return the options of a request for its response, in the order of the fields."""
    held = request.__dict__
    return {name: held[name] for name in OPTION_FIELDS if held[name] is not None}


INFINITY: Final = "Infinity"
"""An infinite number in a request, since JSON has none."""


def attribute_error(
    error: PrivacyComputationError, pointer: str, *parts: Request, places: Mapping[str, str] = PLACES
) -> PrivacyComputationError:
    """Return the error with the JSON pointer of its cause. An error that has a pointer keeps it.

    The pointer is `pointer` by default. An UnsupportedCombination names a part of the request, which `places` maps to
    its pointer. An OutOfDomain is an error of the client only if one of `parts` has a field with the name of the value.
    Otherwise a NumericalFailure without a pointer replaces it.
    """
    if isinstance(error, OutOfDomain) and not any(error.name in type(part).model_fields for part in parts):
        return NumericalFailure(str(error)).with_traceback(error.__traceback__)
    if not error.pointer:
        error.pointer = pointer
        if isinstance(error, UnsupportedCombination):
            error.pointer = places.get(error.field, pointer)
    return error


@cache
def _constructor_of(kind: type[Request]) -> Callable[..., Any]:
    # Both types have the same field names. Imported states were converted before.
    if kind is mechanisms.MixtureComponent:
        return WeightedMechanism
    if kind is threat_models.AdversaryComponent:
        from service.privacy.threat_models.mixture import Adversary

        return Adversary
    if kind is threat_models.Subpopulation:
        from service.privacy.threat_models.membership import WeightedSusceptibility

        return WeightedSusceptibility
    name = type_of(kind)
    if kind in shape_of(TrialCountSpec).models:
        return TRIAL_LAWS[name]
    return threat_model_class(name) if kind in shape_of(ThreatModelSpec).models else MECHANISMS[name]


def _value(part: Any) -> Any:
    if isinstance(part, float):
        return part
    kind = cast("type[Any]", type(part))
    if Request in kind.__mro__:  # isinstance is slow for models
        return _constructor_of(kind)(**{name: _value(value) for name, value in part.__dict__.items() if name != "type"})
    if isinstance(part, tuple):
        return tuple(map(_value, cast("tuple[Any, ...]", part)))
    return math.inf if part == INFINITY else part
