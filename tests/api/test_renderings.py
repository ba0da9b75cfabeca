"""Answers in other forms than JSON: which one a client gets, under which tag; and what is logged of a decision."""

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
from tests.rendering.assessed import HOSTILE

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
def test_the_form_that_is_asked_for(accept: str, expected: str) -> None:
    assert negotiate_media_type(accept, (PLAIN, *FORMS)) == expected


@pytest.mark.parametrize("accept", ["image/png", "image/*", "text/html, application/xml;q=0.9"])
def test_a_form_that_there_is_not(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        negotiate_media_type(accept, (PLAIN, *FORMS))


def test_what_there_is_is_said_before_anything_is_read(client: TestClient) -> None:
    told = client.post(ROUTE, content=b"no JSON", headers={**JSON, "Accept": "application/pdf"})
    assert told.status_code == 406
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json()["supported"] == [PLAIN, *renderings_of("assessments")]


def test_every_form_has_a_tag_of_its_own(client: TestClient) -> None:
    plain = client.post(ROUTE, json=RUN)
    assert plain.headers["content-type"] == "application/json"
    assert plain.headers["vary"] == "Accept"
    tags = {plain.headers["etag"]}
    for form in FORMS:
        told = client.post(ROUTE, json=RUN, headers={"Accept": form})
        assert told.status_code == 200
        assert told.headers["content-type"] == f"{form}; charset=utf-8"
        assert "content-location" not in told.headers
        tags.add(told.headers["etag"])
        again = client.post(ROUTE, json=RUN, headers={"Accept": form, "If-None-Match": told.headers["etag"]})
        assert (again.status_code, again.content) == (200, told.content)
        other = client.post(ROUTE, json=RUN, headers={"If-None-Match": told.headers["etag"]})
        assert other.status_code == 200
    assert len(tags) == 1 + len(FORMS)
    assert client.get(f"/v1/results/{plain.json()['digest']}").json() == plain.json()


def test_problems_stay_json(client: TestClient) -> None:
    told = client.post(ROUTE, json={"mechanism": dpsgd()}, headers={"Accept": "text/markdown"})
    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TestClient, io.BytesIO]]:
    stream = io.BytesIO()
    monkeypatch.setattr("service.server.application.make_logger", lambda level: logs.make_logger(level, stream))
    with TestClient(create_app(Settings(redis_url=None, log_level="critical"))) as client:  # decisions all the same
        yield client, stream


def test_a_decision_is_one_line_of_the_log(logged: tuple[TestClient, io.BytesIO]) -> None:
    client, stream = logged
    for body in (RUN, RUN | {"policy": GATE}, RUN | {"policy": GATE}):  # the last one from the cache
        told = client.post(ROUTE, content=json.dumps(body), headers=JSON).json()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    decisions = [line for line in lines if line["event"] == "decision"]
    assert len(decisions) == 2
    for line in decisions:
        assert set(line) == LOGGED
        assert line["requester"] == "testclient"
        assert line["verdict"] == "met"
        assert line["decision"] == told["decision"]["id"]
        assert line["result"] == told["digest"]
        assert line["missing"] == []
        assert (line["subject"], line["subject_version"], line["date"]) == (None, None, None)


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_of_clients_stay_inside_their_strings(name: str, logged: tuple[TestClient, io.BytesIO]) -> None:
    client, stream = logged
    context = {"delta": 1e-5, "date": "2026-11-23", "subject": {"name": name, "version": name}}
    policy = GATE | {"requires": [{"assumption": "noise_is_fresh"}]}
    told = client.post(ROUTE, json={**RUN, "context": context, "policy": policy}).json()
    lines = [line for line in stream.getvalue().splitlines() if b'"decision"' in line]
    [line] = [found for found in map(json.loads, lines) if found["event"] == "decision"]
    assert set(line) == LOGGED
    assert (line["subject"], line["subject_version"], line["date"]) == (name, name, "2026-11-23")
    assert (line["verdict"], line["missing"]) == ("met_if_attested", ["noise_is_fresh"])
    assert (line["decision"], line["policy"]) == (told["decision"]["id"], told["decision"]["policy"])


@pytest.mark.parametrize("text", ["line\nline", "\r", "\x1b[2J", "\x85", "\u2028", "", " ", "a" * 201])
def test_texts_that_would_break_a_line_are_never_logged(text: str, logged: tuple[TestClient, io.BytesIO]) -> None:
    client, stream = logged
    for subject in ({"name": text}, {"name": "model", "version": text}):
        told = client.post(ROUTE, json={**RUN, "context": {"delta": 1e-5, "subject": subject}, "policy": GATE})
        assert told.status_code == 422
    assert not any(json.loads(line)["event"] == "decision" for line in stream.getvalue().splitlines())
