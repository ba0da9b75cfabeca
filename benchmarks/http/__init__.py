"""The service over HTTP: one uvicorn worker, loaded from this process on the loopback interface."""

from __future__ import annotations

from benchmarks.http import access, beside_computation, closed_form, python_client, redis_gone
from benchmarks.report import Section


def measure() -> Section:
    section = Section("HTTP")
    for subject in (closed_form, access, beside_computation, redis_gone, python_client):
        part = subject.measure()
        section.reaches += part.reaches
        section.tables += part.tables
    return section
