"""Attestations that a policy requires, compared with those of the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption
from api_schemas.assumptions_and_hazards import AssumptionCode
from api_schemas.policies import Policy, Requirement, RequirementStatus

NOT_KEPT: Final[tuple[RequirementStatus, ...]] = ("missing", "refuted")


def requirements_of(
    policy: Policy, assumptions: Sequence[AssessedAssumption], context: AssessmentContext
) -> list[Requirement]:
    """Return the status of every attestation that `policy` requires.

    `assumptions` are those behind the limits of the policy, with the attestations in `context`.
    """
    known = {each.code: each for each in assumptions}
    attested = {each.code for each in context.attested}
    if policy.requires is None:
        return []
    codes: list[AssumptionCode] = [each.code for each in assumptions]
    if policy.requires != "all":
        codes = [each.assumption for each in policy.requires]
    return [_requirement(code, known.get(code), code in attested) for code in codes]


def _requirement(code: AssumptionCode, found: AssessedAssumption | None, is_attested: bool) -> Requirement:
    if found is None:
        return Requirement(assumption=code, status="not_applicable")
    status: RequirementStatus = "missing" if found.holds == "unknown" else "refuted"
    if found.holds == "yes":
        status = "attested" if is_attested else "stated"
    return Requirement(assumption=code, status=status, by=found.by, when=found.when)


def missing_of(requirements: Sequence[Requirement]) -> list[AssumptionCode]:
    """Return the codes of the assumptions whose attestation is required but missing or invalid."""
    return [each.assumption for each in requirements if each.status in NOT_KEPT]
