"""Commands `privacy-bounds serve` and `worker`: settings, listening sockets and exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    import socket

    from service.settings import Settings

NO_WORKER_EXIT_CODE: Final = 1
PROBLEM_EXIT_CODE: Final = 2
UNABLE_TO_LISTEN_EXIT_CODE: Final = 3


def serve(host: str, port: int, listening: socket.socket | None = None, operators: socket.socket | None = None) -> int:
    """Serve until a signal arrives, and return the exit code.

    The code is 2 for invalid settings and missing credentials, and 3 if the service cannot listen. `listening` and
    `operators` are sockets that are already open. Without `listening` the server listens at `host` and `port`, and
    without `operators` at the address of the settings.
    """
    settings = _load_server_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.telemetry.sockets import CannotListen, ensure_can_listen

    try:
        if listening is None:
            ensure_can_listen(host, port)
        else:
            host = str(listening.getsockname()[0])
        if not may_serve(settings, host):
            return PROBLEM_EXIT_CODE
        with _operator_socket(settings, operators) as for_operators:
            return _serve(settings, host, port, listening, for_operators)
    except CannotListen as error:
        return _report_listen_error(error)


def _serve(
    settings: Settings, host: str, port: int, listening: socket.socket | None, operators: socket.socket | None
) -> int:
    from service.execution.forking import start_fork_server
    from service.preloaded import preloaded_modules
    from service.server.allocator import share_one_arena

    share_one_arena()
    start_fork_server(preloaded_modules())  # loads what workers need while this process loads the framework
    from service.server.application import create_server

    signal.signal(signal.SIGTERM, _exit)  # which the server raises again when it has ended
    if settings.jobs_backend == "embedded" and settings.data_folder is None:
        settings = settings.model_copy(update={"data_folder": _create_state_folder()})
    server = create_server(settings, host, port, operators)
    with suppress(KeyboardInterrupt):  # which the server raises again, as it does SIGTERM
        server.run(None if listening is None else [listening])
    return 0 if server.started else UNABLE_TO_LISTEN_EXIT_CODE


def serve_processes(count: int, host: str, port: int) -> int:
    """Serve with `count` processes until a signal arrives, and return the exit code.

    The codes are those of `serve`, or that of a process if none can start.
    """
    settings = _load_server_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.server.supervisor import run_supervised
    from service.telemetry.sockets import CannotListen, listen

    try:
        with listen((host, port)) as public, _operator_socket(settings, None) as operators:
            if not may_serve(settings, host):
                return PROBLEM_EXIT_CODE
            return run_supervised(count, public, operators, settings)
    except CannotListen as error:
        return _report_listen_error(error)


def serve_shared_port(host: str, port: int) -> int:
    """Serve on a port that other instances may share, and return the exit code.

    The kernel distributes the connections. The codes are those of `serve`.
    """
    settings = load_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.telemetry.sockets import CannotListen, listen

    try:
        with (
            listen((host, port), share_port=True) as public,
            _operator_socket(settings, None, share_port=True) as operators,
        ):
            return serve(host, port, public, operators)
    except CannotListen as error:
        return _report_listen_error(error)


def serve_inherited_socket(descriptor: int, operators: int | None) -> int:
    """Serve on sockets that a parent process opened, and exit with the parent.

    `descriptor` is the file descriptor of the public port, and `operators` that of the operator port, or None.
    """
    import socket

    from service.execution.worker import end_with_parent

    end_with_parent()
    for_operators = None if operators is None else socket.socket(fileno=operators)
    return serve("", 0, socket.socket(fileno=descriptor), for_operators)


def may_serve(settings: Settings, host: str | None) -> bool:
    """Return whether the service may listen, or False after a sentence about credentials on standard error.

    `host` is the host of the public port, or None for a process that has only an operator port.
    """
    from service.server.access import CannotAuthenticate, ensure_authentication

    try:
        ensure_authentication(settings, host)
    except CannotAuthenticate as error:
        print(f"privacy-bounds: {error}", file=sys.stderr)
        return False
    return True


@contextmanager
def _operator_socket(
    settings: Settings, given: socket.socket | None, *, share_port: bool = False
) -> Generator[socket.socket | None]:
    address = settings.operator_address
    if given is not None or address is None:
        yield given
        return
    from service.telemetry.sockets import listen

    with listen(address, share_port=share_port) as opened:
        yield opened


def _exit(*_: object) -> NoReturn:
    sys.exit(0)


def _report_listen_error(error: Exception) -> int:
    print(f"privacy-bounds: {error}", file=sys.stderr)
    return UNABLE_TO_LISTEN_EXIT_CODE


def run_job_worker(*, only_check: bool) -> int:
    """Compute chunks (consecutive points) of jobs until a signal arrives, and return the exit code.

    The code is 2 for invalid or missing settings and missing credentials, and 3 if the worker cannot listen for its
    metrics. With `only_check`, return 0 if a worker runs on this machine, otherwise 1. Raise ImportError without
    Celery.
    """
    import_module("celery")  # the caller reports what is not installed
    settings = load_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    if settings.redis_url is None or not settings.seal_key:
        needed = "PRIVACY_BOUNDS_REDIS_URL and PRIVACY_BOUNDS_SEAL_KEY, those of the service"
        print(f"privacy-bounds: a worker needs {needed}.", file=sys.stderr)
        return PROBLEM_EXIT_CODE
    if only_check:
        from service.jobs.celery.store import is_worker_on_this_host

        return 0 if is_worker_on_this_host(settings.redis_url.get_secret_value()) else NO_WORKER_EXIT_CODE
    if not may_serve(settings, None):
        return PROBLEM_EXIT_CODE
    from service.server.allocator import share_one_arena
    from service.server.jobs import run_worker
    from service.telemetry.sockets import CannotListen

    share_one_arena()
    try:
        return run_worker(settings)
    except CannotListen as error:
        return _report_listen_error(error)


def load_settings() -> Settings | None:
    """Load the settings and set up logging. Return None after invalid settings were reported on standard error."""
    import logging

    from service.settings import ConfigurationError, read_settings

    try:
        settings = read_settings()
    except ConfigurationError as error:
        for sentence in error.args:
            print(f"privacy-bounds: {sentence}", file=sys.stderr)
        return None
    from service.telemetry.logs import EventHandler, make_logger

    logging.basicConfig(handlers=[EventHandler(make_logger(settings.log_level))], level=logging.WARNING)
    return settings


def _load_server_settings() -> Settings | None:
    settings = load_settings()
    if settings is None or settings.signing_keys is None:
        return settings
    from service.signing.errors import UnusableKeys
    from service.signing.keys import read_signing_keys

    try:
        read_signing_keys(settings.signing_keys)
    except UnusableKeys as error:
        print(f"privacy-bounds: PRIVACY_BOUNDS_SIGNING_KEYS is not accepted: {error.sentence}.", file=sys.stderr)
        return None
    return settings


def default_state_folder() -> Path:
    """Return the default folder for the jobs of this user, below XDG_STATE_HOME or `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path("~/.local/state").expanduser()) / "privacy-bounds"


def _create_state_folder() -> Path | None:
    try:
        folder = default_state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None
