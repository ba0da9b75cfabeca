"""Every number printed about an assessment is rounded to the safe side of its enclosure, over seeded requests."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context

import pytest

from api_schemas.assessments import AssessmentsResponse
from service.rendering.documents.escaping import plain, prose
from service.rendering.documents.markdown import model_card
from service.rendering.documents.plain_text import plain_text
from service.rendering.report.guideline_map import guidelines
from service.rendering.report.html import render_report
from service.rendering.sentences.summary import LONGEST_RUN
from service.rendering.sentences.title import run_title
from service.resources.digest import canonical_text
from tests.rendering.assessment_space import assessment, drawn
from tests.rendering.assessment_texts import (
    check_attack,
    check_counts,
    check_hazards,
    check_pair,
    check_reconstruction,
    expected_rows,
)
from tests.rendering.page_text import page_text, section_of, table_of
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
)
from tests.rendering.report_texts import check_attackers_table, check_figures
from tests.slow_marker import sample_of, thorough

BLOCK = 10
BLOCKS = [*range(6), *map(thorough, range(6, 50))]
BOUND_WORDS = re.compile(
    r"at most|at least|no more than \d|differential(ly)? priva|may identify|identifies|stay bounds", re.IGNORECASE
)


def sent_texts(response: AssessmentsResponse) -> list[str]:
    """Return the client texts, as renderings show them."""
    context, decision, subject = response.context, response.decision, response.context.subject
    sent = [context.date, context.prepared_by, *(each.by for each in response.assumptions)]
    if subject is not None:
        sent += [subject.name, subject.version, subject.uri]
        sent += [
            " ".join((*text.split()[:most], "…")) for text, most in ((subject.name, 8), (subject.version or "", 3))
        ]
    if decision is not None:
        sent += [decision.name, *(each.rule.name for each in decision.rulings)]
    found = [text for text in sent if text]
    return [*found, *map(prose, found), *map(plain, found)]


def known_texts(response: AssessmentsResponse) -> list[str]:
    """Return texts without results: client texts, texts of the core, and texts that other tests check."""
    decision = response.decision
    ruled = () if decision is None else (decision.sentence, *(each.meaning for each in decision.rulings))
    fixed = [text for each in response.assumptions for text in (each.text, each.if_not)]
    fixed += [text for each in response.hazards for text in (each.title, each.effect_text, each.remedy)]
    fixed += [each.text for each in response.hazards if each.code == "large_sample_rate"]
    fixed += [note for each in response.threat_models for answer in each.answers for note in answer.notes]
    fixed += [each.source for each in response.threat_models[0].answers]
    fixed += [response.summary.title, run_title(response.mechanism, LONGEST_RUN), canonical_text(response.mechanism)]
    return [*fixed, *ruled, *map(prose, ruled), *sent_texts(response), response.digest, response.engine_version]


def check_text(text: Printed, response: AssessmentsResponse) -> None:
    """Check the numbers in a text in sentences until no number is left."""
    check_hazards(text, response)
    text.without(
        [] if response.judged_as is None else [re.sub(rf"(?<=batches, ){NUMBER}", "", response.judged_as.text)]
    )
    text.take(rf"with batches {NUMBER} times as large", given(response.context.gradient_accumulation_steps or 1))
    text.take(rf"all {NUMBER} backward passes", given(response.context.gradient_accumulation_steps or 1))
    runs = given(response.context.tuning_runs or 1)
    text.take(rf"selected as the best of {NUMBER} runs", runs)
    text.without(known_texts(response))
    check_attack(text, response)
    check_reconstruction(text, response)
    check_pair(text, response)
    check_counts(text, response)
    text.without(
        [
            "1. Setting",
            "2. Definition",
            "3. Accounting",
            "4. Verification",
            "SHA-256",
            "1/dataset_size",
        ]
    )
    text.check_no_number_left()


def check_margins(text: Printed, response: AssessmentsResponse) -> None:
    """Check the printed margins between the answers and the limits of a policy, in the order of its rules."""
    rulings = () if response.decision is None or not response.summary.bounded else response.decision.rulings
    known = ((each.rule.limit, each.margin) for each in rulings if each.margin is not None)
    checks = [percent_down(margin) if limit else down(margin) for limit, margin in known]
    text.take_in_order(rf"margin {NUMBER}(?:\u00a0%)?", checks)


def check_summary(response: AssessmentsResponse) -> None:
    summary = response.summary
    for text in (summary.sentence, summary.paragraph):
        check_text(Printed(text), response)
    assert len(summary.paragraph.split()) <= 120
    assert summary.sentence in summary.paragraph or not summary.bounded


def check_statement(response: AssessmentsResponse) -> None:
    for document in (response.statement, plain_text(response)):
        text = Printed(document)
        check_margins(text, response)
        check_probabilities(text, response)
        check_text(text, response)


def check_card(response: AssessmentsResponse) -> None:
    card = model_card(response)
    rows = re.findall(r"^\| (.*) \| (.*) \| (.*) \| (?:certified|exact|proved) \|$", card, re.MULTILINE)
    expected = (
        [row for each in response.threat_models for row in expected_rows(each)] if response.summary.bounded else []
    )
    for (title, upper, lower), row in zip(rows, expected, strict=True):
        row.check_title(title)
        row.check_upper(upper)
        row.check_lower(lower)
    text = Printed(re.sub(r"^\| .* \| (?:certified|exact|proved) \|$", "", card, flags=re.MULTILINE))
    decision = response.decision
    if decision is not None:
        text.without([decision.id, decision.policy])
    check_margins(text, response)
    check_text(text, response)


def check_report(response: AssessmentsResponse) -> None:
    page = render_report(response, [], [], [response.digest]).decode()
    attackers, policy = section_of(page, "attackers"), section_of(page, "policy")
    rulings = () if response.decision is None or not response.summary.bounded else response.decision.rulings
    for (_, _, margin), each in zip(table_of(policy), rulings, strict=True):
        if each.margin is not None:
            shown = margin.removesuffix("\u00a0%")
            (percent_down if each.rule.limit else down)(each.margin)(shown)
        else:
            assert margin == ""
    check_attackers_table(attackers, response)
    for part in filter(None, (attackers, policy)):
        page = page.replace(part, " ")
    text = Printed(page_text(page))
    text.without(part for each in guidelines(response) for clause in each.clauses for part in (each.name, *clause))
    if response.decision is not None:
        text.without([response.decision.id, response.decision.policy])
    check_figures(text, response)
    text.without(["(RFC 8785)"])
    check_margins(text, response)
    check_probabilities(text, response)
    check_text(text, response)


def check_probabilities(text: Printed, response: AssessmentsResponse) -> None:
    """Check the sentences about advantage, guesses and accusations, which only a statement has."""
    _, advantage, _, _, accuracy, precision = response.threat_models[0].answers
    text.take(rf"exceeds the rate by at most {NUMBER} percentage points", percent_up(ends(advantage)[1]))
    text.take(
        rf"At a prior of {PERCENT} at most {PERCENT} of guesses about membership are right\. At a false positive "
        rf"rate of {PERCENT} at most {PERCENT} of accusations are right",
        percent_exact(response.context.prior),
        percent_up(ends(accuracy)[1]),
        percent_exact(response.context.false_positive_rate),
        percent_up(ends(precision)[1]),
    )


CHECKS: tuple[Callable[[AssessmentsResponse], None], ...] = (check_summary, check_statement, check_card, check_report)


@sample_of(3)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_printed_number_is_rounded_to_safe_side(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        response = assessment(seed)
        for check in CHECKS:
            check(response)
        if not response.summary.bounded:
            check_that_nothing_is_claimed(response)


def check_that_nothing_is_claimed(response: AssessmentsResponse) -> None:
    """Check that texts about an unbounded run contain no words of a bound."""
    page = render_report(response, [], [], [response.digest]).decode()
    documents = (
        response.summary.sentence,
        response.summary.paragraph,
        response.statement,
        plain_text(response),
        model_card(response),
        page_text(page),
    )
    for document in documents:
        text = Printed(document)
        text.without([*sent_texts(response), *(each.name for each in guidelines(response))])
        assert not BOUND_WORDS.search(text.left), BOUND_WORDS.search(text.left)


def test_seeds_have_runs_of_every_kind() -> None:
    response = [assessment(seed) for seed in range(6 * BLOCK)]
    assert sum(not each.summary.bounded for each in response) >= 5
    assert sum(each.decision is not None and each.summary.bounded for each in response) >= 5
    assert sum(each.judged_as is not None for each in response) >= 5
    assert sum(each.gdp is not None for each in response) >= 5
    assert sum(each.one_point is not None for each in response) >= 5
    assert sum(each.context.delta in (0, 1) for each in response) >= 2


FORMATTERS = (
    ("service.rendering.sentences.guarantee", "percent_up"),
    ("service.rendering.sentences.guarantee", "rounded_up"),
    ("service.rendering.documents.rows", "percent_up"),
    ("service.rendering.documents.rows", "percent_down"),
    ("service.rendering.documents.rows", "rounded_up"),
    ("service.rendering.documents.rows", "rounded_down"),
    ("service.rendering.sentences.outcome", "percent_down"),
    ("service.rendering.sentences.statement", "percent_up"),
    ("service.rendering.sentences.statement", "points_up"),
    ("service.resources.assessments.hazards", "percent_up"),
    ("service.rendering.report.headline_numbers", "percent_up"),
    ("service.rendering.report.headline_numbers", "percent_down"),
    ("service.rendering.report.html", "percent_up"),
    ("service.rendering.report.html", "rounded_up"),
)
WRITTEN_LATER = (
    "service.rendering.documents.rows",
    "service.rendering.report.headline_numbers",
    "service.rendering.report.html",
)


@sample_of(4)
@pytest.mark.parametrize(("module", "name"), FORMATTERS)
def test_rounding_to_nearest_is_detected(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks above fail if any one formatter rounds to nearest."""
    percent, points = name.startswith("percent"), name.startswith("points")

    def nearest(value: float, digits: int = 3) -> str:
        rounded = Context(prec=digits, rounding=ROUND_HALF_EVEN).create_decimal_from_float(value)
        shown = (100 * rounded if percent or points else rounded).normalize()
        return f"{shown:f}\u00a0%" if percent else f"{shown:f}"

    monkeypatch.setattr(importlib.import_module(module), name, nearest)
    with pytest.raises(AssertionError, match="bound of"):
        check_seeds(is_written_anew=module not in WRITTEN_LATER)


def check_seeds(*, is_written_anew: bool) -> None:
    """Check the texts of the first seeds. Responses that contain the texts are computed again."""
    for seed in range(6 * BLOCK):
        response = drawn(seed)[1] if is_written_anew else assessment(seed)
        for check in CHECKS:
            check(response)
