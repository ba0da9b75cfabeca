"""Jobs, results and decisions of one group are missing for every other group, over all routes and both backends."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.api.dependencies import AppServices
from service.engine_version import ENGINE_VERSION
from service.execution.client import requester_from_address, requester_from_group
from service.jobs.job import StoredJob, new_id
from service.jobs.repository import Quota
from service.jobs.results_codec import compress
from service.main import create_app
from service.settings import Settings
from tests.api.callers import closed_application, credentials
from tests.api.requests import bounds
from tests.api.test_decisions import run
from tests.execution.fakes import SEAL_KEY
from tests.signing.statements import pem, write
from tests.timeouts import TEST_TIMEOUT

Groups = tuple[dict[str, str], dict[str, str]]
SWEEP: dict[str, Any] = {
    "mechanism": {"type": "gdp", "mu": 1.0},
    "vary": {"/mechanism/mu": {"values": [0.5, 1.0]}},
    "questions": [{"type": "advantage"}],
}
NOBODY = "0123456789abcdefghijklmnopqrstuv"
NO_DIGEST = "sha256:" + "0" * 64
ADDRESS = "203.0.113.7"
"""Requester of jobs that versions without callers stored."""


class Site(NamedTuple):
    """Application under test, with a function that computes its waiting jobs."""

    client: TestClient
    compute: Callable[[str], None]
    services: AppServices


@contextmanager
def embedded(_redis_url: str, **more: Any) -> Generator[Site]:
    with closed_application(**more) as client:
        services: AppServices = client.app_state["services"]

        def compute(job: str) -> None:
            deadline = time.monotonic() + TEST_TIMEOUT
            while services.jobs.repository.get(job).state != "succeeded":
                assert time.monotonic() < deadline
                time.sleep(0.02)

        yield Site(client, compute, services)


@contextmanager
def cluster(redis_url: str, **more: Any) -> Generator[Site]:
    """Yield an application with jobs in Redis, whose worker saves the lines of the direct answer."""
    celery = {"redis_url": redis_url, "seal_key": SEAL_KEY, "jobs_backend": "celery"}
    with closed_application(**celery, **more) as client:
        services: AppServices = client.app_state["services"]
        accept = {"Accept": "application/x-ndjson"}
        lines = client.post("/v1/sweeps", json=SWEEP, headers={**accept, **credentials("worker")}).content

        def compute(job: str) -> None:
            repository = services.jobs.repository
            while repository.get(job).state != "succeeded":
                claim = repository.claim(ENGINE_VERSION, "worker", 60.0)
                assert claim is not None
                wanted = lines.splitlines(keepends=True)[claim.chunk.start : claim.chunk.stop]
                repository.save(claim, compress(b"".join(wanted)), 2)

        yield Site(client, compute, services)


@pytest.fixture(scope="module", params=[embedded, cluster], ids=["sqlite", "redis"])
def site(request: pytest.FixtureRequest, shared_redis_url: str) -> Generator[Site]:
    with request.param(shared_redis_url) as made:
        yield made


@pytest.fixture
def groups() -> Groups:
    """Return the credentials of two groups of callers that no other test has."""
    return credentials(f"alpha-{new_id()}"), credentials(f"beta-{new_id()}")


def comparable(answer: Any) -> tuple[int, dict[str, str], str]:
    """Return the parts of an answer that a client can tell apart, without request ids and times."""
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in ("x-request-id", "server-timing", "content-length")
    }
    body = re.sub(r'"(instance|request_id)":"[^"]*",?', "", answer.text)
    return answer.status_code, headers, body


JOB_READS = [
    ("GET", "", {}),
    ("HEAD", "", {}),
    ("GET", "/events", {}),
    ("HEAD", "/events", {}),
    ("GET", "/events", {"Last-Event-ID": "1"}),
    ("GET", "/events", {"Last-Event-ID": "9"}),
    ("GET", "/results", {}),
    ("HEAD", "/results", {}),
    ("GET", "/results?start=1&limit=1", {}),
    ("GET", "/results?start=900", {}),
    ("GET", "/results", {"Accept": "text/csv"}),
    ("GET", "/results", {"Accept": "application/x-ndjson"}),
    ("HEAD", "/results", {"Accept": "text/csv"}),
    ("DELETE", "", {}),
]


def assert_job_is_missing_for(client: TestClient, job: str, other: dict[str, str]) -> None:
    for method, part, headers in JOB_READS:
        told = [
            comparable(client.request(method, f"/v1/jobs/{name}{part}", headers={**headers, **other}))
            for name in (job, NOBODY)
        ]
        assert told[0] == told[1], (method, part, headers)
        assert told[0][0] == 404, (method, part, headers)


def test_job_of_other_group_is_missing_over_all_routes(site: Site, groups: Groups) -> None:
    owner, other = groups
    sent = {"resource": "sweeps", "request": SWEEP}
    job = site.client.post("/v1/jobs", json=sent, headers=owner).json()["id"]
    assert_job_is_missing_for(site.client, job, other)
    assert site.client.get(f"/v1/jobs/{job}", headers=owner).json()["state"] in ("queued", "running", "succeeded")
    site.compute(job)
    assert_job_is_missing_for(site.client, job, other)
    for method, part, headers in JOB_READS:
        if part != "/results?start=900":
            told = site.client.request(method, f"/v1/jobs/{job}{part}", headers={**headers, **owner})
            assert told.status_code in (200, 204), (method, part, headers)
    rows = site.client.get(f"/v1/jobs/{job}/results", headers={"Accept": "text/csv", **owner}).text.splitlines()
    assert len(rows) == 1 + 2


def test_list_has_jobs_of_own_group_only(site: Site, groups: Groups) -> None:
    owner, other = groups
    sent = {"resource": "sweeps", "request": SWEEP}
    ids = [site.client.post("/v1/jobs", json=sent, headers=owner).json()["id"] for _ in range(3)]
    page = site.client.get("/v1/jobs?limit=2", headers=owner).json()
    assert [job["id"] for job in page["jobs"]] == [ids[2], ids[1]]
    for query in ("", "?limit=100", f"?cursor={page['next']}"):
        assert site.client.get(f"/v1/jobs{query}", headers=other).json() == {"jobs": [], "next": None}


def test_idempotency_keys_belong_to_group(site: Site, groups: Groups) -> None:
    owner, other = groups
    one, two = {"resource": "sweeps", "request": SWEEP}, {"resource": "bounds", "request": bounds()}
    keyed = {"Idempotency-Key": "release-7"}
    first = site.client.post("/v1/jobs", json=one, headers={**owner, **keyed}).json()["id"]
    assert site.client.post("/v1/jobs", json=one, headers={**owner, **keyed}).json()["id"] == first
    assert site.client.post("/v1/jobs", json=two, headers={**owner, **keyed}).status_code == 422
    for body in (two, two):
        answer = site.client.post("/v1/jobs", json=body, headers={**other, **keyed})
        assert answer.status_code == 202
        assert answer.json()["id"] != first


def test_jobs_without_owner_are_missing_for_every_group(site: Site, groups: Groups) -> None:
    job = stored_by_earlier_version(site.services)
    for group in groups:
        for method, part in product(("GET", "HEAD", "DELETE"), ("", "/events", "/results")):
            if method != "DELETE" or not part:
                told = site.client.request(method, f"/v1/jobs/{job.id}{part}", headers=group)
                assert told.status_code == 404, (method, part)
        assert site.client.get("/v1/jobs", headers=group).json()["jobs"] == []
    assert site.services.jobs.repository.get(job.id).state == "queued"


def stored_by_earlier_version(services: AppServices) -> StoredJob:
    """Store a job whose requester is an address, in a version of the engine that nobody computes."""
    now = time.time()
    job = StoredJob(
        id=new_id(),
        resource="sweeps",
        digest=NO_DIGEST,
        engine_version="an earlier one",
        cost=100,
        total=2,
        created=now,
        expires=now + 1e5,
        kept_seconds=1e5,
        requester=ADDRESS,
        updated=now,
    )
    return services.jobs.repository.add(job, json.dumps(SWEEP).encode(), None, b"", Quota(10, 2**20), 1)


def test_jobs_without_owner_stay_readable_without_authentication(tmp_path: Path) -> None:
    settings = Settings.model_validate({"redis_url": None, "log_level": "error", "data_folder": tmp_path})
    with TestClient(create_app(settings)) as client:
        job = stored_by_earlier_version(client.app_state["services"])
        assert client.get(f"/v1/jobs/{job.id}").json()["state"] == "queued"
        assert client.delete(f"/v1/jobs/{job.id}").json()["state"] == "cancelled"


def stored_reads(digest: str, tag: str) -> list[tuple[str, str, dict[str, str]]]:
    return [
        (method, f"/v1/{room}/{digest}", headers)
        for method, room, headers in product(
            ("GET", "HEAD"),
            ("results", "decisions"),
            ({}, {"If-None-Match": tag}, {"If-None-Match": "*"}, {"If-None-Match": f'"{digest};decision"'}),
        )
    ]


def test_results_and_decisions_are_private_to_groups_that_received_them(site: Site, groups: Groups) -> None:
    owner, other = groups
    assessment = run(date="2026-11-26")
    answer = site.client.post("/v1/assessments", json=assessment, headers=owner)
    digest, tag = answer.json()["digest"], answer.headers["etag"]
    for method, path, headers in stored_reads(digest, tag):
        told = comparable(site.client.request(method, path, headers={**headers, **other}))
        assert told == comparable(
            site.client.request(method, path.replace(digest, NO_DIGEST), headers={**headers, **other})
        )
        assert told[0] == 404, (method, path, headers)
        own = site.client.request(method, path, headers={**headers, **owner})
        assert own.status_code in (200, 304), (method, path, headers)
    # The cache is shared: the same request of another group is not computed again, and gives access.
    again = site.client.post("/v1/assessments", json=assessment, headers=other)
    assert again.headers["cache-status"].startswith("privacy-bounds; hit")
    for method, path, headers in stored_reads(digest, tag):
        told = site.client.request(method, path, headers={**headers, **other})
        assert told.status_code in (200, 304), (method, path, headers)


def test_result_of_job_is_private_to_its_group(groups: Groups) -> None:
    owner, other = groups
    with embedded("") as site:
        sent = {"resource": "assessments", "request": run(date="2026-11-27")}
        job = site.client.post("/v1/jobs", json=sent, headers=owner).json()
        site.compute(job["id"])
        for path in (f"/v1/results/{job['digest']}", f"/v1/decisions/{job['digest']}"):
            assert site.client.get(path, headers=other).status_code == 404
            assert site.client.get(path, headers=owner).status_code == 200


def test_signed_statements_are_private_to_the_group(groups: Groups, tmp_path: Path) -> None:
    """A signed result or decision of another group is missing, as one that never was."""
    owner, other = groups
    with embedded("", signing_keys=Path(write(tmp_path, "keys.pem", pem(1)))) as site:
        sent = {"resource": "assessments", "request": run(date="2026-11-25")}
        job = site.client.post("/v1/jobs", json=sent, headers=owner).json()
        site.compute(job["id"])
        paths = {
            f"/v1/jobs/{job['id']}/results": f"/v1/jobs/{NOBODY}/results",
            f"/v1/results/{job['digest']}": f"/v1/results/{NO_DIGEST}",
            f"/v1/decisions/{job['digest']}": f"/v1/decisions/{NO_DIGEST}",
        }
        for (path, unknown), method in product(paths.items(), ("GET", "HEAD")):
            told, missing = (
                comparable(site.client.request(method, asked, headers={"Accept": ENVELOPE_MEDIA_TYPE, **other}))
                for asked in (path, unknown)
            )
            assert told == missing, (method, path)
            assert told[0] == 404, (method, path)
            own = site.client.request(method, path, headers={"Accept": ENVELOPE_MEDIA_TYPE, **owner})
            assert (own.status_code, own.headers["content-type"]) == (200, ENVELOPE_MEDIA_TYPE), (method, path)


def test_respond_async_gives_access_to_the_result(groups: Groups) -> None:
    owner, other = groups
    with embedded("") as site:
        waits = {"Prefer": "respond-async, wait=20"}
        digest = site.client.post("/v1/assessments", json=run(), headers={**owner, **waits}).json()["digest"]
        path = f"/v1/results/{digest}"
        assert [site.client.get(path, headers=group).status_code for group in (owner, other)] == [200, 404]
        known = site.client.post("/v1/assessments", json=run(), headers={**other, **waits})
        assert known.headers["cache-status"].startswith("privacy-bounds; hit")
        assert site.client.get(path, headers=other).status_code == 200


def test_owner_survives_in_redis_with_its_result(redis_url: str, groups: Groups) -> None:
    """A second instance finds the result and its owner in Redis, and nobody else's."""
    owner, other = groups
    shared = {"redis_url": redis_url, "seal_key": SEAL_KEY, "redis_cost_floor": 0}
    with closed_application(**shared) as client:
        digest = client.post("/v1/assessments", json=run(), headers=owner).json()["digest"]
    with closed_application(**shared) as client:
        path = f"/v1/results/{digest}"
        assert [client.get(path, headers=group).status_code for group in (other, owner)] == [404, 200]


def test_address_that_looks_like_a_group_is_not_one() -> None:
    """A client address that looks like the name of a group gives no access to the group.

    A proxy may forward any text as the address of a client.
    """
    for name in ("group:alpha", "group#" + "0" * 64):
        assert requester_from_address(name) == "unknown"
    assert requester_from_group("alpha") == "group:alpha"
    odd = {requester_from_group(name) for name in ("al pha", "al\npha", "älpha", "x" * 129, "", "\ud800")}
    assert len(odd) == 6
    assert all(re.fullmatch("group#[0-9a-f]{64}", each) for each in odd)
