"""Three headline numbers of a report, each with upper bound, lower bound, and the value without the release."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, NamedTuple, final

from api_schemas.answers import ProbabilityAnswer, TradeOffAnswer
from api_schemas.assessments import AssessmentsResponse
from service.rendering.numbers import percent_down, percent_exact, percent_up
from service.rendering.sentences.units import members

SMALLEST_DECADE: Final = -6


@final
class HeadlineNumber(NamedTuple):
    """Headline number as the report shows it.

    `share` is the number in percent, `between` its bounds in words. `bar` has the value of guessing, the lower bound
    and the upper bound as positions in percent of the width, or None for an approximation. `scale` says in words which
    range the bar shows ("0 to 100 %"), and is empty without a bar.
    """

    title: str
    share: str
    sentence: str
    between: str
    bar: tuple[float, float, float] | None
    scale: str


def headline_numbers(response: AssessmentsResponse) -> list[HeadlineNumber]:
    """Return power, reconstruction and accuracy of the worst case as headline numbers.

    A number that the assessment could not answer is left out. The list is empty if nothing is proved about the run.
    """
    if not response.summary.bounded:
        return []
    context, (_, _, curve, reconstruction, accuracy, _) = response.context, response.threat_models[0].answers
    found: list[HeadlineNumber] = []
    rate, chance, prior = context.false_positive_rate, context.baseline_success, context.prior
    if isinstance(curve, TradeOffAnswer):
        power = next(each["power"] for each in curve.points if each["false_positive_rate"] == rate)
        who = members(context, response.judged_threat_model)
        accused = f"wrongly accuses {percent_exact(rate)} of the {who} outside."
        sentence = f"of the {who} inside are identified by an attacker who {accused}"
        ends = power["value"], power["lower"], power["upper"]
        found.append(
            _headline_number(
                "Membership", sentence, ends, rate, f"Guessing identifies {percent_exact(rate)}.", curve.evidence
            )
        )
    if isinstance(reconstruction, ProbabilityAnswer):
        sentence = f"is the chance to reconstruct a record whose chance without the release is {percent_exact(chance)}."
        ends = reconstruction.value, reconstruction.lower, reconstruction.upper
        guess = f"Without the release it is {percent_exact(chance)}."
        found.append(_headline_number("Reconstruction", sentence, ends, chance, guess, reconstruction.evidence))
    if isinstance(accuracy, ProbabilityAnswer):
        sentence = f"of the guesses about membership are right, at a prior of {percent_exact(prior)}."
        ends = accuracy.value, accuracy.lower, accuracy.upper
        start = max(prior, 1 - prior)
        guess = f"Guessing is right in {percent_exact(max(Decimal(repr(prior)), 1 - Decimal(repr(prior))))}."
        found.append(_headline_number("Accuracy", sentence, ends, start, guess, accuracy.evidence, linear=True))
    return found


def _headline_number(
    title: str,
    sentence: str,
    ends: tuple[float, float | None, float | None],
    start: float,
    guess: str,
    evidence: str,
    *,
    linear: bool = False,
) -> HeadlineNumber:
    value, lower, upper = ends
    if lower is None or upper is None:
        return HeadlineNumber(
            title, f"about {percent_up(value)}", sentence, f"An approximation without bounds. {guess}", None, ""
        )
    between = f"Between {percent_down(lower)} and {percent_up(upper)}, {evidence}. {guess}"
    places = tuple(_place(number, linear=linear) for number in (start, lower, upper))
    scale = "0 to 100 %" if linear else "0.0001 % to 100 %, logarithmic"
    bar = (places[0], places[1], places[2])
    return HeadlineNumber(title, f"at most {percent_up(upper)}", sentence, between, bar, scale)


def _place(number: float, *, linear: bool) -> float:
    if linear:
        return round(100 * number, 3)
    decade = math.log10(number) if number > 0 else SMALLEST_DECADE
    return round(100 * (1 - max(decade, SMALLEST_DECADE) / SMALLEST_DECADE), 3)
