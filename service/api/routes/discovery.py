"""Routes `GET /v1/catalogue`, `/v1/limits`, `/v1/sources` and `/v1/version`: what this service offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from api_schemas.catalogue import CatalogueResource, CatalogueResponse
from api_schemas.catalogue import catalogue as catalogue_of
from api_schemas.operations import MAY_EXCEED_TIME_LIMIT, REQUEST_LIMITS, LimitsResponse, VersionResponse
from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from api_schemas.sources import SourceEntry, SourcesResponse
from service.api.content_negotiation import requested_media_type
from service.api.dependencies import InjectedServices
from service.api.openapi.document import problems, request_body
from service.bibliography import SOURCES, software
from service.bibliography.source import Source, join_bibtex
from service.engine_version import ENGINE_VERSION
from service.rendering.registry import JSON, media_types
from service.resources.abstract import Computation
from service.resources.estimates import INLINE_LIMIT

SERVICE_NAME = "privacy-bounds"
BIBTEX: Final = "application/x-bibtex"


def router(offered: tuple[Computation[Any, Any], ...], *, signs: bool = False) -> APIRouter:
    """Return the routes. The catalogue lists the resources `offered`, with signed statements if the service `signs`."""
    made = APIRouter(tags=["discovery"])
    signed = (ENVELOPE_MEDIA_TYPE,) if signs else ()
    listed = tuple(_catalogue_entry(computation, signed) for computation in offered)

    @made.get("/v1/catalogue", responses=problems(422))
    async def catalogue() -> CatalogueResponse:
        """List mechanisms, threat models and questions with their fields, ranges and accepted names.

        The response also lists every resource with its media types.
        """
        return catalogue_of(ENGINE_VERSION, listed)

    paths = {computation.name: computation.path for computation in offered}
    cited = (software(tuple(paths)), *SOURCES)
    listed_sources = SourcesResponse(sources=tuple(_source_entry(source, paths) for source in cited))
    bibtex = {200: {"content": {BIBTEX: {"schema": {"type": "string"}}}}, **problems(406, 422)}

    @made.get("/v1/sources", response_model=SourcesResponse, responses=bibtex)
    async def sources(request: Request) -> SourcesResponse | Response:
        """List the software and the sources of its answers, as JSON or as BibTeX."""
        if requested_media_type(request, (JSON, BIBTEX)) == BIBTEX:
            return Response(join_bibtex(cited), media_type=f"{BIBTEX}; charset=utf-8")
        return listed_sources

    made.get("/v1/limits", responses=problems(422))(limits)
    made.get("/v1/version", responses=problems(422))(version)
    return made


def _catalogue_entry(computation: Computation[Any, Any], signed: tuple[str, ...]) -> CatalogueResource:
    return CatalogueResource(
        operation=computation.operation,
        path=computation.path,
        description=computation.description,
        takes=tuple(request_body(computation)["requestBody"]["content"]),
        answers_in=(*media_types(computation.name), *signed),
    )


def _source_entry(source: Source, paths: Mapping[str, str]) -> SourceEntry:
    return SourceEntry(
        key=source.key,
        title=source.title,
        cited_as=source.cited_as,
        bibtex=source.bibtex(),
        used_by=tuple(paths[name] for name in source.used_by if name in paths),
    )


async def limits(services: InjectedServices) -> LimitsResponse:
    """Return the limits on the cost and size of requests."""
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


async def version(services: InjectedServices) -> VersionResponse:
    """Return the versions of the software and of the numerical engine."""
    return VersionResponse(service=SERVICE_NAME, version=services.version, engine_version=ENGINE_VERSION)
