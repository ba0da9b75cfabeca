"""Cells (intervals of the noise) of a step whose law is a mixture of shifted Gaussians.

The masses of the cells are sums over the components with positive terms. The likelihood ratio increases
(`trade_off/shifted/gaussian_mixture.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.sampling.loss_cells import OUTWARD, REACH, Cells, CellStep, log_masses, spaced
from service.privacy.trade_off.shifted.gaussian_mixture import GaussianMixtureTradeOff, NormalComponents, log_sums
from service.privacy.trade_off.shifted.location_law import NORMAL


@final
@dataclass(frozen=True, slots=True, eq=False)
class MixtureInCells(CellStep):
    """Step of a Gaussian mixture that is divided into cells, intervals of the noise.

    Attributes
    ----------
    curve : GaussianMixtureTradeOff
        Trade-off curve of the step.
    """

    curve: GaussianMixtureTradeOff

    @property
    @override
    def spread(self) -> float:
        return sum(
            float(components.distances[1] @ components.weights)
            for components in (self.curve.absent, self.curve.present)
        )

    @override
    def first_borders(self) -> FloatArray:
        left, right = -self.curve.absent.distances[1], self.curve.present.distances[1]
        return spaced(left.min() - REACH, right.max() + REACH, [*left, *right])

    @override
    def cells(self, borders: FloatArray) -> Cells:
        absent, present = _log_masses(self.curve.absent, borders, -1), _log_masses(self.curve.present, borders, 1)
        with np.errstate(invalid="ignore"):  # the mass of a cell may underflow
            mean = present - absent[::-1]
            mean = mean + 2 * UNIT_ROUNDOFF * OUTWARD * (np.abs(present) + np.abs(absent[::-1]))
        inner = np.stack(self.curve.log_ratio(borders[1:-1]))
        smallest, largest = self.curve.smallest_log_ratio, self.curve.largest_log_ratio
        ends = [[[limit.lower], [limit.upper]] for limit in (smallest, largest)]
        return Cells.between(present, mean, np.concatenate((ends[0], inner, ends[1]), axis=1))


def _log_masses(components: NormalComponents, borders: FloatArray, sign: int) -> FloatArray:
    """Return bounds of the log masses of normal `components` in K cells between `borders`, shape (2, K).

    The rows are lower and upper bounds. Cells are intervals of the noise. `sign` is the side of 0 on which the
    components lie. The distances of the components' means from 0 are enclosed within two roundings.
    """
    logs = [log_masses(NORMAL, borders, sign * distance) for distance in components.distances[0].tolist()]
    with np.errstate(divide="ignore"):
        return np.minimum(np.stack(log_sums(np.stack(logs, axis=1) + components.log_weights)), 0.0)
