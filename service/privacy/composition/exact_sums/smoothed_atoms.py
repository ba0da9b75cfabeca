"""Curves of runs whose losses have no common lattice, between curves of the run beside a little Gaussian noise.

Let L be the loss of the run and D its profile, and D_w the profile of the run beside a Gaussian step of shift w. Let
u = L - c, and let phi be the normal density. The step is worth D_w(c) - D(c) = e^c int_0^w g(s) ds to the attacker,
where g(s) = E0 phi(u/s - s/2) (`smoothed_responses.py`). Now

    phi(u/s - s/2) e^{s^2/8} = e^{u/2 - u^2/(2 s^2)}/sqrt(2 pi)

rises with s, hence h(s) = g(s) e^{s^2/8} does, too. So int_0^w g <= int_0^w h <= w h(w), and w h(w) e^{-w^2/2} <= int
over (w, 2 w) of h(s) e^{-s^2/8} = int of g. This bounds the effect of the step by two profiles that have it:

    D_w - e^{w^2/2} (D_2w - D_w) <= D <= D_w.

The gap is of second order in w where the law of L is nearly continuous, and of first order at an isolated atom.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.planning.accuracy import Accuracy
from service.privacy.composition.summands.abstract import Summand
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends, with_logs
from service.privacy.trade_off.mixture.shared_levels import SharedLevels

NOISE: Final = 4e-4
"""Shift of the additional Gaussian step, in units of the deviation of the run's loss."""
WIDTH: Final = 2e-7
"""Relative width of curves beside the noise that is narrow enough; the noise alone leaves about this gap."""
NEAREST: Final = 1e-10
"""Smallest distance of a tried lower bound of epsilon from that beside the noise, over max(1, epsilon)."""
LARGEST_MISSING: Final = 1e4
"""Minus ln of a lower bound of delta that is 0."""
LARGEST_EXPONENT: Final = 700.0
"""Largest argument of the exponential function."""
FARTHEST: Final = 0.1
"""Largest such distance."""
LONGER: Final = 8.0
"""Factor from one distance to the next, until a lower bound is proved."""
BEYOND: Final = 1.05
"""Factor by which a distance exceeds that at which an interpolated profile is as large as needed."""


@final
class SmoothedAtoms(AbstractTradeOff):
    """Trade-off curve of a run, from its curves in composition with Gaussian steps of a small shift w and of 2 w.

    Parameters
    ----------
    shift : float
        Shift w of the first Gaussian step, > 0.
    once, twice : AbstractTradeOff
        Curves of the run composed with a Gaussian step of the shift w, and of 2 w.
    ratios : tuple of Enclosure
        Smallest and largest log-likelihood ratio of the run alone.
    """

    def __init__(
        self, shift: float, once: AbstractTradeOff, twice: AbstractTradeOff, ratios: tuple[Enclosure, Enclosure]
    ) -> None:
        self._shift, self._once, self._twice, self._ratios = shift, once, twice, ratios
        self.evidence = Evidence.CERTIFIED
        self.method = once.method
        self.has_only_profile = True

    @staticmethod
    def of(summands: tuple[Summand, ...], accuracy: Accuracy) -> SmoothedAtoms:
        """Build the curve of a run of steps with finite lists of losses, in the add direction.

        `summands` has the steps with their counts, and `accuracy` the relative width of the enclosures aimed at.
        """
        deviation = math.sqrt(math.fsum(each.count * each.spread**2 for each in summands))
        squared = (NOISE * deviation) ** 2
        rough = replace(accuracy, straight_width=WIDTH)
        once, twice = (contour_pair(times * squared, summands, accuracy=rough)[0] for times in (1, 4))
        ranges = [each.loss_range for each in summands]
        lowest, highest = (math.fsum(each[end] for each in ranges) for end in (0, 1))
        error = math.fsum(each.least_loss_error for each in summands)
        ends = [_around(end, error) for end in (lowest, highest)]
        return SmoothedAtoms(math.sqrt(squared), once, twice, (ends[0], ends[1]))

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._ratios[1]

    @override
    def reversed(self) -> SmoothedAtoms:
        return self._reversed

    @cached_property
    def _reversed(self) -> SmoothedAtoms:
        smallest, largest = (Enclosure(-each.upper, -each.lower, Evidence.CERTIFIED) for each in self._ratios)
        return SmoothedAtoms(self._shift, self._once.reversed(), self._twice.reversed(), (largest, smallest))

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        once, twice = self._once.profile(epsilon), self._twice.profile(epsilon)
        exponent = 0.5 * self._shift**2
        growth = math.exp(exponent) * (1 + 2 * FUNCTION_ERROR) if exponent < LARGEST_EXPONENT else math.inf
        apart = np.maximum(twice.upper - once.lower, 0.0)
        effect = np.where(apart > 0, growth, 0.0) * apart * (1 + 4 * UNIT_ROUNDOFF)
        lower = np.maximum((once.lower - effect) * (1 - 4 * UNIT_ROUNDOFF), -np.expm1(np.minimum(epsilon, 0.0)))
        lower = np.where(epsilon < 0, lower * (1 - 2 * FUNCTION_ERROR), np.maximum(lower, 0.0))
        ended = epsilon >= self.largest_log_ratio.upper
        upper = np.where(ended, 0.0, once.upper)
        return with_logs(np.minimum(lower, upper), upper)

    def log_profile(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of ln delta at every epsilon.

        Parameters
        ----------
        epsilon : array, shape (n,)
            eps in nats.

        Returns
        -------
        (array, array)
            Lower and upper bounds, shape (n,).
        """
        return log_ends(self._profile_formula(epsilon))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        known = self._once.epsilon(delta)
        upper = max(min(known.upper, self.largest_log_ratio.upper), 0.0)
        return Enclosure(self._proved_below(delta, min(known.lower, upper), max(1.0, upper)), upper, self.evidence)

    def _proved_below(self, delta: float, start: float, scale: float) -> float:
        """Return an epsilon (nats) of at most `start` whose delta is proved to be at least `delta`; 0 without a proof.

        ln delta(epsilon) falls at about a constant rate over short distances. So a first proof at some distance from
        `start` gives the distance that is needed, at which a second proof is tried. All distances are in nats. Tried
        distances are between NEAREST and FARTHEST times `scale`.
        """
        wanted = math.log(delta)
        missing = wanted - self._log_lower(start)
        if missing <= 0:
            return start
        distance = min(max(missing, NEAREST * scale), FARTHEST * scale)
        while distance <= FARTHEST * scale:
            found = self._log_lower(max(start - distance, 0.0))
            if found >= wanted:
                break
            distance *= LONGER
        else:
            return 0.0
        needed = BEYOND * distance * missing / (found - wanted + missing)
        nearer = max(start - needed, 0.0)
        is_proved = needed < distance and self._log_lower(nearer) >= wanted
        return nearer if is_proved else max(start - distance, 0.0)

    def _log_lower(self, epsilon: float) -> float:
        lower = float(self._profile_formula(np.array([epsilon])).lower[0])
        return math.log(lower) if lower > 0 else -LARGEST_MISSING

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return self._levels.points(alpha)

    @cached_property
    def _levels(self) -> SharedLevels:
        return SharedLevels.of_profile(self, self.log_profile, self._reversed.log_profile)


def _around(end: float, error: float) -> Enclosure:
    """Return an enclosure of the sum of losses `end` with the absolute error `error`; infinite sums are exact."""
    if math.isinf(end):
        return Enclosure.point(end)
    slack = error + 16 * UNIT_ROUNDOFF * abs(end)
    return Enclosure(end - slack, end + slack, Evidence.CERTIFIED)
