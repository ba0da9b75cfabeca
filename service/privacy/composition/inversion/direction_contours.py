"""Inversion contours of one direction (add or remove) of a run, by truncation level, with bounds where they are wide.

A truncation level 10^-d omits jumps of the privacy loss of total probability at most 10^-d.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Final, final

import numpy as np

from service.privacy.composition.inversion.fallback import FallbackBounds
from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.run_law import TRUNCATION_DIGITS, RunLaw
from service.privacy.composition.inversion.tilts import Tilt, TiltGrid
from service.privacy.composition.planning.accuracy import Accuracy
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import CurvePoints

if TYPE_CHECKING:
    from service.privacy.composition.inversion.deformed.run import DeformedRun

EVIDENCE: Final = Evidence.CERTIFIED
"""Evidence of all numbers."""

_MANY = 8
"""Number of different steps of one kind from which rounding of shared sums limits the width, and contours cost more."""

HOPELESS: Final = 1e-4
"""Relative width above which deformed contours are tried after the first two truncation levels."""

_MOST_WIDE = 8
"""Maximal number of wide numbers of a list for deformed contours: each takes 0.1 to 1 second."""

_SMALLEST_VARIANCE = 1e-200
"""Variance of the loss below which tilts and thresholds are out of the range of doubles."""

_RARELY = 0.1
"""Expected number of jumps of a run that hardly ever has one."""

_MOST_SAMPLED = 10.0
"""Expected number of sampled records from which runs have good contours for tiny deltas."""


@final
class DirectionContours:
    """Contours and bounds that all evaluations of one direction of a run share.

    `run` is the list of steps. `reflected` is whether the direction is remove, with swapped hypotheses. The profile
    delta(epsilon) and all log-likelihood ratios (nats) are those of this direction.
    """

    def __init__(self, run: RunLaw, accuracy: Accuracy, *, reflected: bool) -> None:
        self.run, self.accuracy, self.reflected = run, accuracy, reflected
        self.good_width = accuracy.straight if run.most_together <= _MANY else accuracy.straight_of_many
        self._tilt_grids: dict[float, TiltGrid | None] = {}
        self.settled: set[float] = set()
        """Epsilons whose delta has bounds that neither contours nor lattices improve, even if they are wide."""
        self.points: dict[tuple[float, int] | None, CurvePoints] = {}
        """Points at single rates, by the rate and how many of power and type II error were to be narrow."""

    @cached_property
    def fallback(self) -> FallbackBounds:
        """Bounds of the run's numbers that need no inversion contour.

        They serve numbers whose enclosures on contours are wide, and follow from Chernoff's inequality and closed
        forms.
        """
        transform = self.run.transform(TRUNCATION_DIGITS[-1], reflected=self.reflected)
        steps, never = self.run.sampled_steps or (), self.run.log_prob_never_sampled
        steps = () if any(step.mirrored for step in steps) else steps
        return FallbackBounds(self.run.gaussian_mu_squared, never, self.reflected, transform, steps, self.run.global_mu)

    @cached_property
    def deformed(self) -> DeformedRun | None:
        """Deformed contours of the run; None for runs with other steps than Gaussian steps, sampled or not.

        The property is also None beyond the limits of kinds, rates and noise in `deformed_run`.
        """
        from service.privacy.composition.inversion.deformed.run import deformed_run

        steps, squares = self.run.sampled_steps, self.run.gaussian_mu_squared
        return None if steps is None else deformed_run(steps, squares, self.accuracy, reflected=self.reflected)

    @property
    def deforms_first(self) -> bool:
        """Whether a few numbers are evaluated on deformed contours before straight contours are tried.

        This is the case for mirrored steps that use the record less than 0.1 times on average, because straight
        contours are long for such steps.
        """
        steps = self.run.sampled_steps
        if steps is None or not any(step.mirrored for step in steps):
            return False
        return math.fsum(step.count * step.rate for step in steps) < _RARELY and self.deformed is not None

    @cached_property
    def jumping_step(self) -> SampledStep | None:
        """Equal sampled Gaussian steps that are the whole run and use the record fewer than 10 times on average.

        Rare large losses of such steps (jumps) may determine tiny values of delta. The property is None for other runs,
        in the remove direction, and for steps without deformed contours.
        """
        steps = self.run.sampled_steps
        if steps is None or len(steps) != 1 or self.run.gaussian_mu_squared > 0 or self.reflected:
            return None
        if steps[0].count * steps[0].rate >= _MOST_SAMPLED:
            return None
        return None if self.deformed is None else steps[0]

    def is_far(self, epsilon: float) -> bool:
        """Return whether delta(epsilon) is below about e^-25, so that one rare large loss of a step may determine it.

        delta is the privacy profile, and `epsilon` is in nats. The result is False for runs without `jumping_step` and
        for epsilons outside (0, 50). It only chooses the method.
        """
        step = self.jumping_step
        if step is None or self.deformed is None:
            return False
        from service.privacy.composition.inversion.rare_jumps.one_jump import is_far

        return is_far(step, self.deformed.deviation, epsilon)

    def far_profile(self, epsilon: float) -> tuple[float, float] | None:
        """Return `(lower, upper)`, bounds of ln delta(epsilon), or None if `is_far` is false or the work is spent.

        The bounds divide the run by its number of steps with a rare large loss (`rare_jumps/one_jump.py`).
        """
        if self.jumping_step is None or is_spent() or not self.is_far(epsilon):
            return None
        from service.privacy.composition.inversion.rare_jumps.one_jump import log_profile

        return log_profile(self.jumping_step, epsilon, self.accuracy.deformed)

    def to_deform(self, known: Readings, rows: int, width: float) -> IndexArray:
        """Return the indices of the numbers wider than `width`, which deformed contours should evaluate.

        Parameters
        ----------
        known : Readings
            Enclosures of n numbers.
        rows : int
            Number of rows of `known` whose widths count.
        width : float
            Relative width up to which a number needs no deformed contour.

        Returns
        -------
        array, shape (m,)
            Indices. Empty if more than 8 numbers are wide, if the run has no deformed contours, if the accuracy is that
            for long lists, or if the work of the request is spent.
        """
        wide = np.flatnonzero(known.width(rows) > width)
        if self.accuracy.long_lists or self.deformed is None:
            return wide[:0]
        served = 0 < len(wide) <= _MOST_WIDE and not is_spent()
        return wide if served else wide[:0]

    def tilt_grid(self, digits: float) -> TiltGrid | None:
        """Return the contours, by tilt, of the run without jumps of the loss of total probability at most 10^-`digits`.

        The result is None where the run has no log-moment function (`RunLaw.transform`), the variance of the loss is
        out of the range of doubles, or no tilt is usable. A jump is a rare large loss of a step, and a tilt is the real
        number at which a contour crosses the axis.
        """
        if digits not in self._tilt_grids:
            self._tilt_grids[digits] = None
            transform = self.run.transform(digits, reflected=self.reflected)
            if transform is not None:
                variances = transform.cumulants(np.array([0.0, 0.5, 1.0])).second
                if np.isfinite(variances).all() and (variances > _SMALLEST_VARIANCE).all():
                    tilt_grid = TiltGrid(transform, variances)
                    self._tilt_grids[digits] = tilt_grid if tilt_grid.usable else None
        return self._tilt_grids[digits]

    def built_tilt_grid(self, digits: float) -> TiltGrid | None:
        """Return the tilt grid for a truncated mass of 10^-`digits` if it was built before, or None."""
        return self._tilt_grids.get(digits)

    @property
    def largest_log_ratio(self) -> Enclosure:
        """Largest log-likelihood ratio ln(dP1/dP0) of this direction in nats, enclosed.

        For add it is +inf with Gaussian noise, else a sum over the steps. For remove it is -sum N ln(1 - p + p e^-e)
        over N steps of sampling rate p and largest loss e each, with e infinite for Gaussian noise. The ratio of remove
        is +inf if the run has a Gaussian step without sampling.
        """
        low, high = self.run.loss_range
        return around(-low, self.run.least_loss_error) if self.reflected else around(high)

    def neighbours_may_help(self, tilt: Tilt) -> bool:
        """Return whether contours at neighbouring tilts may give narrower enclosures than the contour at `tilt`.

        They may in all runs of Gaussian steps, and where the transform is negligible at the end of this contour. A tilt
        is the real number at which a contour crosses the axis, and the transform is the moment-generating function of
        the loss along the contour.
        """
        return self.run.is_gaussian or bool(tilt.contour.has_decayed.all())


def around(value: float, error: float = 0.0) -> Enclosure:
    """Return an enclosure of a sum of at most 256 terms, or of the square root of such a sum.

    `value` is the computed result. A margin of 600 u |value| covers the rounding, with u = 2^-53. `error` is a bound of
    the absolute error of the terms themselves. An infinite value is exact.
    """
    if math.isinf(value):
        return Enclosure.point(value)
    slack = 600 * UNIT_ROUNDOFF * abs(value) + error
    return Enclosure(value - slack, value + slack, EVIDENCE)
