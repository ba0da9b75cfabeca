"""Listening sockets: one sentence for each failure, and no file left behind."""

from __future__ import annotations

import http.client
import socket
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from service.telemetry.metrics_server import serve_metrics
from service.telemetry.sockets import CannotListen, ensure_can_listen, listen
from tests.conftest import port_of, reserved_port


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("operator", timeout=5)
        self.path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(5)
        self.sock.connect(str(self.path))


def get(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    with closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_unix_socket_is_private_and_removed_with_its_server(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    with serve_metrics(path, lambda: b"a_metric 1\n"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert get(UnixConnection(path), "/metrics") == (200, b"a_metric 1\n")
        assert get(UnixConnection(path), "/livez?verbose")[0] == 200
        assert get(UnixConnection(path), "/v1/bounds")[0] == 404
    assert not path.exists()


def test_metrics_are_served_on_a_port(tmp_path: Path) -> None:
    del tmp_path
    with closing(reserved_port()) as place:
        port = port_of(place)
        with serve_metrics(("127.0.0.1", port), lambda: b"a_metric 1\n"):
            assert get(http.client.HTTPConnection("127.0.0.1", port), "/metrics") == (200, b"a_metric 1\n")
    with serve_metrics(None, bytes):
        pass


def test_only_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with listen(path):
        with pytest.raises(CannotListen, match=r"^cannot listen on unix:.*operator\.sock: Address already in use$"):
            listen(path).__enter__()
        assert path.exists(), "the socket of the one that runs stays"
    file = tmp_path / "file"
    file.write_text("kept")
    with pytest.raises(CannotListen, match="no socket"):
        listen(file).__enter__()
    assert file.read_text() == "kept"


def test_socket_of_successor_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    with socket.socket(socket.AF_UNIX) as successor:
        with listen(path):
            path.unlink()
            successor.bind(str(path))
        assert path.exists()


@pytest.mark.parametrize(
    "address",
    [
        ("no.such.host.invalid", 8000),
        ("a..b", 8000),
        ("x" * 70 + ".example", 8000),
        ("203.0.113.7", 8000),
        Path("/no/such/folder/operator.sock"),
        Path("x" * 300),
    ],
    ids=str,
)
def test_invalid_address_is_one_sentence(address: Any) -> None:
    with pytest.raises(CannotListen) as caught:
        listen(address).__enter__()
    assert str(caught.value).startswith("cannot listen on ")
    assert "\n" not in str(caught.value)


def test_host_and_port_are_checked_before_anything_starts() -> None:
    ensure_can_listen("127.0.0.1", 0)
    ensure_can_listen("localhost", 0)
    for host in ("no.such.host.invalid", "a..b"):
        with pytest.raises(CannotListen):
            ensure_can_listen(host, 8000)


def test_port_in_use_is_one_sentence() -> None:
    with listen(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(CannotListen, match=f"^cannot listen on 127.0.0.1:{port}: Address already in use$"):
            listen(("127.0.0.1", port)).__enter__()
        for host in ("127.0.0.1", "localhost", "0.0.0.0"):
            with pytest.raises(CannotListen, match=f"^cannot listen on {host}:{port}: Address already in use$"):
                ensure_can_listen(host, port)
    ensure_can_listen("127.0.0.1", port)
