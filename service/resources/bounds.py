"""Resource `POST /v1/bounds`: mechanism, trade-off curves, evaluations, answers.

A request is first resolved into a mechanism, an attacker and plans. A *plan* is the chosen composition engine with its
grid. Plans are inexpensive, and the *quote* (estimated cost) follows from them. Curves are then evaluated within the
work that a request may use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.examples import BOUNDS_EXAMPLES
from api_schemas.options import ONLY_WHERE_ASKED
from api_schemas.questions import QuestionSpec
from service.privacy.composition.planning.choose import METHODS
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import PrivacyComputationError
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.numerics.work import Work, at_most
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.relaxed import worst_case_beside
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import Computation, Planned, Quote, ResponseFields
from service.resources.allowance import MOST_WORK, OF_SEVERAL, WORK_OF_A_JOB
from service.resources.answers import compare_engines, curves_of
from service.resources.caveats import caveats
from service.resources.disputed import refuse_disputed
from service.resources.earlier_bounds import earlier_bounds
from service.resources.estimates import ANSWER, is_for_a_job, questions_cost, quote, unpriced
from service.resources.parts import (
    assumptions_of,
    attribute_error,
    echo_options,
    mechanism_of,
    options_of,
    threat_model_of,
    worst_case_spec,
)
from service.resources.priors import assumptions_about_priors, at_bounded_prior, prior_of
from service.resources.rounds import AskedQuestion, read_in_rounds

BEST: Final = "auto"
EVERY: Final = "all"


@final
@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """Request as a mechanism and an attacker of the numeric core, with the engines chosen for it.

    The value can be pickled until curves are evaluated.

    Attributes
    ----------
    primary : Plan
        Engine and curves that give the answers, with their cost.
    alternatives : Mapping of str to Plan
        Engines and curves of further methods, by name.
    worst_case, worst_plan : WorstCase, Plan or None
        Strongest attacker and its engine, for display beside the answers against a weaker attacker. None if the request
        itself is about the strongest attacker.
    """

    mechanism: AbstractMechanism
    threat_model: AbstractThreatModel
    options: EngineOptions
    primary: Plan
    alternatives: Mapping[str, Plan]
    worst_case: WorstCase | None
    worst_plan: Plan | None


def compute_bounds(request: BoundsRequest, digest: str, engine_version: str) -> ResponseFields:
    """Answer all questions of a request for bounds.

    `digest` and `engine_version` become fields of the response. Raises PrivacyComputationError with the pointer of the
    first faulty part.
    """
    return _response(request, resolve_request(request), digest, engine_version)


def _response(request: BoundsRequest, resolved: ResolvedRequest, digest: str, engine_version: str) -> ResponseFields:
    return {"digest": digest, "engine_version": engine_version, **_within_work(request, resolved)[0]}


def read_bounds(request: BoundsRequest, resolved: ResolvedRequest | None = None) -> tuple[ResponseFields, TradeOffPair]:
    """Return the answers to a request for bounds as fields of a response, and the trade-off curves behind them.

    `resolved` is the request with its chosen engines, if the caller has it. Raises PrivacyComputationError with the
    JSON pointer of the first part that cannot be served.
    """
    return _within_work(request, resolved or resolve_request(request))


def resolve_request(request: BoundsRequest) -> ResolvedRequest:
    """Return a request with its mechanism, its attacker and its chosen engines.

    Raises PrivacyComputationError with the JSON pointer of the part that cannot be served.
    """
    mechanism = mechanism_of(request.mechanism)
    try:
        threat_model, options = threat_model_of(request.threat_model), options_of(request)
        refuse_disputed(request.mechanism, request.threat_model)
        primary = threat_model.plan(mechanism, _primary_method(request), options)
        alternatives = threat_model.plans(mechanism, _alternative_methods(request), options)
        worst_case = worst_case_beside(threat_model, mechanism)
        worst_plan = None if worst_case is None else primary.worst_case or worst_case.plan(mechanism, BEST, options)
        return ResolvedRequest(mechanism, threat_model, options, primary, alternatives, worst_case, worst_plan)
    except PrivacyComputationError as error:
        raise attribute_error(error, "/threat_model", request.threat_model) from None


def _within_work(request: BoundsRequest, resolved: ResolvedRequest) -> tuple[ResponseFields, TradeOffPair]:
    for_a_job = request.method == ONLY_WHERE_ASKED and is_for_a_job(_quote(request, lambda: resolved))
    most = MOST_WORK * (1.0 if _distinct(request) == 1 else OF_SEVERAL)
    with at_most(WORK_OF_A_JOB if for_a_job else most) as work:
        return _evaluate(request, resolved, work)


def _evaluate(request: BoundsRequest, resolved: ResolvedRequest, work: Work) -> tuple[ResponseFields, TradeOffPair]:
    mechanism, threat_model, worst_case = resolved.mechanism, resolved.threat_model, resolved.worst_case
    pointer, part = "/threat_model", request.threat_model
    try:
        curves, engines = resolved.primary.curves, curves_of(resolved.alternatives)
        asked = asked_of(request)
        for each in asked:
            pointer, part = each.pointer, each.sent
            threat_model.check_question(each.read.type, prior_of(each.read))
    except PrivacyComputationError as error:
        raise attribute_error(error, pointer, part) from None
    others = len(engines) + (worst_case is not None and curves.worst_case is None)
    with at_most(work.left / (1 + others)):
        found = read_in_rounds(curves, asked, request.relative_tolerance, work)
    by_question: dict[QuestionSpec, ResponseFields] = {}
    for number, (each, answer) in enumerate(zip(asked, found, strict=True)):
        methods = None
        if request.method == EVERY:
            left = (len(asked) - number) * len(engines) + len(asked) * (others - len(engines))
            methods = compare_engines(engines, each.read, request.relative_tolerance, work, left)
            methods += earlier_bounds(mechanism, curves, each.read) if worst_case is None else []
        by_question[each.sent] = answer.answer(
            each.sent, conditional=worst_case is not None, notes=each.notes, methods=methods
        )
    beside = None
    if worst_case is not None and resolved.worst_plan is not None:
        beside = beside_relaxed(worst_case, curves, request, work, resolved.worst_plan)
    sampled = request.dataset_subsampling
    fields: ResponseFields = {
        **echo_options(request),
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        **({} if sampled is None else {"dataset_subsampling": sampled}),
        "method": request.method,
        "answers": [by_question[question] for question in request.questions],
        "worst_case": beside,
        **assumptions_and_hazards(request, mechanism, threat_model),
    }
    return fields, curves


def assumptions_and_hazards(
    request: BoundsRequest, mechanism: AbstractMechanism, threat_model: AbstractThreatModel
) -> ResponseFields:
    """Return the fields `assumptions` (of the answers to a request) and `hazards` (of the described run)."""
    known = caveats(mechanism, threat_model)
    return {
        "assumptions": known.assumptions + assumptions_of(threat_model, mechanism) + assumptions_about_priors(request),
        "hazards": known.hazards,
    }


def beside_relaxed(
    model: WorstCase, attacker: TradeOffPair, request: BoundsRequest, work: Work, plan: Plan
) -> ResponseFields:
    """Return the answers against the worst case `model` beside those against a weaker attacker.

    The result has the fields of `RelaxedComparison`. `attacker` are the curves of the weaker attacker, `plan` has the
    engine for the worst case, and `work` is what the answers may use. If the worst case caps the weaker attacker, its
    stored answers are returned, because narrower ones could lie below the capped answers.
    """
    caps = attacker.worst_case
    with at_most(work.left if caps is None else 0.0):
        answers = answers_of(caps or plan.curves, request, work, conditional=False)
    return {"threat_model": worst_case_spec(model), "answers": answers}


def answers_of(curves: TradeOffPair, request: BoundsRequest, work: Work, *, conditional: bool) -> list[ResponseFields]:
    """Return the answers of these trade-off curves to all questions of a request, in their order.

    `work` is what all answers may use together. `conditional` is whether the answers hold only against an attacker
    weaker than the worst case.
    """
    asked = asked_of(request)
    found = read_in_rounds(curves, asked, request.relative_tolerance, work)
    by_question = {
        each.sent: answer.answer(each.sent, conditional=conditional, notes=each.notes)
        for each, answer in zip(asked, found, strict=True)
    }
    return [by_question[question] for question in request.questions]


def asked_of(request: BoundsRequest) -> list[AskedQuestion]:
    """Return the distinct questions of a request for bounds, in order. Equal questions are evaluated once."""
    found: dict[QuestionSpec, AskedQuestion] = {}
    for index, question in enumerate(request.questions):
        if not index or question not in found:
            read, notes = at_bounded_prior(question, request.dataset_subsampling)
            found[question] = AskedQuestion(question, read, notes, f"/questions/{index}")
    return list(found.values())


def bounds_quote(request: BoundsRequest) -> Quote:
    """Return the estimated cost of a request for bounds, in microseconds of CPU time."""
    return _quote(request, lambda: resolve_request(request))


def _quote(request: BoundsRequest, resolved: Callable[[], ResolvedRequest]) -> Quote:
    long = unpriced(request.mechanism, [request.threat_model], _distinct(request))
    if long is not None:
        return long
    known = resolved()
    plans = [known.primary, *known.alternatives.values(), *(() if known.worst_plan is None else (known.worst_plan,))]
    written = ANSWER * len(request.questions) * len(plans)
    found = quote(plans, partial(questions_cost, request.questions), written, prepared=Planned(known, _response))
    if found.inline or is_for_a_job(found) or _distinct(request) == 1:
        return found
    return replace(found, ceiling=found.ceiling + math.ceil((OF_SEVERAL - 1) * MOST_WORK))


def _distinct(request: BoundsRequest) -> int:
    return 1 if len(request.questions) == 1 else len(set(request.questions))


def _primary_method(request: BoundsRequest) -> str:
    return BEST if request.method == EVERY else request.method


def _alternative_methods(request: BoundsRequest) -> tuple[str, ...]:
    if request.method != EVERY:
        return ()
    return tuple(
        method for method in METHODS if method != BEST and (method != ONLY_WHERE_ASKED or request.digits is not None)
    )


def ground_truth_digits(request: BoundsRequest) -> int | None:
    """Return the requested number of digits if the method is a ground truth (many proved digits), else None."""
    return request.digits if request.method == "ground_truth" else None


BOUNDS: Final = Computation(
    name="bounds",
    path="/v1/bounds",
    description="Compute bounds on the success of an attacker against one mechanism. Every answer contains an "
    "enclosure and the evidence for it.",
    examples=BOUNDS_EXAMPLES,
    request_type=BoundsRequest,
    response_type=BoundsResponse,
    function=compute_bounds,
    quote=bounds_quote,
    ground_truth_digits=ground_truth_digits,
    ends_early=True,
)
