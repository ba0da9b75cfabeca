"""CSV of curves holds exactly the numbers of the JSON answer, header row first, for all kinds of curves."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.main import create_app
from service.settings import Settings

DPSGD = {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 100}
REQUESTS: dict[str, dict[str, Any]] = {
    "one curve": {"mechanism": DPSGD, "grid": {"count": 20}},
    "both directions and two methods": {
        "mechanism": DPSGD,
        "methods": ["auto", "clt"],
        "directions": ["add", "remove", "both"],
        "grid": {"count": 5},
    },
    "tiny rates": {"mechanism": {"type": "gdp", "mu": 0.01}, "false_positive_rates": [1e-300, 1e-12, 0.5, 1]},
    "two equal curves": {"mechanism": DPSGD, "directions": ["add", "add"], "grid": {"count": 3}},
    "infinitely small power": {"mechanism": {"type": "gdp", "mu": 60.0}, "false_positive_rates": [1e-9, 0.9]},
}


@pytest.fixture(scope="module")
def client() -> Any:
    with TestClient(create_app(Settings(redis_url=None, log_level="error"))) as client:
        yield client


@pytest.mark.parametrize("name", REQUESTS)
def test_csv_has_all_numbers_of_the_answer(client: TestClient, name: str) -> None:
    body = REQUESTS[name]
    answer = client.post("/v1/curves", json=body).json()
    response = client.post("/v1/curves", json=body, headers={"Accept": "text/csv"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    head, *rows = csv.reader(io.StringIO(response.text, newline=""))
    assert head[0] == "false_positive_rate"
    assert len(set(head)) == len(head)
    assert [float(row[0]) for row in rows] == answer["false_positive_rates"]
    columns = [
        curve[quantity][end]
        for curve in answer["curves"]
        for quantity in ("type_two_error", "power")
        for end in ("value", "lower", "upper", "value_log10", "lower_log10", "upper_log10")
        if curve[quantity].get(end) is not None
    ]
    assert len(columns) == len(head) - 1 >= 6
    for place, column in enumerate(columns, 1):
        assert [float(row[place]) if row[place] else None for row in rows] == column


def test_command_line_writes_the_same_csv(client: TestClient, tmp_path: Any, capsysbinary: Any) -> None:
    from service import cli

    file = tmp_path / "curves.json"
    file.write_text(json.dumps(REQUESTS["one curve"]))
    assert cli.main(["curves", str(file), "--csv"]) == 0
    written = client.post("/v1/curves", json=REQUESTS["one curve"], headers={"Accept": "text/csv"}).content
    assert capsysbinary.readouterr().out == written
