"""Worker process: resource limits, termination with the service, and execution of computations.

A worker is forked from a fork server that has loaded the numeric libraries, and runs a warm-up before its first
computation. A worker never outlives the service: the kernel kills the worker when the fork server ends (Linux), and a
thread of the worker waits for the end of the service. A timer of the worker enforces the time limit of a computation
if the service does not.
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

from service.resources.abstract import BodyProducer
from service.resources.deadlines import ends_after
from service.resources.violations import collect_violations

Clock = Callable[[], float]

GRACE_SECONDS: Final = 1.0
"""Seconds after the time limit at which the worker kills itself, if the service has not killed the worker."""
DEADLINE_SHARE: Final = 0.75
"""Share of the time limit after which no part or search of a response is begun. The current one needs the rest."""
PR_SET_PDEATHSIG: Final = 1
STATM: Final = Path("/proc/self/statm")

_initial_bytes = 0
"""Resident bytes of this process after its initialisation."""


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """Response body of a computation with its measurements.

    `seconds` is wall-clock time and `cpu_seconds` CPU time. `violations` counts violated invariants that did not stop
    the computation. `retained_bytes` is the growth of the resident memory since the initialisation of the process.
    `is_complete` is False if the deadline left parts of the response out.
    """

    body: bytes
    seconds: float
    cpu_seconds: float
    violations: int
    retained_bytes: int = 0
    is_complete: bool = True


class ForeignError(Exception):
    """Stand-in for an exception that cannot be restored in another process. Its argument is the class name."""


@dataclass(frozen=True, slots=True)
class WorkerError:
    """Exception in a form that can be sent to the parent process.

    Some constructors take other arguments than `args`, so an exception cannot always be restored by calling its class.
    Class, arguments and attributes are therefore sent separately, and the traceback as text for the log.
    `retained_bytes` is the growth of the resident memory of the process since its initialisation.
    """

    error_type: type[Exception]
    arguments: tuple[Any, ...]
    fields: dict[str, Any]
    traceback: str
    retained_bytes: int = 0

    @staticmethod
    def serialize(error: Exception) -> WorkerError:
        """Return the serialized form of an exception. One that cannot be restored becomes a ForeignError."""
        # After a MemoryError there may be no memory for the text of a traceback.
        text = "" if isinstance(error, MemoryError) else "".join(traceback.format_exception(error))
        try:
            serialized = WorkerError(type(error), error.args, dict(vars(error)), text)
            serialized.restore()
        except Exception:  # noqa: BLE001 - whatever its class raises
            return WorkerError(ForeignError, (type(error).__name__,), {}, text)
        return serialized

    def restore(self) -> Exception:
        """Return the exception with its attributes, and with the traceback of the worker process as a note."""
        error = self.error_type.__new__(self.error_type)
        error.args = self.arguments
        vars(error).update(self.fields)
        error.add_note(f"In the worker process:\n{self.traceback}")
        return error


def initialise(
    memory_limit_bytes: int, niceness: int, modules: tuple[str, ...], warm_up: Callable[[], None] | None
) -> None:
    """Initialise a worker process: tie its lifetime to the service, set limits, import modules, and warm up.

    The memory limit is in bytes and holds on Linux only. `niceness` is that of the operating system.
    """
    _end_with_service()
    for number in (signal.SIGTERM, signal.SIGALRM):  # a Python handler would wait for the end of a C call
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # elsewhere the limit is not enforced, or counts shared libraries
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_bytes, memory_limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(niceness)
    for module in modules:  # usually loaded by the fork server already
        importlib.import_module(module)
    if warm_up is not None:
        warm_up()
    global _initial_bytes  # noqa: PLW0603 - of this process
    _initial_bytes = _resident_bytes()


def _resident_bytes() -> int:
    # 0 on systems without /proc
    try:
        return int(STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _end_with_service() -> None:
    end_with_parent()
    service = multiprocessing.parent_process()
    if service is None:
        return
    if not service.is_alive():
        os._exit(1)
    threading.Thread(target=_exit_after, args=(service,), daemon=True).start()


def end_with_parent() -> None:
    """Request that the kernel kills this process when its parent ends. Without effect on other systems than Linux."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before prctl took effect
        os._exit(1)


def _exit_after(service: Any) -> None:
    service.join()
    os._exit(1)


def execute(
    computation: BodyProducer,
    request: BaseModel,
    digest: str,
    engine_version: str,
    limit_seconds: float,
    ends_early: bool,
) -> WorkerResult | WorkerError:
    """Compute one response body, and return the result or the serialized exception.

    Exceptions of the computation are returned, so that only the death of the process is an error of the pool.
    `limit_seconds` is the time limit; one second later the process kills itself. With `ends_early`, no part
    of the response and no search is begun after 3/4 of the time limit.
    """
    signal.setitimer(signal.ITIMER_REAL, limit_seconds + GRACE_SECONDS)  # SIGALRM ends the process
    try:
        with ends_after(DEADLINE_SHARE * limit_seconds if ends_early else math.inf) as deadline:
            result = compute_body(computation, request, digest, engine_version, time.process_time)
        result = replace(result, is_complete=not deadline.was_met)
    except Exception as error:  # noqa: BLE001 - every failure of a computation belongs to its request
        result = WorkerError.serialize(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return replace(result, retained_bytes=_resident_bytes() - _initial_bytes)


def ping() -> None:
    """Return None, so that a response shows that the worker process has been initialised."""


def compute_body(
    computation: BodyProducer, request: BaseModel, digest: str, engine_version: str, clock: Clock = time.perf_counter
) -> WorkerResult:
    """Compute the response body of a request, and measure wall-clock time, CPU time and violated invariants.

    `clock` returns the CPU time. The default is the wall clock, because reading the CPU time of a process with many
    threads can take a millisecond on a busy machine, longer than a closed form.
    """
    started, cpu = time.perf_counter(), clock()
    with collect_violations() as violations:
        body = computation.body(request, digest, engine_version)
    return WorkerResult(body, time.perf_counter() - started, clock() - cpu, len(violations))
