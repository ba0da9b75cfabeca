"""Requests that exceed their work allowance: answers with bounds, a limit for every wide answer, and never a 504."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.api.requests import bounds, dpsgd, post
from tests.resources import request_space
from tests.resources.test_company import EVERYTHING

FINEST: Final = 1e-15


def questions(count: int, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng([seed, count])
    return [request_space.question(random) for _ in range(count)]


BODIES: Final[dict[str, Any]] = {
    "256 on one step": bounds(questions=questions(256, 1), relative_tolerance=FINEST),
    "256 on one run": bounds(
        dpsgd(), [{"type": "epsilon", "delta": 10 ** (-2 - k / 32)} for k in range(256)], relative_tolerance=FINEST
    ),
}
LONG: Final[dict[str, Any]] = {
    "40 on one run": bounds(dpsgd(), questions(40, 2), relative_tolerance=FINEST),
    "40 of everything": bounds(EVERYTHING, questions(40, 3), relative_tolerance=FINEST),
    "256 of everything": bounds(EVERYTHING, questions(256, 4), relative_tolerance=FINEST),
    "256 mu": bounds(dpsgd(), [{"type": "gdp_mu", "false_positive_rate_min": 10 ** (-9 + k / 32)} for k in range(256)]),
}


def has_bounds(number: dict[str, Any]) -> bool:
    return all(
        each["lower"] is not None and each["upper"] is not None
        for point in number.get("points", [number])
        for each in ([point["power"], point["type_two_error"]] if "power" in point else [point])
    )


@pytest.mark.parametrize("name", [*BODIES, *(pytest.param(name, marks=pytest.mark.thorough) for name in LONG)])
def test_many_accurate_questions_get_bounds_within_time_limit(client: TestClient, name: str) -> None:
    body = {**BODIES, **LONG}[name]
    found = post(client, body)
    assert found.status_code == 200, found.text
    answers = found.json()["answers"]
    assert len(answers) == len(body["questions"])
    assert all(has_bounds(answer) for answer in answers)
    assert all(answer["tolerance_met"] or answer["limit"]["advice"] for answer in answers)
