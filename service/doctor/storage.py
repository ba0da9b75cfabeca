"""Checks of the data folder: permissions, free space, jobs, quarantined results, and times in the future."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from service.doctor.finding import MEGABYTE, Finding, as_mebibytes
from service.execution.quarantine import FILE_NAME as QUARANTINE_NAME
from service.execution.quarantine import ResultQuarantine
from service.jobs.diagnosis import format_duration, remedy_for
from service.jobs.errors import JobsUnavailable
from service.jobs.local.jobs_file import FILE_NAME
from service.jobs.local.schema import schema_version
from service.settings import PREFIX, Settings

LEAST_FREE_BYTES: Final = 64 * MEGABYTE
LARGEST_CLOCK_SKEW_SECONDS: Final = 5.0


def check_data_folder(settings: Settings, default: Path) -> Iterator[Finding]:
    """Yield whether embedded jobs can be stored. `default` is the folder without a setting."""
    if settings.jobs_backend == "celery":
        yield Finding("data folder", "ok", "Jobs are in Redis; no data folder is needed for them.")
        return
    folder = settings.data_folder or default
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not folder.exists():
        if os.access(existing, os.W_OK):
            yield Finding("data folder", "ok", f"{folder} does not exist, and the service will make it.")
        else:
            yield _not_writable(folder)
    elif not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield _not_writable(folder)
    else:
        yield from _check_mode(folder)
        yield from _check_jobs_file(folder / FILE_NAME)
    yield from _check_disk(existing, settings.job_stored_bytes)


def _check_disk(folder: Path, wanted_bytes: int) -> Iterator[Finding]:
    free = shutil.disk_usage(folder).free
    text = f"{as_mebibytes(free)} are free in {folder}."
    remedy = f"Free space, or lower {PREFIX}JOB_STORED_BYTES."
    if free < LEAST_FREE_BYTES:
        yield Finding("disk", "failed", text, remedy)
    elif free < wanted_bytes:
        yield Finding("disk", "warning", f"{text} Jobs may store {as_mebibytes(wanted_bytes)}.", remedy)
    else:
        yield Finding("disk", "ok", text)


def _check_jobs_file(path: Path) -> Iterator[Finding]:
    if not path.exists():
        yield Finding("jobs", "ok", "There are no jobs yet.")
        return
    try:
        # A file whose write-ahead log has no readers cannot be opened read-only in a read-only folder.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            schema_version(database)
            [state] = database.execute("PRAGMA quick_check(1)").fetchone()
            count, newest = database.execute("SELECT count(*), max(updated) FROM jobs").fetchone()
    except (JobsUnavailable, sqlite3.Error) as error:
        reason = error.reason if isinstance(error, JobsUnavailable) else getattr(error, "sqlite_errorname", str(error))
        yield Finding("jobs", "failed", f"The file of jobs cannot be read: {reason}.", remedy_for(reason))
        return
    if state != "ok":
        yield Finding("jobs", "failed", "The file of jobs is damaged.", remedy_for("SQLITE_CORRUPT"))
        return
    yield Finding("jobs", "ok", f"The file of jobs is intact and has {count} jobs.")
    if newest is not None:
        yield _check_time(newest, "the file of jobs was last changed")


def check_quarantine(settings: Settings, default: Path) -> Iterator[Finding]:
    """Yield whether the file of quarantined results can be read, and whether results are in it.

    `default` is the folder of the file if the settings name no data folder and jobs are embedded.
    """
    folder = settings.data_folder or (default if settings.jobs_backend == "embedded" else None)
    if folder is None:
        yield Finding("quarantine", "ok", "Without a data folder, quarantined results are in memory and in Redis.")
        return
    path = folder / QUARANTINE_NAME
    quarantine = ResultQuarantine(path)
    count = len(quarantine)
    if quarantine.failure or (path.exists() and not os.access(path, os.W_OK)):
        reason = quarantine.failure or f"{path}: no write permission"
        remedy = f"Give user {os.geteuid()} read and write permission. Disputed results may be served meanwhile."
        yield Finding("quarantine", "failed", f"Quarantined results cannot be read or added: {reason}.", remedy)
        return
    if quarantine.damaged_lines:
        sentence = f"{quarantine.damaged_lines} lines of {path} are damaged: their results may be served."
        yield Finding("quarantine", "warning", sentence, "Restore the file from a backup, or remove these lines.")
    if count:
        sentence = f"Two engines disagree about {count} results, which are in quarantine."
        yield Finding("quarantine", "warning", sentence, f"Report the lines of {path}, and upgrade the engine.")
    elif not quarantine.damaged_lines:
        yield Finding("quarantine", "ok", "No result is in quarantine.")


def _check_time(then: float, event: str) -> Finding:
    # clocks differ by some seconds
    ahead = then - time.time()
    if ahead <= LARGEST_CLOCK_SKEW_SECONDS:
        return Finding("clock", "ok", "The clock is not before the last stored event.")
    sentence = f"By this clock, {event} {format_duration(ahead)} in the future."
    return Finding(
        "clock", "failed", sentence, "Set the clock of this machine by NTP. Jobs end early or late meanwhile."
    )


def _check_mode(folder: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IRWXO:
        sentence = f"The data folder {folder} has mode {mode:04o}: other users may look into it."
        yield Finding("data folder", "warning", sentence, f"chmod 0700 {folder}")
    else:
        yield Finding("data folder", "ok", f"The data folder {folder} can be written.")


def _not_writable(folder: Path) -> Finding:
    remedy = f"Give user {os.geteuid()} write permission, or set {PREFIX}DATA_FOLDER to another folder."
    return Finding("data folder", "failed", f"The data folder {folder} cannot be written.", remedy)
