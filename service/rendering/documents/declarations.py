"""Declarations of a CycloneDX document: limits and assumptions as claims, with evidence and attestations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from api_schemas.assessment_context import Attestation
from api_schemas.assessments import AssessedAssumption, AssessmentsResponse
from api_schemas.policies import Ruling
from service.rendering.documents.metrics import is_bounded
from service.rendering.sentences.void import refuted

SUBJECT: Final = "subject"
RESULT: Final = "result"
VERDICT: Final = "verdict"
"""Identifier of the claim that states the verdict."""
SIDES: Final = {"met": "evidence", "violated": "counterEvidence"}
"""Role of the result for the claim of a limit. An undecided limit has no evidence."""


def declarations(response: AssessmentsResponse) -> dict[str, Any]:
    """Return the member `declarations` of a CycloneDX document: claims about the subject, evidence, and attestations.

    Without a policy no verdict and no limit is claimed. If no number is bounded, no limit is claimed. The claims are
    then the verdict and the refuted assumptions.
    """
    attested = response.context.attested
    names = list(dict.fromkeys(each.by for each in attested if each.by is not None))
    claimed = {each.code: each for each in _attested_assumptions(response)}
    assessors = [{"bom-ref": f"assessor-{index}", "organization": {"name": name}} for index, name in enumerate(names)]
    attestations = [_cyclonedx_attestation(each, names, claimed) for each in attested if each.code in claimed]
    return {
        **({"assessors": assessors} if assessors else {}),
        **({"attestations": attestations} if attestations else {}),
        "claims": [*_limits(response), *(_assumption_claim(each) for each in claimed.values())],
        "evidence": [_assessment_as_evidence(response)],
    }


def _attested_assumptions(response: AssessmentsResponse) -> Sequence[AssessedAssumption]:
    # without a bounded number, only refuted assumptions that invalidate all numbers
    if not is_bounded(response):
        return refuted(response.assumptions)
    relaxed = [each for attacked in response.threat_models for each in attacked.assumptions]
    return [each for each in (*response.assumptions, *relaxed) if each.holds != "unknown"]


def _limits(response: AssessmentsResponse) -> list[dict[str, Any]]:
    decided = response.decision
    if decided is None:
        return []
    claims: list[dict[str, Any]] = [{"bom-ref": VERDICT, "target": SUBJECT, "predicate": decided.sentence}]
    claims[0] |= {"reasoning": f"Verdict of the policy: {decided.verdict}.", "evidence": [RESULT]}
    if is_bounded(response):
        claims += [_limit(index, each) for index, each in enumerate(decided.rulings)]
    return claims


def _limit(index: int, ruling: Ruling) -> dict[str, Any]:
    reasoning = f"{ruling.verdict}: {ruling.reason}" if ruling.reason is not None else f"{ruling.verdict}."
    name = f"{ruling.rule.name}: " if ruling.rule.name is not None else ""
    side = SIDES.get(ruling.verdict)
    return {
        "bom-ref": f"limit-{index}",
        "target": SUBJECT,
        "predicate": ruling.meaning,
        "reasoning": f"{name}{reasoning} Severity of the limit: {ruling.rule.severity}.",
        **({} if side is None else {side: [RESULT]}),
    }


def _assumption_claim(assumption: AssessedAssumption) -> dict[str, Any]:
    claim = {"bom-ref": f"assumption-{assumption.code}", "target": SUBJECT}
    if assumption.holds == "no":
        return claim | {
            "predicate": f"The assumption {assumption.code} does not hold.",
            "reasoning": assumption.if_not,
        }
    return claim | {"predicate": assumption.text, "reasoning": f"The assumption {assumption.code}."}


def _cyclonedx_attestation(
    given: Attestation, names: Sequence[str], claimed: dict[Any, AssessedAssumption]
) -> dict[str, Any]:
    holds = "holds" if given.holds == "yes" else "does not hold"
    when = "" if given.when is None else f" ({given.when})"
    side = "claims" if given.holds == "yes" else "counterClaims"
    return {
        "summary": f"{claimed[given.code].code} {holds}{when}.",
        **({} if given.by is None else {"assessor": f"assessor-{names.index(given.by)}"}),
        "map": [{side: [f"assumption-{given.code}"]}],
    }


def _assessment_as_evidence(response: AssessmentsResponse) -> dict[str, Any]:
    date = response.context.date
    return {
        "bom-ref": RESULT,
        "propertyName": "privacy-bounds:result",
        "description": f"Result {response.digest} of privacy-bounds, engine version {response.engine_version}.",
        "data": [{"name": "assessment", "contents": {"url": f"/v1/results/{response.digest}"}}],
        **({} if date is None else {"created": f"{date}T00:00:00Z"}),
    }
