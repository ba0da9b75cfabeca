"""Signed statements over HTTP: who receives one, what it is about, and what a service without a key says."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api_schemas.signatures import ENVELOPE_MEDIA_TYPE, KEY_SET_PATH
from service.main import create_app
from service.resources.catalogue import RESOURCES, resource
from service.settings import Settings
from service.signing.errors import UnusableKeys
from service.signing.keys import VerificationKey, parse_key_set
from service.signing.statement import Statement
from service.signing.verification import verify_file
from tests.signing.statements import ASSESSED, GAUSSIAN, keys, pem, write
from tests.slow_marker import thorough

SIGNED = {"Accept": ENVELOPE_MEDIA_TYPE}
QUICK = ("bounds", "claims", "gdp-gmip", "imports", "membership-conversions", "pmp-finite", "assessments")


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Yield a client of a service that signs with key 2, and has signed with key 1."""
    folder = tmp_path_factory.mktemp("keys")
    path = write(folder, "keys.pem", pem(2) + pem(1))
    settings = Settings(
        redis_url=None, log_level="error", signing_keys=Path(path), data_folder=folder, time_limit_seconds=300
    )
    with TestClient(create_app(settings)) as client:
        yield client


def published(client: TestClient) -> dict[str, VerificationKey]:
    return parse_key_set(client.get(KEY_SET_PATH).content)


def verified(client: TestClient, content: bytes) -> Statement:
    return verify_file(content, published(client))


def test_public_keys_are_published(signing: TestClient) -> None:
    answer = signing.get(KEY_SET_PATH)
    assert answer.json() == keys(2, 1).key_set
    assert answer.headers["cache-control"] == "public, max-age=3600"
    again = signing.get(KEY_SET_PATH, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert signing.head(KEY_SET_PATH).status_code == 200


def test_service_without_a_key_publishes_no_keys(client: TestClient) -> None:
    answer = client.get(KEY_SET_PATH)
    assert (answer.status_code, answer.json()) == (200, {"keys": []})


@pytest.mark.parametrize("name", [name if name in QUICK else thorough(name) for name in RESOURCES])
def test_every_resource_is_signed(name: str, signing: TestClient) -> None:
    computation = resource(name)
    for example in computation.examples.values():
        plain = signing.post(computation.path, json=example["value"])
        answer = signing.post(computation.path, json=example["value"], headers=SIGNED)
        assert (answer.status_code, answer.headers["content-type"]) == (200, ENVELOPE_MEDIA_TYPE)
        found = verified(signing, answer.content)
        assert found.resource == name
        assert found.answer == plain.json()
        assert found.answer_sha256 == hashlib.sha256(plain.content).hexdigest()
        assert f"sha256:{found.request_sha256}" == plain.json()["digest"]
        assert found.key_id == keys(2).id
        stored = signing.get(answer.headers["content-location"], headers=SIGNED)
        assert stored.content == answer.content
        assert stored.headers["etag"] == answer.headers["etag"] != plain.headers["etag"]


def test_first_request_and_repeated_request_have_the_same_statement(signing: TestClient) -> None:
    sent = GAUSSIAN | {"relative_tolerance": 1e-3}
    first, again = (signing.post("/v1/bounds", json=sent, headers=SIGNED) for _ in range(2))
    other = signing.post(
        "/v1/bounds", content=json.dumps(sent, indent=1), headers=SIGNED | {"Content-Type": "application/json"}
    )
    assert first.content == again.content == other.content


def test_decision_is_signed(signing: TestClient) -> None:
    plain = signing.post("/v1/assessments", json=ASSESSED).json()
    path = f"/v1/decisions/{plain['decision']['id']}"
    answer = signing.get(path, headers=SIGNED)
    found = verified(signing, answer.content)
    assert (found.kind, found.answer) == ("decision", signing.get(path).json())
    assert found.request["policy"]["name"] == "gate"
    again = signing.get(path, headers=SIGNED | {"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.thorough
def test_report_is_signed(signing: TestClient) -> None:
    answer = signing.post("/v1/assessments", json=ASSESSED, headers={"Accept": "text/html"})
    found = verified(signing, answer.content)
    assert found.kind == "report"
    assert found.answer == signing.post("/v1/assessments", json=ASSESSED).json()
    assert found.key_id in answer.headers["etag"]


def ended(client: TestClient, sent: dict[str, Any]) -> dict[str, Any]:
    job = client.post("/v1/jobs", json=sent).json()
    until = time.monotonic() + 60
    while job["state"] not in ("succeeded", "failed", "cancelled") and time.monotonic() < until:
        time.sleep(0.05)
        job = client.get(f"/v1/jobs/{job['id']}").json()
    assert job["state"] == "succeeded"
    return job


def test_results_of_jobs_of_a_single_request_are_signed(signing: TestClient) -> None:
    sent = {"resource": "bounds", "request": GAUSSIAN | {"relative_tolerance": 1e-4}}
    job = ended(signing, sent)
    found = verified(signing, signing.get(f"/v1/jobs/{job['id']}/results", headers=SIGNED).content)
    assert f"sha256:{found.request_sha256}" == job["digest"]


@pytest.mark.parametrize("path", ["/v1/bounds", "/v1/assessments"])
def test_service_without_a_key_refuses_with_a_sentence(path: str, client: TestClient) -> None:
    sent = GAUSSIAN if path == "/v1/bounds" else ASSESSED
    answer = client.post(path, json=sent, headers=SIGNED)
    assert (answer.status_code, answer.json()["type"]) == (406, "/problems/not-acceptable")
    assert answer.json()["detail"].startswith("This service has no signing key")
    assert "application/json" in answer.json()["supported"]
    assert ENVELOPE_MEDIA_TYPE not in answer.json()["supported"]
    digest = client.post(path, json=sent).json()["digest"]
    assert client.get(f"/v1/results/{digest}", headers=SIGNED).status_code == 406
    alternative = client.post(path, json=sent, headers={"Accept": f"{ENVELOPE_MEDIA_TYPE}, application/json;q=0.5"})
    assert alternative.headers["content-type"].startswith("application/json")


def test_nothing_else_changes_without_a_key(client: TestClient, signing: TestClient) -> None:
    for accept in ("*/*", "application/json", "text/csv", "application/*", ""):
        without, with_key = (
            each.post("/v1/bounds", json=GAUSSIAN, headers={"Accept": accept}) for each in (client, signing)
        )
        assert without.content == with_key.content
        assert without.headers["content-type"] == with_key.headers["content-type"] == "application/json"
        assert "vary" not in without.headers
        assert with_key.headers["vary"] == "Accept"
    offered = [
        {tuple(each["answers_in"]) for each in c.get("/v1/catalogue").json()["resources"]} for c in (client, signing)
    ]
    assert not any(ENVELOPE_MEDIA_TYPE in types for types in offered[0])
    assert all(ENVELOPE_MEDIA_TYPE in types for types in offered[1])


def test_statement_is_preferred_by_quality(signing: TestClient) -> None:
    for accept, kind in (
        (f"application/json, {ENVELOPE_MEDIA_TYPE};q=0.9", "application/json"),
        (f"application/json;q=0.9, {ENVELOPE_MEDIA_TYPE}", ENVELOPE_MEDIA_TYPE),
        (ENVELOPE_MEDIA_TYPE.upper(), ENVELOPE_MEDIA_TYPE),
        (f"{ENVELOPE_MEDIA_TYPE};q=0, */*", "application/json"),
    ):
        answer = signing.post("/v1/bounds", json=GAUSSIAN, headers={"Accept": accept})
        assert answer.headers["content-type"] == kind, accept


def test_refused_requests_are_problems_and_not_signed(signing: TestClient) -> None:
    answer = signing.post("/v1/bounds", json={"mechanism": {}}, headers=SIGNED)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert signing.get("/v1/results/sha256:" + "0" * 64, headers=SIGNED).status_code == 404


def test_service_does_not_start_with_unusable_keys(tmp_path: Path) -> None:
    path = Path(write(tmp_path, "keys.pem", b""))
    with pytest.raises(UnusableKeys), TestClient(create_app(Settings(redis_url=None, signing_keys=path))):
        pass


def test_command_explains_unusable_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from service.command.main import main

    path = Path(write(tmp_path, "keys.pem", pem(1)))
    path.chmod(0o644)
    monkeypatch.setenv("PRIVACY_BOUNDS_SIGNING_KEYS", str(path))
    for arguments in (["serve", "--port", "0"], ["serve", "--port", "0", "--workers", "2"]):
        assert main(arguments) == 2
        shown = capsys.readouterr().err
        assert shown.startswith("privacy-bounds: PRIVACY_BOUNDS_SIGNING_KEYS is not accepted: others may read")
        assert shown.count("\n") == 1
