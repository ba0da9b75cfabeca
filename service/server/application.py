"""The service as an ASGI application, and its server with limits on connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from importlib.metadata import version as distribution_version
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Scope
from structlog.typing import FilteringBoundLogger

from service.access.authenticator import Authenticator
from service.api import problem_responses
from service.api.access_layer import AccessLayer
from service.api.caller_context import CallerContext
from service.api.connections import Connections
from service.api.cross_origin import cross_origin_access
from service.api.dependencies import AppServices
from service.api.deprecation import DEPRECATED, DeprecationHeaders
from service.api.fast_routes import FastPathApplication
from service.api.head_as_get import HeadAsGet
from service.api.jobs import routes as job_routes
from service.api.openapi import document
from service.api.operators import operator_application
from service.api.query_parameters import KNOWN_PARAMETERS_ONLY
from service.api.route_scopes import ScopesOfPaths
from service.api.routes import (
    computations,
    decisions,
    discovery,
    documentation_pages,
    explorer_page,
    operations,
    problem_pages,
    public_keys,
    results,
)
from service.engine_version import ENGINE_VERSION
from service.execution.client import requester_from_scope
from service.resources.catalogue import resources
from service.server.access import build_authenticator, operators_require_credentials, requires_credentials
from service.server.composition import run_services
from service.server.draining import DrainingServer, serve_on_socket
from service.server.tracing import facts_of_request, make_tracing
from service.settings import Settings
from service.telemetry.audit import AuditStream
from service.telemetry.http import HttpTelemetry
from service.telemetry.logs import make_logger
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import RequestTracing

if TYPE_CHECKING:
    import socket

DISTRIBUTION = "privacy-bounds"
DESCRIPTION = (
    "A request describes a training run or a data release. The default method gives every number with proved lower "
    "and upper bounds. The guide of a running service is at `/guide`. The guide explains how to choose a request, how "
    "to interpret an answer, and how the bounds are proved."
)


def create_app(settings: Settings, operators: socket.socket | None = None, host: str = "127.0.0.1") -> FastAPI:
    """Return the service as an ASGI application. Its workers, caches and connections start and stop with its lifespan.

    `operators` is the socket of the operator port, or None. The port is served while the application runs. `host` is
    the host of the public port: whether requests need credentials depends on it.
    """
    version = distribution_version(DISTRIBUTION)
    metrics = Metrics(CollectorRegistry(), ENGINE_VERSION)
    logger = make_logger(settings.log_level)
    draining = Event()
    traced = RequestTracing(facts_of_request)
    telemetry = _telemetry_layer(metrics, logger)
    is_closed = requires_credentials(settings, host)
    are_operators_closed = operators_require_credentials(settings, host)
    authenticator = build_authenticator(settings, logger) if is_closed or are_operators_closed else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, AppServices]]:
        with make_tracing(settings, "api") as traced.tracing:
            async with (
                nullcontext() if authenticator is None else authenticator.running(),
                run_services(
                    settings, metrics, logger, version, traced.tracing, are_results_private=is_closed
                ) as services,
            ):
                services.readiness.is_draining = draining.is_set
                if authenticator is not None:
                    services.readiness.authentication_failure = authenticator.failure
                by_operator = partial(telemetry, requester_of=_operator_of)
                protection = access_layer(authenticator if are_operators_closed else None)
                async with serve_on_socket(operator_application(services, by_operator, protection), operators):
                    logger.info("started", version=version, engine_version=ENGINE_VERSION)
                    yield {"services": services}
        logger.info("stopped")

    app = _build_framework(version, lifespan)
    _add_routes(app, settings)
    problem_responses.install(app)
    protection = access_layer(authenticator if is_closed else None)
    _add_layers(app, partial(telemetry, requester_of=requester_from_scope), protection, settings.cors_origins)
    if settings.traces_endpoint is not None:
        app.wrap(traced.around)
    app.state.metrics = metrics  # for the server, which counts what never comes as far as the application
    app.state.draining = draining
    return app


def _add_routes(app: FastAPI, settings: Settings) -> None:
    # pages and probes ignore unknown parameters
    offered = resources()
    app.router.routes[:0] = map(computations.route_of, offered)  # requested most, matched first
    people = (explorer_page.router, documentation_pages.router(*documentation_pages.GUIDE), problem_pages.router)
    stored = (results.router(offered), decisions.router)
    ready = operations.details_router if settings.operator_bind is None else operations.verdict_router
    discovering = discovery.router(offered, signs=settings.signing_keys is not None)
    for router in (job_routes.router, *stored, discovering):
        app.include_router(router, dependencies=KNOWN_PARAMETERS_ONLY)
    for router in (operations.router, ready, public_keys.router, *people):
        app.include_router(router)
    document.install(app, tuple(computation.request_type for computation in offered))


def _telemetry_layer(metrics: Metrics, logger: FilteringBoundLogger) -> partial[HttpTelemetry]:
    # the caller adds `requester_of`, which depends on the port
    return partial(
        HttpTelemetry,
        metrics=metrics,
        logger=logger,
        unknown_error=problem_responses.unknown_error,
        cancelled=problem_responses.shutting_down,
        audit_of=audit_of,
    )


def _operator_of(_: Scope) -> str:
    return "operator"


def audit_of(scope: Scope) -> AuditStream | None:
    """Return the audit stream of the application that handles a request, or None without an audit stream."""
    services: AppServices | None = scope.get("state", {}).get("services")
    return None if services is None else services.audit


def access_layer(authenticator: Authenticator | None) -> Callable[[ASGIApp], ASGIApp]:
    """Return the middleware that checks credentials, or without an authenticator a function that adds none."""
    if authenticator is None:
        return lambda app: app
    return partial(
        AccessLayer,
        authenticator=authenticator,
        needed_scope=ScopesOfPaths(),
        refuse=problem_responses.error_response,
    )


def _add_layers(
    app: FastPathApplication,
    telemetry: Callable[[ASGIApp], HttpTelemetry],
    protection: Callable[[ASGIApp], ASGIApp],
    cors_origins: tuple[str, ...],
) -> None:
    # From the inside out. Credentials are checked after the request has its id, so that refusals are counted and
    # logged, and before anything else. Preflights of browsers have no credentials and are answered outside.
    app.add_middleware(HeadAsGet)
    app.add_middleware(CallerContext)
    app.add_middleware(protection)
    app.add_middleware(telemetry)
    app.enable_fast_path(lambda answer: telemetry(protection(CallerContext(answer))))
    if DEPRECATED:
        app.wrap(partial(DeprecationHeaders, routes=DEPRECATED))
    if cors_origins:
        app.wrap(cross_origin_access(cors_origins))


def _build_framework(
    version: str, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[dict[str, AppServices]]]
) -> FastPathApplication:
    return FastPathApplication(
        title="Privacy bounds",
        summary="Certified bounds on what an attacker can learn from a differentially private release.",
        description=DESCRIPTION,
        version=version,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=document.TAGS,
        openapi_url=None,  # the published document is a file of the package
        lifespan=lifespan,
        docs_url=None,  # ours loads nothing from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # ours, below
        generate_unique_id_function=lambda route: route.name,
    )


def create_server(settings: Settings, host: str, port: int, operators: socket.socket | None = None) -> uvicorn.Server:
    """Return the HTTP server of the application, with limits on connections.

    `operators` is the socket of the operator port.
    """
    app = create_app(settings, operators, host)
    connections = Connections(settings, app.state.metrics)
    configuration = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=cast("Any", connections.protocol),
        ws="none",
        access_log=False,  # one event per request is written by the service itself, with what uvicorn cannot know
        log_config=None,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_timeout_seconds,
    )
    return DrainingServer(configuration, settings.drain_seconds, app.state.draining)
