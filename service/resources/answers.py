"""Answer to one question from the trade-off curves of a mechanism, and the answers of further engines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np

from api_schemas.answers import TradeOffPoint
from api_schemas.questions import (
    GdpMuQuestion,
    QuestionSpec,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
)
from service.privacy.composition.planning.plan import Plan
from service.privacy.enclosure import EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure, OutOfDomain, UnsupportedCombination
from service.privacy.limit import WidthLimit
from service.privacy.numerics.arrays import BoolArray
from service.privacy.numerics.work import Work, at_most, compute_once, count_work, is_late, replace_kept, was_cut_short
from service.privacy.questions import gaussian_dp, unlearning
from service.privacy.questions.capping import capped, capped_points
from service.privacy.questions.reading import Reading
from service.privacy.questions.unlearning import Held
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import chosen, relative_widths
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import ResponseFields
from service.resources.allowance import share
from service.resources.limits import begin_limits, limit_fields, limit_of_numbers, limit_of_points
from service.resources.numbers import (
    enclosed_number,
    enclosed_numbers,
    notes_for,
    tightness,
    with_evidence_of,
)
from service.resources.readings import READINGS
from service.resources.violations import record_violation

WORK_USED_UP: Final = "the request has used its share of work. Send fewer methods or fewer numbers at once."
CAPPED: Final = (
    "The worst case of the same run is also a bound for this attacker. The answer is the bound of the worst case."
)
AN_ANSWER: Final = 100.0
"""Work of an answer beside its evaluations, in microseconds, approximately."""


@final
@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """Answer of one composition engine to a question.

    The fields `evidence`, `tight`, `method`, `limit` (the reason for a wide answer), `source` and `notes` are those of
    the response.

    Attributes
    ----------
    number : dict
        Fields of the number with its bounds, or the points.
    beside : dict
        Further numbers of the answer, in the order of the response.
    holds : Held or None
        Whether a required guarantee holds, or None for questions without such a verdict.
    read : tuple
        (CurvePoints, Evidence) for a trade-off question, else the enclosures of `number` and `beside`.
    cut_short : bool
        Whether a search ended because its share of the allowance was spent.
    """

    number: ResponseFields
    evidence: Evidence
    tight: bool | None
    method: str
    limit: WidthLimit | None
    source: str
    notes: tuple[str, ...]
    beside: ResponseFields = field(default_factory=dict[str, Any])
    holds: Held | None = None
    read: tuple[Any, ...] = ()
    cut_short: bool = False

    @property
    def widest(self) -> float:
        """Largest relative width (upper - lower)/upper of the numbers; infinite if no number has a finite upper bound.

        A number without a finite upper bound does not count beside one that has it.
        """
        if isinstance(self.read[0], CurvePoints):
            points: CurvePoints = self.read[0]
            return float(max(relative_widths(part).max() for part in (points.power, points.type_two_error)))
        return max((each.relative_width() for each in self.read if each.upper < math.inf), default=math.inf)

    def answer(
        self,
        question: QuestionSpec,
        *,
        conditional: bool,
        notes: tuple[str, ...] = (),
        methods: list[ResponseFields] | None = None,
    ) -> ResponseFields:
        """Return the answer as fields of the response, in their order.

        Parameters
        ----------
        question : QuestionSpec
            Question of the request.
        conditional : bool
            Whether the answer holds only against an attacker weaker than the worst case.
        notes : tuple of str
            Further notes, after those of this answer.
        methods : list, optional
            Numbers of further engines, from `entry` or `compare_engines`.
        """
        return {
            "type": question.type,
            "question": question,
            **self.number,
            **self.beside,
            "evidence": self.evidence,
            "tight": self.tight,
            "conditional": conditional,
            "method": self.method,
            "tolerance_met": self.limit is None,
            **limit_fields(self.limit),
            "source": self.source,
            "notes": self.notes + notes,
            **({} if self.holds is None else {"holds": self.holds}),
            **({} if methods is None else {"methods": methods}),
        }

    def entry(self, method: str) -> ResponseFields:
        """Return the numbers of the engine named `method` as an entry of the field `methods` in another answer."""
        return {
            "method": method,
            **self.number,
            "evidence": self.evidence,
            "tight": self.tight,
            "notes": self.notes,
        }


def evaluate_question(curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> EngineAnswer:
    """Return the answer to `question`, evaluated on the trade-off curves to a relative width of `tolerance`.

    A wider answer has the reason as its `limit`. The answer for a weaker attacker is capped by that of the worst case.
    Raises PrivacyComputationError.
    """
    if curves.origin is None:
        return _evaluate_question(curves, question, tolerance)
    return compute_once((curves.origin, question, tolerance), lambda: _evaluate_question(curves, question, tolerance))


def narrower(known: EngineAnswer, curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> EngineAnswer:
    """Return the answer `known` to `question`, or a new one from `curves` if it is narrower.

    A new answer is computed only if work ran out before `known` had the relative width `tolerance` (`known.cut_short`).
    For a trade-off question, each number is the narrower one of both answers.
    """
    if not known.cut_short:
        return known
    found = _evaluate_question(curves, question, tolerance)
    if question.type == "trade_off":
        found = _narrower_points(known, found, curves, question, tolerance)
    elif found.widest > known.widest or (found.cut_short and found.widest == known.widest):
        return known
    if curves.origin is not None:
        replace_kept((curves.origin, question, tolerance), found)
    return found


def _narrower_points(
    known: EngineAnswer, found: EngineAnswer, curves: TradeOffPair, question: TradeOffQuestion, tolerance: float
) -> EngineAnswer:
    before, after = known.read[0], found.read[0]
    better_error = _are_narrower(after.type_two_error, before.type_two_error)
    better_power = _are_narrower(after.power, before.power)
    if found.cut_short and not (better_error.any() or better_power.any()):
        return known
    points = replace(
        after,
        type_two_error=chosen(better_error, after.type_two_error, before.type_two_error),
        power=chosen(better_power, after.power, before.power),
    )
    limit = limit_of_points(curves, found.evidence, points, tolerance)
    return replace(
        found,
        number={"points": written_points(question, points, found.evidence)},
        limit=limit,
        cut_short=found.cut_short and limit is not None,
        read=(points, found.evidence),
    )


def _are_narrower(found: EnclosureArray, known: EnclosureArray) -> BoolArray:
    # relative widths are 1 for all enclosures with the lower bound 0, and widths then decide
    new, old = relative_widths(found), relative_widths(known)
    return (new < old) | ((new == old) & (found.upper - found.lower < known.upper - known.lower))


def _evaluate_question(curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> EngineAnswer:
    found = _evaluate(curves, question, tolerance)
    return replace(found, cut_short=True) if found.limit is not None and was_cut_short() else found


def _evaluate(curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> EngineAnswer:
    count_work(AN_ANSWER)
    begin_limits(curves)
    worst = () if curves.worst_case is None else evaluate_question(curves.worst_case, question, tolerance).read
    curve: AbstractTradeOff = getattr(curves, question.direction)
    if question.type == "trade_off":  # faster than isinstance on a model
        return _trade_off(curves, curve, question, tolerance, worst)
    if question.type == "gdp_mu":
        return _gdp_mu(curves, curve, question, tolerance, worst)
    if question.type == "unlearning_guarantee":
        return _guarantee(curves, curve, question, tolerance, worst)
    before = curves.second_uses
    return _from_reading(curves, curve, READINGS[type(question)](curve, question), tolerance, before, worst)


def _guarantee(
    curves: TradeOffPair,
    curve: AbstractTradeOff,
    question: UnlearningGuaranteeQuestion,
    tolerance: float,
    worst: tuple[Any, ...],
) -> EngineAnswer:
    before = curves.second_uses
    found = unlearning.unlearning_guarantee(curve, question.prior, question.confidence)
    return _from_reading(curves, curve, found.reading, tolerance, before, worst, found.holds)


def _from_reading(
    curves: TradeOffPair,
    curve: AbstractTradeOff,
    reading: Reading,
    tolerance: float,
    before: int,
    worst: tuple[Any, ...],
    holds: Held | None = None,
) -> EngineAnswer:
    own = with_evidence_of(curve, reading.value)
    value = capped(own, worst[0], reading.safe_end) if worst else own
    return EngineAnswer(
        number={**enclosed_number(value, reading.safe_end)},
        evidence=value.evidence,
        tight=tightness(value.evidence, curves.bracket),
        method=curve.method,
        limit=limit_of_numbers(curves, (value,), tolerance, reading.notes),
        source=_source(reading.source, curves),
        notes=reading.notes + notes_for(curves, value.evidence) + curves.notes_since(before) + _cap_note(own, value),
        holds=holds,
        read=(value,),
    )


def _cap_note(own: Any, value: Any) -> tuple[str, ...]:
    return () if value is own else (CAPPED,)


def curves_of(plans: Mapping[str, Plan]) -> dict[str, TradeOffPair]:
    """Return the trade-off curves of `plans` by method. Engines that refuse the mechanism are left out.

    Building curves is inexpensive: engines work when curves are evaluated.
    """
    found: dict[str, TradeOffPair] = {}
    for method, plan in plans.items():
        try:
            found[method] = plan.curves
        except UnsupportedCombination:
            continue
    return found


def compare_engines(
    engines: Mapping[str, TradeOffPair], question: QuestionSpec, tolerance: float, work: Work, left: int
) -> list[ResponseFields]:
    """Return the answers of all `engines` to `question`, as entries of the field `methods` of a response.

    The keys of `engines` are names of methods. An engine that does not answer this type of question is left out. An
    engine that fails, or for which no work or time is left, has a null number and a note with the reason. `left` is the
    number of evaluations, these included, that share the rest of `work`. `tolerance` is the relative width aimed at.
    """
    entries: list[ResponseFields] = []
    for number, (method, curves) in enumerate(engines.items()):
        if work.done >= work.end or is_late():
            entries.append(_failed(method, question, WORK_USED_UP))
            continue
        try:
            with at_most(share(work, left - number)):
                entries.append(evaluate_question(curves, question, tolerance).entry(method))
        except UnsupportedCombination:
            continue  # this engine does not answer this question
        except NumericalFailure as failure:
            record_violation(failure)
            entries.append(_failed(method, question, str(failure)))
        except OutOfDomain as failure:  # inside the engine: another engine accepted the question
            entries.append(_failed(method, question, f"{failure.name} must be {failure.domain}."))
    return entries


def _failed(method: str, question: QuestionSpec, reason: str) -> ResponseFields:
    is_list = isinstance(question, TradeOffQuestion)
    nothing: ResponseFields = {"points": ()} if is_list else {"value": None, "lower": None, "upper": None}
    return {"method": method, **nothing, "evidence": None, "tight": None, "notes": (f"No number: {reason}",)}


def _trade_off(
    curves: TradeOffPair,
    curve: AbstractTradeOff,
    question: TradeOffQuestion,
    tolerance: float,
    worst: tuple[Any, ...],
) -> EngineAnswer:
    before = curves.second_uses
    read = curve.points(np.array(question.false_positive_rates))
    if worst and curve.evidence.is_certain and worst[1].is_certain:
        read = capped_points(read, worst[0])
    return EngineAnswer(
        number={"points": written_points(question, read, curve.evidence)},
        evidence=curve.evidence,
        tight=tightness(curve.evidence, curves.bracket),
        method=curve.method,
        limit=limit_of_points(curves, curve.evidence, read, tolerance),
        source=curves.source,
        notes=notes_for(curves, curve.evidence) + curves.notes_since(before),
        read=(read, curve.evidence),
    )


def written_points(question: TradeOffQuestion, read: CurvePoints, evidence: Evidence) -> list[TradeOffPoint]:
    """Return the points `read` of a trade-off curve in the format of responses, at the rates of `question`.

    `evidence` is that of the bounds.
    """
    return [
        {"false_positive_rate": rate, "type_two_error": error, "power": power}
        for rate, error, power in zip(
            question.false_positive_rates,
            enclosed_numbers(read.type_two_error, "lower", evidence),
            enclosed_numbers(read.power, "upper", evidence),
            strict=True,
        )
    ]


def _gdp_mu(
    curves: TradeOffPair, curve: AbstractTradeOff, question: GdpMuQuestion, tolerance: float, worst: tuple[Any, ...]
) -> EngineAnswer:
    before = curves.second_uses
    reading = gaussian_dp.mu_in_direction(
        curves, question.direction, question.false_positive_rate_min, question.type_two_error_min
    )
    own, own_global = with_evidence_of(curve, reading.value), with_evidence_of(curve, reading.global_mu)
    mu, global_mu = own, own_global
    if worst:
        global_mu = capped(own_global, worst[1], "upper")
        # The range of type II errors depends on the curve, so that only mu of the whole worst case is a cap.
        mu = capped(own, worst[0] if question.type_two_error_min == 0 else worst[1], "upper")
    # An infinite upper bound of mu over a whole curve is not a lack of precision.
    bounded = (mu,) if math.isinf(global_mu.upper) else (mu, global_mu)
    value = enclosed_number(mu, "upper")
    evidence = Evidence.weakest(mu.evidence, global_mu.evidence)
    notes = reading.notes + notes_for(curves, evidence) + curves.notes_since(before) + _cap_note(own, mu)
    return EngineAnswer(
        number={"value": value["value"], "lower": value["lower"], "upper": value["upper"]},
        beside={"global_mu": enclosed_number(global_mu, "upper")},
        evidence=evidence,
        tight=tightness(evidence, curves.bracket),
        method=curve.method,
        limit=limit_of_numbers(curves, bounded, tolerance, reading.notes),
        source=_source(reading.source, curves),
        notes=notes,
        read=(mu, global_mu),
    )


def _source(theorem: str, curves: TradeOffPair) -> str:
    return theorem if theorem == curves.source else f"{theorem}; {curves.source}"
