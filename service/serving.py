"""`privacy-bounds serve` and `worker`: what serves, with what settings, on which socket."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    import socket

    from service.settings import Settings

NOT_HERE_EXIT_CODE: Final = 1
PROBLEM_EXIT_CODE: Final = 2
UNABLE_TO_LISTEN_EXIT_CODE: Final = 3


def serve(host: str, port: int, listening: socket.socket | None = None, operators: socket.socket | None = None) -> int:
    """Serve until a signal comes. `listening`, `operators`: sockets that are there; else the settings name them."""
    settings = settings_of_environment()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.telemetry.listening import CannotListen, check

    try:
        if listening is None:
            check(host, port)
        with _operators(settings, operators) as for_operators:
            return _serve(settings, host, port, listening, for_operators)
    except CannotListen as error:
        return _unable_to_listen(error)


def _serve(
    settings: Settings, host: str, port: int, listening: socket.socket | None, operators: socket.socket | None
) -> int:
    from service.execution.forking import start_fork_server
    from service.preloaded import preloaded_modules

    start_fork_server(preloaded_modules())  # loads what workers need while this process loads the framework
    from service.main import create_server

    signal.signal(signal.SIGTERM, _end)  # which the server raises again when it has ended
    if settings.jobs_backend == "embedded" and settings.data_folder is None:
        settings = settings.model_copy(update={"data_folder": state_folder()})
    server = create_server(settings, host, port, operators)
    server.run(None if listening is None else [listening])
    return 0 if server.started else UNABLE_TO_LISTEN_EXIT_CODE


def serve_several(count: int, host: str, port: int) -> int:
    """Serve with several processes until a signal comes."""
    settings = settings_of_environment()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.processes import serve_with
    from service.telemetry.listening import CannotListen, listening

    try:
        with listening((host, port)) as public, _operators(settings, None) as operators:
            return serve_with(count, public, operators, settings)
    except CannotListen as error:
        return _unable_to_listen(error)


def serve_shared(host: str, port: int) -> int:
    """Serve on a port that other instances may have as well; the kernel gives connections to one or the other."""
    settings = settings_of_environment()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.telemetry.listening import CannotListen, listening

    try:
        with (
            listening((host, port), share_port=True) as public,
            _operators(settings, None, share_port=True) as operators,
        ):
            return serve(host, port, public, operators)
    except CannotListen as error:
        return _unable_to_listen(error)


def serve_one_of_several(descriptor: int, operators: int | None) -> int:
    """Serve from sockets that another process has opened, and end with it."""
    import socket

    from service.execution.worker import end_with_parent

    end_with_parent()
    for_operators = None if operators is None else socket.socket(fileno=operators)
    return serve("", 0, socket.socket(fileno=descriptor), for_operators)


@contextmanager
def _operators(
    settings: Settings, given: socket.socket | None, *, share_port: bool = False
) -> Generator[socket.socket | None]:
    """Yield the socket for operators: the given one, else that of the settings, or None. Raises CannotListen."""
    address = settings.operator_address
    if given is not None or address is None:
        yield given
        return
    from service.telemetry.listening import listening

    with listening(address, share_port=share_port) as opened:
        yield opened


def _end(*_: object) -> NoReturn:
    """End in an orderly way: what was opened is closed and removed."""
    sys.exit(0)


def _unable_to_listen(error: Exception) -> int:
    print(f"privacy-bounds: {error}", file=sys.stderr)
    return UNABLE_TO_LISTEN_EXIT_CODE


def work(*, only_check: bool) -> int:
    """Compute pieces of jobs until a signal comes; or tell by the exit code whether somebody here does."""
    settings = settings_of_environment()
    if settings is None:
        return PROBLEM_EXIT_CODE
    if settings.redis_url is None or not settings.seal_key:
        needed = "PRIVACY_BOUNDS_REDIS_URL and PRIVACY_BOUNDS_SEAL_KEY, those of the service"
        print(f"privacy-bounds: a worker needs {needed}.", file=sys.stderr)
        return PROBLEM_EXIT_CODE
    if only_check:
        from service.jobs.celery.store import is_worker_here

        return 0 if is_worker_here(settings.redis_url.get_secret_value()) else NOT_HERE_EXIT_CODE
    from service.main import run_worker
    from service.telemetry.listening import CannotListen

    try:
        return run_worker(settings)
    except CannotListen as error:
        return _unable_to_listen(error)


def settings_of_environment() -> Settings | None:
    """Return the settings and set up the log. Return None for wrong settings, after a sentence on standard error."""
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


def state_folder_name() -> Path:
    """Return the folder in which jobs of this user are kept when no folder is named."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path("~/.local/state").expanduser()) / "privacy-bounds"


def state_folder() -> Path | None:
    """Make that folder and return it; None where nothing can be kept there."""
    try:
        folder = state_folder_name()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None
