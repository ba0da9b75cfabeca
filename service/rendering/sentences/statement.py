"""Statement about a run in plain text, in the order of the checklist for reports on differential privacy."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption
from service.rendering.numbers import percent_exact, percent_up, points_up
from service.rendering.sentences.guarantee import Fields, gdp_sentence, reconstruction_sentence
from service.rendering.sentences.outcome import margin_text, outcome
from service.rendering.sentences.summary import RunFacts
from service.rendering.sentences.title import run_title
from service.rendering.sentences.units import cap_of, protected, unit_name

WIDTH: Final = 100
RELATIONS: Final = {
    "add_or_remove_one": "by one {unit} that is added or removed",
    "replace_one": "by one {unit} that is replaced by another {unit}",
    "zero_out": "by one {unit} that is replaced by an empty {unit}, which adds nothing",
}
RELEASES: Final = {
    "all_checkpoints": "all models of the training run",
    "last_model": "the last model",
}
REACH: Final = "; the numbers hold for all models of the training run"
VOUCHED: Final = {"yes": "holds", "no": "does NOT hold", "unknown": "not known to hold"}
PROVED: Final = "the safe bound of an enclosure, rounded to the safe side"


def statement(facts: RunFacts, decided: Mapping[str, Any] | None, mechanism: str, engine_version: str) -> str:
    """Return the statement with the sections of Ponomareva et al. 2023 (How to DP-fy ML), Section 5.3, and the policy.

    `facts` describe the run. `decided` is the decision of a policy, or None. `mechanism` is its canonical JSON. If
    nothing is proved about the run, the statement contains no bound.
    """
    numbers = [*_numbers(facts)] if facts.is_bounded else [facts.why_unbounded]
    about = [*_subject_date_and_author(facts.context)]
    return "\n".join(
        (
            *(_section("Subject", about) if about else ()),
            *_section(
                "1. Setting",
                ["Central model: the operator of the mechanism sees the data. Others see only its releases."],
            ),
            *_section("2. Definition", [*_definition(facts, mechanism)]),
            *_section("3. Accounting", [*numbers, *_premises(facts.assumptions)]),
            *_section("4. Verification", [_verification(facts, engine_version)]),
            *(
                []
                if decided is None
                else _section("Policy", [*_policy_sentences(decided, is_bounded=facts.is_bounded)])
            ),
        )
    )


def _subject_date_and_author(context: AssessmentContext) -> Iterator[str]:
    subject = context.subject
    if subject is not None:
        yield subject.name if subject.version is None else f"{subject.name}, version {subject.version}"
        if subject.uri is not None:
            yield f"Address: {subject.uri}"
        if subject.sha256 is not None:
            yield f"SHA-256: {subject.sha256}"
    if context.date is not None:
        yield f"Date of the assessment: {context.date}"
    if context.prepared_by is not None:
        yield f"Prepared by: {context.prepared_by}"


def _definition(facts: RunFacts, mechanism: str) -> Iterator[str]:
    context, threat_model = facts.context, facts.threat_model
    held = protected(context, threat_model)
    unit = unit_name(context) if cap_of(context, threat_model) is not None else held
    yield f"The run: {run_title(facts.mechanism)}."
    if facts.changed is not None:
        yield facts.changed
    yield f"Data accesses covered: the mechanism {mechanism} and nothing else."
    reach = REACH if facts.is_bounded and context.released == "last_model" else ""
    yield f"Released: {RELEASES[context.released]}{reach}."
    yield f"Privacy unit: {held}."
    yield f"Neighbouring data sets differ {RELATIONS[threat_model.neighboring_relation].format(unit=unit)}."


def _numbers(facts: RunFacts) -> Iterator[str]:
    context = facts.context
    epsilon, advantage, curve, gamma, accuracy, precision = facts.answers
    yield _with_evidence_and_source(facts.guarantee, epsilon)
    if facts.gdp is not None:
        yield gdp_sentence(facts.gdp)
    yield _with_evidence_and_source(facts.power_sentence, curve)
    yield f"At every false positive rate, the power exceeds the rate by {_share_rounded_up(advantage, points=True)}."
    yield reconstruction_sentence(context.baseline_success, gamma)
    yield (
        f"At a prior of {percent_exact(context.prior)} {_share_rounded_up(accuracy)} of guesses about membership are "
        f"right. At a false positive rate of {percent_exact(context.false_positive_rate)} "
        f"{_share_rounded_up(precision)} of accusations are right."
    )


def _share_rounded_up(answer: Fields, *, points: bool = False) -> str:
    upper = answer["upper"]
    number, side = (answer["value"], "about") if upper is None else (upper, "at most")
    return f"{side} {points_up(number)} percentage points" if points else f"{side} {percent_up(number)}"


def _with_evidence_and_source(sentence: str, answer: Fields) -> str:
    bracket = "" if answer["tight"] is not False else "; the true number lies between bounds of two theorems"
    return f"{sentence.removesuffix('.')} ({answer['evidence']}, by {answer['source']}{bracket})."


def _premises(assumptions: Sequence[AssessedAssumption]) -> list[str]:
    return [f"Assumption, {VOUCHED[each.holds]}{_by(each)}: {each.text}" for each in assumptions]


def _by(each: AssessedAssumption) -> str:
    given = [part for part in (each.by, each.when) if part is not None]
    return f" ({', '.join(given)})" if given else ""


def _verification(facts: RunFacts, engine_version: str) -> str:
    proved = f" Every number is {PROVED}." if facts.is_bounded and facts.is_enclosed else ""
    return f"Made by privacy-bounds, engine {engine_version}. The same request gives the same bytes.{proved}"


def _policy_sentences(decided: Mapping[str, Any], *, is_bounded: bool) -> Iterator[str]:
    revision = decided.get("revision")
    yield f"{decided['name']}{'' if revision is None else f', revision {revision}'}: {decided['sentence']}"
    if decided["missing"]:
        yield f"Missing attestations: {', '.join(decided['missing'])}."
    for each in decided["rulings"] if is_bounded else ():
        rule = each["rule"]
        name = "" if rule.name is None else f"{rule.name}: "
        stands = outcome(each["verdict"], rule.severity, margin_text(rule.limit, each["margin"]))
        yield f"{name}{each['meaning']} {stands}."


def _section(title: str, items: Sequence[str]) -> list[str]:
    lines = [title]
    for item in items:
        lines += textwrap.wrap(
            item,
            WIDTH,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines
