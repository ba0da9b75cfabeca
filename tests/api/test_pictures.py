"""Pictures and reports over HTTP: their types, tags and headers; what draws them is limited as workers are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.web.forms import HTML, PNG, SVG, VEGA_LITE
from tests.api.requests import JSON, dpsgd
from tests.web.pictures import HOSTILE

CURVES: dict[str, Any] = {"mechanism": {"type": "gaussian", "noise_multiplier": 2.0}, "grid": {"count": 5}}
RUN: dict[str, Any] = {"mechanism": dpsgd(), "context": {"delta": 1e-5}}
STARTS = {SVG: b"<svg ", PNG: b"\x89PNG", VEGA_LITE: b"{"}


@pytest.mark.parametrize("form", STARTS)
def test_a_curve_is_a_picture(form: str, client: TestClient) -> None:
    told = client.post("/v1/curves", json=CURVES, headers={"Accept": form})
    assert told.status_code == 200
    assert told.content.startswith(STARTS[form])
    assert told.headers["content-type"] == (PNG if form == PNG else f"{form}; charset=utf-8")
    assert told.headers["vary"] == "Accept"
    assert told.headers["x-content-type-options"] == "nosniff"
    again = {"Accept": form, "If-None-Match": told.headers["etag"]}
    assert client.post("/v1/curves", json=CURVES, headers=again).status_code == 304
    assert client.post("/v1/curves", json=CURVES, headers={"Accept": form}).content == told.content


def test_the_digests_in_a_spec_are_of_results_that_can_be_fetched(client: TestClient) -> None:
    spec = client.post("/v1/assessments", json=RUN, headers={"Accept": VEGA_LITE}).json()
    digests = spec["usermeta"]["digests"]
    assert len(digests) == 5
    found = [client.get(f"/v1/results/{digest}") for digest in digests]
    assert [each.status_code for each in found] == [200] * 5
    assert [each.json()["digest"] for each in found] == digests


def test_a_report_is_a_page_with_a_strict_policy(client: TestClient) -> None:
    policy = {"name": HOSTILE, "rules": [{"question": {"type": "advantage"}, "at_most": 0.9}]}
    told = client.post("/v1/assessments", json=RUN | {"policy": policy}, headers={"Accept": HTML})
    assert told.status_code == 200
    assert told.headers["content-type"] == "text/html; charset=utf-8"
    assert told.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert told.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE not in told.text
    assert told.text.count('<svg class="marks"') + told.text.count("<svg xmlns") == 4


@pytest.mark.parametrize("form", [SVG, HTML, VEGA_LITE])
def test_problems_stay_json(form: str, client: TestClient) -> None:
    told = client.post("/v1/assessments", content=json.dumps({"mechanism": dpsgd()}), headers={**JSON, "Accept": form})
    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"


def test_what_a_resource_is_not_drawn_as_is_refused(client: TestClient) -> None:
    told = client.post("/v1/curves", json=CURVES, headers={"Accept": HTML})
    assert told.status_code == 406
    assert {SVG, PNG, VEGA_LITE} <= set(told.json()["supported"])
