"""Narrowing of answers by others, on answers that are made for it."""

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


def read(lower: float, upper: float, evidence: Evidence = Evidence.CERTIFIED) -> EngineAnswer:
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
SAME: Final[list[tuple[QuestionSpec, EngineAnswer]]] = [(delta(0.0), read(0.0, 1.0)), (ADVANTAGE, read(0.4, 0.4000001))]


@pytest.mark.parametrize("asked", list(permutations(SAME)), ids=["delta first", "advantage first"])
def test_two_questions_about_one_number_meet(asked: tuple[tuple[QuestionSpec, EngineAnswer], ...]) -> None:
    for value in joint(*asked):
        assert value.lower == pytest.approx(0.4, rel=1e-9)
        assert value.upper == pytest.approx(0.4000001, rel=1e-9)


def test_no_end_moves_outwards_where_the_other_is_narrowed() -> None:
    lower = math.nextafter(0.1, 1.0)
    _, value = joint((delta(1.0), read(0.2, 0.2)), (delta(2.0), read(lower, 0.9)))
    assert value.lower == lower
    assert 0.2 <= value.upper <= 0.2 * (1 + 1e-9)


def test_evidence_is_that_of_the_weakest_number_that_is_used() -> None:
    _, value = joint((delta(1.0), read(0.2, 0.2)), (delta(2.0), read(0.1, 0.9, Evidence.PROVED)))
    assert value.evidence is Evidence.CERTIFIED


def test_estimates_narrow_nothing_and_are_not_narrowed() -> None:
    sampled = read(0.2, 0.3, Evidence.STATISTICAL)
    values = joint((delta(1.0), sampled), (delta(2.0), read(0.1, 0.9)), (delta(3.0), read(0.05, 0.05)))
    assert (values[0].lower, values[0].upper) == (0.2, 0.3)
    assert values[1].upper > 0.3  # delta falls: a bound of .3 at 1 would hold at 2, too


def test_the_worse_direction_bounds_either() -> None:
    _, value = joint((delta(1.0, direction="both"), read(0.2, 0.2)), (delta(1.0, direction="add"), read(0.0, 1.0)))
    assert 0.2 <= value.upper <= 0.2 * (1 + 1e-9)


def test_powers_are_narrowed_by_deltas() -> None:
    reconstruction = ReconstructionQuestion(type="reconstruction", baseline_success=0.1)
    _, value = joint((delta(0.0), read(1e-3, 1e-3)), (reconstruction, read(0.0, 1.0)))
    assert value.upper == pytest.approx(0.101, rel=1e-9)


def test_epsilons_are_narrowed_by_deltas() -> None:
    epsilon = EpsilonQuestion(type="epsilon", delta=0.25)
    _, value = joint((delta(1.0), read(0.2, 0.2)), (epsilon, read(0.0, 50.0)))
    assert value.upper <= 1.0


def test_a_contradiction_is_a_failure() -> None:
    with pytest.raises(NumericalFailure):
        joint((delta(1.0), read(0.2, 0.2)), (delta(2.0), read(0.3, 0.9)))
