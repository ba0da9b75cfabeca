"""States of every library: each equals the hand-written mechanism, and its epsilon is at least that of the library."""

from __future__ import annotations

import json
import math
import random
import re
from typing import Any

import pytest
from pydantic import ValidationError

from api_schemas.imported import ImportFormat
from api_schemas.mechanisms import MechanismSpec
from api_schemas.problems import field_errors
from service.importers.catalogue import FORMATS, import_state
from service.importers.dp_accounting import EVENTS
from service.importers.dp_accounting_notes import NO_THEOREM
from service.resources.digest import digest
from tests.importers.states import (
    ALL,
    BOUNDED,
    KNOWN,
    MEANT,
    REFUSED,
    RUN,
    STATES,
    first_answer,
    imported,
    parsed_request,
)

DELTA = 1e-5


def content_of(library: str, name: str) -> Any:
    return STATES[library][name]["content"]


def mechanism_of(content: Any, library: ImportFormat = "detect") -> MechanismSpec:
    return import_state(library, content).mechanism


def epsilon_of(library: str, name: str, **more: Any) -> dict[str, Any]:
    return first_answer(parsed_request(imported(content_of(library, name)), **more))


def test_every_state_is_known_bounded_or_rejected() -> None:
    known = {(library, name) for library, name in KNOWN}
    known |= {("dp_accounting", name) for name in BOUNDED}
    known |= {(library, name) for library, refused in REFUSED.items() for name in refused}
    assert known == set(ALL)
    assert set(STATES) | {"privacy_bounds"} == set(FORMATS), "run benchmarks/peers/states.py with the library"


@pytest.mark.parametrize(("library", "name"), KNOWN)
def test_state_equals_hand_written_mechanism(library: ImportFormat, name: str) -> None:
    content = content_of(library, name)
    by_hand = parsed_request(MEANT[library][name])
    for form in (library, "detect"):
        request = parsed_request(imported(content, form), threat_model={"type": "worst_case"})
        assert request.mechanism == by_hand.mechanism
        assert digest("bounds", "1", request) == digest("bounds", "1", by_hand)
    assert import_state("detect", content).format == library


@pytest.mark.parametrize(("library", "name"), [(library, name) for library, each in REFUSED.items() for name in each])
def test_state_without_theorem_is_rejected_with_remedy(library: ImportFormat, name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parsed_request(imported(content_of(library, name), library))
    [error] = field_errors(caught.value)
    assert error.pointer == "/mechanism/content" + REFUSED[library][name]
    assert "send" in error.detail.lower()


@pytest.mark.parametrize("name", STATES["dp_accounting"])
def test_events_have_three_accepted_spellings(name: str) -> None:
    def apart(event: Any) -> Any:
        if isinstance(event, list):
            return [apart(each) for each in event]
        if not isinstance(event, dict):
            return event
        names = {key: event[key] for key in ("module_name", "class_name")}
        return names | {"fields": {key: apart(value) for key, value in event.items() if key not in names}}

    def outcome(content: Any) -> object:
        try:
            found = import_state("detect", content)
        except ValidationError as error:
            return [each.detail for each in field_errors(error)]
        return found

    state = STATES["dp_accounting"][name]
    assert outcome(state["content"]) == outcome(state["listed"]) == outcome(apart(state["content"]))


def test_every_event_class_is_known() -> None:
    written = set(re.findall(r'"class_name": "(\w+)"', json.dumps(STATES["dp_accounting"])))
    assert written <= set(EVENTS) | set(NO_THEOREM)
    assert not set(EVENTS) & set(NO_THEOREM)


@pytest.mark.parametrize("name", MEANT["jax_privacy"])
def test_arguments_equal_their_event(name: str) -> None:
    state = STATES["jax_privacy"][name]
    assert mechanism_of(state["content"]) == mechanism_of(state["event"])


@pytest.mark.parametrize("name", [*MEANT["dp_accounting"], *BOUNDED])
def test_epsilon_of_events_matches_library(name: str) -> None:
    """The epsilon of an imported event is at most that of the library, which exceeds it by at most 0.001.

    Some states have no epsilon of the library.
    """
    state = STATES["dp_accounting"][name]
    if "epsilon" not in state:
        assert name.startswith(("fixed", "zcdp", "best"))
        return
    content = {"event": state["content"], "neighboring_relation": state["relation"]}
    answer = first_answer(parsed_request(imported(content), relative_tolerance=1e-3))
    theirs, slack = float(state["epsilon"]), 1e-3
    lower, upper = float(answer["lower"]), float(answer["upper"])
    assert lower <= theirs
    assert math.isinf(theirs) or theirs - slack <= upper


def test_epsilon_of_opacus_has_known_error_of_its_accountants() -> None:
    ours = epsilon_of("opacus", "prv")
    promised = 0.02  # An upper bound: eps_error of 0.01 above an estimate with the same error.
    assert 0 < STATES["opacus"]["prv"]["epsilon"] - ours["value"] < promised
    assert STATES["opacus"]["rdp"]["epsilon"] > ours["upper"]
    assert STATES["opacus"]["gdp"]["epsilon"] < ours["lower"], "a limit of many steps is no bound"
    for name in ("schedule", "trained"):
        assert 0 < STATES["opacus"][name]["epsilon"] - epsilon_of("opacus", name)["value"] < promised


def test_numbers_match_riskcal() -> None:
    for name in ("accountant", "arguments"):
        request = parsed_request(imported(content_of("riskcal", name)), {"type": "advantage"})
        assert abs(first_answer(request)["value"] - STATES["riskcal"][name]["advantage"]) < 1e-4
    rates = {"type": "trade_off", "false_positive_rates": [0.01], "direction": "both"}
    answer = first_answer(parsed_request(imported(content_of("riskcal", "arguments_of_beta")), rates))
    assert (
        abs(answer["points"][0]["type_two_error"]["value"] - STATES["riskcal"]["arguments_of_beta"]["type_two_error"])
        < 1e-4
    )


def test_statement_of_tensorflow_privacy_is_upper_bound() -> None:
    """The epsilons that TensorFlow Privacy states are upper bounds.

    They use Renyi divergences, for one example and for all examples of a user.
    """
    example: dict[str, float] = {}
    for name in ("plain", "microbatches", "fractional", "users"):
        stated = re.findall(r"Poisson sampling \(\*\): +([\d.]+)", STATES["tf_privacy"][name]["statement"])
        example[name] = epsilon_of("tf_privacy", name, threat_model={"type": "worst_case"})["upper"]
        assert example[name] <= float(stated[0])
        if name == "users":
            request = parsed_request(imported(content_of("tf_privacy", name)))
            assert request.threat_model.model_dump()["records"] == 4
            assert first_answer(request)["upper"] <= float(stated[1])
    assert example["microbatches"] > 2 * example["plain"] == 2 * example["users"]
    assert epsilon_of("tf_privacy", "deprecated")["upper"] <= STATES["tf_privacy"]["deprecated"]["epsilon"]


@pytest.mark.parametrize("name", BOUNDED)
def test_imported_bounds_are_rounded_up(name: str) -> None:
    content = content_of("dp_accounting", name)
    spec = mechanism_of(content).model_dump()
    assert (spec["type"], spec["options"]) == ("randomized_response", content["num_buckets"])
    assert BOUNDED[name] <= spec["epsilon"] <= BOUNDED[name] * (1 + 1e-14)
    special = import_state("dp_accounting", {"event": content, "neighboring_relation": "REPLACE_SPECIAL"})
    assert special.mechanism.model_dump() == {"type": "pure_dp", "epsilon": spec["epsilon"]}


@pytest.mark.parametrize(
    ("parameter", "sensitivity", "meant"),
    [
        (0.1, 3, {"type": "discrete_laplace", "scale": math.nextafter(10.0, 0.0), "sensitivity": 3}),
        (0.5, 20_000, {"type": "pure_dp", "epsilon": 1e4 * (1 + 2.0**-48)}),
        (2e3, 1, {"type": "pure_dp", "epsilon": 2e3}),
    ],
)
def test_discrete_laplace_is_rounded_to_less_privacy(parameter: float, sensitivity: int, meant: dict[str, Any]) -> None:
    event = content_of("dp_accounting", "discrete_laplace") | {
        "noise_parameter": parameter,
        "sensitivity": sensitivity,
    }
    assert mechanism_of(event) == mechanism_of(meant)


def test_infinite_shape_is_poisson_law_of_trials() -> None:
    event = content_of("dp_accounting", "best_of_several") | {"shape": "Infinity"}
    poisson = MEANT["dp_accounting"]["best_of_several"] | {"trials": {"type": "poisson", "mean": 10.0}}
    assert mechanism_of(event) == mechanism_of(poisson)


def test_permute_and_flip_is_no_less_private_than_its_epsilon() -> None:
    event = {"module_name": "dp_accounting.dp_event", "class_name": "PermuteAndFlipDpEvent", "epsilon": 1.0}
    assert mechanism_of(event) == mechanism_of({"type": "permute_and_flip", "epsilon": 1.0})
    advantage = first_answer(parsed_request(imported(event), {"type": "advantage"}))
    assert (
        advantage["upper"]
        <= first_answer(parsed_request({"type": "laplace", "noise_multiplier": 1.0}, {"type": "advantage"}))["upper"]
    )


def test_replaced_record_moves_discrete_laplace_twice_as_far() -> None:
    event = content_of("dp_accounting", "discrete_laplace")
    replaced = import_state("dp_accounting", {"event": event, "neighboring_relation": "REPLACE_ONE"})
    assert replaced.mechanism == mechanism_of({"type": "discrete_laplace", "scale": 2.0, "sensitivity": 2})


@pytest.mark.parametrize("seed", range(5))
def test_history_rows_can_be_split_without_change(seed: int) -> None:
    draw = random.Random(seed)
    phases = [(draw.choice([0.8, 1.0, 2]), draw.choice([0.01, 0.5]), draw.randint(1, 50)) for _ in range(30)]
    cut = [
        [noise, rate, count]
        for noise, rate, steps in phases
        for count in [1] * (steps // 2) + [steps - steps // 2] * (steps > 0)
    ]
    whole = mechanism_of([list(phase) for phase in phases])
    assert mechanism_of(cut, "opacus") == whole
    assert getattr(whole, "total_steps", 0) == sum(steps for _, _, steps in phases)


def test_merged_steps_respect_limit_of_phase() -> None:
    run = mechanism_of([[1.0, 0.01, 10**12], [1.0, 0.01, 10**12]])
    assert run.model_dump()["steps"] == (10**12, 10**12)


def test_equal_adjacent_events_are_merged() -> None:
    names = {"module_name": "dp_accounting.dp_event"}
    gaussian = {**names, "class_name": "GaussianDpEvent", "noise_multiplier": 5.0}
    composed = {**names, "class_name": "ComposedDpEvent", "events": [gaussian] * 1000}
    inner = {"type": "gaussian", "noise_multiplier": 5.0}
    assert mechanism_of(composed) == parsed_request({"type": "repeated", "steps": 1000, "mechanism": inner}).mechanism


def test_own_request_or_response_is_imported_with_its_attacker() -> None:
    attacker = {"type": "worst_case", "neighboring_relation": "replace_one", "records": 1}
    request = parsed_request(RUN, threat_model=attacker)
    sent = json.loads(request.model_dump_json())
    response = {"digest": "sha256:" + "0" * 64, "engine_version": "1", **sent, "answers": [], "worst_case": None}
    for content in (sent, response):
        found = import_state("detect", content)
        assert (found.mechanism, found.threat_model) == (request.mechanism, request.threat_model)
        assert "questions" in found.not_carried_over[0]
    assert mechanism_of(RUN) == request.mechanism


def test_notes_and_hazards_state_what_a_state_omits() -> None:
    shuffled = import_state("opacus", content_of("opacus", "trained_on_shuffled_epochs"))
    assert shuffled.mechanism == mechanism_of(content_of("opacus", "trained")), "Opacus keeps no difference"
    assert [hazard.code for hazard in shuffled.hazards] == ["sampler_not_recorded"]
    assert "gdp" in import_state("opacus", content_of("opacus", "gdp")).not_carried_over[0]
    assert any(
        "half" in note for note in import_state("tf_privacy", content_of("tf_privacy", "microbatches")).not_carried_over
    )
    assert any(
        "delta" in note for note in import_state("tf_privacy", content_of("tf_privacy", "plain")).not_carried_over
    )


def test_threat_model_of_state_is_used_if_request_has_none() -> None:
    users = imported(content_of("tf_privacy", "users"))
    answers = imported(content_of("dp_accounting", "randomized_response"))
    assert (
        parsed_request(users).threat_model
        == parsed_request(RUN, threat_model={"type": "worst_case", "records": 4}).threat_model
    )
    assert parsed_request(answers).threat_model.model_dump()["neighboring_relation"] == "replace_one"
    other = {"type": "worst_case", "neighboring_relation": "zero_out"}
    assert parsed_request(answers, threat_model=other).threat_model.model_dump()["neighboring_relation"] == "zero_out"


@pytest.mark.parametrize(
    ("around", "pointer"),
    [
        (lambda inner: {"type": "repeated", "steps": 2, "mechanism": inner}, "/mechanism/mechanism/content"),
        (lambda inner: {"type": "composed", "mechanisms": [RUN, inner]}, "/mechanism/mechanisms/1/content"),
    ],
)
def test_nested_state_with_threat_model_is_rejected(around: Any, pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parsed_request(around(imported(content_of("tf_privacy", "users"))))
    [error] = field_errors(caught.value)
    assert error.pointer == pointer
    assert "POST /v1/imports" in error.detail
    assert parsed_request(around(imported(content_of("tf_privacy", "plain")))) == parsed_request(
        around(MEANT["tf_privacy"]["plain"])
    )
