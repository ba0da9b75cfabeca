"""Command `privacy-bounds mcp`: checks of the address, standard streams, and exit codes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

from service.server.serve import PROBLEM_EXIT_CODE, UNABLE_TO_LISTEN_EXIT_CODE, load_settings, may_serve


def run_mcp(address: tuple[str, int] | None) -> int:
    """Serve the protocol until its input ends or a signal arrives, and return the exit code.

    The code is 2 for invalid settings and missing credentials, 3 if the service cannot listen, else 0. `address` is the
    host and port of HTTP, or None for standard input and output.
    """
    import_module("mcp")  # before the standard streams are claimed: the caller reports what is not installed
    settings = load_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    settings = settings.model_copy(update={"operator_bind": None})  # which is the port of a service
    if address is not None and not may_serve(settings, address[0]):
        return PROBLEM_EXIT_CODE
    streams = _claim_standard_streams() if address is None else (0, 0)
    from service.execution.forking import start_fork_server
    from service.preloaded import preloaded_modules

    start_fork_server(preloaded_modules())  # loads what workers need while this process loads the protocol
    from service.mcp.server import serve_http, serve_stdio
    from service.telemetry.sockets import CannotListen, listen

    if address is None:
        asyncio.run(serve_stdio(settings, *streams))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the event loop handles it
    try:
        with suppress(KeyboardInterrupt), listen(address) as listening:
            port = listening.getsockname()[1]
            sys.stderr.write(f"http://{address[0]}:{port}/mcp\n")
            asyncio.run(serve_http(settings, address[0], port, listening))
    except CannotListen as error:
        return _report(str(error), UNABLE_TO_LISTEN_EXIT_CODE)
    return 0


def _claim_standard_streams() -> tuple[int, int]:
    # prints of this process and its children go to standard error, so that only the protocol is on standard output
    private = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return private


def _report(sentence: str, code: int) -> int:
    sys.stderr.write(f"privacy-bounds: {sentence}\n")
    return code
