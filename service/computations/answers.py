"""One question on the curves of a mechanism: the answer, and what other engines say beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from api_schemas.answers import TradeOffPoint
from api_schemas.questions import (
    GdpMuQuestion,
    NumberQuestion,
    QuestionSpec,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
)
from service.computations.abstract import ResponseFields
from service.computations.numbers import (
    as_sure_as,
    enclosed_number,
    enclosed_numbers,
    meets,
    narrow,
    remarks,
    tightness,
)
from service.computations.readings import READINGS
from service.computations.violations import note
from service.privacy.composition.plan import Plan
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import NumericalFailure, OutOfDomain, UnsupportedCombination
from service.privacy.questions import gaussian_dp, unlearning
from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.pair import TradeOffPair


def answer(curves: TradeOffPair, question: QuestionSpec, tolerance: float, *, conditional: bool) -> ResponseFields:
    """The fields of an answer in their order, without `methods`. Raises PrivacyComputationError.

    `conditional`: the curves hold against a relaxed threat model.
    """
    asked = curves.asked
    curve: AbstractTradeOff = getattr(curves, question.direction)
    if isinstance(question, TradeOffQuestion):
        fields = _trade_off(curves, curve, question, tolerance)
    elif isinstance(question, GdpMuQuestion):
        fields = _gdp_mu(curves, curve, question, tolerance)
    elif isinstance(question, UnlearningGuaranteeQuestion):
        fields = _guarantee(curves, curve, question, tolerance)
    else:
        fields = _number(curves, curve, question, tolerance)
    fields["conditional"] = conditional
    fields["notes"] = (*fields["notes"], *curves.notes_since(asked))
    return fields


def _number(
    curves: TradeOffPair, curve: AbstractTradeOff, question: NumberQuestion, tolerance: float
) -> ResponseFields:
    return _of_reading(curves, curve, question, READINGS[type(question)](curve, question), tolerance)


def _guarantee(
    curves: TradeOffPair, curve: AbstractTradeOff, question: UnlearningGuaranteeQuestion, tolerance: float
) -> ResponseFields:
    found = unlearning.unlearning_guarantee(curve, question.prior, question.confidence)
    return {**_of_reading(curves, curve, question, found.reading, tolerance), "holds": found.holds}


def _of_reading(
    curves: TradeOffPair, curve: AbstractTradeOff, question: QuestionSpec, reading: Reading, tolerance: float
) -> ResponseFields:
    value = as_sure_as(curve, reading.value)
    return {
        "type": question.type,
        "question": question,
        **enclosed_number(value, reading.safe_end),
        "evidence": value.evidence,
        "tight": tightness(value.evidence, curves.bracket),
        "conditional": False,
        "method": curve.method,
        "tolerance_met": meets(value, tolerance),
        "source": _source(reading.source, curves),
        "notes": reading.notes + remarks(curves, value.evidence),
    }


def curves_of(plans: Mapping[str, Plan]) -> dict[str, TradeOffPair]:
    """The curves of all engines that can serve a mechanism: some say so when their curves are made.

    Cheap: engines work when curves are read.
    """
    found: dict[str, TradeOffPair] = {}
    for method, plan in plans.items():
        try:
            found[method] = plan.curves
        except UnsupportedCombination:
            continue
    return found


def side_by_side(engines: Mapping[str, TradeOffPair], question: QuestionSpec, tolerance: float) -> list[ResponseFields]:
    """What every engine answers, for the field `methods`; an engine that fails has null for a number and says why."""
    entries: list[ResponseFields] = []
    for method, curves in engines.items():
        try:
            said = answer(curves, question, tolerance, conditional=False)
        except UnsupportedCombination:
            continue  # this engine does not read this question
        except NumericalFailure as failure:
            note(failure)
            said = _failed(question, str(failure))
        except OutOfDomain as failure:  # inside the engine: the question has been answered by another
            said = _failed(question, f"{failure.name} must be {failure.domain}.")
        kept = {name: said[name] for name in said if name in _OF_AN_ENGINE}
        entries.append({"method": method, **kept})
    return entries


_NUMBER = tuple(f"{end}{form}" for form in ("", "_log10", "_decimal") for end in ("value", "lower", "upper"))
_OF_AN_ENGINE = frozenset((*_NUMBER, "points", "evidence", "tight", "notes"))


def _failed(question: QuestionSpec, reason: str) -> ResponseFields:
    nothing: ResponseFields = {"value": None, "lower": None, "upper": None}
    if isinstance(question, TradeOffQuestion):
        nothing = {"points": ()}
    return {**nothing, "evidence": None, "tight": None, "notes": (f"No number: {reason}",)}


def _trade_off(
    curves: TradeOffPair, curve: AbstractTradeOff, question: TradeOffQuestion, tolerance: float
) -> ResponseFields:
    read = curve.points(np.array(question.false_positive_rates))
    points: list[TradeOffPoint] = [
        {"false_positive_rate": rate, "type_two_error": error, "power": power}
        for rate, error, power in zip(
            question.false_positive_rates,
            enclosed_numbers(read.type_two_error, "lower", curve.evidence),
            enclosed_numbers(read.power, "upper", curve.evidence),
            strict=True,
        )
    ]
    return {
        "type": question.type,
        "question": question,
        "points": points,
        "evidence": curve.evidence,
        "tight": tightness(curve.evidence, curves.bracket),
        "conditional": False,
        "method": curve.method,
        "tolerance_met": all(narrow(part, curve.evidence, tolerance) for part in (read.type_two_error, read.power)),
        "source": curves.source,
        "notes": remarks(curves, curve.evidence),
    }


def _gdp_mu(curves: TradeOffPair, curve: AbstractTradeOff, question: GdpMuQuestion, tolerance: float) -> ResponseFields:
    reading = gaussian_dp.mu(curve, question.false_positive_rate_min, question.type_two_error_min)
    parts = (as_sure_as(curve, reading.value), as_sure_as(curve, reading.global_mu))
    value, global_mu = (enclosed_number(part, "upper") for part in parts)
    evidence = Evidence.weakest(*(part.evidence for part in parts))
    return {
        "type": question.type,
        "question": question,
        "value": value["value"],
        "lower": value["lower"],
        "upper": value["upper"],
        "global_mu": global_mu,
        "evidence": evidence,
        "tight": tightness(evidence, curves.bracket),
        "conditional": False,
        "method": curve.method,
        "tolerance_met": _meets_where_bounded(*parts, tolerance),
        "source": _source(reading.source, curves),
        "notes": reading.notes + remarks(curves, evidence),
    }


def _meets_where_bounded(value: Enclosure, global_mu: Enclosure, tolerance: float) -> bool:
    """Whether mu over the range is as narrow as was asked for, and mu beside it wherever anything bounds it: it is no
    matter of precision that mu over a whole curve has no known upper end.
    """
    return meets(value, tolerance) and (math.isinf(global_mu.upper) or meets(global_mu, tolerance))


def _source(theorem: str, curves: TradeOffPair) -> str:
    """The theorem of the reading and the one of the curve."""
    return theorem if theorem == curves.source else f"{theorem}; {curves.source}"
