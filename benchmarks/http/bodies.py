"""Request bodies. No two bodies of a kind are equal, so that the cache answers only where the cache is measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, repeat
from typing import Any, Final

GAMMA: Final = {"type": "reconstruction", "baseline_success": 0.001}
EPSILON: Final = {"type": "epsilon", "delta": 1e-5}

_fresh: Final = count(1)


def fresh_noise() -> float:
    """Return a noise multiplier near 1 that this process has not used before."""
    return 1 + next(_fresh) * 1e-7


def mechanism_bodies(mechanism: str, *questions: dict[str, Any]) -> Iterator[bytes]:
    """Yield request bodies for a mechanism, each with another noise multiplier, so that none is cached.

    `mechanism` is JSON with NOISE in place of the noise multiplier.
    """
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
    """Yield request bodies for the composed run C1, each with other last digits of the noise multiplier."""
    return mechanism_bodies(
        '{"type": "dpsgd", "noise_multiplier": NOISE, "sample_rate": 0.01, "steps": 1000}', *questions
    )


def same(bodies: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the first of the request bodies again and again."""
    return repeat(next(bodies))
