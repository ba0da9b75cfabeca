"""States of other libraries in requests: a format, and a JSON value in that format.

The contract contains the names of the formats, but not their structure. A service validates states with an
`ImportReader` as the validation context of pydantic. An imported mechanism is then replaced by the mechanism that the
state describes. Without a reader, the state stays in the request as it was sent.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal, Protocol, Self, cast

from pydantic import AfterValidator, ConfigDict, Field, ModelWrapValidatorHandler, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from api_schemas.base import Request, named_schema

DEEPEST_CONTENT: Final = 64
NESTED: Final = (dict, list, tuple)
NOTHING_IS_UNPICKLED: Final = (
    "Must be a JSON object or list. No text is unpickled, evaluated or imported. Send the state itself as "
    "JSON: json.dumps(accountant.state_dict()) of Opacus, or json.dumps(event.to_named_tuple()) of "
    "dp_accounting."
)
ImportFormat = Annotated[
    Literal[
        "detect", "opacus", "dp_accounting", "tf_privacy", "jax_privacy", "riskcal", "rdp", "zcdp", "privacy_bounds"
    ],
    named_schema(
        "ImportFormat",
        "Library that wrote the state. opacus: the state_dict or the history of an accountant. dp_accounting: "
        "the named tuple of an event. tf_privacy: arguments of compute_dp_sgd_privacy_statement or "
        "compute_dp_sgd_privacy. jax_privacy: arguments of dpsgd_event and its siblings. riskcal: "
        "noise_multiplier, sample_rate, num_steps, or the state_dict of its accountant. rdp: orders and bounds of an "
        "accountant of Renyi divergences. zcdp: a rho of SmartNoise or dpsynth, or a measure of OpenDP. "
        "privacy_bounds: a "
        "mechanism, a request for bounds or its response. detect: the service infers the format.",
        examples=["opacus"],
    ),
]


class ImportReader(Protocol):
    """Reader of the states of other libraries. Both methods raise ValidationError with locations below `content`."""

    def mechanism(self, format: ImportFormat, content: Any) -> Request:  # noqa: A002 - the name on the wire
        """Return the mechanism that the state `content` describes."""
        ...

    def check(self, format: ImportFormat, content: Any) -> None:  # noqa: A002
        """Check that the state `content` can be read."""
        ...


def _bounded(content: object) -> object:
    """Return an object or list unchanged.

    Raise PydanticCustomError for other values, deep nesting, or numbers outside the range of doubles.
    """
    if not isinstance(content, NESTED):
        raise _refusal(NOTHING_IS_UNPICKLED)
    level: list[object] = [cast("object", content)]
    for _ in range(DEEPEST_CONTENT):
        inside: list[object] = []
        for each in level:
            values = cast("dict[str, object]", each).values() if isinstance(each, dict) else cast("list[object]", each)
            for value in values:
                if type(value) is float:
                    if not math.isfinite(value):
                        raise _refusal("Every number in the state must be finite.")
                elif isinstance(value, NESTED):
                    inside.append(cast("object", value))
        if not inside:
            return cast("object", content)
        level = inside
    raise _refusal(f"May have at most {DEEPEST_CONTENT} levels of nesting.")


def _refusal(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("content", "{sentence}", {"sentence": sentence})


Format = Annotated[ImportFormat, Field(description="Format of the state.")]
Content = Annotated[
    Any,
    AfterValidator(_bounded),
    Field(
        description="State as a JSON object or list of at most 64 levels. A history or composition may have 10 "
        "000 phases, after equal neighbours are merged.",
        examples=[{"history": [[1.0, 0.01, 1000]], "mechanism": "prv"}],
    ),
]


class ImportedMechanism(Request):
    """State of another library, in place of a mechanism.

    The service converts the state first. Answer, digest and cost are those of the converted mechanism. `POST
    /v1/imports` returns this mechanism and lists omitted information. The threat model of the state applies if the
    request has none.
    """

    # Never in a response: unions of mechanisms are published once, for requests and responses.
    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    type: Literal["imported"]
    format: Format = "detect"
    content: Content

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, sent: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Any:
        found = handler(sent)
        reader: ImportReader | None = info.context
        return found if reader is None else reader.mechanism(found.format, found.content)
