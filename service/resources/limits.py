"""Reasons why an answer is wider than the requested tolerance, and advice on what to send instead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from service.privacy.composition.planning.accuracy import DEFAULT_TOLERANCE
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.limit import WidthLimit
from service.privacy.numerics.work import begin_evaluation, is_late, was_cut_short
from service.privacy.questions.empty_range import range_may_be_empty
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import ResponseFields
from service.resources.numbers import UNPROVED, meets, narrow

ADVICE: Final[dict[str, str]] = {
    "no_bounds": "Send method `auto`. It answers with bounds, in milliseconds of CPU time for most runs.",
    "sampling_error": "Send four times as many `samples`. That halves the width at four times the cost.",
    "two_theorems": "No request makes this narrower. The lower and the upper bound come from two theorems, which a "
    "note names.",
    "tolerance_too_fine": "Send a relative_tolerance of 1e-6 or more, at no cost. Rounding is part of both bounds.",
    "work_spent": (
        "Send fewer questions in one request, at no cost: together they share twice the work limit of a single one. "
        "For a single question, send a run with fewer different parts."
    ),
    "time_spent": "Send the request again when the service is less busy, at the same cost, or as a job, which has a "
    "longer time limit. The time limit ended the search.",
    "empty_range": "Send smaller minimal error rates, at no cost. Points of the curve then lie in the range.",
    "no_finite_end": "Send a larger delta or error rate, at no cost. A finite bound may exist there.",
    "long_list": (
        "Send at most 8 of these numbers in a question. A second engine then evaluates them in some seconds of CPU "
        "time."
    ),
    "small_tail": "Send a smaller epsilon. The second engine evaluates deltas down to 1e-299, in some seconds of CPU "
    "time.",
    "many_different_steps": "Send at most 128 different steps. Round their parameters towards less privacy.",
    "small_loss": "No narrower enclosure is needed for a decision, because the run reveals almost nothing.",
    "one_engine": "Send method `auto`. It also uses a second engine where this engine is wide, in some seconds of "
    "CPU time.",
    "neighbour_not_served": "Send `bounds` that exclude the unsupported numbers, at no cost.",
    "range_end": "Send `bounds` that extend further towards less privacy. Every evaluated number costs as much as one "
    "request to `/v1/bounds`.",
    "undecided_target": "Send a target whose distance from the answer exceeds the width of the answer, at no cost.",
    "engine_resolution": "Send method `ground_truth` with `digits` as a job, if it supports the mechanism. It takes "
    "seconds to minutes of CPU time; `/v1/estimates` states the cost.",
}
"""One sentence for each limit: what to send, and what it costs."""


def begin_limits(curves: TradeOffPair) -> None:
    """Delete the reasons for wide answers that earlier evaluations of these curves recorded."""
    if curves.second is not None:
        curves.second.declined = None
    begin_evaluation()


def limit_fields(limit: WidthLimit | None) -> ResponseFields:
    """Return the field `limit` of an answer with the reason why it is wide, or no field for a narrow answer."""
    return {} if limit is None else {"limit": advice(limit)}


def advice(limit: WidthLimit) -> ResponseFields:
    """Return a reason for a wide answer, with advice, as fields of `AnswerLimit`."""
    return {"code": limit, "advice": ADVICE[limit]}


def limit_of_numbers(
    curves: TradeOffPair, numbers: Sequence[Enclosure], tolerance: float, notes: Iterable[str]
) -> WidthLimit | None:
    """Return why one of these numbers is relatively wider than `tolerance`, or None if none is.

    `curves` gave the numbers, and `notes` are the notes of their evaluation.
    """
    wide = [number for number in numbers if not meets(number, tolerance)]
    if not wide:
        return None
    evidence = Evidence.weakest(*(number.evidence for number in wide))
    if range_may_be_empty(notes) and evidence not in UNPROVED:
        return WidthLimit.EMPTY_RANGE
    is_default_met = all(meets(number, DEFAULT_TOLERANCE) for number in wide)
    return _most_specific_limit(
        curves, evidence, is_default_met=is_default_met, upper=max(number.upper for number in wide)
    )


def limit_of_points(curves: TradeOffPair, evidence: Evidence, read: CurvePoints, tolerance: float) -> WidthLimit | None:
    """Return why a point of a trade-off curve is relatively wider than `tolerance`, or None if none is.

    `read` has the points, and `evidence` is that of their bounds.
    """
    if _are_narrow(read, evidence, tolerance):
        return None
    return _most_specific_limit(
        curves, evidence, is_default_met=_are_narrow(read, evidence, DEFAULT_TOLERANCE), upper=1.0
    )


def _are_narrow(read: CurvePoints, evidence: Evidence, tolerance: float) -> bool:
    return all(narrow(part, evidence, tolerance) for part in (read.type_two_error, read.power))


def _most_specific_limit(curves: TradeOffPair, evidence: Evidence, *, is_default_met: bool, upper: float) -> WidthLimit:
    # the most specific reason comes first
    if evidence in UNPROVED:
        return WidthLimit.NO_BOUNDS if evidence is Evidence.ASYMPTOTIC else WidthLimit.SAMPLING_ERROR
    if is_default_met:
        return WidthLimit.TOLERANCE_TOO_FINE
    if is_late():
        return WidthLimit.TIME_SPENT
    if was_cut_short() or curves.is_cut_short:
        return WidthLimit.WORK_SPENT
    if curves.bracket is not None:
        return WidthLimit.TWO_THEOREMS
    if curves.second is not None and curves.second.declined is not None:
        return curves.second.declined
    if curves.limit is not None:
        return curves.limit
    return WidthLimit.NO_FINITE_END if upper == math.inf else WidthLimit.ENGINE_RESOLUTION
