"""POST /v1/sweeps over HTTP, on the command line and from Python: one answer in several renderings."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from privacy_bounds import Local, Refused
from service.command import main as cli
from tests.api.requests import JSON, encoded

ROUTE = "/v1/sweeps"
RUN: dict[str, Any] = {"type": "gaussian", "noise_multiplier": 1.0}
EPSILON: dict[str, Any] = {"type": "epsilon", "delta": 1e-5}
NOISE = "/mechanism/noise_multiplier"
BODY: dict[str, Any] = {"mechanism": RUN, "vary": {NOISE: {"values": [1.0, -1.0, 2.0]}}, "questions": [EPSILON]}


def test_result_has_digest_and_several_renderings(client: TestClient) -> None:
    first = client.post(ROUTE, content=encoded(BODY), headers=JSON)
    assert first.status_code == 200
    answer = first.json()
    assert (answer["points"], [each["point"] for each in answer["problems"]]) == (3, [1])
    assert client.get(first.headers["content-location"]).content == first.content
    spelled = BODY | {"vary": {"/mechanism/sigma": {"values": [1, -1, 2]}}, "combine": "product", "rtol": 1e-6}
    again = client.post(ROUTE, content=encoded(spelled), headers=JSON)
    assert (again.content, again.headers["cache-status"]) == (first.content, "privacy-bounds; hit; detail=memory")
    lines = client.post(ROUTE, content=encoded(BODY), headers=JSON | {"Accept": "application/x-ndjson"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line)["numbers"][NOISE] for line in lines.text.splitlines()] == [1.0, -1.0, 2.0]
    table = client.post(ROUTE, content=encoded(BODY), headers=JSON | {"Accept": "text/csv"})
    assert [row[NOISE] for row in csv.DictReader(io.StringIO(table.text))] == ["1.0", "-1.0", "2.0"]


def test_bad_input_returns_422_with_pointer(client: TestClient) -> None:
    refused = client.post(
        ROUTE, content=encoded(BODY | {"vary": {NOISE: {"from": 0, "to": 1, "count": 10**9}}}), headers=JSON
    )
    assert refused.status_code == 422
    [error] = refused.json()["errors"]
    assert error["pointer"] == "/vary/~1mechanism~1noise_multiplier/count"
    assert "10000" in error["detail"]
    twice = encoded(BODY).replace(b'"vary": {', b'"vary": {"/mechanism/noise_multiplier": {"values": [1.0]},')
    assert client.post(ROUTE, content=twice, headers=JSON).status_code == 422


def test_limits_of_sweeps_are_listed(client: TestClient) -> None:
    limits = client.get("/v1/limits").json()["request"]
    assert (limits["sweep_points"], limits["sweep_numbers"]) == (10_000, 100_000)


def test_command_line_writes_same_bytes_as_http(
    client: TestClient, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "sweep.json"
    file.write_bytes(encoded(BODY))
    assert cli.main(["sweeps", str(file)]) == 0
    assert capsysbinary.readouterr().out == client.post(ROUTE, content=encoded(BODY), headers=JSON).content
    assert cli.main(["sweeps", str(file), "--accept", "text/csv"]) == 0
    assert capsysbinary.readouterr().out.count(b"\r\n") == 4


def test_python_client_returns_columns() -> None:
    steps = {"from": 1, "to": 100, "count": 3, "spacing": "log"}
    run = {"type": "repeated", "mechanism": RUN, "steps": 1}
    found = Local().sweep(run, {"/mechanism/mechanism/sigma": (1.0, 2.0), "/mechanism/steps": steps}, [EPSILON])
    columns = found.columns()
    assert len(found) == 6
    assert columns["noise_multiplier"] == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert columns["steps"] == [1, 10, 100] * 2
    assert {len(column) for column in columns.values()} == {6}
    value, lower, upper = (columns[f"epsilon(delta=1e-05){end}"] for end in ("", " lower", " upper"))
    assert value == upper
    assert all(low <= high for low, high in zip(lower, upper, strict=True))
    assert columns["problem"] == [None] * 6
    with pytest.raises(Refused) as caught:
        Local().sweep(run, {"/mechanism/steps": []}, [EPSILON])
    assert caught.value.pointer == "/vary/~1mechanism~1steps/values"
