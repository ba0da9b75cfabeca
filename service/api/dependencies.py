"""What routes are given: the resources of one running application, made by its lifespan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.api.readiness import Readiness
from service.api.renderings import RenderingService
from service.execution.resource_budget import ResourceBudget
from service.execution.runner import ComputationRunner
from service.jobs.service import JobService
from service.parsing import RequestValidator
from service.settings import Settings
from service.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything a route may need."""

    settings: Settings
    runner: ComputationRunner
    renderings: RenderingService
    uploads: ResourceBudget
    bodies: ResourceBudget
    readiness: Readiness
    jobs: JobService
    validate: RequestValidator
    metrics: Metrics
    version: str


def services_of(request: Request) -> Services:
    """The services of the application that serves this request."""
    services: Services = request.scope["state"]["services"]
    return services


UsedServices = Annotated[Services, Depends(services_of)]
