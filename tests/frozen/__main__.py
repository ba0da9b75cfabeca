"""Compare current answers of the service with the stored ones.

`python -m tests.frozen COMMAND [--first N]`:

requests   choose the requests again, and record the numbers of those that take too long on this machine
write      compute all answers and store them with their engine version and platform
bytes      count the answers with equal bytes, except for digest and engine version
numbers    count the answers with equal numbers, evidence and methods
meet       check that every stored enclosure meets the current one, and list those that are wider now
agree      check that every stored bound agrees with the current one to 1e-9
cpu        measure the CPU of the benchmark cases
wide       list the answers that are wider than their tolerance, each question in a request of its own
prices     compare estimated cost with measured CPU for sixteen ordinary requests, and for all by resource and engine
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Final

from service.engine_version import ENGINE_VERSION
from service.resources.catalogue import RESOURCES, resource
from tests.frozen.answers import DEFECT, Answer, FrozenAnswers, answer, present_platform, read_frozen_answers
from tests.frozen.comparing import contradictions, disagreeing, unlike, wider
from tests.frozen.wide import wide_answers

REQUESTS: Final = 2000
WITH_BOUNDS: Final = 200
"""Number of first requests: their bounds are stored, and `make test` computes them."""
LONGEST_SECONDS: Final = {True: 0.5, False: 1.0}
"""CPU limit of a request in seconds, by whether it is one of the first requests."""


class TooLong(BaseException):
    """Raised in a request that takes too long."""


def _stop(_: int, __: FrameType | None) -> None:
    raise TooLong


def choose() -> int:
    """Write which requests take too long or fail unexpectedly, as their numbers, without any answers."""
    for name in RESOURCES:  # No measured request pays for the import of its resource.
        resource(name)
    signal.signal(signal.SIGVTALRM, _stop)
    skipped: list[int] = []
    number = 0
    while number - len(skipped) < REQUESTS:
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_SECONDS[number - len(skipped) < WITH_BOUNDS])
        try:
            if answer(number).problem.startswith(DEFECT):
                print(f"request {number} is skipped: it has a defect")
                skipped.append(number)
        except TooLong:
            skipped.append(number)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        number += 1
    FrozenAnswers(skipped=tuple(skipped)).write()
    return 0


def write() -> int:
    """Compute and store the answers to the chosen requests."""
    skipped = read_frozen_answers().skipped
    numbers = [number for number in range(REQUESTS + len(skipped)) if number not in skipped]
    found = [answer(number) for number in numbers]
    answers = found[:WITH_BOUNDS] + [replace(one, bounds=()) for one in found[WITH_BOUNDS:]]
    FrozenAnswers(present_platform(), ENGINE_VERSION, skipped, tuple(answers)).write()
    return 0


def both(first: int) -> Iterator[tuple[Answer, Answer]]:
    """Yield the stored and the current answer to each of the first `first` requests."""
    for before in read_frozen_answers().answers[:first]:
        yield before, answer(before.number)


def count_equal(digest: Callable[[Answer], str], first: int) -> int:
    """Print how many answers have an equal digest, and which differ. Return 1 if any differs.

    `digest` selects the digest, and `first` is the number of requests.
    """
    pairs = list(both(first))
    moved = [(before, now) for before, now in pairs if digest(before) != digest(now)]
    for before, now in moved:
        print(f"request {now.number}, {now.resource}: {unlike(before, now) if now.problem else 'differs'}")
    print(f"{len(pairs) - len(moved)} of {len(pairs)} equal")
    return bool(moved)


def compare(check: Callable[[Answer, Answer], list[str]], first: int) -> int:
    """Print which enclosures of answers fail `check`, and which are wider than before. Return 1 if any fails.

    `first` is the number of requests.
    """
    failed = widened = 0
    pairs = list(both(min(first, WITH_BOUNDS)))
    for before, now in pairs:
        problems = check(before, now)
        failed += bool(problems)
        for problem in problems:
            print(f"request {now.number}, {now.resource}: {problem}")
        for old, new, times in wider(before, now):
            widened += 1
            print(f"request {now.number}, {now.resource}: {times:.3g} times as wide, was {old}, is {new}")
    print(f"{len(pairs) - failed} of {len(pairs)} pass; {widened} enclosures are wider")
    return bool(failed)


def measure(what: str, first: int) -> int:
    """Print CPU seconds or estimated costs (`what`) of the first `first` requests."""
    from tests.frozen import costs, prices  # Loads the benchmark.

    if what == "cpu":
        return costs.print_cpu()
    for name in RESOURCES:  # No measured request pays for the import of its resource.
        resource(name)
    prices.print_space(first)
    return costs.print_prices()


def print_wide(first: int) -> int:
    """Print which answers to the first `first` requests are wider than their tolerance."""
    print(*wide_answers(first), sep="\n")
    return 0


def main() -> int:
    """Run a command of the frozen answers and print its CPU seconds."""
    commands: dict[str, Callable[[int], int]] = {
        "requests": lambda _: choose(),
        "write": lambda _: write(),
        "bytes": lambda first: count_equal(lambda one: one.bytes, first),
        "numbers": lambda first: count_equal(lambda one: one.numbers, first),
        "meet": lambda first: compare(contradictions, first),
        "agree": lambda first: compare(disagreeing, first),
        "cpu": lambda first: measure("cpu", first),
        "prices": lambda first: measure("prices", first),
        "wide": print_wide,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("--first", type=int, default=REQUESTS, metavar="N", help="only the first N requests")
    chosen = parser.parse_args()
    started = time.process_time()
    status = commands[chosen.command](chosen.first)
    print(f"{time.process_time() - started:.1f} s of CPU", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
