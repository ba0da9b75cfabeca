"""Start of the fork server of worker processes.

Workers are forked from that server, which loads the numeric libraries once. This module imports little, because the
server loads the modules.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from typing import Final

FORK_SERVER: Final = "service.execution.fork_server"
NUMERIC_THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def start_fork_server(preloaded_modules: tuple[str, ...]) -> ForkServerContext:
    """Start the fork server, if it is not running, and return the context that forks processes from it.

    The server loads `preloaded_modules` in the background. A server that is already running keeps its modules.
    """
    for variable in NUMERIC_THREAD_VARIABLES:  # numeric libraries read these variables when they are loaded
        os.environ[variable] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([FORK_SERVER, *preloaded_modules])
    forkserver.ensure_running()
    return context
