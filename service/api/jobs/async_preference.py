"""Preference `Prefer: respond-async, wait=N` (RFC 7240): a result within N seconds, or a job."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

from fastapi import Request, Response

from api_schemas.jobs import ENDED, LONGEST_KEY
from api_schemas.problems import Problem
from service.api.caller_context import work_account_of
from service.api.dependencies import AppServices
from service.api.jobs.job_results import refuse_quarantined
from service.api.jobs.representation import accepted_response
from service.engine_version import ENGINE_VERSION
from service.execution.runner import ComputationRunner
from service.execution.stored_results import ComputedResult
from service.jobs.job_plan import JobPlan, parse_plan
from service.jobs.results_codec import stored_response
from service.jobs.service import Sender
from service.parsing import RequestValidator
from service.problems import InvalidParameter
from service.resources.abstract import Computation, Quote
from service.resources.digest import canonical_bytes
from service.telemetry.http import request_context

LONGEST_WAIT_SECONDS: Final = 20
"""Longest accepted wait. It is not longer than the default shutdown timeout of the service."""
MEDIA_TYPE: Final = "application/problem+json"


def parse_prefer_wait(given: Sequence[str]) -> int | None:
    """Return the `wait` of `Prefer: respond-async` in seconds, or None without `respond-async`.

    The result is 0 without a valid `wait`, and at most LONGEST_WAIT_SECONDS (20). `given` has the values of the
    `Prefer` headers.
    """
    wanted = [part.strip().lower() for header in given for part in re.split("[,;]", header)]
    if "respond-async" not in wanted:
        return None
    waits = [int(found[1]) for part in wanted if (found := re.fullmatch(r"wait ?= ?\"?([0-9]{1,9})\"?", part))]
    return min(waits[0], LONGEST_WAIT_SECONDS) if waits else 0


def job_sender(request: Request) -> Sender:
    """Return requester, request id and Idempotency-Key of a request.

    Raise InvalidParameter for a key that is too long, or has other characters than visible ASCII.
    """
    record = request_context(request.scope)
    key = request.headers.get("idempotency-key")
    if key is not None and not re.fullmatch(rf"[\x21-\x7e]{{1,{LONGEST_KEY}}}", key):
        raise InvalidParameter("Idempotency-Key", f"Must have 1 to {LONGEST_KEY} visible characters of ASCII.")
    return Sender(record.requester, record.request_id, key, work_account_of(request))


def _parse_and_quote(
    computation: Computation[Any, Any], body: bytes, validate: RequestValidator
) -> tuple[JobPlan, str, Quote]:
    plan = parse_plan(computation, body, validate)
    return plan, plan.digest(ENGINE_VERSION), plan.quote


async def store_job_request(
    runner: ComputationRunner, plan: JobPlan, digest: str, quote: Quote, sender: Sender
) -> None:
    """Store the request of a job, if the service keeps requests for signed statements.

    `plan` has the parsed request, `digest` its SHA-256, `quote` its estimated cost and `sender` the client.
    """
    if runner.results.keeps_requests:
        named = await asyncio.to_thread(canonical_bytes, plan.computation.name, ENGINE_VERSION, plan.request)
        runner.results.store_request(digest, named, quote.cost, sender.requester)


async def respond_async(
    computation: Computation[Any, Any], body: bytes, wait_seconds: int, services: AppServices, sender: Sender
) -> ComputedResult | Response:
    """Return a result that is cached, or that a job computes within `wait_seconds`, otherwise 202 with the job.

    Return the problem document of a job that failed within this time. A job of several points is not waited for.
    `sender` is the client that the job belongs to. Raise RequestBodyError, JobsError, ExecutionError and
    PrivacyComputationError.
    """
    jobs, runner = services.jobs, services.runner
    plan, digest, quote = await runner.request_thread.call(
        sender.requester, _parse_and_quote, computation, body, services.validate
    )
    known = runner.cached(computation, digest, sender.requester) if plan.total == 1 else None
    if known is not None:
        return known
    await store_job_request(runner, plan, digest, quote, sender)
    job = await jobs.enqueue(plan, body, quote, sender)
    if computation.chunking is None and wait_seconds:
        job = await jobs.wait_ended(job.id, sender.requester, wait_seconds)
    if job.state not in ENDED or computation.chunking is not None:
        wait = f", wait={wait_seconds}" if wait_seconds else ""
        return accepted_response(job, **{"Preference-Applied": f"respond-async{wait}"})
    if job.problem is not None:
        problem = Problem.model_validate_json(job.problem)
        return Response(problem.json_bytes(), problem.status, {"Cache-Control": "no-store"}, MEDIA_TYPE)
    await refuse_quarantined(services, job)  # an earlier job with the same key may have a result that is disputed now
    kept = await jobs.single_result(job.id)
    if kept is None:  # cancelled
        return accepted_response(job)
    answer = ComputedResult(job.digest, stored_response(kept.lines), "computed")
    runner.results.store(computation, answer.digest, answer.body, job.cost, job.requester)
    return answer
