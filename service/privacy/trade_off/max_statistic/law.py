"""The largest of many normal numbers, one of which is shifted.

Z_1 .. Z_T are independent N(0, 1), and one of them, whichever, is moved by a >= 0: P(max <= x) = Phi(x - a)
Phi(x)^(T-1) = F_a(x). It does not depend on which one, so that a secret choice of it changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.shifted.location_law import NORMAL

LEFTMOST: Final = -9.0
RIGHTMOST: Final = 40.0
"""Standard deviations beyond a hump where tails underflow."""


class LogTails(NamedTuple):
    """Ends of ln P(max <= x) and of ln P(max > x)."""

    below_low: FloatArray
    below_high: FloatArray
    above_low: FloatArray
    above_high: FloatArray


@final
@dataclass(frozen=True, slots=True)
class LargestOfMany:
    """`count` = T >= 1 numbers; `shift` = a, exact."""

    count: int
    shift: float

    def tails(self, x: FloatArray) -> LogTails:
        """At finite x, which are exact.

        ln F = ln Phi(x - a) + (T - 1) ln Phi(x). The rounding of t = x - a moves ln Phi(t) by at most 4 u |ln Phi(t)|
        where t < 0 and by t^2 u |ln Phi(t)| elsewhere, as phi(t)/Phi(t) <= |t| + 1; the functions themselves are off by
        half as much as is allowed here (`enclosed/ulps.py`). ln(1 - F) = ln(-expm1(ln F)) moves by no more, relatively,
        than ln F, as y/(e^y - 1) <= 1.
        """
        t = x - self.shift
        first, first_error = NORMAL.log_cdf(t)
        others, others_error = NORMAL.log_cdf(x)
        rest = float(self.count - 1)
        value = first + rest * others
        error = 2 * (first_error + rest * others_error) + 4 * UNIT_ROUNDOFF * np.abs(value)
        low, high = value - error, np.minimum(value + error, -5e-324)
        slack = 2 * FUNCTION_ERROR
        above = [np.log(-np.expm1(end)) for end in (high, low)]
        return LogTails(
            low,
            high,
            above[0] - slack * (1 + np.abs(above[0])),
            np.minimum(above[1] + slack * (1 + np.abs(above[1])), 0.0),
        )


def thresholds(count: int, shifts: tuple[float, ...], spacing: float) -> FloatArray:
    """Where the largest of so many numbers may be, moved by any of the shifts: multiples of the spacing, ascending."""
    typical = math.sqrt(2 * math.log(count)) if count > 1 else 0.0
    ends = [(hump + LEFTMOST, hump + RIGHTMOST) for hump in (0.0, typical, *shifts)]
    places = [
        np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1, dtype=np.float64) for low, high in ends
    ]
    return np.unique(np.concatenate(places)) * spacing
