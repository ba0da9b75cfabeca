"""DP-SGD in requests: values derived from sizes and epochs, schedules, samplers, and rejected input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.mechanisms import MechanismSpec
from api_schemas.problems import field_errors
from api_schemas.training_runs import DpsgdMechanism
from service.resources.caveats import caveats
from service.resources.digest import digest
from service.resources.parts import mechanism_of
from service.settings import Settings

REQUEST = TypeAdapter(BoundsRequest)
MECHANISM: TypeAdapter[MechanismSpec] = TypeAdapter(MechanismSpec)
PLAIN: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
SIZES: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "batch_size": 480, "dataset_size": 48_000}


def read(mechanism: dict[str, Any], **more: Any) -> BoundsRequest:
    body = {"mechanism": mechanism, "questions": [{"type": "advantage"}], **more}
    return REQUEST.validate_json(json.dumps(body))


def canonical(mechanism: dict[str, Any]) -> dict[str, Any]:
    return json.loads(read(mechanism).mechanism.model_dump_json())


def codes(mechanism: dict[str, Any]) -> tuple[set[str], set[str]]:
    known = caveats(mechanism_of(read(mechanism).mechanism))
    return {each.code for each in known.assumptions}, {each.code for each in known.hazards}


def test_plain_poisson_run_keeps_its_canonical_form() -> None:
    assert canonical(PLAIN) == canonical(PLAIN | {"sampling": "poisson"}) == PLAIN
    requests = [read(PLAIN), read(PLAIN | {"sampling": "poisson"})]
    assert len({digest("bounds", "1", request) for request in requests}) == 1
    assert digest("bounds", "1", read(PLAIN | {"sampling": "shuffled"})) != digest("bounds", "1", requests[0])


@pytest.mark.parametrize(
    ("sent", "follows"),
    [
        (SIZES | {"epochs": 10}, {"sample_rate": 0.01, "steps": 1000}),
        (SIZES | {"epochs": 0.1}, {"steps": 10}),
        (SIZES | {"epochs": 0.1001}, {"steps": 11}),
        (SIZES | {"dataset_size": 48_001, "epochs": 1}, {"steps": 101}),
        (SIZES | {"dataset_size": 48_001, "epochs": 1.5, "sampling": "shuffled"}, {"steps": 202, "reshuffled": True}),
        (PLAIN | {"steps": None, "epochs": 3}, {"steps": 300}),
        (PLAIN | {"steps": None, "epochs": 3, "sample_rate": 1 / 3}, {"steps": 9}),
        (PLAIN | {"steps": None, "epochs": 1, "sample_rate": [0.5, 0.3]}, {"steps": [2, 4]}),
        (SIZES | {"steps": 7, "sampling": "fixed_with_replacement"}, {"sample_rate": 0.01, "steps": 7}),
    ],
)
def test_derived_values_are_filled_in(sent: dict[str, Any], follows: dict[str, Any]) -> None:
    found = canonical(sent)
    assert found | follows == found
    again = MECHANISM.validate_json(json.dumps(found))
    assert again == read(sent).mechanism
    assert digest("bounds", "1", read(found)) == digest("bounds", "1", read(sent))


@pytest.mark.parametrize(
    ("changed", "pointer", "message"),
    [
        ({"reshuffled": True}, "reshuffled", "shuffled"),
        ({"batch_size": 10}, "dataset_size", "together"),
        ({"n_train": 10, "n": 11}, "n", "at most dataset_size"),
        ({"batch_size": 10, "dataset_size": 100}, "sample_rate", "equal to batch_size"),
        ({"batch_size": 10, "dataset_size": 1000, "num_epochs": 9}, "num_epochs", "are 900 steps"),
        ({"steps": None}, "steps", "epochs"),
        ({"sample_rate": None, "steps": None, "epochs": 3}, "sample_rate", "batch_size and dataset_size"),
        ({"sampling": "fixed_with_replacement"}, "batch_size", "both sizes"),
        ({"noise_multiplier": [1, 2], "steps": [1, 2, 3]}, "noise_multiplier", "one length"),
        ({"noise_multiplier": [1, 0]}, "noise_multiplier/1", "in ["),
        ({"noise_multiplier": []}, "noise_multiplier", "a list of 1 to 10000"),
        ({"noise_multiplier": [1] * 10_001}, "noise_multiplier", "a list of 1 to 10000"),
        ({"sample_rate": [0.1, 0.2], "sampling": "shuffled", "reshuffled": False}, "sample_rate", "order"),
        ({"sampling": "cyclic"}, "sampling", "fixed_without_replacement"),
        ({"steps": None, "epochs": 1e12}, "epochs", "at most"),
        ({"steps": [1.5]}, "steps/0", "integer"),
    ],
)
def test_bad_run_is_rejected_with_pointer(changed: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(PLAIN | changed)
    [error] = field_errors(caught.value)
    assert error.pointer == f"/mechanism/{pointer}"
    assert message in error.detail


def test_error_in_nested_run_points_to_it() -> None:
    with pytest.raises(ValidationError) as caught:
        read({"type": "composed", "events": [PLAIN, PLAIN | {"reshuffled": False}]})
    [error] = field_errors(caught.value)
    assert error.pointer == "/mechanism/events/1/reshuffled"


def test_phases_are_limited_over_whole_tree() -> None:
    long = PLAIN | {"noise_multiplier": [1.0 + place / 1e4 for place in range(6000)]}
    read(long)
    with pytest.raises(ValidationError) as caught:
        read({"type": "composed", "mechanisms": [long, long]})
    [error] = field_errors(caught.value)
    assert "10000 phases" in error.detail


def test_longest_schedule_fits_into_a_body() -> None:
    numbers = [1.2345678901234567e-300] * 10_000
    longest = json.dumps({"noise": numbers, "rates": numbers, "steps": [10**12] * 10_000})
    assert len(longest) + 10_000 < Settings(redis_url=None).max_body_bytes


def test_schedule_counts_all_its_steps() -> None:
    run = read(PLAIN | {"steps": [10**12] * 3}).mechanism
    assert isinstance(run, DpsgdMechanism)
    assert (run.phases, run.total_steps) == (3, 3 * 10**12)


def test_default_relation_depends_on_sampler() -> None:
    relation = {
        sampling: read(PLAIN | {"sampling": sampling}).threat_model.model_dump()["neighboring_relation"]
        for sampling in ("poisson", "fixed_without_replacement", "shuffled")
    }
    assert relation == {
        "poisson": "add_or_remove_one",
        "fixed_without_replacement": "add_or_remove_one",
        "shuffled": "zero_out",
    }


def test_caveats_depend_on_sampler() -> None:
    poisson = "sampling_is_poisson", "poisson_sampling_assumed"
    own = {
        "poisson": poisson,
        "fixed_without_replacement": ("batches_of_fixed_size", "fixed_batches_are_not_poisson"),
        "fixed_with_replacement": ("batches_drawn_with_replacement", "fixed_batches_are_not_poisson"),
        "shuffled": ("epochs_are_shuffled", "shuffled_epochs_are_not_poisson"),
    }
    for sampling, (assumption, hazard) in own.items():
        assumptions, hazards = codes(SIZES | {"epochs": 10, "sampling": sampling})
        assert assumption in assumptions
        assert hazard in hazards
        assert (poisson[0] in assumptions, poisson[1] in hazards) == (sampling == "poisson",) * 2
        assert {"sensitivity_bounded", "noise_is_fresh", "parts_are_independent"} <= assumptions
        assert "steps_rounded_up" not in assumptions


@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_assumptions_state_how_epochs_were_rounded(sampling: str) -> None:
    assumptions, _ = codes(SIZES | {"dataset_size": 48_100, "epochs": 2.5, "sampling": sampling})
    assert "steps_rounded_up" in assumptions
    whole, _ = codes(SIZES | {"epochs": 2, "sampling": sampling})
    assert "steps_rounded_up" not in whole
