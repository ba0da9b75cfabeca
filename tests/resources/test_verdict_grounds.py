"""Grounds of verdicts: attackers with several relations, units of several records, and assumptions of changed runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from service.engine_version import ENGINE_VERSION
from service.importers.catalogue import validate_with_imports
from service.resources.assessments.assessment import ASSESSMENTS

NAME = "sha256:" + "0" * 64
SEED = 20261129
DELTA = 1e-5
RELATIONS = ("add_or_remove_one", "zero_out", "replace_one")


def assess(mechanism: dict[str, Any], context: dict[str, Any], *rules: dict[str, Any]) -> AssessmentsResponse:
    sent: dict[str, Any] = {"mechanism": mechanism, "context": {"delta": DELTA, **context}}
    sent |= {"policy": {"name": "gate", "rules": rules, "requires": "all"}} if rules else {}
    return ASSESSMENTS.response(
        validate_with_imports(AssessmentsRequest, json.dumps(sent).encode()), NAME, ENGINE_VERSION
    )


def verdict(received: AssessmentsResponse) -> str:
    assert received.decision is not None
    [ruling] = received.decision.rulings
    return ruling.verdict


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
    received = assess({"type": "gaussian", "noise_multiplier": noise}, {"microbatch_size": 3}, rule)
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
        assert verdict(assess(run, cap, {"question": question, **limit, **given})) == "undecided", limit


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
    received = assess(run, context, rule)
    assert received.judged_as is not None
    alone = assess(json.loads(received.judged_as.mechanism.model_dump_json()), {}, rule)
    assert {each.code for each in alone.assumptions} <= {each.code for each in received.assumptions}
    attested = [{"code": each.code, "holds": "yes"} for each in assess(run, {}, rule).assumptions]
    expected = "met_if_attested" if "tuning_runs" in context else "met"
    assert assess(run, context | {"attested": attested}, rule).verdict == expected


@pytest.mark.parametrize("runs", [2, 10**7])
def test_score_that_reads_more_than_a_run_makes_the_choice_void(runs: int) -> None:
    context = {"tuning_runs": runs, "attested": [{"code": "score_is_covered", "holds": "no"}]}
    rule = {"question": {"type": "epsilon", "delta": DELTA}, "at_most": 1e4}
    assert assess({"type": "gaussian", "noise_multiplier": 20.0}, context, rule).verdict == "void"


def test_attacker_of_single_steps_has_no_bound_for_several_runs() -> None:
    """All runs share the direction of a record, which an attacker with a fresh direction in each step ignores."""
    attacker = {"type": "glrt", "dimension": 20, "unknown_direction": "fresh_each_step"}
    question = {"type": "trade_off", "false_positive_rates": [0.01]}
    rule = {"question": question, "at_most": 0.9, "threat_model": attacker}
    run = {"type": "gaussian", "noise_multiplier": 4.0}
    assert verdict(assess(run, {}, rule)) == "met"
    assert verdict(assess(run, {"tuning_runs": 3}, rule)) == "undecided"
