"""A peer's process: reads one request a line, writes one answer a line, until its input ends.

Request: a run, options of the peer, the questions, and how often all of it is done anew. Answer: CPU seconds of
building, of the first question and of each further one (medians), the values of the first round by name, and the
memory that the first round took at its peak, above what was resident before.
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
"""No further round is begun after so much CPU."""
FORGET_PEAK: Final = "5"
"""To /proc/self/clear_refs: the largest resident size starts anew."""


def main(module: str) -> None:
    # Peers write to standard output now and then; answers get a channel of their own.
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
    """CPU seconds of building, of the first question, of each further one (0 without any); and the values."""
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
    """`VmRSS`, resident now, or `VmHWM`, the most that was."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


if __name__ == "__main__":
    main(sys.argv[1])
