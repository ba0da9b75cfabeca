"""A gateway in front of the service: it forwards requests, or answers them with a given status."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.timeouts import TEST_TIMEOUT

KEPT_BACK = frozenset({"connection", "transfer-encoding", "content-length", "date"})


class Gateway:
    """A gateway with a configurable response.

    `status` is the response to POST; None forwards the response of the service. `key` is the required API key, if any.
    """

    def __init__(self, service: str) -> None:
        self.service = urlsplit(service)
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = "<html><b>gateway</b></html>"
        self.key: str | None = None
        self.address = ""


@contextmanager
def gateway(service: str) -> Generator[Gateway]:
    answer = Gateway(service)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on("GET", None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if answer.key is not None and self.headers["Authorization"] != f"Bearer {answer.key}":
                self._answer(401, {}, answer.body.encode())
            elif answer.status is not None:
                self._answer(answer.status, answer.headers, answer.body.encode())
            else:
                self._pass_on("POST", body)

        def _pass_on(self, method: str, body: bytes | None) -> None:
            connection = http.client.HTTPConnection(
                str(answer.service.hostname), answer.service.port, timeout=TEST_TIMEOUT
            )
            kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            with closing(connection), suppress(ConnectionError):  # The page aborts requests.
                connection.request(method, self.path, body, kept)
                response = connection.getresponse()
                self._answer(response.status, dict(response.getheaders()), response.read())

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in KEPT_BACK:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Discard the log line."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    answer.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield answer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
