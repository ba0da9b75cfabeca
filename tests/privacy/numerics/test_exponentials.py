"""Exponentials minus their first terms, against mpmath: near 0, far out, and with extreme weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.numerics.exponentials import HELD, divergence, exp_held, growth, remainder
from service.privacy.numerics.rounding import FUNCTION_ERROR

CASES: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "growth": (growth, lambda w, z: w * mpmath.expm1(z), lambda w, z: w * mpmath.exp(z) + w),
    "remainder": (
        remainder,
        lambda w, z: w * (mpmath.expm1(z) - z),
        lambda w, z: w * mpmath.exp(z) + w * (1 + abs(z)),
    ),
    "divergence": (
        divergence,
        lambda w, z: w * (z * mpmath.exp(z) - mpmath.expm1(z)),
        lambda w, z: w * mpmath.exp(z) * (1 + abs(z)) + w,
    ),
}
"""The function, its definition, and the size of its terms."""


@pytest.mark.parametrize("name", CASES)
def test_values_are_within_rounding_of_their_terms(name: str) -> None:
    function, definition, size = CASES[name]
    random = np.random.default_rng([42, *name.encode()])
    logs = random.uniform(-300, 300, 400)
    places = np.concatenate([random.uniform(-0.5, 0.5, 200), random.uniform(-40, 40, 200)])
    with mpmath.workdps(40):
        for log, place, found in zip(logs, places, function(logs, places), strict=True):
            weight, z = mpmath.exp(log), mpmath.mpf(place)
            scale = definition(weight, z) if abs(place) <= 0.5 else size(weight, z)
            # The exponent of e^(l + z) is rounded: relative error |l + z| u in addition to that of the function.
            assert abs(found - definition(weight, z)) <= (4 + abs(log) + abs(place)) * FUNCTION_ERROR * abs(scale)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tiny", [1e-3, 1e-8, 1e-100])
def test_values_near_zero_keep_relative_accuracy(name: str, tiny: float) -> None:
    function, definition, _ = CASES[name]
    with mpmath.workdps(250):
        for place in (tiny, -tiny):
            truth = definition(mpmath.mpf(1), mpmath.mpf(place))
            found = function(np.zeros(1), np.array([place]))[0]
            assert abs(found / truth - 1) <= 4 * FUNCTION_ERROR


def test_clipped_exponential_is_finite() -> None:
    assert exp_held(1e300) == exp_held(HELD) == math.exp(HELD)
    assert exp_held(-math.inf) == 0.0
    assert exp_held(1.5) == math.exp(1.5)
