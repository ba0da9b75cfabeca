"""POST /v1/pmp/gaussian and /v1/pmp/simulations over HTTP and on the command line: answers, archives, bad input."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.command import main as cli
from tests.api.requests import JSON, encoded

FOUR: dict[str, Any] = {"points": [[0.0], [0.3], [0.7], [1.1]], "query": "sum", "noise_std": 0.8, "delta": 0.01}
TARGET: dict[str, Any] = {"clip_radius": 2.0, "target": {"epsilon": 5.0, "delta": 0.01}}
SIMULATED: dict[str, Any] = {
    "experiment": "gaussian",
    "data_size": 10,
    "dimension": 2,
    "clip_radius": 3.0,
    "epsilon": 2.0,
    "trials": 3,
}


def post(client: TestClient, body: dict[str, Any] | bytes, name: str = "gaussian") -> Any:
    content = body if isinstance(body, bytes) else encoded(body)
    return client.post(f"/v1/pmp/{name}", content=content, headers=JSON)


def archived(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, **arrays)
    return file.getvalue()


def upload(client: TestClient, body: bytes) -> Any:
    return client.post("/v1/pmp/gaussian", content=body, headers={"Content-Type": "application/x-npz"})


def changed(**changes: Any) -> dict[str, Any]:
    body = {**FOUR, **changes}
    return {name: value for name, value in body.items() if value is not None}


def test_reference_sum_matches_published_value(client: TestClient) -> None:
    answer = post(client, FOUR).json()
    assert answer["epsilon_pmp"]["value"] == pytest.approx(2.9531601476349785, abs=1e-9)
    assert answer["epsilon_pmp"]["lower"] == pytest.approx(2.074282722660703, abs=1e-7)
    assert answer["conditional"] is True
    assert (answer["data_size"], answer["points"], answer["most_exposed_point"]) == (2, 4, 3)
    odds = math.exp(answer["epsilon_pmp"]["upper"])
    assert answer["success_bound"] == pytest.approx((odds + 0.01) / (1 + odds), rel=1e-12)
    assert answer["worst_case"]["epsilon"]["value"] == "Infinity"


def test_least_noise_meets_the_target(client: TestClient) -> None:
    answer = post(client, changed(noise_std=None, delta=None, **TARGET)).json()
    assert answer["delta"] == 0.01
    # r = 2 C/noise_std for every query; reference row g_sigma_5_-4.61 with Delta = 4.
    assert answer["noise_std"] == pytest.approx(4 * 0.5693793788250033, rel=1e-10)
    assert answer["worst_case"]["epsilon"]["value"] == pytest.approx(5.0, rel=1e-10)
    mean = post(client, changed(noise_std=None, delta=None, query="mean", **TARGET)).json()
    assert mean["noise_std"] == pytest.approx(answer["noise_std"] / 2, rel=1e-12)
    assert mean["epsilon_pmp"]["value"] == pytest.approx(answer["epsilon_pmp"]["value"], rel=1e-11)


def test_zero_delta_gives_infinite_epsilon(client: TestClient) -> None:
    answer = post(client, changed(delta=0.0)).json()
    assert answer["epsilon_pmp"] == {"value": "Infinity", "lower": "Infinity", "upper": "Infinity"}
    assert answer["success_bound"] == 1
    assert any("delta = 0" in note for note in answer["notes"])


def test_other_parent_ratio_is_supported(client: TestClient) -> None:
    odd = {**FOUR, "points": [[0.0], [0.3], [0.7]], "parent_ratio": 3.0}
    answer = post(client, odd).json()
    assert answer["data_size"] == 1
    assert any("1/3" in note for note in answer["notes"])
    assert answer["success_bound"] >= 2 / 3


@pytest.mark.parametrize("name", ["gaussian", "simulations"])
def test_result_is_cached_and_command_line_writes_same_bytes(
    client: TestClient, name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    body = FOUR if name == "gaussian" else SIMULATED
    first = post(client, body, name)
    assert first.status_code == 200, first.text
    assert post(client, body, name).headers["cache-status"] == "privacy-bounds; hit; detail=memory"
    assert client.get(first.headers["content-location"]).content == first.content
    file = tmp_path / "request.json"
    file.write_text(json.dumps(body))
    assert cli.main([f"pmp-{name}", str(file)]) == 0
    assert capfdbinary.readouterr().out == first.content


def test_archive_gives_same_answer_as_json(client: TestClient) -> None:
    arrays = {"points": np.array(FOUR["points"]), "query": np.array("sum"), "clip_radius": np.array(2.0)}
    from_archive = upload(client, archived(**arrays, **{"target.epsilon": 5.0, "target.delta": 0.01}))
    assert from_archive.status_code == 200, from_archive.text
    from_json = post(client, changed(noise_std=None, delta=None, **TARGET)).json()
    assert {**from_archive.json(), "digest": ""} == {**from_json, "digest": ""}
    assert client.get(from_archive.headers["content-location"]).content == from_archive.content


def test_many_points_are_computed_by_worker(client: TestClient) -> None:
    points = np.random.default_rng(0).standard_normal((600, 5))
    answer = upload(client, archived(points=points, noise_std=1.0, delta=1e-3, query=np.array("sum")))
    assert answer.status_code == 200, answer.text
    assert 0 < answer.json()["epsilon_pmp"]["value"] < 100


BAD: dict[str, tuple[dict[str, Any] | bytes, str, str]] = {
    "odd": (changed(points=[[0.0], [1.0], [2.0]]), "/points", "even number"),
    "ragged": (changed(points=[[0.0], [1.0], [2.0, 3.0], [4.0]]), "/points/2", "1 coordinates"),
    "one point": (changed(points=[[0.0]]), "/points", "2 to 50000"),
    "no coordinates": (changed(points=[[], []]), "/points/0", "1 to 4096"),
    "1e999": (encoded(FOUR).replace(b"0.3", b"1e999"), "/points/1/0", "finite number"),
    "huge": (changed(points=[[0.0], [1e13]]), "/points/1/0", "1e+12"),
    "both noises": (changed(clip_radius=1.0, target={"epsilon": 1.0, "delta": 0.1}), "", "exactly one"),
    "neither noise": (changed(noise_std=None), "", "exactly one"),
    "no delta": (changed(delta=None), "/delta", "Required"),
    "unclipped target": (changed(noise_std=None, target=TARGET["target"]), "/clip_radius", "unclipped"),
    "no noise": (changed(noise_std=0.0), "/noise_std", "[1e-12, 1e+15]"),
    "no target delta": (
        changed(noise_std=None, clip_radius=1.0, target={"epsilon": 1.0, "delta": 0.0}),
        "/target/delta",
        "[1e-300, 1)",
    ),
    "no whole share": (changed(parent_ratio=3.0), "/parent_ratio", "an integer"),
    "everything": (changed(parent_ratio=1.0), "/parent_ratio", "(1, 1000000]"),
    "too many values": (changed(points=[[0.5]] * 40_000), "", "32000 values"),
}


@pytest.mark.parametrize(("body", "pointer", "sentence"), BAD.values(), ids=BAD)
def test_bad_request_returns_422_with_pointer(client: TestClient, body: Any, pointer: str, sentence: str) -> None:
    answer = post(client, body)
    assert answer.status_code == 422
    found = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert pointer in found
    assert sentence in found[pointer]


POINTS = np.zeros((4, 2))
BAD_ARCHIVES: dict[str, tuple[bytes, str, str]] = {
    "a million points": (archived(points=np.zeros((10**6, 1)), noise_std=1.0, delta=0.1), "/points", "[2, 50000]"),
    "much memory": (archived(points=np.zeros((2000, 4000), np.int8), noise_std=1.0, delta=0.1), "/points", "4194304"),
    "odd": (archived(points=np.zeros((3, 1)), noise_std=1.0, delta=0.1), "/points", "even number"),
    "NaN": (archived(points=POINTS * np.nan, noise_std=1.0, delta=0.1), "/points", "finite"),
    "no points": (archived(noise_std=1.0, delta=0.1), "/points", "N x d"),
    "one dimension": (archived(points=np.zeros(4), noise_std=1.0, delta=0.1), "/points", "N x d"),
    "unknown": (archived(points=POINTS, labels=POINTS, noise_std=1.0, delta=0.1), "/labels", "Unknown array"),
    "pickled": (archived(points=np.array([[None, 1]] * 2, dtype=object)), "/points", "never unpickled"),
    "no noise": (archived(points=POINTS, delta=0.1), "", "exactly one"),
    "half a target": (archived(points=POINTS, clip_radius=1.0, **{"target.epsilon": 1.0}), "/target/delta", "Required"),
}


@pytest.mark.parametrize(("body", "pointer", "sentence"), BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_bad_archive_returns_422_with_pointer(client: TestClient, body: bytes, pointer: str, sentence: str) -> None:
    answer = upload(client, body)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert sentence in error["detail"]


def test_request_beyond_budget_is_rejected_with_estimate(client: TestClient) -> None:
    dear = upload(client, archived(points=np.zeros((50_000, 1)), noise_std=1.0, delta=0.1))
    assert (dear.status_code, dear.json()["type"]) == (422, "/problems/compute-budget-exceeded")
    assert dear.json()["estimated_cost"] > dear.json()["limit"]
    many = post(client, {**SIMULATED, "data_size": 5000, "trials": 1000}, "simulations")
    assert (many.status_code, many.json()["type"]) == (422, "/problems/compute-budget-exceeded")


BAD_SIMULATIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "both": ({**SIMULATED, "epsilon_on_population": 1.0}, "", "exactly one"),
    "neither": ({name: value for name, value in SIMULATED.items() if name != "epsilon"}, "", "exactly one"),
    "many outliers": ({**SIMULATED, "outliers": 21}, "/outliers", "at most 20, the number of points"),
    "objects": ({**SIMULATED, "objects": 3}, "/objects", "gaussian"),
    "delta": ({**SIMULATED, "experiment": "exponential", "delta": 0.1}, "/delta", "exponential"),
    "many subsets": ({**SIMULATED, "experiment": "exponential", "data_size": 13}, "/data_size", "at most 12"),
    "much memory": ({**SIMULATED, "data_size": 5000, "dimension": 4096}, "/dimension", "4194304"),
    "no trials": ({**SIMULATED, "trials": 0}, "/trials", "[1, 1000]"),
}


@pytest.mark.parametrize(("body", "pointer", "sentence"), BAD_SIMULATIONS.values(), ids=BAD_SIMULATIONS)
def test_bad_simulation_returns_422_with_pointer(
    client: TestClient, body: dict[str, Any], pointer: str, sentence: str
) -> None:
    answer = post(client, body, "simulations")
    assert answer.status_code == 422
    found = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert pointer in found
    assert sentence in found[pointer]


def test_simulation_summarises_its_trials(client: TestClient) -> None:
    answer = post(client, SIMULATED, "simulations").json()
    ratios = [trial["ratio"] for trial in answer["trials"]]
    assert len(ratios) == 3
    summary = answer["summary"]["ratio"]
    assert summary["mean"] == pytest.approx(np.mean(ratios))
    assert summary["standard_deviation"] == pytest.approx(np.std(ratios, ddof=1))
    assert summary["standard_error"] == pytest.approx(np.std(ratios, ddof=1) / math.sqrt(3))
    assert answer["simulation"]["delta"] == 0.01


def test_ratio_of_zeros_is_null_and_counted_as_missing(client: TestClient) -> None:
    """Ratios to an epsilon of 0 are null, and counted as missing.

    A single object reveals nothing, so its epsilon is 0.
    """
    alone = {**SIMULATED, "experiment": "exponential", "objects": 1, "data_size": 3}
    answer = post(client, alone, "simulations").json()
    assert [trial["ratio_exact"] for trial in answer["trials"]] == [None] * 3
    assert answer["summary"]["ratio_exact"] == {
        "trials": 0,
        "mean": None,
        "standard_deviation": None,
        "standard_error": None,
    }
    assert answer["summary"]["ratio"]["mean"] == 0
