"""Estimated against measured cost of requests: `python -m benchmarks.costs`.

Estimates decide what runs in the event loop. One that is too low holds every other request up; one that is too high
sends work to another process, and above the budget to nowhere. Measured is the CPU time of a whole response, the first
time, with caches that other requests have used in between.
"""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

from api_schemas.bounds import BoundsRequest
from benchmarks.timing import cpu_seconds
from service.computations.bounds import BOUNDS
from service.privacy.errors import PrivacyComputationError

GAUSSIAN: Final = {"type": "gaussian", "noise_multiplier": 1.3}
LAPLACE: Final = {"type": "laplace", "noise_multiplier": 1.3}


def dpsgd(noise_multiplier: float, sample_rate: float, steps: int) -> dict[str, Any]:
    return {"type": "dpsgd", "noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": steps}


MECHANISMS: Final[dict[str, dict[str, Any]]] = {
    "gaussian": GAUSSIAN,
    "laplace": LAPLACE,
    "pure_dp": {"type": "pure_dp", "epsilon": 1.1},
    "approximate_dp": {"type": "approximate_dp", "epsilon": 1.1, "delta": 1e-3},
    "exponential": {"type": "exponential", "epsilon": 1.1},
    "mixture": {
        "type": "mixture",
        "components": [{"weight": 0.5, "mechanism": GAUSSIAN}, {"weight": 0.5, "mechanism": LAPLACE}],
    },
    "mixture with a run": {
        "type": "mixture",
        "components": [{"weight": 0.5, "mechanism": GAUSSIAN}, {"weight": 0.5, "mechanism": dpsgd(1.0, 0.01, 1_000)}],
    },
    "sampled gaussian": {"type": "poisson_sampled", "sample_rate": 0.01, "mechanism": GAUSSIAN},
    "sampled laplace": {"type": "poisson_sampled", "sample_rate": 0.01, "mechanism": LAPLACE},
    "run 1, 0.01, 1e3": dpsgd(1.0, 0.01, 1_000),
    "run 2, 0.5, 1e2": dpsgd(2.0, 0.5, 100),
    "run 0.5, 0.002, 1e4": dpsgd(0.5, 0.002, 10_000),
    "run 10, 0.9, 1e4": dpsgd(10.0, 0.9, 10_000),
    "run 30, 0.1, 1e9": dpsgd(300.0, 0.1, 10**9),
    "run 0.8, 0.1, 1e5": dpsgd(0.8, 0.1, 10**5),
    "run 1, 0.1, 10": dpsgd(1.0, 0.1, 10),
    "run 1, 1e-4, 1e3": dpsgd(1.0, 1e-4, 1_000),
    "run 0.3, 0.001, 1e3": dpsgd(0.3, 0.001, 1_000),
    "256 runs": {"type": "composed", "mechanisms": [dpsgd(1 + part / 256, 0.01, 100) for part in range(256)]},
}
QUESTIONS: Final[dict[str, dict[str, Any]]] = {
    "gamma": {"type": "reconstruction", "baseline_success": 0.001},
    "epsilon": {"type": "epsilon", "delta": 1e-5},
    "delta": {"type": "delta", "epsilon": 0.5},
    "accuracy": {"type": "attack_accuracy", "prior": 0.3},
    "ppv": {"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 0.001, "side": "at_least"},
    "ppv, rare": {"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 1e-6, "side": "at_least"},
    "10 points": {"type": "trade_off", "false_positive_rates": [10 ** (-0.8 * index) for index in range(1, 11)]},
    "1000 points": {"type": "trade_off", "false_positive_rates": [10 ** (-0.012 * index) for index in range(1, 1001)]},
    "10000 points": {
        "type": "trade_off",
        "false_positive_rates": [10 ** (-0.0012 * index) for index in range(1, 10_001)],
    },
    "gdp_mu": {"type": "gdp_mu"},
}
MOST_SECONDS: Final = 3.0
"""What is estimated to be dearer is left out."""


def measured_seconds(request: BoundsRequest) -> float:
    return min(cpu_seconds(lambda: BOUNDS.body(request, "", "")) for _ in range(2))


def main() -> None:
    print(f"{'mechanism':22s} {'question':14s} {'direction':10s} {'estimate':>10s} {'measured':>10s}   ms")
    for (name, mechanism), (asked, question) in itertools.product(MECHANISMS.items(), QUESTIONS.items()):
        for direction in ("add", "remove", "both"):
            sent = json.dumps({"mechanism": mechanism, "questions": [{**question, "direction": direction}]})
            request = BoundsRequest.model_validate_json(sent)
            estimate = BOUNDS.cost(request) * 1e-6
            if estimate > MOST_SECONDS:
                continue
            try:
                measured = measured_seconds(request)
            except PrivacyComputationError as error:
                print(f"{name:22s} {asked:14s} {direction:10s} {type(error).__name__}")
                continue
            verdict = "too cheap" if measured > estimate else "dear" if estimate > 10 * measured else ""
            row = f"{name:22s} {asked:14s} {direction:10s} {estimate * 1e3:10.2f} {measured * 1e3:10.2f}   {verdict}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
