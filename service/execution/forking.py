"""Start the server that worker processes are forked from. This module is light: the server loads beside the service."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from typing import Final

FORK_SERVER: Final = "service.execution.fork_server"
NUMERIC_THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def start_fork_server(preloaded_modules: tuple[str, ...]) -> ForkServerContext:
    """Start the fork server, unless it runs, and return the context whose processes it forks.

    The server loads `preloaded_modules` meanwhile. A server that runs keeps what it was started with.
    """
    for variable in NUMERIC_THREAD_VARIABLES:  # read by numeric libraries where they are loaded
        os.environ[variable] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([FORK_SERVER, *preloaded_modules])
    forkserver.ensure_running()
    return context
