"""Imports over HTTP and on the command line. The answer to a state equals the answer to the mechanism it describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.command.main import main
from tests.importers.states import MEANT, RUN, STATES

STATE: dict[str, Any] = STATES["opacus"]["prv"]["content"]
IMPORTED = {"type": "imported", "format": "opacus", "content": STATE}
RATES = {"false_positive_rates": [1e-3, 0.1]}
QUESTIONS = {"questions": [{"type": "epsilon", "delta": 1e-5}, {"type": "advantage"}]}
COUNTS = {"true_positives": 18, "members": 100, "false_positives": 1, "non_members": 100, "delta": 1e-5}


@pytest.mark.parametrize(
    ("path", "rest"), [("/v1/bounds", QUESTIONS), ("/v1/curves", RATES), ("/v1/audits/attack-counts", COUNTS)]
)
def test_imported_state_gives_same_bytes_as_its_mechanism(client: TestClient, path: str, rest: dict[str, Any]) -> None:
    imported = client.post(path, json={"mechanism": IMPORTED, **rest})
    direct = client.post(path, json={"mechanism": RUN, **rest})
    assert imported.status_code == 200
    assert imported.content == direct.content
    assert imported.headers["etag"] == direct.headers["etag"]
    assert direct.headers["cache-status"].startswith("privacy-bounds; hit")


@pytest.mark.parametrize(("library", "name"), [(library, next(iter(states))) for library, states in MEANT.items()])
def test_mechanism_of_import_can_be_sent_unchanged(client: TestClient, library: str, name: str) -> None:
    found = client.post("/v1/imports", json={"format": library, "content": STATES[library][name]["content"]}).json()
    assert found["format"] == library
    answered = client.post("/v1/bounds", json={"mechanism": found["mechanism"], **QUESTIONS}).json()
    assert answered["mechanism"] == found["mechanism"]
    assert {hazard["code"] for hazard in answered["hazards"]} <= {hazard["code"] for hazard in found["hazards"]}
    again = client.post("/v1/imports", json={"content": answered}).json()
    assert again["mechanism"] == found["mechanism"]
    assert client.get(f"/v1/results/{found['digest']}").json() == found


def test_long_state_is_read_in_worker(client: TestClient) -> None:
    rows = [[1.0 + place / 1e5, 0.01, 3] for place in range(10_000)]
    found = client.post("/v1/imports", json={"content": rows})
    assert found.status_code == 200
    assert len(found.json()["mechanism"]["noise_multiplier"]) == len(rows)


@pytest.mark.parametrize(
    ("content", "status", "pointer"),
    [
        ("[" + "[1.0,0.01,1]," * 999_999 + "[1.0,0.01,1]]", 413, None),
        ("[" + "[1.0,0.01,1]," * 20_000 + "[1.0,0.01,1]]", 422, ""),
        ("[[1.0,0.01,NaN]]", 400, "/content/0/2"),
        ("[[1.0,0.01,0]]", 422, "/content/0/2"),
        ('{"module_name":"os","class_name":"system","command":"true"}', 422, "/content/module_name"),
        ('{"ключ":[1.0],"\U0001f511":{"\ufffd":null}}', 422, "/content"),
        ('"gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOULg=="', 422, "/content"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_unreadable_state_returns_problem(client: TestClient, content: str, status: int, pointer: str | None) -> None:
    body = f'{{"content":{content}}}'.encode()
    answer = client.post("/v1/imports", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    problem = answer.json()
    assert [each["pointer"] for each in problem["errors"]] == ([] if pointer is None else [pointer])
    if status == 413 or pointer == "":
        assert "equal neighbours of a schedule or history" in json.dumps(problem)


def test_state_with_keys_of_any_script_has_digest(client: TestClient) -> None:
    """An imported state with keys in any script has a digest.

    Only states that could be read have one. The keys here are members of an object that the importer drops.
    """
    content = {"mechanism": RUN, "hazards": [{"\U0001f511": 1, "\uffff": None, "ключ": True, "a": 2**60}]}
    assert client.post("/v1/imports", json={"content": content}).status_code == 200


@pytest.mark.parametrize("bare", [True, False])
def test_import_command_accepts_bare_state(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], bare: bool
) -> None:
    file = tmp_path / "state.json"
    file.write_text(json.dumps(STATE if bare else {"format": "opacus", "content": STATE}))
    assert main(["import", str(file)]) == 0
    assert json.loads(capfdbinary.readouterr().out)["mechanism"] == RUN


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"\x80\x04\x95\x1e", b"json.dumps(accountant.state_dict())"),
        (b'{"history": [', b"valid JSON"),
        (b"7", b"object"),
    ],
)
def test_import_command_names_readable_formats_for_binary_file(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], file: bytes, message: bytes
) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(file)
    assert main(["import", str(path)]) == 2
    assert message in capfdbinary.readouterr().err
