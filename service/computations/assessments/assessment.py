"""`POST /v1/assessments`: every attacker, hazards, what to write and what to decide about one run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from api_schemas.assessment_examples import ASSESSMENT_EXAMPLES
from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse, NotApplicable
from api_schemas.bounds import BoundsRequest
from api_schemas.policies import PolicyRule
from api_schemas.questions import QuestionSpec
from service.computations.abstract import Computation, Quote, ResponseFields
from service.computations.allowance import MOST_WORK, Shares
from service.computations.answers import said
from service.computations.assessments.attackers import (
    DEAREST,
    MU,
    OTHER_NEIGHBOURS,
    PLACES,
    SUMMARIES,
    Attackers,
    not_applicable,
    relaxed_attackers,
    standard_questions,
)
from service.computations.assessments.consequences import Run
from service.computations.assessments.hazards import Numbers, assessed_hazards
from service.computations.assessments.premises import assessed, check_attested
from service.computations.assessments.rulings import decision, ruling
from service.computations.assessments.statement import statement
from service.computations.assessments.summaries import gdp_summary, one_point
from service.computations.bounds import bounds_quote
from service.computations.caveats import caveats
from service.computations.digest import canonical_text
from service.computations.nested import answered, quoted
from service.computations.parts import assumptions_of, blamed, mechanism_of, options_of, threat_model_of
from service.computations.prices import DOUBT
from service.interop.reports import RENDERINGS
from service.interop.reports.void import refuted
from service.privacy.errors import PrivacyComputationError, UnsupportedCombination
from service.privacy.numerics.work import Work, at_most
from service.privacy.trade_off.pair import TradeOffPair

BESIDE: Final = 60_000
"""Price of regret, statement and consequences: microseconds."""


def compute_assessment(request: AssessmentsRequest, digest: str, engine_version: str) -> ResponseFields:
    """What to say about a run, or the error of the first part that cannot be served."""
    with at_most(MOST_WORK) as work:
        return _assessed(request, digest, engine_version, work)


def _assessed(request: AssessmentsRequest, digest: str, engine_version: str, work: Work) -> ResponseFields:
    context, questions = request.context, standard_questions(request.context)
    mechanism, model = mechanism_of(request.mechanism), threat_model_of(request.threat_model)
    known = caveats(mechanism, model)
    assumptions = known.assumptions + assumptions_of(model, mechanism)
    worst, attackers = _worst_case(request), relaxed_attackers(request)
    shares = Shares(work, len(questions) + len(attackers.requests) + 1 + _rule_count(request))
    answers = [_read(worst, question, request, "/context", shares) for question in questions]
    relaxed, others = _relaxed(request, attackers, shares)
    told = {code.code: code for each in relaxed for code in each["assumptions"]}
    check_attested(context, (*assumptions, *told.values()))
    everybody = assessed(assumptions, context)
    gdp = gdp_summary(worst, _read(worst, MU, request, "/mechanism", shares)) if _mu_is_read(request) else None
    power = _power_at(context.false_positive_rate, answers[2])
    point = one_point(request.mechanism, context, answers[0], power)
    first = _attacker(request.threat_model, answers, summary=SUMMARIES["worst_case"], conditional=False, assumptions=())
    decided = _decided(request, worst, shares, engine_version, void=bool(refuted(everybody)))
    numbers = Numbers(
        smallest_epsilon=answers[0]["lower"] or 0.0,
        power=power["value"],
        power_of_one_point=None if point is None else point["power_from_one_point"],
        relaxed=bool(relaxed),
    )
    return {
        "digest": digest,
        "engine_version": engine_version,
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        "context": context,
        "relative_tolerance": request.relative_tolerance,
        "verdict": None if decided is None else decided["verdict"],
        "threat_models": [
            first,
            *({**each, "assumptions": assessed(each["assumptions"], context)} for each in relaxed),
        ],
        "not_applicable": others,
        "gdp": gdp,
        "one_point": point,
        "statement": statement(
            request.mechanism, request.threat_model, context, answers, gdp, everybody, engine_version
        ),
        "hazards": assessed_hazards(known.hazards, Run(request.mechanism, context, request.threat_model), numbers),
        "assumptions": everybody,
        "decision": decided,
    }


def _power_at(rate: float, answer: ResponseFields) -> ResponseFields:
    """The power at a false positive rate, of the answer that has several."""
    return next(each["power"] for each in answer["points"] if each["false_positive_rate"] == rate)


def _decided(
    request: AssessmentsRequest, worst: TradeOffPair, shares: Shares, engine_version: str, *, void: bool
) -> ResponseFields | None:
    """What the policy comes to, where there is one. `void`: what the numbers rest on is known not to hold."""
    if request.policy is None:
        return None
    return decision(request.policy, _rulings(request, worst, shares), _run(request, engine_version), void=void)


def _worst_case(request: AssessmentsRequest) -> TradeOffPair:
    try:
        model = threat_model_of(request.threat_model)
        return model.plan(mechanism_of(request.mechanism), "auto", options_of(_worst_case_request(request))).curves
    except PrivacyComputationError as error:
        raise blamed(error, "/threat_model", request.threat_model) from None


def _read(
    curves: TradeOffPair, question: QuestionSpec, request: AssessmentsRequest, pointer: str, shares: Shares
) -> ResponseFields:
    try:
        with shares.next():
            return said(curves, question, request.relative_tolerance).answer(question, conditional=False)
    except PrivacyComputationError as error:
        raise blamed(error, pointer, question) from None


def _relaxed(
    request: AssessmentsRequest, found: Attackers, shares: Shares
) -> tuple[list[dict[str, Any]], list[NotApplicable]]:
    """What relaxed attackers gain, and who does not apply."""
    told: list[dict[str, Any]] = []
    others, shown = list(found.others), [request.threat_model]
    for asked, _ in found.requests:
        try:
            with shares.next():
                found_of = answered(asked, PLACES)
        except UnsupportedCombination as error:
            others.append(not_applicable(asked.threat_model, error))
            continue
        beside = found_of["worst_case"]
        if beside["threat_model"] not in shown:  # a relaxed attacker never comes without its own worst case
            shown.append(beside["threat_model"])
            told.append(_attacker(**beside, summary=OTHER_NEIGHBOURS, conditional=False, assumptions=()))
        told.append(
            _attacker(
                asked.threat_model,
                found_of["answers"],
                summary=SUMMARIES[asked.threat_model.type],
                conditional=True,
                assumptions=assumptions_of(threat_model_of(asked.threat_model), mechanism_of(request.mechanism)),
            )
        )
    return told, others


def _attacker(threat_model: Any, answers: Sequence[ResponseFields], **more: Any) -> dict[str, Any]:
    """What an attacker gains, as its fields."""
    return {"threat_model": threat_model, **more, "answers": answers}


def _rule_count(request: AssessmentsRequest) -> int:
    return 0 if request.policy is None else len(request.policy.rules)


def _rulings(request: AssessmentsRequest, worst: TradeOffPair, shares: Shares) -> list[ResponseFields]:
    """Every rule on its answer."""
    rules: Sequence[PolicyRule] = () if request.policy is None else request.policy.rules
    found: list[ResponseFields] = []
    for index, rule in enumerate(rules):
        if rule.threat_model is None:
            answer = _read(worst, rule.question, request, f"/policy/rules/{index}/question", shares)
        else:
            with shares.next():
                answer = answered(*_ruled(request, rule, index))["answers"][0]
        found.append(ruling(rule, answer))
    return found


def _ruled(request: AssessmentsRequest, rule: PolicyRule, index: int) -> tuple[BoundsRequest, dict[str, str]]:
    """The request of a rule against an attacker of its own, and where its parts stand."""
    place = f"/policy/rules/{index}"
    given: dict[str, Any] = {} if rule.threat_model is None else {"threat_model": rule.threat_model}
    asked = BoundsRequest(
        mechanism=request.mechanism,
        questions=(rule.question,),
        relative_tolerance=request.relative_tolerance,
        **given,
    )
    return asked, {"/threat_model": f"{place}/threat_model", "/questions/0": f"{place}/question"}


def _run(request: AssessmentsRequest, engine_version: str) -> str:
    """The canonical form of what is assessed, without the policy."""
    parts = (request.mechanism, request.threat_model, request.context, request.relative_tolerance, engine_version)
    return canonical_text(parts)


def _worst_case_request(request: AssessmentsRequest) -> BoundsRequest:
    rules = () if request.policy is None else request.policy.rules
    return BoundsRequest(
        mechanism=request.mechanism,
        threat_model=request.threat_model,
        questions=(
            *standard_questions(request.context),
            *(rule.question for rule in rules if rule.threat_model is None),
        ),
        relative_tolerance=request.relative_tolerance,
    )


def _mu_request(request: AssessmentsRequest) -> BoundsRequest:
    return BoundsRequest(mechanism=request.mechanism, threat_model=request.threat_model, questions=(MU,))


def _mu_is_read(request: AssessmentsRequest) -> bool:
    """Whether mu costs little enough to be told beside the rest."""
    return bounds_quote(_mu_request(request)).cost <= DEAREST


def assessment_quote(request: AssessmentsRequest) -> Quote:
    """By the plans of all attackers and rules; never in the event loop."""
    rules = () if request.policy is None else request.policy.rules
    asked = [(_worst_case_request(request), {"/questions": "/context"})]
    asked += [_ruled(request, rule, index) for index, rule in enumerate(rules) if rule.threat_model is not None]
    mu = bounds_quote(_mu_request(request)).cost
    beside = sum(quote.cost for _, quote in relaxed_attackers(request).requests) + BESIDE
    beside += mu if mu <= DEAREST else 0
    found = quoted(asked, beside)
    most = math.ceil(MOST_WORK) + BESIDE
    return replace(found, cost=min(found.cost, most), inline=False, doubt=DOUBT, most=most)


def passes(response: AssessmentsResponse) -> bool:
    """Whether no policy stops the run: one that is not met, for certain, does."""
    return response.verdict in (None, "met")


def logged(response: AssessmentsResponse) -> dict[str, str] | None:
    """What the log of decisions says: who holds the request, or the result, can check it."""
    decided = response.decision
    if decided is None:
        return None
    return {"decision": decided.id, "policy": decided.policy, "result": response.digest, "verdict": decided.verdict}


ASSESSMENTS: Final = Computation(
    name="assessments",
    path="/v1/assessments",
    description="What to say and to decide about one run: every attacker that applies, hazards, a statement, and the "
    "verdict of a policy.",
    examples=ASSESSMENT_EXAMPLES,
    request_type=AssessmentsRequest,
    response_type=AssessmentsResponse,
    function=compute_assessment,
    quote=assessment_quote,
    renderings=RENDERINGS,
    files=("policy", "context"),
    bare="mechanism",
    passes=passes,
    decision=logged,
)
