"""Sweeps: every point equals a request of its own, and all renderings of the answer agree."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from api_schemas.base import Request
from api_schemas.bounds import BoundsRequest
from api_schemas.problems import field_errors
from api_schemas.sweep_examples import SWEEPS_EXAMPLES
from api_schemas.sweeps import LARGEST_POINTS, SweepsRequest, SweepsResponse, SweptAnswer
from service.privacy.errors import DeadlinePassed, DisputedRun, NumericalFailure, OutOfDomain, UnsupportedCombination
from service.problems import definition_of
from service.rendering.tables.sweeps import to_csv, to_json_lines
from service.resources.bounds import BOUNDS
from service.resources.sweeps.problems import KINDS
from service.resources.sweeps.sweeping import SWEEPS
from tests.resources.sweep_cases import NAMED, Spec, parsed, questions, swept, training_runs
from tests.slow_marker import thorough

RUN: Spec = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
EPSILON: Spec = {"type": "epsilon", "delta": 1e-5}
NOISE = "/mechanism/noise_multiplier"


def sweep_body(vary: Spec, **more: Any) -> Spec:
    return {"mechanism": RUN, "vary": vary, "questions": [EPSILON], **more}


def single(request: SweepsRequest, numbers: tuple[float, ...]) -> Any:
    bounds: BoundsRequest = request.asked(request.places, numbers)
    return BOUNDS.response(bounds, NAMED, "2026.01.01")


def numbers_of(answer: SweptAnswer, single_answers: Any) -> Any:
    received = single_answers[answer.question]
    return received if answer.point is None else _Fields(received.points[answer.point][answer.reads])


class _Fields:
    def __init__(self, held: Any) -> None:
        self.lower, self.upper = held["lower"], held["upper"]


def assert_meets(lower: float, upper: float, other: Any) -> None:
    """Check that two enclosures of one number intersect. Certified bounds are computed differently and may differ."""
    assert lower <= other.upper * (1 + 1e-15) + 1e-300
    assert other.lower <= upper * (1 + 1e-15) + 1e-300


@pytest.mark.parametrize("seed", [0, thorough(1)])
def test_batched_runs_meet_single_runs(seed: int) -> None:
    random = np.random.default_rng(seed)
    body = sweep_body(training_runs(random, 6), combine="zip", questions=questions(random))
    request, response = parsed(body), swept(body)
    assert response.points == 6
    assert not response.problems
    for point, numbers in enumerate(request.points()):
        alone = single(request, numbers).answers
        for answer in response.answers:
            lower, upper = answer.lower[point], answer.upper[point]
            assert lower is not None
            assert upper is not None
            assert lower <= upper
            assert_meets(lower, upper, numbers_of(answer, alone))
    narrow = [bool(met) for answer in response.answers for met in answer.tolerance_met]
    assert narrow.count(True) >= 0.9 * len(narrow)


@pytest.mark.parametrize(
    ("mechanism", "pointer"),
    [
        ({"type": "gaussian", "noise_multiplier": 1.0}, NOISE),
        ({"type": "laplace", "noise_multiplier": 2.0}, NOISE),
        ({"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": 0.1}, "steps": 3}, "/mechanism/steps"),
        (RUN | {"noise_multiplier": [1.0, 2.0], "steps": [100, 200]}, "/mechanism/noise_multiplier/1"),
        (RUN, "/threat_model/records"),
        (RUN, "/questions/0/delta"),
    ],
)
def test_points_without_batching_equal_single_requests(mechanism: Spec, pointer: str) -> None:
    values = [1e-6, 1e-4] if "delta" in pointer else [2, 3]
    body = sweep_body({pointer: {"values": values}}, mechanism=mechanism)
    request, response = parsed(body), swept(body)
    for point, numbers in enumerate(request.points()):
        [received] = single(request, numbers).answers
        assert response.answers[0].evidence[point] == received.evidence
        assert_meets(response.answers[0].lower[point] or 0.0, response.answers[0].upper[point] or 0.0, received)


def test_points_do_not_depend_on_aliases_and_member_order() -> None:
    """Points of a sweep do not depend on the order of members and on aliases of fields.

    JSON objects have no order, and aliases name the same field.
    """
    noise, steps = {"values": [1.0, 2.0]}, {"from": 10, "to": 1000, "count": 3, "spacing": "log"}
    one = parsed(sweep_body({NOISE: noise, "/mechanism/steps": steps}))
    other = parsed(sweep_body({"/mechanism/count": steps, "/mechanism/sigma": noise}))
    assert one == other
    assert list(one.points()) == [(1.0, 10), (1.0, 100), (1.0, 1000), (2.0, 10), (2.0, 100), (2.0, 1000)]
    zipped = parsed(sweep_body({NOISE: {"values": [1.0, 2.0]}, "/mechanism/steps": {"values": [7, 9]}}, combine="zip"))
    assert list(zipped.points()) == [(1.0, 7), (2.0, 9)]


@pytest.mark.parametrize(
    ("sent", "whole", "expected"),
    [
        ({"from": 1, "to": 2, "count": 1 + 4}, False, [1.0, 1.25, 1.5, 1.75, 2.0]),
        ({"from": 1e-9, "to": 1e-3, "count": 7, "spacing": "log"}, False, [10.0**k for k in range(-9, -2)]),
        ({"from": 3, "to": 3, "count": 2}, False, [3.0, 3.0]),
        ({"min": 0, "max": 1, "count": 2, "spacing": "linear"}, False, [0.0, 1.0]),
        ({"from": 1, "to": 100, "count": 4, "spacing": "log"}, True, [1, 5, 22, 100]),
    ],
)
def test_ranges_include_endpoints_and_round_numbers(sent: Spec, whole: bool, expected: list[float]) -> None:
    pointer = "/mechanism/steps" if whole else NOISE
    [numbers] = parsed(sweep_body({pointer: sent})).vary.values()
    found = list(numbers.numbers(whole=whole))
    assert found == expected
    assert all(isinstance(each, int) for each in found) is whole


def test_failing_point_fails_alone() -> None:
    body = sweep_body(
        {NOISE: {"values": [1.0, -3.0, 1e-9, 2.0]}, "/mechanism/steps": {"values": [5, 5, 5, 0.5]}}, combine="zip"
    )
    response = swept(body)
    assert [problem.point for problem in response.problems] == [1, 2, 3]
    assert [problem.errors[0].pointer for problem in response.problems] == [NOISE, NOISE, "/mechanism/steps"]
    [answer] = response.answers
    assert [value is None for value in answer.value] == [False, True, True, True]
    for column in (answer.lower, answer.upper, answer.tolerance_met, answer.evidence, answer.tight, answer.method):
        assert [value is None for value in column] == [False, True, True, True]
    unsupported = swept(sweep_body({"/threat_model/records": {"values": [1, 2]}}, mechanism=EPOCHS))
    assert [(each.point, each.type) for each in unsupported.problems] == [(1, "/problems/unsupported-combination")]


EPOCHS: Spec = {
    "type": "dpsgd",
    "noise_multiplier": 2.0,
    "sampling": "shuffled",
    "batch_size": 100,
    "dataset_size": 1000,
    "epochs": 2,
}


def test_problem_kinds_match_http_problems() -> None:
    unsupported = UnsupportedCombination("a", "b", "c", ("d",))
    errors = (OutOfDomain("a", 1, "b"), unsupported, NumericalFailure("a"), DeadlinePassed(), DisputedRun())
    assert {type(error) for error in errors} == set(KINDS)
    for error in errors:
        kind = definition_of(error)
        assert KINDS[type(error)] == (kind.type, kind.title)


def test_worst_case_accompanies_relaxed_attacker() -> None:
    mechanism = {"type": "noisy_sgd", "dataset_size": 400, "batch_size": 400, "dimension": 650, "steps": 1}
    body = sweep_body(
        {"/mechanism/noise_std": {"values": [1.5, 3.0]}},
        mechanism=mechanism | {"noise_std": 1.0, "max_grad_norm": 1.0},
        threat_model={"type": "membership"},
        questions=[{"type": "advantage"}],
    )
    response = swept(body)
    assert response.worst_case is not None
    relaxed, worst = response.answers[0].upper, response.worst_case.answers[0].upper
    assert relaxed[0] is not None
    assert worst[0] is not None
    assert all((one or 0) <= (other or 0) for one, other in zip(relaxed, worst, strict=True))


def test_numbers_below_doubles_have_logarithms() -> None:
    response = swept(
        sweep_body({"/questions/0/epsilon": {"values": [1.0, 400.0]}}, questions=[{"type": "delta", "epsilon": 1}])
    )
    [answer] = response.answers
    assert answer.value_log10 is not None
    assert answer.value_log10[0] is None
    assert (answer.value_log10[1] or 0) < -300
    assert answer.label == "delta(epsilon=*)"
    infinite = swept(sweep_body({NOISE: {"values": [1.0]}}, questions=[{"type": "epsilon", "delta": 0}]))
    assert infinite.answers[0].value == (math.inf,)


def rows(response: SweepsResponse) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(io.StringIO(to_csv(response)))


def test_json_lines_and_csv_equal_columns() -> None:
    vary = {NOISE: {"values": [1.0, -1.0]}}
    asked_for = [EPSILON, {"type": "epsilon", "delta": 0}, {"type": "trade_off", "false_positive_rates": [0.01]}]
    response = swept(sweep_body(vary, questions=asked_for))
    lines = [json.loads(line) for line in to_json_lines(response).splitlines()]
    cells = list(rows(response))
    assert len(lines) == len(cells) == response.points == 2
    for point, (line, row) in enumerate(zip(lines, cells, strict=True)):
        assert line["numbers"] == {NOISE: response.columns[NOISE][point]}
        assert float(row[NOISE]) == response.columns[NOISE][point]
        for received, answer in zip(line["answers"], response.answers, strict=True):
            value = answer.value[point]
            assert received["value"] == ("Infinity" if value == math.inf else value)
            assert row[answer.label] == ("" if value is None else "Infinity" if value == math.inf else repr(value))
            assert (
                row[f"{answer.label} tolerance_met"]
                == {True: "true", False: "false", None: ""}[answer.tolerance_met[point]]
            )
    assert [line["problem"] is None for line in lines] == [bool(row["problem"] == "") for row in cells] == [True, False]
    assert "power(false_positive_rate=0.01)" in cells[0]
    assert "type_two_error(false_positive_rate=0.01)" in cells[0]


ONE = {"values": [1.0]}
AT_NOISE = "/vary/~1mechanism~1noise_multiplier"
PROBABILITIES: Spec = {"type": "reconstruction", "prior_probabilities": [0.5, 0.5]}
BAD: list[tuple[str, Spec, str]] = [
    # Rows: case, request and pointer.
    ("a billion points", sweep_body({NOISE: {"from": 1, "to": 2, "count": 10**9}}), AT_NOISE + "/count"),
    (
        "more than are read",
        sweep_body({NOISE: {"from": 1, "to": 2, "count": 5000}, "/mechanism/steps": {"values": [1, 2, 3]}}),
        "/vary",
    ),
    ("backwards", sweep_body({NOISE: {"from": 2, "to": 1, "count": 3}}), AT_NOISE + "/from"),
    ("backwards, by another name", sweep_body({NOISE: {"min": 2, "max": 1, "count": 3}}), AT_NOISE + "/min"),
    ("no numbers", sweep_body({NOISE: {"from": 1, "to": 2, "count": 0}}), AT_NOISE + "/count"),
    ("one number of two", sweep_body({NOISE: {"from": 1, "to": 2, "count": 1}}), AT_NOISE + "/count"),
    ("an empty list", sweep_body({NOISE: {"values": []}}), AT_NOISE + "/values"),
    ("logarithms of 0", sweep_body({NOISE: {"from": 0, "to": 2, "count": 3, "spacing": "log"}}), AT_NOISE + "/from"),
    ("neither way", sweep_body({NOISE: {"from": 1}}), AT_NOISE + "/values"),
    ("both ways", sweep_body({NOISE: {"values": [1.0], "count": 2}}), AT_NOISE + "/values"),
    (
        "lists of different length",
        sweep_body({NOISE: {"values": [1.0, 2.0]}, "/mechanism/steps": {"values": [1]}}, combine="zip"),
        "/vary/~1mechanism~1steps",
    ),
    ("nothing varied", sweep_body({}), "/vary"),
    ("a pointer to nothing", sweep_body({"/mechanism/sekrit": ONE}), "/vary/~1mechanism~1sekrit"),
    ("a pointer to text", sweep_body({"/mechanism/type": ONE}), "/vary/~1mechanism~1type"),
    ("a pointer to a word", sweep_body({"/mechanism/sampling": ONE}), "/vary/~1mechanism~1sampling"),
    ("a pointer to an object", sweep_body({"/mechanism": ONE}), "/vary/~1mechanism"),
    ("no pointer", sweep_body({"mechanism": ONE}), "/vary/mechanism"),
    ("a pointer to an absent number", sweep_body({"/mechanism/epochs": ONE}), "/vary/~1mechanism~1epochs"),
    ("outside of what varies", sweep_body({"/relative_tolerance": ONE}), "/vary/~1relative_tolerance"),
    (
        "the sweep itself",
        sweep_body({f"/vary/{NOISE.replace('/', '~1')}/count": ONE}),
        "/vary/~1vary~1~01mechanism~01noise_multiplier~1count",
    ),
    ("the same place twice", sweep_body({NOISE: ONE, "/mechanism/sigma": ONE}), "/vary/~1mechanism~1sigma"),
    ("an index with a zero", sweep_body({"/questions/00/delta": ONE}), "/vary/~1questions~100~1delta"),
    ("an index beyond the list", sweep_body({"/questions/1/delta": ONE}), "/vary/~1questions~11~1delta"),
    (
        "an escape that is none of ours",
        sweep_body({"/mechanism/noise~0multiplier": ONE}),
        "/vary/~1mechanism~1noise~00multiplier",
    ),
    ("text for numbers", sweep_body({NOISE: {"values": ["1"]}}), AT_NOISE + "/values/0"),
    ("all methods", sweep_body({NOISE: ONE}, method="all"), "/method"),
    ("an option of another method", sweep_body({NOISE: ONE}, samples=10_000), "/samples"),
    (
        "too many numbers read",
        sweep_body({NOISE: {"from": 1, "to": 2, "count": 10_000}}, questions=[EPSILON] * 16),
        "/questions",
    ),
    (
        "a probability of several",
        sweep_body({"/questions/0/prior_probabilities/0": ONE}, questions=[PROBABILITIES]),
        "/vary/~1questions~10~1prior_probabilities~10",
    ),
]


@pytest.mark.parametrize(("body", "pointer"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_has_pointer(body: Spec, pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parsed(body)
    assert pointer in [error.pointer for error in field_errors(caught.value)]


def test_cost_of_many_points_is_extrapolated_from_few(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Request] = []
    whole = SweepsRequest.asked
    monkeypatch.setattr(SweepsRequest, "asked", lambda *sent: looked.append(sent[0]) or whole(*sent))
    few = SWEEPS.quote(parsed(sweep_body({NOISE: {"from": 1, "to": 2, "count": 10}})))
    many = SWEEPS.quote(parsed(sweep_body({NOISE: {"from": 1, "to": 2, "count": LARGEST_POINTS}})))
    assert not few.inline
    assert not many.inline
    assert 100 * few.cost < many.cost < 1000 * few.cost  # The first run of few costs more than all others.
    assert len(looked) < 100


def test_published_examples_are_answered() -> None:
    for example in SWEEPS_EXAMPLES.values():
        response = swept(example["value"])
        assert not response.problems
        assert all(all(answer.tolerance_met) for answer in response.answers)
