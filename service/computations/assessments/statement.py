"""The guarantee in plain text, in the order of the checklist for reports on differential privacy."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption
from service.computations.abstract import ResponseFields
from service.computations.digest import canonical_text
from service.interop.numbers import as_given
from service.interop.numbers import rounded_up as number
from service.interop.reports.summary import Fields, Told
from service.interop.reports.units import cap_of, protected
from service.interop.reports.void import refuted, void

WIDTH: Final = 100
RELATIONS: Final = {
    "add_or_remove_one": "by one {unit} that is added or removed",
    "replace_one": "by one {unit} that is replaced by another one",
    "zero_out": "by one {unit} that is replaced by an empty one, which adds nothing",
}
RELEASES: Final = {
    "all_checkpoints": "all models on the way of training",
    "last_model": "the last model; the numbers hold for all models on the way",
}
VOUCHED: Final = {"yes": "holds", "no": "does NOT hold", "unknown": "not known to hold"}


def statement(told: Told, decided: ResponseFields | None, engine_version: str) -> str:
    """Return the sections of Ponomareva et al. 2023 (How to DP-fy ML), Section 5.3.

    decided: the decision of a policy.
    """
    context, threat_model = told.context, told.threat_model
    held = protected(context, threat_model)
    unit = context.privacy_unit if cap_of(context, threat_model) is not None else held
    numbers = _numbers(context, told.answers, told.gdp) if told.is_bounded else []
    return "\n".join(
        (
            *_section("1. Setting", ["Central: who runs the mechanism sees the data, and only its releases are seen."]),
            *_section(
                "2. Definition",
                [
                    f"Data accesses covered: the mechanism {canonical_text(told.mechanism)} and nothing else.",
                    f"Released: {RELEASES[context.released]}.",
                    f"Privacy unit: {held}.",
                    f"Neighbouring data sets differ {RELATIONS[threat_model.neighboring_relation].format(unit=unit)}.",
                ],
            ),
            *_section("3. Accounting", [*_void(told.assumptions), *numbers, *_premises(told.assumptions)]),
            *([] if decided is None else _section("Policy", [decided["sentence"]])),
            *_section(
                "4. Verification",
                [
                    f"Numbers by privacy-bounds, engine {engine_version}: every one is the safe end of an enclosure "
                    "with a proof, and the same request gives the same bytes.",
                ],
            ),
        )
    )


def _void(assumptions: Sequence[AssessedAssumption]) -> list[str]:
    broken = refuted(assumptions)
    return [void(broken)] if broken else []


def _section(title: str, items: Sequence[str]) -> list[str]:
    lines = [title]
    for item in items:
        lines += textwrap.wrap(item, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False)
    return lines


def _numbers(context: AssessmentContext, answers: Sequence[Fields], gdp: Fields | None) -> list[str]:
    epsilon, advantage, curve, gamma, accuracy, precision = answers
    rate = context.false_positive_rate
    power = next(each for each in curve["points"] if each["false_positive_rate"] == rate)["power"]
    return [
        f"({number(epsilon['value'])}, {as_given(context.delta)})-differential privacy ({_kind(epsilon)}).",
        *([] if gdp is None else [_gdp(gdp)]),
        f"An attacker who falsely accuses a share of {as_given(rate)} detects a member with probability at most "
        f"{number(power['value'])} ({_kind(curve)}).",
        f"Power exceeds the false positive rate by at most {number(advantage['value'])} at any rate.",
        f"Who reconstructs a record with chance {as_given(context.baseline_success)} without the release does so with "
        f"chance at most {number(gamma['value'])} with it.",
        f"At a prior of {as_given(context.prior)} a guess about membership is right with probability at most "
        f"{number(accuracy['value'])}, and an accusation at that rate with at most {number(precision['value'])}.",
    ]


def _kind(answer: Fields) -> str:
    bracket = "" if answer["tight"] is not False else ", the upper end of a bracket of two theorems"
    return f"{answer['evidence']}, by {answer['source']}{bracket}"


def _gdp(gdp: Fields) -> str:
    return (
        f"{number(gdp['mu']['value'])}-Gaussian differential privacy wherever both error rates are at least "
        f"{gdp['smallest_rate']:g}, with a regret of {gdp['regret']['value']:.2g}."
    )


def _premises(assumptions: Sequence[AssessedAssumption]) -> list[str]:
    return [f"Assumption, {VOUCHED[each.holds]}{_by(each)}: {each.text}" for each in assumptions]


def _by(each: AssessedAssumption) -> str:
    said = [part for part in (each.by, each.when) if part is not None]
    return f" ({', '.join(said)})" if said else ""
