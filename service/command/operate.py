"""Command `privacy-bounds operate jobs`: jobs in their storage, also while the service is down or does not respond."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from service.server.serve import PROBLEM_EXIT_CODE, default_state_folder, load_settings

if TYPE_CHECKING:
    from api_schemas.base import Response
    from api_schemas.operators import OperatedJob, OperatedJobDetails, OperatedJobs
    from service.api.administration import Administration
    from service.jobs.repository import JobRepository
    from service.settings import Settings

COLUMNS: Final = ("job", "state", "points", "resource", "requester", "why")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OperateArguments:
    """Arguments of one command `operate jobs`.

    `subject` is the id of a job, or None for all jobs, and `requester` None selects all requesters. `ended` lists or
    removes ended jobs, `limit` and `cursor` select a page of them, and `as_json` writes JSON.
    """

    action: str
    subject: str | None
    requester: str | None
    ended: bool
    limit: int
    cursor: str | None
    as_json: bool


def run_operate(arguments: OperateArguments) -> int:
    """Run one operation on jobs. Return 0, or 2 after a problem was written to standard error."""
    if arguments.action == "list" and arguments.cursor is not None and not arguments.ended:
        return _print_error("use --cursor only with --ended; active jobs are listed without pages.")
    settings = load_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.jobs.diagnosis import explain_store_failure
    from service.jobs.errors import InvalidCursor, JobNotFound, JobsUnavailable

    try:
        with _administration(settings) as administration:
            found, lines = _run_operation(administration, arguments)
    except JobNotFound:
        return _print_error(f"no job has the id {arguments.subject}.")
    except UnicodeEncodeError:  # bytes of the command line that are no text: no storage has them
        return _print_error("use only ASCII characters in ids and requesters.")
    except InvalidCursor as error:
        return _print_error(f"--cursor: {error.sentence}")
    except JobsUnavailable as error:
        return _print_error(explain_store_failure(error.reason))
    sys.stdout.write((found.json_bytes().decode() if arguments.as_json else "\n".join(lines)) + "\n")
    return 0


def _run_operation(administration: Administration, arguments: OperateArguments) -> tuple[Response, list[str]]:
    name = arguments.subject or ""
    if arguments.action == "list":
        listed = (
            administration.all(arguments.requester, arguments.limit, arguments.cursor)
            if arguments.ended
            else administration.active(arguments.requester)
        )
        return listed, _table(listed)
    if arguments.action == "purge":
        purged = administration.purge(arguments.subject, ended=arguments.ended)
        return purged, [f"removed: {purged.removed}"]
    shown = administration.cancel(name) if arguments.action == "cancel" else administration.show(name)
    return shown, _details(shown)


@contextmanager
def _administration(settings: Settings) -> Generator[Administration]:
    from service.api.administration import Administration

    repository = _existing_repository(settings)
    try:
        yield Administration(repository, settings.job_age_limit_seconds)
    finally:
        repository.close()


def _existing_repository(settings: Settings) -> JobRepository:
    # Redis is not contacted, and no file is created
    from service.jobs.errors import JobsUnavailable

    if settings.jobs_backend == "celery":
        from service.jobs.celery.worker import open_store

        return open_store(settings)
    from service.jobs.local.jobs_file import FILE_NAME
    from service.jobs.local.store import SqliteStore

    folder = settings.data_folder or default_state_folder()
    if not (folder / FILE_NAME).exists():
        raise JobsUnavailable(f"there is no {FILE_NAME} in {folder}")
    return SqliteStore(folder)


def _table(found: OperatedJobs) -> list[str]:
    if not found.jobs:
        return ["There are no such jobs."]
    rows = [COLUMNS, *map(_row, found.jobs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    lines = [
        "  ".join((*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1])) for row in rows
    ]
    return lines if found.next is None else [*lines, f"more: --cursor {found.next}"]


def _row(job: OperatedJob) -> tuple[str, ...]:
    points = f"{job.progress.done}/{job.progress.total}"
    return job.id, job.state, points, job.resource, job.requester, job.why


def _details(job: OperatedJobDetails) -> list[str]:
    progress = job.progress
    pieces = [
        f"points {each.start} to {each.stop - 1}, try {each.tries + 1}, "
        + (f"at {each.worker}, claim ends in {each.seconds_left:.0f} s" if each.worker else "waiting")
        for each in job.pieces
    ]
    workers = [f"{each.name}, version {each.engine_version}, {each.seen_seconds_ago:.0f} s ago" for each in job.workers]
    rows = [
        ("job", job.id),
        ("why", job.why),
        ("state", f"{job.state}: {progress.done} of {progress.total} points, {progress.failed} of them failed"),
        ("resource", f"{job.resource}, {job.estimated_cost / 1e6:.3g} s of CPU estimated"),
        ("requester", f"{job.requester}, request {job.request_id or 'unknown'}"),
        ("times", f"accepted {job.created_at}, changed {job.updated_at}, kept until {job.expires_at}"),
        ("version", f"{job.engine_version}, restarted {job.generation} times"),
        *(("piece", text) for text in pieces or ["none is assigned"]),
        *(("worker", text) for text in workers or ["none is registered"]),
    ]
    return [f"{name.ljust(10)} {text}" for name, text in rows]


def _print_error(sentence: str) -> int:
    sys.stderr.write(f"privacy-bounds: {sentence}\n")
    return PROBLEM_EXIT_CODE
