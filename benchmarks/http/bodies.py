"""Requests. No two of a kind are equal, so that none is answered from a cache unless that is what is measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, repeat
from typing import Any, Final

GAMMA: Final = {"type": "reconstruction", "baseline_success": 0.001}
EPSILON: Final = {"type": "epsilon", "delta": 1e-5}

_fresh: Final = count(1)


def fresh_noise() -> float:
    """A noise multiplier near 1 that was not handed out before by this process."""
    return 1 + next(_fresh) * 1e-7


def mechanism_bodies(mechanism: str, *questions: dict[str, Any]) -> Iterator[bytes]:
    """`mechanism` is JSON with NOISE where the noise multiplier belongs."""
    before, _, after = mechanism.partition("NOISE")
    head = b'{"mechanism": ' + before.encode()
    tail = after.encode() + b', "questions": ' + json.dumps(questions).encode() + b"}"
    while True:
        yield head + repr(fresh_noise()).encode() + tail


def gaussian(*questions: dict[str, Any]) -> Iterator[bytes]:
    return mechanism_bodies('{"type": "gaussian", "noise_multiplier": NOISE}', *questions)


def laplace(*questions: dict[str, Any]) -> Iterator[bytes]:
    return mechanism_bodies('{"type": "laplace", "noise_multiplier": NOISE}', *questions)


def dpsgd(*questions: dict[str, Any]) -> Iterator[bytes]:
    """The engine of composed runs: case C1 but for the last digits of the noise multiplier."""
    return mechanism_bodies(
        '{"type": "dpsgd", "noise_multiplier": NOISE, "sample_rate": 0.01, "steps": 1000}', *questions
    )


def same(bodies: Iterator[bytes]) -> Iterator[bytes]:
    """The first of the bodies, again and again."""
    return repeat(next(bodies))
