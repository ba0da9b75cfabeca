"""Meaning of the numbers in texts about an assessment: patterns of sentences, and rows of tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from api_schemas.answers import Answer, TradeOffAnswer
from api_schemas.assessments import AssessedThreatModel, AssessmentsResponse
from api_schemas.questions import (
    AttackAccuracyQuestion,
    EpsilonQuestion,
    PositivePredictiveValueQuestion,
    ReconstructionQuestion,
)
from tests.rendering.printed_numbers import (
    NUMBER,
    PERCENT,
    Printed,
    down,
    ends,
    given,
    percent_down,
    percent_exact,
    percent_up,
    read,
    up,
)

NEARLY_ALL = Decimal("0.999")


def power_of(assessment: AssessmentsResponse) -> tuple[float, float]:
    """Return the bounds of the power at the rate of the context."""
    curve = assessment.threat_models[0].answers[2]
    assert isinstance(curve, TradeOffAnswer)
    rate = assessment.context.false_positive_rate
    return ends(next(each["power"] for each in curve.points if each["false_positive_rate"] == rate))


def check_attack(text: Printed, assessment: AssessmentsResponse) -> int:
    """Check the sentences about the best attack, and return their number."""
    rate, (_, power) = assessment.context.false_positive_rate, power_of(assessment)
    accuses = rf"wrongly accuses {PERCENT} of the \w+ outside the data"
    if rate == 0:
        text.left = text.left.replace("wrongly accuses none of the", "wrongly accuses 0\u00a0% of the")
    bounded = text.take(
        rf"{accuses} identifies at most {PERCENT} of the \w+ inside", percent_exact(rate), percent_up(power)
    )
    everybody = text.take(rf"{accuses} may identify all of the \w+ inside", percent_exact(rate))
    nobody = text.take(rf"{accuses} identifies none of the \w+ inside", percent_exact(rate))
    assert power > NEARLY_ALL or not everybody
    assert power == 0 or not nobody
    return bounded + everybody + nobody


def check_reconstruction(text: Printed, assessment: AssessmentsResponse) -> None:
    """Check the sentences about a reconstruction."""
    chance, (_, gamma) = (
        percent_exact(assessment.context.baseline_success),
        ends(assessment.threat_models[0].answers[3]),
    )
    without = rf"with a chance of {PERCENT} without the release"
    text.take(rf"{without} has at most {PERCENT} with it", chance, percent_up(gamma))
    assert gamma > NEARLY_ALL or not text.take(rf"{without} may always succeed", chance)
    text.take(rf"{without} may always succeed", chance)


def check_pair(text: Printed, assessment: AssessmentsResponse) -> None:
    """Check the sentences about epsilon at the delta of the context, and about mu."""
    delta, (lower, epsilon) = assessment.context.delta, ends(assessment.threat_models[0].answers[0])
    at_delta = rf"at delta {NUMBER}"
    pairs = text.take(rf"\({NUMBER}, {NUMBER}\)-differentially private", up(epsilon), given(delta))
    pure = text.take(rf"{NUMBER}-differentially private \(pure differential privacy\)", up(epsilon))
    large = text.take(rf"Epsilon is at most {NUMBER} {at_delta} per", up(epsilon), given(delta))
    nothing = text.take(rf"No finite epsilon is known {at_delta}: there is no guarantee", given(delta))
    none = text.take(rf"No finite epsilon holds {at_delta}: there is no guarantee", given(delta))
    at_one = text.take(r"At delta (1) an \(epsilon, delta\) pair", given(delta))
    is_small = all(each.code != "delta_not_small" or each.status != "present" for each in assessment.hazards)
    assert not pairs or (0 < delta < 1 and is_small)
    assert not pure or delta == 0
    assert not large or not is_small
    assert not nothing + none or (math.isinf(epsilon) and delta < 1)
    assert not none or math.isinf(lower)
    assert not at_one or delta == 1
    if assessment.gdp is not None:
        text.take(
            rf"{NUMBER}-Gaussian differential privacy wherever both error rates are at least {PERCENT}, with a regret "
            rf"of at most {NUMBER}\.",
            up(ends(assessment.gdp.mu)[1]),
            percent_exact(assessment.gdp.smallest_rate),
            up(ends(assessment.gdp.regret)[1]),
        )


def check_counts(text: Printed, assessment: AssessmentsResponse) -> None:
    """Check the numbers of assumptions and records that a text states."""
    text.take(rf"rest on {NUMBER} assumptions?", given(len(assessment.assumptions)))
    text.take(
        rf"; {NUMBER} (?:is|are) not attested", given(sum(each.holds == "unknown" for each in assessment.assumptions))
    )
    text.take(rf"with up to {NUMBER} records", given(assessment.judged_threat_model.records or 1))


def check_hazards(text: Printed, assessment: AssessmentsResponse) -> None:
    """Check the numbers in the texts of hazards and in their consequences, against the assessment."""
    context, point = assessment.context, assessment.one_point
    if point is not None:
        text.take(
            rf"From epsilon at delta {NUMBER} alone, an attack could identify up to {PERCENT} of the members at a "
            rf"false positive rate of {PERCENT}\. From the whole run, an attack identifies at most {PERCENT}\.",
            given(context.delta),
            percent_up(point.power_from_one_point),
            percent_exact(context.false_positive_rate),
            percent_up(power_of(assessment)[1]),
        )
    if context.dataset_size is None:
        text.take(rf"The limit here is at most {NUMBER}\.", down(1 / (context.batch_size or 1)))
    if context.dataset_size is not None:
        text.take(rf"The limit here is {NUMBER}\.", down(1 / context.dataset_size))
        if context.batch_size is not None:
            known = context.batch_size / context.dataset_size
            text.take(
                rf"differs from {NUMBER}, the rate of batches of {NUMBER} out of {NUMBER} records",
                up(known),
                given(context.batch_size),
                given(context.dataset_size),
            )
            text.take(rf"the rate of its batches, {NUMBER}", up(known))
    text.take(r"Epsilon is above (10),", given(10))
    consequences = [each for hazard in assessment.hazards for each in hazard.consequences]
    at_most = rf"(?:{NUMBER}|no finite number|says nothing)\."
    named = (
        rf"(?:Epsilon at delta {NUMBER}(?: \(which says nothing\))?|Epsilon of pure differential privacy \(delta 0\))"
    )
    found = re.findall(rf"{named}: at most {at_most}", text.left)
    assert not found or len(found) == len(consequences)
    for (delta, number), each in zip(found, consequences, strict=False):
        check_row(f"{delta}", [context.delta] if context.delta else [], 1)
        if number:
            up(ends(each.answer)[1])(number)
    text.left = re.sub(rf"{named}: at most {at_most}", " ", text.left)


def check_row(title: str, sent: list[float], scale: int) -> None:
    """Check that the numbers in a title are the sent ones, with all their digits."""
    assert [read(each) for each in re.findall(NUMBER, title)] == [Decimal(repr(each)) * scale for each in sent], title


class Expected(NamedTuple):
    """Expected row of a table: numbers of its title, whether they are shares, and its bounds."""

    sent: list[float]
    scale: int
    lower: float
    upper: float
    is_share: bool

    def check_title(self, title: str) -> None:
        check_row(title, self.sent, self.scale)

    def check_upper(self, text: str) -> None:
        """Check the table cell with an upper bound, in words if the bound is infinite."""
        if text == "no finite number":
            assert math.isinf(self.upper)
        elif text == "says nothing":
            assert self.sent == [1.0]
            assert self.scale == 1
        else:
            (percent_up if self.is_share else up)(self.upper)(text.removesuffix("\u00a0%"))
            assert text.endswith("%") == self.is_share

    def check_lower(self, text: str) -> None:
        """Check the table cell with a lower bound."""
        if text == "no finite number":
            assert math.isinf(self.lower)
        elif text:
            (percent_down if self.is_share else down)(self.lower)(text.removesuffix("\u00a0%"))
            assert text.endswith("%") == self.is_share


def expected_rows(attacked: AssessedThreatModel) -> Iterator[Expected]:
    """Yield the rows of the table of an attacker in order."""
    for answer in attacked.answers:
        if isinstance(answer, TradeOffAnswer):
            for point in answer.points:
                yield Expected([point["false_positive_rate"]], 100, *ends(point["power"]), is_share=True)
        else:
            yield _expected(answer)


def _expected(answer: Answer) -> Expected:
    assert not isinstance(answer, TradeOffAnswer)
    match answer.question:
        case EpsilonQuestion(delta=delta):
            return Expected([delta], 1, *ends(answer), is_share=False)
        case ReconstructionQuestion(baseline_success=float() as chance):
            return Expected([chance], 100, *ends(answer), is_share=True)
        case AttackAccuracyQuestion(prior=prior):
            return Expected([prior], 100, *ends(answer), is_share=True)
        case PositivePredictiveValueQuestion(prior=prior, false_positive_rate=float() as rate):
            return Expected([prior, rate], 100, *ends(answer), is_share=True)
        case _:
            assert answer.type == "advantage"
            return Expected([], 100, *ends(answer), is_share=True)
