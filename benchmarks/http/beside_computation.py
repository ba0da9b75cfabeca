"""Closed-form requests during a computation of about ten seconds, and the longest stall of the event loop.

The computation is mu of Gaussian DP over several ranges, in both directions, for a run in 32 stages. Each round
measures three loads, first without the computation and then with it: 16 connections at full speed, one connection at
full speed, and 200 requests per second on schedule.
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from benchmarks.http.bodies import GAMMA, dpsgd, fresh_noise, gaussian
from benchmarks.http.load import Load, load
from benchmarks.http.sampled_service import Gaps, Tick, open_schedule
from benchmarks.http.server import SAMPLED_SERVICE, Server, running
from benchmarks.report import Reach, Section, Table
from benchmarks.timing import cpu_seconds
from service.privacy.questions import gaussian_dp
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built
from tests.privacy.cases import dpsgd as dpsgd_spec

ROUNDS: Final = 5
STAGES: Final = 32
SECONDS: Final = 10.0
MOST_QUESTIONS: Final = 256
SETTINGS: Final = {"PRIVACY_BOUNDS_MAX_COST": "1000000000", "PRIVACY_BOUNDS_TIME_LIMIT_SECONDS": "120"}
"""The budget is raised because estimates are upper bounds and the default budget would refuse the computation.

Workers run at a lower priority than other processes.
"""
START_SECONDS: Final = 0.5
LARGEST_RATIO: Final = 1.5
LONGEST_GAP: Final = 0.020
MACHINE_SECONDS: Final = 3.0

READERS: Final[dict[str, Callable[[Load], float]]] = {"median": lambda one: one.median, "p90": lambda one: one.p90}

LOADS: Final[dict[str, dict[str, Any]]] = {
    "16 connections": {"connections": 16, "seconds": 2.0},
    "1 connection": {"connections": 1, "seconds": 1.5},
    "200 requests a second": {"connections": 4, "seconds": 2.0, "period_seconds": 0.02},
}


def measure() -> Section:
    count = _questions_needed()
    alone: dict[str, list[Load]] = {name: [] for name in LOADS}
    beside: dict[str, list[Load]] = {name: [] for name in LOADS}
    gaps: dict[str, list[dict[str, float]]] = {"alone": [], "beside": [], "machine": []}
    lasted: list[float] = []
    with running(SAMPLED_SERVICE, settings=SETTINGS) as server:
        server.post(_expensive_body(1))  # Start the worker process.
        for _ in range(ROUNDS):
            _gaps(server)
            _measure_loads(server, alone)
            gaps["alone"].append(_gaps(server))
            computation = _Computation(server, count)
            time.sleep(START_SECONDS)
            _measure_loads(server, beside)
            lasted.append(computation.wait())
            gaps["beside"].append(_gaps(server))
            gaps["machine"].append(_gaps_of_the_machine())
        for name, connections in (("composed", 1), ("composed together", 4)):
            load(server.port, dpsgd(GAMMA), connections=connections, seconds=2.0)
            gaps[name] = [_gaps(server)]
    section = Section("Beside a computation")
    section.tables += [_loads_table(alone, beside, lasted), _gaps_table(gaps)]
    section.reaches += [_load_reach(alone, beside, lasted), _gap_reach(gaps)]
    return section


class _Computation:
    """Expensive request to a server, sent from a thread that only waits for the response."""

    def __init__(self, server: Server, count: int) -> None:
        self._seconds = 0.0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._ask, args=(server, _expensive_body(count)))
        self._thread.start()

    def wait(self) -> float:
        """Return the wall-clock seconds of the computation."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._seconds

    def _ask(self, server: Server, body: bytes) -> None:
        started = time.perf_counter()
        try:
            server.post(body)
        except OSError as error:
            self._error = error
        self._seconds = time.perf_counter() - started


def _expensive_mechanism() -> dict[str, Any]:
    noise = fresh_noise()
    stages = [dpsgd_spec(noise + 0.01 * stage, 0.01 + 0.001 * stage, 100 + stage) for stage in range(STAGES)]
    return {"type": "composed", "mechanisms": stages}


def _expensive_body(count: int) -> bytes:
    questions = [{"type": "gdp_mu", "false_positive_rate_min": _least(index)} for index in range(count)]
    return json.dumps({"mechanism": _expensive_mechanism(), "questions": questions}).encode()


def _least(index: int) -> float:
    return 1e-9 * (1 + 0.01 * index)


def _questions_needed() -> int:
    pair = WorstCase().curves(built(_expensive_mechanism()))
    gaussian_dp.mu(pair.both, _least(0), 1e-9)
    one = cpu_seconds(lambda: gaussian_dp.mu(pair.both, _least(1), 1e-9))
    return max(1, min(MOST_QUESTIONS, round(SECONDS / one)))


def _measure_loads(server: Server, into: dict[str, list[Load]]) -> None:
    for name, parameters in LOADS.items():
        into[name].append(load(server.port, gaussian(GAMMA), **parameters))


def _gaps(server: Server) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/gaps", timeout=30) as answer:
        read: dict[str, float] = json.load(answer)
        return read


def _gaps_of_the_machine() -> dict[str, float]:
    """Measure the longest times without progress of a loop that only reads the clock.

    They show the stalls of the shared machine itself.
    """
    found = Gaps(open_schedule())
    last = first = Tick.now(found.schedule)
    while last.wall - first.wall < MACHINE_SECONDS:
        tick = Tick.now(found.schedule)
        found.add(last, tick)
        last = tick
    os.close(found.schedule)
    return {"wall": found.wall, "blocked": found.blocked, "cpu": found.cpu}


def _ratio(alone: list[Load], beside: list[Load], what: Callable[[Load], float]) -> float:
    return median(what(one) / what(other) for one, other in zip(beside, alone, strict=True))


def _load_reach(alone: dict[str, list[Load]], beside: dict[str, list[Load]], lasted: list[float]) -> Reach:
    ratios = {name: [_ratio(alone[name], beside[name], read) for read in READERS.values()] for name in LOADS}
    measured = "; ".join(f"{name}: {middle:.2f} x, {high:.2f} x" for name, (middle, high) in ratios.items())
    return Reach(
        f"closed-form latency (median, p90) while a computation of {median(lasted):.0f} s runs",
        "<= 1.5 x without",
        measured,
        max(max(pair) for pair in ratios.values()) <= LARGEST_RATIO,
    )


def _gap_reach(gaps: dict[str, list[dict[str, float]]]) -> Reach:
    usual = {name: median(one["blocked"] for one in found) * 1e3 for name, found in gaps.items()}
    longest = max(one["blocked"] for one in gaps["beside"]) * 1e3
    by_itself = max(one["blocked"] for one in gaps["machine"]) * 1e3
    measured = (
        f"longest of a round: {usual['beside']:.1f} ms, median of {ROUNDS} (without the computation "
        f"{usual['alone']:.1f} ms); longest of all {longest:.1f} ms (this machine stalls a loop that does nothing for "
        f"{by_itself:.1f} ms)"
    )
    return Reach("event loop blocked meanwhile", "never > 20 ms", measured, usual["beside"] <= LONGEST_GAP * 1e3)


def _loads_table(alone: dict[str, list[Load]], beside: dict[str, list[Load]], lasted: list[float]) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in LOADS:
        for label, read in READERS.items():
            without, together = (median(map(read, found[name])) for found in (alone, beside))
            ratio = _ratio(alone[name], beside[name], read)
            rows.append((f"{name}, {label}", f"{without * 1e3:.2f}", f"{together * 1e3:.2f}", f"{ratio:.2f}"))
    return Table(
        f"Latency of closed-form requests (ms; {ROUNDS} interleaved rounds, medians)",
        ("load", "without", "with", "ratio"),
        rows,
        (f"The computation took {', '.join(f'{seconds:.0f} s' for seconds in lasted)} on the wall.",),
    )


def _gaps_table(gaps: dict[str, list[dict[str, float]]]) -> Table:
    names = {
        "alone": "closed-form load",
        "beside": "the same, and the computation",
        "composed": "1 connection with composed runs (C1, gamma), each computed in the loop itself",
        "machine": "a loop that only looks at the clock, in a process of its own",
        "composed together": "4 connections with the same",
    }
    rows: list[tuple[str, ...]] = []
    for name, found in gaps.items():
        blocked = [one["blocked"] * 1e3 for one in found]
        others = (max(one[what] for one in found) * 1e3 for what in ("wall", "cpu"))
        rows.append((names[name], *(f"{value:.1f}" for value in (median(blocked), max(blocked), *others))))
    return Table(
        "Longest time between two ticks of the event loop (ms)",
        ("meanwhile", "blocked, median of rounds", "blocked, longest", "on the wall", "CPU of the thread"),
        rows,
        (
            "A tick is asked for every 2 ms. Blocked is the wall without the time in which the thread was ready and "
            "had no core; each column has its own longest gap.",
        ),
    )
