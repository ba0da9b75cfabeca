"""Why a job does not move, in one sentence: for operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from api_schemas.jobs import ENDED
from api_schemas.problems import Problem
from service.jobs.computing import PRESENT_SECONDS
from service.jobs.job import StoredJob
from service.jobs.repository import Held, Worker
from service.jobs.sizes import LARGEST_TRIES, work_class

STORE_TROUBLES: Final = {
    "SQLITE_FULL": "The disk of the data folder is full. Free space, or remove jobs that have ended: "
    "privacy-bounds operate jobs purge --ended.",
    "No space left": "The disk of the data folder is full. Free space.",
    "SQLITE_READONLY": "The data folder is read-only. Let the user of the service write there.",
    "SQLITE_CANTOPEN": "The file of jobs cannot be opened. Let the user of the service write in the data folder.",
    "Read-only": "The data folder is read-only. Let the user of the service write there.",
    "PermissionError": "The user of the service may not write in the data folder. Change its owner or mode.",
    "SQLITE_BUSY": "Another process has locked the file of jobs for seconds. Find it: fuser -v jobs.sqlite.",
    "SQLITE_NOTADB": "The file jobs.sqlite holds no jobs. Move it away, or restore a copy.",
    "SQLITE_CORRUPT": "The file jobs.sqlite is damaged. Move it away, or restore a copy.",
    "SQLITE_IOERR": "The disk of the data folder does not work. See the log of the kernel.",
    "there is no": "Set PRIVACY_BOUNDS_DATA_FOLDER to the folder of the service, and run as its user.",
    "newer version": "Start that version again, or remove the file of jobs to begin anew.",
    "OOM": "Redis has no room. Raise maxmemory, or remove jobs that have ended: "
    "privacy-bounds operate jobs purge --ended.",
    "MISCONF": "Redis cannot write its append-only file. Free space on its disk.",
    "READONLY": "This Redis is a replica. Set PRIVACY_BOUNDS_REDIS_URL to the one that takes writes.",
    "NOPERM": "Give the user of PRIVACY_BOUNDS_REDIS_URL the permissions that docker-compose.yml gives.",
    "BusyLoadingError": "Wait: Redis reads its append-only file.",
    "ConnectionError": "Start Redis, or correct PRIVACY_BOUNDS_REDIS_URL.",
    "TimeoutError": "Redis does not answer in time. Look at its load and at the network.",
    "AuthenticationError": "Correct PRIVACY_BOUNDS_REDIS_PASSWORD.",
    "Redis does not answer": "Start Redis, or correct PRIVACY_BOUNDS_REDIS_URL.",
    "no worker is there": "Start privacy-bounds worker.",
    "Redis came back without": "Restore its append-only file. Jobs that are not in the file have to be sent again.",
    "Redis is away": "Start Redis, or correct PRIVACY_BOUNDS_REDIS_URL.",
    "Redis does not write": "Look at the disk of Redis: jobs are accepted when its file has them.",
}
"""What to do, by a part of the reason of JobsUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that a job competes with. `active`: jobs that have not ended; `age_seconds`: the age limit of jobs."""

    active: Sequence[StoredJob]
    workers: Sequence[Worker]
    age_seconds: float
    now: float

    def present(self) -> list[Worker]:
        """Return the workers that announced themselves a moment ago."""
        return [worker for worker in self.workers if self.now - worker.seen <= PRESENT_SECONDS]


def remedy_for(reason: str) -> str:
    """Return what an operator can do where jobs cannot be kept or read, empty if unknown. `reason`: of JobsUnavailable
    or Condition.
    """
    return next((remedy for part, remedy in STORE_TROUBLES.items() if part in reason), "")


def store_trouble(reason: str) -> str:
    """Return why jobs cannot be kept or read, and what to do. `reason`: of JobsUnavailable."""
    remedy = remedy_for(reason) or "See the log of the service."
    return f"Jobs cannot be kept now: {reason.rstrip('.')}. {remedy}"


def why(job: StoredJob, held: Sequence[Held], scene: Scene) -> str:
    """Return what a job waits for, or that it is computed. `held`: its pieces that were given out and not saved."""
    if job.state in ENDED:
        return _ended(job)
    return _without_workers(job, scene) or _with_pieces(job, held, scene.now) or _in_line(job, scene)


def _ended(job: StoredJob) -> str:
    if job.problem is None:
        return f"It has ended: {job.state}."
    problem = Problem.model_validate_json(job.problem)
    return f"It has failed: {problem.title}. {problem.detail}"


def _without_workers(job: StoredJob, scene: Scene) -> str | None:
    present = scene.present()
    if not present:
        seen = max((worker.seen for worker in scene.workers), default=None)
        last = "" if seen is None else f"; the last one was seen {seconds(scene.now - seen)} ago"
        return (
            f"It waits for a worker, and none is there{last}. Start the service (backend embedded) or "
            "privacy-bounds worker (backend celery)."
        )
    if scene.now - job.created > scene.age_seconds:
        return f"It is older than {seconds(scene.age_seconds)}, the age limit of jobs, and is about to be ended."
    versions = sorted({worker.engine_version for worker in present})
    if job.engine_version not in versions:
        return (
            f"It waits for a worker of engine version {job.engine_version}, and only {', '.join(versions)} is there, "
            f"which begins it anew when it has not changed for {seconds(PRESENT_SECONDS)}."
        )
    return None


def _with_pieces(job: StoredJob, held: Sequence[Held], now: float) -> str | None:
    tried = max(held, key=lambda each: each.tries, default=None)
    again = ""
    if tried is not None and tried.tries:
        again = f" {_points(tried)} had a worker that died or met a limit, and are at try {tried.tries + 1} of "
        again += f"{LARGEST_TRIES}."
    running = [each for each in held if each.worker and each.until > now]
    if running:
        workers = ", ".join(sorted({each.worker for each in running}))
        since = seconds(now - job.updated)
        return f"It is computed: {len(running)} of its pieces at {workers}; its last change was {since} ago.{again}"
    lost = next((each for each in held if each.worker), None)
    if lost is not None:
        return (
            f"The worker {lost.worker} of {_points(lost).lower()} is gone; they are about to be given out again.{again}"
        )
    return f"It waits for a free worker.{again}" if again else None


def _in_line(job: StoredJob, scene: Scene) -> str:
    # Of one requester, jobs of the least class of work so far come first, and of a class older ones before younger.
    own = [
        each for each in scene.active if each.requester == job.requester and each.engine_version == job.engine_version
    ]
    own.sort(key=_class)
    before = next((place for place, each in enumerate(own) if each.id == job.id), 0)
    others = len({each.requester for each in scene.active} - {job.requester})
    if not before and not others:
        return "It is next: a free worker takes it within seconds."
    return (
        f"It waits for its turn: jobs of its requester before it: {before}; other requesters that take turns with it: "
        f"{others}."
    )


def _class(job: StoredJob) -> int:
    return work_class(job.cost * job.done / job.total)


def _points(held: Held) -> str:
    piece = held.piece
    return f"Point {piece.start}" if piece.points == 1 else f"Points {piece.start} to {piece.stop - 1}"


def seconds(duration: float) -> str:
    """Return a duration for people, in its largest unit."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if duration >= 2 * size:
            return f"{duration / size:.0f} {unit}"
    return f"{max(0.0, duration):.0f} s"
