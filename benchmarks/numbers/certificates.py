"""Verdicts of the independent checker on certified answers, over seeded random requests.

`python -m benchmarks.numbers.certificates [--requests 1000] [--first 0] [--all]` prints a summary, and a line for each
request with a disagreement, without a decision, or slower than 2 s (`--all`: for each request). For each request the
checker receives the safe value, which must hold, and the lower bound less 1e-6 of itself, which must not. The exit
status is 1 after a disagreement. Times are seconds of CPU time of one verdict, with all directions of its question.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tests.resources.test_certificates import answer, certify, drawn

REACH_SECONDS: Final = 2.0
Verdict = tuple[str, str, float, str]
"""What was certified, the verdict, its seconds, and the reasons for an undecided one."""


def verdicts(about: dict[str, Any], known: dict[str, Any]) -> Iterator[Verdict]:
    """Yield the verdicts of the checker on the safe value of an answer, and on a number that is too small."""
    claims = {"safe": known["value"]}
    if known["value"] < 1 - 1e-9 and known["lower"] > 0:
        claims["small"] = known["lower"] * (1 - 1e-6)
    for name, value in claims.items():
        began = time.process_time()
        found = certify(**about, value=value)
        seconds = time.process_time() - began
        yield name, found.verdict, seconds, "; ".join(p.reason for p in found.proofs if p.verdict == "not_decided")


def measure(seeds: range, *, shows_all: bool) -> int:
    """Print the verdicts on the requests with these seeds, and return the count of disagreements."""
    counts: Counter[str] = Counter()
    seconds: list[float] = []
    for seed in seeds:
        mechanism, model, question = drawn(np.random.default_rng(seed))
        about = {"mechanism": mechanism, "threat_model": model, "question": question}
        for name, verdict, took, reasons in verdicts(about, answer(mechanism, question, threat_model=model)):
            disagrees = verdict == ("refuted" if name == "safe" else "proved")
            counts[f"{name} {verdict}"] += 1
            counts["disagree"] += disagrees
            seconds.append(took)
            if shows_all or disagrees or verdict == "not_decided" or took > REACH_SECONDS:
                print(f"{seed} {name} {verdict} {took:.2f} s {reasons} {json.dumps(about)}", flush=True)
    print(json.dumps(dict(sorted(counts.items()))))
    places = statistics.quantiles(seconds, n=100, method="inclusive")
    print(f"seconds: median {places[49]:.2f}, 90 % {places[89]:.2f}, 99 % {places[98]:.2f}, largest {max(seconds):.2f}")
    return counts["disagree"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    sys.exit(int(measure(range(given.first, given.first + given.requests), shows_all=given.all) > 0))
