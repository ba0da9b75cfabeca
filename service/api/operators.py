"""Application on the operator port: metrics, readiness details, and administration of jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

from service.api import problem_responses
from service.api.caller_context import CallerContext
from service.api.dependencies import AppServices
from service.api.head_as_get import HeadAsGet
from service.api.query_parameters import KNOWN_PARAMETERS_ONLY
from service.api.routes import operate, operations


def operator_application(
    services: AppServices, telemetry: Callable[[ASGIApp], ASGIApp], protection: Callable[[ASGIApp], ASGIApp]
) -> FastAPI:
    """Return the application for operators, without a published document.

    `telemetry` adds metrics and logs, and `protection` checks credentials.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, AppServices]]:
        yield {"services": services}

    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.include_router(operate.router, dependencies=KNOWN_PARAMETERS_ONLY)
    for router in (operations.router, operations.details_router):
        app.include_router(router)
    problem_responses.install(app)
    app.add_middleware(HeadAsGet)
    app.add_middleware(CallerContext)
    app.add_middleware(protection)
    app.add_middleware(telemetry)
    return app
