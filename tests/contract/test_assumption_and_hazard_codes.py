"""Codes of assumptions and hazards: the codes in the service are exactly those of the contract."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from api_schemas.assumptions_and_hazards import AssumptionCode, HazardCode
from api_schemas.fields import shape_of
from service.resources.assessments.effects import HAZARDS

FILE = "api_schemas/assumptions_and_hazards.py"
SOURCES = [path.read_text("utf-8") for path in (Path(__file__).parents[2] / "service").rglob("*.py")]


def written(pattern: str) -> set[str]:
    return {code for source in SOURCES for code in re.findall(pattern, source)}


def test_assumption_codes_in_service_match_contract() -> None:
    codes = written(r'(?:\bPremise|_assume)\(\s*(?:code=)?"(\w+)"') | written(r'\bAssumption\(\s*code="(\w+)"')
    assert codes == set(shape_of(AssumptionCode).choices), f"edit AssumptionCode in {FILE}"


def test_hazard_codes_in_service_match_contract() -> None:
    codes = written(r"""(?:Hazard|\b_hazard|\bChange)\(\s*(?:code=)?"(\w+)" """.strip())
    assert codes == set(shape_of(HazardCode).choices), f"edit HazardCode in {FILE}"
    assert codes == set(HAZARDS), "edit HAZARDS in service/resources/assessments/effects.py"


@pytest.mark.parametrize("listed", [AssumptionCode, HazardCode])
def test_codes_are_sorted(listed: object) -> None:
    choices = shape_of(listed).choices
    assert list(choices) == sorted(choices), FILE
