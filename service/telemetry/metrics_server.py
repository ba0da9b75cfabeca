"""HTTP server with `/metrics` and `/livez`, for worker processes of a cluster."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeAlias, cast, final

from prometheus_client import CONTENT_TYPE_LATEST
from typing_extensions import override

from service.telemetry.sockets import Address, listen

CLIENT_SECONDS: Final = 10.0
LIVE: Final = b'{"status":"live"}'
REFUSED: Final = b"Send an API key with the scope metrics as Authorization: Bearer.\n"


Guard: TypeAlias = "Callable[[list[str]], int]"
"""Function from the values of the header `Authorization` to the status of the response: 200 for who may read."""


@contextmanager
def serve_metrics(
    address: Address | None, exposition: Callable[[], bytes], guard: Guard | None = None
) -> Generator[None]:
    """Serve metrics at an address while the block runs. Do nothing for None. Raise CannotListen.

    Each request calls `exposition` in a separate thread and returns the bytes of the metrics. `guard` returns the
    status for the values of the header `Authorization`; with another status than 200 a caller receives no metrics.
    """
    if address is None:
        yield
        return
    with listen(address) as opened:
        server = _Server(opened, exposition, guard)
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@final
class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, opened: socket.socket, exposition: Callable[[], bytes], guard: Guard | None) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = opened
        self.exposition = exposition
        self.guard = guard

    @override
    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, _ = self.socket.accept()
        return accepted, ("operator", 0)  # a Unix socket has no address

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections, because clients may disconnect at any time."""


@final
class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        server = cast("_Server", self.server)
        if path == "/metrics":
            status = 200 if server.guard is None else server.guard(self.headers.get_all("Authorization", []))
            if status == HTTPStatus.OK:
                self._answer(status, CONTENT_TYPE_LATEST, server.exposition())
            else:
                self._answer(status, "text/plain; charset=utf-8", REFUSED)
        elif path == "/livez":
            self._answer(200, "application/json", LIVE)
        else:
            self._answer(404, "text/plain; charset=utf-8", b"There are /metrics and /livez here.\n")

    def _answer(self, status: int, media_type: str, body: bytes) -> None:
        self.send_response(status)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Bearer realm="privacy-bounds"')
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Write no access log, because standard error contains only JSON."""
