"""Server of the Model Context Protocol over standard input and output, or over HTTP on a loopback address."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version as distribution_version
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from prometheus_client import CollectorRegistry

from service.api.connections import Connections
from service.api.dependencies import AppServices
from service.engine_version import ENGINE_VERSION
from service.execution.client import LOCAL_CLIENT, WaitingClient, requester_from_scope
from service.mcp.answers import QUOTING, answer_result, problem_result
from service.mcp.documents import document, listed_documents
from service.mcp.tools import TOOLS, computation_of, listed_tools
from service.problems import BodyTooLarge, problem_of
from service.server.composition import run_services
from service.settings import Settings
from service.telemetry.logs import make_logger
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    import socket

DISTRIBUTION: Final = "privacy-bounds"
PATH: Final = "/mcp"
INSTRUCTIONS: Final = (
    "Certified bounds on what an attacker can learn from a differentially private training run or data release. "
    f"Describe what was done as a mechanism, and ask questions about it. {QUOTING} Never replace a bound by a number "
    "of your own. If a field is unknown, read the catalogue or ask the user."
)

Context = ServerRequestContext[AppServices, Any]
ProtocolServer = Server[AppServices]


@asynccontextmanager
async def run_protocol_server(settings: Settings, metrics: Metrics) -> AsyncGenerator[ProtocolServer]:
    """Start the services, and yield a server of the protocol that all its sessions share."""
    version = distribution_version(DISTRIBUTION)
    async with run_services(settings, metrics, make_logger(settings.log_level), version) as services:

        @asynccontextmanager
        async def lifespan(_: ProtocolServer) -> AsyncGenerator[AppServices]:
            yield services

        yield Server(
            DISTRIBUTION,
            version=version,
            title="Privacy bounds",
            instructions=INSTRUCTIONS,
            lifespan=lifespan,
            on_list_tools=_list_tools,
            on_call_tool=_call_tool,
            on_list_resources=_list_resources,
            on_read_resource=_read_resource,
        )


async def _list_tools(_context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=await asyncio.to_thread(listed_tools))


async def _call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
    """Compute the answer of a tool. Raise MCPError for an unknown tool; other failures are results with `isError`."""
    if params.name not in TOOLS:
        raise MCPError(INVALID_PARAMS, f"There is no tool {params.name[:64]!r}. Tools: {', '.join(TOOLS)}.")
    services = context.lifespan_context
    body = json.dumps(params.arguments or {}).encode()
    try:
        if len(body) > services.settings.max_body_bytes:
            raise BodyTooLarge
        computed = await services.runner.answer(computation_of(params.name), body, _client(context))
    except Exception as error:  # noqa: BLE001 - as over HTTP, each becomes a problem, and unknown ones a fixed text
        return problem_result(problem_of(error, f"mcp {params.name}", str(context.request_id or "")))
    return await asyncio.to_thread(answer_result, computed.body)


def _client(context: Context) -> WaitingClient:
    """Return the client that the computation is accounted to: the address over HTTP, or the caller of this process."""
    request = context.request
    return LOCAL_CLIENT if request is None else WaitingClient(requester_from_scope(request.scope))


async def _list_resources(_context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
    return ListResourcesResult(resources=await asyncio.to_thread(listed_documents))


async def _read_resource(_context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    found = await asyncio.to_thread(document, params.uri)
    if found is None:
        raise MCPError(INVALID_PARAMS, "There is no document at this address. resources/list has all addresses.")
    return ReadResourceResult(contents=[found])


async def serve_stdio(settings: Settings, stdin: int, stdout: int) -> None:
    """Serve the protocol on two file descriptors until the input ends."""
    reading = anyio.wrap_file(TextIOWrapper(os.fdopen(stdin, "rb"), encoding="utf-8", errors="replace"))
    writing = anyio.wrap_file(TextIOWrapper(os.fdopen(stdout, "wb"), encoding="utf-8"))
    async with (
        run_protocol_server(settings, Metrics(CollectorRegistry(), ENGINE_VERSION)) as server,
        stdio_server(reading, writing) as (requests, responses),
    ):
        await server.run(requests, responses, server.create_initialization_options())


async def serve_http(settings: Settings, host: str, port: int, listening: socket.socket) -> None:
    """Serve the protocol at `/mcp` on an open socket until a signal arrives.

    Requests with a foreign `Host` or `Origin` are rejected, so that no web page can call the tools.
    """
    name = f"[{host}]" if ":" in host else host
    hosts = [f"{each}:{port}" for each in dict.fromkeys((name, "localhost", "127.0.0.1", "[::1]"))]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[f"http://{each}" for each in hosts])
    metrics = Metrics(CollectorRegistry(), ENGINE_VERSION)
    async with run_protocol_server(settings, metrics) as server:
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=2 * settings.max_body_bytes,
            transport_security=security,
        )
        configuration = uvicorn.Config(
            app,
            http=cast("Any", Connections(settings, metrics).protocol),
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.shutdown_timeout_seconds,
        )
        await uvicorn.Server(configuration).serve([listening])
