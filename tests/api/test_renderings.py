"""Renderings other than JSON: content negotiation, ETags, and the log line of a decision."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.api.content_negotiation import negotiate_media_type
from service.main import create_app
from service.problems import NotAcceptable
from service.rendering.registry import renderings_of
from service.settings import Settings
from service.telemetry import logs
from tests.api.requests import JSON, dpsgd
from tests.rendering.assessment_cases import HOSTILE

ROUTE = "/v1/assessments"
FORMS = (
    "text/markdown",
    "text/plain",
    "application/vnd.mlflow.run+json",
    "application/vnd.cyclonedx+json",
    "application/ld+json",
    "application/yaml",
)
RUN: dict[str, Any] = {"mechanism": dpsgd(), "context": {"delta": 1e-5}}
LOGGED = set(
    re.findall(
        r"\w+",
        "event level timestamp request_id requester decision policy result engine_version verdict missing subject "
        "subject_version date",
    )
)
GATE = {"name": "gate", "rules": [{"question": {"type": "advantage"}, "at_most": 0.9}]}


PLAIN = "application/json"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("application/json", PLAIN),
        ("application/*", PLAIN),
        ("text/*", "text/markdown"),
        ("text/markdown", "text/markdown"),
        ("TEXT/Markdown ; q=0.5", "text/markdown"),
        ("application/json;q=0.9, text/plain", "text/plain"),
        ("application/json, text/plain;q=0.9", PLAIN),
        ("text/plain;q=0, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=nan", PLAIN),
        ("text/html, */*;q=0.1", PLAIN),
        (",;,q=1;;", PLAIN),
        ("text", PLAIN),
        ("text/markdown;q=0.5, text/plain;q=0.5", "text/markdown"),
    ],
)
def test_accept_header_selects_media_type(accept: str, expected: str) -> None:
    assert negotiate_media_type(accept, (PLAIN, *FORMS)) == expected


@pytest.mark.parametrize("accept", ["image/png", "image/*", "text/html, application/xml;q=0.9"])
def test_unsupported_accept_raises_not_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        negotiate_media_type(accept, (PLAIN, *FORMS))


def test_unsupported_accept_returns_406_before_body_is_read(client: TestClient) -> None:
    answer = client.post(ROUTE, content=b"no JSON", headers={**JSON, "Accept": "application/pdf"})
    assert answer.status_code == 406
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["supported"] == [PLAIN, *renderings_of("assessments")]


def test_every_media_type_has_its_own_etag(client: TestClient) -> None:
    plain = client.post(ROUTE, json=RUN)
    assert plain.headers["content-type"] == "application/json"
    assert plain.headers["vary"] == "Accept"
    tags = {plain.headers["etag"]}
    for form in FORMS:
        answer = client.post(ROUTE, json=RUN, headers={"Accept": form})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == f"{form}; charset=utf-8"
        assert "content-location" not in answer.headers
        tags.add(answer.headers["etag"])
        again = client.post(ROUTE, json=RUN, headers={"Accept": form, "If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (200, answer.content)
        other = client.post(ROUTE, json=RUN, headers={"If-None-Match": answer.headers["etag"]})
        assert other.status_code == 200
    assert len(tags) == 1 + len(FORMS)
    assert client.get(f"/v1/results/{plain.json()['digest']}").json() == plain.json()


def test_problem_is_json_whatever_is_accepted(client: TestClient) -> None:
    answer = client.post(ROUTE, json={"mechanism": dpsgd()}, headers={"Accept": "text/markdown"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.fixture(scope="module")
def logging_service() -> Iterator[tuple[TestClient, io.BytesIO]]:
    stream = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.server.application.make_logger", lambda level: logs.make_logger(level, stream))
        with TestClient(
            create_app(Settings(redis_url=None, log_level="critical"))
        ) as client:  # Decisions all the same.
            yield client, stream


@pytest.fixture
def logging_client(logging_service: tuple[TestClient, io.BytesIO]) -> tuple[TestClient, io.BytesIO]:
    """Return a client of a service that all tests share, and the stream of its log, which is empty before each test."""
    client, stream = logging_service
    stream.seek(0)
    stream.truncate()
    return client, stream


def test_decision_is_one_line_of_the_log(logging_client: tuple[TestClient, io.BytesIO]) -> None:
    client, stream = logging_client
    for body in (RUN, RUN | {"policy": GATE}, RUN | {"policy": GATE}):  # The last one comes from the cache.
        answer = client.post(ROUTE, content=json.dumps(body), headers=JSON).json()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    decisions = [line for line in lines if line["event"] == "decision"]
    assert len(decisions) == 2
    for line in decisions:
        assert set(line) == LOGGED
        assert line["requester"] == "testclient"
        assert line["verdict"] == "met"
        assert line["decision"] == answer["decision"]["id"]
        assert line["result"] == answer["digest"]
        assert line["missing"] == []
        assert (line["subject"], line["subject_version"], line["date"]) == (None, None, None)


@pytest.mark.parametrize("name", HOSTILE)
def test_client_texts_stay_inside_json_strings_of_log(name: str, logging_client: tuple[TestClient, io.BytesIO]) -> None:
    client, stream = logging_client
    context = {"delta": 1e-5, "date": "2026-11-23", "subject": {"name": name, "version": name}}
    policy = GATE | {"requires": [{"assumption": "noise_is_fresh"}]}
    answer = client.post(ROUTE, json={**RUN, "context": context, "policy": policy}).json()
    lines = [line for line in stream.getvalue().splitlines() if b'"decision"' in line]
    [line] = [found for found in map(json.loads, lines) if found["event"] == "decision"]
    assert set(line) == LOGGED
    assert (line["subject"], line["subject_version"], line["date"]) == (name, name, "2026-11-23")
    assert (line["verdict"], line["missing"]) == ("met_if_attested", ["noise_is_fresh"])
    assert (line["decision"], line["policy"]) == (answer["decision"]["id"], answer["decision"]["policy"])


@pytest.mark.parametrize("text", ["line\nline", "\r", "\x1b[2J", "\x85", "\u2028", "", " ", "a" * 201])
def test_texts_with_line_breaks_are_rejected_and_not_logged(
    text: str, logging_client: tuple[TestClient, io.BytesIO]
) -> None:
    client, stream = logging_client
    for subject in ({"name": text}, {"name": "model", "version": text}):
        answer = client.post(ROUTE, json={**RUN, "context": {"delta": 1e-5, "subject": subject}, "policy": GATE})
        assert answer.status_code == 422
    assert not any(json.loads(line)["event"] == "decision" for line in stream.getvalue().splitlines())
