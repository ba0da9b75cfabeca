"""Trade-off curve of a composition whose loss is that of a curve plus an independent loss with a few values.

Let the loss be R + A, where A is independent of R and has values a_j with masses q_j under H1. Given A = a, a test of
level eps on the sum is one of level eps - a on R. So for every real eps

    delta(eps) = sum_j q_j delta_R(eps - a_j).

Points follow from the profile alone (`shared_levels.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import CLOSED_FORM, AbstractTradeOff, CurvePoints
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.mixture.shared_levels import SharedLevels

CLOSE: Final = 1e-7
"""Relative width of the bounds of an epsilon from which no root is searched for."""


@final
@dataclass(frozen=True, slots=True)
class Shifts:
    """Law of a privacy loss that has K possible values a_j, and their masses.

    Attributes
    ----------
    loss, log_mass : array of shape (K,)
        a_j in nats, and ln q_j with the masses q_j under H1.
    loss_error, mass_error : float
        Absolute errors of every value, and of every logarithm.
    lost : float
        Upper bound of the masses under both hypotheses that the values leave out.
    """

    loss: FloatArray
    log_mass: FloatArray
    loss_error: float
    mass_error: float
    lost: float = 0.0

    @staticmethod
    def of(two_point: tuple[tuple[float, int], ...]) -> Shifts:
        """Return the law of the summed loss of independent steps with losses +-eps, given as (eps, count) pairs.

        Under H1 a step has the larger loss with probability 1/(1 + e^-eps).
        """
        loss, log_mass = np.zeros(1), np.zeros(1)
        loss_error = mass_error = 0.0
        for epsilon, count in two_point:
            low = np.arange(count + 1, dtype=np.float64)
            rest = math.log1p(math.exp(-epsilon))
            ways = np.array([math.log(math.comb(count, k)) for k in range(count + 1)])
            own = ways - low * epsilon - count * rest
            loss = (loss[:, None] + (count - 2 * low) * epsilon).ravel()
            log_mass = (log_mass[:, None] + own).ravel()
            loss_error += 4 * UNIT_ROUNDOFF * count * epsilon
            mass_error += 2 * FUNCTION_ERROR * (count + float(ways.max()) + count * epsilon)
        terms = len(two_point) * UNIT_ROUNDOFF
        return Shifts(
            loss,
            log_mass,
            loss_error + 2 * terms * float(np.abs(loss).max()),
            mass_error + 2 * terms * float(np.abs(log_mass).max()),
        )

    @staticmethod
    def of_law(law: AtomicLaw) -> Shifts:
        """Return the losses of `law` with their masses under H1."""
        return Shifts(law.losses, law.log_present, law.position_error, law.mass_error, law.dropped)

    def reversed(self) -> Shifts:
        """Return the shifts of the swapped hypotheses: the summed loss is negated, and the masses are those of H0."""
        error = self.mass_error + self.loss_error + 2 * UNIT_ROUNDOFF * float(np.abs(self.log_mass).max())
        return Shifts(-self.loss, self.log_mass - self.loss, self.loss_error, error, self.lost)


@final
class ShiftedMixture(AbstractTradeOff):
    """Trade-off curve of a composition: the curve `rest` together with an independent loss of a few values.

    Notes
    -----
    The relative width of the profile is that of `rest`. The width of power and type II error is 1e-9 with closed forms
    (tested). One number of the profile costs 2 K evaluations of `rest` for K values.
    """

    def __init__(self, rest: AbstractTradeOff, shifts: Shifts) -> None:
        self.rest, self.shifts = rest, shifts
        self.evidence = Evidence.weakest(rest.evidence, Evidence.CERTIFIED)
        self.method = rest.method
        self.has_only_profile = True

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._moved(self.rest.largest_log_ratio, float(self.shifts.loss.max()))

    def _moved(self, ratio: Enclosure, shift: float) -> Enclosure:
        ends: list[float] = []
        for end, side in ((ratio.lower, -1), (ratio.upper, 1)):
            slack = self.shifts.loss_error + 2 * UNIT_ROUNDOFF * (abs(end) + abs(shift)) if math.isfinite(end) else 0.0
            ends.append(end + shift + side * slack)
        return Enclosure(ends[0], ends[1], self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self.rest.singular_power

    @override
    def reversed(self) -> ShiftedMixture:
        return self._reversed

    @cached_property
    def _reversed(self) -> ShiftedMixture:
        return ShiftedMixture(self.rest.reversed(), self.shifts.reversed())

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        lower, upper = self.log_profile(epsilon)
        return EnclosureArray.from_logs(np.minimum(lower, 0.0), np.minimum(upper, 0.0))

    def log_profile(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of ln of the privacy profile.

        Parameters
        ----------
        epsilon : array, shape (n,)
            eps in nats.

        Returns
        -------
        (array, array)
            Lower and upper bounds of ln delta(eps), shape (n,).
        """
        shifts = self.shifts
        thresholds = epsilon[:, None] - shifts.loss
        slack = shifts.loss_error + 2 * UNIT_ROUNDOFF * (np.abs(epsilon[:, None]) + np.abs(shifts.loss))
        both = np.stack([thresholds - slack, thresholds + slack])
        low, high = log_ends(self.rest.profile(both.ravel()))
        shape = both.shape
        error = shifts.mass_error + (len(shifts.loss) + 8) * UNIT_ROUNDOFF + 2 * FUNCTION_ERROR
        sums: list[FloatArray] = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for logs, side in ((low.reshape(shape)[1], -1), (high.reshape(shape)[0], 1)):
                total: FloatArray = np.logaddexp.reduce(shifts.log_mass + logs, axis=1)
                moved: FloatArray = total + side * (error + 4 * UNIT_ROUNDOFF * np.abs(total))
                sums.append(np.where(np.isfinite(total), moved, total))
        if shifts.lost > 0:
            whole: FloatArray = np.logaddexp(sums[1], math.log(shifts.lost))
            sums[1] = whole + 2 * FUNCTION_ERROR * (1 + np.abs(whole))
        return sums[0], sums[1]

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        if self.rest.method == CLOSED_FORM or not self.evidence.is_certain:
            return super()._epsilon_formula(delta)
        low, high = self._epsilon_bounds(delta)
        if high - low <= CLOSE * high:
            return Enclosure(low, high, self.evidence)
        return decreasing_root(self._profile_formula, delta, low, high, self.evidence)

    def _epsilon_bounds(self, delta: float) -> tuple[float, float]:
        """Return a lower and an upper bound of epsilon(delta) in nats, from two epsilons of the curve `rest`.

        Notes
        -----
        Let A be the mass of all values above some value a, B the mass of all values up to a, and C the mass of all
        values from a on. Profiles fall, so C delta_R(eps - a) <= delta(eps) <= A + B delta_R(eps - a). So
        a + eps_R(delta/C) <= eps(delta), if that epsilon of `rest` is positive, and
        eps(delta) <= a + eps_R((delta - A)/B) for A < delta. Both bounds are close if the gaps between the values
        exceed the losses of `rest`, at the largest a with C > delta.
        """
        shifts = self.shifts
        order = np.argsort(-shifts.loss)
        masses = np.exp(shifts.log_mass[order])
        error = shifts.mass_error + (len(order) + 8) * UNIT_ROUNDOFF + 2 * FUNCTION_ERROR
        sums = np.cumsum(masses)
        at = min(int(np.argmax(sums * (1 - error) > delta)), len(order) - 1)
        above = (float(sums[at - 1]) if at else 0.0) * (1 + error) + shifts.lost
        beyond, upto = float(sums[at]) * (1 - error), min(math.fsum(masses[at:].tolist()) * (1 + error), 1.0)
        loss = float(shifts.loss[order[at]])
        low, high = 0.0, max(self.largest_log_ratio.upper, 0.0)
        if beyond > delta:
            least = self.rest.epsilon(min(delta / beyond * (1 + 2 * UNIT_ROUNDOFF), 1.0))
            low = max(self._moved(least, loss).lower, 0.0) if least.lower > 0 else 0.0
        share = (delta - above) / upto * (1 - 8 * UNIT_ROUNDOFF)
        if share > 0:
            high = min(high, max(self._moved(self.rest.epsilon(min(share, 1.0)), loss).upper, 0.0))
        return low, max(high, low)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return self._levels.points(alpha)

    @cached_property
    def _levels(self) -> SharedLevels:
        return SharedLevels.of_profile(self, self.log_profile, self._reversed.log_profile)
