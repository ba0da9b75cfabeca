"""`GET /v1/decisions/{id}`: the stored decision, whether the assessment came from a request or from a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from starlette.testclient import TestClient

from api_schemas.decisions import StoredDecision
from service.main import create_app
from service.settings import Settings
from tests.api.requests import dpsgd
from tests.execution.fakes import SEAL_KEY
from tests.timeouts import TEST_TIMEOUT

SUBJECT = {"name": "next-word model", "version": "2.1.0", "sha256": "0123456789abcdef" * 4}
GATE = {"name": "gate", "rules": [{"question": {"type": "advantage"}, "at_most": 0.9}]}
PRIVATE = "private, max-age=31536000, immutable"


def run(**context: Any) -> dict[str, Any]:
    """Return the body of an assessment of approximate DP by epsilon, the least expensive request that runs
    in a worker.
    """
    mechanism = {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6}
    return {"mechanism": mechanism, "context": {"delta": 1e-5, **context}, "policy": GATE}


def assert_is_decision_of(response: Any, answer: dict[str, Any]) -> None:
    assert response.status_code == 200
    context = answer["context"]
    subject = {"subject": context["subject"]} if "subject" in context else {}
    date = {"date": context["date"]} if "date" in context else {}
    expected = {"decision": answer["decision"], **subject, **date, "result": answer["digest"]}
    assert response.json() == expected | {"engine_version": answer["engine_version"]}
    assert StoredDecision.model_validate_json(response.content).decision.id == answer["decision"]["id"]


@pytest.mark.parametrize("context", [{}, {"subject": SUBJECT}, {"date": "2026-11-23"}])
def test_decision_is_returned_as_stored(client: TestClient, context: dict[str, Any]) -> None:
    for _ in range(2):  # First computed, then cached.
        answer = client.post("/v1/assessments", json=run(**context)).json()
        response = client.get(f"/v1/decisions/{answer['decision']['id']}")
        assert_is_decision_of(response, answer)
        assert response.headers["cache-control"] == PRIVATE
        assert response.headers["content-type"] == "application/json"


def test_decision_has_its_own_etag(client: TestClient) -> None:
    answer = client.post("/v1/assessments", json=run())
    place = f"/v1/decisions/{answer.json()['decision']['id']}"
    tag = client.get(place).headers["etag"]
    assert tag != answer.headers["etag"]
    again = client.get(place, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(place, headers={"If-None-Match": answer.headers["etag"]}).status_code == 200
    assert client.head(place).headers["etag"] == tag


def test_id_of_other_result_returns_404(client: TestClient) -> None:
    without = run() | {"policy": None}
    del without["policy"]
    assessment = client.post("/v1/assessments", json=without).json()
    assert assessment["decision"] is None
    other = client.post("/v1/bounds", json={"mechanism": dpsgd(), "questions": [{"type": "advantage"}]}).json()
    for name in ("sha256:" + "0" * 64, assessment["digest"], other["digest"]):
        response = client.get(f"/v1/decisions/{name}")
        assert (response.status_code, response.json()["type"]) == (404, "/problems/decision-not-found")
        assert "send the assessment again" in response.json()["detail"]


@pytest.mark.parametrize("name", ["nonsense", "%00" * 30, "sha256:" + "A" * 64, "0" * 64])
def test_malformed_decision_id_returns_422_like_result_id(client: TestClient, name: str) -> None:
    response, result = (client.get(f"/v1/{room}/{name}") for room in ("decisions", "results"))
    assert response.status_code == result.status_code == 422
    assert response.json()["type"] == result.json()["type"] == "/problems/invalid-parameter"


def ended(client: TestClient, job: str) -> dict[str, Any]:
    deadline = time.monotonic() + TEST_TIMEOUT
    while time.monotonic() < deadline:
        response: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        if response["state"] == "succeeded":
            return response
        time.sleep(0.05)
    pytest.fail("the job did not end")


def test_decision_made_by_job_is_found(client: TestClient) -> None:
    body = run(date="2026-11-01")
    job = client.post("/v1/jobs", json={"resource": "assessments", "request": body}).json()
    name = ended(client, job["id"])["digest"]
    response = client.get(f"/v1/decisions/{name}")  # Before any other request for the assessment itself.
    assert client.get(f"/v1/results/{name}").status_code == 200
    page = client.get(f"/v1/jobs/{job['id']}/results")
    assert page.status_code == 200
    [point] = page.json()["points"]
    assert point["response"] == client.post("/v1/assessments", json=body).json()
    assert_is_decision_of(response, point["response"])


@pytest.mark.parametrize("wait", ["", ", wait=20"])
def test_decision_answered_asynchronously_is_found(client: TestClient, wait: str) -> None:
    body = run(date="2026-11-02" if wait else "2026-11-03")
    answer = client.post("/v1/assessments", json=body, headers={"Prefer": f"respond-async{wait}"})
    name = answer.json()["digest"] if answer.status_code == 200 else ended(client, answer.json()["id"])["digest"]
    assert_is_decision_of(client.get(f"/v1/decisions/{name}"), client.post("/v1/assessments", json=body).json())


def sharing(redis_url: str, **more: Any) -> Settings:
    settings = {"redis_url": redis_url, "redis_timeout_seconds": 20.0, "seal_key": SEAL_KEY, "worker_count": 1}
    return Settings.model_validate({**settings, "worker_niceness": 0, "log_level": "error", **more})


@pytest.fixture
def instances(redis_url: str) -> Iterator[tuple[TestClient, TestClient]]:
    """Yield two instances that share a Redis. The second instance has no memory cache."""
    second = sharing(redis_url, memory_cache_bytes=1)
    with TestClient(create_app(sharing(redis_url))) as one, TestClient(create_app(second)) as other:
        yield one, other


@pytest.mark.parametrize("as_job", [False, True])
def test_instances_share_decisions_and_reject_forged_ones(
    instances: tuple[TestClient, TestClient], redis_url: str, as_job: bool
) -> None:
    one, other = instances
    body = run(subject=SUBJECT)
    if as_job:
        job = one.post("/v1/jobs", json={"resource": "assessments", "request": body}).json()
        place = f"/v1/decisions/{ended(one, job['id'])['digest']}"
        wait_until_found(other, place)
        answer = one.post("/v1/assessments", json=body).json()
    else:
        answer = one.post("/v1/assessments", json=body).json()
        place = f"/v1/decisions/{answer['decision']['id']}"
        wait_until_found(other, place)
    assert_is_decision_of(other.get(place), answer)
    with redis.Redis.from_url(redis_url) as direct:
        [key] = direct.keys(f"privacy_bounds:result:assessments:{answer['digest']}")
        entry: Any = direct.get(key)
        assert 0 < int(str(direct.ttl(key))) <= 30 * 86_400
        direct.set(key, entry.replace(b'"verdict":"met"', b'"verdict":"void"'))
        assert other.get(place).status_code == 404
        direct.delete(key)
    assert other.get(place).status_code == 404
    assert one.get(place).status_code == 200, "its own memory has it"


def wait_until_found(client: TestClient, place: str) -> None:
    """Wait until a result is in Redis. The service writes it after the response."""
    deadline = time.monotonic() + TEST_TIMEOUT
    while client.get(place).status_code == 404:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_decision_is_evicted_with_its_result() -> None:
    settings = {"redis_url": None, "memory_cache_entries": 1, "worker_count": 1, "log_level": "error"}
    with TestClient(create_app(Settings.model_validate(settings))) as client:
        first = client.post("/v1/assessments", json=run()).json()
        place = f"/v1/decisions/{first['decision']['id']}"
        assert client.get(place).status_code == 200
        client.post("/v1/assessments", json=run(date="2026-11-04"))
        assert client.get(f"/v1/results/{first['digest']}").status_code == 404
        assert client.get(place).status_code == 404
