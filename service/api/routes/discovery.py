"""GET /v1/catalogue, /v1/limits and /v1/version: what this service offers, and how much of it."""

from __future__ import annotations

from fastapi import APIRouter

from api_schemas.catalogue import CatalogueResponse
from api_schemas.catalogue import catalogue as catalogue_of
from api_schemas.operations import MAY_EXCEED_TIME_LIMIT, REQUEST_LIMITS, LimitsResponse, VersionResponse
from service.api.dependencies import UsedServices
from service.computations.prices import INLINE_LIMIT
from service.engine_version import ENGINE_VERSION

router = APIRouter(tags=["discovery"])

SERVICE_NAME = "privacy-bounds"


@router.get("/v1/catalogue")
async def catalogue() -> CatalogueResponse:
    """Mechanisms, threat models and questions, with their fields, ranges and accepted spellings."""
    return catalogue_of(ENGINE_VERSION)


@router.get("/v1/limits")
async def limits(services: UsedServices) -> LimitsResponse:
    """What a request may cost, and how large it may be."""
    settings = services.settings
    return LimitsResponse(
        request=REQUEST_LIMITS,
        body_bytes=settings.max_body_bytes,
        upload_bytes=settings.max_upload_bytes,
        cost=settings.max_cost,
        inline_cost=INLINE_LIMIT,
        time_limit_seconds=settings.time_limit_seconds,
        may_exceed_time_limit=MAY_EXCEED_TIME_LIMIT,
        memory_bytes=settings.worker_memory_limit_bytes,
        queued_computations=settings.queue_limit,
        jobs=services.jobs.about,
    )


@router.get("/v1/version")
async def version(services: UsedServices) -> VersionResponse:
    """The version of the software, and of the numbers."""
    return VersionResponse(service=SERVICE_NAME, version=services.version, engine_version=ENGINE_VERSION)
