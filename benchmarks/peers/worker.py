"""A peer's process: reads one request a line, writes one answer a line, until its input ends.

Request: a run and the questions, the first of which is timed. Answer: CPU seconds of building and of the first
question, and all values, by name.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from typing import Any


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
    started = time.process_time()
    readings = build(*request["run"])
    built = time.process_time()
    values: dict[str, float] = {}
    first = None
    for kind, argument, name in request["questions"]:
        values[name] = float(readings[kind](argument))
        first = first or time.process_time()
    return {"build": built - started, "query": (first or built) - built, "values": values}


if __name__ == "__main__":
    main(sys.argv[1])
