"""Summaries: sentences for every combination of epsilon, delta, power and hazards claim no more than is known."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption
from api_schemas.assumptions_and_hazards import HazardCode
from api_schemas.mechanisms import GaussianMechanism
from api_schemas.threat_models import WorstCaseThreatModel
from service.rendering.sentences.statement import statement
from service.rendering.sentences.summary import MOST_WORDS, RunFacts, run_summary
from service.resources.assessments.effects import HAZARDS, NO_BOUND, POSSIBLE
from service.resources.assessments.premises import IF_NOT

LONG = " ".join("a" for _ in range(100))
CHANGED = (
    "All numbers are of the run with half the noise multiplier, because clipped averages of several gradients have "
    "twice the sensitivity, at the larger of both sampling rates, the stated one and that of its batches, 0.00426667, "
    "with batches 3 times as large, because the stated ones may be those of one backward pass, repeated 20 times with "
    "all results released, because the best of 20 runs was chosen."
)


def number(upper: float, lower: float | None = None) -> dict[str, Any]:
    return {"value": upper, "lower": upper if lower is None else lower, "upper": upper, **GROUNDS}


GROUNDS: dict[str, Any] = {"evidence": "certified", "source": "a theorem", "tight": True}


def assessment_of(
    *,
    epsilon: float = 1.5,
    power: float = 0.01,
    gamma: float = 0.02,
    hazards: tuple[dict[str, Any], ...] = (),
    holds: str = "unknown",
    changed: str | None = None,
    **context: Any,
) -> RunFacts:
    known = AssessmentContext.model_validate_json(json.dumps({"delta": 1e-5, **context}))
    curve = {"points": [{"false_positive_rate": known.false_positive_rate, "power": number(power)}], **GROUNDS}
    answers = [number(epsilon), number(0.1), curve, number(gamma), number(0.6), number(0.7)]
    code = "noise_is_fresh"
    assumption = AssessedAssumption.model_validate(
        {"code": code, "text": "Noise is fresh.", "holds": holds, "if_not": IF_NOT[code]}
    )
    run = GaussianMechanism(type="gaussian", noise_multiplier=1.0)
    worst = WorstCaseThreatModel(type="worst_case", records=known.records)
    return RunFacts(run, worst, known, answers, None, [assumption], hazards, changed)


def hazard(code: HazardCode, text: str, status: str, *, failed: bool = False) -> dict[str, Any]:
    """Return a hazard as an assessment has it. With `failed`, no remaining run can be described."""
    row = HAZARDS[code]
    effect, why = (row.effect, row.why) if status == "present" else ("none", POSSIBLE)
    effect, why = ("no_bound", NO_BOUND) if failed else (effect, why)
    assessment_of = {"code": code, "title": row.title, "text": text, "status": status, "remedy": row.remedy}
    return {**assessment_of, "effect": effect, "effect_text": why, "consequences": []}


NOT_SMALL = hazard("delta_not_small", "Delta is too large.", "present")
LITTLE = hazard("epsilon_says_little", "Epsilon is above 10.", "present")
FAILED = hazard("microbatches_double_sensitivity", "Averages were clipped.", "present", failed=True)
POISSON = hazard("poisson_sampling_assumed", "Batches were shuffled.", "present")


COMBINATIONS = itertools.product(
    (0.0, 1.5, 50.0, math.inf),
    (0.0, 1e-5, 0.01, 1.0),
    (0.0, 1e-9, 0.01, 0.9995, 1.0),
    (0.0, 1e-3, 1.0),
    ((), (NOT_SMALL,), (LITTLE,)),
)


def test_every_combination_has_valid_words() -> None:
    for combination in COMBINATIONS:
        check_words(*combination)


def check_words(epsilon: float, delta: float, power: float, rate: float, hazards: tuple[dict[str, Any], ...]) -> None:
    summary = run_summary(
        assessment_of(epsilon=epsilon, delta=delta, power=power, hazards=hazards, false_positive_rate=rate)
    )
    text = summary.paragraph
    for never in ("(0, 1)", ", 1)-", ", 0)-", "Infinity", "inf", "nan", "None"):
        assert never not in text
    is_promised = math.isfinite(epsilon) and delta < 1 and NOT_SMALL not in hazards
    assert ("differentially private" in text) == is_promised
    is_doubtful = NOT_SMALL in hazards and math.isfinite(epsilon)
    assert ("pure differential privacy" in text) == (delta == 0 and not is_doubtful)
    assert ("no guarantee" in text) == (delta == 1 or math.isinf(epsilon))
    assert ("the pair guarantees nothing" in text) == (NOT_SMALL in hazards and delta < 1 and math.isfinite(epsilon))
    assert "at most 100" not in text
    assert ("may identify all" in summary.sentence) == (power > 0.999)
    assert ("identifies none" in summary.sentence) == (power == 0)
    assert summary.sentence in text
    assert len(text.split()) <= MOST_WORDS


@pytest.mark.parametrize(
    ("unit", "records", "noun", "held"),
    [
        ("example", None, "records", "per record."),
        ("user", 1, "users", "per user."),
        ("user", 4, "users", "per user with up to 4 records."),
        ("device", None, "records", "per record of one device."),
        ("household", 2, "households", "per household with up to 2 records."),
    ],
)
def test_privacy_unit_is_named(unit: str, records: int | None, noun: str, held: str) -> None:
    more: dict[str, Any] = {} if records is None else {"records": records}
    summary = run_summary(assessment_of(privacy_unit=unit, **more))
    assert summary.sentence == (
        f"An attacker who wrongly accuses 0.1\u00a0% of the {noun} outside the data identifies at most 1\u00a0% of the "
        f"{noun} inside."
    ).replace("at most 1\u00a0%", "at most 1.01\u00a0%")  # The double 0.01 is slightly above a hundredth.
    assert held in summary.paragraph


def test_subject_and_date_are_named() -> None:
    subject = {"name": "next-word model", "version": "2.1"}
    text = run_summary(assessment_of(subject=subject, date="2026-10-01")).paragraph
    assert text.startswith("Assessment of next-word model, version 2.1 on 2026-10-01. The run: Gaussian mechanism")
    assert run_summary(assessment_of(date="2026-10-01")).paragraph.startswith("Assessed on 2026-10-01. ")


@pytest.mark.parametrize("hazards", [(), (LITTLE,), (NOT_SMALL,), (FAILED,), (POISSON,)])
@pytest.mark.parametrize("holds", ["yes", "no", "unknown"])
def test_paragraphs_are_short_for_long_input(hazards: tuple[dict[str, Any], ...], holds: str) -> None:
    one = hazard("one_record_is_protected", "One record.", "possible")
    subject = {"name": LONG, "version": LONG}
    known = assessment_of(
        hazards=(*hazards, one), holds=holds, changed=CHANGED, subject=subject, date="2026-10-01", delta=1.23456789e-5
    )
    assert len(run_summary(known).paragraph.split()) <= MOST_WORDS


@pytest.mark.parametrize(
    ("hazards", "holds"), [((), "no"), ((FAILED,), "unknown"), ((POISSON,), "no"), ((FAILED,), "no")]
)
def test_nothing_is_claimed_without_a_bound(hazards: tuple[dict[str, Any], ...], holds: str) -> None:
    known = assessment_of(hazards=hazards, holds=holds, released="last_model", privacy_unit="user", records=4)
    summary = run_summary(known)
    assert not summary.bounded
    for text in (summary.sentence, summary.paragraph, statement(known, None, "{}", "x")):
        for never in ("at most", "at least", "differential privacy", "differentially private", "numbers hold", "%"):
            assert never not in text
    assert "Nothing is proved" in summary.sentence
    assert "othing is proved" in summary.paragraph
    if holds == "no":
        assert "noise_is_fresh is attested not to hold" in summary.paragraph
    else:
        assert HAZARDS["microbatches_double_sensitivity"].title in summary.paragraph


def test_estimate_is_called_an_estimate() -> None:
    known = assessment_of()
    [epsilon, *others] = known.answers
    curve = others[1]
    estimate = {"value": 0.5, "lower": None, "upper": None}
    points = [{"false_positive_rate": 1e-3, "power": estimate}]
    answers = [{**epsilon, **estimate}, others[0], {**curve, "points": points}, {**others[2], **estimate}, *others[3:]]
    text = run_summary(known._replace(answers=answers)).paragraph
    assert text.count("about") == 3
    assert "at most" not in text
    assert "rounded to the safe side" not in statement(known._replace(answers=answers), None, "{}", "x")
