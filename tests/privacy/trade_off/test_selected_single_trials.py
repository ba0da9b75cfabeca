"""Selections of hardly any trials, and of hardly more than one: their deltas are those of one trial, times P(K = 1)."""

from __future__ import annotations

from typing import Any, Final

import mpmath
import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.neighbours import ONE_REPLACED, Neighbours
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built

mp: Any = mpmath
SHAPES: Final = (1e-300, -1e-300, 1e-25, -1e-22)
SLACK: Final = 1e-9


def three_outcomes(random: np.random.Generator) -> tuple[dict[str, Any], Neighbours, Any, Any]:
    """Draw a trial with the losses e, 0 and -e. Return its e, and the probability that the loss is not 0."""
    kind = int(random.integers(3))
    epsilon = 10.0 ** random.uniform(-2, 2)
    if kind == 0:
        options = int(random.choice([2, 3, 10, 10**6]))
        ratio = mp.exp(epsilon)
        spec = {"type": "randomized_response", "epsilon": epsilon, "options": options}
        return spec, ONE_REPLACED, mp.mpf(epsilon), (ratio + 1) / (ratio + options - 1)
    if kind == 1:
        p, q = random.uniform(0.3, 1), 10.0 ** random.uniform(-200, -1)
        spec = {"type": "unary_encoding", "true_bit": p, "false_bit": q}
        p, q = mp.mpf(p), mp.mpf(q)
        return spec, ONE_REPLACED, mp.log(p * (1 - q) / (q * (1 - p))), p * (1 - q) + q * (1 - p)
    return {"type": "pure_dp", "epsilon": epsilon}, Neighbours(), mp.mpf(epsilon), mp.mpf(1)


def curves(trial: dict[str, Any], trials: dict[str, Any], neighbours: Neighbours) -> TradeOffPair:
    spec = {"type": "selected", "mechanism": trial, "trials": trials, "released": "best"}
    return choose.pair(built(spec), "auto", neighbours)


@pytest.mark.parametrize("seed", range(40))
def test_one_trial_that_may_not_run_has_its_share_of_delta(seed: int) -> None:
    """With K = 1 of probability p and K = 0 otherwise, delta is p times that of the trial, for rare and sure trials."""
    random = np.random.default_rng([20261208, seed])
    p = (1 - 2.0 ** random.uniform(-53, -1)) if seed % 2 else 10.0 ** random.uniform(-250, 0)
    with mp.workdps(400):
        trial, neighbours, largest, apart = three_outcomes(random)
        found = curves(trial, {"type": "binomial", "count": 1, "probability": p}, neighbours)
        for share in (0.0, *random.uniform(0, 1, 4)):
            epsilon = float(share * largest)
            truth = p * apart * (mp.exp(largest) - mp.exp(epsilon)) / (mp.exp(largest) + 1)
            for curve in (found.add, found.remove, found.both):
                delta, at = curve.profile_at(epsilon), curve.epsilon(float(truth))
                assert delta.lower <= truth * (1 + SLACK * SLACK) <= delta.upper * (1 + SLACK * SLACK)
                assert at.lower <= epsilon * (1 + SLACK) + 1e-14
                assert epsilon <= at.upper * (1 + SLACK) + 1e-14


@pytest.mark.parametrize("seed", range(8))
def test_rare_trials_have_at_least_the_delta_of_one(seed: int) -> None:
    """Check P(K = 1) delta <= delta of the best <= E K delta, at epsilon 0, for trials that hardly ever run."""
    random = np.random.default_rng([20261209, seed])
    mean = 10.0 ** random.uniform(-280, -20)
    laws = ({"type": "poisson", "mean": mean}, {"type": "binomial", "count": 4, "probability": mean / 4})
    with mp.workdps(400):
        trial, neighbours, largest, apart = three_outcomes(random)
        for law in laws:
            found = curves(trial, law, neighbours).both
            for share in (0.0, *random.uniform(0, 1, 4)):
                delta = found.profile_at(float(share * largest))
                one = apart * (mp.exp(largest) - mp.exp(float(share * largest))) / (mp.exp(largest) + 1)
                assert delta.upper >= mean * one * (1 - SLACK)
                assert share > 0 or delta.lower <= mean * one * (1 + SLACK)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1 + 1e-12, 1 + 1e-5, 3.0, 1e6])
def test_tiny_shapes_are_the_logarithmic_law(mean: float, shape: float) -> None:
    trial = {"type": "discrete_laplace", "scale": 3.0, "sensitivity": 2}
    law = {"type": "truncated_negative_binomial", "mean": mean}
    one, other = (curves(trial, {**law, "shape": each}, Neighbours()).add for each in (shape, 0.0))
    for first, second in (
        *((one.profile_at(epsilon), other.profile_at(epsilon)) for epsilon in (0.0, 0.3)),
        *((one.epsilon(delta), other.epsilon(delta)) for delta in (1e-40, 1e-6)),
    ):
        assert first.lower <= second.upper
        assert second.lower <= first.upper
