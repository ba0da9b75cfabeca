"""Second computation of the answers of `/v1/bounds` by engines that did not compute them.

The independent checker decides Gaussian runs: it must not refute the safe bound, and must not prove a number beyond
the other bound. Other answers are computed again by another engine. Two enclosures of one number have a common point.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from api_schemas.base import json_bytes
from api_schemas.bounds import BoundsRequest
from api_schemas.choices import Method
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from privacy_bounds.checker import Step
from service.privacy.errors import PrivacyComputationError, UnsupportedCombination
from service.resources.bounds import compute_bounds
from service.resources.certificates.proofs import comparison_of
from service.resources.certificates.runs import steps_of

OTHER_ENGINE: Final[Mapping[str, Method]] = {
    "contour": "discretised",
    "discretised": "contour",
    "closed_form": "discretised",
    "ground_truth": "contour",
}
"""Engine that computes an answer again, by the engine of the answer."""
PROVED: Final = ("exact", "certified", "proved")
LARGEST_ANSWERS: Final = 4
"""Answers of one response that are checked."""


@final
@dataclass(frozen=True, slots=True)
class BoundsCrossCheck:
    """Comparison of stored answers with the independent checker. `answered` is the JSON response to the request."""

    answered: bytes

    def body(self, request: BoundsRequest, _digest: str, _engine_version: str, /) -> bytes:
        """Return the members `outcome` and `reasons` as JSON bytes.

        The outcome is "disagreed" if one answer disagrees, else "agreed" if one agrees, else "not_decided" or
        "not_covered". Each disagreement has a reason.
        """
        answers = json.loads(self.answered)["answers"]
        pairs = [
            (question, answer)
            for question, answer in zip(request.questions, answers, strict=True)
            if answer["evidence"] in PROVED
        ][:LARGEST_ANSWERS]
        outcomes = [
            outcome for question, answer in pairs for outcome in _outcomes_with_reasons(request, question, answer)
        ]
        return json_bytes({"outcome": _worst(outcomes), "reasons": [reason for _, reason in outcomes if reason]})


def _worst(outcomes: list[tuple[str, str]]) -> str:
    kinds = [kind for kind, _ in outcomes]
    return next((kind for kind in ("disagreed", "agreed", "not_decided") if kind in kinds), "not_covered")


def _outcomes_with_reasons(
    request: BoundsRequest, question: QuestionSpec, answer: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    try:
        steps = steps_of(request.mechanism, request.threat_model)
        comparison_of(question, 0.0)
    except UnsupportedCombination:
        yield from _by_another_engine(request, question, answer)
        return
    reads = ("power", "type_two_error") if isinstance(question, TradeOffQuestion) else ("power",)
    for read in reads:
        number = answer["points"][0][read] if isinstance(question, TradeOffQuestion) else answer
        yield _by_the_checker(steps, question, read, number)


def _by_the_checker(
    steps: list[Step], question: QuestionSpec, reads: str, number: Mapping[str, Any]
) -> tuple[str, str]:
    # `better` is the strongest claim that the other bound excludes: the checker must not prove it
    lower, upper = float(number["lower"]), float(number["upper"])
    safe, better = (
        (lower, math.nextafter(upper, math.inf)) if reads == "type_two_error" else (upper, math.nextafter(lower, 0))
    )
    holds = _verdict(steps, question, reads, safe)
    is_possible = 0 < better < math.inf and (reads == "power" or better <= 1)
    holds_better = _verdict(steps, question, reads, better) if is_possible else "refuted"
    if holds == "refuted":
        return "disagreed", f"{question.type}: the checker refutes the safe bound {safe!r}"
    if holds_better == "proved":
        return "disagreed", f"{question.type}: the checker proves {better!r}, beyond the other bound"
    return ("not_decided", "") if "not_decided" in (holds, holds_better) else ("agreed", "")


def _verdict(steps: list[Step], question: QuestionSpec, reads: str, value: float) -> str:
    comparison = comparison_of(question, value, reads)
    if comparison is None:
        return "proved"
    verdicts = [proof["verdict"] for proof in comparison.prove(steps)]
    if "refuted" in verdicts:
        return "refuted"
    return "proved" if all(verdict == "proved" for verdict in verdicts) else "not_decided"


def _by_another_engine(
    request: BoundsRequest, question: QuestionSpec, answer: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    other = OTHER_ENGINE.get(answer["method"])
    if other is None:
        yield "not_covered", ""
        return
    given: dict[str, Any] = {
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        "questions": (question,),
    }
    if request.dataset_subsampling is not None and hasattr(question, "prior"):
        given["dataset_subsampling"] = request.dataset_subsampling
    again = BoundsRequest(**given, method=other)
    try:
        [second] = json.loads(json_bytes(compute_bounds(again, "", "")))["answers"]
    except PrivacyComputationError:
        yield "not_covered", ""
        return
    if second["method"] == answer["method"] or second["evidence"] not in PROVED:
        yield "not_covered", ""
        return
    for first_number, second_number in zip(_numbers(answer), _numbers(second), strict=True):
        lower = max(float(first_number["lower"]), float(second_number["lower"]))
        upper = min(float(first_number["upper"]), float(second_number["upper"]))
        reason = f"{question.type}: {answer['method']} and {other} have no common point"
        yield ("agreed", "") if lower <= upper else ("disagreed", reason)


def _numbers(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "points" in answer:
        yield from (point[reads] for point in answer["points"] for reads in ("power", "type_two_error"))
    else:
        yield answer
