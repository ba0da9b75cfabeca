"""Effects of a present hazard on numbers, verdict and texts; a hazard without effect says why."""

from __future__ import annotations

import itertools
import json
from typing import Any, get_args

import numpy as np
import pytest
from numpy.random import Generator

from api_schemas.answers import NumberAnswer
from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from api_schemas.assumptions_and_hazards import HazardCode
from api_schemas.bounds import BoundsRequest
from service.engine_version import ENGINE_VERSION
from service.importers.catalogue import validate_with_imports
from service.resources.assessments.assessment import ASSESSMENTS, exit_code
from service.resources.assessments.effects import HAZARDS
from service.resources.bounds import BOUNDS
from tests.slow_marker import sample_of, thorough

NAME = "sha256:" + "0" * 64
DELTA = 1e-5
CODES: tuple[str, ...] = get_args(get_args(HazardCode)[0])
CHANGING = tuple(code for code, row in HAZARDS.items() if row.effect == "numbers_changed")
TUNING = "tuning_not_accounted"
WORSE = 1e-9
"""Relative tolerance: two enclosures of one number may differ in their last digits."""


def assess(mechanism: dict[str, Any], context: dict[str, Any], **more: Any) -> AssessmentsResponse:
    sent = {"mechanism": mechanism, "context": {"delta": DELTA, **context}, **more}
    return ASSESSMENTS.response(
        validate_with_imports(AssessmentsRequest, json.dumps(sent).encode()), NAME, ENGINE_VERSION
    )


def epsilon_of(mechanism: dict[str, Any], threat_model: dict[str, Any] | None = None) -> NumberAnswer:
    sent: dict[str, Any] = {"mechanism": mechanism, "questions": [{"type": "epsilon", "delta": DELTA}]}
    sent |= {} if threat_model is None else {"threat_model": threat_model}
    [answer] = BOUNDS.response(BoundsRequest.model_validate_json(json.dumps(sent)), NAME, ENGINE_VERSION).answers
    assert isinstance(answer, NumberAnswer)
    return answer


def limit(at_most: float) -> dict[str, Any]:
    rule = {"question": {"type": "epsilon", "delta": DELTA}, "at_most": at_most}
    return {"name": "gate", "rules": [rule]}


def run(random: Generator) -> dict[str, Any]:
    """Draw a training run in one of the common descriptions."""
    noise, rate, steps = float(random.uniform(0.8, 3)), float(random.uniform(0.02, 0.1)), int(random.integers(100, 300))
    sampled = {
        "type": "poisson_sampled",
        "sample_rate": rate,
        "mechanism": {"type": "gaussian", "noise_multiplier": noise},
    }
    dpsgd = {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": steps}
    sized = {"type": "dpsgd", "noise_multiplier": noise, "batch_size": 100, "dataset_size": 1000, "epochs": 10.0}
    shapes: tuple[dict[str, Any], ...] = (
        dpsgd,
        sized,
        sized | {"sampling": "fixed_without_replacement"},
        {"type": "repeated", "mechanism": sampled, "steps": steps},
        {"type": "composed", "mechanisms": [dpsgd, {"type": "gaussian", "noise_multiplier": 4 * noise}]},
        dpsgd | {"noise_multiplier": [noise, 2 * noise], "steps": [steps, 2]},
    )
    return shapes[random.integers(len(shapes))]


def has_sizes(mechanism: dict[str, Any]) -> bool:
    return "dataset_size" in mechanism


def present(random: Generator, code: str, mechanism: dict[str, Any]) -> dict[str, Any] | None:
    """Draw a context in which a hazard is present, or return None if the mechanism excludes it."""
    match code:
        case "microbatches_double_sensitivity":
            return {"microbatch_size": int(random.integers(2, 64))}
        case "tuning_not_accounted":
            return {"tuning_runs": int(random.integers(2, 8))}
        case "gradient_accumulation_counted":
            return {"gradient_accumulation_steps": int(random.integers(2, 8))}
        case _:
            if has_sizes(mechanism):
                return None
            return {"dataset_size": 1000, "batch_size": int(random.choice([1, 300, 600]))}


def effect(received: AssessmentsResponse, code: str) -> tuple[str, str]:
    [found] = [each for each in received.hazards if each.code == code]
    return found.status, found.effect


@sample_of(2)
@pytest.mark.parametrize(
    ("seed", "code"),
    [
        *(thorough(*row) if row[1] == TUNING else row for row in itertools.product(range(2), CHANGING)),
        (4, TUNING),
    ],
)
def test_present_hazard_changes_every_number_and_the_verdict(code: str, seed: int) -> None:
    random = np.random.default_rng([seed, CHANGING.index(code)])
    mechanism = run(random)
    context = present(random, code, mechanism)
    if context is None:
        mechanism = {"type": "dpsgd", "noise_multiplier": 1.2, "sample_rate": 0.02, "steps": 100}
        context = present(random, code, mechanism)
    assert context is not None
    described = epsilon_of(mechanism)
    received = assess(mechanism, context)
    assert effect(received, code) == ("present", "numbers_changed")
    assert received.judged_as is not None
    assert code in received.judged_as.hazards
    [first, *_] = received.threat_models[0].answers
    assert isinstance(first, NumberAnswer)
    alone = epsilon_of(json.loads(received.judged_as.mechanism.model_dump_json()))
    assert (first.lower, first.upper) == (alone.lower, alone.upper)
    assert first.upper is not None
    assert described.upper is not None
    assert described.lower is not None
    assert first.upper >= described.lower * (1 - WORSE)
    if first.upper > 1.01 * described.upper:
        between = assess(mechanism, context, policy=limit((first.upper + described.upper) / 2))
        assert between.verdict in ("violated", "undecided")
        assert exit_code(between) == 1
        assert between.decision is not None
        [ruling] = between.decision.rulings
        assert (ruling.described is None) == (between.verdict == "violated")
    assert assess(mechanism, context, policy=limit(described.lower / 2)).verdict == "violated"
    assert assess(mechanism, context, policy=limit(2 * first.upper)).verdict == "met"


def test_all_present_hazards_count_together() -> None:
    mechanism = {"type": "dpsgd", "noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 30}
    context = {"microbatch_size": 2, "tuning_runs": 3, "batch_size": 20, "dataset_size": 1000}
    received = assess(mechanism, context)
    assert received.judged_as is not None
    changed = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.02, "steps": 30}
    alone = epsilon_of({"type": "selected", "mechanism": changed, "trials": {"type": "fixed", "count": 3}})
    [first, *_] = received.threat_models[0].answers
    assert first.model_dump() == alone.model_dump()


@pytest.mark.parametrize(
    ("mechanism", "context"),
    [
        ({"type": "noisy_sgd", "dataset_size": 50, "batch_size": 50, "dimension": 20, "steps": 2, "noise_std": 0.5,
          "max_grad_norm": 1.0}, {"microbatch_size": 4}),
        ({"type": "noisy_sgd", "dataset_size": 50, "batch_size": 50, "dimension": 20, "steps": 2, "noise_std": 0.5,
          "max_grad_norm": 1.0}, {"gradient_accumulation_steps": 2}),
        ({"type": "dpsgd", "noise_multiplier": 1.5e-4, "sample_rate": 0.01, "steps": 1}, {"microbatch_size": 4}),
        ({"type": "dpsgd", "noise_multiplier": 1e3, "sample_rate": 1.0, "steps": 10**12}, {"tuning_runs": 10**9}),
        ({"type": "mixture", "components": [
            {"weight": 0.5, "mechanism": {"type": "gaussian", "noise_multiplier": 2.0}},
            {"weight": 0.5, "mechanism": {"type": "gaussian", "noise_multiplier": 1.0}}]}, {"tuning_runs": 10**9}),
    ],
)  # fmt: skip
def test_hazard_with_unknown_run_leaves_no_bound(mechanism: dict[str, Any], context: dict[str, Any]) -> None:
    received = assess(mechanism, context, policy=limit(1e5))
    assert "no_bound" in {each.effect for each in received.hazards if each.status == "present"}
    assert received.judged_as is None
    assert not received.summary.bounded
    assert received.verdict in ("undecided", "violated")
    assert received.decision is not None
    assert received.decision.rulings[0].verdict != "met"


@pytest.mark.parametrize("code", CODES)
def test_every_hazard_states_its_effect(code: HazardCode) -> None:
    row = HAZARDS[code]
    assert row.title.endswith(".")
    assert len(row.title.split()) <= 14
    assert "_" not in row.title
    assert len(row.why.split()) >= 5
    assert row.why.endswith(".")


def test_large_delta_is_undecided_wherever_size_is_given() -> None:
    random = np.random.default_rng(8)
    for _ in range(12):
        size = int(10 ** random.uniform(2, 5))
        held: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
            ({"type": "gaussian", "noise_multiplier": 2.0}, {"dataset_size": size}),
            ({"type": "dpsgd", "noise_multiplier": 2.0, "batch_size": size, "dataset_size": size, "steps": 5}, {}),
        )
        for mechanism, context in held:
            for share, verdict in ((0.5, "met"), (1.0, "undecided"), (random.uniform(1, 20), "undecided")):
                delta = min(share / size, 0.9)
                rules = [{"question": {"type": "epsilon", "delta": delta}, "at_most": 1e4}]
                received = assess(mechanism, context | {"delta": delta}, policy={"name": "gate", "rules": rules})
                found = [each.status for each in received.hazards if each.code == "delta_not_small"]
                assert found == ([] if verdict == "met" else ["present"])
                assert received.verdict == verdict, (size, share)


def test_unit_without_records_cap_meets_no_limit() -> None:
    mechanism = {"type": "gaussian", "noise_multiplier": 5.0}
    received = assess(mechanism, {"privacy_unit": "user"}, policy=limit(1e3))
    assert received.verdict == "undecided"
    assert received.decision is not None
    assert "one record" in (received.decision.rulings[0].reason or "")
    assert assess(mechanism, {"privacy_unit": "user", "records": 2}, policy=limit(1e3)).verdict == "met"
    capped = {"type": "worst_case", "records": 2}
    rules = [limit(1e3)["rules"][0] | {"threat_model": capped}]
    assert assess(mechanism, {"privacy_unit": "user"}, policy={"name": "gate", "rules": rules}).verdict == "met"


def _imported(**more: Any) -> dict[str, Any]:
    content = {"number_of_examples": 6000, "batch_size": 60, "num_epochs": 2, "noise_multiplier": 1.6, **more}
    return {"type": "imported", "format": "tf_privacy", "content": content}


@sample_of(6)
@pytest.mark.parametrize("microbatches", [None, 1, 4, 32])
@pytest.mark.parametrize("used", [None, True, False])
def test_effect_included_in_import_is_not_counted_twice(microbatches: int | None, used: bool | None) -> None:
    context = {} if microbatches is None else {"microbatch_size": microbatches}
    received = assess(_imported(**({} if used is None else {"used_microbatching": used})), context)
    halved = used is not False or (microbatches or 1) > 1
    run = {"type": "dpsgd", "batch_size": 60, "dataset_size": 6000, "epochs": 2.0}
    alone = epsilon_of(run | {"noise_multiplier": 0.8 if halved else 1.6})
    [first, *_] = received.threat_models[0].answers
    assert isinstance(first, NumberAnswer)
    assert first.upper == pytest.approx(alone.upper, rel=1e-9)
    codes = {each.code: each.status for each in received.hazards}
    accounted = used is not False
    expected = None if accounted or microbatches == 1 else "possible" if microbatches is None else "present"
    assert codes.get("microbatches_double_sensitivity") == expected


def test_import_does_not_account_for_other_parts() -> None:
    other = {"type": "dpsgd", "noise_multiplier": 2.0, "sample_rate": 0.05, "steps": 100}
    received = assess({"type": "composed", "mechanisms": [_imported(), other]}, {"microbatch_size": 4})
    assert received.judged_as is not None
    assert received.judged_as.hazards == ("microbatches_double_sensitivity",)
