"""Shuffled reports of randomisers that reveal next to nothing: p = e^eps0 is 1 in doubles, and p - 1 is not."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any, Final

import mpmath as mp
import numpy as np
import pytest
from numpy.random import Generator

from service.privacy.mechanisms.shuffled.known_curves import curve_of
from service.privacy.mechanisms.shuffled.pairs import clones, own_value, ratio_of, third_value
from service.privacy.mechanisms.shuffled.steps import HeldOnes
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.shuffled.mean_form import MeanForm, exponential
from service.privacy.trade_off.shuffled.ones import Ones
from service.privacy.trade_off.shuffled.ones_list import ones_log_deltas
from service.resources.bounds import BOUNDS
from tests.slow_marker import sample_of

DIGITS: Final = 700
ALLOWANCE: Final = 3e5


def tiny(random: Generator, most: float = 1e-1) -> float:
    return float(math.exp(random.uniform(math.log(1e-300), math.log(most))))


def thorough_rounds(seed: int) -> Any:
    """Return the parameters of a case with two rounds, which takes seconds."""
    return pytest.param(seed, 2, marks=pytest.mark.thorough)


def delta_of_ones(reports: int, others: int, epsilon: float, threshold: float) -> Any:
    """Return delta of a number of ones, from the binomial laws of the reports of both kinds of other persons."""
    p = mp.exp(mp.mpf(epsilon))
    a, b = p / (p + 1), 1 / (p + 1)

    def binomial(count: int, share: Any, j: int) -> Any:
        return mp.binomial(count, j) * share**j * (1 - share) ** (count - j)

    masses = [mp.mpf(0)] * (reports + 1)
    for i, j in product(range(others + 1), range(reports - others)):
        masses[i + j] += binomial(others, a, i) * binomial(reports - 1 - others, b, j)
    masses[-1] = mp.mpf(0)
    before = [mp.mpf(0), *masses[:-1]]
    grown = mp.exp(mp.mpf(threshold))
    laws = zip(before, masses, strict=True)
    return mp.fsum(max(a * one + b * none - grown * (b * one + a * none), 0) for one, none in laws)


def delta_of_form(form: MeanForm, threshold: float) -> Any:
    """Return the mean of the positive part of the mean of n terms, over all sequences of categories."""
    grown = mp.exp(mp.mpf(threshold))
    rows = [
        [mp.mpf(each.numerator) / each.denominator for each in row] for row in (form.weights, form.present, form.absent)
    ]
    terms = [(weight, one - grown * other) for weight, one, other in zip(*rows, strict=True)]
    found = mp.mpf(0)
    for chosen in product(terms, repeat=form.reports):
        found += mp.fprod(weight for weight, _ in chosen) * max(mp.fsum(term for _, term in chosen), 0) / form.reports
    return found


@pytest.mark.parametrize("seed", range(4))
def test_number_of_ones_is_that_of_the_definition(seed: int) -> None:
    random = np.random.default_rng([20261201, seed])
    for _ in range(6):
        epsilon, reports = tiny(random), int(random.integers(2, 8))
        others, threshold = int(random.integers(reports)), epsilon * float(random.uniform(0, 0.3))
        curve = HeldOnes(reports=reports, epsilon=epsilon, others=others, exchanged=False).curves().add
        found = curve.profile_at(threshold)
        with mp.workdps(DIGITS):
            truth = delta_of_ones(reports, others, epsilon, threshold)
            assert mp.mpf(found.lower) <= truth <= mp.mpf(found.upper)
        assert found.upper > 0


@sample_of(2)
@pytest.mark.parametrize("seed", range(6))
def test_counts_in_categories_are_those_of_the_definition(seed: int) -> None:
    random = np.random.default_rng([20261202, seed])
    for form_of in (clones, lambda n, p: third_value(n, 5, p), lambda n, p: own_value(n, 4, p)):
        epsilon, reports = tiny(random), int(random.integers(2, 5))
        form, threshold = form_of(reports, ratio_of(epsilon, 1)), epsilon * float(random.uniform(0, 0.3))
        found = curve_of(form).profile_at(threshold)
        with mp.workdps(DIGITS):
            truth = delta_of_form(form, threshold)
            assert mp.mpf(found.lower) <= truth <= mp.mpf(found.upper)
        assert found.upper <= 2 * epsilon
        assert found.upper - found.lower <= 1e-2 * found.upper


@sample_of(4)
@pytest.mark.parametrize("seed", range(20))
def test_lists_of_thresholds_agree_with_single_thresholds(seed: int) -> None:
    """Check that p - 1 keeps its digits where p is near 1."""
    random = np.random.default_rng([20261203, seed])
    epsilon, reports = tiny(random), int(10 ** random.uniform(1, 9))
    ones = Ones(reports, int(random.integers(reports)), exponential(epsilon))
    at = epsilon * np.sort(random.uniform(0, 2 / math.sqrt(reports), 12))
    low, high = ones_log_deltas(ones, at)
    alone = np.array([ones.log_delta(each) for each in at.tolist()])
    assert (low <= alone[:, 1]).all()
    assert (alone[:, 0] <= high).all()
    assert (high - low <= 1e-6).all()


@sample_of(8)
@pytest.mark.parametrize(("seed", "rounds"), [*((seed, 1) for seed in range(40)), *map(thorough_rounds, range(8))])
def test_requests_are_answered(seed: int, rounds: int) -> None:
    """Check that bounds of a round, and of two rounds, are in order."""
    random = np.random.default_rng([20261204, seed])
    epsilon = float(random.choice([5e-324, 1e-310, tiny(random), tiny(random)]))
    randomizer: dict[str, Any] = {"type": "pure_dp", "epsilon": epsilon}
    if random.uniform() < 0.7:
        randomizer = {"type": "randomized_response", "epsilon": epsilon, "options": int(random.choice([2, 2, 7]))}
    reports = int(random.choice([2, 3, 10, 10**4, 3047982, 10**9]))
    mechanism: dict[str, Any] = {"type": "shuffled_reports", "reports": reports, "randomizer": randomizer}
    if randomizer.get("options") == 2 and random.uniform() < 0.5:
        mechanism["others_holding_one"] = int(random.integers(reports))
    run = {"type": "repeated", "mechanism": mechanism, "steps": rounds}
    question = [
        {"type": "advantage"},
        {"type": "gdp_mu"},
        {"type": "trade_off", "false_positive_rates": [0.3]},
        {"type": "epsilon", "delta": 1e-300},
    ][seed % 4]
    request = BOUNDS.request_type.model_validate_json(json.dumps({"mechanism": run, "questions": [question]}))
    with at_most(ALLOWANCE):
        (answer,) = json.loads(BOUNDS.body(request, "", ""))["answers"]
    for each in (answer, *(point["power"] for point in answer.get("points", ()))):
        if "lower" in each:
            assert float(each["lower"]) <= float(each["upper"])
