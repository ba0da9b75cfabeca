"""Meaning of the numbers that only a report has: its headline numbers and its table of attackers."""

from __future__ import annotations

from api_schemas.assessments import AssessmentsResponse
from tests.rendering.assessment_texts import expected_rows, power_of
from tests.rendering.page_text import table_of
from tests.rendering.printed_numbers import (
    NUMBER,
    PERCENT,
    Printed,
    ends,
    given,
    percent_down,
    percent_exact,
    percent_up,
    read,
    up,
)


def check_attackers_table(section: str, assessment: AssessmentsResponse) -> None:
    """Check the table of a report: one row for each number, one column for each attacker."""
    rows = table_of(section)[:-1]
    columns = [list(expected_rows(each)) for each in assessment.threat_models] if assessment.summary.bounded else []
    assert len(rows) == (len(columns[0]) if columns else 0)
    for place, (title, *cells) in enumerate(rows):
        columns[0][place].check_title(title)
        for cell, column in zip(cells, columns, strict=True):
            upper, _, lower = cell.partition(" at least ")
            column[place].check_upper(upper)
            column[place].check_lower(lower)


def check_figures(text: Printed, assessment: AssessmentsResponse) -> None:
    """Check the three headline numbers of a report, and the sentence about one point."""
    context, point = assessment.context, assessment.one_point
    _, _, _, gamma, accuracy, _ = assessment.threat_models[0].answers
    rate, chance = context.false_positive_rate, context.baseline_success
    for truth, sentence, sent, guess, guessed in (
        (
            power_of(assessment),
            rf"of the \w+ inside are identified by an attacker who wrongly accuses {PERCENT} of the \w+ outside\.",
            rate,
            "Guessing identifies",
            rate,
        ),
        (
            ends(gamma),
            rf"is the chance to reconstruct a record whose chance without the release is {PERCENT}\.",
            chance,
            "Without the release it is",
            chance,
        ),
        (
            ends(accuracy),
            rf"of the guesses about membership are right, at a prior of {PERCENT}\.",
            context.prior,
            "Guessing is right in",
            None,
        ),
    ):
        lower, upper = truth
        pattern = (
            rf"at most {PERCENT} {sentence} (?:0\.0001|0)(?:\u00a0%)? to 100\u00a0%(?:, logarithmic)? "
            rf"Between {PERCENT} and {PERCENT}, \w+\. {guess} {PERCENT}\."
        )

        def exactly(printed: str, sent: float | None = guessed) -> None:
            if sent is not None:
                percent_exact(sent)(printed)
            else:
                prior = read(repr(context.prior))
                assert read(printed) == 100 * max(prior, 1 - prior)

        found = text.take(
            pattern, percent_up(upper), percent_exact(sent), percent_down(lower), percent_up(upper), exactly
        )
        assert found == assessment.summary.bounded
    if point is not None:
        text.take(
            rf"From epsilon {NUMBER} at delta {NUMBER} alone, an attack could identify {PERCENT} of the members "
            rf"at a false positive rate of {PERCENT}\. From the whole run, an attack identifies at most {PERCENT}\.",
            up(point.epsilon),
            given(context.delta),
            percent_up(point.power_from_one_point),
            percent_exact(rate),
            percent_up(point.power),
        )
