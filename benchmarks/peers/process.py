"""The other side of `worker`: starts a peer, asks it, ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from benchmarks.cases import Run, argument


@dataclass(frozen=True)
class PeerAnswer:
    """CPU seconds, and values by name."""

    build: float
    query: float
    values: dict[str, float]


@dataclass(frozen=True)
class Peer:
    """A peer that has been started."""

    requests: IO[str]
    answers: IO[str]

    def ask(self, run: Run, names: Sequence[str]) -> PeerAnswer:
        """Build anew, ask every name (`eps-1e-5`, ...); the first is timed."""
        questions = [(name.partition("-")[0], argument(name), name) for name in names]
        given = {"run": (run.noise_multiplier, run.sample_rate, run.steps), "questions": questions}
        self.requests.write(json.dumps(given) + "\n")
        self.requests.flush()
        line = self.answers.readline()
        if not line:
            raise RuntimeError(f"a peer ended while it was asked {run}")
        answer: dict[str, Any] = json.loads(line)
        return PeerAnswer(**answer)


@contextmanager
def peer(module: str) -> Generator[Peer]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.peers.worker", f"benchmarks.peers.{module}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a peer has no pipes")
    try:
        yield Peer(process.stdin, process.stdout)
    finally:
        process.stdin.close()
        process.wait()
