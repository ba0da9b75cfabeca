"""A computation with scripted behaviour, and the parts to run it with. Worker processes can import the module."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any, Literal

from prometheus_client import CollectorRegistry

from api_schemas.base import Request, Response
from service.execution.entry_mac import EntryAuthenticator
from service.execution.leases import RedisLeases
from service.execution.memory_cache import InMemoryResultCache
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.result_cache import RedisResultCache
from service.execution.runner import ComputationRunner
from service.execution.shared_cache import SharedCache
from service.execution.sibling_processes import SiblingProcesses
from service.execution.stored_results import StoredResults
from service.execution.worker_admission import WorkerAdmission
from service.execution.worker_pool import WorkerPool
from service.execution.workers import Workers
from service.parsing import validate_plain
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import NumericalFailure, OutOfDomain
from service.resources.abstract import Computation, Quote
from service.resources.violations import record_violation
from service.telemetry.metrics import Metrics
from tests.timeouts import TEST_TIMEOUT

ENGINE_VERSION = "1"
INLINE, LARGEST_INLINE, DEAR = 100, 8_000, 50_000


KEPT: list[bytes] = []


class FakeMechanism(Request):
    type: Literal["fake"] = "fake"


class FakeRequest(Request):
    """A request with scripted behaviour.

    Every computation appends its process id to the file `log`. The action `wait` waits for the file `gate`.
    """

    mechanism: FakeMechanism = FakeMechanism()
    action: Literal[
        "echo", "sleep", "wait", "fail", "die", "allocate", "keep", "defect", "misfit", "violate", "doubt"
    ] = "echo"
    amount: float = 0.0
    cost: int = INLINE
    log: str = ""
    gate: str = ""
    digits: int | None = None


class FakeResponse(Response):
    digest: str
    engine_version: str
    value: float


def _note_process(log: str) -> None:
    if log:
        with Path(log).open("a") as file:
            file.write(f"{os.getpid()}\n")


def compute_fake(request: FakeRequest, digest: str, engine_version: str) -> dict[str, Any]:
    _note_process(request.log)
    match request.action:
        case "sleep":
            time.sleep(request.amount)
        case "wait":
            while not Path(request.gate).exists():
                time.sleep(0.005)
        case "fail":
            error = OutOfDomain("amount", request.amount, "in [0, 1]")
            error.pointer = "/amount"
            raise error
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "allocate":
            bytearray(int(request.amount))
        case "keep":
            KEPT.append(b"\1" * int(request.amount))
        case "defect":
            raise KeyError("defect")
        case "misfit":
            FakeResponse.model_validate({"value": request.amount})
        case "violate":
            Enclosure(1.0, 0.5, Evidence.CERTIFIED)
        case "doubt":
            record_violation(NumericalFailure("two enclosures do not meet"))
        case _:  # "echo"
            pass
    return {"digest": digest, "engine_version": engine_version, "value": request.amount}


def quote_of_fake(request: FakeRequest) -> Quote:
    return Quote(request.cost, inline=request.cost <= LARGEST_INLINE)


def digits_of_fake(request: FakeRequest) -> int | None:
    return request.digits


FAKE = Computation(
    name="fake",
    path="/v1/fake",
    description="What it is told to do.",
    examples={},
    request_type=FakeRequest,
    response_type=FakeResponse,
    function=compute_fake,
    quote=quote_of_fake,
    ground_truth_digits=digits_of_fake,
)


SEAL_KEY = "the key of these tests and of nothing else"


def make_metrics() -> Metrics:
    return Metrics(CollectorRegistry(), ENGINE_VERSION)


def make_pool(metrics: Metrics, **changes: Any) -> WorkerPool:
    arguments: dict[str, Any] = {
        "worker_count": 1,
        "time_limit_seconds": TEST_TIMEOUT,
        "memory_limit_bytes": 2**30,
        "niceness": 0,
        "preloaded_modules": (__name__,),
        "metrics": metrics,
    }
    return WorkerPool(**(arguments | changes))


def make_shared(
    link: RedisCircuitBreaker,
    metrics: Metrics,
    cost_floor: int = 0,
    seals: EntryAuthenticator | None = None,
    expensive_timeout_seconds: float = 0.25,
) -> SharedCache:
    cache = RedisResultCache(
        link,
        ttl_seconds=60,
        ground_truth_ttl_seconds=600,
        authenticator=seals or EntryAuthenticator([SEAL_KEY]),
        metrics=metrics,
    )
    return SharedCache(
        cache=cache,
        leases=RedisLeases(link, cache),
        cost_floor=cost_floor,
        longest_lease_seconds=25.0,
        expensive_timeout_seconds=expensive_timeout_seconds,
    )


def make_runner(
    metrics: Metrics,
    pool: WorkerPool,
    shared: SharedCache | None = None,
    reserve: WorkerPool | None = None,
    siblings: SiblingProcesses | None = None,
    **limits: Any,
) -> ComputationRunner:
    arguments: dict[str, Any] = {
        "max_cost": 1_000_000,
        "worker_count": pool.worker_count,
        "reserve_count": int(reserve is not None),
        "queue_limit": 2,
        "queue_wait_limit_seconds": 10.0,
    }
    admission = WorkerAdmission(**(arguments | limits))
    return ComputationRunner(
        results=StoredResults(ENGINE_VERSION, InMemoryResultCache(100, 100_000), shared, siblings=siblings),
        workers=Workers(pool, admission, reserve, lambda: metrics.queue_depth.set(admission.admitted)),
        metrics=metrics,
        max_remembered_bodies=100,
        validate=validate_plain,
    )


def counted(metrics: Metrics, sample: str) -> float:
    """Return the value of one sample line of the exposition, or 0 if it is absent."""
    for line in metrics.exposition().decode().splitlines():
        if line.startswith(sample + " "):
            return float(line.rpartition(" ")[2])
    return 0.0


def computations_logged(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


async def logged(log: Path) -> int:
    """Return the process id of the last computation in a log, as soon as one has started."""
    async with asyncio.timeout(TEST_TIMEOUT):
        while not log.exists() or not log.read_text().endswith("\n"):
            await asyncio.sleep(0.01)
    return int(log.read_text().splitlines()[-1])
