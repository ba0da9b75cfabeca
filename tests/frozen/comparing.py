"""Comparison of current answers with the stored answers of an earlier engine version."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tests.frozen.answers import Answer, Pair

AGREEMENT: Final = 1e-9
"""Largest relative difference between two bounds that differ by rounding alone."""
ROUNDING: Final = 1e-13


def unlike(before: Answer, now: Answer) -> str:
    """Return why two answers cannot be compared bound by bound, or "" if they can."""
    if before.asked != now.asked:
        return "the request is another one: a generator of requests has changed"
    if before.problem != now.problem:
        return f"was {before.problem or 'answered'}, is {now.problem or 'answered'}"
    if len(before.bounds) != len(now.bounds):
        return f"had {len(before.bounds)} enclosures, has {len(now.bounds)}"
    return ""


def contradictions(before: Answer, now: Answer) -> list[str]:
    """Return the contradictions between two answers to one request: enclosures of one number that do not meet."""
    problem = unlike(before, now)
    pairs = zip(before.bounds, now.bounds, strict=not problem)
    return [problem] if problem else [_describe_difference(*two) for two in pairs if not _meet(*two)]


def disagreeing(before: Answer, now: Answer) -> list[str]:
    """Return the bounds in two answers to one request that differ by more than rounding."""
    problem = unlike(before, now)
    pairs = zip(before.bounds, now.bounds, strict=not problem)
    return [problem] if problem else [_describe_difference(*two) for two in pairs if not _agree(*two)]


def wider(before: Answer, now: Answer) -> Iterator[tuple[Pair, Pair, float]]:
    """Yield the enclosures that are wider in `now` than in `before`, and the ratio of the widths.

    Enclosures that are wider by rounding alone are left out.
    """
    for old, new in zip(before.bounds, now.bounds, strict=False):
        widths = [high - low if high > low else 0.0 for low, high in (old, new)]
        if widths[1] > widths[0] * (1 + 1e-6) + ROUNDING * max(map(abs, new)):
            yield old, new, widths[1] / widths[0] if widths[0] else math.inf


def _meet(before: Pair, now: Pair) -> bool:
    return max(before[0], now[0]) <= min(before[1], now[1])


def _agree(before: Pair, now: Pair) -> bool:
    size = max((abs(end) for end in (*before, *now) if math.isfinite(end)), default=0.0)
    return all(old == new or abs(old - new) <= AGREEMENT * size for old, new in zip(before, now, strict=True))


def _describe_difference(before: Pair, now: Pair) -> str:
    return f"was [{before[0]!r}, {before[1]!r}], is [{now[0]!r}, {now[1]!r}]"
