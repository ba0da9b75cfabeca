"""Profile of a run far out, where one rare jump of the loss exceeds epsilon and all other steps hardly matter.

The run has N equal sampled Gaussian steps. A step is a *jump* if the normal score y of its outcome is above y0, *low*
if y < -y1, and else in the *core* (`core_law.py`). L is the loss of one step, and L(y) is the loss at the score y. Let
S be the loss of the run, c = epsilon, and delta_1 the profile of one step (`jump_law.py`). P1 and E1 are under H1. The
run is divided by its jumps:

    delta(c) = E1(1 - e^{c - S})_+ = T0 + T1 + T2 + R.

- R has a low step. Given the low step, the other N - 1 steps have no larger profile than the run, and the loss of the
  low step is negative. Hence R <= N P1(low) delta(c).
- T0 has no jump (`core_contour.py`, `CoreTails`), and T2 has two jumps or more (`CoreTails`).
- T1 has one jump and N - 1 steps in the core, whose loss is S'. Given S' = s, the jump contributes f(s) = delta_1(c -
  s) if L(y0) <= c - s, and else at most f(s) and at most P1(jump).

T1 is N E1[psi(c - L); jump] with the profile psi of S' (`core_contour.py`). Contours of a narrow core would be long.
The sum S' is then mostly near some m, and T1 is evaluated there by the series of G(u) = e^{-k u} f(m + u), with a real
number k (*tilt*):

    E1[f(S'); core] = E1[e^{k (S' - m)} G(S' - m); core].

Moments of the sum are coefficients of a power of the series of one step's moments. Let |G| <= M on the circle |u| = r,
and let G be analytic inside. Let n be even, and d < r with m + d <= c - L(y0). For |u| <= d, the terms of the series
from u^n on are at most M (|u|/r)^n/(1 - d/r). For |u| > d all other terms together are at most M (|u|/d)^n/(1 - d/r).
The parts of T1 with |S' - m| > d have bounds of f and of the law of S':

    E1[f(S'); S' < m - d] <= f(m - d) P1(S' < m - d),

and for S' > m + d the sum over the cells of `CoreTails`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from flint import arb, arb_series, ctx
from scipy.special import log_ndtr

from service.privacy.composition.inversion.rare_jumps.core_contour import CoreContour, Jumps
from service.privacy.composition.inversion.rare_jumps.core_law import LARGEST_RATE, CoreLaw
from service.privacy.composition.inversion.rare_jumps.core_tails import CELLS, CoreTails, Growth
from service.privacy.composition.inversion.rare_jumps.jump_law import FARTHEST_SCORE, LARGEST_RADIUS, JumpLaw
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.balls import log_doubles
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work

_LOW = 8.5
"""Largest y1, beyond which a normal variable hardly ever lies."""

_LEAST_SCORE, _LEAST_MODERATE = 3.0, 1.0
"""Smallest scores of jumps and of moderate steps. Larger deltas are not those of one rare jump."""

_LARGEST_EPSILON = 50.0

_LEAST_LOG = -640.0
"""ln of the smallest delta, above the range in which doubles lose digits."""

_ORDERS = 33
"""Number of moments: the largest even order of the series, and 1."""

_BITS = 256

_RADII = (0.95, 0.9, 0.8, 0.5, 0.25, 0.1, 0.03)
"""Radii of the circles, relative to the distance c - m."""

_WITHIN = 0.75
"""Largest d, relative to the radius."""

_MODERATE = 0.15
"""Least loss of a moderate step of the core, relative to epsilon."""

_SHARES = (0.35, 0.25)
"""Losses from which steps are jumps, relative to epsilon. The second one serves where the first one is wide."""

_TILTS = 40
_STEPS_TO_TILT = 8
_LEAST_JUMP = 0.3
"""Smallest c - m, relative to epsilon, beyond which the core determines delta."""

_NEGLIGIBLE = 1e-8
"""Bound of T0, relative to T0 + T1, above which T0 is evaluated on a contour."""

_WIDE = 1e-7
"""Relative width of T1 above which T1 is evaluated on a contour."""

_DEVIATIONS = 8.0
"""Deviations of S' below 0 that the range of jumps on the contour covers."""

_PANEL = 0.1
"""Longest panel of that range."""

_WORK = 20_000
"""Counted work of one enclosure, microseconds."""

_FAR = -25.0
"""ln of delta below which one jump is tried: larger deltas are evaluated on contours."""

_UNKNOWN = (-math.inf, math.inf)


def is_far(step: SampledStep, deviation: float, epsilon: float) -> bool:
    """Return whether delta(epsilon) of the run of the equal steps `step` is below about e^-25; `epsilon` is in nats.

    delta is estimated as the larger of two parts: one rare large loss of a step, and a normal loss with the standard
    deviation `deviation` (nats). The result is False for epsilons outside (0, 50). No bound depends on it.
    """
    if not 0 < epsilon < _LARGEST_EPSILON:
        return False
    with np.errstate(all="ignore"):
        jump = math.log(step.count) + float(JumpLaw(step).log_profile(np.array([epsilon]))[0])
    core = float(log_ndtr(-epsilon / deviation - 0.5 * deviation))
    return max(jump, core) < _FAR


def log_profile(step: SampledStep, epsilon: float, width: float) -> tuple[float, float]:
    """Return a lower and an upper bound of ln delta(epsilon) of a run of equal steps, infinite where none is known.

    Parameters
    ----------
    step : SampledStep
        Steps of the run.
    epsilon : float
        Threshold of the privacy loss, in nats.
    width : float
        Relative width of delta at which the search for narrower bounds ends.

    Returns
    -------
    (float, float)
        Lower and upper bound of ln delta(epsilon). They are infinite for a single step, sampling rates above a limit,
        epsilons outside (0, 50), or a delta below about e^-640.

    Notes
    -----
    delta rises with the rate: a step with the rate p' < p is one with the rate p whose output is replaced, with
    probability 1 - p'/p, by a fresh draw of the law without the record. A rate between two doubles is therefore
    bounded by both.

    The relative width is about the probability that the losses of two steps together exceed epsilon, divided by delta,
    and at least 1e-13. It is below 1e-6 for nearly all runs that sample few records and whose delta is below 1e-15.
    Tested by direct integration of two and three steps, and against other contours.
    """
    if not (step.count > 1 and step.rate <= LARGEST_RATE and 0 < epsilon < _LARGEST_EPSILON):
        return _UNKNOWN
    if abs(step.rest) > UNIT_ROUNDOFF * step.rate:  # more than the bounds of rounding include
        rate = step.rate + step.rest
        low, high = (replace(step, rate=math.nextafter(rate, side), rest=0.0) for side in (0.0, 1.0))
        return log_profile(low, epsilon, width)[0], log_profile(high, epsilon, width)[1]
    lower, upper = _UNKNOWN
    for share in _SHARES:
        count_work(_WORK)
        found = _OneJump(step, epsilon, share).bounds()
        lower, upper = max(lower, found[0]), min(upper, found[1])
        if upper <= _LEAST_LOG or -math.expm1(min(lower - upper, 0.0)) <= width:
            break
    return (lower, upper) if upper > _LEAST_LOG else _UNKNOWN


@dataclass(frozen=True, slots=True)
class _Middle:
    """Tilt and center of the power series of T1, the part of delta with exactly one rare large loss among N steps.

    `tilt` is a real exponent k, and `center` the center l of one step's loss in nats. `total` is m = (N - 1) l for the
    N - 1 other steps.
    """

    tilt: float
    center: float
    total: float


class _OneJump:
    """Bounds of ln delta of a run of N equal steps at one epsilon, by dividing the run by its number of jumps.

    A *jump* is a loss of a step above `share` times epsilon. The other steps, except with very low losses, are in the
    *core*. delta = T0 + T1 + T2 + R: no jump, one jump, several jumps, and low steps. If one step jumps, S' is the loss
    of the N - 1 other steps. f(s) is the part of delta that a jump contributes given S' = s. m is the value near which
    S' mostly lies in T1, and k is the tilt of the series around m (`one_jump.py`).
    """

    def __init__(self, step: SampledStep, epsilon: float, share: float) -> None:
        self._step, self._epsilon, self._others, self._jump = step, epsilon, step.count - 1, share * epsilon
        self._law = JumpLaw(step)

    @np.errstate(all="ignore")
    def bounds(self) -> tuple[float, float]:
        """Return a lower and an upper bound of ln of the run's privacy profile at epsilon, infinite where unknown."""
        step, moderate = self._step, self._law.score(_MODERATE * self._epsilon)
        highest = self._law.score(self._jump)
        far = max(self._law.score(3 * self._epsilon), highest + 1 / step.sigma) < FARTHEST_SCORE
        if not (far and highest >= _LEAST_SCORE and moderate >= _LEAST_MODERATE):
            return _UNKNOWN
        lowest = min(_LOW, highest)
        self._core = CoreLaw(step, lowest, highest)
        self._below = self._growth(self._core, float(self._core.loss.min()))
        small = self._growth(CoreLaw(step, lowest, moderate + 1e-9), _MODERATE * self._epsilon)
        ends = _MODERATE * self._epsilon, self._jump, self._epsilon
        self._sums = CoreTails.of(self._law.log_above, ends, self._growth(self._core, self._jump), small)
        with ctx.workprec(_BITS):
            cap, ctx.cap = ctx.cap, _ORDERS
            try:
                return self._bounds()
            finally:
                ctx.cap = cap

    def _bounds(self) -> tuple[float, float]:
        count, middle = self._step.count, self._middle()
        least, most = arb(0), arb(math.inf)
        if middle is not None:
            least, most = self._one_jump(middle)
        if not most.is_finite() or most - least > _WIDE * most:
            logs = self._one_jump_on_contour()
            least = least.max(arb(logs[0]).exp()) if math.isfinite(logs[0]) else least
            most = most.min(arb(logs[1]).exp()) if math.isfinite(logs[1]) else most
        if not most.is_finite():
            above = self._cells_above()[0] + math.exp(float(self._law.log_profile(np.array([self._epsilon]))[0]))
            least, most = arb(0), arb(count) * above
        none = arb(0), arb(self._sums.profile_without_jumps(count))
        if none[1] > _NEGLIGIBLE * (least + none[1]):
            logs = self._contour(count).log_profile()
            none = arb(logs[0]).exp() if math.isfinite(logs[0]) else none[0], none[1].min(arb(logs[1]).exp())
        low, _ = self._core.log_missing()
        lower = (least.max(0) + none[0]).lower()
        upper = (most + none[1] + arb(self._sums.profile_of_several(count))).upper() / (1 - count * arb(low).exp())
        return (
            log_doubles(lower)[0] if lower > 0 else -math.inf,
            min(log_doubles(upper)[1], 0.0) if upper > 0 else math.inf,
        )

    def _one_jump(self, middle: _Middle) -> tuple[arb, arb]:
        """Return a lower and an upper bound of T1, the part of delta with one jump, by a power series.

        A jump is a rare large loss of one step. `middle` is the center of the series. The upper bound is infinite where
        none is known.
        """
        series = self._law.tilted_series(self._distance(middle), self._epsilon, middle.tilt)
        moments, above = self._moments(middle), self._cells_above()
        found = [one for share in _RADII if (one := self._error(middle, share, moments, above)) is not None]
        if not found:
            return arb(0), arb(math.inf)
        order, error = min(found, key=lambda one: float(one[1].log().mid()))
        value = sum((series[k] * moments[k] for k in range(order)), arb(0))
        count = self._step.count
        return (count * (value - error)).lower(), (count * (value + error)).upper()

    def _contour(self, steps: int) -> CoreContour:
        return CoreContour(self._core, steps, self._epsilon, self._largest_tilt(self._core, self._jump))

    def _one_jump_on_contour(self) -> tuple[float, float]:
        """Return a lower and an upper bound of ln T1 by an inversion contour, infinite where none is known.

        T1 is the part of delta with exactly one rare large loss of a step.
        """
        largest = self._epsilon + _DEVIATIONS * math.sqrt(self._others) * self._core.deviation()
        highest = self._core.highest
        ahead = self._law.score(largest)
        if not highest + 0.1 < ahead < FARTHEST_SCORE:
            return _UNKNOWN
        range_of_jumps = CoreLaw(self._step, -highest, ahead, _PANEL)
        jumps = Jumps(range_of_jumps, math.exp(self._core.log_missing()[1]), self._law.tails(largest))
        below = -1 + self._largest_tilt(self._core, float(self._core.loss.min())) * np.geomspace(1e-3, 1.0, _TILTS)
        logs = self._contour(self._others).log_with_jump(jumps, self._epsilon - largest, below)
        return logs[0] + math.log(self._step.count), logs[1] + math.log(self._step.count)

    def _distance(self, middle: _Middle) -> arb:
        """Return epsilon - m (nats) as a ball; the series is expanded around the loss m of the other steps.

        A ball is an interval of arbitrary precision. m is the `total` of `middle`.
        """
        return arb(self._epsilon) - arb(middle.center) * self._others

    def _middle(self) -> _Middle | None:
        """Return the tilt k and the other steps' loss m for the series of T1, or None.

        The law of S' weighted by e^{k S'} is the tilted law, with the mean m. The result is None if m comes too near
        epsilon, or epsilon - m is too small for a jump (`JumpLaw.pull` is 0). The tilt is chosen so that the product of
        the law of S' and f is largest near m. S' is the loss of the N - 1 steps without the jump (a rare large loss).
        f(s) is the part of delta that the jump contributes given S' = s.
        """
        total, tilt, center = 0.0, 0.0, 0.0
        for _ in range(_STEPS_TO_TILT):
            tilt = self._law.pull(self._epsilon - total) if total < (1 - _LEAST_JUMP) * self._epsilon else 0.0
            if not tilt > 0:
                return None
            center = self._core.mean(tilt)
            total = self._others * center
        return _Middle(tilt, center, total) if math.isfinite(tilt + total) else None

    def _growth(self, core: CoreLaw, farthest: float) -> Growth:
        """Return upper bounds of ln E1[e^{kL}; core] at tilts k of the sign of the core's `farthest` loss L.

        L is the loss of one step, and a core is the event that a step has no rare large loss.
        """
        tilts = self._largest_tilt(core, farthest) * np.geomspace(1e-3, 1.0, _TILTS)
        return Growth(tilts, np.log1p(core.growth(tilts)))

    @staticmethod
    def _largest_tilt(core: CoreLaw, farthest: float) -> float:
        """Return a tilt k at which the `farthest` loss in a core determines the moment E1[e^{kL}; core].

        L is the loss of one step, and the core is the event that a step has no rare large loss.
        """
        return 2 * (core.y[-1] ** 2 + 20) / farthest

    def _moments(self, middle: _Middle) -> list[arb]:
        """Return enclosures of the moments E1[e^{k (S' - m)} ((S' - m)/epsilon)^j; core], j = 0, 1, ..., as balls.

        S' is the loss of the N - 1 steps without the jump (a rare large loss), and k and m (tilt and center) are those
        of `middle`. The core is the event that a step has no rare large loss. The expectation E1 under H1 is over the
        event that all these steps are in the core.
        """
        values, errors = self._core.moments(middle.tilt, middle.center, self._epsilon, _ORDERS)
        if not np.isfinite(errors).all():
            return [arb(0, math.inf)] * _ORDERS
        low, high = self._core.log_missing()
        missing = arb(low).exp() + arb(high).exp()
        terms = [arb(value, error) for value, error in zip(values.tolist(), errors.tolist(), strict=True)]
        # The mass beyond the core is between 0 and its bound.
        terms[0] = 1 + terms[0] - missing / 2 + arb(0, (missing / 2).upper())
        powers = arb_series([term / math.factorial(j) for j, term in enumerate(terms)]) ** arb(self._others)
        return [powers[j] * math.factorial(j) for j in range(_ORDERS)]

    def _error(self, middle: _Middle, share: float, moments: list[arb], above: list[float]) -> tuple[int, arb] | None:
        """Return the number of terms of the series and a bound of all errors of T1/N, for one circle, or None.

        T1 is the part of delta with one rare large loss among N steps. The series is expanded around m, the sum of the
        other losses (`middle`). Its terms are bounded on a circle around m, whose radius is at most `share` times
        epsilon - m. `moments` are those of `_moments`, and `above` are the bounds of `_cells_above`. The result is None
        where no bound is known.
        """
        radius = min(share * (self._epsilon - middle.total), LARGEST_RADIUS)
        distance = min(_WITHIN * radius, self._epsilon - self._jump * (1 + 1e-9) - middle.total)
        log_largest = self._law.log_largest(self._distance(middle), radius, middle.tilt) if distance > 0 else math.inf
        if not log_largest < math.inf:
            return None
        near, far = (arb(each / self._epsilon) * (1 - 1e-9) for each in (radius, distance))
        rests = {n: moments[n].upper() * (1 / near**n + 1 / far**n) for n in range(2, _ORDERS, 2)}
        order = min(rests, key=lambda n: float(rests[n].log().mid()))
        lowest = middle.total - distance
        below = float(self._below.log_tails(np.array([lowest]), self._others)[0])
        below += float(self._law.log_profile(np.array([self._epsilon - lowest]))[0])
        first = min(max(math.floor((middle.total + distance) / self._epsilon * CELLS), 0), CELLS)
        error = arb(log_largest).exp() / (1 - arb(_WITHIN)) * rests[order] + arb(above[first]) + arb(below).exp()
        error = error.upper()
        return (order, error) if error.is_finite() else None

    def _cells_above(self) -> list[float]:
        """Return an upper bound of the part of T1/N with S' > s, for each point s of the grid from 0 to epsilon.

        The bounds fall with s. T1 is the part of delta with one jump among N steps, and S' is the loss of the other
        steps. A jump is a rare large loss of a step.
        """
        tails, grid = self._sums.tails(self._others)[: CELLS + 1], self._sums.grid[: CELLS + 1]
        # At the right of each cell f is largest. Beyond epsilon a jump has its probability.
        right = np.append(self._law.log_profile(self._epsilon - grid[1:]), 0.0)
        size = np.exp(np.minimum(np.maximum.accumulate(right), self._core.log_missing()[1]))
        # Summation by parts: all terms are positive.
        rises = np.append((tails[1:] * np.diff(size))[::-1].cumsum()[::-1], 0.0)
        return ((tails * size + rises) * (1 + 1e-9) + 1e-300).tolist()
