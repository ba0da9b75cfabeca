"""The answers of an assessment as rows of a table: what all its forms show of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

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
from service.interop.numbers import as_given


class Row(NamedTuple):
    """One number: what it is, a key of ASCII letters, digits and `_.-`, the number with its ends, and its evidence."""

    title: str
    key: str
    value: float
    lower: float | None
    upper: float | None
    evidence: str


def rows(answers: tuple[Answer, ...]) -> Iterator[Row]:
    """One row for each number; of points of a curve the power."""
    for answer in answers:
        if isinstance(answer, TradeOffAnswer):
            for point in answer.points:
                rate, power = point["false_positive_rate"], point["power"]
                title, key = f"Power at a false positive rate of {as_given(rate)}", f"tpr_at_fpr_{as_given(rate)}"
                yield Row(title, key, power["value"], power["lower"], power["upper"], answer.evidence)
        else:
            title, key = _name(answer)
            yield Row(title, key, answer.value, answer.lower, answer.upper, answer.evidence)


ACCUSED: Final = (
    "P(member | accused) depends on the prior: where fewer of the candidates are members, an accusation is right less "
    "often."
)


def remarks(answers: tuple[Answer, ...]) -> Iterator[str]:
    """What has to be known of predictive values beside their numbers: what they depend on, when they say nothing."""
    asked = [each for each in answers if each.type in ("positive_predictive_value", "negative_predictive_value")]
    if asked:
        yield ACCUSED
    for answer in asked:
        yield from (note for note in answer.notes if not note.startswith(f"{answer.method}:"))


def _name(answer: Answer) -> tuple[str, str]:
    match answer.question:
        case EpsilonQuestion(delta=delta):
            return f"Epsilon at delta {as_given(delta)}", "epsilon"
        case ReconstructionQuestion(baseline_success=float() as chance):
            return (
                f"Chance of a reconstruction that has chance {as_given(chance)} without the release",
                "reconstruction",
            )
        case AttackAccuracyQuestion(prior=prior):
            return f"Accuracy of the best attack at a prior of {as_given(prior)}", "attack_accuracy"
        case PositivePredictiveValueQuestion(prior=prior, false_positive_rate=float() as rate):
            title = f"P(member | accused) at a prior of {as_given(prior)} and a false positive rate of {as_given(rate)}"
            return title, "positive_predictive_value"
        case _:
            name = "mu of Gaussian differential privacy" if isinstance(answer, GdpMuAnswer) else answer.type
            return name.replace("_", " ").capitalize(), answer.type
