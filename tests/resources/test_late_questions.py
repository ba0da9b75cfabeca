"""Requests whose time is over: at most one evaluation is begun, and every other number has bounds that cost nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from pydantic import ValidationError

from service.parsing import RequestBodyError
from service.privacy.errors import NumericalFailure, PrivacyComputationError
from service.privacy.numerics.work import at_most, ends_when
from service.privacy.questions.implied_curve import ImpliedCurve
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.resources import answers as answering
from service.resources.abstract import Computation
from service.resources.answers import EngineAnswer
from service.resources.bounds import BOUNDS
from service.resources.comparisons.comparing import COMPARISONS
from service.resources.curves import CURVES
from tests.resources import request_space

SEED: Final = 20261130
ALLOWED: Final = 2e5
"""Allowed work in microseconds."""
TIME_SPENT: Final = "time_spent"
COMPUTATIONS: Final[dict[str, Computation[Any, Any]]] = {"curves": CURVES, "comparisons": COMPARISONS}
DPSGD: Final = {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 500}


def drawn(seed: int, count: int) -> dict[str, Any]:
    """Draw a mechanism with `count` questions."""
    random = np.random.default_rng([SEED, seed])
    body: dict[str, Any] = {"mechanism": request_space.mechanism(random)}
    if random.uniform() < 0.25:
        body["threat_model"] = request_space.THREATS[random.integers(len(request_space.THREATS))](random)
    return {**body, "questions": [request_space.question(random) for _ in range(count)]}


def answers(body: dict[str, Any]) -> list[dict[str, Any]]:
    sent = BOUNDS.request_type.model_validate_json(json.dumps(body))
    with at_most(ALLOWED):
        found = json.loads(BOUNDS.body(sent, "", ""))
    return found["answers"] + ([] if found["worst_case"] is None else found["worst_case"]["answers"])


def ends(answer: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield the bounds of all numbers of an answer; none for approximations."""
    points = answer.get("points", ())
    for number in (answer, *(point[name] for point in points for name in ("power", "type_two_error"))):
        if number.get("lower") is not None:
            low, high = (float(str(number[end]).replace("Infinity", "inf")) for end in ("lower", "upper"))
            yield low, high


class Evaluated:
    """Answers that curves of mechanisms gave, after the deadline and in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: float) -> None:
        self.answers, self.before = 0, before
        read = answering._evaluate_question

        def counted(curves: Any, *arguments: Any) -> EngineAnswer:
            self.answers += not isinstance(curves.add, ImpliedCurve)
            return read(curves, *arguments)

        monkeypatch.setattr(answering, "_evaluate_question", counted)

    def is_over(self, _: float) -> bool:
        return self.answers >= self.before


@pytest.mark.parametrize(
    "seed", [*range(1, 10), *(pytest.param(s, marks=pytest.mark.thorough) for s in range(10, 300))]
)
def test_late_questions_have_valid_bounds_without_evaluations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a request evaluates at most one further question after the deadline, and that all answers are valid.

    The deadline passes after 0 to 3 answers. Every enclosure meets that of the same request without a deadline.
    """
    random = np.random.default_rng([SEED, 1, seed])
    body = drawn(seed, int(random.integers(2, 9)))
    try:
        full = answers(body)
    except (RequestBodyError, NumericalFailure, PrivacyComputationError, ValidationError):
        return
    evaluated = Evaluated(monkeypatch, int(random.integers(4)))
    with ends_when(evaluated.is_over):
        late = answers(body)
    # The worst case of a weaker attacker is evaluated beside the answer, and a question that is begun is finished.
    assert evaluated.answers <= max(evaluated.before + 1, 2)
    for one, other in zip(full, late, strict=True):
        for (low, high), (least, most) in zip(ends(one), ends(other), strict=True):
            assert least <= most, other
            assert least <= high * (1 + 1e-12), (one, other)
            assert low <= most * (1 + 1e-12), (one, other)


def test_late_answers_name_the_time_limit() -> None:
    asked = [{"type": "delta", "epsilon": number / 10} for number in range(40)]
    asked += [{"type": "epsilon", "delta": 10.0**-number} for number in range(1, 40)]
    with ends_when(lambda _: True):
        found = answers({"mechanism": DPSGD, "questions": asked})
    late = [each for each in found if not each["tolerance_met"]]
    assert len(late) >= len(asked) - 1
    assert {each["limit"]["code"] for each in late} == {TIME_SPENT}


def test_late_numbers_follow_from_those_that_were_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that deltas between two evaluated deltas lie between them."""
    evaluated = Evaluated(monkeypatch, 2)
    asked = [{"type": "delta", "epsilon": number} for number in (0.1, 2.0, *np.linspace(0.2, 1.9, 30).tolist())]
    with ends_when(evaluated.is_over):
        found = answers({"mechanism": DPSGD, "questions": asked})
    assert evaluated.answers == 2
    for each in found[2:]:
        assert found[1]["lower"] * (1 - 1e-9) <= each["lower"] <= each["upper"] <= found[0]["upper"] * (1 + 1e-9)


@pytest.mark.parametrize("name", ["curves", "comparisons"])
def test_late_curves_have_the_bounds_of_guessing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that curves and comparisons evaluate one list of points or one answer after the deadline."""
    begun, inside = 0, 0
    points = AbstractTradeOff.points

    def counted(curve: AbstractTradeOff, rates: Any) -> Any:
        nonlocal begun, inside
        begun += not inside and not isinstance(curve, ImpliedCurve)
        inside += 1
        try:
            return points(curve, rates)
        finally:
            inside -= 1

    runs = [{"name": f"run {number}", "mechanism": {**DPSGD, "steps": 100 * number}} for number in range(1, 6)]
    rates = [1e-6, 1e-3, 0.1]
    bodies = {
        "curves": {"mechanism": DPSGD, "directions": ["add", "remove"], "false_positive_rates": rates},
        "comparisons": {"runs": runs, "questions": [{"type": "advantage"}, {"type": "gdp_mu"}]},
    }
    computation = COMPUTATIONS[name]
    sent = computation.request_type.model_validate_json(json.dumps(bodies[name]))
    monkeypatch.setattr(AbstractTradeOff, "points", counted)
    with ends_when(lambda _: True):
        found = json.loads(computation.body(sent, "", ""))
    assert begun <= 1
    if name == "curves":
        last = found["curves"][-1]
        assert last["power"]["upper"] == [1.0] * 3
        assert last["limit"]["code"] == TIME_SPENT
        assert all(math.isclose(low, rate) for low, rate in zip(last["power"]["lower"], rates, strict=True))
