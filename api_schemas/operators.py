"""Administration of jobs on the operator port and by `privacy-bounds operate jobs`. It is not part of openapi.json."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api_schemas.base import Response
from api_schemas.jobs import JobResponse


class OperatedJob(JobResponse):
    """Job with its requester, and the reason why it does not progress."""

    requester: Annotated[str, Field(description="Whose shares the job uses.")]
    request_id: Annotated[str, Field(description="Of the request that sent the job, for the log.")]
    generation: Annotated[int, Field(description="How often another version began the job anew.")]
    why: Annotated[str, Field(description="What the job waits for, or that it is computed.")]


class HeldPiece(Response):
    """Points of a job that a worker computes at present, and that have no results yet."""

    start: Annotated[int, Field(description="Index of the first point, from 0.")]
    stop: Annotated[int, Field(description="The point behind the last one.")]
    tries: Annotated[int, Field(description="How many workers died or met a limit over these points.")]
    worker: Annotated[str, Field(description="The worker that has them; empty: they wait for one.")]
    seconds_left: Annotated[float, Field(description="They are given out again after this long without a heartbeat.")]


class PresentWorker(Response):
    """Worker that announced itself."""

    name: Annotated[str, Field(description="Host and process.")]
    engine_version: Annotated[str, Field(description="It computes jobs of this version.")]
    seen_seconds_ago: Annotated[float, Field(description="Since its last announcement.")]


class OperatedJobDetails(OperatedJob):
    """Job with everything that its progress depends on."""

    pieces: tuple[HeldPiece, ...]
    workers: tuple[PresentWorker, ...]


class OperatedJobs(Response):
    """Page of the jobs of all requesters."""

    jobs: tuple[OperatedJob, ...]
    next: Annotated[str | None, Field(description="The cursor of the next page; null: there is none.")]


class PurgedJobs(Response):
    """Number of jobs that were removed."""

    removed: Annotated[int, Field(description="Jobs that are gone, with their results.")]
