"""The verdict of a soak run: what fails, and what a run that is too short does not judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.system.soak.__main__ import COUNTED, LARGEST_SLOPE_MB, NOT_JUDGED, SHORTEST_TEST_MINUTES, Outcome

STEADY = Outcome(SHORTEST_TEST_MINUTES, LARGEST_SLOPE_MB, dict.fromkeys(COUNTED, 0), 0, ())


def test_steady_run_passes_with_all_criteria() -> None:
    [line] = STEADY.verdict()
    assert line.startswith("Passed: growth of memory, processes")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"growth": LARGEST_SLOPE_MB + 0.01}, "memory grows by 1.01 MB per hour"),
        ({"leaked": {"descriptors": 2, "files": -1}}, "2 more descriptors"),
        ({"alive": 1}, "1 processes are alive"),
        ({"files": ["a", "b"]}, "a, b"),
        ({"responses": ["3 responses with status 500"]}, "3 responses with status 500"),
    ],
)
def test_each_criterion_fails_alone(changes: dict[str, Any], sentence: str) -> None:
    [line] = replace(STEADY, **changes).verdict()
    assert line.startswith("FAILED: ")
    assert sentence in line


def test_short_run_says_that_growth_is_not_judged() -> None:
    short = replace(STEADY, minutes=SHORTEST_TEST_MINUTES - 1, growth=100.0)
    not_judged, passed = short.verdict()
    assert not_judged == NOT_JUDGED
    assert "memory" not in passed
    assert replace(short, alive=1).verdict()[1:] == [NOT_JUDGED]
