"""POST /v1/audits/... over HTTP and on the command line: JSON, archives, and clear 4xx responses to bad input."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from api_schemas.audit_examples import GLIR_EXAMPLES
from api_schemas.glir_audit import GlirAuditRequest, GlirAuditResponse
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.main import create_app
from service.resources.audits.glir import GLIR_AUDIT
from service.resources.digest import digest
from service.settings import Settings
from tests.api.requests import JSON, encoded
from tests.resources import archives
from tests.resources.archives import archived, as_json, gradients

ARCHIVE = {"Content-Type": "application/x-npz"}
COUNTS: dict[str, Any] = {"true_positives": 180, "members": 1000, "false_positives": 10, "non_members": 1000}
BODIES: dict[str, dict[str, Any]] = {
    "attack-counts": COUNTS | {"mechanism": {"type": "gdp", "mu": 1.0}},
    "glir": {"batch_size": 20, "simulate": {"dimension": 5, "queries": 100}},
    "glrt": {"noise_multiplier": 6.0, "queries": 70, "trials": 200},
}


def post(client: TestClient, name: str, body: dict[str, Any] | bytes, **headers: str) -> Any:
    content = body if isinstance(body, bytes) else encoded(body)
    return client.post(f"/v1/audits/{name}", content=content, headers=(JSON | headers))


def upload(client: TestClient, body: bytes, content_type: str = "application/x-npz") -> Any:
    return client.post("/v1/audits/glir", content=body, headers={"Content-Type": content_type})


@pytest.mark.parametrize(("name", "body"), BODIES.items(), ids=BODIES)
def test_audit_result_is_stored_under_its_digest(client: TestClient, name: str, body: dict[str, Any]) -> None:
    first = post(client, name, body)
    assert first.status_code == 200, first.text
    assert first.headers["etag"] == f'"{first.json()["digest"]}"'
    again = post(client, name, body | {"confidence": 0.95})
    assert (again.content, again.headers["cache-status"]) == (first.content, "privacy-bounds; hit; detail=memory")
    stored = client.get(first.headers["content-location"])
    assert (stored.status_code, stored.content) == (200, first.content)


@pytest.mark.parametrize(("name", "body"), BODIES.items(), ids=BODIES)
def test_command_line_writes_same_bytes_as_http(
    client: TestClient, name: str, body: dict[str, Any], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(body))
    assert cli.main([name, str(file)]) == 0
    assert capfdbinary.readouterr().out == post(client, name, body).content


def test_digest_of_json_audit_is_that_of_its_request(client: TestClient) -> None:
    answer = post(client, "glir", BODIES["glir"])
    request = GlirAuditRequest.model_validate(BODIES["glir"])
    assert answer.json()["digest"] == digest(GLIR_AUDIT.name, ENGINE_VERSION, request)


@pytest.mark.parametrize("content_type", ["application/x-npz", "application/octet-stream", "Application/Zip; x=1"])
def test_archive_gives_same_answer_as_json(client: TestClient, content_type: str) -> None:
    from_archive = upload(client, archived(gradients()), content_type)
    assert from_archive.status_code == 200, from_archive.text
    from_json = post(client, "glir", as_json(gradients()))
    one, other = (GlirAuditResponse.model_validate_json(answer.content) for answer in (from_archive, from_json))
    assert one.model_copy(update={"digest": other.digest}) == other
    assert upload(client, archived(gradients())).headers["cache-status"] == "privacy-bounds; hit; detail=memory"
    assert client.get(from_archive.headers["content-location"]).content == from_archive.content


def test_large_archive_is_computed_by_worker(client: TestClient) -> None:
    arrays = gradients(dimension=60, queries=300, steps=2, background=120)
    answer = upload(client, archived(arrays, compressed=True))
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["steps"][1]["p_values"]) == 300
    counted = 'computation_duration_seconds_count{computation="glir_audit",mechanism="none",place="worker"'
    assert counted in client.get("/metrics").text


def test_command_line_accepts_archives(
    client: TestClient, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "gradients.npz"
    file.write_bytes(archived(gradients()))
    assert cli.main(["glir", str(file)]) == 0
    assert capfdbinary.readouterr().out == upload(client, archived(gradients())).content
    for change, pointer in (({"labels": np.zeros(3)}, "/labels"), ({"batch_size": np.array(1)}, "/batch_size")):
        file.write_bytes(archived(gradients() | change))
        assert cli.main(["glir", str(file)]) == cli.PROBLEM_EXIT_CODE
        problem = json.loads(capfdbinary.readouterr().err)
        assert (problem["status"], problem["errors"][0]["pointer"]) == (422, pointer)


def ragged() -> dict[str, Any]:
    body = as_json(gradients())
    body["steps"][1]["query_gradients"][2].pop()
    return body


CONSTANT = gradients() | {"steps.0.background_gradients": np.ones((12, 3))}
BAD: dict[str, tuple[str, dict[str, Any] | bytes, str, str]] = {
    "no members": ("attack-counts", COUNTS | {"members": 0}, "/members", "[1, 1000000000]"),
    "no non-members": ("attack-counts", COUNTS | {"non_members": 0}, "/non_members", "[1, 1000000000]"),
    "more hits than members": ("attack-counts", COUNTS | {"true_positives": 1001}, "/true_positives", "`members`"),
    "more alarms": ("attack-counts", COUNTS | {"fp": 3, "non_members": 2, "false_positives": 3}, "/fp", "only one"),
    "fraction": ("attack-counts", COUNTS | {"members": 10.5}, "/members", "integer"),
    "certainty": ("attack-counts", COUNTS | {"confidence": 1}, "/confidence", "[0.5, 0.999999999]"),
    "nobody attacks": (
        "attack-counts",
        COUNTS | {"threat_model": {"type": "worst_case"}},
        "/threat_model",
        "mechanism",
    ),
    "no such run": (
        "attack-counts",
        COUNTS | {"mechanism": {"type": "gdp", "mu": -1}},
        "/mechanism/mu",
        "[0, 1000000]",
    ),
    "a batch of one": ("glir", BODIES["glir"] | {"batch_size": 1}, "/batch_size", "[2, 1000000]"),
    "ragged rows": ("glir", ragged(), "/steps/1/query_gradients/2", "3 entries"),
    "1e999": ("glir", archives.encoded(gradients()).replace(b"20,", b"1e999,", 1), "/batch_size", "integer"),
    "1e999 gradient": (
        "glir",
        archives.encoded(gradients()).replace(b'"mean_gradient": [', b'"mean_gradient": [1e999, ', 1),
        "/steps/0/mean_gradient/0",
        "finite number",
    ),
    "singular": (
        "glir",
        as_json(CONSTANT),
        "/steps/0/background_gradients",
        "singular",
    ),
    "few background gradients": (
        "glir",
        as_json(gradients(background=5)),
        "/steps/0/background_gradients",
        "at least 6 rows",
    ),
    "shrunk moments": (
        "glir",
        GLIR_EXAMPLES["one_step"]["value"] | {"shrinkage": 0.1},
        "/shrinkage",
        "counts as known",
    ),
    "both sources": ("glir", as_json(gradients()) | {"simulate": {"dimension": 2}}, "", "exactly one"),
    "neither source": ("glir", {"batch_size": 5}, "", "exactly one"),
    "members of a simulation": ("glir", BODIES["glir"] | {"members": [True]}, "/members", "Simulated"),
    "no background": (
        "glir",
        {"batch_size": 5, "steps": [{"mean_gradient": [1.0], "query_gradients": [[1.0]]}]},
        "/steps/0",
        "background_gradients",
    ),
    "too many normals": ("glrt", BODIES["glrt"] | {"dimension": 10**6, "trials": 10**6}, "/trials", "1e+09"),
    "too strong": ("glrt", BODIES["glrt"] | {"noise_multiplier": 1e-4, "queries": 10**12}, "/queries", "1e+12"),
    "few trials": ("glrt", BODIES["glrt"] | {"trials": 99}, "/trials", "[100, 1000000]"),
}


@pytest.mark.parametrize(("name", "body", "pointer", "sentence"), BAD.values(), ids=BAD)
def test_bad_request_returns_422_with_pointer(
    client: TestClient, name: str, body: Any, pointer: str, sentence: str
) -> None:
    answer = post(client, name, body)
    assert answer.status_code == 422
    found = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert pointer in found
    assert sentence in found[pointer]


BAD_ARCHIVES: dict[str, tuple[bytes, str, str]] = {
    "no archive": (b"PK and nothing", "", "numpy.savez"),
    "JSON": (encoded(BODIES["glir"]), "", "numpy.savez"),
    "NaN": (
        archived(gradients() | {"steps.1.query_gradients": np.full((8, 3), np.nan)}),
        "/steps/1/query_gradients",
        "finite",
    ),
    "pickled": (
        archived(gradients() | {"steps.0.mean_gradient": np.array([None, 1, 2], dtype=object)}),
        "/steps/0/mean_gradient",
        "never unpickled",
    ),
    "ragged": (archived(gradients() | {"steps.1.mean_gradient": np.zeros(4)}), "/steps/1/mean_gradient", "shape 3"),
    "a batch of one": (archived(gradients() | {"batch_size": np.array(1)}), "/batch_size", "[2, 1000000]"),
    "singular": (
        archived(CONSTANT),
        "/steps/0/background_gradients",
        "singular",
    ),
}


@pytest.mark.parametrize(("body", "pointer", "sentence"), BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_bad_archive_returns_422_with_pointer(client: TestClient, body: bytes, pointer: str, sentence: str) -> None:
    answer = upload(client, body)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert sentence in error["detail"]


def test_oversized_archive_returns_413_before_reading_or_unpacking(client: TestClient) -> None:
    declared = client.post("/v1/audits/glir", content=b"PK", headers={**ARCHIVE, "Content-Length": str(2 * 2**30)})
    assert (declared.status_code, declared.json()["type"]) == (413, "/problems/body-too-large")
    body = archived(gradients())
    size = body.index(b"PK\x01\x02") + 24  # The size of the first array in the central directory.
    packed = upload(client, body[:size] + struct.pack("<L", 2**31) + body[size + 4 :])
    assert packed.status_code == 422
    assert "134217728 bytes" in packed.json()["errors"][0]["detail"]


@pytest.fixture(scope="module")
def small_client() -> Iterator[TestClient]:
    with TestClient(create_app(Settings(max_upload_bytes=1000, log_level="error"))) as client:
        yield client


def test_archive_size_limit_is_a_setting(small_client: TestClient) -> None:
    answer = upload(small_client, archived(gradients()))
    assert (answer.status_code, answer.json()["type"]) == (413, "/problems/body-too-large")
    assert small_client.get("/v1/limits").json()["upload_bytes"] == 1000


def test_archive_to_resource_without_arrays_returns_415(client: TestClient) -> None:
    for name in ("attack-counts", "glrt"):
        answer = post(client, name, archived(gradients()), **ARCHIVE)
        assert (answer.status_code, answer.json()["type"]) == (415, "/problems/unsupported-media-type")
