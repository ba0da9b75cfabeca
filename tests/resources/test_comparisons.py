"""Comparisons: the order of runs does not matter, and tables show what the response contains."""

from __future__ import annotations

import csv
import io
import json
import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator
from pydantic import ValidationError

from api_schemas.comparisons import ComparisonsRequest, ComparisonsResponse
from service.privacy.enclosure import Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.rendering.numbers import rounded_down as shown_down
from service.rendering.numbers import rounded_up as shown_up
from service.rendering.tables.comparisons import cells, to_csv, to_text
from service.resources.comparisons.comparing import COMPARISONS, comparisons_quote
from service.resources.comparisons.differences import Sign, best_of, difference_of, sign_of
from service.resources.read_numbers import ReadNumber, rounded_down, rounded_up
from tests.resources.test_claims import drawn, random_question
from tests.slow_marker import sample_of, thorough

Spec = dict[str, Any]
NAMED: Final = "sha256:" + "0" * 64
C1: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
TURNED: Final = {
    "first_smaller": "second_smaller",
    "second_smaller": "first_smaller",
    "first_is_harder": "second_is_harder",
    "second_is_harder": "first_is_harder",
}


def compare_runs(runs: dict[str, Spec], questions: list[Spec], **more: Any) -> ComparisonsResponse:
    """Return runs by name, each with a `threat_model` and a `mechanism`, or a mechanism alone."""
    sent = [
        {"name": name, **(run if "mechanism" in run and "type" not in run else {"mechanism": run})}
        for name, run in runs.items()
    ]
    request = COMPARISONS.request_type.model_validate_json(json.dumps({"runs": sent, "questions": questions, **more}))
    return COMPARISONS.response(request, NAMED, "2026.01.01")


def common_questions(random: Generator) -> list[Spec]:
    kinds = ("epsilon", "advantage", "reconstruction", "attack_accuracy", "positive_predictive_value")
    found = [random_question(kind, random) for kind in (*kinds, "negative_predictive_value", "deletion_capacity")]
    return [*found, {"type": "trade_off", "false_positive_rates": [1e-4, 0.2]}]


@pytest.mark.parametrize("seed", range(3))
def test_order_of_runs_does_not_matter(seed: int) -> None:
    random = np.random.default_rng(seed)
    chosen = random.permutation(np.array(drawn(random), dtype=object))[:4].tolist()
    runs = dict(zip("abcd", chosen, strict=True))
    questions = common_questions(random)
    there = compare_runs(runs, questions)
    back = compare_runs(dict(reversed(runs.items())), questions)
    for one, other in zip(there.quantities, back.quantities, strict=True):
        assert (sorted(one.best), one.certain) == (sorted(other.best), other.certain)
    found = {(pair.second, pair.first): pair for pair in back.pairs}
    for pair in there.pairs:
        mirror = found[pair.first, pair.second]
        assert mirror.curves.verdict == TURNED.get(pair.curves.verdict, pair.curves.verdict)
        assert mirror.curves.crossings == pair.curves.crossings
        for one, other in zip(pair.differences, mirror.differences, strict=True):
            assert other.verdict == TURNED.get(one.verdict, one.verdict)
            assert (one.difference is None) == (other.difference is None)
            if one.difference is not None and other.difference is not None:
                assert one.difference.lower == -other.difference.upper
                assert one.difference.upper == -other.difference.lower
            if one.ratio is not None and other.ratio is not None and 0 < other.ratio.upper < math.inf:
                assert one.ratio.lower * other.ratio.upper == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_signs_and_differences_hold_for_the_answers(seed: int) -> None:
    """A sign is certain only for disjoint enclosures, and the best run has the best conservative bound."""
    random = np.random.default_rng([7, seed])
    runs = dict(zip("abc", drawn(random)[seed : seed + 3], strict=True))
    response = compare_runs(runs, common_questions(random))
    for place, quantity in enumerate(response.quantities):
        ends = {run.name: cell for run, cell in zip(response.runs, cells(response, quantity), strict=True)}
        choose = min if quantity.better == "smaller" else max
        safest = choose(cell.value for cell in ends.values())
        assert quantity.best == tuple(name for name, cell in ends.items() if cell.value == safest)
        for pair in response.pairs:
            one, other, compared = ends[pair.first], ends[pair.second], pair.differences[place]
            assert one.lower is not None
            assert one.upper is not None
            assert other.lower is not None
            assert other.upper is not None
            if one.upper < other.lower:
                assert compared.verdict == "first_smaller"
            elif other.upper < one.lower:
                assert compared.verdict == "second_smaller"
            if compared.difference is not None:
                assert compared.difference.lower <= one.lower - other.upper + 1e-15 * one.lower
                assert compared.difference.upper >= one.upper - other.lower - 1e-15 * one.upper
            if quantity.certain and quantity.best == (pair.first,):
                assert compared.verdict == ("first_smaller" if quantity.better == "smaller" else "second_smaller")


def test_run_equals_itself_under_another_name() -> None:
    questions = [
        {"type": "epsilon", "delta": 1e-5},
        {"type": "epsilon", "delta": 0},
        {"type": "trade_off", "false_positive_rates": [0.1]},
    ]
    response = compare_runs({"one": C1, "two": dict(C1)}, questions)
    [pair] = response.pairs
    assert (pair.curves.verdict, pair.theorem is None) == ("equal", False)
    for difference in pair.differences:
        assert difference.verdict == "equal"
        assert difference.difference is not None
        assert (difference.difference.lower, difference.difference.upper) == (0, 0)
        assert difference.ratio is not None
        assert (difference.ratio.lower, difference.ratio.upper) == (1, 1)
    assert all(quantity.best == ("one", "two") and quantity.certain for quantity in response.quantities)


def harder_and_easier(random: Generator) -> list[tuple[Spec, Spec]]:
    """Return pairs of runs whose parameters decide which is better: the first is at least as private."""
    noise, rate, steps = random.uniform(0.7, 3), 10 ** random.uniform(-2.5, -1), int(random.integers(20, 800))
    more, less = 1 + random.uniform(0, 0.5), 1 - random.uniform(0, 0.3)

    def run(noise: float, rate: float, steps: int) -> Spec:
        return {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": steps}

    def repeated(steps: int, noise: float) -> Spec:
        return {"type": "repeated", "steps": steps, "mechanism": {"type": "laplace", "noise_multiplier": noise}}

    return [
        (run(noise * more, rate * less, steps), run(noise, rate, steps + 3)),
        (run(noise, rate * less, steps), run(noise, rate, steps)),
        ({"type": "gaussian", "noise_multiplier": noise * more}, {"type": "gaussian", "noise_multiplier": noise}),
        (repeated(3, noise * more), repeated(4, noise)),
        ({"type": "pure_dp", "epsilon": less}, {"type": "pure_dp", "epsilon": 1.0}),
        ({"type": "gdp", "mu": less}, {"type": "gdp", "mu": 1.0}),
        ({"type": "exponential", "epsilon": less}, {"type": "exponential", "epsilon": 1.0}),
        (
            {"type": "approximate_dp", "epsilon": less, "delta": 1e-5 * less},
            {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-5},
        ),
        (
            {"type": "composed", "mechanisms": [run(noise * more, rate, steps), {"type": "gdp", "mu": 0.1}]},
            {"type": "composed", "mechanisms": [run(noise, rate, steps), {"type": "gdp", "mu": 0.2}]},
        ),
        (
            {
                "type": "poisson_sampled",
                "sample_rate": rate * less,
                "mechanism": {"type": "laplace", "noise_multiplier": noise},
            },
            {
                "type": "poisson_sampled",
                "sample_rate": rate,
                "mechanism": {"type": "laplace", "noise_multiplier": noise},
            },
        ),
    ]


@sample_of(8)
@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("model", ["add_or_remove_one", "zero_out"])
def test_curves_do_not_contradict_order_of_parameters(place: int, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    private, other = harder_and_easier(np.random.default_rng([3, place]))[place]
    attacker = {"threat_model": {"type": "worst_case", "neighboring_relation": model}}
    runs = {"a": {"mechanism": other, **attacker}, "b": {"mechanism": private, **attacker}}
    questions = [{"type": "advantage"}, {"type": "epsilon", "delta": 1e-6}, {"type": "delta", "epsilon": 0.5}]
    [pair] = compare_runs(runs, questions).pairs
    assert (pair.curves.verdict, pair.curves.undecided_rates) == ("second_is_harder", 0)
    assert pair.theorem is not None
    assert all(each.verdict in ("second_smaller", "equal") for each in pair.differences)
    monkeypatch.setattr("service.resources.comparisons.comparing.is_at_least_as_hard", lambda *_: False)
    [drawn_pair] = compare_runs(runs, questions).pairs
    assert drawn_pair.theorem is None
    assert drawn_pair.curves.verdict in ("second_is_harder", "equal")


@sample_of(2)
@pytest.mark.parametrize(
    ("one", "other", "is_decided"),
    [
        ({"steps": 10}, {"steps": 20}, True),
        ({"noise_multiplier": 2.0, "steps": 10}, {"noise_multiplier": 1.0, "epochs": 5.0}, True),
        ({"batch_size": 5}, {"batch_size": 10}, False),
        ({"steps": 10}, {"noise_multiplier": 2.0, "steps": 20}, False),
        thorough({"sampling": "fixed_with_replacement"}, {}, False),
    ],
)
def test_batches_of_a_fixed_size_are_ordered_by_noise_and_steps(one: Spec, other: Spec, *, is_decided: bool) -> None:
    shared = {"type": "dpsgd", "noise_multiplier": 1.0, "sampling": "fixed_without_replacement", "batch_size": 10}
    lengths = [{} if "epochs" in each else {"steps": 20} for each in (one, other)]
    runs = {
        name: shared | {"dataset_size": 100} | length | each
        for name, length, each in zip("ab", lengths, (one, other), strict=True)
    }
    [pair] = compare_runs(runs, [{"type": "advantage"}]).pairs
    assert (pair.theorem is not None) == is_decided
    assert not is_decided or pair.curves.verdict == "first_is_harder"


def test_curves_are_not_evaluated_if_parameters_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    points = AbstractTradeOff.points

    def counted(self: AbstractTradeOff, rates: FloatArray) -> Any:
        read.append(len(rates))
        return points(self, rates)

    monkeypatch.setattr(AbstractTradeOff, "points", counted)
    runs = {str(noise): {"type": "gaussian", "noise_multiplier": noise} for noise in (1.0, 1.5, 2.0)}
    response = compare_runs(runs, [{"type": "advantage"}], false_positive_rates=[0.1, 0.2, 0.3])
    assert 3 not in read
    assert response.quantities[0].best == ("2.0",)
    compare_runs(
        runs | {"laplace": {"type": "laplace", "noise_multiplier": 1.0}},
        [{"type": "advantage"}],
        false_positive_rates=[0.1, 0.2, 0.3],
    )
    assert read.count(3) == 4


def test_curves_cross_between_stated_rates() -> None:
    runs = {
        "Gaussian": {"type": "gaussian", "noise_multiplier": 1.0},
        "Laplace": {"type": "laplace", "noise_multiplier": 1.0},
    }
    [pair] = compare_runs(runs, [{"type": "advantage"}]).pairs
    assert pair.curves.verdict == "crossing"
    assert [(each["start"], each["end"]) for each in pair.curves.crossings] == [(0.2, 0.3), (0.3, 0.4)]


def test_infinite_and_zero_answers_are_compared() -> None:
    runs = {
        "gaussian": {"type": "gaussian", "noise_multiplier": 1.0},
        "other": {"type": "gdp", "mu": 2.0},
        "pure": {"type": "pure_dp", "epsilon": 1.0},
        "nothing": {"type": "pure_dp", "epsilon": 0.0},
    }
    response = compare_runs(runs, [{"type": "epsilon", "delta": 0}])
    found = {(pair.first, pair.second): pair.differences[0] for pair in response.pairs}
    both = found["gaussian", "other"]
    assert (both.verdict, both.difference, both.ratio) == ("equal", None, None)
    one = found["gaussian", "pure"]
    assert one.verdict == "second_smaller"
    assert one.difference is not None
    assert (one.difference.lower, one.difference.upper) == (math.inf, math.inf)
    assert found["pure", "nothing"].ratio is None
    assert response.quantities[0].best == ("nothing",)
    assert b'"Infinity"' in response.json_bytes()


def test_numbers_below_the_smallest_double_have_signs() -> None:
    runs = {"a": {"type": "gaussian", "noise_multiplier": 1.0}, "b": {"type": "gaussian", "noise_multiplier": 1.01}}
    response = compare_runs(runs, [{"type": "delta", "epsilon": 60.0}])
    [quantity], [[difference]] = response.quantities, [pair.differences for pair in response.pairs]
    assert (quantity.best, quantity.certain) == (("b",), True)
    assert difference.verdict == "second_smaller"
    assert difference.ratio is not None
    assert 1e10 < difference.ratio.lower <= difference.ratio.upper < math.inf


def test_approximations_have_no_sign_and_no_rank() -> None:
    run = {
        "type": "noisy_sgd",
        "dataset_size": 400,
        "batch_size": 400,
        "dimension": 650,
        "steps": 1,
        "noise_std": 2.84,
        "max_grad_norm": 500.0,
    }
    model = {"type": "membership", "step_curve": "gaussian"}
    runs = {"approximated": {"mechanism": run, "threat_model": model}, "proved": {"mechanism": run}}
    response = compare_runs(runs, [{"type": "advantage"}])
    [quantity] = response.quantities
    assert (quantity.best, quantity.certain) == (("proved",), False)
    assert response.pairs[0].differences[0].verdict == "undecided"
    assert response.pairs[0].differences[0].difference is None
    assert response.notes
    assert "~" in to_text(response)


def enclosed(lower: float, upper: float) -> ReadNumber:
    return ReadNumber(upper, lower, upper, Evidence.CERTIFIED, guarantee=False)


@pytest.mark.parametrize("seed", range(10))
def test_differences_and_ratios_are_rounded_outwards(seed: int) -> None:
    random = np.random.default_rng(seed)
    one, other = (sorted((10 ** random.uniform(-200, 3, 2)).tolist()) for _ in range(2))
    found = difference_of([enclosed(*one)], [enclosed(*other)])
    exact = [[Fraction(end) for end in ends] for ends in (one, other)]
    for end, place in (("lower", 0), ("upper", 1)):
        outwards = (lambda a, b: a <= b) if place == 0 else (lambda a, b: a >= b)
        assert outwards(Fraction(found["difference"][end]), exact[0][place] - exact[1][1 - place])
        assert outwards(Fraction(found["ratio"][end]), exact[0][place] / exact[1][1 - place])


@pytest.mark.parametrize(
    "value", [Fraction(1, 3), Fraction(-1, 3), Fraction(10) ** 400, -(Fraction(10) ** 400), Fraction(0)]
)
def test_fractions_lie_between_their_roundings(value: Fraction) -> None:
    down, up = rounded_down(value), rounded_up(value)
    assert down == -math.inf or Fraction(down) <= value
    assert up == math.inf or Fraction(up) >= value
    assert down == up == 0 or math.nextafter(down, math.inf) >= up


def test_best_run_is_certain_only_if_all_others_are_worse() -> None:
    numbers = [enclosed(1.0, 1.1), enclosed(1.05, 1.2), enclosed(2.0, 2.0)]
    signs: list[list[Sign]] = [[sign_of([one], [other]) for other in numbers] for one in numbers]
    assert best_of(numbers, signs) == ([0], False)
    assert best_of(numbers[1:], [row[1:] for row in signs[1:]]) == ([0], True)


RUNS: Final = {
    "baseline": C1,
    'odd "name", here, µ': C1 | {"steps": 700},
    "shuffled": {
        "type": "dpsgd",
        "noise_multiplier": 1.0,
        "batch_size": 480,
        "dataset_size": 48_000,
        "epochs": 1,
        "sampling": "shuffled",
    },
    "pure": {"type": "pure_dp", "epsilon": 0.7},
}
QUESTIONS: Final = [
    {"type": "epsilon", "delta": 0},
    {"type": "epsilon", "delta": 1e-5},
    {"type": "trade_off", "false_positive_rates": [1e-3, 0.3]},
    {"type": "negative_predictive_value", "prior": 0.2, "false_positive_rate": 0.1, "side": "at_least"},
]


def test_csv_round_trips_numbers_exactly() -> None:
    response = compare_runs(RUNS, QUESTIONS)
    text = to_csv(response)
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head[2:-2:3] == list(RUNS)
    assert len(rows) == len(response.quantities) == 5
    for row, quantity in zip(rows, response.quantities, strict=True):
        assert (row[0], row[1]) == (quantity.label, quantity.better)
        assert (row[-2], row[-1]) == ("; ".join(quantity.best), "true" if quantity.certain else "false")
        assert [float(cell) for cell in row[2:-2]] == [end for cell in cells(response, quantity) for end in cell]


def test_table_has_aligned_columns_rounded_to_safe_side() -> None:
    response = compare_runs(RUNS, QUESTIONS)
    lines = to_text(response).splitlines()
    head, rule, *rows = lines[: 2 + len(response.quantities)]
    ends = [place + 1 for place in range(len(rule)) if rule[place] == "-" and rule[place + 1 : place + 2] in (" ", "")]
    for row, quantity in zip(rows, response.quantities, strict=True):
        assert row.startswith(quantity.label)
        for start, end, run, cell in zip(ends, ends[1:], response.runs, cells(response, quantity), strict=False):
            assert head[start:end].strip() == run.name
            shown = row[start:end].strip().rstrip("*?")
            if ".." in shown:
                low, high = map(float, shown.split(".."))
                assert cell.lower is not None
                assert cell.upper is not None
                assert low <= cell.lower <= cell.upper <= high
            elif quantity.better == "smaller":
                assert cell.value <= float(shown) <= cell.value * (1 + 1e-5)
            else:
                assert cell.value * (1 - 1e-5) <= float(shown) <= cell.value
    assert sum(" / " in line for line in lines) == len(response.pairs)


@pytest.mark.parametrize("seed", range(20))
def test_displayed_numbers_are_rounded_to_their_side(seed: int) -> None:
    value = float(10 ** np.random.default_rng(seed).uniform(-300, 300))
    assert float(shown_down(value)) <= value <= float(shown_up(value))
    assert float(shown_up(value)) <= value * (1 + 1e-5)


def test_bytes_match_response_and_cost_is_estimated() -> None:
    for example in COMPARISONS.examples.values():
        request = COMPARISONS.request_type.model_validate_json(json.dumps(example["value"]))
        body = COMPARISONS.body(request, NAMED, "2026.01.01")
        assert COMPARISONS.response_type.model_validate_json(body).json_bytes() == body
        assert comparisons_quote(request).cost > 0


HIDDEN: Final = ("", "\u200b", "\ufeff", "\xad", "\u202e", "\u2066")


@pytest.mark.parametrize("hidden", HIDDEN, ids=ascii)
@pytest.mark.parametrize("first", "=+-@\uff1d\uff0b\uff0d\uff20", ids=ascii)
def test_no_csv_cell_starts_like_a_formula(first: str, hidden: str) -> None:
    random = np.random.default_rng(ord(first))
    for name in (f"{hidden}{first}1", f"a;{first}1", f"a{hidden}\t{first}{random.integers(9)}"):
        runs = [{"name": each, "mechanism": {"type": "gdp", "mu": 1.0}} for each in (name, "other")]
        with pytest.raises(ValidationError):
            ComparisonsRequest.model_validate_json(json.dumps({"runs": runs, "questions": [{"type": "advantage"}]}))
