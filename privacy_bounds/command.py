"""Command `privacy-bounds jobs`: jobs of a service from a terminal."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from api_schemas.jobs import JobRequest
from privacy_bounds.clients import Client
from privacy_bounds.errors import PrivacyBoundsError, Refused
from privacy_bounds.jobs import Job

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

FAILED, PROBLEM = 1, 2
KEY_VARIABLE = "PRIVACY_BOUNDS_API_KEY"
"""Environment variable with the API key or the token that is sent to the service."""


def run_jobs(action: str, subject: str | None, url: str, key: str | None) -> int:
    """Run one action on a job of a service at `url`. Results go to standard output, progress to standard error.

    `subject` is the id of a job, or the file of a request for the action `submit`; None lists all jobs. `key` is the
    idempotency key of `submit`, or None. Return 0, 1 if a job that was waited for did not succeed, or 2 after a problem
    was reported.
    """
    from stamina.instrumentation import set_on_retry_hooks

    set_on_retry_hooks([_report_attempt])  # by default, attempts are written to standard output
    try:
        client = Client(url, api_key=os.environ.get(KEY_VARIABLE) or None)
        if subject is None:
            for each in client.jobs():
                _write(each.json_bytes())
            return 0
        if action == "submit":
            return _submit(client, subject, key)
        return _run_action(client.job(subject), action)
    except Refused as error:
        sys.stderr.buffer.write(error.problem.json_bytes() + b"\n")
    except (PrivacyBoundsError, OSError, ValueError) as error:
        sys.stderr.write(f"privacy-bounds: {error}\n")
    return PROBLEM


def _submit(client: Client, source: str, key: str | None) -> int:
    sent = JobRequest.model_validate_json(sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes())
    _write(client.submit(sent.resource, sent.request, key=key).id.encode())
    return 0


def _run_action(job: Job, action: str) -> int:
    if action == "results":
        for row in job.rows():
            _write(json.dumps(row, separators=(",", ":")).encode())
        return 0
    if action == "wait":
        job_state = job.state()
        for job_state in job.events():
            sys.stderr.write(f"{job_state.state}: {job_state.progress.done} of {job_state.progress.total}\n")
        _write(job_state.json_bytes())
        return 0 if job_state.state == "succeeded" else FAILED
    _write((job.cancel() if action == "cancel" else job.state()).json_bytes())
    return 0


def _report_attempt(details: RetryDetails) -> None:
    sys.stderr.write(f"The service is busy. Next attempt in {details.wait_for:.1f} s.\n")


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
