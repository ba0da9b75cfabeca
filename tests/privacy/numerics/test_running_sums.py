"""Running sums against exact sums of fractions, within their stated error."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from service.privacy.numerics.running_sums import running_sum_error, running_sums


@pytest.mark.parametrize("length", [1, 2, 3, 10, 99, 100, 5000])
def test_running_sums_are_within_error_bound(length: int) -> None:
    random = np.random.default_rng([41, length])
    values = np.exp(random.uniform(-700, 0, length)) * random.choice([-1.0, 1.0], length)
    exact = list(accumulate(map(Fraction, values.tolist())))
    sizes = list(accumulate(map(Fraction, np.abs(values).tolist())))
    bound = Fraction(running_sum_error(length))
    for found, truth, size in zip(running_sums(values).tolist(), exact, sizes, strict=True):
        assert abs(Fraction(found) - truth) <= bound * size
