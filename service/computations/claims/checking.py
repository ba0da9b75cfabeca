"""`POST /v1/claims`: the answers to what is claimed, and what they say of the claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from api_schemas.claims import Claim, ClaimsRequest, ClaimsResponse
from api_schemas.examples import CLAIMS_EXAMPLES
from api_schemas.questions import TradeOffQuestion
from service.computations.abstract import Computation, Quote, ResponseFields
from service.computations.claims.attacks import shown
from service.computations.claims.verdicts import judged
from service.computations.nested import quoted, read
from service.computations.prices import INLINE_LIMIT
from service.computations.read_numbers import ReadNumber
from service.privacy.trade_off.pair import TradeOffPair

ATTACKS_COST: Final = 2
"""What answers and attacks cost together, in the cost of the answers: an attack takes about three readings near one."""


def compute_claims(request: ClaimsRequest, digest: str, engine_version: str) -> ResponseFields:
    """Answer what is claimed, and judge it. Raises with the pointer of the part that cannot be served."""
    answered, curves = read(request.asked(), request.places())
    attacker = request.threat_model.type
    pairs = zip(request.claims, answered["answers"], strict=True)
    return {
        "digest": digest,
        "engine_version": engine_version,
        "mechanism": answered["mechanism"],
        "threat_model": answered["threat_model"],
        "claims": [_checked(claim, answer, curves, attacker) for claim, answer in pairs],
        "worst_case": answered["worst_case"],
        "assumptions": answered["assumptions"],
        "hazards": answered["hazards"],
    }


def _checked(claim: Claim, answer: ResponseFields, curves: TradeOffPair, attacker: str) -> ResponseFields:
    judgement = judged(claim, ReadNumber.of(answer, claim.reads))
    return {
        "claimed": claim.number,
        **({"reads": claim.reads} if isinstance(claim.question, TradeOffQuestion) else {}),
        "relative_tolerance": claim.relative_tolerance,
        "verdict": judgement.verdict,
        "holds": judgement.holds,
        "by": judgement.by,
        "attack": shown(claim, curves, attacker) if judgement.verdict == "unsafe" else None,
        "notes": judgement.notes,
        "answer": answer,
    }


def claims_quote(request: ClaimsRequest) -> Quote:
    """That of the answers, as if every claim were unsafe."""
    found = quoted([(request.asked(), request.places())])
    cost = ATTACKS_COST * found.cost
    return replace(found, cost=cost, inline=found.inline and cost <= INLINE_LIMIT)


def all_safe(response: ClaimsResponse) -> bool:
    """Whether no claim is unsafe."""
    return all(claim.verdict != "unsafe" for claim in response.claims)


CLAIMS: Final = Computation(
    name="claims",
    path="/v1/claims",
    description="Whether numbers that somebody states about a mechanism are unsafe, loose or consistent, and by how "
    "much; an attack shows what is unsafe.",
    examples=CLAIMS_EXAMPLES,
    request_type=ClaimsRequest,
    response_type=ClaimsResponse,
    function=compute_claims,
    quote=claims_quote,
    passes=all_safe,
)
