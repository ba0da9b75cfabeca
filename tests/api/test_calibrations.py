"""POST /v1/calibrations over HTTP and on the command line: rejected input, its pointer and its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api_schemas.calibration_answers import CalibrationsResponse
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.resources.calibration.resource import CALIBRATIONS
from service.resources.digest import canonical_text, digest
from tests.api.requests import ADVANTAGE, GAUSSIAN, JSON, dpsgd, encoded

ROUTE = "/v1/calibrations"
NOISE = "/mechanism/noise_multiplier"
LIMITED: dict[str, Any] = {"question": ADVANTAGE, "at_most": 0.1}
BODY: dict[str, Any] = {"mechanism": GAUSSIAN, "free": NOISE, "targets": [LIMITED]}
SIZES = dpsgd(batch_size=500, dataset_size=50_000)
EPOCHS = dpsgd(steps=None, epochs=3)
MIXTURE = {"type": "gaussian_mixture", "noise_multiplier": 1.0, "shifts": [0.0, 1.0], "weights": [0.5, 0.5]}
SGD = {"type": "noisy_sgd", "dataset_size": 400, "batch_size": 400, "dimension": 650, "steps": 1, "noise_std": 1.5}


def post(client: TestClient, body: dict[str, Any], **headers: str) -> Any:
    return client.post(ROUTE, content=encoded(body), headers=JSON | headers)


def test_result_has_digest_and_is_stored(client: TestClient) -> None:
    first = post(client, BODY)
    assert first.status_code == 200
    response = CalibrationsResponse.model_validate_json(first.content)
    spelled_out = BODY | {"free": "/mechanism/sigma", "rtol": 1e-6, "threat_model": {"type": "worst_case"}}
    request = CALIBRATIONS.request_type.model_validate_json(encoded(spelled_out))
    assert response.digest == digest("calibrations", ENGINE_VERSION, request)
    assert first.headers["cache-status"] == "privacy-bounds; fwd=miss; stored"
    again = post(client, spelled_out)
    assert (again.content, again.headers["cache-status"]) == (first.content, "privacy-bounds; hit; detail=memory")
    assert client.get(first.headers["content-location"]).content == first.content


def test_search_bounds_change_the_digest() -> None:
    named = [
        digest("calibrations", "1", CALIBRATIONS.request_type.model_validate_json(encoded(BODY | {"bounds": bounds})))
        for bounds in (None, {"from": 1.0}, {"to": 1.0}, {"from": 1.0, "to": 2.0}, {})
    ]
    assert len(set(named)) == len(named) - 1
    assert named[0] == named[-1]


def test_search_bounds_are_canonical_in_the_digest() -> None:
    request = CALIBRATIONS.request_type.model_validate_json(encoded(BODY | {"bounds": {"to": 2.0, "from": 1.0}}))
    assert '"bounds":{"from":1,"to":2}' in canonical_text(request)


def targets(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"targets": [LIMITED | change for change in changes]}


def free(pointer: Any, mechanism: Any = GAUSSIAN, **more: Any) -> dict[str, Any]:
    return {"free": pointer, "mechanism": mechanism, **more}


POWERS = {"question": {"type": "trade_off", "false_positive_rates": [0.1, 0.2]}}
GAMMA = {"question": {"type": "reconstruction", "baseline_success": 0.2}}
BAD: list[tuple[str, dict[str, Any], str, str]] = [
    # (case, change of the request, pointer, part of the sentence)
    ("no free number", {"free": None}, "/free", ""),
    ("a number for a pointer", free(3), "/free", ""),
    ("an empty pointer", free(""), "/free", ""),
    ("no pointer", free("mechanism"), "/free", "starts with a slash"),
    ("a pointer to nothing", free("/mechanism/sekrit"), "/free", "these fields: noise_multiplier"),
    ("a pointer to nothing at all", free("/"), "/free", "these fields: mechanism"),
    ("a pointer to an absent number", free("/mechanism/epochs", dpsgd()), "/free", "request has no epochs"),
    ("a pointer to an object", free("/mechanism"), "/free", "is an object"),
    ("a pointer to text", free("/mechanism/type"), "/free", "these fields"),
    ("a pointer to a word", free("/mechanism/sampling", dpsgd()), "/free", "is no number"),
    ("a pointer into a number", free(NOISE + "/0"), "/free", "has no members"),
    ("a pointer to a list", free(NOISE, dpsgd(noise_multiplier=[1.0, 2.0])), "/free", "is a list"),
    ("beyond a list", free(NOISE + "/2", dpsgd(noise_multiplier=[1.0, 2.0])), "/free", "counted from 0"),
    ("no index", free(NOISE + "/-1", dpsgd(noise_multiplier=[1.0, 2.0])), "/free", "counted from 0"),
    ("an index with a zero", free(NOISE + "/01", dpsgd(noise_multiplier=[1.0, 2.0])), "/free", "counted from 0"),
    ("a huge index", free(NOISE + "/" + "9" * 90, dpsgd(noise_multiplier=[1.0, 2.0])), "/free", "counted from 0"),
    ("a long pointer", free("/" * 501), "/free", "Must be"),
    ("a limit", free("/targets/0/at_most"), "/free", "or the question of a target"),
    ("the tolerance", free("/relative_tolerance"), "/free", "or the question of a target"),
    ("bounds", free("/bounds/from", bounds={"from": 1.0}), "/free", "or the question of a target"),
    ("a weight", free("/mechanism/weights/0", MIXTURE), "/free", "must sum to 1"),
    ("a rate that follows", free("/mechanism/sample_rate", SIZES), "/free", "follows from batch_size"),
    ("steps that follow", free("/mechanism/steps", EPOCHS), "/free", "follow from epochs"),
    ("what is not read", free("/mechanism/dimension", SGD | {"max_grad_norm": 1.0}), "/free", "changes the answer"),
    ("an attacker of no target", free("/threat_model/records") | targets({"threat_model": {"type": "worst_case"}}),
     "/free", "of its own"),
    ("no targets", {"targets": []}, "/targets", "1 to 16"),
    ("17 targets", {"targets": [LIMITED] * 17}, "/targets", "1 to 16"),
    ("no limit", targets({"at_most": None}), "/targets/0/at_most", "exactly one"),
    ("two limits", targets({"at_least": 0.1}), "/targets/0/at_most", "exactly one"),
    ("a negative limit", targets({"at_most": -0.1}), "/targets/0/at_most", "[0, 1e+15]"),
    ("less than a guess", targets(GAMMA), "/targets/0/at_most", "guessing alone exceeds"),
    ("more than all", targets({"at_most": None, "at_least": 1.1}), "/targets/0/at_least", "no mechanism reaches"),
    ("contradictory", targets({}, {"at_most": None, "at_least": 0.2}), "/targets/1/at_least", "Contradicts"),
    ("no single number", targets(POWERS), "/targets/0/question", "one false positive rate"),
    ("reads a slope", targets({"reads": "slope"}), "/targets/0/reads", "power"),
    ("an unknown field", targets({"weight": 1}), "/targets/0/weight", "The fields are"),
    ("bounds the wrong way round", {"bounds": {"from": 2.0, "to": 1.0}}, "/bounds", "below"),
    ("bounds of one number", {"bounds": {"from": 2.0, "to": 2.0}}, "/bounds", "below"),
    ("bounds without a whole number", free("/mechanism/steps", dpsgd(), bounds={"from": 1.2, "to": 1.8}), "/bounds",
     "below"),
    ("bounds below the field", {"bounds": {"from": 1e-5}}, "/bounds/from", "[0.0001, 1e+15]"),
    ("bounds above the field", free("/mechanism/sample_rate", dpsgd(), bounds={"to": 1.5}), "/bounds/to", "(0, 1]"),
    ("bounds at an open end", free("/mechanism/sample_rate", dpsgd(), bounds={"from": 0.0}), "/bounds/from", "(0, 1]"),
    ("unknown bounds", {"bounds": {"least": 1.0}}, "/bounds/least", "The fields are: from, to"),
    ("a tolerance of nothing", {"relative_tolerance": 1e-13}, "/relative_tolerance", "[1e-12, 1]"),
    ("a method", {"method": "clt"}, "/method", "The fields are"),
    ("a mechanism that is none", free(NOISE, {"type": "gaussian", "noise_multiplier": 0}), NOISE, "[0.0001, 1e+15]"),
    ("too little noise", free("/mechanism/steps", SGD | {"max_grad_norm": 1e12}), "/mechanism", "noise_std"),
    ("a run on batches for nobody", free(NOISE, dpsgd(), threat_model={"type": "glrt", "dimension": 3}), "/mechanism",
     "gaussian"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "pointer", "sentence"), [pytest.param(*row[1:], id=row[0]) for row in BAD])
def test_bad_calibration_returns_422_with_pointer(
    client: TestClient, change: dict[str, Any], pointer: str, sentence: str
) -> None:
    body = {name: value for name, value in (BODY | change).items() if value is not None}
    if isinstance(body["mechanism"], dict):
        body["mechanism"] = {name: value for name, value in body["mechanism"].items() if value is not None}
    answer = post(client, body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    pointers = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert pointer in pointers
    assert sentence in pointers[pointer]
    assert all(detail.endswith(".") for detail in pointers.values())
    assert "sekrit" not in answer.text


@pytest.mark.parametrize(
    ("steps", "limit"),
    [
        (["targets", 0, "question", "prior"], {"question": {"type": "attack_accuracy", "prior": 0.5}, "at_most": 0.1}),
        (["targets", 0, "question", "baseline_success"], GAMMA | {"at_most": 0.1}),
    ],
)
def test_range_of_question_with_free_number_covers_all_its_values(
    client: TestClient, steps: list[Any], limit: dict[str, Any]
) -> None:
    answer = post(client, BODY | {"free": "/" + "/".join(map(str, steps)), "targets": [limit]})
    assert answer.status_code == 200


def test_command_line_calibrates(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    sent = tmp_path / "request.json"
    sent.write_bytes(encoded(BODY))
    assert cli.main(["calibrate", str(sent)]) == 0
    written = json.loads(capsysbinary.readouterr().out)
    assert (written["status"], written["mechanism"]["noise_multiplier"]) == ("met", written["value"])


@pytest.mark.parametrize(("bounds", "limit", "code"), [({}, 0.1, 0), ({}, 1.0, 0), ({"to": 1.0}, 0.1, 1)])
def test_command_exits_with_0_if_every_target_is_met(
    tmp_path: Path, bounds: dict[str, float], limit: float, code: int
) -> None:
    sent = tmp_path / "request.json"
    sent.write_bytes(encoded(BODY | {"bounds": bounds} | targets({"at_most": limit})))
    assert cli.main(["calibrate", str(sent)]) == code
