"""Disputed runs: no resource computes a number of such a run, and stored responses with such a number are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pydantic_core import from_json

from api_schemas.base import json_bytes
from api_schemas.bounds import BoundsRequest
from service.importers.catalogue import validate_with_imports
from service.privacy.errors import DisputedRun, PrivacyComputationError
from service.resources import disputed
from service.resources.abstract import Computation
from service.resources.bounds import BOUNDS
from service.resources.catalogue import RESOURCES, resource
from service.resources.disputed import guard, refuse_disputed, refusing, rests_on, run_digest
from service.resources.sweeps.sweeping import SWEEPS
from tests.resources import request_space

VERSION = "2026.1.1"
DIGEST = "sha256:" + "0" * 64
RUN_RESOURCES = ("bounds", "curves", "calibrations", "assessments", "comparisons", "claims", "attack_counts_audit")
"""Resources that answer about runs with curves. A sweep is one of bounds, and has tests of its own."""


def read(computation: Computation[Any, Any], sent: Any) -> Any:
    return validate_with_imports(computation.request_type, json.dumps(sent).encode())


def runs_met(monkeypatch: pytest.MonkeyPatch, compute: Callable[[], bytes]) -> tuple[bytes, dict[str, None]]:
    """Return a response with the digests of all runs that its computation checks, without weaker attackers' own
    worst cases.
    """
    met: dict[str, None] = {}

    class Collector(frozenset[str]):
        def __contains__(self, item: object, /) -> bool:
            met[str(item)] = None
            return False

    with monkeypatch.context() as patched:
        patched.setattr(disputed, "_refused", type("Held", (), {"get": lambda _: (VERSION, Collector())})())
        return compute(), met


@pytest.mark.parametrize("name", RUN_RESOURCES)
def test_every_run_behind_an_answer_is_refused_and_found_when_it_is_stored(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    computation = resource(name)
    checked = 0
    for sent in computation.examples.values():
        request = read(computation, sent.get("value", sent))
        body, met = runs_met(monkeypatch, lambda request=request: computation.body(request, DIGEST, VERSION))
        for run in list(met)[:3]:
            with pytest.raises(DisputedRun):
                guard(computation, frozenset({run})).body(request, DIGEST, VERSION)
            checked += 1
        assert not met or rests_on(body, frozenset(met)), sent
        assert not rests_on(body, frozenset({DIGEST}))
    assert checked


def test_every_resource_that_names_a_run_is_covered() -> None:
    named = {name for name in RESOURCES if {"mechanism", "runs"} & resource(name).request_type.model_fields.keys()}
    assert named == {*RUN_RESOURCES, "sweeps", "certificates"}


def random_requests(seed: int, count: int) -> Iterator[BoundsRequest]:
    random = np.random.default_rng(seed)
    while count:
        try:
            yield read(BOUNDS, request_space.body(random))
        except Exception:  # noqa: BLE001 - the space has invalid requests, too
            continue
        count -= 1


def test_a_run_has_one_digest_in_requests_and_responses() -> None:
    """Run digests of a model and of its JSON in a response are equal, and different runs have different digests."""
    seen: dict[str, str] = {}
    for request in random_requests(14, 400):
        echoed = from_json(json_bytes({"mechanism": request.mechanism, "threat_model": request.threat_model}))
        digest = run_digest(VERSION, request.mechanism, request.threat_model)
        assert run_digest(VERSION, **echoed) == digest
        assert run_digest("2", **echoed) != digest
        assert seen.setdefault(digest, json.dumps(echoed, sort_keys=True)) == json.dumps(echoed, sort_keys=True)
        twice = {"type": "repeated", "mechanism": echoed["mechanism"], "steps": 2}
        assert digest != run_digest(VERSION, twice, request.threat_model)
        with refusing(VERSION, frozenset({digest})), pytest.raises(DisputedRun):
            refuse_disputed(request.mechanism, request.threat_model)
        refuse_disputed(request.mechanism, request.threat_model)


def written_otherwise(mechanism: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """Return a composition of the same mechanisms, each as often, in other words."""
    if mechanism["type"] == "composed":
        inner = [written_otherwise(each, random) for each in mechanism["mechanisms"]]
        random.shuffle(inner)
        cut = int(random.integers(1, len(inner) + 1))
        mechanism = {"type": "composed", "mechanisms": [{"type": "composed", "mechanisms": inner[:cut]}, *inner[cut:]]}
    elif mechanism["type"] == "repeated":
        inner, steps = written_otherwise(mechanism["mechanism"], random), mechanism["steps"]
        cut = int(random.integers(1, steps + 1)) if steps < 2**53 else steps
        halves = [{"type": "repeated", "mechanism": inner, "steps": each} for each in (cut, steps - cut) if each]
        mechanism = {"type": "composed", "mechanisms": halves}
    wrapped = (
        {"type": "repeated", "mechanism": mechanism, "steps": 1},
        {"type": "composed", "mechanisms": [mechanism]},
    )
    return mechanism if random.random() < 0.3 else wrapped[int(random.integers(2))]


def test_a_run_has_one_digest_in_every_spelling() -> None:
    random = np.random.default_rng(16)
    for request in random_requests(17, 200):
        mechanism = from_json(json_bytes({"mechanism": request.mechanism}))["mechanism"]
        digest = run_digest(VERSION, request.mechanism, request.threat_model)
        assert run_digest(VERSION, written_otherwise(mechanism, random), request.threat_model) == digest, mechanism
        twice = {"type": "composed", "mechanisms": [mechanism, mechanism]}
        repeated = {"type": "repeated", "mechanism": mechanism, "steps": 2}
        assert run_digest(VERSION, twice, None) == run_digest(VERSION, repeated, None)


def test_the_worst_case_beside_a_weaker_attacker_is_refused_as_well() -> None:
    for request in random_requests(15, 60):
        if request.threat_model.type == "worst_case" or request.method != "auto":
            continue
        try:
            shown = from_json(BOUNDS.body(request, DIGEST, VERSION))["worst_case"]
        except PrivacyComputationError:
            continue
        run = frozenset({run_digest(VERSION, request.mechanism, shown["threat_model"])})
        with pytest.raises(DisputedRun):
            guard(BOUNDS, run).body(request, DIGEST, VERSION)


SWEEP: dict[str, Any] = {
    "mechanism": {"type": "repeated", "steps": 10, "mechanism": {"type": "gaussian", "noise_multiplier": 1.0}},
    "questions": [{"type": "delta", "epsilon": 1.0}],
}
VARIED: list[dict[str, Any]] = [
    {"/mechanism/mechanism/noise_multiplier": {"values": [4.0, 5.0, 6.0]}, "/mechanism/steps": {"values": [10, 20]}},
    {"/mechanism/steps": {"from": 10, "to": 50, "count": 5}, "/questions/0/epsilon": {"values": [0.5, 1.5]}},
]
WEAKER: dict[str, Any] = {
    "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
    "threat_model": {"type": "practical", "epsilon_pmp": 1.0},
    "questions": [{"type": "delta", "epsilon": 1.0}],
    "vary": {"/mechanism/noise_multiplier": {"values": [1.0, 2.0, 3.0]}},
}


@pytest.mark.parametrize("sent", [*({**SWEEP, "vary": vary} for vary in VARIED), WEAKER])
def test_a_sweep_has_a_problem_in_the_rows_of_a_disputed_run(sent: dict[str, Any]) -> None:
    request = read(SWEEPS, sent)
    free = from_json(SWEEPS.body(request, DIGEST, VERSION))
    for number, asked in enumerate(request.asked(request.places, point) for point in request.points()):
        run = frozenset({run_digest(VERSION, asked.mechanism, asked.threat_model)})
        same = [
            index
            for index, point in enumerate(request.points())
            if run_digest(VERSION, (other := request.asked(request.places, point)).mechanism, other.threat_model) in run
        ]
        body = guard(SWEEPS, run).body(request, DIGEST, VERSION)
        found = from_json(body)
        assert number in same
        assert [each["point"] for each in found["problems"]] == same
        assert {each["type"] for each in found["problems"]} == {"/problems/result-quarantined"}
        for column, before in zip(found["answers"], free["answers"], strict=True):
            expected = [None if index in same else value for index, value in enumerate(before["upper"])]
            assert [None if value is None else pytest.approx(value, rel=1e-9) for value in expected] == column["upper"]
        assert rests_on(json_bytes(free), run)
        assert not rests_on(body, run)
