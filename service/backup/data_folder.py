"""Backup of a data folder while the service runs, and restore while it is stopped."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any, Final

from service.access.errors import KeyStoreError
from service.access.key_store import FILE_NAME as KEYS_NAME
from service.access.key_store import SECRET_NAME, KeyFile
from service.backup.archive import MEMBERS, BackupError, extract_archive, write_archive
from service.engine_version import ENGINE_VERSION
from service.execution.quarantine import FILE_NAME as QUARANTINE_NAME
from service.jobs.errors import JobsUnavailable
from service.jobs.local.jobs_file import FILE_NAME, WAIT_SECONDS
from service.jobs.local.scheduler import LOCK_NAME
from service.jobs.local.schema import NAMES, schema_version

BESIDE: Final = ("-wal", "-shm")
"""Ends of the names of files that SQLite keeps beside the file of jobs."""
EARLIER: Final = ".before-restore"
"""End of the names of files that a restore replaced. Further restores append a number."""


def back_up(folder: Path, target: Path) -> tuple[int, list[str]]:
    """Write an archive of the data folder `folder` to `target`. Return the number of jobs and the member names.

    The service may run: the file of jobs is copied by SQLite, in one state. Raise BackupError if the folder has nothing
    to back up, if `target` exists, or if the file of jobs or the keys are damaged. Raise OSError.
    """
    if not any((folder / name).exists() for name in MEMBERS):
        raise BackupError(f"there is nothing to back up in {folder}")
    if target.exists():
        raise BackupError(f"{target} exists already; name another file")
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.absolute().parent) as place:
        copies, jobs = Path(place), 0
        for name in MEMBERS:
            if name == FILE_NAME and (folder / name).exists():
                jobs = _copy_jobs(folder / name, copies / name)
            elif (folder / name).exists() and (name != SECRET_NAME or (copies / KEYS_NAME).exists()):
                shutil.copyfile(folder / name, copies / name)
        if (copies / KEYS_NAME).exists():
            _check_keys(copies)
        facts = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "package": package_version("privacy-bounds"),
            "engine": ENGINE_VERSION,
            "jobs": jobs,
        }
        return jobs, write_archive(target, copies, facts)


def restore(archive: Path, folder: Path, *, replaces: bool) -> tuple[int, dict[str, Any]]:
    """Write the members of an archive into a data folder. Return the number of jobs, and the manifest.

    Raise BackupError if files of the same names exist (unless `replaces`), if a service uses the folder, or if the
    archive is damaged; raise OSError. With `replaces`, files of the folder with the same names are kept under new names
    that end in `.before-restore`, and in a number if such files exist. Quarantined results of the folder stay in
    quarantine. All members are checked before the first change.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        _without_service(folder),
        tempfile.TemporaryDirectory(prefix=".restore-", dir=folder) as place,
    ):
        copies, jobs = Path(place), 0
        manifest = extract_archive(archive, copies)
        names = list(manifest["files"])
        if FILE_NAME in names:
            jobs = _check_and_count_jobs(copies / FILE_NAME)
        if KEYS_NAME in names or SECRET_NAME in names:
            _check_keys(copies)
        if QUARANTINE_NAME in names:
            _add_quarantined(folder / QUARANTINE_NAME, copies / QUARANTINE_NAME)
        present = [name for name in names if name != QUARANTINE_NAME and os.path.lexists(folder / name)]
        if present and not replaces:
            raise BackupError(f"{folder} has {', '.join(present)} already; use --replace to put them aside")
        ending = _free_ending(folder)
        for name in names:
            _put_aside(folder / name, ending)
            (copies / name).replace(folder / name)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return jobs, manifest


def _copy_jobs(source: Path, target: Path) -> int:
    try:
        with (
            closing(sqlite3.connect(source, timeout=WAIT_SECONDS, isolation_level=None)) as original,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            schema_version(original)
            original.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    except sqlite3.Error as error:
        reason = getattr(error, "sqlite_errorname", str(error))
        raise BackupError(f"{source} cannot be copied ({reason})") from error
    except JobsUnavailable as error:
        raise BackupError(error.reason) from error
    return _check_and_count_jobs(target)


def _check_and_count_jobs(path: Path) -> int:
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            version = schema_version(database)
            if database.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone():
                raise BackupError(f"{path.name} has triggers or views, which no version of the service makes")
            [state] = database.execute("PRAGMA integrity_check(1)").fetchone()
            [jobs] = database.execute("SELECT count(*) FROM jobs").fetchone()
            if version:
                database.execute(f"SELECT {NAMES} FROM jobs LIMIT 1")  # noqa: S608 - names of columns in the source
    except sqlite3.Error as error:
        raise BackupError(f"{path.name} is damaged") from error
    except JobsUnavailable as error:
        raise BackupError(error.reason) from error
    if state != "ok":
        raise BackupError(f"{path.name} is damaged")
    return int(jobs)


@contextmanager
def _without_service(folder: Path) -> Generator[None]:
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BackupError(f"a service uses {folder}; stop it first") from None
    else:
        yield
    finally:
        os.close(descriptor)


def _check_keys(folder: Path) -> None:
    if not (folder / KEYS_NAME).exists():
        raise BackupError(f"the archive has {SECRET_NAME} without {KEYS_NAME}")
    try:
        KeyFile(folder).read()
    except KeyStoreError as error:
        raise BackupError(f"the API keys of the backup are damaged, or {SECRET_NAME} is missing") from error


def _add_quarantined(present: Path, restored: Path) -> None:
    # the last line of either file may be incomplete
    if present.exists():
        with restored.open("ab") as file:
            file.write(b"\n" + present.read_bytes())


def _free_ending(folder: Path) -> str:
    names = [name + end for name in MEMBERS for end in ("", *BESIDE)]
    endings = itertools.chain([EARLIER], (f"{EARLIER}-{number}" for number in itertools.count(2)))
    return next(each for each in endings if not any(os.path.lexists(folder / f"{name}{each}") for name in names))


def _put_aside(path: Path, ending: str) -> None:
    # SQLite keeps files beside its own
    for each in (path, *(path.with_name(path.name + end) for end in BESIDE)):
        if os.path.lexists(each):
            each.replace(each.with_name(each.name + ending))
