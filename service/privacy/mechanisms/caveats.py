"""Premises (conditions that answers rely on) and hazards (known ways in which mechanisms are less private).

A *caveat* is a premise or a hazard. A caveat with one cause is in the file of that mechanism, and caveats with several
causes are in this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar, get_args

from typing_extensions import override

Subject = Literal["noise", "sampling", "gradients", "parameters", "scores", "parts", "draw", "records", "attacker"]
"""Subjects of caveats, in the order of answers."""
PLACES: Final = {subject: place for place, subject in enumerate(get_args(Subject))}


@dataclass(frozen=True, slots=True)
class Premise:
    """Condition that answers rely on but no request shows.

    Attributes
    ----------
    code : str
        Name in responses.
    text : str
        Sentence for readers.
    holds : str
        What the mechanism states about the condition.
    about : str
        Subject of the premise; answers list premises in the order of their subjects.
    """

    code: str
    text: str
    holds: Literal["yes", "no", "unknown"] = "unknown"
    about: Subject = "attacker"

    @override
    def __hash__(self) -> int:  # fast, because every answer hashes premises
        return hash(self.code)


@dataclass(frozen=True, slots=True)
class MechanismHazard:
    """Known way in which runs like the described one are less private, or less precisely known, than they appear.

    `code` is its name in answers, `text` the sentence for readers, and `about` its subject. A hazard with `alone`
    counts only if all parts of a mechanism cause it.
    """

    code: str
    text: str
    about: Subject
    alone: bool = False

    @override
    def __hash__(self) -> int:
        return hash(self.code)


@dataclass(frozen=True, slots=True)
class Caveats:
    """Premises (conditions of the answers) and hazards of a mechanism and all its parts, each once.

    A hazard is a known way in which a run is less private than described.
    """

    premises: tuple[Premise, ...]
    hazards: tuple[MechanismHazard, ...]


Caveat = TypeVar("Caveat", Premise, MechanismHazard)


def in_order(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """Return each premise or hazard of `caveats` once, ordered by subject.

    Caveats about one subject keep their order. A hazard is a known way in which a run is less private than described.
    """
    return tuple(sorted(dict.fromkeys(caveats), key=lambda each: PLACES[each.about]))


SENSITIVITY_BOUNDED: Final = Premise(
    "sensitivity_bounded",
    "Adding or removing one record changes every noisy query by no more than the sensitivity to which "
    "noise_multiplier refers. In DP-SGD, the gradient of every single record is clipped before "
    "the sum.",
    about="noise",
)
NOISE_IS_FRESH: Final = Premise(
    "noise_is_fresh",
    "Every step draws fresh continuous noise. The random numbers are secret and not predictable.",
    about="noise",
)
PARAMETERS_ARE_PROVED: Final = Premise(
    "parameters_are_proved",
    "The stated privacy parameters were proved for the mechanism that was run.",
    about="parameters",
)
PARTS_ARE_INDEPENDENT: Final = Premise(
    "parts_are_independent",
    "The parts use independent randomness, and their parameters were fixed before any result was seen.",
    about="parts",
)
STATED_PARAMETERS_ALONE: Final = MechanismHazard(
    code="stated_parameters_alone",
    text="Every answer is for the worst mechanism with the stated epsilon and delta. A description of "
    "the run itself (noise, sampling rate and steps, as dpsgd or gaussian) gives much better "
    "numbers.",
    about="parameters",
    alone=True,
)
ONE_RECORD_IS_PROTECTED: Final = MechanismHazard(
    code="one_record_is_protected",
    text="The answers hold for one record. A person with several records is less protected. Send "
    "`records` of worst_case for an answer about all records of a person together.",
    about="records",
)
