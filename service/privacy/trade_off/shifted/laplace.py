"""Trade-off curve of two Laplace laws of scale 1 at the distance mu."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import with_logs
from service.privacy.trade_off.shifted.curve import AbstractShifted
from service.privacy.trade_off.shifted.location_law import LAPLACE


@final
class LaplaceTradeOff(AbstractShifted):
    """Trade-off curve of two Laplace laws of scale 1 at the distance mu.

    Notes
    -----
    f(alpha) is 1 - alpha e^mu up to e^-mu/2, then e^-mu/(4 alpha) up to 1/2, and (1 - alpha) e^-mu above. The profile
    delta(eps) is 1 - e^{(eps - mu)/2} for |eps| <= mu, 0 above, and 1 - e^eps below. epsilon(delta) = mu + 2 ln(1 -
    delta).

    References
    ----------
    Kaissis et al. 2023, Corollary 1.
    """

    def __init__(self, shift: Enclosure) -> None:
        super().__init__(LAPLACE, shift)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self.shift

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        lower, upper = (
            self._profile_end(epsilon, mu, side) for mu, side in ((self.shift.lower, -1), (self.shift.upper, 1))
        )
        return with_logs(lower, upper)

    def _profile_end(self, epsilon: FloatArray, mu: float, side: int) -> FloatArray:
        # For eps < -mu the exponent is eps itself. Beyond mu the profile is 0.
        exponent = np.where(epsilon < -mu, epsilon, np.minimum(0.5 * (epsilon - mu), 0.0))
        value = -np.expm1(exponent)
        factor = 1 + side * (FUNCTION_ERROR + 4 * UNIT_ROUNDOFF)
        return np.minimum(np.where(exponent == 0, 0.0, value * factor), 1.0)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        drop = 2 * math.log1p(-delta)
        error = 2 * UNIT_ROUNDOFF * (abs(drop) * 4 + self.shift.upper)
        lower, upper = self.shift.lower + drop - error, self.shift.upper + drop + error
        return Enclosure(max(lower, 0.0), max(upper, 0.0), self.shift.evidence)
