"""`POST /v1/claims`: answers to the claimed quantities, and the verdicts on the claims."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from api_schemas.claims import Claim, ClaimsRequest, ClaimsResponse
from api_schemas.examples import CLAIMS_EXAMPLES
from api_schemas.nested import repoint
from api_schemas.questions import TradeOffQuestion
from service.privacy.errors import PrivacyComputationError
from service.privacy.numerics.work import Work, at_most
from service.resources.abstract import Computation, Planned, Quote, ResponseFields
from service.resources.allowance import MOST_WORK, WorkBudgetShares
from service.resources.bounds import ResolvedRequest, resolve_request
from service.resources.claims.attacks import attack_cost, counterexample_attack
from service.resources.claims.verdicts import ClaimJudgement, judge_claim
from service.resources.estimates import INLINE_LIMIT
from service.resources.nested import combine_quotes, evaluate_with_curves, quote_nested
from service.resources.read_numbers import ReadNumber

ATTACKS: Final = 1 / 4
"""Share of the work of a request for attacks on unsafe claims."""
UNSAFE: Final = 1 / 2
"""Share of claims that estimates take to be unsafe."""


def _compute_claims(request: ClaimsRequest, digest: str, engine_version: str) -> ResponseFields:
    try:
        resolved = resolve_request(request.asked())
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, request.places())
        raise
    return _within_work(request, resolved, digest, engine_version)


def _within_work(request: ClaimsRequest, resolved: ResolvedRequest, digest: str, engine_version: str) -> ResponseFields:
    with at_most(MOST_WORK) as work:
        return _compute(request, resolved, digest, engine_version, work)


def _compute(
    request: ClaimsRequest, resolved: ResolvedRequest, digest: str, engine_version: str, work: Work
) -> ResponseFields:
    with at_most(work.left * (1 - ATTACKS)):
        answered, curves = evaluate_with_curves(request.asked(), request.places(), resolved)
    pairs = list(zip(request.claims, answered["answers"], strict=True))
    judgements = [judge_claim(claim, ReadNumber.of(answer, claim.reads)) for claim, answer in pairs]
    shares = WorkBudgetShares(work, sum(judgement.verdict == "unsafe" for judgement in judgements))

    def look(claim: Claim, answer: ResponseFields) -> ResponseFields:
        with shares.next_share():
            return counterexample_attack(claim, answer, curves, request.threat_model.type, resolved.primary.cost)

    return {
        "digest": digest,
        "engine_version": engine_version,
        "mechanism": answered["mechanism"],
        "threat_model": answered["threat_model"],
        "claims": [
            _claim_fields(claim, answer, judgement, look)
            for (claim, answer), judgement in zip(pairs, judgements, strict=True)
        ],
        "worst_case": answered["worst_case"],
        "assumptions": answered["assumptions"],
        "hazards": answered["hazards"],
    }


def _claim_fields(
    claim: Claim,
    answer: ResponseFields,
    judgement: ClaimJudgement,
    look: Callable[[Claim, ResponseFields], ResponseFields],
) -> ResponseFields:
    return {
        "claimed": claim.number,
        **({"reads": claim.reads} if isinstance(claim.question, TradeOffQuestion) else {}),
        "relative_tolerance": claim.relative_tolerance,
        "verdict": judgement.verdict,
        "holds": judgement.holds,
        "by": judgement.by,
        "attack": look(claim, answer) if judgement.verdict == "unsafe" else None,
        "notes": judgement.notes,
        "answer": answer,
    }


def _claims_quote(request: ClaimsRequest) -> Quote:
    alone = quote_nested(request.asked(), request.places())
    found = combine_quotes([alone])
    if alone.prepared is None:  # the description is too long for plans
        return found
    resolved: ResolvedRequest = alone.prepared.plans
    model = resolved.primary.cost
    cost = found.cost + math.ceil(UNSAFE * math.fsum(attack_cost(claim, model) for claim in request.claims))
    inline = found.inline and cost <= INLINE_LIMIT
    return replace(found, cost=cost, inline=inline, prepared=Planned(resolved, _within_work))


def exit_code(response: ClaimsResponse) -> int:
    """Return the exit status of the command: 1 if a claim is unsafe, else 0."""
    return int(any(claim.verdict == "unsafe" for claim in response.claims))


CLAIMS: Final = Computation(
    name="claims",
    path="/v1/claims",
    description="Check whether stated numbers about a mechanism are unsafe, loose or consistent. The response "
    "includes an attack for each unsafe claim.",
    examples=CLAIMS_EXAMPLES,
    request_type=ClaimsRequest,
    response_type=ClaimsResponse,
    function=_compute_claims,
    quote=_claims_quote,
    exit_code=exit_code,
)
