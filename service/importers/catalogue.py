"""Registry of the importable formats, and the validation of requests that contain states of other libraries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast, final

from pydantic import BaseModel, ValidationError

from api_schemas.assumptions_and_hazards import Hazard
from api_schemas.imported import ImportFormat
from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from api_schemas.threat_models import settled as with_relation
from service.importers import dp_accounting, jax_privacy, opacus, privacy_bounds, rdp, riskcal, tf_privacy, zcdp
from service.importers.reading import ImportedRun, Location, SourceValue, import_error, validate_draft

RequestModel = TypeVar("RequestModel", bound=BaseModel)
DETECT: Final = "detect"
NO_THREAT_MODEL_FIELD: Final = (
    "The state also describes an attacker, and this request has no field for the attacker. Send the mechanism "
    "from the response of POST /v1/imports instead."
)


@final
@dataclass(frozen=True, slots=True)
class Format:
    """Format of another library: description for error messages, function that recognises a state, and reader."""

    description: str
    matches: Callable[[SourceValue], bool]
    read_state: Callable[[SourceValue], ImportedRun]


FORMATS: Final[Mapping[ImportFormat, Format]] = {
    "opacus": Format(opacus.DESCRIPTION, opacus.matches, opacus.read_state),
    "dp_accounting": Format(dp_accounting.DESCRIPTION, dp_accounting.matches, dp_accounting.read_state),
    "tf_privacy": Format(tf_privacy.DESCRIPTION, tf_privacy.matches, tf_privacy.read_state),
    "jax_privacy": Format(jax_privacy.DESCRIPTION, jax_privacy.matches, jax_privacy.read_state),
    "riskcal": Format(riskcal.DESCRIPTION, riskcal.matches, riskcal.read_state),
    "rdp": Format(rdp.DESCRIPTION, rdp.matches, rdp.read_state),
    "zcdp": Format(zcdp.DESCRIPTION, zcdp.matches, zcdp.read_state),
    "privacy_bounds": Format(privacy_bounds.DESCRIPTION, privacy_bounds.matches, privacy_bounds.read_state),
}


@final
@dataclass(frozen=True, slots=True)
class ImportedState:
    """State of another library, translated into a mechanism of the contract.

    `threat_model` is None if the state describes no attacker. `not_carried_over` lists facts of the state that the
    mechanism cannot express, one sentence each.
    """

    format: ImportFormat
    mechanism: MechanismSpec
    threat_model: ThreatModelSpec | None
    not_carried_over: tuple[str, ...]
    hazards: tuple[Hazard, ...]
    microbatches_accounted: bool

    @property
    def specifies_threat_model(self) -> bool:
        """Whether the state has a threat model, and another one than a request without a threat model has."""
        usual = with_relation(WorstCaseThreatModel(type="worst_case"), self.mechanism)
        return self.threat_model not in (None, usual)


def import_state(format: ImportFormat, content: Any) -> ImportedState:  # noqa: A002 - the name on the wire
    """Return the mechanism that `content` describes: the state of an accountant of another library, parsed from JSON.

    With the format `detect`, exactly one format must match the state. Nothing in the state is executed. Raise
    ValidationError, with locations relative to `content`.
    """
    state = SourceValue(content)
    chosen = _detect_format(state) if format == DETECT else format
    found = FORMATS[chosen].read_state(state)
    made = validate_draft(found)
    stated = made.threat_model
    attacker = None if stated is None else with_relation(stated, made.mechanism)
    return ImportedState(chosen, made.mechanism, attacker, found.notes, found.hazards, found.microbatches_accounted)


def _detect_format(state: SourceValue) -> ImportFormat:
    fits: list[ImportFormat] = [name for name, known in FORMATS.items() if known.matches(state)]
    if len(fits) != 1:
        seen = (
            f"The state matches {' and '.join(fits)}. Send one of them as `format`"
            if fits
            else "The state matches none of the known formats"
        )
        state.reject(f"{seen}. Known formats are {'; '.join(known.description for known in FORMATS.values())}.")
    return fits[0]


@final
class _RecordingReader:
    def __init__(self) -> None:
        self.has_more_than_mechanism = False

    def mechanism(self, format: ImportFormat, content: Any) -> MechanismSpec:  # noqa: A002
        found = import_state(format, content)
        self.has_more_than_mechanism |= found.specifies_threat_model or found.microbatches_accounted
        return found.mechanism

    def check(self, format: ImportFormat, content: Any) -> None:  # noqa: A002
        import_state(format, content)


def validate_with_imports(request_type: type[RequestModel], body: bytes) -> RequestModel:
    """Return the request in a JSON body, with every imported state replaced by the mechanism that it describes.

    A threat model in a state fills in a missing threat model of the request. If a state says that its noise was halved
    for microbatches, this sets `microbatches_accounted` in a context of the same object. Raise ValidationError, also if
    a state has a threat model and the request no field for one.
    """
    reader = _RecordingReader()
    request: RequestModel = request_type.__pydantic_validator__.validate_json(body, context=reader)
    return _complete_from_states(request_type, body) if reader.has_more_than_mechanism else request


def _complete_from_states(request_type: type[RequestModel], body: bytes) -> RequestModel:
    # A state inside a composition sets no flag, since the other parts may not account for microbatches.
    document = json.loads(body)
    placed: Location = ()
    for location, holder, sent in tuple(_imported_mechanisms(document, (), None)):
        found = import_state(sent.get("format", DETECT), sent["content"])
        context = None if holder is None else holder.get("context")
        if found.microbatches_accounted and isinstance(context, dict):
            cast("dict[str, Any]", context).setdefault("microbatches_accounted", True)
        if not found.specifies_threat_model or found.threat_model is None:
            continue
        if holder is None:
            raise import_error(((*location, "content"), NO_THREAT_MODEL_FIELD), title=request_type.__name__)
        if "threat_model" not in holder:
            holder["threat_model"] = json.loads(found.threat_model.model_dump_json())
            placed = location
    try:
        return request_type.model_validate_json(json.dumps(document), context=_RecordingReader())
    except ValidationError:
        raise import_error(((*placed, "content"), NO_THREAT_MODEL_FIELD), title=request_type.__name__) from None


def _imported_mechanisms(value: Any, location: Location, holder: Any) -> Iterator[tuple[Location, Any, dict[str, Any]]]:
    # (location, object that holds the mechanism, mechanism); a part of a composition has no holder
    if isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _imported_mechanisms(item, (*location, index), None)
    elif isinstance(value, dict):
        sent = cast("dict[str, Any]", value)
        if sent.get("type") == "imported":
            yield location, holder, sent
            return
        is_part = not {"type", "weight", "probability"}.isdisjoint(sent)
        for name, item in sent.items():
            yield from _imported_mechanisms(item, (*location, name), None if is_part or name != "mechanism" else sent)
