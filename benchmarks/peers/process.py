"""Client side of `worker`: start a peer, send it questions, end it."""

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
    """Measurements of a peer library: CPU seconds to build, for the first question and for each further one.

    `megabytes` is the memory above idle, and `values` has the answers by name.
    """

    build: float
    query: float
    further: float
    megabytes: float
    values: dict[str, float]

    @property
    def first(self) -> float:
        """CPU seconds from the start to the first answer."""
        return self.build + self.query


@dataclass(frozen=True)
class Peer:
    """Started process of a peer library, which answers questions about runs."""

    requests: IO[str]
    answers: IO[str]

    def ask(self, run: Run, names: Sequence[str], rounds: int = 1, **options: Any) -> PeerAnswer:
        """Build the library's object for a run anew, and evaluate every named number (`eps-1e-5`, ...), `rounds` times.

        `options` are those of the peer library.
        """
        parameters = (run.noise, run.noise_multiplier, run.sample_rate, run.steps)
        return self.ask_for(parameters, names, rounds, **options)

    def ask_for(self, parameters: Sequence[Any], names: Sequence[str], rounds: int = 1, **options: Any) -> PeerAnswer:
        """Build the library's object for the arguments of its `build`, and evaluate every named number."""
        questions = [(name.partition("-")[0], argument(name), name) for name in names]
        given = {"run": list(parameters), "options": options, "questions": questions, "rounds": rounds}
        self.requests.write(json.dumps(given) + "\n")
        self.requests.flush()
        line = self.answers.readline()
        if not line:
            raise RuntimeError(f"a peer ended while it was asked {parameters}")
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
