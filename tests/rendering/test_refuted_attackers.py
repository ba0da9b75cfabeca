"""Attackers with a refuted assumption: their numbers appear in no text, and every attestation is kept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from service.engine_version import ENGINE_VERSION
from service.importers.catalogue import validate_with_imports
from service.rendering.chart_catalogue import assessment_dependencies
from service.rendering.documents import DOCUMENT_WRITERS
from service.rendering.report.html import render_report
from service.resources.assessments.assessment import ASSESSMENTS

NAME = "sha256:" + "0" * 64
GAUSSIAN: dict[str, Any] = {"type": "gaussian", "noise_multiplier": 2.0}
ABOUT_GLRT = ("direction_unknown", "noise_equal_on_all_coordinates")
ABOUT_ALL = ("sensitivity_bounded", "noise_is_fresh")


def assessed(**context: Any) -> AssessmentsResponse:
    sent = {"mechanism": GAUSSIAN, "context": {"delta": 1e-5, "dimension": 50, **context}}
    return ASSESSMENTS.response(
        validate_with_imports(AssessmentsRequest, json.dumps(sent).encode()), NAME, ENGINE_VERSION
    )


def page(response: AssessmentsResponse) -> str:
    return render_report(response, [], [], [response.digest]).decode()


@pytest.mark.parametrize("code", ABOUT_GLRT)
def test_numbers_of_refuted_attacker_appear_in_no_text(code: str) -> None:
    answer, plain = assessed(attested=[{"code": code, "holds": "no"}]), assessed()
    [worst, glrt] = answer.threat_models
    power = glrt.answers[2].points[2]["power"]["value"]  # type: ignore[union-attr]
    shown = f"{100 * power:.2g}"
    for name, write in (*DOCUMENT_WRITERS.items(), ("text/html", page)):
        text = write(answer)
        assert "dp.glrt" not in text, name
        assert not re.search(r"\(attacker glrt", text), name
        if shown in write(plain):
            assert shown not in text, name
    assert "An assumption about this attacker does not hold." in DOCUMENT_WRITERS["text/markdown"](answer)
    assert "An assumption about this attacker does not hold." in page(answer)
    assert worst.answers == plain.threat_models[0].answers
    [curves, *_] = assessment_dependencies(answer)
    assert [each.type for each in curves.request.threat_models] == ["worst_case"]  # type: ignore[union-attr]


def test_anonymous_attestation_is_not_reported_as_nobody() -> None:
    answer = page(assessed(attested=[{"code": code, "holds": "yes"} for code in ABOUT_ALL]))
    assert "no name was given" in answer
    assert ">not attested" not in answer
    assert "Assumptions: 2, of which 0 are not attested." in answer
    assert ">not attested" in page(assessed())
