"""Services of a running application, which its lifespan creates and its routes use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from service.api.readiness import Readiness
from service.api.renderings import RenderingService
from service.execution.resource_budget import ResourceBudget
from service.execution.runner import ComputationRunner
from service.execution.work_limits import WorkLimits
from service.jobs.service import JobService
from service.parsing import RequestValidator
from service.settings import Settings
from service.telemetry.audit import AuditStream
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from service.signing.verification import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class AppServices:
    """Services of one application that routes use: caches, queues, workers, jobs and settings.

    `work_limits`, `audit` and `signer` are None without a limit on work, an audit stream and a signing key.
    """

    settings: Settings
    runner: ComputationRunner
    renderings: RenderingService
    upload_memory: ResourceBudget
    json_memory: ResourceBudget
    readiness: Readiness
    jobs: JobService
    validate: RequestValidator
    metrics: Metrics
    version: str
    work_limits: WorkLimits | None = None
    audit: AuditStream | None = None
    signer: Signer | None = None
    """Signer of answers, or None if no signing key is set."""


def services_of(request: Request) -> AppServices:
    """Return the services of the application that handles a request.

    The application must be running.
    """
    services: AppServices = request.scope["state"]["services"]
    return services


InjectedServices = Annotated[AppServices, Depends(services_of)]
