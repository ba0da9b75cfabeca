"""Values of a foreign state with their places, descriptions made of them, and what a reader finds.

A reader takes a state apart by `Node`s and puts a mechanism of ours together from them. Numbers go over unseen: the
contract checks them, and its errors come back at the places that the numbers came from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn, Self, cast, final

from pydantic import ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from api_schemas.base import Request
from api_schemas.caveats import Hazard
from api_schemas.imported import ImportedMechanism
from api_schemas.limits import check_tree
from api_schemas.limits import refusal as refused
from api_schemas.mechanisms import MechanismSpec, nodes_of
from api_schemas.problems import LISTED_ERRORS, field_errors
from api_schemas.threat_models import ThreatModelSpec

Location = tuple[int | str, ...]
ROOT: Final = ("content",)
A_LIST_AS_WELL: Final = ", or a list of "
"""Starts what our own schedules may have in the place of a number, and foreign states may not."""


def refusal(*errors: tuple[Location, str], title: str = ImportedMechanism.__name__) -> ValidationError:
    """What is wrong in these places of a model called `title`."""
    return ValidationError.from_exception_data(
        title,
        [
            InitErrorDetails(
                type=PydanticCustomError("imported", "{sentence}", {"sentence": sentence}), loc=place, input=None
            )
            for place, sentence in errors
        ],
    )


def whole(value: Any) -> Any:
    """A count that was written with a fraction of nothing, 1000.0, as an integer; anything else as it is."""
    return int(value) if type(value) is float and value.is_integer() else value


@final
@dataclass(frozen=True, slots=True)
class Node:
    """A value of a state, and its place."""

    value: Any
    place: Location = ROOT

    def refuse(self, sentence: str) -> NoReturn:
        """Raises ValidationError: what is wrong here, and the remedy."""
        raise refusal((self.place, sentence))

    @property
    def held(self) -> dict[str, Any]:
        """The members of an object; of anything else, none."""
        value: object = self.value
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    @property
    def listed(self) -> list[Any]:
        """The items of a list; of anything else, none."""
        value: object = self.value
        return cast("list[Any]", value) if isinstance(value, list) else []

    def members(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Node]:
        """The members of an object that has these and no others."""
        sent = self.held
        if not sent and not isinstance(self.value, dict):
            self.refuse(f"Must be a JSON object with {', '.join(required)}.")
        known = [*required, *optional]
        wrong = [((*self.place, name), "Required.") for name in required if name not in sent]
        sentence = f"Not a field here. The fields are: {', '.join(known)}."
        unknown = (((*self.place, name), sentence) for name in sent if name not in known)
        wrong += islice(unknown, LISTED_ERRORS)
        if wrong:
            raise refusal(*wrong)
        return {name: Node(value, (*self.place, name)) for name, value in sent.items()}

    def items(self) -> list[Node]:
        """The items of a list."""
        if not self.listed and not isinstance(self.value, list):
            self.refuse("Must be a list.")
        return [Node(value, (*self.place, index)) for index, value in enumerate(self.listed)]

    def number(self, low: float, high: float) -> float:
        """A number in [low, high]."""
        if type(self.value) not in (int, float) or not low <= self.value <= high:
            self.refuse(f"Must be a finite number in [{low:g}, {high:g}].")
        return float(self.value)

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        value = whole(self.value)
        if type(value) is not int or not low <= value <= high:
            self.refuse(f"Must be a whole number in [{low}, {high:g}].")
        return value

    @property
    def count(self) -> Node:
        """The same, read as a count: 1000.0 is 1000."""
        return Node(whole(self.value), self.place)

    def flag(self) -> bool:
        """True or false."""
        if type(self.value) is not bool:
            self.refuse("Must be true or false.")
        return bool(self.value)

    def word(self, known: Collection[str]) -> str:
        """One of these words."""
        if not (isinstance(self.value, str) and self.value in known):
            self.refuse(f"Must be one of {', '.join(known)}.")
        return self.value


@final
class Spec(dict[str, Any]):
    """An object of the contract in the making, and the place of the state that says it."""

    def __init__(self, source: Node, **members: Any) -> None:
        super().__init__(members)
        self.source = source


@final
@dataclass(frozen=True, slots=True)
class PhaseNumbers:
    """The numbers of all phases of a run, and the place of each in the state."""

    values: tuple[Any, ...]
    place: Callable[[int], Location]


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """What a reader makes of a state.

    notes: what the mechanism does not say of it, a sentence each. microbatches_accounted: whether the noise of the
    mechanism is already half of the stated one, because averages of microbatches were clipped.
    """

    mechanism: Spec
    threat_model: Spec | None = None
    notes: tuple[str, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    microbatches_accounted: bool = False


@final
class Settled(Request):
    """A description as the contract has it."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec | None = None

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        check_tree(self.mechanism)
        if any(isinstance(node, ImportedMechanism) for node in nodes_of(self.mechanism)):
            raise refused("/mechanism", "Is itself imported: send what it imports.")
        return self


def settled(found: ImportedRun) -> Settled:
    """What was found, as the contract has it. Raises ValidationError at the places of the state."""
    made = {"mechanism": found.mechanism, "threat_model": found.threat_model}
    try:
        return Settled.model_validate(plain(made))
    except ValidationError as error:
        wrong = [
            (_source(made, each.pointer), each.detail.partition(A_LIST_AS_WELL)[0].rstrip(".") + ".")
            for each in field_errors(error)
        ]
        raise refusal(*dict.fromkeys(wrong)) from None


def plain(made: Any) -> Any:
    """A description without its places."""
    if isinstance(made, Node):
        return plain(made.value)
    if isinstance(made, PhaseNumbers):
        return made.values
    if isinstance(made, dict):
        return {name: plain(value) for name, value in cast("dict[str, Any]", made).items()}
    if isinstance(made, list):
        return tuple(map(plain, cast("list[Any]", made)))
    return made


def _source(made: Any, pointer: str) -> Location:
    """The place of the state that says what a JSON pointer into a description leads to."""
    place: Location = ()
    for step in pointer.split("/")[1:]:
        if isinstance(made, Spec):
            place = made.source.place
        if isinstance(made, Node):
            made = Node(None, (*made.place, step.replace("~1", "/").replace("~0", "~")))
        elif isinstance(made, PhaseNumbers):
            made = Node(None, made.place(int(step)))
        elif isinstance(made, list):
            made = cast("list[Any]", made)[int(step)]
        else:
            made = cast("dict[str, Any]", made).get(step)
    return made.place if isinstance(made, Node) else made.source.place if isinstance(made, Spec) else place
