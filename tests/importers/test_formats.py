"""States of every library: each means what a hand would write, and is answered with what the library says at least."""

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
from service.importers.dp_accounting import EVENTS, NO_THEOREM
from service.resources.digest import digest
from tests.importers.states import (
    ALL,
    BOUNDED,
    KNOWN,
    MEANT,
    REFUSED,
    RUN,
    STATES,
    asked,
    first_answer,
    imported,
)

DELTA = 1e-5


def content_of(library: str, name: str) -> Any:
    return STATES[library][name]["content"]


def mechanism_of(content: Any, library: ImportFormat = "detect") -> MechanismSpec:
    return import_state(library, content).mechanism


def epsilon_of(library: str, name: str, **more: Any) -> dict[str, Any]:
    return first_answer(asked(imported(content_of(library, name)), **more))


def test_every_state_is_accounted_for() -> None:
    known = {(library, name) for library, name in KNOWN}
    known |= {("dp_accounting", name) for name in BOUNDED}
    known |= {(library, name) for library, refused in REFUSED.items() for name in refused}
    assert known == set(ALL)
    assert set(STATES) | {"privacy_bounds"} == set(FORMATS), "run benchmarks/peers/states.py with the library"


@pytest.mark.parametrize(("library", "name"), KNOWN)
def test_a_state_is_the_mechanism_that_a_hand_would_write(library: ImportFormat, name: str) -> None:
    content = content_of(library, name)
    by_hand = asked(MEANT[library][name])
    for form in (library, "detect"):
        request = asked(imported(content, form), threat_model={"type": "worst_case"})
        assert request.mechanism == by_hand.mechanism
        assert digest("bounds", "1", request) == digest("bounds", "1", by_hand)
    assert import_state("detect", content).format == library


@pytest.mark.parametrize(("library", "name"), [(library, name) for library, each in REFUSED.items() for name in each])
def test_what_has_no_theorem_is_refused_with_what_to_send_instead(library: ImportFormat, name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        asked(imported(content_of(library, name), library))
    [error] = field_errors(caught.value)
    assert error.pointer == "/mechanism/content" + REFUSED[library][name]
    assert "send" in error.detail.lower()


@pytest.mark.parametrize("name", STATES["dp_accounting"])
def test_events_may_be_written_in_three_ways(name: str) -> None:
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


def test_every_class_of_the_library_is_known() -> None:
    written = set(re.findall(r'"class_name": "(\w+)"', json.dumps(STATES["dp_accounting"])))
    assert written <= set(EVENTS) | set(NO_THEOREM)
    assert not set(EVENTS) & set(NO_THEOREM)


@pytest.mark.parametrize("name", MEANT["jax_privacy"])
def test_arguments_are_the_event_that_they_make(name: str) -> None:
    state = STATES["jax_privacy"][name]
    assert mechanism_of(state["content"]) == mechanism_of(state["event"])


@pytest.mark.parametrize("name", [*MEANT["dp_accounting"], *BOUNDED])
def test_epsilon_of_events_is_that_of_their_library(name: str) -> None:
    """The library's is at least the truth, by little; of fixed batches it has none."""
    state = STATES["dp_accounting"][name]
    if "epsilon" not in state:
        assert name.startswith("fixed")
        return
    content = {"event": state["content"], "neighboring_relation": state["relation"]}
    answer = first_answer(asked(imported(content), relative_tolerance=1e-3))
    theirs, slack = float(state["epsilon"]), 1e-3
    lower, upper = float(answer["lower"]), float(answer["upper"])
    if name in BOUNDED:
        assert upper >= theirs - slack
        return
    assert lower <= theirs
    assert math.isinf(theirs) or theirs - slack <= upper


def test_epsilon_of_opacus_is_what_its_accountants_are_known_for() -> None:
    ours = epsilon_of("opacus", "prv")
    promised = 0.02  # an upper end, an eps_error of 0.01 above an estimate that is as precise
    assert 0 < STATES["opacus"]["prv"]["epsilon"] - ours["value"] < promised
    assert STATES["opacus"]["rdp"]["epsilon"] > ours["upper"]
    assert STATES["opacus"]["gdp"]["epsilon"] < ours["lower"], "a limit of many steps is no bound"
    for name in ("schedule", "trained"):
        assert 0 < STATES["opacus"][name]["epsilon"] - epsilon_of("opacus", name)["value"] < promised


def test_numbers_of_riskcal_are_met() -> None:
    for name in ("accountant", "arguments"):
        request = asked(imported(content_of("riskcal", name)), {"type": "advantage"})
        assert abs(first_answer(request)["value"] - STATES["riskcal"][name]["advantage"]) < 1e-4
    rates = {"type": "trade_off", "false_positive_rates": [0.01], "direction": "both"}
    answer = first_answer(asked(imported(content_of("riskcal", "arguments_of_beta")), rates))
    assert (
        abs(answer["points"][0]["type_two_error"]["value"] - STATES["riskcal"]["arguments_of_beta"]["type_two_error"])
        < 1e-4
    )


def test_the_statement_of_tensorflow_privacy_is_kept() -> None:
    """Its epsilons are upper bounds by Renyi divergences: for one example, and for all examples of a user."""
    example: dict[str, float] = {}
    for name in ("plain", "microbatches", "fractional", "users"):
        stated = re.findall(r"Poisson sampling \(\*\): +([\d.]+)", STATES["tf_privacy"][name]["statement"])
        example[name] = epsilon_of("tf_privacy", name, threat_model={"type": "worst_case"})["upper"]
        assert example[name] <= float(stated[0])
        if name == "users":
            request = asked(imported(content_of("tf_privacy", name)))
            assert request.threat_model.model_dump()["records"] == 4
            assert first_answer(request)["upper"] <= float(stated[1])
    assert example["microbatches"] > 2 * example["plain"] == 2 * example["users"]
    assert epsilon_of("tf_privacy", "deprecated")["upper"] <= STATES["tf_privacy"]["deprecated"]["epsilon"]


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_are_rounded_up(name: str) -> None:
    spec = mechanism_of(content_of("dp_accounting", name)).model_dump()
    assert spec["type"] == "pure_dp"
    assert BOUNDED[name] <= spec["epsilon"] <= BOUNDED[name] * (1 + 1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_a_history_means_the_same_however_its_rows_are_cut(seed: int) -> None:
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


def test_merged_steps_stay_within_what_a_phase_may_have() -> None:
    run = mechanism_of([[1.0, 0.01, 10**12], [1.0, 0.01, 10**12]])
    assert run.model_dump()["steps"] == (10**12, 10**12)


def test_equal_neighbours_of_a_composition_are_repeated() -> None:
    names = {"module_name": "dp_accounting.dp_event"}
    gaussian = {**names, "class_name": "GaussianDpEvent", "noise_multiplier": 5.0}
    composed = {**names, "class_name": "ComposedDpEvent", "events": [gaussian] * 1000}
    inner = {"type": "gaussian", "noise_multiplier": 5.0}
    assert mechanism_of(composed) == asked({"type": "repeated", "steps": 1000, "mechanism": inner}).mechanism


def test_an_own_request_or_response_comes_back_with_its_attacker() -> None:
    attacker = {"type": "worst_case", "neighboring_relation": "replace_one", "records": 1}
    request = asked(RUN, threat_model=attacker)
    sent = json.loads(request.model_dump_json())
    response = {"digest": "sha256:" + "0" * 64, "engine_version": "1", **sent, "answers": [], "worst_case": None}
    for content in (sent, response):
        found = import_state("detect", content)
        assert (found.mechanism, found.threat_model) == (request.mechanism, request.threat_model)
        assert "questions" in found.not_carried_over[0]
    assert mechanism_of(RUN) == request.mechanism


def test_notes_and_hazards_say_what_a_state_cannot() -> None:
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


def test_who_attacks_is_carried_over_where_the_request_does_not_say() -> None:
    users = imported(content_of("tf_privacy", "users"))
    answers = imported(content_of("dp_accounting", "randomized_response"))
    assert asked(users).threat_model == asked(RUN, threat_model={"type": "worst_case", "records": 4}).threat_model
    assert asked(answers).threat_model.model_dump()["neighboring_relation"] == "replace_one"
    other = {"type": "worst_case", "neighboring_relation": "zero_out"}
    assert asked(answers, threat_model=other).threat_model.model_dump()["neighboring_relation"] == "zero_out"


@pytest.mark.parametrize(
    ("around", "pointer"),
    [
        (lambda inner: {"type": "repeated", "steps": 2, "mechanism": inner}, "/mechanism/mechanism/content"),
        (lambda inner: {"type": "composed", "mechanisms": [RUN, inner]}, "/mechanism/mechanisms/1/content"),
    ],
)
def test_a_part_of_a_mechanism_says_nothing_of_who_attacks(around: Any, pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        asked(around(imported(content_of("tf_privacy", "users"))))
    [error] = field_errors(caught.value)
    assert error.pointer == pointer
    assert "POST /v1/imports" in error.detail
    assert asked(around(imported(content_of("tf_privacy", "plain")))) == asked(around(MEANT["tf_privacy"]["plain"]))
