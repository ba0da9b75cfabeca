"""Grounds of verdicts: attackers with several relations, units of several records, and assumptions of changed runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import binom, norm

from api_schemas.assessments import AssessmentsResponse
from tests.rendering.assessment_cases import assess

SEED = 20261129
DELTA = 1e-5
RELATIONS = ("add_or_remove_one", "zero_out", "replace_one")


def judge(mechanism: dict[str, Any], context: dict[str, Any], rule: dict[str, Any]) -> AssessmentsResponse:
    policy = {"name": "gate", "rules": [rule], "requires": "all"}
    return assess({"mechanism": mechanism, "context": {"delta": DELTA, **context}, "policy": policy})


def verdict(received: AssessmentsResponse) -> str:
    assert received.decision is not None
    [ruling] = received.decision.rulings
    return ruling.verdict


def delta_of(mu: float) -> float:
    """Return delta at epsilon 0 of two normal laws of unit variance at the distance `mu`: their total variation."""
    return float(2 * norm.cdf(mu / 2) - 1)


def power_of(mu: float, rate: float) -> float:
    """Return the power of the best test between two normal laws of unit variance at the distance `mu`."""
    return float(norm.cdf(norm.ppf(rate) + mu))


@pytest.mark.parametrize("seed", range(8))
def test_clipped_averages_do_not_violate_limit_of_drawn_attacker(seed: int) -> None:
    """With clipped averages, every relation moves a sum by twice the norm of the clip, for each attacker of a draw."""
    random = np.random.default_rng([SEED, seed])
    noise, rate = float(random.uniform(1, 6)), float(random.uniform(0.01, 0.3))
    others = [str(each) for each in random.choice(RELATIONS, size=int(random.integers(0, 2)))]
    relations = [*others, "replace_one"]
    weights = random.dirichlet(np.ones(len(relations)))
    weights[-1] = 1 - weights[:-1].sum()
    drawn = [
        {"weight": float(weight), "threat_model": {"type": "worst_case", "neighboring_relation": relation}}
        for weight, relation in zip(weights, relations, strict=True)
    ]
    rule = {
        "question": {"type": "trade_off", "false_positive_rates": [rate]},
        "at_most": power_of(2 / noise, rate) * (1 + 1e-6),
        "threat_model": {"type": "mixture", "components": drawn},
    }
    received = judge({"type": "gaussian", "noise_multiplier": noise}, {"microbatch_size": 3}, rule)
    assert verdict(received) != "violated"


@pytest.mark.parametrize("attacker", [None, {"type": "glrt", "dimension": 7}])
@pytest.mark.parametrize("seed", range(4))
def test_limit_that_several_records_may_reach_is_not_violated(seed: int, attacker: dict[str, Any] | None) -> None:
    """A unit with an unknown number of records reveals more than one record, so it may reach a least power."""
    random = np.random.default_rng([SEED, 1, seed])
    noise, rate, records = float(random.uniform(2, 8)), float(random.uniform(0.01, 0.2)), int(random.integers(3, 9))
    between = (power_of(1 / noise, rate) + power_of(records / noise, rate)) / 2
    question = {"type": "trade_off", "false_positive_rates": [rate]}
    given = {} if attacker is None else {"threat_model": attacker}
    cap = {"privacy_unit": "user"} | ({} if attacker is None else {"records": records})
    for limit in (
        {"at_least": between},
        {"at_most": between},
        {"at_most": 1 - between, "reads": "type_two_error"},
        {"at_least": 1 - between, "reads": "type_two_error"},
    ):
        run = {"type": "gaussian", "noise_multiplier": noise}
        assert verdict(judge(run, cap, {"question": question, **limit, **given})) == "undecided", limit


@pytest.mark.parametrize(
    "context",
    [
        {"tuning_runs": 3},
        {"tuning_runs": 2, "microbatch_size": 2},
        {"gradient_accumulation_steps": 2},
        {"batch_size": 30, "dataset_size": 100},
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_numbers_of_changed_run_rest_on_its_assumptions(seed: int, context: dict[str, Any]) -> None:
    random = np.random.default_rng([SEED, 2, seed])
    noise = float(random.uniform(1, 4))
    sampled = {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": float(random.uniform(0.01, 0.2)), "steps": 1}
    run = {"type": "gaussian", "noise_multiplier": noise} if "tuning_runs" in context else sampled
    rule = {"question": {"type": "epsilon", "delta": DELTA}, "at_most": 1e3}
    received = judge(run, context, rule)
    assert received.judged_as is not None
    alone = judge(json.loads(received.judged_as.mechanism.model_dump_json()), {}, rule)
    assert {each.code for each in alone.assumptions} <= {each.code for each in received.assumptions}
    attested = [{"code": each.code, "holds": "yes"} for each in judge(run, {}, rule).assumptions]
    expected = "met_if_attested" if "tuning_runs" in context else "met"
    assert judge(run, context | {"attested": attested}, rule).verdict == expected


@pytest.mark.parametrize("runs", [2, 10**7])
def test_score_that_reads_more_than_a_run_makes_the_choice_void(runs: int) -> None:
    context = {"tuning_runs": runs, "attested": [{"code": "score_is_covered", "holds": "no"}]}
    rule = {"question": {"type": "epsilon", "delta": DELTA}, "at_most": 1e4}
    assert judge({"type": "gaussian", "noise_multiplier": 20.0}, context, rule).verdict == "void"


def test_attacker_of_single_steps_has_no_bound_for_several_runs() -> None:
    """All runs share the direction of a record, which an attacker with a fresh direction in each step ignores."""
    attacker = {"type": "glrt", "dimension": 20, "unknown_direction": "fresh_each_step"}
    question = {"type": "trade_off", "false_positive_rates": [0.01]}
    rule = {"question": question, "at_most": 0.9, "threat_model": attacker}
    run = {"type": "gaussian", "noise_multiplier": 4.0}
    assert verdict(judge(run, {}, rule)) == "met"
    assert verdict(judge(run, {"tuning_runs": 3}, rule)) == "undecided"


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "discrete_gaussian"])
@pytest.mark.parametrize("seed", range(2))
def test_query_beside_training_is_not_violated_at_twice_its_movement(seed: int, kind: str) -> None:
    """Averages are clipped in the training, and a query beside it may move by its stated sensitivity only."""
    random = np.random.default_rng([SEED, 3, seed])
    quiet = {"type": "dpsgd", "noise_multiplier": 200.0, "sample_rate": 1e-4, "steps": 2}
    size = float(random.uniform(2, 4))
    query = {"type": kind, "sigma": size, "sensitivity": 1} if kind == "discrete_gaussian" else {"type": kind}
    query |= {} if "sigma" in query else {"noise_multiplier": size}
    largest = 1 - float(np.exp(-0.5 / size)) if kind == "laplace" else delta_of(1 / size) * 1.001
    rule = {"question": {"type": "delta", "epsilon": 0.0}, "at_most": largest + 0.01}
    mechanisms = [quiet, query] if random.uniform() < 0.5 else [query, quiet]
    received = judge({"type": "composed", "mechanisms": mechanisms}, {"microbatch_size": 4}, rule)
    assert verdict(received) == "undecided"


STATED: tuple[dict[str, Any], ...] = (
    {"type": "gdp", "mu": 0.5},
    {"type": "pure_dp", "epsilon": 0.5},
    {"type": "approximate_dp", "epsilon": 0.5, "delta": 1e-6},
    {"type": "zcdp", "rho": 0.1},
    {"type": "rdp", "orders": [2.0], "epsilons": [0.1]},
)


@pytest.mark.parametrize("stated", STATED, ids=lambda each: each["type"])
def test_met_limit_with_clipped_averages_is_met_by_the_stated_part(stated: dict[str, Any]) -> None:
    """Who states a guarantee alone may have clipped averages in the run behind it, and so beside other noise."""
    rule = {"question": {"type": "delta", "epsilon": 0.0}, "at_most": 0.9}
    beside = {"type": "composed", "mechanisms": [{"type": "gaussian", "noise_multiplier": 50.0}, stated]}
    context = {"microbatch_size": 4}
    assert verdict(judge(beside, context, rule)) == verdict(judge(stated, context, rule)) == "undecided"


@pytest.mark.parametrize("seed", range(4))
def test_passes_that_draw_more_records_than_exist_are_not_met_at_fewer(seed: int) -> None:
    """Draws with replacement add up over the passes: a record is in an update Binomial(draws, 1/size) times."""
    random = np.random.default_rng([SEED, 4, seed])
    size, noise, passes = int(random.integers(10, 40)), float(random.uniform(1, 3)), int(random.integers(3, 6))
    batch = int(random.integers(size // 2, size + 1))
    hits = np.arange(passes * batch + 1)
    chances, outputs = binom.pmf(hits, passes * batch, 1 / size), np.linspace(-20, 80, 40_001)
    moved = chances @ norm.pdf((outputs - hits[:, None]) / noise) / noise
    width = outputs[1] - outputs[0]
    advantage = float(np.maximum(moved - norm.pdf(outputs / noise) / noise, 0).sum() * width)
    run = {"type": "dpsgd", "sampling": "fixed_with_replacement", "noise_multiplier": noise, "steps": 1}
    run |= {"batch_size": batch, "dataset_size": size}
    rule = {"question": {"type": "advantage"}, "at_most": advantage * 0.99}
    assert verdict(judge(run, {"gradient_accumulation_steps": passes}, rule)) != "met"


def test_attacker_of_a_rule_has_the_delta_of_the_context() -> None:
    for delta, stated in ((0.0, 0.2), (0.2, None), (0.3, 0.2)):
        attacker = {"type": "practical", "epsilon_pmp": 0.1, "delta": delta}
        rule = {"question": {"type": "attack_accuracy", "prior": 0.5}, "at_most": 0.7, "threat_model": attacker}
        context = {"epsilon_pmp": 0.1} | ({} if stated is None else {"delta_pmp": stated})
        with pytest.raises(ValidationError, match="The context has delta_pmp"):
            judge({"type": "gaussian", "noise_multiplier": 2.0}, context, rule)
