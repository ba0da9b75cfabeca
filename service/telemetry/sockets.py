"""Listening sockets at a host and port, or at the path of a Unix socket."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

Address: TypeAlias = "tuple[str, int] | Path"
BACKLOG: Final = 2048
OWNER_ONLY_UMASK: Final = 0o177
"""Umask for the creation of a Unix socket, which gives the socket mode 0600."""


class CannotListen(Exception):
    """Failure to listen at an address. The message is one sentence for the operator."""

    def __init__(self, address: Address, reason: str) -> None:
        place = f"unix:{address}" if isinstance(address, Path) else f"{address[0]}:{address[1]}"
        super().__init__(f"cannot listen on {place}: {reason}")


@contextmanager
def listen(address: Address, *, share_port: bool = False) -> Generator[socket.socket]:
    """Open a listening socket at an address, yield it, and close it at the end of the block. Raise CannotListen.

    A Unix socket has mode 0600 and is removed at the end. A stale Unix socket, on which no process listens, is
    replaced. With `share_port`, other processes may listen on the same port (SO_REUSEPORT).
    """
    try:
        opened = _bind_path(address) if isinstance(address, Path) else _bind_port(*address, share_port=share_port)
    except (OSError, UnicodeError) as error:
        raise CannotListen(address, _reason(error)) from error
    own = _identity(address) if isinstance(address, Path) else None
    try:
        yield opened
    finally:
        opened.close()
        if isinstance(address, Path) and own == _identity(address):
            with suppress(OSError):
                address.unlink()


def ensure_can_listen(host: str, port: int) -> None:
    """Check that the host has an address that can be bound, and that its port is free. Raise CannotListen otherwise.

    Of several addresses of a host, one that can be bound is enough, unless the port of another is in use. The sockets
    of the check are closed again, so a server that starts later can still find the port in use.
    """
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise CannotListen((host, port), _reason(error)) from error
    failures: list[OSError] = []
    for family, kind, _, _, place in addresses:
        try:
            _bind_and_close(family, kind, place)
        except OSError as error:
            failures.append(error)
    # A machine without IPv6 may still name an address of it: servers skip such an address.
    serious = [each for each in failures if each.errno == errno.EADDRINUSE or len(failures) == len(addresses)]
    if serious:
        raise CannotListen((host, port), _reason(serious[0])) from serious[0]


def _bind_and_close(family: int, kind: int, place: tuple[Any, ...]) -> None:
    with socket.socket(family, kind) as probing:
        if os.name == "posix":
            probing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probing.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probing.bind(place)


def _bind_port(host: str, port: int, *, share_port: bool) -> socket.socket:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, place = found[0]
    return socket.create_server(place[:2], family=family, backlog=BACKLOG, reuse_port=share_port)


def _bind_path(path: Path) -> socket.socket:
    _remove_stale_socket(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(OWNER_ONLY_UMASK)
    try:
        opened.bind(str(path))
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    finally:
        os.umask(before)
    return opened


def _remove_stale_socket(path: Path) -> None:
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise FileExistsError(None, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except TimeoutError:
            pass
    raise OSError(None, "Address already in use")


def _reason(error: OSError | UnicodeError) -> str:
    if not isinstance(error, OSError):
        return "the host is no name"
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error.strerror)  # errors of the resolver have negative numbers


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
