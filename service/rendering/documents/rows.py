"""Answers of an assessment as table rows, which all documents share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple, final

from api_schemas.answers import (
    Answer,
    GdpMuAnswer,
    TradeOffAnswer,
)
from api_schemas.questions import (
    AttackAccuracyQuestion,
    EpsilonQuestion,
    PositivePredictiveValueQuestion,
    ReconstructionQuestion,
)
from service.rendering.numbers import (
    SHOWN,
    format_exact,
    percent_down,
    percent_exact,
    percent_up,
    rounded_down,
    rounded_up,
)

NO_FINITE: Final = "no finite number"
SAYS_NOTHING: Final = "says nothing"
AT_DELTA: Final = {
    1.0: "Epsilon at delta 1 (which says nothing)",
    0.0: "Epsilon of pure differential privacy (delta 0)",
}
NUMBERS: Final = ("epsilon", "gdp_mu", "deletion_capacity")
"""Questions whose answers are not shares."""


@final
class ReportRow(NamedTuple):
    """Number as a table row: its title, a key of ASCII letters, digits and `_.-`, its bounds, and its evidence.

    `value` is the safe value, and an approximation has no bounds (None). `is_share` is whether the number is shown in
    percent. `says_nothing` marks an epsilon at delta 1, which every run meets.
    """

    title: str
    key: str
    value: float
    lower: float | None
    upper: float | None
    evidence: str
    is_share: bool
    says_nothing: bool = False

    @property
    def at_most(self) -> str:
        """Upper bound in words, rounded up, or the estimate of an approximation.

        The text is "no finite number" for an infinite one, and "says nothing" for epsilon at delta 1.
        """
        if self.says_nothing:
            return SAYS_NOTHING
        number = self.value if self.upper is None else self.upper
        if math.isinf(number):
            return NO_FINITE
        text = percent_up(number) if self.is_share else rounded_up(number, SHOWN)
        return text if self.upper is not None else f"about {text}, no bound"

    @property
    def at_least(self) -> str:
        """Lower bound in words, rounded down, or "" for an approximation and for epsilon at delta 1.

        An infinite lower bound is "no finite number".
        """
        if self.lower is None or self.says_nothing:
            return ""
        if math.isinf(self.lower):
            return NO_FINITE
        return percent_down(self.lower) if self.is_share else rounded_down(self.lower, SHOWN)


def rows(answers: tuple[Answer, ...]) -> Iterator[ReportRow]:
    """Yield a table row for each number of the answers. Points of a trade-off curve have a row for their power."""
    for answer in answers:
        if isinstance(answer, TradeOffAnswer):
            for point in answer.points:
                rate, power = point["false_positive_rate"], point["power"]
                title = f"Members identified at a false positive rate of {percent_exact(rate)}"
                key, ends = f"tpr_at_fpr_{format_exact(rate)}", (power["value"], power["lower"], power["upper"])
                yield ReportRow(title, key, *ends, answer.evidence, is_share=True)
        else:
            title, key = _title_and_key(answer)
            ends = answer.value, answer.lower, answer.upper
            nothing = isinstance(answer.question, EpsilonQuestion) and answer.question.delta == 1
            yield ReportRow(title, key, *ends, answer.evidence, answer.type not in NUMBERS, nothing)


ACCUSED: Final = (
    "The share of right accusations depends on the prior. With fewer members among the candidates, fewer "
    "accusations are right."
)


def remarks(answers: tuple[Answer, ...]) -> Iterator[str]:
    """Yield remarks about predictive values, which depend on the prior.

    Yield nothing if no answer is a predictive value.
    """
    asked = [each for each in answers if each.type in ("positive_predictive_value", "negative_predictive_value")]
    if asked:
        yield ACCUSED
    for answer in asked:
        yield from (note for note in answer.notes if not note.startswith(f"{answer.method}:"))


def _title_and_key(answer: Answer) -> tuple[str, str]:
    # (title for readers, key of ASCII letters, digits and `_.-`)
    match answer.question:
        case EpsilonQuestion(delta=delta):
            return AT_DELTA.get(delta, f"Epsilon at delta {format_exact(delta)}"), "epsilon"
        case ReconstructionQuestion(baseline_success=float() as chance):
            title = f"Chance of a reconstruction that has a chance of {percent_exact(chance)} without the release"
            return title, "reconstruction"
        case AttackAccuracyQuestion(prior=prior):
            return f"Right guesses about membership at a prior of {percent_exact(prior)}", "attack_accuracy"
        case PositivePredictiveValueQuestion(prior=prior, false_positive_rate=float() as rate):
            where = f"a prior of {percent_exact(prior)} and a false positive rate of {percent_exact(rate)}"
            return f"Right accusations at {where}", "positive_predictive_value"
        case _:
            name = "mu of Gaussian differential privacy" if isinstance(answer, GdpMuAnswer) else answer.type
            return name.replace("_", " ").capitalize(), answer.type
