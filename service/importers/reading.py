"""Values of a state of another library with their locations, and drafts of mechanisms built from them.

A reader destructures a state through `SourceValue` and assembles a draft mechanism. Numbers are copied without checks.
The request schemas validate the draft, and its errors are reported at the locations of the numbers in the state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn, Self, cast, final

from pydantic import ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from api_schemas.assumptions_and_hazards import Hazard
from api_schemas.base import Request
from api_schemas.imported import ImportedMechanism
from api_schemas.limits import check_tree, limit_error
from api_schemas.mechanisms import MechanismSpec, nodes_of
from api_schemas.problems import LISTED_ERRORS, field_errors
from api_schemas.threat_models import ThreatModelSpec

Location = tuple[int | str, ...]
ROOT: Final = ("content",)
LIST_ALTERNATIVE: Final = ", or a list of "
"""Start of the part of an error message that offers a list. Mechanisms accept lists there; foreign states do not."""


def import_error(*errors: tuple[Location, str], title: str = ImportedMechanism.__name__) -> ValidationError:
    """Return a ValidationError for a model called `title`, with one error for each pair (location, sentence)."""
    return ValidationError.from_exception_data(
        title,
        [
            InitErrorDetails(
                type=PydanticCustomError("imported", "{sentence}", {"sentence": sentence}), loc=location, input=None
            )
            for location, sentence in errors
        ],
    )


def whole_number(value: Any) -> Any:
    """Return a float without fractional part (1000.0) as an integer, and any other value unchanged."""
    return int(value) if type(value) is float and value.is_integer() else value


@final
@dataclass(frozen=True, slots=True)
class SourceValue:
    """Value in the imported state of another library, with its location in the request.

    A location is the path of keys and indices, by default that of the whole state.
    """

    value: Any
    location: Location = ROOT

    def reject(self, sentence: str) -> NoReturn:
        """Raise ValidationError at the location of this value. The sentence names the rule and the remedy."""
        raise import_error((self.location, sentence))

    @property
    def as_object(self) -> dict[str, Any]:
        """Members of the value if it is an object, otherwise an empty dictionary."""
        value: object = self.value
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    @property
    def as_list(self) -> list[Any]:
        """Items of the value if it is a list, otherwise an empty list."""
        value: object = self.value
        return cast("list[Any]", value) if isinstance(value, list) else []

    def members(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, SourceValue]:
        """Return the members of an object by name.

        Raise ValidationError if the value is no object, a required member is missing, or a member is unknown.
        """
        sent = self.as_object
        if not sent and not isinstance(self.value, dict):
            self.reject(f"Must be a JSON object with {', '.join(required)}.")
        known = [*required, *optional]
        wrong = [((*self.location, name), "Required.") for name in required if name not in sent]
        sentence = f"Unknown field. The fields are: {', '.join(known)}."
        unknown = (((*self.location, name), sentence) for name in sent if name not in known)
        wrong += islice(unknown, LISTED_ERRORS)
        if wrong:
            raise import_error(*wrong)
        return {name: SourceValue(value, (*self.location, name)) for name, value in sent.items()}

    def items(self) -> list[SourceValue]:
        """Return the items of a list. Raise ValidationError for any other value."""
        if not self.as_list and not isinstance(self.value, list):
            self.reject("Must be a list.")
        return [SourceValue(value, (*self.location, index)) for index, value in enumerate(self.as_list)]

    def number(self, low: float, high: float) -> float:
        """Return the value as a float in [low, high]. Raise ValidationError for any other value."""
        if type(self.value) not in (int, float) or not low <= self.value <= high:
            self.reject(f"Must be a finite number in [{low:g}, {high:g}].")
        return float(self.value)

    def integer(self, low: int, high: int) -> int:
        """Return the value as an integer in [low, high]. Raise ValidationError for any other value."""
        value = whole_number(self.value)
        if type(value) is not int or not low <= value <= high:
            self.reject(f"Must be an integer in [{low}, {high:g}].")
        return value

    @property
    def as_count(self) -> SourceValue:
        """Value with a float such as 1000.0 converted to the integer 1000."""
        return SourceValue(whole_number(self.value), self.location)

    def flag(self) -> bool:
        """Return the value if it is true or false. Raise ValidationError for any other value."""
        if type(self.value) is not bool:
            self.reject("Must be true or false.")
        return bool(self.value)

    def one_of(self, known: Collection[str]) -> str:
        """Return the value if it is one of the `known` words. Raise ValidationError for any other value."""
        if not (isinstance(self.value, str) and self.value in known):
            self.reject(f"Must be one of {', '.join(known)}.")
        return self.value


@final
class DraftSpec(dict[str, Any]):
    """Draft of an object of the contract, not validated yet. `source` is the imported value that it comes from."""

    def __init__(self, source: SourceValue, **members: Any) -> None:
        super().__init__(members)
        self.source = source


@final
@dataclass(frozen=True, slots=True)
class PhaseNumbers:
    """Column of numbers, one for each phase of a training run.

    `location(index)` returns where a number is in the state.
    """

    values: tuple[Any, ...]
    location: Callable[[int], Location]


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """Draft of a mechanism that a reader assembled from the state of another library.

    `notes` are facts of the state that the mechanism cannot express, one sentence each. `microbatches_accounted` is
    True if the noise of the mechanism is already half of the stated noise, because averages of microbatches were
    clipped. `threat_model` is None if the state describes no attacker.
    """

    mechanism: DraftSpec
    threat_model: DraftSpec | None = None
    notes: tuple[str, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    microbatches_accounted: bool = False


@final
class ValidatedImport(Request):
    """Mechanism and threat model of a state after their validation."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec | None = None

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        check_tree(self.mechanism)
        if any(isinstance(node, ImportedMechanism) for node in nodes_of(self.mechanism)):
            raise limit_error("/mechanism", "The content is itself an imported mechanism. Send its content instead.")
        return self


def validate_draft(found: ImportedRun) -> ValidatedImport:
    """Validate a draft against the contract. Raise ValidationError with the locations of the values in the state.

    Raise it as well if the content is itself an imported mechanism.
    """
    made = {"mechanism": found.mechanism, "threat_model": found.threat_model}
    try:
        return ValidatedImport.model_validate(strip_locations(made))
    except ValidationError as error:
        wrong = [
            (_source_location(made, each.pointer), each.detail.partition(LIST_ALTERNATIVE)[0].rstrip(".") + ".")
            for each in field_errors(error)
        ]
        raise import_error(*dict.fromkeys(wrong)) from None


def strip_locations(made: Any) -> Any:
    """Return the draft `made` as plain values, without the locations of its numbers in the imported state."""
    if isinstance(made, SourceValue):
        return strip_locations(made.value)
    if isinstance(made, PhaseNumbers):
        return made.values
    if isinstance(made, dict):
        return {name: strip_locations(value) for name, value in cast("dict[str, Any]", made).items()}
    if isinstance(made, list):
        return tuple(map(strip_locations, cast("list[Any]", made)))
    return made


def _source_location(made: Any, pointer: str) -> Location:
    location: Location = ()
    for step in pointer.split("/")[1:]:
        if isinstance(made, DraftSpec):
            location = made.source.location
        if isinstance(made, SourceValue):
            made = SourceValue(None, (*made.location, step.replace("~1", "/").replace("~0", "~")))
        elif isinstance(made, PhaseNumbers):
            made = SourceValue(None, made.location(int(step)))
        elif isinstance(made, list):
            made = cast("list[Any]", made)[int(step)]
        else:
            made = cast("dict[str, Any]", made).get(step)
    return (
        made.location
        if isinstance(made, SourceValue)
        else made.source.location
        if isinstance(made, DraftSpec)
        else location
    )
