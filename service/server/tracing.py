"""Traces of a process, where the settings ask for them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from service.settings import Settings
from service.telemetry.http import REQUEST_CONTEXT_KEY, RequestContext, Scope
from service.telemetry.tracing import Attributes, Tracing


@contextmanager
def make_tracing(settings: Settings, role: str) -> Generator[Tracing | None]:
    """Yield the sender of traces of this process while the block runs, or None without PRIVACY_BOUNDS_TRACES_ENDPOINT.

    `role` is api or worker, and ends the name of the service in traces.
    """
    if settings.traces_endpoint is None:
        yield None
        return
    tracing = Tracing(
        settings.traces_endpoint,
        sample_ratio=settings.traces_sample_ratio,
        service=f"privacy-bounds-{role}",
        version=version("privacy-bounds"),
    )
    try:
        yield tracing
    finally:
        tracing.close()


def facts_of_request(scope: Scope) -> Attributes:
    """Return the attributes for a trace that the route of a request filled in."""
    context: RequestContext | None = scope.get(REQUEST_CONTEXT_KEY)
    if context is None:
        return {}
    found: Mapping[str, Any] = {
        "request_id": context.request_id,
        "digest": context.digest,
        "cache": context.cache,
        "problem": context.problem,
    }
    return {f"privacy_bounds.{name}": value for name, value in found.items() if value is not None}
