"""Ground truth, cold in a new process, compared with the certified enclosure, and read from Redis.

For Redis, one service computes and stores the result. A second service with an empty memory cache answers the same
questions over HTTP, each question once.
"""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from statistics import median
from typing import Any, Final

from benchmarks.cases import C1, Run, read
from benchmarks.http.redis import executable, redis_server
from benchmarks.http.server import SERVICE, Server, running
from benchmarks.peers.process import peer
from benchmarks.report import Reach, Section, Table
from benchmarks.timing import cpu_seconds
from service.privacy.composition.planning.options import EngineOptions
from tests.privacy.agreement import meet
from tests.privacy.cases import dpsgd
from tests.privacy.high_precision_oracles import Checked, checked

IMAGENET: Final = Run("like ImageNet", 2.5, 16_384 / 1_281_167, 71_590)
RUNS: Final = (C1, IMAGENET)
DIGITS: Final = 25
NAMES: Final = ("gamma-0.001", "eps-1e-5")
COLD_SECONDS: Final = 10.0
REDIS_SECONDS: Final = 0.003
QUESTIONS: Final = 16
"""Questions about each run when results come from Redis."""
CHECKED: Final = {"one sampled step": 60, "Gaussian steps": 20, "two sampled steps": 3, "runs": 12}
READINGS: Final = 4
"""Questions about each of the random mechanisms."""
SEED: Final = 11
SETTLING_SECONDS: Final = 1.0
"""Seconds to wait: the service writes results to Redis after it has answered."""
FROM_REDIS: Final = "detail=redis"


def measure() -> Section:
    section = Section("Ground truth")
    rows = [_cold(run, name) for run in RUNS for name in NAMES]
    dearest = max(seconds for _, _, seconds, _, _ in rows)
    apart = [f"{run.name} {name}" for run, name, *_, agrees in rows if not agrees]
    section.reaches += [
        Reach(
            f"ground truth of {DIGITS} digits, cold",
            "<= 10 s CPU",
            ", ".join(f"{run.name} {name} {seconds:.2f} s" for run, name, seconds, _, _ in rows),
            dearest <= COLD_SECONDS,
        ),
        Reach(
            "ground truth meets the certified enclosure",
            "each",
            f"{len(rows) - len(apart)} of {len(rows)}" + (f"; not {', '.join(apart)}" if apart else ""),
            not apart,
            required=True,
        ),
        _digits(section),
        _from_redis(),
    ]
    section.tables.append(
        Table(
            f"Ground truth of {DIGITS} digits (CPU s, cold, a new process each)",
            ("run (noise multiplier, rate, steps)", "asked", "CPU s", "MB above idle", "meets the certified enclosure"),
            [(*row[:2], f"{row[2]:.2f}", f"{row[3]:.0f}", "yes" if row[4] else "**no**") for row in rows],
        )
    )
    return section


def _digits(section: Section) -> Reach:
    """Compare decimal enclosures of 15 to 50 digits with a second computation of more digits."""
    found: list[Checked] = []
    seconds = cpu_seconds(lambda: found.extend(checked(CHECKED, READINGS, SEED)))
    missed = [one for one in found if not one.holds]
    counts, misses = Counter(one.kind for one in found), Counter(one.kind for one in missed)
    section.tables.append(
        Table(
            "Decimal enclosures of ground truths against a second computation",
            ("kind", "readings", "of which miss"),
            [(kind, count, misses[kind]) for kind, count in counts.items()],
            (
                "15 to 50 digits at random. One step and Gaussian steps: closed forms in 15 digits more; two sampled "
                "steps: quadrature; runs: the same engine at up to 15 digits more, on other lines and nodes.",
                *map(str, missed),
            ),
        )
    )
    measured = f"{len(found) - len(missed)} of {len(found)}; {seconds:.0f} s of CPU"
    return Reach("decimal enclosures hold a second computation", "each", measured, not missed, required=True)


def _cold(run: Run, name: str) -> tuple[Run, str, float, float, bool]:
    """Evaluate a named number of a run by the ground truth in a new process.

    Return CPU seconds, megabytes above idle, and whether the value meets the certified enclosure.
    """
    with peer("our_answers") as asked:
        answer = asked.ask(run, [name], method="ground_truth", digits=DIGITS)
    truth = read(run.curves("ground_truth", EngineOptions(digits=DIGITS)), name)
    return run, name, answer.first, answer.megabytes, meet(truth, read(run.curves(), name))


def _from_redis() -> Reach:
    what, reach = f"ground truth of {DIGITS} digits from Redis, over HTTP", "<= 3 ms"
    program = executable()
    if program is None:
        return Reach(what, reach, "no redis-server here", met=False)
    bodies = [_body(run, 10 ** (-1 - index / 4)) for run in RUNS for index in range(QUESTIONS)]
    unrelated = [_body(Run("", 1.1, 0.02, 500), 10 ** (-1 - index / 4)) for index in range(QUESTIONS)]
    with redis_server(program) as redis:
        settings = {"PRIVACY_BOUNDS_REDIS_URL": redis.url}
        with running(SERVICE, settings=settings) as computing, running(SERVICE, settings=settings) as asking:
            _waits(computing, unrelated + bodies)
            time.sleep(SETTLING_SECONDS)
            _waits(asking, unrelated)  # The first requests open connections and run code for the first time.
            found = _waits(asking, bodies)
    hits = [seconds for seconds, status in found if FROM_REDIS in status]
    if not hits:
        return Reach(what, reach, "none of the answers came from Redis", met=False)
    measured = f"{median(hits) * 1e3:.2f} ms, median of {len(hits)} of {len(found)}; longest {max(hits) * 1e3:.2f} ms"
    return Reach(what, reach, measured, median(hits) <= REDIS_SECONDS and len(hits) == len(found))


def _body(run: Run, baseline: float) -> bytes:
    question = {"type": "reconstruction", "baseline_success": baseline}
    mechanism = dpsgd(run.noise_multiplier, run.sample_rate, run.steps)
    asked: dict[str, Any] = {"mechanism": mechanism, "questions": [question]}
    return json.dumps(asked | {"method": "ground_truth", "digits": DIGITS}).encode()


def _waits(server: Server, bodies: list[bytes]) -> list[tuple[float, str]]:
    """Return wall-clock seconds and `Cache-Status` of requests with these bodies, sent one by one on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    found: list[tuple[float, str]] = []
    for body in bodies:
        started = time.perf_counter()
        connection.request("POST", "/v1/bounds", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        found.append((time.perf_counter() - started, answer.headers.get("Cache-Status", "")))
        if answer.status != http.client.OK:
            raise RuntimeError(f"status {answer.status}")
    connection.close()
    return found
