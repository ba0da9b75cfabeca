"""Engine `contour`: certified curves of runs of any length.

A run is a list of independent steps with privacy loss S in nats. The engine serves runs of Gaussian, Laplace,
Poisson-sampled and two-point steps, of mixtures of Gaussians, and of sampled steps with a chi-square statistic. A
number is evaluated by an inversion integral along a contour near the saddle point of its integrand. `straight.py` has
the integrals and their errors.

At a threshold c the test "S > c" is a point of the trade-off curve, with the false positive rate alpha(c), the power
power(c) and the type II error beta(c). e^c is the slope of a tangent there. So for every c

    power(alpha) <= power(c) + e^c (alpha - alpha(c)),      type II error >= beta(c) + e^c (alpha(c) - alpha).

With a proved alpha(c2) <= alpha the chord gives the other bound:

    power(alpha) >= power(c) - e^{c2} (alpha(c) - alpha)_+.

Solving for c therefore needs no error bound of its own. Epsilon is proved by the profile delta(epsilon) at two
thresholds (`epsilons.py`, `readings/roots.py`). Wide results are intersected with bounds that need no contour
(`fallback.py`), so that a number outside the engine's reach is wide, never missing. Runs of few kinds of sampled steps
are then evaluated on deformed contours (`inversion/deformed/run.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.composition.inversion.direction_contours import EVIDENCE, DirectionContours, around
from service.privacy.composition.inversion.epsilon_caps import epsilon_cap
from service.privacy.composition.inversion.epsilons import evaluate_epsilon
from service.privacy.composition.inversion.evaluation import (
    evaluate_points,
    evaluate_profile,
    evaluate_roughly,
)
from service.privacy.composition.inversion.inverse_profile import cap_inverse_profile
from service.privacy.composition.inversion.run_law import RunLaw
from service.privacy.composition.planning.accuracy import DEFAULT_ACCURACY, Accuracy
from service.privacy.composition.summands.abstract import Summand
from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints


def contour_pair(
    gaussian_mu_squared: float, summands: Iterable[Summand], *, accuracy: Accuracy = DEFAULT_ACCURACY
) -> tuple[ContourTradeOff, ContourTradeOff]:
    """Return the add and remove curves of a run, a list of independent steps.

    Parameters
    ----------
    gaussian_mu_squared : float
        Sum of N/sigma^2 over the Gaussian steps without sampling, with N steps of noise multiplier sigma each (0
        without any). The sum is within 1e-14 of its value, relatively.
    summands : iterable of Summand
        All other steps.
    accuracy : Accuracy
        Relative width that the engine aims at.

    Returns
    -------
    (ContourTradeOff, ContourTradeOff)
        Trade-off curves of the add direction (H1 has the record) and of the remove direction (hypotheses swapped).

    References
    ----------
    Zhu, Dong, Wang 2022, Theorems 10 and 11 (composition of dominating pairs).
    """
    run = RunLaw.of(gaussian_mu_squared, summands)
    add = ContourTradeOff(run, accuracy, reflected=False)
    return add, add.reversed()


@final
class ContourTradeOff(AbstractTradeOff):
    """Trade-off curve of one direction (add or remove) of a run, evaluated by inversion integrals along contours.

    Notes
    -----
    The relative width of an enclosure is 1e-13 to 1e-11 for runs whose privacy loss is unimodal. It was tested on the
    reference cases and on random runs. It is 1e-10 to 1e-6 on deformed contours, where one rare step dominates (tiny
    rates, small noise, small alpha). It is wider, and so labelled, where deformed contours fail or a run mixes several
    kinds of steps.
    """

    evidence = EVIDENCE
    method = "contour"

    def __init__(
        self, run: RunLaw, accuracy: Accuracy, *, reflected: bool, inverse: ContourTradeOff | None = None
    ) -> None:
        """Store the run and the accuracy aimed at.

        `reflected` swaps the hypotheses. `inverse` is the curve of the other direction, whose contours may bound this
        one, or None.
        """
        self.run, self._accuracy, self._reflected, self._inverse = run, accuracy, reflected, inverse

    @cached_property
    def contours(self) -> DirectionContours:
        """Inversion contours of this direction and bounds that need no contour, built on first use."""
        return DirectionContours(self.run, self._accuracy, reflected=self._reflected)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """Largest log-likelihood ratio of this direction of the run in nats, enclosed."""
        return self.contours.largest_log_ratio

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest known mu for which the run is mu-GDP (Gaussian differential privacy), enclosed, or None.

        mu = sqrt(sum N/sigma^2) over N steps of noise multiplier sigma each, for all sampling rates: sampling only
        helps, and its effect vanishes as the false positive rate tends to 0. For mixtures the largest shift counts. The
        result is None for mirrored mixtures and for runs with other steps.
        """
        mirrored = any(summand.is_symmetric for summand in self.run.summands)
        return around(self.run.global_mu) if self.run.is_gaussian and not mirrored else None

    @override
    def reversed(self) -> ContourTradeOff:
        """Return the curve of the other direction: remove for an add curve, add for a remove curve.

        It is this curve itself where the loss of every step has a symmetric law.
        """
        if self.run.is_symmetric:
            return self
        return ContourTradeOff(self.run, self._accuracy, reflected=not self._reflected, inverse=self)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return evaluate_points(self.contours, alpha, 2)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        """Return the enclosure of the power at a false positive rate.

        Where the power is next to 1, digits of the type II error are not needed, so that only the power is evaluated.
        """
        return evaluate_points(self.contours, np.array([rate]), 1).power.at(0, self.evidence)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return evaluate_profile(self.contours, epsilon)

    @override
    def is_settled(self, epsilon: float) -> bool:
        return epsilon in self.contours.settled

    @override
    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> EnclosureArray:
        return evaluate_roughly(self.contours, epsilon, rate)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return evaluate_epsilon(self.contours, delta)

    @override
    def epsilon_cap(self, delta: float, enough: float = -math.inf) -> float:
        cap = epsilon_cap(self.contours, delta)
        return enough if 0 <= enough < cap and self.profile_cap(enough) <= delta else cap

    @override
    def profile_cap(self, epsilon: float) -> float:
        return 1.0 if self._inverse is None else cap_inverse_profile(self._inverse.contours, epsilon)
