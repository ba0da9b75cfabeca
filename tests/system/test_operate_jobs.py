"""`privacy-bounds operate jobs`: operations on the job storage while the service runs, hangs, or is down."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from privacy_bounds import Client
from service.command.main import main
from service.jobs.local.jobs_file import FILE_NAME
from service.jobs.local.store import SqliteStore
from tests.conftest import stopped
from tests.jobs.test_diagnosis import QUOTA
from tests.slow_requests import LONG
from tests.system.jobs import cluster, new_job, submit, sweep, wait_for, wait_until_ended
from tests.system.running_server import running_server
from tests.system.test_operator_port import operator


class Operator:
    """The command `privacy-bounds operate jobs` on a data folder, and its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._capsys = capsys
        monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(folder))

    def says(self, *words: str) -> str:
        assert main(["operate", "jobs", *words]) == 0
        said = self._capsys.readouterr()
        assert said.err == ""
        return said.out

    def tells(self, *words: str) -> Any:
        return json.loads(self.says(*words, "--json"))

    def complains(self, *words: str) -> str:
        assert main(["operate", "jobs", *words]) == 2
        said = self._capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        return said.err


@pytest.mark.thorough
def test_operator_lists_and_ends_jobs_of_running_hanging_and_stopped_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = tmp_path / "operator.sock", tmp_path / "data"
    command = Operator(capsys, monkeypatch, folder)
    with running_server(tmp_path, operator_bind=f"unix:{path}", job_workers="1", log_level="warning") as client:
        ended = submit(client, "sweeps", sweep(10))
        assert wait_until_ended(client, ended)["state"] == "succeeded"
        running, waiting = (submit(client, "bounds", LONG | {"digits": digits}).split("/")[-1] for digits in (49, 50))
        with operator(path) as theirs:
            wait_for(lambda: "The job is running" in theirs.get(f"/operate/jobs/{running}").json()["why"])
            listed = theirs.get("/operate/jobs").json()
            assert [job["id"] for job in listed["jobs"]] == [running, waiting]
            assert {job["requester"] for job in listed["jobs"]} == {"127.0.0.1"}
            assert len(theirs.get("/operate/jobs?all&limit=2").json()["jobs"]) == 2
            assert theirs.get("/operate/jobs?all&cursor=x").json()["type"] == "/problems/invalid-parameter"
            assert theirs.get("/operate/jobs/nothing").status_code == 404
            assert theirs.delete("/operate/jobs").json() == {"removed": 0}
        own = [job.id for job in Client(str(client.base_url)).jobs()]
        assert own == [waiting, running, ended.split("/")[-1]]
        assert main(["jobs", "list", "--url", str(client.base_url)]) == 0
        assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == own
        with stopped(client.process_id):  # type: ignore[attr-defined]
            turn = "The job waits for its turn. Earlier jobs of its requester: "
            assert turn in command.says("show", waiting)
            assert command.tells("cancel", running)["why"] == "The job has ended: cancelled."
        wait_for(lambda: "The job is running" in command.says("show", waiting))
    wait_for(
        lambda: (
            "The job waits for a worker, and no worker is running; the last" in command.tells("show", waiting)["why"]
        )
    )
    assert waiting in command.says("list")
    assert command.tells("purge", "--ended") == {"removed": 2}
    assert command.tells("purge", waiting) == {"removed": 1}
    assert command.says("list", "--ended") == "There are no such jobs.\n"


def test_missing_job_or_folder_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with closing(SqliteStore(folder)) as store:
        store.add(new_job(), b"{}", None, b"", QUOTA, 1)
    command = Operator(capsys, monkeypatch, folder)
    assert command.complains("show", "nothing") == "privacy-bounds: no job has the id nothing.\n"
    assert "--cursor: Must be the `next`" in command.complains("list", "--ended", "--cursor", "x")
    with closing(sqlite3.connect(folder / FILE_NAME)) as database:
        database.execute("PRAGMA user_version = 99")
    said = command.complains("list")
    assert "a newer version of the service wrote the file of jobs" in said
    assert "Start the newer version again" in said
    (folder / FILE_NAME).write_bytes(b"this is no file of jobs" * 100)
    assert "contains no jobs" in command.complains("list")
    monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(tmp_path / "nowhere"))
    assert "there is no jobs.sqlite in" in command.complains("list")
    assert not (tmp_path / "nowhere").exists(), "a look makes nothing"


@pytest.mark.thorough
def test_cluster_worker_serves_metrics_and_operator_sees_its_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "worker.sock"
    command = Operator(capsys, monkeypatch, tmp_path)
    with cluster(tmp_path, workers=0) as made:
        for name, value in made.settings.items():
            monkeypatch.setenv(f"PRIVACY_BOUNDS_{name.upper()}", value)
        with running_server(tmp_path, **made.settings, log_level="warning") as client:
            name = submit(client, "sweeps", sweep(20)).split("/")[-1]
            assert "no worker is running" in command.tells("show", name)["why"]
            monkeypatch.setenv("PRIVACY_BOUNDS_OPERATOR_BIND", f"unix:{path}")
            made.start_worker()
            monkeypatch.delenv("PRIVACY_BOUNDS_OPERATOR_BIND")
            wait_until_ended(client, f"/v1/jobs/{name}")
            with operator(path) as theirs:
                assert 'privacy_bounds_job_points_total{outcome="done"} 20.0' in theirs.get("/metrics").text
            shown = command.tells("show", name)
            assert shown["why"] == "The job has ended: succeeded."
            assert [worker["engine_version"] for worker in shown["workers"]] == [shown["engine_version"]]
            assert command.tells("list", "--ended")["jobs"][0]["id"] == name
        made.workers[0].terminate()
        made.workers[0].wait()
        assert not path.exists()
        assert command.tells("purge", "--ended") == {"removed": 1}
        assert command.says("list", "--ended") == "There are no such jobs.\n"
    assert "Start Redis" in command.complains("list")


@pytest.mark.parametrize("words", [["show"], ["cancel"], ["list", "x"], ["jump"], ["list", "--limit", "0"]], ids=str)
def test_wrong_arguments_exit_with_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["operate", "jobs"], ["jobs"]) if words in (["list", "x"], ["cancel"]) else (["operate", "jobs"],):
        with pytest.raises(SystemExit) as caught:
            main([*command, *words])
        assert caught.value.code == 2
        assert "privacy-bounds" in capsys.readouterr().err


def test_full_disk_is_named_as_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "small"
    command = Operator(capsys, monkeypatch, place)
    with mounted(place, "size=1m"):
        with closing(SqliteStore(place)) as store:
            job = store.add(replace(new_job(), digest="sha256:" + "0" * 64), b"{}", None, b"", QUOTA, 1)
            filler = place / "filler"
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            assert "The disk of the data folder is full" in command.says("show", job.id)
        filler.unlink()
        assert "The job waits for a worker" in command.says("show", job.id)


@pytest.mark.thorough
def test_read_only_data_folder_is_reported(tmp_path: Path) -> None:
    place = tmp_path / "data"
    with mounted(place, "size=8m,ro"), running_server(tmp_path, log_level="warning") as client:

        def jobs() -> dict[str, str]:
            answer = client.get("/readyz?verbose")
            assert answer.status_code == 200
            return next(check for check in answer.json()["checks"] if check["name"] == "jobs")

        wait_for(lambda: "Read-only" in jobs()["detail"])
        assert jobs()["status"] == "degraded"
        assert "The data folder is read-only. Give the user of the service write permission." in jobs()["detail"]
        body = {"resource": "sweeps", "request": sweep(2)}
        assert client.post("/v1/jobs", json=body).json()["type"] == "/problems/jobs-unavailable"
        lines = [json.loads(line) for line in (tmp_path / "server.log").read_text("utf-8").splitlines()]
        assert any(line["event"] == "jobs" and "read-only" in line.get("remedy", "") for line in lines)
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        wait_for(lambda: jobs()["status"] == "ok")
        assert wait_until_ended(client, submit(client, "sweeps", sweep(2)))["state"] == "succeeded"


@contextmanager
def mounted(place: Path, options: str) -> Generator[None]:
    """Provide a file system in memory, mounted at `place` with these `options`, during the block."""
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def test_list_of_jobs_has_only_own_jobs(tmp_path: Path) -> None:
    with running_server(tmp_path, trusted_proxies="127.0.0.1", log_level="warning") as client:

        def listed(address: str, **parameters: str) -> httpx2.Response:
            return client.get("/v1/jobs", params=parameters, headers={"X-Forwarded-For": address})

        ids = [
            submit(client, "sweeps", sweep(points), **{"X-Forwarded-For": "192.0.2.1"}).split("/")[-1]
            for points in (2, 3, 4)
        ]
        assert [job["id"] for job in listed("192.0.2.1").json()["jobs"]] == ids[::-1]
        assert listed("192.0.2.2").json() == {"jobs": [], "next": None}
        first = listed("192.0.2.1", limit="2").json()
        assert [job["id"] for job in first["jobs"]] == ids[:0:-1]
        second = listed("192.0.2.1", limit="2", cursor=first["next"]).json()
        assert ([job["id"] for job in second["jobs"]], second["next"]) == ([ids[0]], None)
        for wrong in ({"cursor": "nothing"}, {"cursor": "9" * 65}, {"cursor": ""}, {"limit": "0"}, {"limit": "1001"}):
            answer = listed("192.0.2.1", **wrong)
            assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-parameter")
            assert next(iter(wrong)) in answer.json()["errors"][0]["detail"]
