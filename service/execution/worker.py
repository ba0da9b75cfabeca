"""What runs inside a worker process. Importing this module is cheap: limits are set before numpy is loaded."""

from __future__ import annotations

import importlib
import os
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from service.computations.abstract import Computation
from service.computations.violations import noted

NUMERIC_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Computed:
    """The response body of a computation, the CPU-bound seconds it took, and violated invariants that it survived."""

    body: bytes
    seconds: float
    violations: int


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception on its way to the parent process, taken apart.

    Exceptions whose constructors take other arguments than their message cannot be rebuilt by calling them, so class,
    arguments and fields travel separately.
    """

    error_type: type[Exception]
    arguments: tuple[Any, ...]
    fields: dict[str, Any]

    @staticmethod
    def take_apart(error: Exception) -> Raised:
        """What is needed to rebuild `error` elsewhere."""
        return Raised(type(error), error.args, dict(vars(error)))

    def rebuild(self) -> Exception:
        """The exception as it was raised, without its traceback."""
        error = self.error_type.__new__(self.error_type)
        error.args = self.arguments
        vars(error).update(self.fields)
        return error


def initialise(memory_limit_bytes: int, niceness: int, modules: tuple[str, ...]) -> None:
    """Limit this process, then import what computations need, so that no time limit pays for imports."""
    for variable in NUMERIC_THREAD_VARIABLES:
        os.environ[variable] = "1"
    if sys.platform == "linux":  # elsewhere the limit is not enforced, or counts shared libraries
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_bytes, memory_limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(niceness)
    for module in modules:
        importlib.import_module(module)


def run(computation: Computation[Any, Any], request: BaseModel, digest: str, engine_version: str) -> Computed | Raised:
    """Compute one response body. Exceptions are values here: only the death of the process is an error of the pool."""
    try:
        return compute_body(computation, request, digest, engine_version)
    except Exception as error:  # noqa: BLE001 - every failure of a computation belongs to its request
        return Raised.take_apart(error)


def compute_body(computation: Computation[Any, Any], request: BaseModel, digest: str, engine_version: str) -> Computed:
    """The response body of a request, and how long it took."""
    started = time.perf_counter()
    with noted() as violations:
        body = computation.body(request, digest, engine_version)
    return Computed(body, time.perf_counter() - started, len(violations))
