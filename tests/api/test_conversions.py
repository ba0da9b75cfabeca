"""POST /v1/conversions/gdp-gmip over HTTP and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api_schemas.conversions import GdpGmipResponse
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.resources.conversions.gdp_gmip import GDP_GMIP
from service.resources.digest import digest
from tests.api.requests import JSON, encoded

ROUTE = "/v1/conversions/gdp-gmip"
STEP: dict[str, Any] = {"dimension": 650, "batch_size": 500}
RUN: dict[str, Any] = {
    "mu_mip": 0.4,
    "dimension": 650,
    "batch_size": 400,
    "max_grad_norm": 500.0,
    "dataset_size": 48_000,
    "epochs": 10.0,
}


def post(client: TestClient, body: dict[str, Any], **headers: str) -> Any:
    return client.post(ROUTE, content=encoded(body), headers=JSON | headers)


def converted(client: TestClient, body: dict[str, Any]) -> GdpGmipResponse:
    answer = post(client, body)
    assert answer.status_code == 200, answer.text
    response = GdpGmipResponse.model_validate_json(answer.content)
    assert response.json_bytes() == answer.content
    return response


def test_result_has_digest_and_is_stored(client: TestClient) -> None:
    first = post(client, RUN)
    response = GdpGmipResponse.model_validate_json(first.content)
    request = GDP_GMIP.request_type.model_validate_json(encoded(RUN))
    assert response.digest == digest("gdp-gmip", ENGINE_VERSION, request)
    assert first.headers["etag"] == f'"{response.digest}"'
    stored = client.get(first.headers["content-location"])
    assert (stored.status_code, stored.content) == (200, first.content)
    asked_again = {"If-None-Match": first.headers["etag"]}
    assert client.get(first.headers["content-location"], headers=asked_again).status_code == 304
    assert post(client, RUN, **asked_again).content == first.content


def test_published_run_matches_table_5(client: TestClient) -> None:
    """A published run has 2.84 both by GMIP and by GDP, as in the first column of Table 5 (CIFAR-10).

    Corollary 5.1 alone gives 26.1. GMIP is Gaussian membership inference privacy (Leemann et al. 2023).
    """
    response = converted(client, RUN)
    noise = response.noise
    assert noise.tau_mip is not None
    assert noise.tau_dp is not None
    assert noise.noise_std is not None
    assert (round(noise.tau_mip.value, 1), round(noise.tau_dp.value, 2)) == (26.1, 2.84)
    assert noise.noise_std.value == noise.tau_dp.value
    assert noise.noise_free_mu.value == pytest.approx(0.786596, abs=5e-7)
    assert (response.noise_needed, response.conditional) == (True, True)
    assert [assumption.holds for assumption in response.assumptions] == ["unknown", "no", "unknown", "no", "no"]
    steps = {key: value for key, value in RUN.items() if key != "epochs"} | {"steps": 1200}
    assert converted(client, steps).noise == noise


def test_one_step_conversion_round_trips(client: TestClient) -> None:
    forward = converted(client, STEP | {"mu_dp": 100.0})
    assert forward.mu_dp is not None
    assert (forward.mu_dp.value, forward.mu_dp.evidence) == (100.0, "exact")
    assert forward.mu_mip.value == pytest.approx(1.1396053092097335277, rel=1e-15)
    assert (forward.mu_mip.lower, forward.mu_mip.evidence) == (None, "asymptotic")
    back = converted(client, STEP | {"mu_mip": 1.0})
    assert back.mu_dp is not None
    assert back.mu_dp.value == pytest.approx(0.16357216402190613724, rel=1e-15)


def test_above_noise_free_level_no_noise_is_needed(client: TestClient) -> None:
    response = converted(client, STEP | {"mu_mip": 1.2})
    assert (response.mu_dp, response.noise_needed) == (None, False)
    assert response.noise.noise_std is not None
    assert (response.noise.noise_std.value, response.noise.noise_std.evidence) == (0, "asymptotic")
    assert any("No noise is needed" in note for note in response.notes)


def test_independence_of_steps_is_false_without_noise(client: TestClient) -> None:
    """The assumption that steps are independent is false if they have no noise.

    It is not needed for one step.
    """
    for steps, mu, holds in ((1, 1.2, "yes"), (10, 9.0, "no"), (10, 0.5, "unknown")):
        response = converted(client, STEP | {"mu_mip": mu, "steps": steps})
        [independent] = [each for each in response.assumptions if each.text.startswith("Given the outputs")]
        assert independent.holds == holds


def test_without_clipping_norm_noise_is_null(client: TestClient) -> None:
    noise = converted(client, STEP | {"mu_mip": 0.5}).noise
    assert (noise.tau_mip, noise.tau_dp, noise.noise_std) == (None, None, None)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({}, "/mu_mip"),
        ({"mu_dp": 1.0, "mu_mip": 1.0}, "/mu_mip"),
        ({"mu_dp": 0.0}, "/mu_dp"),
        ({"mu_mip": 0}, "/mu_mip"),
        ({"mu_dp": 1.0, "epochs": 3.0}, "/epochs"),
        ({"mu_dp": 1.0, "dataset_size": 5000, "epochs": 3.0, "steps": 10}, "/epochs"),
        ({"mu_dp": 1.0, "dataset_size": 499}, "/batch_size"),
        ({"mu_dp": 1.0, "C": 0}, "/C"),
        ({"mu_dp": 1.0, "dimension": 0}, "/dimension"),
        ({"mu_dp": 1.0, "noise_std": 1.0}, "/noise_std"),
    ],
)
def test_bad_input_returns_422_with_pointer(client: TestClient, change: dict[str, Any], pointer: str) -> None:
    answer = post(client, STEP | change)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_command_line_writes_same_bytes_as_http(
    client: TestClient, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(encoded(RUN))
    assert cli.main(["gdp-gmip", str(file)]) == 0
    assert capfdbinary.readouterr().out == post(client, RUN).content
    file.write_bytes(encoded(STEP))
    assert cli.main(["gdp-gmip", str(file)]) == cli.PROBLEM_EXIT_CODE
    assert json.loads(capfdbinary.readouterr().err)["errors"][0]["pointer"] == "/mu_mip"
