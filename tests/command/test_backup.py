"""`privacy-bounds backup` and `restore`: what was stored comes back, and nothing else comes out of an archive."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
import stat
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.backup.archive import FORMAT, MANIFEST, VERSION
from service.command.backup import run_backup, run_restore
from service.execution.quarantine import FILE_NAME as QUARANTINE_NAME
from service.execution.quarantine import ResultQuarantine
from service.jobs.job import StoredJob
from service.jobs.local.jobs_file import FILE_NAME
from service.jobs.local.store import SqliteStore
from service.jobs.repository import Quota
from service.jobs.results_codec import compress
from tests.system.jobs import new_job

QUOTA = Quota(10**6, 2**40)
LINES = b'{"point":0}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the data folder of the settings, with one ended job, one waiting job and API keys."""
    found = tmp_path / "data"
    use(found, monkeypatch)
    with closing(SqliteStore(found)) as store:
        store.add(new_job(), b'{"first":1}', "key", b"fingerprint", QUOTA, 1)
        claim = store.claim(new_job().engine_version, "worker", 100)
        assert claim is not None
        store.save(claim, compress(LINES * claim.chunk.points), 1)
        store.add(new_job(), b'{"second":2}', None, b"", QUOTA, 1)
    (found / "keys.json").write_text('{"version":1,"keys":[]}')
    (found / "keys.secret").write_bytes(bytes(range(32)))
    return found


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(folder))


def content(folder: Path) -> list[tuple[StoredJob, bytes | None, list[bytes]]]:
    """Return all jobs of a data folder with their requests and results."""
    with closing(SqliteStore(folder)) as store:
        listed = store.list(None, 100, None).jobs
        active = {job.id for job in store.active()}
        return [
            (job, store.request(job.id) if job.id in active else None, [e.lines for e in store.results(job.id, 0, 99)])
            for job in listed
        ]


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err.removeprefix("privacy-bounds: ").strip()


def test_jobs_results_and_keys_come_back(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(folder)
    assert {job.state for job, _, _ in before} == {"succeeded", "queued"}
    archive = tmp_path / "backup.zip"
    assert run_backup(str(archive)) == 0
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    other = tmp_path / "other"
    use(other, monkeypatch)
    assert run_restore(str(archive), replaces=False) == 0
    assert content(other) == before
    for name in ("keys.json", "keys.secret"):
        assert (other / name).read_bytes() == (folder / name).read_bytes()
        assert stat.S_IMODE((other / name).stat().st_mode) == 0o600
    with closing(SqliteStore(other)) as store:
        waiting = next(job for job, _, _ in before if job.state == "queued")
        claim = store.claim(waiting.engine_version, "worker", 100)
        assert claim is not None
        assert claim.job.id == waiting.id
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup.zip", "data", "other"]


def test_backup_while_jobs_are_written_is_one_state(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()

    def write() -> None:
        with closing(SqliteStore(folder)) as store:
            while not stop.is_set():
                store.add(new_job(), random.randbytes(20_000), None, b"", QUOTA, 1)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        time.sleep(0.1)
        archives = [tmp_path / f"{number}.zip" for number in range(3)]
        assert [run_backup(str(each)) for each in archives] == [0, 0, 0]
    finally:
        stop.set()
        writing.join()
    for number, archive in enumerate(archives):
        place = tmp_path / f"restored-{number}"
        use(place, monkeypatch)
        assert run_restore(str(archive), replaces=False) == 0
        assert all(request is not None for job, request, _ in content(place) if job.state == "queued")


def test_restore_replaces_nothing_unasked(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "backup.zip"
    before = content(folder)
    assert run_backup(str(archive)) == 0
    with closing(SqliteStore(folder)) as store:
        store.add(new_job(), b"{}", None, b"", QUOTA, 1)
    after = content(folder)
    capsys.readouterr()
    assert run_restore(str(archive), replaces=False) == 2
    assert sentence(capsys).endswith(
        "has jobs.sqlite, keys.json, keys.secret already; use --replace to put them aside."
    )
    assert content(folder) == after
    assert run_restore(str(archive), replaces=True) == 0
    assert content(folder) == before
    assert (folder / "jobs.sqlite.before-restore").exists()


def test_second_restore_keeps_what_the_first_one_replaced(folder: Path, tmp_path: Path) -> None:
    """A second restore keeps the files that the first one replaced.

    Somebody who restores the wrong archive, and then the right one, still has the original files.
    """
    archive = tmp_path / "other.zip"
    before = (folder / "keys.secret").read_bytes()
    for number in range(3):
        archive.unlink(missing_ok=True)
        make_archive(archive, {"keys.json": KEYS, "keys.secret": bytes([number]) * 32})
        assert run_restore(str(archive), replaces=True) == 0
    endings = ("", ".before-restore", ".before-restore-2", ".before-restore-3")
    found = [(folder / f"keys.secret{ending}").read_bytes() for ending in endings]
    assert found == [bytes([2]) * 32, before, bytes([0]) * 32, bytes([1]) * 32]


def test_texts_of_an_archive_do_not_reach_the_terminal(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_archive(tmp_path / "backup.zip", {"keys.json": KEYS}, created="\x1b[2J\ud800")
    assert run_restore(str(tmp_path / "backup.zip"), replaces=True) == 0
    assert capsys.readouterr().out == f"{folder}: 0 jobs of the backup of an unknown time\n"


def test_quarantined_results_come_back_and_none_is_lost(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore brings back quarantined results and loses none.

    Results that were quarantined after the backup stay in quarantine. The last line of a file may be cut.
    """
    first, second = ("sha256:" + digit * 64 for digit in "12")
    ResultQuarantine(folder / QUARANTINE_NAME).add(first, "")
    with (folder / QUARANTINE_NAME).open("a") as file:
        file.write('{"digest": "sha')
    assert run_backup(str(tmp_path / "backup.zip")) == 0
    use(tmp_path / "other", monkeypatch)
    (tmp_path / "other").mkdir()
    path = tmp_path / "other" / QUARANTINE_NAME
    ResultQuarantine(path).add(second, "")
    assert run_restore(str(tmp_path / "backup.zip"), replaces=False) == 0
    found = ResultQuarantine(path)
    assert len(found) == 2
    assert first in found
    assert second in found
    assert found.damaged_lines == 1


def test_restore_needs_a_stopped_service(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import fcntl

    from service.jobs.local.scheduler import LOCK_NAME

    archive = tmp_path / "backup.zip"
    assert run_backup(str(archive)) == 0
    capsys.readouterr()
    with (folder / LOCK_NAME).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as a running service does
        assert run_restore(str(archive), replaces=True) == 2
    assert sentence(capsys) == f"a service uses {folder}; stop it first."


def test_backup_overwrites_nothing_and_needs_something(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    existing = tmp_path / "existing"
    existing.write_text("mine")
    assert run_backup(str(existing)) == 2
    assert sentence(capsys) == f"{existing} exists already; name another file."
    assert existing.read_text() == "mine"
    assert run_backup(str(tmp_path / "absent" / "backup.zip")) == 2
    assert sentence(capsys).endswith("No such file or directory.")
    use(tmp_path / "empty", monkeypatch)
    assert run_backup(str(tmp_path / "backup.zip")) == 2
    assert sentence(capsys) == f"there is nothing to back up in {tmp_path / 'empty'}."


def make_archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED, **changes: Any) -> None:
    files = {name: {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()} for name, body in members.items()}
    manifest = {"format": FORMAT, "version": VERSION, "files": files, **changes}
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest))
        for name, body in members.items():
            archive.writestr(name, body)


KEYS = b'{"version":1,"keys":[]}'
ONE_KEY = b"""{"version":1,"keys":[{"id":"0123456789abcdef","name":"a","group":"a","scopes":["compute"],
"digest":"%b","created":1,"expires":null}]}""" % (b"00" * 32)
DAMAGED_KEYS = "the API keys of the backup are damaged, or keys.secret is missing."


ENDLESS = "CREATE VIEW jobs AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


def database_bytes(path: Path, script: str) -> bytes:
    """Return the bytes of a new SQLite file after a script."""
    with closing(sqlite3.connect(path.with_suffix(".sqlite"))) as database:
        database.executescript(script)
    return path.with_suffix(".sqlite").read_bytes()


def with_database(path: Path, script: str) -> None:
    make_archive(path, {"jobs.sqlite": database_bytes(path, script)})


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: path.write_bytes(b"no archive"), "the archive is damaged, or no ZIP file."),
        (
            lambda path: zipfile.ZipFile(path, "w").close(),
            "the archive has no manifest: it is no backup of privacy-bounds.",
        ),
        (lambda path: make_archive(path, {}, format="other"), "the archive is no backup of privacy-bounds."),
        (
            lambda path: make_archive(path, {"keys.json": KEYS}, version=VERSION + 1),
            f"a newer version of privacy-bounds wrote the archive (format {VERSION + 1}, known: {VERSION}).",
        ),
        (lambda path: make_archive(path, {}, version="1"), "the archive has no version."),
        (lambda path: make_archive(path, {}, files=["keys.json"]), "the manifest of the archive is incomplete."),
        (
            lambda path: make_archive(path, {"../../evil": b"x"}),
            "the archive has other members than a backup of privacy-bounds.",
        ),
        (
            lambda path: make_archive(path, {"/etc/evil": b"x", "keys.json": KEYS}),
            "the archive has other members than a backup of privacy-bounds.",
        ),
        (
            lambda path: make_archive(path, {"keys.json": KEYS}, files={}),
            "the archive has other members than a backup of privacy-bounds.",
        ),
        (
            lambda path: make_archive(path, {"keys.json": KEYS}, files={"keys.json": {"bytes": 3, "sha256": ""}}),
            "the archive is damaged: keys.json does not have the length and the checksum of the manifest.",
        ),
        (lambda path: make_archive(path, {"jobs.sqlite": b"no database" * 99}), "jobs.sqlite is damaged."),
        (
            lambda path: with_database(path, "CREATE TABLE jobs (id); PRAGMA user_version = 1"),
            "jobs.sqlite is damaged.",
        ),
        (
            lambda path: with_database(path, ENDLESS),
            "jobs.sqlite has triggers or views, which no version of the service makes.",
        ),
        (lambda path: make_archive(path, {"keys.json": b"damaged", "keys.secret": bytes(32)}), DAMAGED_KEYS),
        (lambda path: make_archive(path, {"keys.json": ONE_KEY}), DAMAGED_KEYS),
        (lambda path: make_archive(path, {"keys.json": ONE_KEY, "keys.secret": b"short"}), DAMAGED_KEYS),
        (
            lambda path: make_archive(path, {"keys.secret": bytes(32)}),
            "the archive has keys.secret without keys.json.",
        ),
        (
            lambda path: make_archive(path, {"keys.json": KEYS}, zipfile.ZIP_LZMA),
            "the archive is compressed in another way than a backup of privacy-bounds.",
        ),
    ],
    ids=range(18),
)
def test_bad_archives_are_refused_in_one_sentence(
    folder: Path, tmp_path: Path, make: Callable[[Path], Any], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "bad.zip"
    make(archive)
    before = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "jobs.lock"}
    assert run_restore(str(archive), replaces=True) == 2
    assert sentence(capsys) == expected
    assert {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "jobs.lock"} == before
    assert not (tmp_path / "evil").exists()


def test_jobs_of_a_newer_schema_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(folder / FILE_NAME)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("PRAGMA user_version = 99")
    assert run_backup(str(tmp_path / "backup.zip")) == 2
    assert sentence(capsys).startswith("a newer version of the service wrote the file of jobs (schema 99, ")
    archive = tmp_path / "newer.zip"
    make_archive(archive, {FILE_NAME: (folder / FILE_NAME).read_bytes()})
    use(tmp_path / "other", monkeypatch)
    assert run_restore(str(archive), replaces=False) == 2
    assert sentence(capsys).startswith("a newer version of the service wrote the file of jobs (schema 99, ")
    assert not (tmp_path / "other" / FILE_NAME).exists()


def test_every_changed_byte_is_found_or_harmless(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed archive is refused in one sentence, or restores what it held before the change."""
    archive, wrong = tmp_path / "backup.zip", tmp_path / "wrong.zip"
    assert run_backup(str(archive)) == 0
    whole, drawn = archive.read_bytes(), random.Random(34)
    expected = {name: (folder / name).read_bytes() for name in ("keys.json", "keys.secret")}
    jobs = content(folder)
    for number in range(40):
        changed = bytearray(whole)
        place = drawn.randrange(len(whole))
        changed[place] ^= 1 << drawn.randrange(8)
        wrong.write_bytes(changed)
        other = tmp_path / f"other-{number}"
        use(other, monkeypatch)
        capsys.readouterr()
        code = run_restore(str(wrong), replaces=False)
        told = capsys.readouterr()
        if code == 0:
            assert {name: (other / name).read_bytes() for name in expected} == expected, place
            assert content(other) == jobs, place
        else:
            assert (code, told.err.count("\n")) == (2, 1), place
            assert not (other / FILE_NAME).exists()


def test_cluster_is_sent_to_redis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(tmp_path / "empty", monkeypatch)
    monkeypatch.setenv("PRIVACY_BOUNDS_JOBS_BACKEND", "celery")
    monkeypatch.setenv("PRIVACY_BOUNDS_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("PRIVACY_BOUNDS_SEAL_KEY", "0123456789abcdef0123456789abcdef")
    assert run_backup(str(tmp_path / "backup.zip")) == 2
    assert "are in Redis: back up its append-only file and the seal key" in capsys.readouterr().err
