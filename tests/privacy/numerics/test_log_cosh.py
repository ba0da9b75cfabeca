"""ln cosh against mpmath, from denormal arguments to the largest doubles."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from service.privacy.numerics.log_cosh import log_cosh
from service.privacy.numerics.rounding import FUNCTION_ERROR


def test_log_cosh_is_accurate_at_every_size() -> None:
    places = np.concatenate([np.geomspace(1e-150, 1e300, 120), np.linspace(0.9, 1.1, 21)])
    with mpmath.workdps(340):
        truths = [mpmath.log(mpmath.cosh(place)) if place < 800 else place - mpmath.log(2) for place in places]
        errors = [abs(found / truth - 1) for found, truth in zip(log_cosh(places), truths, strict=True)]
    assert max(errors) < 4 * FUNCTION_ERROR


def test_log_cosh_is_even_and_zero_at_zero() -> None:
    assert log_cosh(np.array([0.0])) == 0.0
    assert log_cosh(np.array([-3.5])) == pytest.approx(log_cosh(np.array([3.5])), rel=0)
