"""What runs inside a worker process: its limits, its end, and the computations that it is told to do.

A worker is forked from a server process that has the numeric libraries loaded, and is given work when it has computed
something once. It ends with the service, however that ends: the kernel kills it when its parent, the fork server,
dies (Linux), which does so when the service does; and a thread of its own waits for the end of the service. It also
ends at the time limit of its computation when nobody is there to end it.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from service.computations.abstract import Computes
from service.computations.deadlines import ends_after
from service.computations.violations import noted

Clock = Callable[[], float]

GRACE_SECONDS: Final = 1.0
"""How much later than the service a worker enforces its time limit itself."""
EARLY_SHARE: Final = 0.75
"""Share of the time limit after which no further part of a response is begun: the part under way needs time to end."""
PR_SET_PDEATHSIG: Final = 1
STATM: Final = Path("/proc/self/statm")

_at_start = 0
"""What a worker process had when it was ready for work."""


@dataclass(frozen=True, slots=True)
class Computed:
    """The response body of a computation, the seconds it took, by the clock and of CPU, violated invariants that it
    survived, what its process holds more than at its start, and whether the time limit left nothing out.
    """

    body: bytes
    seconds: float
    cpu_seconds: float
    violations: int
    kept_bytes: int = 0
    is_whole: bool = True


class ForeignError(Exception):
    """An exception of a library that only its library can make, such as a `ValidationError`. Its argument names it."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception on its way to the parent process, taken apart.

    Exceptions whose constructors take other arguments than their message cannot be rebuilt by calling them, so class,
    arguments and fields travel separately. So does its traceback, as the text that the log of the service shows.
    """

    error_type: type[Exception]
    arguments: tuple[Any, ...]
    fields: dict[str, Any]
    traceback: str
    kept_bytes: int = 0

    @staticmethod
    def take_apart(error: Exception) -> Raised:
        """What is needed to rebuild `error` elsewhere."""
        # Who has no memory left has none for a text about it.
        text = "" if isinstance(error, MemoryError) else "".join(traceback.format_exception(error))
        try:
            taken = Raised(type(error), error.args, dict(vars(error)), text)
            taken.rebuild()
        except Exception:  # noqa: BLE001 - whatever its class raises
            return Raised(ForeignError, (type(error).__name__,), {}, text)
        return taken

    def rebuild(self) -> Exception:
        """The exception as it was raised, with the traceback of its process as a note."""
        error = self.error_type.__new__(self.error_type)
        error.args = self.arguments
        vars(error).update(self.fields)
        error.add_note(f"In the worker process:\n{self.traceback}")
        return error


def initialise(
    memory_limit_bytes: int, niceness: int, modules: tuple[str, ...], warm_up: Callable[[], None] | None
) -> None:
    """Tie this process to the service, limit it, and do once what later computations should not wait for."""
    end_with_service()
    for number in (signal.SIGTERM, signal.SIGALRM):  # a handler in Python would wait for the end of a call into C
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # elsewhere the limit is not enforced, or counts shared libraries
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_bytes, memory_limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(niceness)
    for module in modules:  # loaded before the fork already, unless the fork server could not
        importlib.import_module(module)
    if warm_up is not None:
        warm_up()
    global _at_start  # noqa: PLW0603 - of this process
    _at_start = resident_bytes()


def resident_bytes() -> int:
    """What this process has of the memory of the machine; 0 where the kernel does not say (Linux does)."""
    try:
        return int(STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def end_with_service() -> None:
    """See to it that this process does not outlive the service that it works for."""
    end_with_parent()
    service = multiprocessing.parent_process()
    if service is None:
        return
    if not service.is_alive():
        os._exit(1)
    threading.Thread(target=_exit_after, args=(service,), daemon=True).start()


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent has ended (Linux)."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked to tell
        os._exit(1)


def _exit_after(service: Any) -> None:
    service.join()
    os._exit(1)


def run(
    computation: Computes, request: BaseModel, digest: str, engine_version: str, limit_seconds: float, ends_early: bool
) -> Computed | Raised:
    """Compute one response body. Exceptions are values here: only the death of the process is an error of the pool.

    `ends_early`: whether a response without the parts that are late is of use.
    """
    signal.setitimer(signal.ITIMER_REAL, limit_seconds + GRACE_SECONDS)  # its signal ends the process
    try:
        with ends_after(EARLY_SHARE * limit_seconds if ends_early else math.inf) as deadline:
            found = compute_body(computation, request, digest, engine_version, time.process_time)
        found = replace(found, is_whole=not deadline.was_met)
    except Exception as error:  # noqa: BLE001 - every failure of a computation belongs to its request
        found = Raised.take_apart(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return replace(found, kept_bytes=resident_bytes() - _at_start)


def ready() -> None:
    """Answered by a process that has initialised itself."""


def compute_body(
    computation: Computes, request: BaseModel, digest: str, engine_version: str, clock: Clock = time.perf_counter
) -> Computed:
    """The response body of a request, and how long it took; its CPU time by `clock`.

    A process of many threads on a busy machine waits a millisecond for its own CPU time: longer than for a closed form.
    """
    started, cpu = time.perf_counter(), clock()
    with noted() as violations:
        body = computation.body(request, digest, engine_version)
    return Computed(body, time.perf_counter() - started, clock() - cpu, len(violations))
