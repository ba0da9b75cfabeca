"""Charts and reports over HTTP: media types, ETags and headers, and limits of the process that renders them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from api_schemas.curves import CurvesRequest
from privacy_bounds import Local
from service.main import create_app
from service.rendering.registry import HTML, PNG, SVG, VEGA_LITE
from service.resources.curves import CURVES as CURVES_OF
from service.settings import Settings
from tests.api.requests import JSON, dpsgd
from tests.rendering.chart_cases import HOSTILE

CURVES: dict[str, Any] = {"mechanism": {"type": "gaussian", "noise_multiplier": 2.0}, "grid": {"count": 5}}
RUN: dict[str, Any] = {"mechanism": dpsgd(), "context": {"delta": 1e-5}}
STARTS = {SVG: b"<svg ", PNG: b"\x89PNG", VEGA_LITE: b"{"}


@pytest.mark.parametrize("form", STARTS)
def test_curve_is_rendered_as_chart(form: str, client: TestClient) -> None:
    answer = client.post("/v1/curves", json=CURVES, headers={"Accept": form})
    assert answer.status_code == 200
    assert answer.content.startswith(STARTS[form])
    assert answer.headers["content-type"] == (PNG if form == PNG else f"{form}; charset=utf-8")
    assert answer.headers["vary"] == ("Accept" if form == PNG else "Accept, Accept-Encoding")
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = {"Accept": form, "If-None-Match": answer.headers["etag"]}
    assert client.post("/v1/curves", json=CURVES, headers=again).content == answer.content
    assert client.post("/v1/curves", json=CURVES, headers={"Accept": form}).content == answer.content


@pytest.mark.parametrize("form", STARTS)
def test_text_charts_are_compressed_on_request(form: str, client: TestClient) -> None:
    plain = client.post("/v1/curves", json=CURVES, headers={"Accept": form, "Accept-Encoding": "identity"})
    packed = client.post("/v1/curves", json=CURVES, headers={"Accept": form, "Accept-Encoding": "br;q=1, gzip;q=0.5"})
    refused = client.post("/v1/curves", json=CURVES, headers={"Accept": form, "Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in refused.headers
    assert packed.headers.get("content-encoding") == (None if form == PNG else "gzip")
    assert plain.content == packed.content == refused.content  # Decompressed by the client.
    assert (packed.headers["etag"] == plain.headers["etag"]) == (form == PNG)
    if form != PNG:
        assert int(packed.headers["content-length"]) < len(packed.content) / 2


def test_chart_is_cached_with_its_result(client: TestClient) -> None:
    drawn = client.post("/v1/curves", json=CURVES, headers={"Accept": SVG})
    digest = client.post("/v1/curves", json=CURVES).json()["digest"]
    memory = client.app_state["services"].renderings.memory
    assert memory.lookup(f"curves;{SVG}", digest) == drawn.content
    memory.put(f"curves;{SVG}", digest, b"<svg kept/>")
    assert client.post("/v1/curves", json=CURVES, headers={"Accept": SVG}).content == b"<svg kept/>"
    memory.put(f"curves;{SVG}", digest, drawn.content)


def test_charts_requested_together_keep_order_of_runs() -> None:
    runs = [{"name": f"noise {noise}", "mechanism": dpsgd(noise_multiplier=noise)} for noise in (4.0, 0.8, 2.0, 1.0)]
    body = json.dumps({"runs": runs, "questions": [{"type": "advantage"}]}).encode()
    with TestClient(create_app(Settings(redis_url=None, worker_count=2))) as client:
        answer = client.post("/v1/comparisons", content=body, headers={**JSON, "Accept": VEGA_LITE}).json()
    assert answer == json.loads(Local().send("/v1/comparisons", body, VEGA_LITE))
    assert len(answer["usermeta"]["digests"]) == 5


def test_incomplete_chart_has_no_etag_and_is_not_cached() -> None:
    short = dpsgd(steps=20)
    run = {"mechanism": short, "context": {"delta": 1e-5, "dimension": 9, "unknown_direction": "fresh_each_step"}}
    glrt = {"type": "glrt", "dimension": 9, "unknown_direction": "fresh_each_step"}
    curve = CurvesRequest.model_validate_json(json.dumps({"mechanism": short, "threat_models": [glrt], "grid": {}}))
    with TestClient(create_app(Settings(redis_url=None, max_cost=CURVES_OF.quote(curve).minimum * 2 // 3))) as client:
        answer = client.post("/v1/assessments", json=run, headers={"Accept": VEGA_LITE})
        digest = client.post("/v1/assessments", json=run).json()["digest"]
        assert client.app_state["services"].renderings.memory.lookup(f"assessments;{VEGA_LITE}", digest) is None
    assert answer.status_code == 200
    assert "etag" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    roc = next(each for each in answer.json()["vconcat"] if each["name"] == "roc")
    assert {row["series"] for row in roc["data"]["values"]} == {"Worst case"}


def test_digests_in_spec_can_be_fetched(client: TestClient) -> None:
    spec = client.post("/v1/assessments", json=RUN, headers={"Accept": VEGA_LITE}).json()
    digests = spec["usermeta"]["digests"]
    assert len(digests) == 5
    found = [client.get(f"/v1/results/{digest}") for digest in digests]
    assert [each.status_code for each in found] == [200] * 5
    assert [each.json()["digest"] for each in found] == digests


def test_report_page_has_strict_policy(client: TestClient) -> None:
    policy = {"name": HOSTILE, "rules": [{"question": {"type": "advantage"}, "at_most": 0.9}]}
    answer = client.post("/v1/assessments", json=RUN | {"policy": policy}, headers={"Accept": HTML})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE not in answer.text
    assert answer.text.count('<svg class="marks"') + answer.text.count("<svg xmlns") == 4


@pytest.mark.parametrize("form", [SVG, HTML, VEGA_LITE])
def test_problem_is_json_whatever_is_accepted(form: str, client: TestClient) -> None:
    answer = client.post(
        "/v1/assessments", content=json.dumps({"mechanism": dpsgd()}), headers={**JSON, "Accept": form}
    )
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_unsupported_chart_type_returns_406(client: TestClient) -> None:
    answer = client.post("/v1/curves", json=CURVES, headers={"Accept": HTML})
    assert answer.status_code == 406
    assert {SVG, PNG, VEGA_LITE} <= set(answer.json()["supported"])
