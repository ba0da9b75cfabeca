"""Requests that are out of time: evaluations end within, and no further work is begun."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator
from pydantic import ValidationError

from service.privacy.composition.planning import choose
from service.privacy.errors import PrivacyComputationError
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import Mixture, WeightedMechanism
from service.privacy.mechanisms.zcdp import Zcdp
from service.privacy.numerics.work import (
    LAST_SHARE,
    at_most,
    count_separately,
    count_work,
    counted_work,
    ends_when,
    within_time,
)
from service.privacy.trade_off.unknown import UnknownTradeOff
from service.resources.bounds import BOUNDS
from tests.resources import request_space
from tests.slow_marker import sample_of

SEED: Final = 20261128
TIME: Final = 1e5
"""Counted work, in microseconds, at which the deadline passes."""
LARGEST_CHARGE: Final = 4e5
"""Largest work that may be counted afterwards: that of one computation without pauses, and of writing answers."""
ALLOWANCE: Final = 3e5
"""Counted work of requests in new processes."""
KINDS: Final = ("sparse_vector", "zcdp", "rdp", "laplace", "shuffled_reports", "discrete_gaussian", "skellam")


def large(random: Generator, most: int = 12) -> dict[str, Any]:
    """Draw a request for several numbers of a composition or mixture of `most` parts, or twice as many."""
    kinds = {**request_space.ELEMENTS, **request_space.LATER}

    def parts(count: int) -> list[dict[str, Any]]:
        return [kinds[str(random.choice(KINDS))](random) for _ in range(count)]

    mechanism: dict[str, Any] = {"type": "composed", "mechanisms": parts(most)}
    if random.uniform() < 0.5:
        drawn = [{"type": "composed", "mechanisms": parts(3)} for _ in range(2 * most // 3)]
        components = [{"weight": 1 / len(drawn), "mechanism": each} for each in drawn]
        mechanism = {"type": "mixture", "components": components}
    return {"mechanism": mechanism, "questions": [request_space.question(random) for _ in range(4)]}


@pytest.mark.parametrize(
    "seed", [0, 2, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, *range(3, 60)))]
)
def test_little_work_follows_the_deadline(seed: int) -> None:
    """Check that a large request counts little work after its deadline, and that its answers are in order."""
    body = large(np.random.default_rng([SEED, seed]))
    with at_most(np.inf) as work, ends_when(lambda share: counted_work() >= share * TIME) as deadline:
        work.deadline = deadline
        try:
            request = BOUNDS.request_type.model_validate_json(json.dumps(body))
            answers = json.loads(BOUNDS.body(request, "", ""))["answers"]
        except (PrivacyComputationError, ValidationError):
            return
    assert work.done <= LAST_SHARE * TIME + LARGEST_CHARGE
    for answer in answers:
        for number in (answer, *(point["power"] for point in answer.get("points", ()))):
            if "lower" in number and number["lower"] is not None:
                lower, upper = (float(str(number[end]).replace("Infinity", "inf")) for end in ("lower", "upper"))
                assert lower <= upper


def body_within(body: dict[str, Any], time: float) -> str:
    """Return the answers to a request whose deadline passes at a counted work of `time`, or the name of its error."""
    with at_most(ALLOWANCE) as work, ends_when(lambda share: counted_work() >= share * time) as deadline:
        work.deadline = deadline
        try:
            return BOUNDS.body(BOUNDS.request_type.model_validate_json(json.dumps(body)), "", "").decode()
        except (PrivacyComputationError, ValidationError) as error:
            return type(error).__name__


def body_after_late_ones(body: dict[str, Any], times: tuple[float, ...]) -> str:
    """Return the answers to a request without a deadline, after the same request ran out of each of these times."""
    for time in times:
        body_within(body, time)
    return body_within(body, np.inf)


@sample_of(2)
@pytest.mark.parametrize("seed", range(30))
def test_no_answer_changes_after_a_request_that_ran_out_of_time(seed: int) -> None:
    """Check in new processes that nothing which requests share holds a result that was cut short."""
    random = np.random.default_rng([SEED, 1, seed])
    body, times = large(random, 3), tuple((10 ** random.uniform(2, 5, 3)).tolist())
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        first, later = pool.map(body_after_late_ones, 2 * [body], [(), times])
    assert first == later


def run_out(log: list[str]) -> str:
    """Count work until the request is out of time, and log the end of the loop, which is not reached then."""
    for _ in range(1000):
        count_work(1.0)
    log.append("end")
    return "complete"


def test_computation_ends_when_time_is_over() -> None:
    log: list[str] = []
    with ends_when(lambda share: counted_work() >= share * 100), at_most(1e9) as work:
        assert within_time(run_out, lambda _: "guess", log) == "guess"
        assert log == []
        assert work.cut_short
        assert work.done <= 100 * LAST_SHARE + 1
        assert within_time(run_out, lambda _: "guess", log) == "guess"
        with count_separately():  # other requests use the result
            assert run_out(log) == "complete"
        assert run_out(log) == "complete"  # nothing replaces its result
    assert within_time(run_out, lambda _: "guess", log) == "complete"
    with at_most(1e9):
        assert within_time(run_out, lambda _: "guess", log) == "complete"


def test_outer_computation_continues_with_the_guess_of_an_inner_one() -> None:
    log: list[str] = []

    def outer(_: None) -> tuple[str, str]:
        return within_time(run_out, lambda _: "guess", log), "complete"

    with ends_when(lambda share: counted_work() >= share * 100), at_most(1e9):
        assert within_time(outer, lambda _: ("guess", "guess"), None) == ("guess", "complete")


def test_components_without_time_are_unknown() -> None:
    """Check that a mixture whose time is over after its first component encloses the whole mixture."""
    parts = [Composed(mechanisms=(Zcdp(rho=0.1 * number), Laplace(noise_multiplier=3.0))) for number in (1, 2, 3)]
    mixture = Mixture(components=tuple(WeightedMechanism(weight=1 / 3, mechanism=part) for part in parts))
    with ends_when(lambda _: True), at_most(1e9):
        late = choose.pair(mixture).add
        assert late.profile_at(1.0).upper == 1.0
    found = late.profile_at(1.0)
    assert 0 <= found.lower <= found.upper <= 1


def test_unknown_curve_has_the_bounds_of_guessing() -> None:
    curve, rates = UnknownTradeOff(), np.array([1e-300, 1e-9, 0.3, 1 - 1e-9])
    points = curve.points(rates)
    assert (points.power.lower <= rates).all()
    assert (points.power.lower >= rates * (1 - 1e-12)).all()
    assert (points.power.upper == 1).all()
    assert (points.type_two_error.lower == 0).all()
    assert (points.type_two_error.upper >= 1 - rates).all()
    assert curve.epsilon(1e-5).upper == np.inf
    assert curve.profile_at(0.5).upper == 1
    assert curve.reversed() is curve
