"""`POST /v1/certificates`: a number, and its proof by the independent checker."""

from __future__ import annotations

import math
from typing import Final

from api_schemas.certificate_examples import CERTIFICATES_EXAMPLES
from api_schemas.certificates import CertificatesRequest, CertificatesResponse
from api_schemas.nested import repoint
from api_schemas.questions import TradeOffQuestion
from service.privacy.enclosure import Evidence
from service.privacy.errors import PrivacyComputationError
from service.resources.abstract import Computation, Quote, ResponseFields
from service.resources.bounds import assumptions_and_hazards, resolve_request
from service.resources.certificates.proofs import comparison_of
from service.resources.certificates.runs import steps_of
from service.resources.estimates import UNCERTAINTY
from service.resources.nested import evaluate_nested, quote_nested
from service.resources.read_numbers import ReadNumber

PROOF: Final = 5_000
"""Cost of a proof in one direction for a run of plain steps, in units of the quotes."""
KIND: Final = 80_000
"""Cost of a kind of sampled step in one direction. Few participations cost up to ten times as much."""
SHIFT: Final = 10_000
"""Cost of a shift of a kind of sampled step in one direction."""
SOURCE: Final = "Proof in ball arithmetic from the definition of the law (privacy_bounds.checker)"
HOLDS_FOR_EVERY_MECHANISM: Final = "An infinite epsilon holds for every mechanism."


def _compute_certificates(request: CertificatesRequest, digest: str, engine_version: str) -> ResponseFields:
    steps = steps_of(request.mechanism, request.threat_model)
    comparison_of(request.question, 0.0, request.reads)  # an unsupported question is found before it is answered
    answer, value = None, request.number
    if value is None:
        [answer] = evaluate_nested(request.asked(), request.places())["answers"]
        value = ReadNumber.of(answer, request.reads).value
    comparison = comparison_of(request.question, value, request.reads)
    proofs = [] if comparison is None else comparison.prove(steps)
    verdict = _joint_verdict([proof["verdict"] for proof in proofs])
    return {
        "digest": digest,
        "engine_version": engine_version,
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        "question": request.question,
        **({"reads": request.reads} if isinstance(request.question, TradeOffQuestion) else {}),
        "value": "Infinity" if math.isinf(value) else value,
        "verdict": verdict,
        "evidence": Evidence.PROVED.value if verdict == "proved" else None,
        "proofs": proofs,
        "answer": answer,
        "source": SOURCE,
        "notes": () if proofs else (HOLDS_FOR_EVERY_MECHANISM,),
        **_caveats(request),
    }


def _joint_verdict(verdicts: list[str]) -> str:
    if "refuted" in verdicts:
        return "refuted"
    return "proved" if all(verdict == "proved" for verdict in verdicts) else "not_decided"


def _caveats(request: CertificatesRequest) -> ResponseFields:
    asked = request.asked()
    try:
        resolved = resolve_request(asked)
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, request.places())
        raise
    return assumptions_and_hazards(asked, resolved.mechanism, resolved.threat_model)


def _certificates_quote(request: CertificatesRequest) -> Quote:
    steps = steps_of(request.mechanism, request.threat_model)
    comparison = comparison_of(request.question, 0.0, request.reads)
    directions = 0 if comparison is None else len(comparison.directions)
    answer = quote_nested(request.asked(), request.places()).cost if request.value is None else 0
    sampled = [len(step.shifts) for step in steps if len(step.shifts) > 1]
    proof = PROOF + KIND * len(sampled) + SHIFT * sum(sampled)
    return Quote(answer + directions * proof, engine="checker", uncertainty_factor=UNCERTAINTY)


def exit_code(response: CertificatesResponse) -> int:
    """Return the exit status of the command: 0 if the number is proved, else 1."""
    return int(response.verdict != "proved")


CERTIFICATES: Final = Computation(
    name="certificates",
    path="/v1/certificates",
    description="Prove one number about a Gaussian run in ball arithmetic, by a checker that shares nothing with the "
    "other engines. The verdict is proved, refuted or not_decided.",
    examples=CERTIFICATES_EXAMPLES,
    request_type=CertificatesRequest,
    response_type=CertificatesResponse,
    function=_compute_certificates,
    quote=_certificates_quote,
    exit_code=exit_code,
)
