"""The `contour` engine: certified curves of runs of Gaussian, Laplace, Poisson-sampled and two-point steps, and of
sampled steps with a chi-square statistic, of any length.

Every number is evaluated on a contour of the grid that is near its saddle point; `straight.py` has the integrals and
their errors. At a threshold c the test "S > c" is a point of the curve and e^c the slope of a tangent, so for ANY c

    power(alpha) <= power(c) + e^c (alpha - alpha(c)),      type II error >= beta(c) + e^c (alpha(c) - alpha),

and with a proved alpha(c2) <= alpha the chord gives the other end:

    power(alpha) >= power(c) - e^{c2} (alpha(c) - alpha)_+.

Solving for c therefore needs no error bound of its own. What is still wide is intersected with bounds that need no line
(`fallback.py`), so that a reading outside the engine's reach is wide, never missing; and runs of few kinds of sampled
steps are read on deformed contours then (`composition/inversion/deformed/run.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.composition.inversion.epsilon_caps import epsilon_cap
from service.privacy.composition.inversion.epsilons import evaluate_epsilon
from service.privacy.composition.inversion.evaluation import (
    evaluate_points,
    evaluate_profile,
    evaluate_roughly,
)
from service.privacy.composition.inversion.inverse_profile import cap_inverse_profile
from service.privacy.composition.inversion.run import ContourRun
from service.privacy.composition.inversion.run_contours import EVIDENCE, RunContours, around
from service.privacy.composition.planning.accuracy import DEFAULT_ACCURACY, Accuracy
from service.privacy.composition.summands.abstract import Summand
from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints


def contour_pair(
    gaussian_mu_squared: float, summands: Iterable[Summand], *, accuracy: Accuracy = DEFAULT_ACCURACY
) -> tuple[ContourTradeOff, ContourTradeOff]:
    """Return the add and remove curves of a run.

    `gaussian_mu_squared`: sum of N/sigma^2 over plain Gaussian steps (0 without any), within 1e-14 of its value.
    Source: composition of dominating pairs (Zhu, Dong, Wang 2022, Theorems 10 and 11).
    """
    run = ContourRun.of(gaussian_mu_squared, summands)
    add = ContourTradeOff(run, accuracy, reflected=False)
    return add, add.reversed()


@final
class ContourTradeOff(AbstractTradeOff):
    """One direction of a run, evaluated on the contours of its tilt grids.

    Relative width: 1e-13 to 1e-11 for runs whose sampled-step count and noise keep the loss unimodal (tested on the
    reference cases and on random runs); 1e-10 to 1e-6 on deformed contours, where one rare step dominates (tiny rates,
    small noise, small alpha); wider, and so labelled, where these fail or a run mixes several kinds of steps.
    """

    evidence = EVIDENCE
    method = "contour"

    def __init__(
        self, run: ContourRun, accuracy: Accuracy, *, reflected: bool, inverse: ContourTradeOff | None = None
    ) -> None:
        """`inverse`: the curve that this one was made of, whose contours may bound this one."""
        self.run, self._accuracy, self._reflected, self._inverse = run, accuracy, reflected, inverse

    @cached_property
    def contours(self) -> RunContours:
        """Contours and bounds of this direction, built on first use."""
        return RunContours(self.run, self._accuracy, reflected=self._reflected)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """See `RunContours`, here and below."""
        return self.contours.largest_log_ratio

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self.contours.smallest_log_ratio

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """sqrt(sum N/sigma^2) whatever the rates: sampling only helps, and its help vanishes as alpha -> 0. Of the
        shifts of a mixture the largest counts then. Not known where other steps are there, or mirrored mixtures.
        """
        mirrored = any(summand.is_symmetric for summand in self.run.summands)
        return around(self.run.global_mu) if self.run.is_gaussian and not mirrored else None

    @override
    def reversed(self) -> ContourTradeOff:
        """Return the other direction of the run: this curve where the loss of every step has a symmetric law."""
        if self.run.is_symmetric:
            return self
        return ContourTradeOff(self.run, self._accuracy, reflected=not self._reflected, inverse=self)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return evaluate_points(self.contours, alpha, 2)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        """Return the power alone: where it is next to 1, digits of the type II error are not needed."""
        return evaluate_points(self.contours, np.array([rate]), 1).power.at(0, self.evidence)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return evaluate_profile(self.contours, epsilon)

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
