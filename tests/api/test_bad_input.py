"""Any bad input gets a problem with a pointer and a sentence that says what is allowed; never 500, never a hang."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.parsing import parse_request
from service.resources.bounds import BOUNDS
from service.settings import Settings
from tests.api.requests import ADVANTAGE, GAUSSIAN, ROUTE, bounds, dpsgd, encoded, post


def raw(text: str) -> bytes:
    """Return a request body whose noise multiplier is `text`, character by character."""
    return encoded(bounds()).replace(b"1.0", text.encode())


def nested(depth: int) -> dict[str, Any]:
    mechanism = GAUSSIAN
    for _ in range(depth):
        mechanism = {"type": "repeated", "steps": 1, "mechanism": mechanism}
    return mechanism


def deep(depth: int) -> bytes:
    return b'{"mechanism":' + b'{"type":"repeated","steps":1,"mechanism":' * depth + b"1" + b"}" * depth + b"}"


def question(**fields: Any) -> bytes:
    return encoded(bounds(questions=[fields]))


def glrt(dimension: float) -> dict[str, Any]:
    return {"type": "glrt", "dimension": dimension}


def shifts(*values: float, **fields: Any) -> dict[str, Any]:
    return {"type": "gaussian_mixture", "noise_multiplier": 1.0, "shifts": values, **fields}


NOISE = "/mechanism/noise_multiplier"
BAD: list[tuple[str, bytes, int, str, str]] = [
    # (case, body, status, pointer, part of the sentence)
    ("NaN", raw("NaN"), 400, NOISE, "finite number"),
    ("Infinity", raw("Infinity"), 400, NOISE, "finite number"),
    ("-Infinity", raw("-Infinity"), 400, NOISE, "finite number"),
    ("1e999", raw("1e999"), 422, NOISE, "[0.0001, 1e+15]"),
    ("5e-324", raw("5e-324"), 422, NOISE, "[0.0001, 1e+15]"),
    ("text", raw('"1.0"'), 422, NOISE, "finite number"),
    ("false", raw("false"), 422, NOISE, "finite number"),
    ("null", raw("null"), 422, NOISE, "finite number"),
    ("list", raw("[1.0]"), 422, NOISE, "finite number"),
    ("noise 0", raw("0"), 422, NOISE, "[0.0001, 1e+15]"),
    ("noise 1e16", raw("1e16"), 422, NOISE, "[0.0001, 1e+15]"),
    ("many digits", raw("1" * 5000), 400, "", "valid JSON"),
    ("unknown field", encoded(bounds(extra=1)), 422, "/extra", "The fields are"),
    ("unknown field inside", encoded(bounds(dpsgd(momentum=3))), 422, "/mechanism/momentum", "The fields are"),
    ("epochs that are not the steps", encoded(bounds(dpsgd(epochs=3))), 422, "/mechanism/epochs", "are 300 steps"),
    ("weights below 1", encoded(bounds(shifts(0, 1, weights=[0.5, 0.4]))), 422, "/mechanism/weights", "sum to 1"),
    ("as they were spelled", encoded(bounds(shifts(1, sampling_probs=[0.4]))), 422, "/mechanism/sampling_probs", "sum"),
    ("too few weights", encoded(bounds(shifts(0, 1, weights=[1.0]))), 422, "/mechanism/weights", "as many weights"),
    ("a speck of a shift", encoded(bounds(shifts(1e-16, weights=[1.0]))), 422, "/mechanism/shifts/0", "1e-15"),
    ("option of another method", encoded(bounds(order=4)), 422, "/order", "edgeworth or all"),
    ("seed of no sample", encoded(bounds(method="clt", seed=1)), 422, "/seed", "monte_carlo or all"),
    ("digits 500", encoded(bounds(method="ground_truth", digits=500)), 422, "/digits", "[15, 50]"),
    ("samples 1e12", encoded(bounds(method="monte_carlo", samples=10**12)), 422, "/samples", "[1000, 10000000]"),
    ("order 9", encoded(bounds(method="all", order=9)), 422, "/order", "[0, 4]"),
    ("no type", encoded(bounds({"noise_multiplier": 1.0})), 422, "/mechanism/type", "gaussian"),
    ("wrong type", encoded(bounds({"type": "gauss"})), 422, "/mechanism/type", "gaussian"),
    ("type not text", encoded(bounds({"type": 1})), 422, "/mechanism/type", "gaussian"),
    ("question without type", question(delta=0.1), 422, "/questions/0/type", "epsilon"),
    ("deep", deep(3000), 400, "", "valid JSON"),
    ("deep lists", b"[" * 3000, 400, "", "valid JSON"),
    ("deep but closed", b"[" * 3000 + b"]" * 3000, 400, "", "valid JSON"),
    ("tree of 17", encoded(bounds(nested(17))), 422, "/mechanism", "16"),
    ("tree of 60", encoded(bounds(nested(60))), 422, "/mechanism", "16"),
    ("encoding", encoded(bounds()).replace(b"gaussian", b"g\xff\xfean"), 400, "", "UTF-8"),
    ("UTF-16", json.dumps(bounds()).encode("utf-16"), 400, "", "valid JSON"),
    ("byte order mark", b"\xef\xbb\xbf" + encoded(bounds()), 400, "", "valid JSON"),
    ("half a surrogate", encoded(bounds(method="\ud800")), 400, "", "valid JSON"),
    ("comment", encoded(bounds()) + b"// here", 400, "", "valid JSON"),
    ("empty", b"", 400, "", "valid JSON"),
    ("space", b"  \n", 400, "", "valid JSON"),
    ("truncated", encoded(bounds())[:-1], 400, "", "valid JSON"),
    ("two values", encoded(bounds()) * 2, 400, "", "valid JSON"),
    ("not an object", b"[]", 422, "", "JSON object"),
    ("null body", b"null", 422, "", "JSON object"),
    ("number", b"1", 422, "", "JSON object"),
    ("nothing in it", b"{}", 422, "/mechanism", "Required"),
    ("no questions", encoded(bounds(questions=[])), 422, "/questions", "1 to 256"),
    ("257 questions", encoded(bounds(questions=[ADVANTAGE] * 257)), 422, "/questions", "256"),
    (
        "257 components",
        encoded(bounds({"type": "composed", "mechanisms": [GAUSSIAN] * 257})),
        422,
        "/mechanism/mechanisms",
        "256",
    ),
    ("no components", encoded(bounds({"type": "composed", "mechanisms": []})), 422, "/mechanism/mechanisms", "1 to"),
    ("steps 0", encoded(bounds(dpsgd(steps=0))), 422, "/mechanism/steps", "[1, 1e+12]"),
    ("steps 1.5", encoded(bounds(dpsgd(steps=1.5))), 422, "/mechanism/steps", "integer"),
    ("steps 1e18", encoded(bounds(dpsgd(steps=10**18))), 422, "/mechanism/steps", "[1, 1e+12]"),
    ("steps 1e18 as float", encoded(bounds(dpsgd(steps=1e18))), 422, "/mechanism/steps", "[1, 1e+12]"),
    ("steps -1", encoded(bounds(dpsgd(steps=-1))), 422, "/mechanism/steps", "[1, 1e+12]"),
    ("steps text", encoded(bounds(dpsgd(steps="1000"))), 422, "/mechanism/steps", "integer"),
    ("rate 0", encoded(bounds(dpsgd(sample_rate=0))), 422, "/mechanism/sample_rate", "(0, 1]"),
    ("rate above 1", encoded(bounds(dpsgd(sample_rate=1.0000001))), 422, "/mechanism/sample_rate", "(0, 1]"),
    ("delta -1", question(type="epsilon", delta=-1), 422, "/questions/0/delta", "[0, 1]"),
    ("delta 1.5", question(type="epsilon", delta=1.5), 422, "/questions/0/delta", "[0, 1]"),
    ("epsilon 1e7", question(type="delta", epsilon=1e7), 422, "/questions/0/epsilon", "[0, 1000000]"),
    ("no rates", question(type="trade_off", false_positive_rates=[]), 422, "/questions/0/false_positive_rates", "1 to"),
    (
        "too many rates",
        question(type="trade_off", false_positive_rates=[0.5] * 10_001),
        422,
        "/questions/0/false_positive_rates",
        "10000",
    ),
    (
        "one rate wrong",
        question(type="trade_off", false_positive_rates=[0.5, 2]),
        422,
        "/questions/0/false_positive_rates/1",
        "[0, 1]",
    ),
    ("direction", question(type="advantage", direction="up"), 422, "/questions/0/direction", ""),
    ("method", encoded(bounds(method="magic")), 422, "/method", "contour"),
    ("tolerance", encoded(bounds(relative_tolerance=0)), 422, "/relative_tolerance", ""),
    ("threat model", encoded(bounds(threat_model={"type": "nobody"})), 422, "/threat_model/type", "worst_case"),
    ("dimension 0", encoded(bounds(threat_model=glrt(0))), 422, "/threat_model/dimension", "[1, 1000000000]"),
    ("dimension 1e10", encoded(bounds(threat_model=glrt(10**10))), 422, "/threat_model/dimension", "[1, 1000000000]"),
    ("dimension 1.5", encoded(bounds(threat_model=glrt(1.5))), 422, "/threat_model/dimension", "integer"),
    ("glrt of laplace", encoded(bounds({"type": "laplace", "noise_multiplier": 1.0}, threat_model=glrt(3))), 422,
     "/mechanism", "Supported: gaussian"),
    ("glrt of a sampled run", encoded(bounds(dpsgd(), threat_model=glrt(3))), 422, "/mechanism", "Supported: gaussian"),
    ("key twice", b'{"mechanism": {"type": "gdp", "mu": 1, "mu": 2}, "questions": [{"type": "advantage"}]}', 422,
     "/mechanism/mu", "once"),
    ("a number in quotes", question(type="epsilon", delta="1e-5"), 422, "/questions/0/delta", "no quotes"),
    ("a percentage", question(type="epsilon", delta="1 %"), 422, "/questions/0/delta", "0.01 for 1 %"),
    ("shuffle", encoded(bounds(dpsgd(shuffle=True))), 422, "/mechanism/shuffle", "`sampling` of the mechanism"),
    ("records beside", encoded(bounds(records=4)), 422, "/records", "in the threat model worst_case"),
    ("two spellings", encoded(bounds(dpsgd(sigma=2.0))), 422, "/mechanism/sigma", "only one"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "pointer", "sentence"), [pytest.param(*row[1:], id=row[0]) for row in BAD])
def test_bad_body_returns_problem_with_pointer(
    client: TestClient, body: bytes, status: int, pointer: str, sentence: str
) -> None:
    answer = post(client, body, X_Request_ID="bad-1")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"].startswith("/problems/")
    assert problem["title"]
    assert problem["instance"] == ROUTE
    assert problem["request_id"] == answer.headers["x-request-id"] == "bad-1"
    pointers = {error["pointer"]: error["detail"] for error in problem["errors"]}
    assert pointer in pointers
    assert sentence in pointers[pointer]
    assert all(detail.endswith(".") for detail in pointers.values())


def test_problems_do_not_repeat_sent_values(client: TestClient) -> None:
    marks = ["sekrit-value", 0.123454321]
    for mark in marks:
        for body in (bounds(dpsgd(steps=mark)), bounds(method=mark), bounds(threat_model={"type": mark}), [mark]):
            answer = post(client, encoded(body))
            assert answer.status_code == 422
            assert str(mark) not in answer.text


def test_oversized_body_is_rejected_before_it_is_read(client: TestClient) -> None:
    body = b'{"mechanism": "' + b"x" * 10_000_000 + b'"}'
    for content in (body, iter([body[:600_000], body[600_000:1_200_000]])):
        answer = client.post(ROUTE, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == "/problems/body-too-large"
        assert "x-request-id" in answer.headers


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "application/xml", "application/jsonl", "\xfc"],
)
def test_body_without_json_content_type_returns_415(client: TestClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {b"Content-Type": content_type.encode("latin-1")}
    answer = client.post(ROUTE, content=encoded(bounds()), headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_spelling_of_json_content_type_is_accepted(client: TestClient, content_type: str) -> None:
    assert client.post(ROUTE, content=encoded(bounds()), headers={"Content-Type": content_type}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/v1/nothing", 404, "not-found"),
        ("POST", "/v1/bounds/", 404, "not-found"),
        ("GET", ROUTE, 405, "method-not-allowed"),
        ("PUT", ROUTE, 405, "method-not-allowed"),
        ("DELETE", "/v1/catalogue", 405, "method-not-allowed"),
        ("BREW", "/v1/bounds", 405, "method-not-allowed"),
        ("GET", "/v1/results/sha256:" + "0" * 64, 404, "result-not-found"),
        ("GET", "/v1/results/nonsense", 422, "invalid-parameter"),
        ("GET", "/v1/results/" + "%00" * 30, 422, "invalid-parameter"),
    ],
)
def test_wrong_path_or_method_returns_problem(
    client: TestClient, method: str, path: str, status: int, kind: str
) -> None:
    answer = client.request(method, path, follow_redirects=False)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert (problem["type"], problem["status"]) == (f"/problems/{kind}", status)
    if status == 405:
        assert answer.headers["allow"]


def test_largest_valid_requests_are_accepted(client: TestClient) -> None:
    deep = GAUSSIAN
    for _ in range(14):
        deep = {"type": "repeated", "steps": 1, "mechanism": deep}
    widest = {"type": "composed", "mechanisms": [deep] * 256}
    accuracy = {"type": "attack_accuracy", "prior": 0.25, "false_positive_rate": 0.125, "direction": "both"}
    curve = {"type": "trade_off", "false_positive_rates": [0.1234567890123456789] * 10_000, "direction": "add"}
    body = encoded(bounds(widest, [accuracy] * 255 + [curve]))
    assert len(body) <= Settings(redis_url=None).max_body_bytes
    request = parse_request(BOUNDS.request_type, body)
    assert len(request.questions) == 256


def test_body_full_of_errors_is_rejected_quickly(client: TestClient) -> None:
    """A body of half a megabyte of wrong values is rejected in less than a second of work.

    Without a limit on listed errors it would take many seconds.
    """
    bodies = [
        b'{"questions": [' + b"0," * 250_000 + b"0]}",
        b'{"questions": [{"type": "trade_off", "false_positive_rates": [' + b'"",' * 150_000 + b'""]}]}',
        b'{"mechanism": {"type": "composed", "mechanisms": [' + b"{}," * 150_000 + b"{}]}}",
        b"{" + b",".join(b'"k%d": 0' % n for n in range(40_000)) + b"}",
        b'{"mechanism": ' * 35_000,
        b'{"mechanism": {"type": "gdp", "mu": ' + b"9" * 500_000 + b"}}",
        b'{"mechanism": {"type": "gdp", "mu": 0.' + b"9" * 500_000 + b"}}",
        b'{"questions": [' + b"0," * 20_000 + b"0]}",
        b'{"mechanism": {"type": "composed", "mechanisms": [' + b'{"type":"gdp","mu":1},' * 12_000 + b"0]}}",
    ]
    for body in bodies:
        started = time.process_time()
        answer = post(client, body)
        assert answer.status_code in (400, 422), body[:60]
        assert len(answer.content) < 300_000
        assert time.process_time() - started < 30, "no hang"
