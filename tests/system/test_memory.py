"""The largest allowed requests are answered by a worker with the memory of the compose file.

`make system` tests larger ones, which take longer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from api_schemas.gradients import LARGEST_DIMENSION
from tests.system.running_server import running_server
from tests.timeouts import TEST_TIMEOUT

COMPOSE = (Path(__file__).parents[2] / "docker-compose.yml").read_text("utf-8")
SEED = 20263
IS_THOROUGH = "LONGEST_WAIT_SECONDS" in os.environ


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    found = re.search(r'WORKER_MEMORY_LIMIT_BYTES: "(\d+)"', COMPOSE)
    assert found
    limits = {
        "worker_memory_limit_bytes": found[1],
        "max_cost": "100000000",  # admits the decomposition of the largest covariance
        "worker_count": "1",
        "time_limit_seconds": str(10 * TEST_TIMEOUT),
    }
    with running_server(tmp_path_factory.mktemp("server"), **limits, worker_niceness="0") as client:
        client.timeout = 10 * TEST_TIMEOUT
        yield client


def archive(dimension: int, queries: int, **background: tuple[int, ...]) -> bytes:
    """Return the archive of a GLiR (gradient likelihood ratio) audit in single precision.

    As doubles its arrays take twice as much memory.
    """
    source = np.random.default_rng(SEED)
    shapes = {"mean_gradient": (dimension,), "query_gradients": (queries, dimension), **background}
    arrays = {f"steps.0.{name}": source.random(shape, dtype=np.float32) for name, shape in shapes.items()}
    if "background_covariance" in background:
        arrays["steps.0.background_covariance"] = np.eye(dimension, dtype=np.float32)
    written = BytesIO()
    np.savez(written, allow_pickle=False, batch_size=np.int64(64), **arrays)
    return written.getvalue()


ARCHIVES: list[tuple[int, int, dict[str, tuple[int, ...]]]] = [
    (160, 200, {"background_gradients": (99_800, 160)}),
    *([(3_600, 100, {"background_mean": (3_600,), "background_covariance": (3_600, 3_600)})] if IS_THOROUGH else []),
]


@pytest.mark.parametrize(("dimension", "queries", "background"), ARCHIVES)
def test_largest_archives_fit_into_worker_memory(
    server: httpx2.Client, dimension: int, queries: int, background: dict[str, tuple[int, ...]]
) -> None:
    body = archive(dimension, queries, **background)
    assert 50 * 2**20 < len(body) < server.get("/v1/limits").json()["upload_bytes"]
    answer = server.post("/v1/audits/glir", content=body, headers={"Content-Type": "application/x-npz"})
    assert answer.status_code == 200, answer.text


def samples(mechanism: dict[str, Any], number: int) -> dict[str, Any]:
    questions = [{"type": "delta", "epsilon": 1.0}]
    return {"mechanism": mechanism, "questions": questions, "method": "monte_carlo", "samples": number}


GAUSSIAN: dict[str, Any] = {"type": "gaussian", "noise_multiplier": 1.0}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/audits/glir", {"simulate": {"dimension": LARGEST_DIMENSION, "queries": 2_048}, "batch_size": 64}),
    ("/v1/bounds", samples(GAUSSIAN, 10**7)),
]
PARTS = [{"type": "gaussian", "noise_multiplier": 1 + number / 100} for number in range(256)]
SWEPT: dict[str, Any] = {
    "mechanism": {"type": "composed", "mechanisms": PARTS},
    "vary": {"/mechanism/mechanisms/0/noise_multiplier": {"from": 1, "to": 9, "count": 1_000}},
    "questions": [{"type": "delta", "epsilon": 1.0}],
}
REQUESTS.append(("/v1/sweeps", SWEPT))
if IS_THOROUGH:
    noisy = {"simulate": {"dimension": LARGEST_DIMENSION, "queries": 2_000}, "batch_size": 64, "noise_std": 1.0}
    REQUESTS.append(("/v1/audits/glir", noisy))
    sampled = {"type": "poisson_sampled", "sample_rate": 0.01, "mechanism": GAUSSIAN}
    REQUESTS.append(("/v1/bounds", samples(sampled, 10**7)))


@pytest.mark.parametrize(("route", "request_"), REQUESTS)
def test_largest_simulations_fit_into_worker_memory(
    server: httpx2.Client, route: str, request_: dict[str, Any]
) -> None:
    answer = server.post(route, json=request_)
    assert answer.status_code == 200, answer.text
