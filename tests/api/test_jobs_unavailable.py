"""A service without a working job store: it reports the fault, answers other requests, and accepts jobs after
repair.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.jobs.local.jobs_file import FILE_NAME
from service.main import create_app
from service.settings import Settings
from tests.api.requests import bounds
from tests.timeouts import TEST_TIMEOUT


def newer_file(folder: Path) -> Callable[[], None]:
    folder.mkdir()
    with closing(sqlite3.connect(folder / FILE_NAME)) as database:
        database.execute("PRAGMA user_version = 7")
    return (folder / FILE_NAME).unlink


def folder_in_the_way(folder: Path) -> Callable[[], None]:
    folder.write_text("a file")
    return folder.unlink


def no_database(folder: Path) -> Callable[[], None]:
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(b"nothing of the kind" * 100)
    return (folder / FILE_NAME).unlink


def check_of_jobs(client: TestClient) -> dict[str, Any]:
    answer = client.get("/readyz?verbose")
    assert answer.status_code == 200, "requests are answered"
    [check] = [each for each in answer.json()["checks"] if each["name"] == "jobs"]
    return dict(check)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [(newer_file, "a newer version of the service wrote"), (folder_in_the_way, "Error"), (no_database, "NOTADB")],
)
def test_unusable_data_folder_disables_only_jobs(
    tmp_path: Path, spoil: Callable[[Path], Callable[[], None]], sentence: str
) -> None:
    repair = spoil(tmp_path / "data")
    settings = Settings(redis_url=None, data_folder=tmp_path / "data", worker_count=1, log_level="critical")
    job = {"resource": "bounds", "request": bounds()}
    with TestClient(create_app(settings)) as client:
        refused = client.post("/v1/jobs", json=job)
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/jobs-unavailable")
        assert refused.headers["retry-after"]
        assert client.get("/v1/jobs").status_code == 503
        assert client.post("/v1/bounds", json=bounds()).status_code == 200
        deadline = time.monotonic() + TEST_TIMEOUT
        while sentence not in (check := check_of_jobs(client))["detail"]:
            assert time.monotonic() < deadline, check
            time.sleep(0.05)
        assert check["status"] == "degraded"
        repair()
        place = client.post("/v1/jobs", json=job).headers["location"]
        while client.get(place).json()["state"] != "succeeded" or check_of_jobs(client)["status"] != "ok":
            assert time.monotonic() < deadline
            time.sleep(0.05)
