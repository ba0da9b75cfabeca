"""Storage quota of the file of jobs, and removal of ended jobs to make room."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from service.execution.errors import QueueFull
from service.jobs.job import StoredJob
from service.jobs.local.schema import ACTIVE, NAMES, job_from_row
from service.jobs.repository import Quota

RETRY_SECONDS: Final = 5


def stored_bytes(database: sqlite3.Connection) -> int:
    """Return the bytes of all jobs (requests and results), as the quota counts them."""
    return int(database.execute("SELECT coalesce(sum(bytes), 0) FROM jobs").fetchone()[0])


def make_room(database: sqlite3.Connection, requester: str, quota: Quota, counted: int) -> None:
    """Remove ended jobs until a requester (group or address) may store `counted` more bytes.

    Only ended jobs of requesters that store at least as much as this one are removed. Raise QueueFull if the requester
    would still hold more bytes than are free then, and if it has at least as many active jobs as `quota` leaves free.
    """
    count = f"SELECT count(*), coalesce(sum(requester = ?), 0) FROM jobs WHERE {ACTIVE}"
    everybody, own = database.execute(count, (requester,)).fetchone()
    if own >= quota.jobs - everybody:
        raise QueueFull(RETRY_SECONDS)
    while True:
        held = "SELECT coalesce(sum(bytes), 0) FROM jobs WHERE requester = ?"
        [own] = database.execute(held, (requester,)).fetchone()
        if own + counted <= quota.stored_bytes - stored_bytes(database):
            return
        if not remove_oldest_ended(database, at_least=own):
            raise QueueFull(RETRY_SECONDS)


def remove_oldest_ended(database: sqlite3.Connection, at_least: int = 0) -> bool:
    """Remove the oldest ended job of the requester (group or address) that stores the most bytes.

    Only requesters that store `at_least` bytes and have an ended job count. Return whether a job was removed.
    """
    row = database.execute(
        f"SELECT id FROM jobs WHERE NOT {ACTIVE} AND requester = (SELECT requester FROM jobs GROUP BY requester "
        f"HAVING sum(bytes) >= ? AND sum(NOT {ACTIVE}) > 0 ORDER BY sum(bytes) DESC LIMIT 1) ORDER BY updated LIMIT 1",
        (at_least,),
    ).fetchone()
    if row is not None:
        remove(database, row[0])
    return row is not None


def largest_active(database: sqlite3.Connection) -> Sequence[StoredJob]:
    """Return a list with the largest active job of the requester that stores the most bytes.

    The list is empty if this requester has no active job. A requester is a group of callers or an address.
    """
    holder = "(SELECT requester FROM jobs GROUP BY requester ORDER BY sum(bytes) DESC LIMIT 1)"
    found = f"SELECT {NAMES} FROM jobs WHERE requester = {holder} AND {ACTIVE} ORDER BY bytes DESC LIMIT 1"
    return [job_from_row(row) for row in database.execute(found)]


def remove(database: sqlite3.Connection, job_id: str) -> None:
    """Remove the job `job_id` with its request, results and claims from the database.

    Do nothing if there is no such job.
    """
    database.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
    for table in ("requests", "pieces", "claims"):
        database.execute(f"DELETE FROM {table} WHERE job = ?", (job_id,))
