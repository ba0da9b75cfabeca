"""Every format that is read, and the one way to read them: bytes of a request to a request without foreign states."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast, final

from pydantic import BaseModel, ValidationError

from api_schemas.caveats import Hazard
from api_schemas.imported import ImportFormat
from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from api_schemas.threat_models import settled as with_relation
from service.interop import dp_accounting, jax_privacy, opacus, privacy_bounds, riskcal, tf_privacy
from service.interop.reading import ImportedRun, Location, Node, refusal, settled

RequestModel = TypeVar("RequestModel", bound=BaseModel)
DETECT: Final = "detect"
NO_PLACE: Final = (
    "The state also says who attacks, and there is no place for that here. Send the mechanism that POST /v1/imports "
    "makes of it in its place."
)


@final
@dataclass(frozen=True, slots=True)
class Format:
    """A format: what it looks like, in words and by its names, and how it is read."""

    what: str
    looks_like: Callable[[Node], bool]
    read: Callable[[Node], ImportedRun]


FORMATS: Final[Mapping[ImportFormat, Format]] = {
    "opacus": Format(opacus.WHAT, opacus.looks_like, opacus.read),
    "dp_accounting": Format(dp_accounting.WHAT, dp_accounting.looks_like, dp_accounting.read),
    "tf_privacy": Format(tf_privacy.WHAT, tf_privacy.looks_like, tf_privacy.read),
    "jax_privacy": Format(jax_privacy.WHAT, jax_privacy.looks_like, jax_privacy.read),
    "riskcal": Format(riskcal.WHAT, riskcal.looks_like, riskcal.read),
    "privacy_bounds": Format(privacy_bounds.WHAT, privacy_bounds.looks_like, privacy_bounds.read),
}


@final
@dataclass(frozen=True, slots=True)
class Imported:
    """What a state says, as the contract has it. `not_carried_over`: what it says beside that, a sentence each."""

    format: ImportFormat
    mechanism: MechanismSpec
    threat_model: ThreatModelSpec | None
    not_carried_over: tuple[str, ...]
    hazards: tuple[Hazard, ...]
    microbatches_accounted: bool

    @property
    def says_who_attacks(self) -> bool:
        """Whether a request that names no threat model is about another attacker than this state."""
        usual = with_relation(WorstCaseThreatModel(type="worst_case"), self.mechanism)
        return self.threat_model not in (None, usual)


def read(format: ImportFormat, content: Any) -> Imported:  # noqa: A002 - the name on the wire
    """What a state describes. Raises ValidationError with locations below `content`: nothing of it is executed."""
    state = Node(content)
    chosen = _detected(state) if format == DETECT else format
    found = FORMATS[chosen].read(state)
    made = settled(found)
    said = made.threat_model
    attacker = None if said is None else with_relation(said, made.mechanism)
    return Imported(chosen, made.mechanism, attacker, found.notes, found.hazards, found.microbatches_accounted)


def _detected(state: Node) -> ImportFormat:
    fits: list[ImportFormat] = [name for name, known in FORMATS.items() if known.looks_like(state)]
    if len(fits) != 1:
        seen = f"Looks like {' and '.join(fits)}: say in `format` which it is" if fits else "Looks like none of them"
        state.refuse(f"{seen}. Known formats are {'; '.join(known.what for known in FORMATS.values())}.")
    return fits[0]


@final
class _Reader:
    """Reads what is imported while a request is validated, and remembers whether any of it says more than a mechanism
    can.
    """

    def __init__(self) -> None:
        self.says_more = False

    def mechanism(self, format: ImportFormat, content: Any) -> MechanismSpec:  # noqa: A002
        found = read(format, content)
        self.says_more |= found.says_who_attacks or found.microbatches_accounted
        return found.mechanism

    def check(self, format: ImportFormat, content: Any) -> None:  # noqa: A002
        read(format, content)


def validated(request_type: type[RequestModel], body: bytes) -> RequestModel:
    """Return the request in a body of JSON. What is imported stands in it as the mechanism that it describes; beside it
    stand who attacks, where the request does not say it, and in a context what the noise accounts for. Raise
    ValidationError.
    """
    reader = _Reader()
    request: RequestModel = request_type.__pydantic_validator__.validate_json(body, context=reader)
    return _completed(request_type, body) if reader.says_more else request


def _completed(request_type: type[RequestModel], body: bytes) -> RequestModel:
    """Return the request with what its states say beside their mechanisms. Its body is valid JSON.

    Threat models stand where the request has none. Noise that accounts for microbatches is said in the context of the
    same object; a state that is one part of several says nothing there, since the other parts may not account for them.
    """
    document = json.loads(body)
    placed: Location = ()
    for place, holder, sent in tuple(_imported(document, (), None)):
        found = read(sent.get("format", DETECT), sent["content"])
        context = None if holder is None else holder.get("context")
        if found.microbatches_accounted and isinstance(context, dict):
            cast("dict[str, Any]", context).setdefault("microbatches_accounted", True)
        if not found.says_who_attacks or found.threat_model is None:
            continue
        if holder is None:
            raise refusal(((*place, "content"), NO_PLACE), title=request_type.__name__)
        if "threat_model" not in holder:
            holder["threat_model"] = json.loads(found.threat_model.model_dump_json())
            placed = place
    try:
        return request_type.model_validate_json(json.dumps(document), context=_Reader())
    except ValidationError:
        raise refusal(((*placed, "content"), NO_PLACE), title=request_type.__name__) from None


def _imported(value: Any, place: Location, holder: Any) -> Iterator[tuple[Location, Any, dict[str, Any]]]:
    """Every imported mechanism of a request: its place, the object around it where that is no mechanism, and itself."""
    if isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _imported(item, (*place, index), None)
    elif isinstance(value, dict):
        sent = cast("dict[str, Any]", value)
        if sent.get("type") == "imported":
            yield place, holder, sent
            return
        is_part = not {"type", "weight", "probability"}.isdisjoint(sent)
        for name, item in sent.items():
            yield from _imported(item, (*place, name), None if is_part or name != "mechanism" else sent)
