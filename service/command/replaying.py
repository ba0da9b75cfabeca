"""Repetition of a signed statement in this process: its request is read, and its answer computed again."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from service.command.output import progress_indicator
from service.engine_version import ENGINE_VERSION
from service.execution.worker import compute_body
from service.importers.catalogue import validate_with_imports
from service.privacy.errors import PrivacyComputationError
from service.problems import problem_of
from service.resources.abstract import Chunking, Computation
from service.resources.assessments.stored_decision import decision_in
from service.resources.catalogue import RESOURCES, resource
from service.resources.digest import canonical_text, digest
from service.signing.envelope import restore_doubles
from service.signing.statement import Statement, job_answer


class CannotReplay(Exception):
    """Raised with one sentence for a signed statement whose answer this version cannot compute."""


def compute_again(statement: Statement) -> tuple[str, dict[str, Any]]:
    """Return the SHA-256 of the answer that this version computes for a signed statement, and the answer itself.

    The answer is as a statement would contain it. Raise CannotReplay for a statement of a newer version, an unknown
    resource, or a request that this version cannot read or refuses.
    """
    if _version_numbers(statement.engine_version) > _version_numbers(ENGINE_VERSION):
        raise CannotReplay(
            f"the statement is of engine {statement.engine_version}, which is newer than this one, {ENGINE_VERSION}; "
            "install that version to replay it."
        )
    if statement.resource not in RESOURCES:
        raise CannotReplay("this version has no such resource; install the version that made the statement.")
    computation = resource(statement.resource)
    if statement.kind == "job" and computation.chunking is None:
        raise CannotReplay("a job of this resource has a statement of another kind.")
    request = restore_request(computation, statement)
    name = digest(computation.name, ENGINE_VERSION, request)
    try:
        with progress_indicator():
            if computation.chunking is not None and statement.kind == "job":
                body = _compute_job_lines(computation, computation.chunking, request, name)
                answer = job_answer(body, name.removeprefix("sha256:"), ENGINE_VERSION)
                return hashlib.sha256(body).hexdigest(), _in_archived_form(answer)
            body = compute_body(computation, request, name, ENGINE_VERSION).body
    except PrivacyComputationError as error:
        detail = problem_of(error, instance="", request_id="").detail
        raise CannotReplay(f"this version refuses the request: {detail}") from None
    if statement.kind == "decision":
        decided = decision_in(body, name)
        if decided is None:
            raise CannotReplay("the request has no policy, and therefore no decision.")
        body = decided
    return hashlib.sha256(body).hexdigest(), _in_archived_form(from_json(body))


def _in_archived_form(answer: dict[str, Any]) -> dict[str, Any]:
    # the canonical form has large integers as strings
    return cast("dict[str, Any]", restore_doubles(from_json(canonical_text(answer))))


def _compute_job_lines(
    computation: Computation[Any, Any], chunking: Chunking[Any], request: BaseModel, name: str
) -> bytes:
    total, most = chunking.points(request), chunking.max_chunk_points(request)
    lines: list[bytes] = []
    for start in range(0, total, most):
        part = chunking.chunk_request(request, start, min(start + most, total))
        lines.append(chunking.lines(compute_body(computation, part, name, ENGINE_VERSION).body, start))
    return b"".join(lines)


def restore_request(computation: Computation[Any, Any], statement: Statement) -> BaseModel:
    """Return the request of a signed statement.

    Raise CannotReplay if this version reads it as another one, or not at all. The canonical form has integers above
    2^53 - 1 as strings, which only the second, lenient attempt reads.
    """
    body = json.dumps(statement.request).encode()
    chunking = computation.chunking if statement.kind == "job" else None
    request_type = computation.request_type if chunking is None else chunking.request_type
    for strict in (None, False):
        try:
            request = (
                validate_with_imports(request_type, body)
                if strict is None
                else request_type.model_validate_json(body, strict=False)
            )
        except ValidationError:
            continue
        named = f"sha256:{statement.request_sha256}"
        if statement.engine_version != ENGINE_VERSION or digest(computation.name, ENGINE_VERSION, request) == named:
            return request
    raise CannotReplay("this version cannot read the request; install the version that made the statement.")


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,9}", version)[:8])
