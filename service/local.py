"""A resource without HTTP: what the command line and `privacy_bounds.Local` have in common."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from api_schemas.problems import Problem
from service.api.problems import problem_of
from service.computations.abstract import Computation
from service.computations.array_archive import ArchiveError
from service.computations.catalogue import RESOURCES, resource
from service.computations.digest import digest
from service.engine_version import ENGINE_VERSION
from service.execution.request_body import InvalidRequest, RequestBodyError, parse_request
from service.execution.worker import compute_body
from service.interop.catalogue import validated
from service.privacy.errors import PrivacyComputationError

ARCHIVE_SIGNATURE: Final = b"PK"


def at(path: str) -> Computation[Any, Any]:
    """The resource at this path. Raises ValueError where there is none."""
    for name in RESOURCES:
        if resource(name).path == path:
            return resource(name)
    raise ValueError(f"There is no resource at {path}.")


def answered(computation: Computation[Any, Any], body: bytes, instance: str) -> bytes | Problem:
    """The response to a request as it was sent, to the byte that of the service; or why there is none."""
    try:
        if computation.read_archive is not None and body.startswith(ARCHIVE_SIGNATURE):
            request = computation.read_archive(body)
        else:
            request = parse_request(computation.request_type, body, validated)
        name = digest(computation.name, ENGINE_VERSION, request)
        return compute_body(computation, request, name, ENGINE_VERSION).body
    except (RequestBodyError, ArchiveError, PrivacyComputationError, ValidationError) as error:
        told = InvalidRequest(error) if isinstance(error, ValidationError) else error
        return problem_of(told, instance=instance, request_id="")
