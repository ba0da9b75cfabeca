"""Narrowing of answers by other answers of the response, on constructed answers."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any, Final

import pytest

from api_schemas.questions import (
    AdvantageQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    QuestionSpec,
    ReconstructionQuestion,
)
from service.privacy.composition.planning.choose import pair
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.limit import WidthLimit
from service.privacy.mechanisms.gaussian import Gaussian
from service.resources.answers import EngineAnswer
from service.resources.joint_answers import joint_answers
from service.resources.numbers import enclosed_number

TOLERANCE: Final = 1e-6
CURVES: Final = pair(Gaussian(noise_multiplier=1.0))


def answer_with(lower: float, upper: float, evidence: Evidence = Evidence.CERTIFIED) -> EngineAnswer:
    """Return an answer with these bounds."""
    value = Enclosure(lower, upper, evidence)
    wide = value.relative_width() > TOLERANCE
    return EngineAnswer(
        number={**enclosed_number(value, "upper")},
        evidence=evidence,
        tight=True,
        method="contour",
        limit=WidthLimit.ENGINE_RESOLUTION if wide else None,
        source="",
        notes=(),
        read=(value,),
    )


def joint(*asked: tuple[QuestionSpec, EngineAnswer]) -> list[Enclosure]:
    questions, answers = zip(*asked, strict=True)
    found = joint_answers(CURVES, questions, answers, TOLERANCE)
    return [each.read[0] for each in found]


def delta(epsilon: float, **more: Any) -> QuestionSpec:
    return DeltaQuestion(type="delta", epsilon=epsilon, **more)


ADVANTAGE: Final = AdvantageQuestion(type="advantage")
SAME: Final[list[tuple[QuestionSpec, EngineAnswer]]] = [
    (delta(0.0), answer_with(0.0, 1.0)),
    (ADVANTAGE, answer_with(0.4, 0.4000001)),
]


@pytest.mark.parametrize("asked", list(permutations(SAME)), ids=["delta first", "advantage first"])
def test_two_answers_for_one_number_are_intersected(asked: tuple[tuple[QuestionSpec, EngineAnswer], ...]) -> None:
    for value in joint(*asked):
        assert value.lower == pytest.approx(0.4, rel=1e-9)
        assert value.upper == pytest.approx(0.4000001, rel=1e-9)


def test_narrowing_one_bound_keeps_the_other() -> None:
    lower = math.nextafter(0.1, 1.0)
    _, value = joint((delta(1.0), answer_with(0.2, 0.2)), (delta(2.0), answer_with(lower, 0.9)))
    assert value.lower == lower
    assert 0.2 <= value.upper <= 0.2 * (1 + 1e-9)


def test_evidence_is_that_of_weakest_used_number() -> None:
    _, value = joint((delta(1.0), answer_with(0.2, 0.2)), (delta(2.0), answer_with(0.1, 0.9, Evidence.PROVED)))
    assert value.evidence is Evidence.CERTIFIED


def test_estimates_neither_narrow_nor_are_narrowed() -> None:
    sampled = answer_with(0.2, 0.3, Evidence.STATISTICAL)
    values = joint((delta(1.0), sampled), (delta(2.0), answer_with(0.1, 0.9)), (delta(3.0), answer_with(0.05, 0.05)))
    assert (values[0].lower, values[0].upper) == (0.2, 0.3)
    assert values[1].upper > 0.3  # Delta decreases, so a bound of 0.3 at 1 would hold at 2 too.


def test_worse_direction_bounds_each_direction() -> None:
    _, value = joint(
        (delta(1.0, direction="both"), answer_with(0.2, 0.2)), (delta(1.0, direction="add"), answer_with(0.0, 1.0))
    )
    assert 0.2 <= value.upper <= 0.2 * (1 + 1e-9)


def test_powers_are_narrowed_by_deltas() -> None:
    reconstruction = ReconstructionQuestion(type="reconstruction", baseline_success=0.1)
    _, value = joint((delta(0.0), answer_with(1e-3, 1e-3)), (reconstruction, answer_with(0.0, 1.0)))
    assert value.upper == pytest.approx(0.101, rel=1e-9)


def test_epsilons_are_narrowed_by_deltas() -> None:
    epsilon = EpsilonQuestion(type="epsilon", delta=0.25)
    _, value = joint((delta(1.0), answer_with(0.2, 0.2)), (epsilon, answer_with(0.0, 50.0)))
    assert value.upper <= 1.0


def test_contradiction_raises_numerical_failure() -> None:
    with pytest.raises(NumericalFailure):
        joint((delta(1.0), answer_with(0.2, 0.2)), (delta(2.0), answer_with(0.3, 0.9)))
