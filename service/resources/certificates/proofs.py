"""Proofs of one number: the quantities that the checker encloses for each question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from api_schemas.choices import Direction
from api_schemas.questions import (
    AdvantageQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    QuestionSpec,
    ReconstructionQuestion,
    TradeOffQuestion,
)
from privacy_bounds.checker import CheckerVerdict, Step, check_delta, check_power
from service.privacy.errors import UnsupportedCombination
from service.resources.certificates.runs import unsupported

QUESTIONS: Final = ("epsilon", "delta", "advantage", "reconstruction", "trade_off")


@dataclass(frozen=True, slots=True)
class NumberCondition:
    """Condition on a run that `quantity` at the point `at` is at most `at_most`, in each of the directions.

    `at` is an epsilon (nats) for delta, and a false positive rate for the power. All numbers are exact.
    """

    quantity: Literal["delta", "power"]
    at: Fraction
    at_most: Fraction
    directions: tuple[Literal["add", "remove"], ...]

    def prove(self, steps: Sequence[Step]) -> list[dict[str, Any]]:
        """Return the verdict of the checker in each direction, as fields of `CertificateProof`.

        `steps` are those of the run. For mirrored steps, one proof serves both directions. A mirrored step compares a
        law with its mirror image about 0, as when one record replaces another.
        """
        proved = self.directions[:1] if all(step.mirrored for step in steps) else self.directions
        found = [self._check(steps, direction) for direction in proved] * (len(self.directions) // len(proved))
        return [self._fields(direction, each) for direction, each in zip(self.directions, found, strict=True)]

    def _check(self, steps: Sequence[Step], direction: Literal["add", "remove"]) -> CheckerVerdict:
        check = check_delta if self.quantity == "delta" else check_power
        return check(steps, self.at, self.at_most, direction)

    def _fields(self, direction: str, found: CheckerVerdict) -> dict[str, Any]:
        return {
            "direction": direction,
            "verdict": found.status,
            "quantity": self.quantity,
            "at": float(self.at),
            "at_most": float(self.at_most),
            "lower": found.lower,
            "upper": found.upper,
            "reason": found.reason,
        }


def comparison_of(question: QuestionSpec, value: float, reads: str = "power") -> NumberCondition | None:
    """Return the condition on a run under which the number `value` is a safe answer to `question`, or None.

    `value` is then an upper bound of the true answer, and for a type II error a lower bound. None stands for an
    infinite epsilon, which needs no proof. `reads` is "power" or "type_two_error" for a trade-off question. Raises
    UnsupportedCombination with the pointer `/question`.
    """
    if isinstance(question, EpsilonQuestion):
        if math.isinf(value):
            return None
        return NumberCondition("delta", Fraction(value), Fraction(question.delta), _directions_of(question.direction))
    if isinstance(question, DeltaQuestion):
        return NumberCondition("delta", Fraction(question.epsilon), Fraction(value), _directions_of(question.direction))
    if isinstance(question, AdvantageQuestion):
        return NumberCondition("delta", Fraction(0), Fraction(value), ("add",))
    if isinstance(question, ReconstructionQuestion):
        return NumberCondition("power", _baseline(question), Fraction(value), _single_direction(question.direction))
    if isinstance(question, TradeOffQuestion):
        power = 1 - Fraction(value) if reads == "type_two_error" else Fraction(value)
        return NumberCondition(
            "power", Fraction(question.false_positive_rates[0]), power, _single_direction(question.direction)
        )
    raise unsupported("/question", question.type, "the checker proves delta and power.", QUESTIONS)


def _directions_of(direction: Direction) -> tuple[Literal["add", "remove"], ...]:
    return ("add", "remove") if direction == "both" else (direction,)


def _single_direction(direction: Direction) -> tuple[Literal["add", "remove"], ...]:
    if direction == "both":
        raise _both_at_once()
    return (direction,)


def _both_at_once() -> UnsupportedCombination:
    reason = "the largest power of both directions is not the power of either."
    return unsupported(
        "/question", "the direction both of a power", reason, ("the direction add", "the direction remove")
    )


def _baseline(question: ReconstructionQuestion) -> Fraction:
    if question.candidates is not None:
        return Fraction(1, question.candidates)
    if question.prior_probabilities is not None:
        return Fraction(max(question.prior_probabilities))
    return Fraction(question.baseline_success or 0.0)
