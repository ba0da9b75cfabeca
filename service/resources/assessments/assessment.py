"""Assessment resource, `POST /v1/assessments`: all attackers, the hazards, a statement and a decision about one run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, final

from api_schemas.assessment_examples import ASSESSMENT_EXAMPLES
from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse, NotApplicable
from api_schemas.bounds import BoundsRequest
from api_schemas.policies import PolicyRule
from api_schemas.questions import QuestionSpec
from service.privacy.errors import PrivacyComputationError, UnsupportedCombination
from service.privacy.numerics.work import at_most
from service.rendering.sentences.statement import statement
from service.rendering.sentences.summary import RunFacts, run_summary
from service.resources.abstract import Computation, Planned, Quote, ResponseFields
from service.resources.allowance import MOST_WORK, WorkBudgetShares
from service.resources.assessments.answering import (
    Answering,
    attacker_of,
    contains,
    curves_of,
    distinct,
    ruled,
    worst_case_of,
)
from service.resources.assessments.attackers import (
    LARGEST_COST,
    MU,
    OTHER_NEIGHBOURS,
    PLACES,
    SUMMARIES,
    Attackers,
    not_applicable,
    relaxed_attackers,
    standard_questions,
)
from service.resources.assessments.hazards import Numbers, assessed_hazards
from service.resources.assessments.judged import AssessedRun, RunWithHazards, judged
from service.resources.assessments.policy import SECOND_WORK, Rules
from service.resources.assessments.premises import assessed, assumptions_behind, check_attested
from service.resources.assessments.rule_results import RulingGrounds, decision
from service.resources.assessments.summaries import gdp_summary, one_point
from service.resources.bounds import ResolvedRequest, bounds_quote
from service.resources.caveats import caveats
from service.resources.digest import canonical_text
from service.resources.disputed import refuse_disputed
from service.resources.estimates import UNCERTAINTY
from service.resources.nested import combine_quotes, evaluate_nested, quote_nested, resolved_requests_of
from service.resources.parts import assumptions_of, mechanism_of, options_of, threat_model_of

BESIDE: Final = 8_000
"""Cost of regret, statement and impacts of hazards, in microseconds."""


@final
@dataclass(frozen=True, slots=True)
class AssessmentPlans:
    """Engines chosen for an assessment.

    `settled` is the run with the changes of all present hazards, to which all numbers belong. `attackers` are those
    weaker than the worst case. `reads_mu` is whether mu of Gaussian differential privacy is inexpensive enough to be
    computed.
    """

    settled: RunWithHazards
    attackers: Attackers
    resolved_requests: Mapping[BoundsRequest, ResolvedRequest]
    reads_mu: bool


def _compute_assessment(request: AssessmentsRequest, digest: str, engine_version: str) -> ResponseFields:
    return _response(request, _planned(request)[0], digest, engine_version)


@final
class _Figures(NamedTuple):
    answers: list[dict[str, Any]]
    power: dict[str, Any]
    relaxed: list[dict[str, Any]]
    others: list[NotApplicable]
    rules: Rules
    gdp: dict[str, Any] | None
    point: dict[str, Any] | None


def _compute_figures(request: AssessmentsRequest, plans: AssessmentPlans, assumptions: tuple[Any, ...]) -> _Figures:
    run, context = plans.settled.run, request.context
    questions = standard_questions(context)
    with at_most(MOST_WORK) as work:
        parts = len(questions) + len(plans.attackers.requests) + 1 + distinct(_rules_of(request), questions)
        shares = WorkBudgetShares(work, parts)
        asked = _worst_case_request(request, run)
        curves = curves_of(asked, plans.resolved_requests.get(asked))
        asking = Answering(run, request.relative_tolerance, curves, shares, plans.resolved_requests)
        asking.together(_worst_case_questions_with_pointers(request, run, questions), work)
        answers = [asking.worst_case(question, "/context") for question in questions]
        relaxed, others = _answers_of_weaker_attackers(run, plans, shares, asking)
        rules = Rules(request, run, asking)
        relaxed_assumptions = [code for each in relaxed for code in each["assumptions"]]
        check_attested(context, (*assumptions, *relaxed_assumptions, *rules.assumptions))
        power = _power_at(context.false_positive_rate, answers[2])
        gdp = gdp_summary(asking.curves, asking.worst_case(MU, "/mechanism")) if plans.reads_mu else None
        point = one_point(run.mechanism, context, answers[0], power)
        rules.answer()
    return _Figures(answers, power, relaxed, others, rules, gdp, point)


def _worst_case_questions_with_pointers(
    request: AssessmentsRequest, run: AssessedRun, standard: Sequence[QuestionSpec]
) -> dict[QuestionSpec, str]:
    found = dict.fromkeys(standard, "/context")
    for index, rule in enumerate(_rules_of(request)):
        is_listed = any(contains(each, rule.question) for each in found)
        if attacker_of(rule, run) in (None, run.threat_model) and not is_listed:
            found[rule.question] = f"/policy/rules/{index}/question"
    return found


def _response(request: AssessmentsRequest, plans: AssessmentPlans, digest: str, engine_version: str) -> ResponseFields:
    described, settled = AssessedRun.of(request), plans.settled
    run, context = settled.run, request.context
    model = threat_model_of(run.threat_model)
    known = caveats(mechanism_of(request.mechanism), model)
    assumptions = assumptions_behind(request.mechanism, settled)
    answers, power, relaxed, others, rules, gdp, point = _compute_figures(request, plans, assumptions)
    everybody = assessed(assumptions, context)
    grounds = RulingGrounds(described, settled, everybody, rules.assumptions_of)
    results = rules.rule_results(grounds)
    decided = None if request.policy is None else decision(request.policy, results, digest, grounds)
    numbers = Numbers(
        epsilon=answers[0],
        power=power["value"],
        power_of_one_point=None if point is None else point["power_from_one_point"],
        relaxed=bool(relaxed),
    )
    hazards = assessed_hazards(known.hazards, described, settled, numbers)
    texts = RunFacts(request.mechanism, run.threat_model, context, answers, gdp, everybody, hazards, settled.text)
    first = _attacker(run.threat_model, answers, summary=SUMMARIES["worst_case"], conditional=False, assumptions=())
    weaker = ({**each, "assumptions": assessed(each["assumptions"], context)} for each in relaxed)
    return {
        "digest": digest,
        "engine_version": engine_version,
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        "context": context,
        "relative_tolerance": request.relative_tolerance,
        "judged_as": _judged_as(settled),
        "summary": run_summary(texts),
        "verdict": None if decided is None else decided["verdict"],
        "threat_models": [first, *weaker],
        "not_applicable": others,
        "gdp": gdp,
        "one_point": point,
        "statement": statement(texts, decided, canonical_text(texts.mechanism), engine_version),
        "hazards": hazards,
        "assumptions": everybody,
        "decision": decided,
    }


def _judged_of(request: AssessmentsRequest) -> RunWithHazards:
    # the described run if the changed run cannot be computed
    described = AssessedRun.of(request)
    found = judged(described)
    if found.changes:
        asked = _worst_case_request(request, found.run)
        try:
            threat_model_of(asked.threat_model).plan(mechanism_of(asked.mechanism), "auto", options_of(asked))
        except PrivacyComputationError:
            return found.undone(described)
    return found


def _judged_as(found: RunWithHazards) -> ResponseFields | None:
    if not found.changes:
        return None
    return {
        "mechanism": found.run.mechanism,
        "threat_model": found.run.threat_model,
        "hazards": [each.code for each in found.changes],
        "text": found.text,
    }


def _rules_of(request: AssessmentsRequest) -> Sequence[PolicyRule]:
    return () if request.policy is None else request.policy.rules


def _power_at(rate: float, answer: ResponseFields) -> ResponseFields:
    return next(each["power"] for each in answer["points"] if each["false_positive_rate"] == rate)


def _answers_of_weaker_attackers(
    run: AssessedRun, plans: AssessmentPlans, shares: WorkBudgetShares, asking: Answering
) -> tuple[list[dict[str, Any]], list[NotApplicable]]:
    fields: list[dict[str, Any]] = []
    others, shown = list(plans.attackers.others), [run.threat_model]
    for asked, _ in plans.attackers.requests:
        try:
            with shares.next_share():
                found_of = evaluate_nested(asked, PLACES, plans.resolved_requests.get(asked))
        except UnsupportedCombination as error:
            others.append(not_applicable(asked.threat_model, error))
            continue
        asking.keep(asked.threat_model, found_of["answers"])
        beside = found_of["worst_case"]
        if beside["threat_model"] not in shown:  # a relaxed attacker is always shown with its own worst case
            shown.append(beside["threat_model"])
            fields.append(_attacker(**beside, summary=OTHER_NEIGHBOURS, conditional=False, assumptions=()))
        fields.append(
            _attacker(
                asked.threat_model,
                found_of["answers"],
                summary=SUMMARIES[asked.threat_model.type],
                conditional=True,
                assumptions=assumptions_of(threat_model_of(asked.threat_model), mechanism_of(run.for_relaxed)),
            )
        )
    return fields, others


def _attacker(threat_model: Any, answers: Sequence[ResponseFields], **more: Any) -> dict[str, Any]:
    return {"threat_model": threat_model, **more, "answers": answers}


def _worst_case_request(request: AssessmentsRequest, run: AssessedRun) -> BoundsRequest:
    own = tuple(rule.question for rule in _rules_of(request) if rule.threat_model is None)
    return worst_case_of(run, request.relative_tolerance, (*standard_questions(request.context), *own))


def _planned(request: AssessmentsRequest) -> tuple[AssessmentPlans, Quote]:
    described, settled = AssessedRun.of(request), _judged_of(request)
    refuse_disputed(described.mechanism, described.threat_model)  # the response shows this run, too
    run = settled.run
    asked = [(_worst_case_request(request, run), {"/questions": "/context"})]
    for index, rule in enumerate(_rules_of(request)):
        if rule.threat_model is not None:
            asked.append(ruled(run, rule, f"/policy/rules/{index}", request.relative_tolerance))
    quotes = {each: quote_nested(each, places) for each, places in asked}
    mu = bounds_quote(BoundsRequest(mechanism=run.mechanism, threat_model=run.threat_model, questions=(MU,))).cost
    found = relaxed_attackers(run, request.relative_tolerance)
    beside = sum(quote.cost for _, quote in found.requests) + BESIDE + (mu if mu <= LARGEST_COST else 0)
    resolved_requests = resolved_requests_of(quotes | dict(found.requests))
    return AssessmentPlans(settled, found, resolved_requests, mu <= LARGEST_COST), combine_quotes(
        [*quotes.values()], beside
    )


def _assessment_quote(request: AssessmentsRequest) -> Quote:
    plans, priced = _planned(request)
    most = math.ceil(MOST_WORK + SECOND_WORK) + BESIDE
    cost, prepared = min(priced.cost, most), Planned(plans, _response)
    return replace(priced, cost=cost, inline=False, uncertainty_factor=UNCERTAINTY, ceiling=most, prepared=prepared)


EXIT_CODES: Final[Mapping[str | None, int]] = {None: 0, "met": 0, "met_if_attested": 3}
"""Exit status by verdict. Every other verdict has 1: the run is stopped."""


def exit_code(response: AssessmentsResponse) -> int:
    """Return the exit status of the command for an assessment.

    The status is 0 if no policy stops the run, 1 if the policy stops the run, and 3 if only an attestation is missing.
    """
    return EXIT_CODES.get(response.verdict, 1)


def _decision_log_fields(response: AssessmentsResponse) -> dict[str, Any] | None:
    # texts from clients have at most 200 characters each, without control characters
    decided, context = response.decision, response.context
    if decided is None:
        return None
    return {
        "decision": decided.id,
        "policy": decided.policy,
        "result": response.digest,
        "engine_version": response.engine_version,
        "verdict": decided.verdict,
        "missing": list(decided.missing),
        "subject": None if context.subject is None else context.subject.name,
        "subject_version": None if context.subject is None else context.subject.version,
        "date": context.date,
    }


ASSESSMENTS: Final = Computation(
    name="assessments",
    path="/v1/assessments",
    description="Assess one run against every applicable attacker. The response contains hazards, a statement, and the "
    "verdict of a policy.",
    examples=ASSESSMENT_EXAMPLES,
    request_type=AssessmentsRequest,
    response_type=AssessmentsResponse,
    function=_compute_assessment,
    quote=_assessment_quote,
    files=("policy", "context"),
    bare_member="mechanism",
    exit_code=exit_code,
    decision=_decision_log_fields,
)
