"""Bounds of the errors of tests, which attacks give and lower bounds of curves read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

SLACK: Final = 8 * FUNCTION_ERROR
"""Relative error of complements and products."""


@final
@dataclass(frozen=True, slots=True)
class BoundedTests:
    """Bounds of the rates of n tests that never overstate their strength, arrays of shape (n,).

    Attributes
    ----------
    rate, error : array
        Upper bounds of the false positive rates and of the type II errors.
    rest, power : array
        Lower bounds of 1 minus the false positive rate, and of the powers.
    """

    rate: FloatArray
    rest: FloatArray
    power: FloatArray
    error: FloatArray

    @staticmethod
    def of(rate: FloatArray, power: FloatArray) -> BoundedTests:
        """Return tests from upper bounds `rate` and lower bounds `power`; their complements give the other bounds."""
        rate, power = np.minimum(rate, 1.0), np.clip(power, 0.0, 1.0)
        return BoundedTests(rate, (1 - rate) * (1 - SLACK), power, 1 - power + UNIT_ROUNDOFF)

    @staticmethod
    def joined(tests: Sequence[BoundedTests]) -> BoundedTests:
        """Return several lists of tests as one list."""
        return BoundedTests(
            *(
                np.concatenate(column)
                for column in zip(*((each.rate, each.rest, each.power, each.error) for each in tests), strict=True)
            )
        )

    def complements(self) -> BoundedTests:
        """Return the tests of the swapped hypotheses that reject where these accept."""
        return BoundedTests(self.error, self.power, self.rest, self.rate)

    def __getitem__(self, at: int) -> tuple[float, float, float, float]:
        """Return (rate, rest, power, error) of one test."""
        return float(self.rate[at]), float(self.rest[at]), float(self.power[at]), float(self.error[at])
