"""Answers of one response, each narrowed by what the other answers imply if it is wider than the tolerance.

`add` and `remove` are the directions of the test (null hypothesis without or with the record); `both` is the worse of
the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np

from api_schemas.choices import Direction
from api_schemas.questions import (
    AdvantageQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    QuestionSpec,
    ReconstructionQuestion,
    TradeOffQuestion,
)
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.limit import WidthLimit
from service.privacy.questions.implied_curve import ImpliedCurve, KnownBounds
from service.privacy.questions.joint_bounds import JointBounds, Logs
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.answers import EngineAnswer, written_points
from service.resources.limits import limit_of_numbers, limit_of_points
from service.resources.numbers import enclosed_number

CONTRADICTION: Final = "two certified answers of one response contradict each other"
MOST_POINTS: Final = 64
"""Longer lists of points, all together, are not narrowed: they have enough neighbours of their own."""
ROUNDING: Final = 2.0**-50
"""Relative error of ln(1 - power)."""
ROUNDS: Final = 3
"""Largest number of rounds. A narrowed answer may narrow others, with rapidly decreasing gain."""
NARROWED: Final = (
    "Narrowed by the other numbers of this response, because the profile is convex and the power is concave."
)

IMPLIED: Final = (
    "The time limit ended before this question was evaluated. Both bounds follow from the other numbers of this "
    "response, because the profile is convex and the power is concave."
)
SWAPPED: Final[Mapping[Direction, Direction]] = {"add": "remove", "remove": "add", "both": "both"}
"""Direction with swapped hypotheses, by direction."""


@final
@dataclass(slots=True)
class _BoundsByDirection:
    # The numbers of `both` are the worse of `add` and `remove`: the larger delta and epsilon, and at least both powers.
    curves: TradeOffPair
    evidence: Evidence
    """Weakest evidence of all recorded numbers."""
    known: dict[Direction, JointBounds] = field(default_factory=dict["Direction", JointBounds])

    def of(self, direction: Direction) -> JointBounds:
        name: Direction = "both" if self.curves.add is self.curves.remove else direction
        return self.known.setdefault(name, JointBounds())

    def bounds(self, direction: Direction, read: Callable[[JointBounds], Logs], *, is_largest: bool) -> Logs:
        # `is_largest`: the number of `both` is the larger one of `add` and `remove`, which is not so for the power
        lower, upper = read(self.of(direction))
        if self.curves.add is self.curves.remove:
            return lower, upper
        if direction != "both":
            return lower, min(upper, read(self.of("both"))[1])
        sides = [read(self.of("add")), read(self.of("remove"))]
        largest = max(side[1] for side in sides) if is_largest else math.inf
        return max(lower, *(side[0] for side in sides)), min(upper, largest)

    def known_bounds(self, direction: Direction) -> KnownBounds:
        return KnownBounds(
            lambda eps: self.bounds(direction, lambda known: known.log_profile(eps), is_largest=True),
            lambda rate: self.bounds(direction, lambda known: known.log_power(rate), is_largest=False),
            lambda delta: self.bounds(direction, lambda known: known.epsilon_ends(delta), is_largest=True),
        )


def joint_answers(
    curves: TradeOffPair, questions: Sequence[QuestionSpec], answers: Sequence[EngineAnswer], tolerance: float
) -> list[EngineAnswer]:
    """Return the answers of these trade-off curves, with wide ones narrowed by what the other answers imply.

    `answers` are those to `questions`, and wide means relatively wider than `tolerance`. Raises NumericalFailure if two
    certified enclosures contradict each other.
    """
    found = list(answers)
    numbers = sum(len(each.false_positive_rates) if isinstance(each, TradeOffQuestion) else 1 for each in questions)
    for _ in range(ROUNDS):
        if numbers < 2 or all(answer.limit is None for answer in found):
            break
        before, found = found, _round(curves, questions, found, tolerance)
        if all(answer is old for answer, old in zip(found, before, strict=True)):
            break
    return found


def implied_curves(
    curves: TradeOffPair, questions: Sequence[QuestionSpec], answers: Sequence[EngineAnswer]
) -> dict[Direction, TradeOffPair]:
    """Return curves with the bounds that known answers imply for all other numbers, by direction.

    `answers` are those of `curves` to `questions`. The key of a returned pair is add, remove or both, and both curves
    of the pair are that of the key. Reading their numbers costs no evaluation of `curves`.
    """
    family = _bounds_by_direction(curves, questions, answers, Evidence.CERTIFIED)
    known: dict[Direction, KnownBounds] = {name: family.known_bounds(name) for name in SWAPPED}
    found: dict[Direction, TradeOffPair] = {}
    for direction, swapped in SWAPPED.items():
        evidence = Evidence.weakest(family.evidence, curves.add.evidence)
        implied = ImpliedCurve(known[direction], known[swapped], evidence, curves.add.method)
        found[direction] = replace(
            curves,
            add=implied,
            remove=implied,
            notes=(*curves.notes, IMPLIED),
            worst_case=None,
            second=None,
            origin=None,
        )
    return found


def _round(
    curves: TradeOffPair, questions: Sequence[QuestionSpec], answers: Sequence[EngineAnswer], tolerance: float
) -> list[EngineAnswer]:
    certain = [answer.evidence for answer in answers if answer.evidence.is_certain]
    if not certain:
        return list(answers)
    family = _bounds_by_direction(curves, questions, answers, *certain)
    listed = sum(len(question.false_positive_rates) for question in questions if isinstance(question, TradeOffQuestion))
    return [
        answer
        if answer.limit is None
        or not answer.evidence.is_certain
        or (isinstance(question, TradeOffQuestion) and listed > MOST_POINTS)
        else _narrowed(family, question, answer, tolerance)
        for question, answer in zip(questions, answers, strict=True)
    ]


def _bounds_by_direction(
    curves: TradeOffPair, questions: Sequence[QuestionSpec], answers: Sequence[EngineAnswer], *evidence: Evidence
) -> _BoundsByDirection:
    family = _BoundsByDirection(curves, Evidence.weakest(*evidence))
    for question, answer in zip(questions, answers, strict=True):
        if answer.evidence.is_certain:
            _record(family.of(question.direction), question, answer)
    return family


def _record(known: JointBounds, question: QuestionSpec, answer: EngineAnswer) -> None:
    if known.is_full:
        return
    if isinstance(question, TradeOffQuestion):
        lower, upper = log_ends(answer.read[0].power)
        for rate, low, high in zip(question.false_positive_rates, lower.tolist(), upper.tolist(), strict=True):
            if 0 < rate < 1 and not known.is_full:
                _record_intersection(known.power, rate, (low, high))
    elif isinstance(question, EpsilonQuestion):
        if 0 < question.delta < 1:
            _record_intersection(known.epsilon, question.delta, (answer.read[0].lower, answer.read[0].upper))
    elif (eps := _profile_epsilon(question)) is not None:
        _record_intersection(known.profile, eps, _logs(answer.read[0]))
    elif (rate := _power_rate(question)) is not None:
        _record_intersection(known.power, rate, _logs(answer.read[0]))


def _record_intersection(known: dict[float, Logs], at: float, ends: Logs) -> None:
    low, high = known.get(at, ends)
    known[at] = max(low, ends[0]), min(high, ends[1])


def _narrowed(
    family: _BoundsByDirection, question: QuestionSpec, answer: EngineAnswer, tolerance: float
) -> EngineAnswer:
    direction: Direction = question.direction
    if isinstance(question, TradeOffQuestion):
        return _narrowed_points(family, question, answer, tolerance)
    own: Enclosure = answer.read[0]
    if isinstance(question, EpsilonQuestion):
        if not 0 < question.delta < 1:
            return answer
        delta = question.delta
        low, high = family.bounds(direction, lambda known: known.epsilon_ends(delta), is_largest=True)
        if low <= own.lower and high >= own.upper:
            return answer
        value = own.intersected(Enclosure(low, high, family.evidence))
    else:
        known = _log_bounds_of_delta_or_power(family, question)
        if known is None:
            return answer
        before, (low, high) = _logs(own), known
        if low <= before[0] and high >= before[1]:
            return answer
        low, high = max(low, before[0]), min(high, before[1])
        if low > high:
            raise NumericalFailure(CONTRADICTION)
        met = Enclosure.from_logs(low, high, family.evidence).intersected(own)
        value = replace(met, log_lower=low, log_upper=high)
    return replace(
        answer,
        evidence=value.evidence,
        number={**enclosed_number(value, "upper")},
        limit=_limit_after_narrowing(answer, limit_of_numbers(family.curves, (value,), tolerance, answer.notes)),
        notes=_with_note(answer),
        read=(value,),
    )


def _log_bounds_of_delta_or_power(family: _BoundsByDirection, question: QuestionSpec) -> Logs | None:
    direction: Direction = question.direction
    if (eps := _profile_epsilon(question)) is not None:
        return family.bounds(direction, lambda known: known.log_profile(eps), is_largest=True)
    if (rate := _power_rate(question)) is not None:
        return family.bounds(direction, lambda known: known.log_power(rate), is_largest=False)
    return None


def _narrowed_points(
    family: _BoundsByDirection, question: TradeOffQuestion, answer: EngineAnswer, tolerance: float
) -> EngineAnswer:
    read: CurvePoints = answer.read[0]
    rates = question.false_positive_rates
    low, high = (end.copy() for end in log_ends(read.power))
    for index, rate in enumerate(rates):
        if 0 < rate < 1:
            least, most = family.bounds(
                question.direction, lambda known, rate=rate: known.log_power(rate), is_largest=False
            )
            low[index], high[index] = max(low[index], least), min(high[index], most)
    if (low > high).any():
        raise NumericalFailure(CONTRADICTION)
    before = log_ends(read.power)
    if (low == before[0]).all() and (high == before[1]).all():
        return answer
    power = _intersection(EnclosureArray.from_logs(low, high), read.power)
    error_low, error_high = log_ends(read.type_two_error)
    with np.errstate(divide="ignore"):
        error_low = np.maximum(error_low, np.log1p(-power.upper) * (1 + ROUNDING))
        error_high = np.minimum(error_high, np.log1p(-power.lower) * (1 - ROUNDING))
    error = EnclosureArray.from_logs(error_low, np.minimum(error_high, 0))
    narrowed = replace(read, power=power, type_two_error=_intersection(error, read.type_two_error))
    evidence = Evidence.weakest(answer.evidence, family.evidence)
    limit = _limit_after_narrowing(answer, limit_of_points(family.curves, evidence, narrowed, tolerance))
    number = {"points": written_points(question, narrowed, evidence)}
    return replace(
        answer,
        number=number,
        evidence=evidence,
        limit=limit,
        notes=_with_note(answer),
        read=(narrowed, evidence),
    )


def _intersection(narrowed: EnclosureArray, read: EnclosureArray) -> EnclosureArray:
    # converted from logarithms, bounds of `narrowed` may lie outside `read` by rounding
    return replace(narrowed, lower=np.maximum(narrowed.lower, read.lower), upper=np.minimum(narrowed.upper, read.upper))


def _limit_after_narrowing(answer: EngineAnswer, left: WidthLimit | None) -> WidthLimit | None:
    # the reason that the evaluation recorded is more specific than the general reason `left`
    if left is None or left is WidthLimit.TOLERANCE_TOO_FINE:
        return left
    return left if answer.limit is WidthLimit.NO_FINITE_END else answer.limit


def _with_note(answer: EngineAnswer) -> tuple[str, ...]:
    return answer.notes if NARROWED in answer.notes else (*answer.notes, NARROWED)


def _profile_epsilon(question: QuestionSpec) -> float | None:
    # the advantage is delta(0)
    if isinstance(question, DeltaQuestion):
        return question.epsilon
    return 0.0 if isinstance(question, AdvantageQuestion) else None


def _power_rate(question: QuestionSpec) -> float | None:
    if not isinstance(question, ReconstructionQuestion):
        return None
    rate = question.baseline_success
    if rate is None and question.prior_probabilities is not None:
        rate = max(question.prior_probabilities)
    return rate if rate is not None and 0 < rate < 1 else None


def _logs(number: Enclosure) -> Logs:
    lower, upper = log_ends(EnclosureArray.of(number))
    return float(lower[0]), float(upper[0])
