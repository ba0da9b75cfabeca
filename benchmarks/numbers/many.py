"""Many runs in one request: a product grid and unrelated points, compared with the same points in single requests.

`python -m benchmarks numbers.many` measures only this part and prints it.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np

from api_schemas.sweeps import SweepsRequest, SweepsResponse
from benchmarks.report import Reach, Section, Table
from benchmarks.timing import cpu_seconds
from service.resources.bounds import BOUNDS
from service.resources.sweeps.sweeping import SWEEPS

NAMED: Final = "sha256:" + "0" * 64
ROUNDS: Final = 3
ALONE: Final = 60
"""Points that are also requested one by one, spread over all points."""
NOISE, RATE, STEPS = "/mechanism/noise_multiplier", "/mechanism/sample_rate", "/mechanism/steps"
NOISES, RATES, COUNTS = (0.7, 7.0), (0.002, 0.1), (500, 50_000)
WIDE: Final = ((0.3, 30.0), (1e-4, 0.5), (10, 1_000_000))
"""The box includes runs with few sampled records and runs that reveal nearly everything."""
QUESTIONS: Final = ({"type": "epsilon", "delta": 1e-5}, {"type": "reconstruction", "baseline_success": 1e-3})
MECHANISM: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def measure() -> Section:
    section = Section("Many runs")
    _seconds(sweep_request(unrelated(50, 1, (NOISES, RATES, COUNTS)), "zip"))
    rows: list[tuple[Any, ...]] = []
    grid = {NOISE: value_range(NOISES, 50), RATE: value_range(RATES, 20), STEPS: value_range(COUNTS, 10)}
    cases: tuple[tuple[str, SweepsRequest, float | None, int], ...] = (
        ("50 noises x 20 rates x 10 steps", sweep_request(grid, "product"), 1.0, ROUNDS),
        ("10 000 unrelated points", sweep_request(unrelated(10_000, 7, (NOISES, RATES, COUNTS)), "zip"), 2.5, ROUNDS),
        ("200 unrelated points of a wide space", sweep_request(unrelated(200, 8, WIDE), "zip"), None, 1),
    )
    for name, request, reach, rounds in cases:
        found = [_seconds(request) for _ in range(rounds)]
        each = min(seconds for seconds, _ in found) * 1e3 / request.point_count
        response = found[0][1]
        narrow = _narrow(response)
        alone = _alone(request)
        rows.append((name, each, alone, f"{narrow:.2%}", len(response.problems)))
        if reach is not None:
            held = f"{each:.3g} ms; one by one {alone:.3g} ms"
            section.reaches.append(
                Reach(f"sweep, 2 questions, one core: {name}", f"<= {reach:g} ms a point", held, each <= reach)
            )
            share = f"{narrow:.2%}"
            section.reaches.append(Reach(f"relative width there: {name}", "<= 1e-6 for 99 %", share, narrow >= 0.99))
    columns = ("points", "CPU ms a point, least", "one by one", "relative width <= 1e-6", "problems")
    noted = (
        f"Noise {NOISES[0]:g} to {NOISES[1]:g}, rates {RATES[0]:g} to {RATES[1]:g}, {COUNTS[0]} to {COUNTS[1]} steps, "
        "all in equal ratios; the wide space has noise 0.3 to 30, rates 1e-4 to 0.5, 10 to 1e6 steps. From the "
        f"validated request to the bytes of the body. One by one: {ALONE} of the points as requests to `/v1/bounds`."
    )
    section.tables.append(Table("Sweeps: epsilon(1e-5) and gamma(1e-3) of DP-SGD", columns, rows, (noted,)))
    return section


def sweep_request(vary: dict[str, Any], combine: str) -> SweepsRequest:
    body = {"mechanism": MECHANISM, "vary": vary, "combine": combine, "questions": QUESTIONS}
    request: SweepsRequest = SWEEPS.request_type.model_validate_json(json.dumps(body))
    return request


def value_range(ends: tuple[float, float], count: int) -> dict[str, Any]:
    return {"from": ends[0], "to": ends[1], "count": count, "spacing": "log"}


def unrelated(count: int, seed: int, ends: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    drawn = [np.exp(random.uniform(math.log(low), math.log(high), count)).tolist() for low, high in ends]
    return {
        NOISE: {"values": drawn[0]},
        RATE: {"values": drawn[1]},
        STEPS: {"values": [int(each) for each in drawn[2]]},
    }


def _seconds(request: SweepsRequest) -> tuple[float, SweepsResponse]:
    bodies: list[bytes] = []
    seconds = cpu_seconds(lambda: bodies.append(SWEEPS.body(request, NAMED, "any")))
    return seconds, SweepsResponse.model_validate_json(bodies[0])


def _narrow(response: SweepsResponse) -> float:
    """Return the share of numbers in a response whose relative width is within the goal."""
    ends = [pair for answer in response.answers for pair in zip(answer.lower, answer.upper, strict=True)]
    return float(np.mean([low is not None and high is not None and high - low <= 1e-6 * high for low, high in ends]))


def _alone(request: SweepsRequest) -> float:
    """Return the CPU milliseconds of one point of a sweep, sent as a request of its own."""
    points = list(request.points())
    asked = [request.asked(request.places, numbers) for numbers in points[:: max(1, len(points) // ALONE)]]
    return float(np.mean([cpu_seconds(lambda one=one: BOUNDS.body(one, NAMED, "any")) for one in asked])) * 1e3
