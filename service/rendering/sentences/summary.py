"""Summary of a run: title, sentence and paragraph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption, RunSummary
from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import WorstCaseThreatModel
from service.rendering.sentences.guarantee import Fields, pair_sentence, power_sentence, reconstruction_sentence
from service.rendering.sentences.title import run_title
from service.rendering.sentences.units import members, protected
from service.rendering.sentences.void import refuted, unproved, void

MOST_WORDS: Final = 120
LONGEST_RUN: Final = 110
"""Largest number of characters of the run in a paragraph."""
SUBJECT_WORDS, VERSION_WORDS = 8, 3
VOID: Final = (
    "Nothing is proved about this run: an assumption behind its numbers is attested not to hold.",
    "Nothing is proved about this run, because the effect of a present hazard is not known.",
)
ONE_RECORD: Final = "A person with several records is less protected."
CHANGED: Final = "All numbers include the hazards of this run."
LITTLE: Final = "Such a large epsilon alone guarantees almost nothing."


@final
class RunFacts(NamedTuple):
    """Facts about a run that its texts state.

    `mechanism` is that of the request, and `threat_model` the attacker in all numbers. `answers` has the fields of the
    answers to the standard questions: epsilon, advantage, trade-off curve, reconstruction, accuracy and predictive
    value. `gdp` and `hazards` are fields of the response. `changed` is a sentence about the changes of hazards.
    """

    mechanism: MechanismSpec
    threat_model: WorstCaseThreatModel
    context: AssessmentContext
    answers: Sequence[Fields]
    gdp: Fields | None
    assumptions: Sequence[AssessedAssumption]
    hazards: Sequence[Fields]
    changed: str | None

    @property
    def is_bounded(self) -> bool:
        """Whether the numbers about the run are valid bounds.

        False if an assumption behind all of them is attested not to hold, or if the effect of a hazard is unknown.
        """
        return not refuted(self.assumptions) and all(each["effect"] != "no_bound" for each in self.hazards)

    @property
    def power(self) -> Fields:
        """Answer for the power at the false positive rate of the context."""
        rate, curve = self.context.false_positive_rate, self.answers[2]
        return next(each["power"] for each in curve["points"] if each["false_positive_rate"] == rate)

    @property
    def is_enclosed(self) -> bool:
        """Whether every number about the run has both bounds, so that none of them is an estimate."""
        return all(each["upper"] is not None for each in (*self.answers[:2], self.power, *self.answers[3:]))

    def is_present(self, code: str) -> bool:
        """Return whether the hazard with this code is present in the run."""
        return any(each["code"] == code and each["status"] == "present" for each in self.hazards)

    @property
    def why_unbounded(self) -> str:
        """Sentence that explains why no number is a valid bound."""
        broken = refuted(self.assumptions)
        return void(broken) if broken else unproved(self.hazards)

    @property
    def guarantee(self) -> str:
        """Sentence with the guarantee of epsilon at the delta of the context."""
        unit = protected(self.context, self.threat_model)
        is_small = not self.is_present("delta_not_small")
        return pair_sentence(self.answers[0], self.context.delta, unit, delta_is_small=is_small)

    @property
    def power_sentence(self) -> str:
        """Sentence with the success of the best attack at the false positive rate of the context."""
        context = self.context
        return power_sentence(context.false_positive_rate, self.power, members(context, self.threat_model))


def run_summary(facts: RunFacts) -> RunSummary:
    """Return title, sentence and paragraph of an assessment.

    If nothing is proved about the run, sentence and paragraph say why.
    """
    return RunSummary(
        title=run_title(facts.mechanism),
        bounded=facts.is_bounded,
        sentence=facts.power_sentence if facts.is_bounded else VOID[not refuted(facts.assumptions)],
        paragraph=" ".join(_bounded_paragraph(facts) if facts.is_bounded else _unbounded_paragraph(facts)),
    )


def _unbounded_paragraph(facts: RunFacts) -> Iterator[str]:
    yield from _subject_and_date(facts.context)
    yield f"The run: {run_title(facts.mechanism, LONGEST_RUN)}."
    yield facts.why_unbounded


def _bounded_paragraph(facts: RunFacts) -> list[str]:
    context = facts.context
    changed = [] if facts.changed is None else [facts.changed]
    little = [LITTLE] if facts.is_present("epsilon_says_little") and "differentially" in facts.guarantee else []
    one = [ONE_RECORD] if any(each["code"] == "one_record_is_protected" for each in facts.hazards) else []
    found = [
        *_subject_and_date(context),
        f"The run: {run_title(facts.mechanism, LONGEST_RUN)}.",
        *changed,
        facts.guarantee,
        *little,
        facts.power_sentence,
        reconstruction_sentence(context.baseline_success, facts.answers[3]),
        *one,
        _assumption_counts(facts.assumptions),
    ]
    for dropped, instead in (
        (one, None),
        (little, None),
        (changed, CHANGED),
    ):
        if _words(found) > MOST_WORDS and dropped:
            place = found.index(dropped[0])
            found[place : place + 1] = [] if instead is None else [instead]
    return found


def _subject_and_date(context: AssessmentContext) -> Iterator[str]:
    subject = context.subject
    day = "" if context.date is None else f" on {context.date}"
    if subject is None:
        if context.date is not None:
            yield f"Assessed{day}."
        return
    version = "" if subject.version is None else f", version {_shortened(subject.version, VERSION_WORDS)}"
    yield f"Assessment of {_shortened(subject.name, SUBJECT_WORDS)}{version}{day}."


def _shortened(name: str, most: int) -> str:
    words = name.split()
    return name if len(words) <= most else " ".join((*words[:most], "…"))


def _assumption_counts(assumptions: Sequence[AssessedAssumption]) -> str:
    total, vouched_by_nobody = len(assumptions), sum(each.holds == "unknown" for each in assumptions)
    if total == 0:
        return "The numbers rest on no assumption."
    plural = f"{total} assumptions" if total > 1 else "1 assumption"
    if vouched_by_nobody == 0:
        return f"The numbers rest on {plural}, and none is unattested."
    return (
        f"The numbers rest on {plural}; {vouched_by_nobody} {'is' if vouched_by_nobody == 1 else 'are'} not attested."
    )


def _words(sentences: Sequence[str]) -> int:
    return sum(len(each.split()) for each in sentences)
