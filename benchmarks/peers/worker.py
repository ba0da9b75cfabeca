"""Process of a peer: read one request per line and write one answer per line, until the input ends.

A request holds a run, options of the peer, the questions, and the number of rounds. An answer holds medians of CPU
seconds to build, for the first question and for each further one. It also holds the values of the first round by name,
and the peak memory of the first round above what was resident before.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

BUDGET_SECONDS: Final = 2.0
"""CPU seconds after which no further round starts."""
FORGET_PEAK: Final = "5"
"""Written to /proc/self/clear_refs: resets the peak resident size."""


def main(module: str) -> None:
    # Peers sometimes write to standard output, so answers use a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    build = importlib.import_module(module).build
    for line in sys.stdin:
        answers.write(json.dumps(_answer(build, json.loads(line))) + "\n")
        answers.flush()


def _answer(build: Any, request: dict[str, Any]) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text(FORGET_PEAK)
    idle = _kilobytes("VmRSS")
    seconds, values = _round(build, request)
    answer = {"values": values, "megabytes": (_kilobytes("VmHWM") - idle) * 1024 / 1e6}
    rounds = [seconds]
    while len(rounds) < request["rounds"] and sum(map(sum, rounds)) < BUDGET_SECONDS:
        rounds.append(_round(build, request)[0])
    medians = map(median, zip(*rounds, strict=True))
    return answer | dict(zip(("build", "query", "further"), medians, strict=True))


def _round(build: Any, request: dict[str, Any]) -> tuple[tuple[float, float, float], dict[str, float]]:
    """Build a peer's object and evaluate all questions once. Return CPU seconds and values.

    The seconds are to build, for the first question, and for each further one (0 without any).
    """
    ticks = [time.process_time()]
    readings = build(*request["run"], **request["options"])
    ticks.append(time.process_time())
    values: dict[str, float] = {}
    for kind, argument, name in request["questions"]:
        values[name] = float(readings[kind](argument))
        ticks.append(time.process_time())
    built, first, *further = (later - earlier for earlier, later in pairwise(ticks))
    return (built, first, mean(further) if further else 0.0), values


def _kilobytes(name: str) -> int:
    """Return `VmRSS`, the resident size now, or `VmHWM`, its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


if __name__ == "__main__":
    main(sys.argv[1])
