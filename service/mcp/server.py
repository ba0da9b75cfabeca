"""Server of the Model Context Protocol over standard input and output, or over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from http import HTTPStatus
from importlib.metadata import version as distribution_version
from typing import TYPE_CHECKING, Any, Final, cast, final

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
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Scope
from typing_extensions import override

from service.access.addresses import is_loopback
from service.access.authenticator import Authenticator
from service.access.caller import caller_of
from service.api.access_layer import AccessLayer
from service.api.caller_context import logged_caller, requester_of
from service.api.connections import Connections
from service.api.dependencies import AppServices
from service.api.problem_responses import MEDIA_TYPE, error_headers
from service.engine_version import ENGINE_VERSION
from service.execution.client import LOCAL_CLIENT, WaitingClient
from service.mcp.answers import QUOTING, answer_result, problem_result
from service.mcp.documents import document, listed_documents
from service.mcp.http_layers import without_duplicate_keys, without_origins
from service.mcp.messages import answer_invalid_lines
from service.mcp.streams import LineWriter, read_lines
from service.mcp.tools import TOOLS, computation_of, listed_tools
from service.problems import BodyTooLarge, problem_of
from service.server.access import build_authenticator, requires_credentials
from service.server.composition import run_services
from service.settings import Settings
from service.telemetry.logs import make_logger
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    import socket

DISTRIBUTION: Final = "privacy-bounds"
LOGGER: Final = logging.getLogger(__name__)
PATH: Final = "/mcp"
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the server."""
LONGEST_MESSAGE: Final = 2
"""Size of a message over that of a body. JSON escapes and the envelope of the protocol take space."""
LONGEST_LINE: Final = 16
"""Size over that of a body from which a line is cut. Up to there, a tool answers that its arguments are too large."""
CLOSING_SECONDS: Final = 5
"""Time in which a client reads the last messages after it has closed its output."""
MOST_SESSIONS: Final = 100
"""Number of sessions that may be open. Each one keeps what its client said about itself, at most one message."""
INSTRUCTIONS: Final = (
    "Certified bounds on what an attacker can learn from a differentially private training run or data release. "
    f"Describe what was done as a mechanism, and ask questions about it. {QUOTING} Never replace a bound by a number "
    "of your own. If a field is unknown, read the catalogue or ask the user."
)

Context = ServerRequestContext[AppServices, Any]
ProtocolServer = Server[AppServices]


@asynccontextmanager
async def _run_protocol_server(settings: Settings, metrics: Metrics) -> AsyncGenerator[ProtocolServer]:
    version = distribution_version(DISTRIBUTION)
    settings = settings.model_copy(update={"data_folder": None})  # jobs of a service are not touched
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
    if params.name not in TOOLS:
        raise MCPError(INVALID_PARAMS, f"There is no tool {params.name[:64]!r}. Tools: {', '.join(TOOLS)}.")
    services, request_id = context.lifespan_context, secrets.token_hex(16)
    body = json.dumps(params.arguments or {}).encode()
    try:
        if len(body) > services.settings.max_body_bytes:
            raise BodyTooLarge
        computed = await services.runner.answer(computation_of(params.name), body, _waiting_client(context))
    except Exception as error:
        problem = problem_of(error, f"mcp {params.name}", request_id)
        if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            LOGGER.error("request %s: %s", problem.request_id, problem.type, exc_info=error)
        _audit_call(context, params.name, request_id, None, problem_result(problem))
        return problem_result(problem)
    result = await asyncio.to_thread(answer_result, computed.body)
    _audit_call(context, params.name, request_id, computed.digest, result)
    return result


def _audit_call(context: Context, tool: str, request_id: str, digest: str | None, result: CallToolResult) -> None:
    # without arguments and answer
    audit, request = context.lifespan_context.audit, context.request
    if audit is None:
        return
    caller = None if request is None else logged_caller(caller_of(request.scope))
    client = None if request is None else request.scope.get("client")
    content: dict[str, Any] = dict(result.structured_content or {})
    decided: dict[str, Any] = content.get("decision") or {}
    audit.write(
        {
            "event": "tool",
            "request_id": request_id,
            "caller": None if caller is None else asdict(caller),
            "address": client[0] if client else None,
            "tool": tool,
            "digest": digest,
            "decision": decided.get("id"),
            "verdict": decided.get("verdict"),
            "problem": content.get("type") if result.is_error else None,
        }
    )


def _waiting_client(context: Context) -> WaitingClient:
    # As over HTTP, a computation ends when its last client has disconnected. No session delivers its answer later.
    request = context.request
    if request is None:
        return LOCAL_CLIENT

    async def wait_disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    requester = requester_of(request.scope, caller_of(request.scope))
    limits = context.lifespan_context.work_limits
    return WaitingClient(requester, wait_disconnected, None if limits is None else limits.account(requester))


def _is_worth_logging(record: logging.LogRecord) -> bool:
    # more than the disconnection of a client
    return not (record.exc_info and isinstance(record.exc_info[1], ClientDisconnect))


async def _list_resources(_context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
    return ListResourcesResult(resources=await asyncio.to_thread(listed_documents))


async def _read_resource(_context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    found = await asyncio.to_thread(document, params.uri)
    if found is None:
        raise MCPError(INVALID_PARAMS, "There is no document at this address. resources/list has all addresses.")
    return ReadResourceResult(contents=[found])


async def serve_stdio(settings: Settings, stdin: int, stdout: int) -> None:
    """Serve the Model Context Protocol on two file descriptors.

    The call returns at the end of the input, when the output is closed, or at a signal.
    """
    loop, stop = asyncio.get_running_loop(), _cancel_at_signals()
    output = LineWriter(stdout)
    lines = answer_invalid_lines(read_lines(stdin, LONGEST_LINE * settings.max_body_bytes), output)
    streams = cast("anyio.AsyncFile[str]", lines), cast("anyio.AsyncFile[str]", output)
    with suppress(asyncio.CancelledError):
        async with _run_protocol_server(settings, Metrics(CollectorRegistry(), ENGINE_VERSION)) as server:
            try:
                async with stdio_server(*streams) as (requests, responses):
                    await server.run(requests, responses, server.create_initialization_options())
                    loop.call_later(CLOSING_SECONDS, stop)  # for a client that does not read the last messages
            except* BrokenPipeError:
                pass  # the client has gone


async def serve_http(settings: Settings, host: str, port: int, listening: socket.socket) -> None:
    """Serve the protocol at `/mcp` on an open socket until a signal arrives.

    Requests with a foreign `Host` or `Origin` are rejected, so that no web page can call the tools. Beyond this machine
    the service does not know the names of its host, and rejects every `Origin`. The open socket is `listening`, bound
    to `host` and `port`.
    """
    name = f"[{host}]" if ":" in host else host
    hosts = [f"{each}:{port}" for each in dict.fromkeys((name, "localhost", "127.0.0.1", "[::1]"))]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_loopback(host),
        allowed_hosts=hosts,
        allowed_origins=[f"http://{each}" for each in hosts],
    )
    logging.getLogger("mcp.server.streamable_http").addFilter(_is_worth_logging)
    metrics = Metrics(CollectorRegistry(), ENGINE_VERSION)
    _cancel_at_signals()  # until the server handles them
    closed = requires_credentials(settings, host)
    authenticator = build_authenticator(settings, make_logger(settings.log_level)) if closed else None
    with suppress(asyncio.CancelledError):
        async with (
            nullcontext() if authenticator is None else authenticator.running(),
            _run_protocol_server(settings, metrics) as server,
        ):
            configuration = _http_configuration(server, settings, metrics, security, authenticator)
            await _EndingServer(configuration).serve([listening])


def _cancel_at_signals() -> Callable[[], bool]:
    # the returned function cancels the task at once
    stop = cast("asyncio.Task[None]", asyncio.current_task()).cancel
    for each in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(each, stop)
    return stop


def refuse_call(error: Exception, scope: Scope) -> ASGIApp:
    """Return the response to a request without valid credentials."""
    problem = problem_of(error, str(scope["path"]), secrets.token_hex(16))
    headers = {"Cache-Control": "no-store", **error_headers(error, problem.status)}
    return Response(problem.json_bytes(), problem.status, headers, MEDIA_TYPE)


def _http_configuration(
    server: ProtocolServer,
    settings: Settings,
    metrics: Metrics,
    security: TransportSecuritySettings,
    authenticator: Authenticator | None,
) -> uvicorn.Config:
    longest = LONGEST_MESSAGE * settings.max_body_bytes
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=longest,
        max_sessions=MOST_SESSIONS,
        transport_security=security,
    )
    app = without_duplicate_keys(app, longest)
    if not security.enable_dns_rebinding_protection:
        app = without_origins(app)
    if authenticator is not None:
        app = AccessLayer(app, authenticator=authenticator, needed_scope=lambda _: "compute", refuse=refuse_call)
    return uvicorn.Config(
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


@final
class _EndingServer(uvicorn.Server):
    # ends after a signal, and does not raise the signal again
    @override
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        for each in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self.handle_exit, each, None)
        yield
