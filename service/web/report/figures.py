"""The three numbers of a report: at most so large, at least so large, and how large without the release."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, NamedTuple, final

from api_schemas.answers import ProbabilityAnswer, TradeOffAnswer
from api_schemas.assessments import AssessmentsResponse
from service.interop.numbers import percent_down, percent_given, percent_up
from service.interop.reports.units import members

SMALLEST_DECADE: Final = -6


@final
class Figure(NamedTuple):
    """One number as it is shown. `share`: as a percentage; `between`: its ends; `bar`: where they are drawn, in percent
    of the width: guessing, lower end, upper end; None where there is no bound.
    """

    title: str
    share: str
    sentence: str
    between: str
    bar: tuple[float, float, float] | None
    scale: str


def figures(response: AssessmentsResponse) -> list[Figure]:
    """Return power, reconstruction and accuracy of the worst case. Nothing where nothing is proved about the run."""
    if not response.summary.bounded:
        return []
    context, (_, _, curve, reconstruction, accuracy, _) = response.context, response.threat_models[0].answers
    found: list[Figure] = []
    rate, chance, prior = context.false_positive_rate, context.baseline_success, context.prior
    if isinstance(curve, TradeOffAnswer):
        power = next(each["power"] for each in curve.points if each["false_positive_rate"] == rate)
        who = members(context, response.judged_threat_model)
        accused = f"wrongly accuses {percent_given(rate)} of those outside."
        sentence = f"of the {who} inside are identified by an attacker who {accused}"
        ends = power["value"], power["lower"], power["upper"]
        found.append(
            _figure("Membership", sentence, ends, rate, f"Guessing identifies {percent_given(rate)}.", curve.evidence)
        )
    if isinstance(reconstruction, ProbabilityAnswer):
        sentence = f"is the chance to reconstruct a record whose chance without the release is {percent_given(chance)}."
        ends = reconstruction.value, reconstruction.lower, reconstruction.upper
        guess = f"Without the release it is {percent_given(chance)}."
        found.append(_figure("Reconstruction", sentence, ends, chance, guess, reconstruction.evidence))
    if isinstance(accuracy, ProbabilityAnswer):
        sentence = f"of the guesses about membership are right, at a prior of {percent_given(prior)}."
        ends = accuracy.value, accuracy.lower, accuracy.upper
        start = max(prior, 1 - prior)
        guess = f"Guessing is right in {percent_given(max(Decimal(repr(prior)), 1 - Decimal(repr(prior))))}."
        found.append(_figure("Accuracy", sentence, ends, start, guess, accuracy.evidence, linear=True))
    return found


def _figure(
    title: str,
    sentence: str,
    ends: tuple[float, float | None, float | None],
    start: float,
    guess: str,
    evidence: str,
    *,
    linear: bool = False,
) -> Figure:
    value, lower, upper = ends
    if lower is None or upper is None:
        return Figure(title, f"about {percent_up(value)}", sentence, f"An approximation, no bound. {guess}", None, "")
    between = f"Between {percent_down(lower)} and {percent_up(upper)}, {evidence}. {guess}"
    places = tuple(_place(number, linear=linear) for number in (start, lower, upper))
    scale = "0 to 100 %" if linear else "0.0001 % to 100 %, logarithmic"
    bar = (places[0], places[1], places[2])
    return Figure(title, f"at most {percent_up(upper)}", sentence, between, bar, scale)


def _place(number: float, *, linear: bool) -> float:
    if linear:
        return round(100 * number, 3)
    decade = math.log10(number) if number > 0 else SMALLEST_DECADE
    return round(100 * (1 - max(decade, SMALLEST_DECADE) / SMALLEST_DECADE), 3)
