"""Jobs over HTTP: accepted and rejected requests, and every rendering of the results."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.resources.catalogue import resource, resources
from tests.api.requests import ADVANTAGE, GAUSSIAN, bounds, dpsgd
from tests.slow_requests import LONG

SWEEP: dict[str, Any] = {
    "mechanism": GAUSSIAN,
    "vary": {
        "/mechanism/noise_multiplier": {"from": 0.5, "to": 5.0, "count": 12, "spacing": "log"},
        "/questions/0/delta": {"values": [1e-9, 1e-6, 2.0]},
    },
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}
POINTS = 36
TRUTH = bounds(dpsgd(), [{"type": "epsilon", "delta": 1e-5}], method="ground_truth", digits=30)


def submit(client: TestClient, name: str, request: Any, **headers: str) -> Any:
    return client.post("/v1/jobs", json={"resource": name, "request": request}, headers=headers)


def events_of(client: TestClient, job: str, **headers: str) -> list[tuple[str, int, dict[str, Any]]]:
    """Read all events of a job until it ends."""
    found: list[tuple[str, int, dict[str, Any]]] = []
    answer = client.get(f"{job}/events", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    for block in answer.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return found


@pytest.fixture(scope="module")
def ended_sweep(client: TestClient) -> str:
    """Return the path of a sweep job that has ended."""
    job: str = submit(client, "sweeps", SWEEP).headers["location"]
    name, _, last = events_of(client, job)[-1]
    assert (name, last["state"]) == ("ended", "succeeded")
    return job


def test_job_is_accepted_with_location_and_progress(client: TestClient) -> None:
    answer = submit(client, "bounds", bounds())
    assert answer.status_code == 202
    told = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{told['id']}"
    assert (told["resource"], told["progress"]) == ("bounds", {"done": 0, "failed": 0, "total": 1})
    ids = {submit(client, "bounds", bounds()).json()["id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(len(each) == 48 for each in ids), "192 bits in hexadecimal digits"


def test_job_result_has_same_bytes_as_direct_request(client: TestClient) -> None:
    job = submit(client, "bounds", TRUTH).headers["location"]
    [*_, (_, _, last)] = events_of(client, job)
    lines = client.get(f"{job}/results", headers={"accept": "application/x-ndjson"}).content
    direct = client.post("/v1/bounds", json=TRUTH)
    assert lines == b'{"point":0,"response":' + direct.content + b"}\n"
    assert last["digest"] == direct.json()["digest"]


def test_sweep_job_streams_every_point_once(client: TestClient, ended_sweep: str) -> None:
    direct = client.post("/v1/sweeps", json=SWEEP, headers={"accept": "application/x-ndjson"}).text.splitlines()
    lines = client.get(f"{ended_sweep}/results", headers={"accept": "application/x-ndjson"}).text.splitlines()
    assert [json.loads(line)["point"] for line in lines] == list(range(POINTS))
    for mine, theirs in zip(map(json.loads, lines), map(json.loads, direct), strict=True):
        for row in (mine, theirs):
            for answer in row["answers"]:  # Logarithm columns exist if any point of the response needs one.
                for name in ("value_log10", "lower_log10", "upper_log10"):
                    answer.pop(name, None)
        assert mine == theirs
    told = client.get(ended_sweep).json()["progress"]
    assert told == {
        "done": POINTS,
        "failed": sum(json.loads(line)["problem"] is not None for line in direct),
        "total": POINTS,
    }
    assert told["failed"] == POINTS // 3, "a delta of 2 is a problem of its points"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_pages_of_results_cover_all_points(client: TestClient, ended_sweep: str, size: int) -> None:
    seen: list[int] = []
    start: int | None = 0
    while start is not None:
        page = client.get(f"{ended_sweep}/results", params={"start": start, "limit": size}).json()
        seen += [row["point"] for row in page["points"]]
        start = page["next"]
    assert seen == list(range(POINTS))


def test_csv_has_one_row_per_point(client: TestClient, ended_sweep: str) -> None:
    text = client.get(f"{ended_sweep}/results", headers={"accept": "text/csv"}).text
    head, *rows = text.splitlines()
    assert head.startswith("point,/mechanism/noise_multiplier,/questions/0/delta,")
    assert head.endswith(",problem")
    assert [int(row.partition(",")[0]) for row in rows] == list(range(POINTS))
    part = client.get(f"{ended_sweep}/results?start=30", headers={"accept": "text/csv"}).text.splitlines()
    assert part == [head, *rows[30:]]


def test_events_resume_after_last_event_id(client: TestClient, ended_sweep: str) -> None:
    [(name, revision, told)] = events_of(client, ended_sweep)
    assert (name, told) == ("ended", client.get(ended_sweep).json())
    assert len(events_of(client, ended_sweep, **{"Last-Event-ID": str(revision - 1)})) == 1
    assert client.get(f"{ended_sweep}/events", headers={"Last-Event-ID": str(revision)}).status_code == 204


def test_head_of_stream_does_not_wait(client: TestClient) -> None:
    job = submit(client, "bounds", LONG).headers["location"]
    for path in ("events", "results"):
        answer = client.head(f"{job}/{path}", headers={"accept": "*/*"})
        assert (answer.status_code, answer.content) == (200, b"")
    assert client.delete(job).json()["state"] == "cancelled"


def test_ended_job_cannot_be_cancelled_or_changed(client: TestClient, ended_sweep: str) -> None:
    before = client.get(ended_sweep).json()
    assert client.delete(ended_sweep).json() == before
    job = submit(client, "bounds", LONG).headers["location"]
    for _ in range(2):
        assert client.delete(job).json()["state"] == "cancelled"
    page = client.get(f"{job}/results").json()
    assert (page["state"], page["points"], page["next"]) == ("cancelled", [], None)


def test_repeated_idempotency_key_returns_same_job(client: TestClient) -> None:
    first = submit(client, "bounds", bounds(), **{"Idempotency-Key": "one"})
    spelled = {"questions": [ADVANTAGE], "mechanism": {"type": "gaussian", "sigma": 1}}
    for request in (bounds(), spelled):
        again = submit(client, "bounds", request, **{"Idempotency-Key": "one"})
        assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert submit(client, "bounds", bounds(), **{"Idempotency-Key": "two"}).json()["id"] != first.json()["id"]
    for name, request in (("bounds", bounds({"type": "gdp", "mu": 1.0})), ("curves", {"mechanism": GAUSSIAN})):
        other = submit(client, name, request, **{"Idempotency-Key": "one"})
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
        assert "Idempotency-Key" in other.json()["errors"][0]["detail"]


def test_idempotency_key_applies_to_respond_async(client: TestClient) -> None:
    headers = {"Prefer": "respond-async", "Idempotency-Key": "later"}
    first = client.post("/v1/bounds", json=LONG, headers=headers)
    assert first.status_code == 202
    for again in (
        client.post("/v1/bounds", json=LONG, headers=headers),
        submit(client, "bounds", LONG, **{"Idempotency-Key": "later"}),
    ):
        assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    other = client.post("/v1/bounds", json={**LONG, "digits": 49}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
    wrong = client.post("/v1/bounds", json=LONG, headers={**headers, "Idempotency-Key": "a b"})
    assert (wrong.status_code, wrong.json()["type"]) == (422, "/problems/invalid-parameter")
    assert client.delete(first.headers["location"]).json()["state"] == "cancelled"


def test_job_with_stored_result_ends_at_once(client: TestClient) -> None:
    request = {**LONG, "digits": 48}
    services = client.app_state["services"]
    digest = client.post("/v1/estimates", json={"resource": "bounds", "request": request}).json()["digest"]
    services.runner.results.store(resource("bounds"), digest, b'{"stored":true}', 10**9)
    job = submit(client, "bounds", request).headers["location"]
    assert events_of(client, job)[-1][2]["state"] == "succeeded"
    assert client.get(f"{job}/results").json()["points"] == [{"point": 0, "response": {"stored": True}}]


def test_failed_job_has_problem_of_direct_request(client: TestClient) -> None:
    refused = bounds(method="ground_truth", mechanism={"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6})
    direct = client.post("/v1/bounds", json=refused).json()
    answer = submit(client, "bounds", refused).json()
    if answer.get("status") == 422:  # Rejected at once, from the description alone.
        assert (answer["type"], answer["detail"]) == (direct["type"], direct["detail"])
        assert [each["pointer"] for each in answer["errors"]] == [f"/request{e['pointer']}" for e in direct["errors"]]
    else:
        [*_, (_, _, last)] = events_of(client, f"/v1/jobs/{answer['id']}")
        assert (last["state"], last["problem"]["detail"]) == ("failed", direct["detail"])


BILLION = {"from": 1.0, "to": 2.0, "count": 10**9}
MANY = {
    "/mechanism/noise_multiplier": {"from": 1.0, "to": 2.0, "count": 10**6},
    "/questions/0/delta": {"values": [0.1, 0.2]},
}
WRONG: list[tuple[Any, str]] = [
    ({"resource": "nothing", "request": {}}, "/resource"),
    ({"resource": "bounds"}, "/request"),
    ({"resource": "bounds", "request": []}, "/request"),
    ({"resource": "bounds", "request": {}, "more": 1}, "/more"),
    ({"resource": "bounds", "request": bounds({"type": "gdp", "mu": -1})}, "/request/mechanism/mu"),
    (
        {"resource": "sweeps", "request": SWEEP | {"vary": {"/mechanism/noise_multiplier": BILLION}}},
        "/request/vary/~1mechanism~1noise_multiplier/count",
    ),
    ({"resource": "sweeps", "request": SWEEP | {"vary": MANY}}, "/request/vary"),
    ({"resource": "sweeps", "request": SWEEP | {"vary": {"/nowhere": {"values": [1.0]}}}}, "/request/vary/~1nowhere"),
]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/estimates"])
@pytest.mark.parametrize(("body", "pointer"), WRONG, ids=lambda value: value if isinstance(value, str) else None)
def test_bad_job_returns_422_with_pointer(client: TestClient, path: str, body: Any, pointer: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert pointer in [each["pointer"] for each in answer.json()["errors"]]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"resource": "bounds", "request": {"a": NaN}}', b"\xff"])
def test_invalid_job_body_is_rejected(client: TestClient, body: bytes) -> None:
    for path in ("/v1/jobs", "/v1/estimates"):
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
        assert client.post(path, content=body, headers={"content-type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    ("path", "headers", "status", "named"),
    [
        ("/results?start=36", {}, 422, "start"),
        ("/results?start=36", {"accept": "text/csv"}, 422, "start"),
        ("/results?start=-1", {}, 422, "start"),
        ("/results?limit=0", {}, 422, "limit"),
        ("/results?limit=10001", {}, 422, "limit"),
        ("/results", {"accept": "image/png"}, 406, "Accept"),
        ("/results", {"accept": "text/html;q=1, application/json;q=0"}, 406, "Accept"),
        ("/events", {"accept": "application/json"}, 406, "Accept"),
        ("/events", {"Last-Event-ID": "-1"}, 422, "Last-Event-ID"),
        ("/events", {"Last-Event-ID": "9" * 99}, 422, "Last-Event-ID"),
    ],
)
def test_bad_query_parameter_is_named(
    client: TestClient, ended_sweep: str, path: str, headers: dict[str, str], status: int, named: str
) -> None:
    answer = client.get(ended_sweep + path, headers=headers)
    assert answer.status_code == status
    assert named in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "x" * 1024])
def test_malformed_idempotency_key_returns_422(client: TestClient, key: str) -> None:
    answer = submit(client, "bounds", bounds(), **{"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-parameter")


@pytest.mark.parametrize("name", ["x", "0" * 32, "..", "%00", "a" * 64])
def test_get_unknown_job_returns_404(client: TestClient, name: str) -> None:
    for path in ("", "/events", "/results"):
        assert client.get(f"/v1/jobs/{name}{path}").status_code == 404
    assert client.delete(f"/v1/jobs/{name}").status_code == 404


def test_respond_async_returns_stored_result_at_once(client: TestClient) -> None:
    later = client.post("/v1/bounds", json=LONG, headers={"Prefer": "respond-async, wait=0"})
    assert later.status_code == 202
    assert later.headers["preference-applied"] == "respond-async"
    assert client.delete(later.headers["location"]).json()["state"] == "cancelled"
    first = client.post("/v1/bounds", json=TRUTH, headers={"Prefer": "wait=20, respond-async"})
    direct = client.post("/v1/bounds", json=TRUTH)
    again = client.post("/v1/bounds", json=TRUTH, headers={"Prefer": "respond-async"})
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content == direct.content == again.content
    assert first.headers["etag"] == direct.headers["etag"]
    sweep = client.post("/v1/sweeps", json=SWEEP, headers={"Prefer": "respond-async"})
    assert (sweep.status_code, sweep.json()["progress"]["total"]) == (202, POINTS)
    wrong = client.post("/v1/bounds", json=bounds({"type": "gdp", "mu": -1}), headers={"Prefer": "respond-async"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/mechanism/mu")


@pytest.mark.parametrize("prefer", ["", "handling=lenient", "wait=10", "respond-sync"])
def test_unknown_preference_is_ignored(client: TestClient, prefer: str) -> None:
    assert client.post("/v1/bounds", json=bounds(), headers={"Prefer": prefer}).status_code == 200


@pytest.mark.parametrize("name", [each.name for each in resources()])
def test_every_resource_has_estimate(client: TestClient, name: str) -> None:
    computation = resource(name)
    example = next(iter(computation.examples.values()))["value"]
    path = computation.path.removeprefix("/v1/")
    quoted = client.post("/v1/estimates", json={"resource": path, "request": example})
    assert quoted.status_code == 200, quoted.text
    told = quoted.json()
    assert told["place"] in ("event_loop", "worker")
    assert 0 <= told["least_cost"] <= told["cost"] <= (told["most_cost"] or math.inf)
    assert 0 <= told["least"] <= told["likely"] <= told["most"] <= told["time_limit_seconds"] * 1e6
    assert isinstance(told["unknown"], list)


def test_request_beyond_budget_names_cost_and_remedy(client: TestClient) -> None:
    dear = {"mechanism": dpsgd(), "methods": ["ground_truth"], "grid": {"count": 10_000}}
    refused = client.post("/v1/curves", json=dear)
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/compute-budget-exceeded")
    quoted = client.post("/v1/estimates", json={"resource": "curves", "request": dear}).json()
    assert refused.json()["estimated_cost"] == quoted["least_cost"] > quoted["limit"] == refused.json()["limit"]
    assert quoted["place"] == "job"
    assert "Prefer: respond-async" in refused.json()["detail"]
    accepted = client.post("/v1/curves", json=dear, headers={"Prefer": "respond-async"})
    assert accepted.status_code == 202
    assert client.delete(accepted.headers["location"]).json()["state"] == "cancelled"


def test_limits_describe_job_backend(client: TestClient) -> None:
    told = client.get("/v1/limits").json()["jobs"]
    assert (told["backend"], told["points"]) == ("embedded", 1_000_000)
    assert all(sentence.endswith(".") for sentence in told["promises"])
