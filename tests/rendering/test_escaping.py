"""Client texts: escaped in Markdown, HTML and file names, unchanged in JSON."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from api_schemas.assessments import AssessmentsResponse
from service.rendering.documents.escaping import LONGEST_NAME, file_name, plain, prose
from service.rendering.documents.markdown import model_card
from service.rendering.documents.mlflow import mlflow_run
from service.rendering.registry import HTML, renderings_of
from service.rendering.report.html import render_report
from tests.rendering.assessment_space import HOSTILE, respond
from tests.rendering.page_text import page_text

NAMES = (
    *HOSTILE,
    "' onload='alert(1)",
    "</title><img src=x>",
    "%s {{ 7*7 }} ${x}",
    "../../etc/passwd",
    "\u200fgnp.exe",
)
MARKUP = re.compile(r"[<>|`*\[\]]")


def response(name: str, holds: str) -> AssessmentsResponse:
    rule = {"name": name, "question": {"type": "advantage"}, "at_most": 0.1}
    attested = [{"code": "noise_is_fresh", "holds": holds, "by": name}]
    subject = {"name": name, "version": name, "uri": "https://models.example.org/a?b=c&d"}
    return respond(
        {
            "mechanism": {"type": "gaussian", "noise_multiplier": 2.0},
            "context": {
                "delta": 1e-5,
                "subject": subject,
                "prepared_by": name,
                "date": "2026-10-01",
                "attested": attested,
            },
            "policy": {"name": name, "revision": name, "rules": [rule], "requires": "all"},
        }
    )


@pytest.mark.parametrize("holds", ["yes", "no"])
@pytest.mark.parametrize("name", NAMES)
def test_names_stay_plain_text_in_every_rendering(name: str, holds: str) -> None:
    assessment = response(name, holds)
    sent: Any = json.loads(assessment.json_bytes())
    assert sent["context"]["subject"]["name"] == name
    assert sent["context"]["prepared_by"] == name
    assert sent["decision"]["name"] == name
    page = render_report(assessment, [], [], [assessment.digest]).decode()
    if MARKUP.search(name) and not name.isalnum():
        assert name not in model_card(assessment)
    if set(name) & set("<>&'\""):
        assert name not in page
    assert " ".join(name.split()) in " ".join(page_text(page).split())
    assert not re.search(r"<(script|img|b)\b", model_card(assessment) + page)
    tags = json.loads(mlflow_run(assessment))["tags"]
    assert tags["dp.subject"] == tags["dp.prepared_by"] == tags["dp.policy_name"] == name
    saved = renderings_of("assessments")[HTML].file_name
    assert saved is not None
    assert re.fullmatch(r"[A-Za-z0-9-]{1,180}\.html", saved(assessment.json_bytes()))


@pytest.mark.parametrize("name", NAMES)
def test_escaped_names_are_displayed_as_sent(name: str) -> None:
    for escape in (plain, prose):
        assert html.unescape(escape(name)) == html.unescape(name) or "&" in name
        assert not MARKUP.search(escape(name))
        assert not re.search(r"://|www\.|(?<!&#\d\d)(?<!&#\d)@", escape(name), re.IGNORECASE)
        assert html.unescape(escape(escape(name))) == escape(name)


def test_own_sentences_stay_readable_in_markdown() -> None:
    text = "It is (1.51, 1e-06)-differentially private. The run: DP-SGD, 15 epochs; sampling_is_poisson does not hold."
    assert prose(text) == text
    assert prose("_a_ b_") == "&#95;a&#95; b&#95;"


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("next-word model", "next-word-model"),
        ("Größe 3", "Gro-e-3"),
        ("模型", ""),
        ("../..", ""),
        ("a" * 200, "a" * 80),
    ],
)
def test_file_names_have_letters_and_digits_only(name: str, saved: str) -> None:
    found = file_name(name)
    assert len(found) <= LONGEST_NAME
    assert found == saved or (name.startswith("Gr") and re.fullmatch(r"[A-Za-z0-9-]+", found))


def test_report_without_subject_has_file_name() -> None:
    saved = renderings_of("assessments")[HTML].file_name
    assert saved is not None
    assessment = respond({"mechanism": {"type": "gaussian", "noise_multiplier": 2.0}, "context": {"delta": 1e-5}})
    assert saved(assessment.json_bytes()) == "privacy-report.html"
