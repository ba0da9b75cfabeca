"""Marker for slow test cases that add little: `make thorough` runs them, `make test` does not."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any, Final

import pytest

MOST_CASES: Final = 4
"""Number of cases that `make test` runs of a test in `SAMPLED`, unless the test has `sample_of`."""
SAMPLED: Final = ("tests/privacy/", "tests/resources/")


def thorough(*values: Any) -> Any:
    """Return a row of `parametrize` with these values, which only `make thorough` runs, because it is slow."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def crossed(*columns: Iterable[Any]) -> list[Any]:
    """Return all combinations of the columns as rows of `parametrize`.

    `make test` runs a part in which every value occurs, each time with others. The rest is marked as slow.
    """
    lists = [list(column) for column in columns]
    longest = max(map(len, lists))
    kept = {tuple(i % len(values) for values in lists) for i in range(longest)}
    indices = itertools.product(*(range(len(values)) for values in lists))
    rows = ((key, tuple(values[i] for values, i in zip(lists, key, strict=True))) for key in indices)
    return [row if key in kept else thorough(*row) for key, row in rows]


def sample_of(count: int) -> pytest.MarkDecorator:
    """Return a decorator of a test with many cases: `make test` runs `count` of them, `make thorough` the rest."""
    return pytest.mark.sample_of(count)


def mark_cases_beyond_samples(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that are not drawn as slow, for tests with `sample_of` and for all tests in `SAMPLED`."""
    families: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not _is_slow(item):
            families[item.nodeid.partition("[")[0]].append(item)
    for name, family in families.items():
        default = MOST_CASES if name.startswith(SAMPLED) else len(family)
        mark = family[0].get_closest_marker("sample_of")
        for item in _beyond(family, mark.args[0] if mark else default, Random(name)):
            item.add_marker(pytest.mark.thorough)


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("thorough") is not None


def _beyond(family: list[pytest.Function], count: int, random: Random) -> list[pytest.Function]:
    """Return the cases that remain after `count` are drawn.

    As many values of parameters as possible occur among the drawn cases, which come from all parts of the list.
    """
    ends = [len(family) * part // count for part in range(count + 1)]
    one_of_each_part = [random.choice(family[low:high]) for low, high in itertools.pairwise(ends) if low < high]
    left = list(dict.fromkeys([*one_of_each_part, *random.sample(family, len(family))]))
    seen: set[tuple[str, int]] = set()
    for _ in range(min(count, len(left))):
        drawn = max(left, key=lambda item: len(item.callspec.indices.items() - seen))
        seen |= drawn.callspec.indices.items()
        left.remove(drawn)
    return left
