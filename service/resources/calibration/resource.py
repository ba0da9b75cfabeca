"""Resource `POST /v1/calibrations`: the least private number of a request at which every target is met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api_schemas.assumptions_and_hazards import Assumption, Hazard
from api_schemas.bounds import BoundsRequest
from api_schemas.calibration_answers import CalibrationsResponse
from api_schemas.calibration_examples import CALIBRATIONS_EXAMPLES
from api_schemas.calibrations import CalibrationsRequest
from api_schemas.threat_models import is_relaxed
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import NumericalFailure, OutOfDomain, PrivacyComputationError, UnsupportedCombination
from service.privacy.limit import WidthLimit
from service.privacy.numerics.work import Work, at_most
from service.privacy.threat_models.relaxed import worst_case_beside
from service.resources.abstract import Computation, Planned, Quote, ResponseFields
from service.resources.allowance import WorkBudgetShares
from service.resources.bounds import BEST, answers_of, assumptions_and_hazards, beside_relaxed
from service.resources.calibration.directions import Directions, directions
from service.resources.calibration.evaluator import MOST_WORK, WORK_EXHAUSTED, Evaluator, PointEvaluation, groups_of
from service.resources.calibration.found import SearchResult
from service.resources.calibration.search import search
from service.resources.estimates import UNCERTAINTY, UNPRICED
from service.resources.limits import limit_fields
from service.resources.nested import combine_quotes, quote_nested, resolved_requests_of
from service.resources.parts import mechanism_of, options_of, threat_model_of

ANSWERS: Final = 3_000_000
"""Counted work for the worst case of a relaxed attacker at the value, beside the remainder of the search."""
READINGS: Final = 6
"""Typical number of evaluations."""
NOTHING_DEPENDS: Final = "a number that changes the answer of a target"
SIDES: Final = {1: "larger", -1: "smaller"}
MET_THERE_TOO: Final = (
    "Every less private number in the range also meets the targets, as far as these numbers are supported."
)
TWO_THEOREMS: Final = (
    "Two theorems give the bounds of the answers (tight is false). Between `fails` and the value no known "
    "theorem decides."
)
TOO_WIDE: Final = "The enclosures are wider than the requested tolerance."
NOT_FOR_SURE: Final = "No target provably fails at the value, because the limit lies inside its enclosure."
FAILS_HERE: Final = "A target fails at the value. No proof shows that a target fails at every number of the range."
AT_THE_END: Final = "No less private number that was evaluated fails. No proof covers the other numbers of the range."
NOT_SERVED: Final = "The neighbouring number is not supported: {why}"
SOME_NOT_SERVED: Final = "Some numbers of the range are not supported: {why}"
UNPROVED: Final = (
    "No evaluated number provably meets every target. A number that was not evaluated may meet all of them."
)
FIXED: Final = (
    "Target {index} does not depend on the free number, and the limit lies inside its enclosure. No number can "
    "be proved to meet every target, so the value is for the other targets. Send a larger relative_tolerance "
    "to leave more work for each answer."
)
BUDGET_ENDED: Final = (
    "The search reached the work limit of a calibration. A number that was not evaluated may meet every "
    "target. Send a larger relative_tolerance, or `bounds` around the expected number, to reduce the work."
)
NOT_ON_ONE_SIDE: Final = (
    "`met_side` is null, because no proof shows that all numbers on one side of the value meet the targets. "
    "Send a request for another number before using it."
)
BOTH_SIDES: Final = (
    "`met_side` is null, because some targets are met from the value on and others only up to a number on that side."
)
OTHER_SIDE: Final = (
    "The value meets the targets for more privacy, and every less private number fails one of them. The "
    "targets for less privacy are not all met at the value or at more private numbers."
)


def _compute_calibrations(request: CalibrationsRequest, digest: str, engine_version: str) -> ResponseFields:
    return _response(request, {}, digest, engine_version)


def _response(
    request: CalibrationsRequest, planned: Mapping[BoundsRequest, Plan], digest: str, engine_version: str
) -> ResponseFields:
    known = _checked_directions(request)
    evaluator = Evaluator(request, request.place, known.fixed, planned)
    with at_most(ANSWERS + evaluator.most_work) as work:
        with at_most(evaluator.most_work):
            found = search(request, evaluator, known)
        value = evaluator.typed(found.value.number)
        settled = evaluator.with_number(value)
        answers = _answer_fields(settled, found.value, work)
    witness, missing = _witness(evaluator, found)
    limit = None if witness is not None else _why_no_witness(found, missing)
    return {
        "digest": digest,
        "engine_version": engine_version,
        "mechanism": settled.mechanism,
        "threat_model": settled.threat_model,
        "free": request.free,
        "targets": settled.targets,
        **({} if request.bounds is None else {"bounds": request.bounds}),
        "relative_tolerance": request.relative_tolerance,
        "status": found.status,
        "value": value,
        "answers": answers["answers"],
        "binding": found.value.binding(found.group),
        "witness": witness,
        "no_witness": missing,
        "monotone": {
            "proved": found.proved,
            "met_side": None if found.side is None else SIDES[found.side],
            "theorem": found.theorem,
        },
        "tolerance_met": limit is None,
        **limit_fields(limit),
        "worst_cases": answers["worst_cases"],
        "readings": len(evaluator.evaluations),
        "assumptions": answers["assumptions"],
        "hazards": answers["hazards"],
        "notes": _notes(evaluator, found, known),
    }


def _calibrations_quote(request: CalibrationsRequest) -> Quote:
    _checked_directions(request)
    try:
        quotes = {group.request: quote_nested(group.request, group.places) for group in groups_of(request)}
    except PrivacyComputationError:  # the number in the request is only a start
        return Quote(
            MOST_WORK // READINGS, engine=UNPRICED, uncertainty_factor=UNCERTAINTY, ceiling=MOST_WORK + ANSWERS
        )
    each = combine_quotes([*quotes.values()])
    cost = min(READINGS * each.cost, max(each.cost, MOST_WORK))
    prepared = Planned({asked: resolved.primary for asked, resolved in resolved_requests_of(quotes).items()}, _response)
    return Quote(
        cost,
        engine=each.engine,
        uncertainty_factor=UNCERTAINTY,
        ceiling=max(each.ceiling, MOST_WORK + ANSWERS),
        prepared=prepared,
    )


def _checked_directions(request: CalibrationsRequest) -> Directions:
    known = directions(request)
    if not any(need != 0 for need in known.needs):
        error = OutOfDomain("free", request.free, NOTHING_DEPENDS)
        error.pointer = "/free"
        raise error
    return known


def _answer_fields(request: CalibrationsRequest, evaluation: PointEvaluation, work: Work) -> ResponseFields:
    answers = {index: target.answer for index, target in enumerate(evaluation.targets)}
    beside: dict[int, ResponseFields] = {}
    assumptions: dict[str, Assumption] = {}
    hazards: dict[str, Hazard] = {}
    relaxed = sum(is_relaxed(group.request.threat_model) for group in groups_of(request))
    shares = WorkBudgetShares(work, relaxed)
    for group in groups_of(request):
        asked = group.request
        mechanism, attacker = mechanism_of(asked.mechanism), threat_model_of(asked.threat_model)
        worst = worst_case_beside(attacker, mechanism)
        if worst is not None:
            own = group.plan().curves
            with shares.next_share():
                if own.worst_case is not None:  # with more work than an evaluation had
                    answers |= zip(group.indices, answers_of(own, asked, work, conditional=True), strict=True)
                fields = beside_relaxed(worst, own, asked, work, worst.plan(mechanism, BEST, options_of(asked)))
            for index, answer in zip(group.indices, fields["answers"], strict=True):
                beside[index] = {"target": index, "threat_model": fields["threat_model"], "answer": answer}
        fields = assumptions_and_hazards(asked, mechanism, attacker)
        assumptions |= {each.text: each for each in fields["assumptions"]}
        hazards |= {each.text: each for each in fields["hazards"]}
    return {
        "answers": [answers[index] for index in sorted(answers)],
        "worst_cases": [beside[index] for index in sorted(beside)],
        "assumptions": list(assumptions.values()),
        "hazards": list(hazards.values()),
    }


def _witness(evaluator: Evaluator, found: SearchResult) -> tuple[ResponseFields | None, ResponseFields | None]:
    # A witness is a neighbour of the result at which a target provably fails: (witness, None), or (None, reason).
    fails = undecided = None
    if found.failing is not None:
        fails = _neighbour(evaluator, found, found.failing, found.failing.failing(found.group) or 0)
        if found.witnessed:
            return fails, None
    if found.beside is not None and found.beside.failing(found.group) is None:
        undecided = _neighbour(evaluator, found, found.beside, found.beside.binding(found.group))
    return None, {"reason": _reason(found), "undecided": undecided, "fails": fails}


def _why_no_witness(found: SearchResult, missing: ResponseFields | None) -> WidthLimit | None:
    # None: every less private number meets the targets, too
    if found.status == "trivially_met":
        return None
    neighbours = (None if missing is None else missing[name] for name in ("undecided", "fails"))
    near = [found.value.targets[index].answer for index in found.group]
    near += [neighbour["answer"] for neighbour in neighbours if neighbour is not None]
    limits: list[WidthLimit] = [answer["limit"]["code"] for answer in near if "limit" in answer]
    if limits:
        return limits[0]
    if found.refused is not None:
        return WidthLimit.NOT_SERVED
    return WidthLimit.RANGE_END if found.beside is None else WidthLimit.UNDECIDED_TARGET


def _reason(found: SearchResult) -> str:
    if found.status == "trivially_met":
        return MET_THERE_TOO
    if found.status in ("infeasible", "undecided"):
        return NOT_FOR_SURE if found.value.failing(found.group) is None else FAILS_HERE
    if found.refused is not None:
        return NOT_SERVED.format(why=_why(found.refused))
    if found.beside is None:
        return AT_THE_END
    tight = all(found.value.targets[index].answer["tight"] for index in found.group)
    return TOO_WIDE if tight else TWO_THEOREMS


def _neighbour(evaluator: Evaluator, found: SearchResult, evaluation: PointEvaluation, target: int) -> ResponseFields:
    value, number = found.value.number, evaluation.number
    return {
        "value": evaluator.typed(number),
        "target": target,
        "answer": evaluation.targets[target].answer,
        "distance": abs(number - value) / (value or number or 1.0),
    }


def _notes(evaluator: Evaluator, found: SearchResult, known: Directions) -> tuple[str, ...]:
    notes = list(found.notes)
    unmet = found.status in ("infeasible", "undecided")
    if unmet and found.group == known.others:
        notes.append(OTHER_SIDE)
    if found.status == "undecided":
        notes += _reasons_for_undecided(found, known)
    elif not unmet and found.side is None:
        notes.append(BOTH_SIDES if found.proved else NOT_ON_ONE_SIDE)
    if found.status == "undecided" and any(_ran_out(error) for error in evaluator.refusals.values()):
        notes.append(BUDGET_ENDED)
    elif evaluator.refusals and found.refused is None:
        notes.append(SOME_NOT_SERVED.format(why=_why(next(iter(evaluator.refusals.values())))))
    return tuple(notes)


def _reasons_for_undecided(found: SearchResult, known: Directions) -> list[str]:
    open_ones = [index for index in known.fixed if not found.value.targets[index].meets]
    return [FIXED.format(index=index) for index in open_ones] or [UNPROVED]


def _ran_out(error: Exception) -> bool:
    return isinstance(error, UnsupportedCombination) and error.reason == WORK_EXHAUSTED


def _why(error: Exception) -> str:
    if isinstance(error, NumericalFailure):
        return "a check of the computation failed for this number."
    if _ran_out(error):
        return WORK_EXHAUSTED
    return (
        str(error) if isinstance(error, PrivacyComputationError) else "the number contradicts the rest of the request."
    )


def exit_code(response: CalibrationsResponse) -> int:
    """Return the exit status of the command: 0 if every target is proved to be met at the calibrated value, else 1."""
    return 0 if response.status in ("met", "trivially_met") else 1


CALIBRATIONS: Final = Computation(
    name="calibrations",
    path="/v1/calibrations",
    description="Compute the least private value of one free number that provably meets every target. The response "
    "includes a neighbour that provably fails a target.",
    examples=CALIBRATIONS_EXAMPLES,
    request_type=CalibrationsRequest,
    response_type=CalibrationsResponse,
    function=_compute_calibrations,
    quote=_calibrations_quote,
    exit_code=exit_code,
)
