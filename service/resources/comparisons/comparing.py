"""Resource `POST /v1/comparisons`: answers of all runs, their trade-off curves, and every pair of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, NamedTuple, final

import numpy as np

from api_schemas.bounds import BoundsRequest
from api_schemas.comparisons import ComparisonsRequest, ComparisonsResponse, Run
from api_schemas.examples import COMPARISONS_EXAMPLES
from api_schemas.nested import repoint
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from service.privacy.enclosure import Evidence
from service.privacy.errors import NumericalFailure, PrivacyComputationError
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import at_most
from service.privacy.questions.dominance import Verdict
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.resources.abstract import Computation, Planned, Quote, ResponseFields
from service.resources.allowance import MOST_WORK, WorkBudgetShares
from service.resources.bounds import ResolvedRequest
from service.resources.comparisons.curve_verdicts import COMPARED_POINT_COST, COMPARISON_COST, Read, curve_verdict
from service.resources.comparisons.differences import SAME, Sign, best_of, difference_of
from service.resources.comparisons.labels import label_of
from service.resources.comparisons.ordered import SAME as SAME_RUN
from service.resources.comparisons.ordered import THEOREM, is_at_least_as_hard
from service.resources.curve_points import points_of
from service.resources.estimates import unpriced_together
from service.resources.nested import combine_quotes, evaluate_with_curves, quote_nested, resolved_requests_of
from service.resources.parts import attribute_error
from service.resources.read_numbers import ReadNumber, is_guarantee

DIFFERENCE_COST: Final = 35
"""Cost of one quantity of two runs."""
OTHER_ATTACKERS: Final = "The runs have different threat models, so their numbers also differ by the attacker."
TURNED: Final[dict[Sign, Sign]] = {"first_smaller": "second_smaller", "second_smaller": "first_smaller"}


@final
class _EvaluatedRun(NamedTuple):
    answered: ResponseFields
    numbers: list[tuple[ReadNumber, ...]]
    curve: Read | None


@final
class _ComparedQuantity(NamedTuple):
    place: int
    question: QuestionSpec
    point: int | None


def _compute_comparisons(request: ComparisonsRequest, digest: str, engine_version: str) -> ResponseFields:
    return _response(request, {}, digest, engine_version)


def _response(
    request: ComparisonsRequest, resolved_requests: Mapping[int, ResolvedRequest], digest: str, engine_version: str
) -> ResponseFields:
    quantities = _quantities(request.questions)
    known: dict[BoundsRequest, _EvaluatedRun] = {}
    runs: list[_EvaluatedRun] = []
    drawn = _runs_to_read(request)
    with at_most(MOST_WORK) as work:
        shares = WorkBudgetShares(work, len(dict.fromkeys(map(request.asked, range(len(request.runs))))))
        for index in range(len(request.runs)):
            asked = request.asked(index)
            if asked not in known:  # equal runs are evaluated once
                with shares.next_share():
                    known[asked] = _evaluate_run(
                        request, index, asked, resolved_requests.get(index), quantities, draw=index in drawn
                    )
            runs.append(known[asked])
    pairs = [_pair(request, runs, first, second) for first, second in combinations(range(len(runs)), 2)]
    several = any(run.threat_model != request.runs[0].threat_model for run in request.runs)
    return {
        "digest": digest,
        "engine_version": engine_version,
        "relative_tolerance": request.relative_tolerance,
        "questions": request.questions,
        "direction": request.direction,
        "false_positive_rates": request.false_positive_rates,
        "runs": [_run_representation(run.name, found.answered) for run, found in zip(request.runs, runs, strict=True)],
        "quantities": [_ranked(request, runs, pairs, place, each) for place, each in enumerate(quantities)],
        "pairs": pairs,
        "notes": (OTHER_ATTACKERS,) if several else (),
    }


def _order_by_parameters(one: Run, other: Run) -> ResponseFields | None:
    first = is_at_least_as_hard(one.mechanism, other.mechanism, one.threat_model, other.threat_model)
    second = is_at_least_as_hard(other.mechanism, one.mechanism, other.threat_model, one.threat_model)
    same = one.mechanism == other.mechanism and one.threat_model == other.threat_model
    if not (first or second or same):
        return None
    verdict = Verdict.FIRST_IS_HARDER if first else Verdict.SECOND_IS_HARDER
    return {
        "curves": {
            "verdict": Verdict.EQUAL if same or (first and second) else verdict,
            "crossings": (),
            "undecided_rates": 0,
            "evidence": Evidence.EXACT,
        },
        "theorem": SAME_RUN if same else THEOREM,
    }


def _runs_to_read(request: ComparisonsRequest) -> set[int]:
    pairs = combinations(enumerate(request.runs), 2)
    return {place for pair in pairs if _order_by_parameters(pair[0][1], pair[1][1]) is None for place, _ in pair}


def _quantities(questions: Sequence[QuestionSpec]) -> list[_ComparedQuantity]:
    found: list[_ComparedQuantity] = []
    for place, question in enumerate(questions):
        several = isinstance(question, TradeOffQuestion)
        points = range(len(question.false_positive_rates)) if several else (None,)
        found += [_ComparedQuantity(place, question, point) for point in points]
    return found


def _evaluate_run(
    request: ComparisonsRequest,
    index: int,
    asked: BoundsRequest,
    resolved: ResolvedRequest | None,
    quantities: Sequence[_ComparedQuantity],
    *,
    draw: bool,
) -> _EvaluatedRun:
    places = request.places(index)
    answered, curves = evaluate_with_curves(asked, places, resolved)
    drawn: Read | None = None
    if draw:
        curve: AbstractTradeOff = getattr(curves, request.direction)
        try:
            rates = np.array(request.false_positive_rates)
            drawn = points_of(curves, request.direction, rates), curve.evidence
        except PrivacyComputationError as error:
            found = attribute_error(error, "/mechanism", request)
            found.pointer = repoint(found.pointer, places)
            raise found from None
    answers = answered["answers"]
    return _EvaluatedRun(answered, [_numbers(answers[each.place], each.point) for each in quantities], drawn)


def _numbers(answer: ResponseFields, point: int | None) -> tuple[ReadNumber, ...]:
    if point is None:
        return (ReadNumber.of(answer),)
    return tuple(ReadNumber.of(answer, reads, point) for reads in ("power", "type_two_error"))


def _run_representation(name: str, answered: ResponseFields) -> ResponseFields:
    kept = ("mechanism", "threat_model", "answers", "worst_case", "assumptions", "hazards")
    return {"name": name, **{field: answered[field] for field in kept}}


def _pair(request: ComparisonsRequest, runs: Sequence[_EvaluatedRun], first: int, second: int) -> ResponseFields:
    one, other = runs[first], runs[second]
    decided = _order_by_parameters(request.runs[first], request.runs[second])
    if decided is None:
        rates = np.array(request.false_positive_rates)
        decided = {"curves": _verdict(rates, one, other), "theorem": None}
    both = zip(one.numbers, other.numbers, strict=True)
    return {
        "first": request.runs[first].name,
        "second": request.runs[second].name,
        **decided,
        "differences": [SAME if one is other else difference_of(*numbers) for numbers in both],
    }


def _verdict(rates: FloatArray, one: _EvaluatedRun, other: _EvaluatedRun) -> ResponseFields:
    if one.curve is None or other.curve is None:
        raise NumericalFailure("a curve for the comparison was not evaluated")
    return curve_verdict(rates, one.curve, other.curve)


def _ranked(
    request: ComparisonsRequest,
    runs: Sequence[_EvaluatedRun],
    pairs: Sequence[ResponseFields],
    place: int,
    each: _ComparedQuantity,
) -> ResponseFields:
    count = len(runs)
    verdicts: list[list[Sign]] = [["equal"] * count for _ in runs]
    for (first, second), pair in zip(combinations(range(count), 2), pairs, strict=True):
        verdict: Sign = pair["differences"][place]["verdict"]
        verdicts[first][second], verdicts[second][first] = verdict, TURNED.get(verdict, verdict)
    best, certain = best_of([run.numbers[place][0] for run in runs], verdicts)
    return {
        "label": label_of(each.question, each.point),
        "question": each.place,
        **({} if each.point is None else {"point": each.point}),
        "better": "larger" if is_guarantee(each.question) else "smaller",
        "best": [request.runs[run].name for run in best],
        "certain": certain,
    }


def comparisons_quote(request: ComparisonsRequest) -> Quote:
    """Return the estimated cost of a comparison, in microseconds of CPU time.

    All answers, evaluated curves and pairs of runs count.
    """
    pairs = len(request.runs) * (len(request.runs) - 1) / 2
    compared = COMPARISON_COST + COMPARED_POINT_COST * len(request.false_positive_rates)
    beside = math.ceil(pairs * (compared + DIFFERENCE_COST * request.quantity_count))
    described = [(run.mechanism, run.threat_model) for run in request.runs]
    long = unpriced_together(described, 1 + len(request.questions))
    if long is not None:
        return replace(long, cost=long.cost + beside, ceiling=long.ceiling + beside)
    rates = TradeOffQuestion(
        type="trade_off", false_positive_rates=request.false_positive_rates, direction=request.direction
    )
    drawn = _runs_to_read(request)
    asked: dict[BoundsRequest, int] = {}
    for index in range(len(request.runs)):
        one = request.asked(index)
        more = {"questions": (*one.questions, rates)} if index in drawn else {}
        asked.setdefault(one.model_copy(update=more), index)
    quotes = {index: quote_nested(one, request.places(index)) for one, index in asked.items()}
    return replace(
        combine_quotes([*quotes.values()], beside), prepared=Planned(resolved_requests_of(quotes), _response)
    )


COMPARISONS: Final = Computation(
    name="comparisons",
    path="/v1/comparisons",
    description="Compare several runs by answers and signed differences, and determine the run that is harder to "
    "attack.",
    examples=COMPARISONS_EXAMPLES,
    request_type=ComparisonsRequest,
    response_type=ComparisonsResponse,
    function=_compute_comparisons,
    quote=comparisons_quote,
    ends_early=True,
)
