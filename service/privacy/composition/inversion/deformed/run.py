"""Deformed contours for runs of few kinds of sampled Gaussian steps (`SampledStep`), where straight contours are wide.

A contour is the path of an inversion integral. Straight contours are long where the loss has two scales: a *core* of
standard deviation p sqrt(N)/sigma, for N steps of sampling rate p and noise multiplier sigma, and rare jumps of size
one. A contour that is deformed away from the imaginary direction, with moments on deformed paths too, needs a few
hundred nodes for all scales (`panels.py`, `paths.py`). Its threshold is estimated, and a number is evaluated. If the
threshold moves, a contour laid out for the new one evaluates the number again. Any contour gives bounds; a better one
gives narrower bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, product

import numpy as np
from scipy.special import log_ndtr, ndtri

from service.privacy.composition.inversion.deformed.contour import DeformedContour
from service.privacy.composition.inversion.deformed.majorant import MajorantGrid
from service.privacy.composition.inversion.deformed.panels import Bend, ContourLayout, Grids
from service.privacy.composition.inversion.deformed.paths import REAL_LINE
from service.privacy.composition.inversion.deformed.sums import Float, roundoff
from service.privacy.composition.inversion.readings.enclosures import Readings, nothing_known
from service.privacy.composition.inversion.readings.points import read_points, read_power_by_profile
from service.privacy.composition.inversion.readings.profile import read_profile
from service.privacy.composition.inversion.readings.roots import prove_root, solve_profile, solve_tail
from service.privacy.composition.planning.accuracy import DEFAULT_ACCURACY, Accuracy
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.exponentials import exp_held
from service.privacy.numerics.roots import bisected
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent

_SMALLEST_NOISE, _LARGEST_NOISE = 0.2, 15.0
_LARGEST_RATE = 0.9
_SMALLEST_DEVIATION = 1e-100
_MOST_PARTS = 4
"""Ranges of steps for deformed contours.

The grids of much larger noise would be long, and rates near 1 have no jumps.
"""

_LARGEST_GRID = 3_000
"""Maximal number of nodes of the majorants' grids of all kinds together, which bounds time and memory of a contour.

Losses that hardly vary have saddle points, and so grids, arbitrarily far out.
"""

_FRACTIONS = (1.0, 0.4)
"""Positions at which contours cross the real axis, as fractions between 1 and the saddle point."""

_ANGLES = (0.33, 0.18)
_EARLY = 4.0
"""Largest width of the bend of contours for mirrored steps, over theta."""

_NEAREST = 0.5
"""Smallest distance of contours from the pole at 1."""

_FINENESS = 3.0
"""Fineness of majorants for reflected losses, because |w|^x with x far below 0 is steep near the zeros of w."""

_FINER = 2.0
"""Fineness of majorants where no path has a good proved bound."""

_MOST_DRAWN, _DRAWN = 32, 131_072
"""Maximal number of steps of runs that are simulated for a first threshold, and number of simulated steps."""

_UNKNOWN_DEPTH, _ROUGHLY = 23.0, 4.0
"""Nats below its upper bound, and below a rough value, at which a delta without a lower bound is searched for."""

_PROFILE_ROUNDS = 2
"""Number of contours for one delta; the second contour serves where delta is smaller than expected."""

_ROUNDS, _REFLECTED_ROUNDS = 4, 2
"""Maximal number of thresholds at which contours are laid out.

Reflected losses whose second contour is no better have no good contour.
"""

_SETTLED = 1e-2
"""Relative change of a threshold that needs no new contour."""
_DOUBLE_GOAL = -35.0
"""ln of the smallest goal of a contour for which doubles have digits.

Rounding leaves about e^-28 of the contour's height, minus some nats of a profile. Goals are
`Accuracy.deformed_error` of the evaluated number.
"""


def deformed_run(
    steps: tuple[SampledStep, ...],
    gaussian_mu_squared: float,
    accuracy: Accuracy = DEFAULT_ACCURACY,
    *,
    reflected: bool,
) -> DeformedRun | None:
    """Return the deformed contours of sampled Gaussian steps and a Gaussian part, in one direction, or None.

    `gaussian_mu_squared` is mu^2 of the Gaussian part, and `reflected` swaps the hypotheses. The result is None for a
    single step, more than four kinds of steps, a sampling rate above 0.9, or a noise multiplier outside 0.2 to 15. It
    is also None for mirrored steps that are reflected or not rare (`_is_rare`), and for a loss with a negligible
    standard deviation. Mirrored steps have one direction. `accuracy` has the error aimed at.
    """
    several = sum(step.count for step in steps) + (gaussian_mu_squared > 0) > 1
    if not 0 < len(steps) <= _MOST_PARTS or not several:
        return None
    if any(step.rate > _LARGEST_RATE or not _SMALLEST_NOISE <= step.sigma <= _LARGEST_NOISE for step in steps):
        return None
    if any(step.mirrored for step in steps) and (reflected or not all(_is_rare(step) for step in steps)):
        return None
    run = DeformedRun(steps, gaussian_mu_squared, accuracy, reflected)
    return run if run.deviation > _SMALLEST_DEVIATION else None


def _is_rare(step: SampledStep) -> bool:
    """Return whether a mirrored step has the zeros of b(v) = a(-v) left of those of a(v), as deformed paths need.

    a and b are the densities of H1 and H0 relative to the normal density of the outcome v (`SampledStep`). Other steps
    have the result False.
    """
    return step.mirrored and step.log_odds < 0


class DeformedRun:
    """Evaluation of one run in one direction on deformed contours; `reflected` swaps the hypotheses.

    The run has sampled Gaussian steps and a Gaussian part of total mu^2. S is its privacy loss, c a threshold of S in
    nats, and delta(eps) its privacy profile. P0 is the law under H0. The *core* of S is its law without far jumps,
    nearly normal. The *extreme* of S is its least value N ln(1 - p) for N steps of sampling rate p, or the largest
    value -N ln(1 - p) of a reflected loss. F(theta) is the moment E0 e^{theta S} at a real theta, at which a contour
    may cross the axis.
    """

    def __init__(
        self, steps: tuple[SampledStep, ...], gaussian_mu_squared: float, accuracy: Accuracy, reflected: bool
    ) -> None:
        self._accuracy = accuracy
        self._steps, self._mu_squared, self._reflected = steps, gaussian_mu_squared, reflected
        self._count = sum(step.count for step in steps)
        self._least = math.fsum(step.count * math.log1p(-step.rate) for step in steps)
        self._mirrored = any(step.mirrored for step in steps)
        cores = [_core(step) for step in steps]
        mean = math.fsum(core[0] for core in cores) - 0.5 * gaussian_mu_squared
        variance = math.fsum(core[1] for core in cores) + gaussian_mu_squared
        self.deviation = math.sqrt(variance)
        # Under H1 the core is H0's, tilted by one.
        self._mean = -(mean + variance) if reflected else mean

    @np.errstate(all="ignore")
    def points(self, alpha: float, log_power: float) -> Readings:
        """Return enclosures of ln power, ln type II error and ln slope at the false positive rate `alpha`, one column.

        `log_power` is an approximate value of ln power, better too low than too high; no bound depends on it. The
        enclosures are trivial if no contour is laid out.
        """
        rates = np.array([alpha])
        result, here = nothing_known(1), np.zeros(1, dtype=np.intp)
        center, log_size = self._first_threshold(alpha), max(log_power, math.log(alpha))
        for _ in range(_REFLECTED_ROUNDS if self._reflected else _ROUNDS):
            layout = self._layout(center, log_size)
            if layout is None:
                break
            moved = math.nan
            for contour in self._evaluated(layout):
                result.tighten(here, read_points(contour, rates))
                if result.width()[0] <= self._accuracy.deformed_is_narrow:
                    return result
                moved = self._next_threshold(contour, alpha)
                result.tighten(here, read_power_by_profile(contour, alpha, moved))
                if result.width()[0] <= self._accuracy.deformed_is_narrow:
                    return result
                if abs(moved - center) > _SETTLED * abs(center):
                    break  # a contour for the threshold found comes first
            if not abs(moved - center) > _SETTLED * abs(center):
                break
            center = moved
        return result

    @np.errstate(all="ignore")
    def profile(self, epsilon: float, lower: float, upper: float) -> Readings:
        """Return an enclosure of ln delta at one `epsilon` (nats), as one row and one column.

        `lower` and `upper` are known bounds of ln delta. They choose the contour only. The enclosure is trivial (-inf
        and 0) if no contour is laid out.
        """
        result, here = Readings(np.full((1, 1), -np.inf), np.zeros((1, 1))), np.zeros(1, dtype=np.intp)
        log_size = max(lower, upper - _UNKNOWN_DEPTH)
        if self._mirrored:
            rough = float(self._rough_log_profile(np.array([epsilon]))[0])
            log_size = max(lower, min(upper, rough - _ROUGHLY)) if math.isfinite(rough) else log_size
        for _ in range(_PROFILE_ROUNDS):
            layout = self._layout(epsilon, log_size, 2)
            for contour in () if layout is None else self._evaluated(layout):
                result.tighten(here, read_profile(contour, np.array([epsilon])))
                if result.width()[0] <= self._accuracy.deformed_is_narrow:
                    return result
            if not -math.inf < result.lower[0, 0] < log_size:
                break
            log_size = float(result.lower[0, 0])
        return result

    @np.errstate(all="ignore")
    def epsilon(self, delta: float, low: float, high: float) -> tuple[float, float] | None:
        """Return proved bounds of the smallest eps >= 0 with delta(eps) <= delta, for the privacy profile delta(eps).

        Parameters
        ----------
        delta : float
            In (0, 1).
        low, high : float
            Known bounds of eps, nats.

        Returns
        -------
        (float, float) or None
            Lower and upper bound in nats; None without a proof.
        """
        center = float(np.clip(self._first_epsilon(delta), low, high))
        if math.isnan(center):
            center = 0.5 * (low + high)
        best: tuple[float, float] | None = None
        for _ in range(_ROUNDS):
            layout = self._layout(center, math.log(delta), 2)
            if layout is None:
                break
            moved = math.nan
            for contour in self._evaluated(layout):
                moved = self._next_epsilon(contour, delta, low, high)
                proved = _proved_root(contour, moved, delta) if low <= moved <= high else None
                if proved is not None:
                    best = proved if best is None else (max(best[0], proved[0]), min(best[1], proved[1]))
                    if best[1] - best[0] <= self._accuracy.deformed_is_narrow * best[1]:
                        return best
                if abs(moved - center) > _SETTLED * min(abs(center), self._edge(center)):
                    break
            if not abs(moved - center) > _SETTLED * min(abs(center), self._edge(center)):
                break
            center = moved
        return best

    def _next_epsilon(self, contour: DeformedContour, delta: float, low: float, high: float) -> float:
        """Return the root (nats) of the profile at `delta` on a contour, or one step of Newton's method towards it.

        A step serves where no root is found in [`low`, `high`]. The result of the step is clipped to that interval.
        """
        root = float(solve_profile(contour, np.array([delta]), at_center=True)[0])
        if low <= root <= high:
            return root
        sums, log_scale = contour.approximate(np.array([contour.center]))
        value = exp_held(log_scale[2, 0]) * float(sums[2, 0])
        fall = exp_held(log_scale[0, 0] + contour.center) * float(sums[0, 0])
        return float(np.clip(self._moved(contour.center, value, fall, delta), low, high))

    def _moved(self, threshold: float, value: float, fall: float, wanted: float) -> float:
        """Return a threshold (nats) after one step of Newton's method towards the target `wanted`.

        The function is a tail or the profile. At `threshold` it is `value` and falls by `fall` for each nat. The step
        is in the logarithm of the distance from the least or largest loss of the run. On this scale the normal score
        of the tail is nearly linear. The result is NaN where the function is not in (0, 1) or does not fall.
        """
        distance = self._edge(threshold)
        if not (0 < value < 1 and fall > 0):
            return math.nan
        score = -float(ndtri(value))
        slope = distance * fall / (math.exp(-0.5 * score**2) / math.sqrt(2 * math.pi))
        step = float(np.clip((-float(ndtri(wanted)) - score) / slope, -4.0, 4.0))
        return threshold + distance * (-math.expm1(-step) if self._reflected else math.expm1(step))

    def _first_epsilon(self, delta: float) -> float:
        """Return an estimate of the eps (nats) with delta(eps) = `delta`, or NaN.

        Unless reflected, the loss is a normal core plus one rare jump. The profile of a reflected loss is about a third
        of the tail times the distance from the largest loss. The result is NaN for a reflected loss without simulated
        losses (`_drawn`). No bound depends on the result.
        """
        if self._reflected:
            levels = -np.geomspace(0.01, 40.0, 60)  # scores
            logs = np.array([self._drawn_distance(score) for score in levels])
            thirds = np.logaddexp(-60.0, log_ndtr(levels) + logs) - 1.1
            return self._edge(0.0) - exp_held(float(np.interp(math.log(delta), thirds[::-1], logs[::-1])))
        eps = np.geomspace(1e-8, 60 / min(step.sigma for step in self._steps) ** 2 + 10, 400)
        return float(np.interp(-math.log(delta), -self._rough_log_profile(eps), eps))

    def _rough_log_profile(self, eps: FloatArray) -> FloatArray:
        """Return about ln delta at the epsilons `eps` (nats), of their shape, for a run that is not reflected.

        The loss is taken as a normal core plus one rare jump. The core is the loss without jumps, and a jump is the
        large loss of a step (`DeformedRun`). No bound depends on the result.
        """
        score = eps / self.deviation + 0.5 * self.deviation
        about = log_ndtr(-score) + np.log(self.deviation / (1 + score))
        for step in self._steps:
            v = np.where(eps < 600, np.log1p(np.expm1(np.minimum(eps, 600.0)) / step.rate), eps - math.log(step.rate))
            y = step.sigma * v + 0.5 / step.sigma
            jump = log_ndtr(1 / step.sigma - y) + np.log1p(-np.exp(-np.minimum(eps, 1.0)) * 0.5)
            about = np.logaddexp(about, jump + math.log(step.count * step.rate))
        return about

    def _next_threshold(self, contour: DeformedContour, alpha: float) -> float:
        """Return the threshold (nats) at which the tail of the loss is `alpha` on a contour, or one step towards it.

        The step is one of Newton's method.
        """
        root = float(solve_tail(contour, np.array([alpha]), at_center=True)[0])
        if math.isfinite(root):
            return root
        sums, log_scale = contour.approximate(np.array([contour.center]))
        tail = exp_held(log_scale[0, 0]) * float(sums[0, 0])
        density = exp_held(log_scale[3, 0]) * float(sums[3, 0])
        return self._moved(contour.center, tail, density, alpha)

    def _edge(self, threshold: float) -> float:
        """Return the distance (nats) of a threshold from the least or largest loss of the run.

        With a Gaussian part or mirrored steps the loss has no extreme, and the result is only a scale.
        """
        if self._mirrored:
            return abs(threshold) - self._least + math.sqrt(self._mu_squared)
        distance = abs(threshold + self._least if self._reflected else threshold - self._least)
        return distance + math.sqrt(self._mu_squared)

    def _evaluated(self, layout: ContourLayout) -> Iterator[DeformedContour]:
        """Yield the contour of a layout in doubles, then in the platform's long doubles where these are longer.

        Doubles are omitted where they have too few digits, and contours with too many terms are omitted.
        """
        dtypes: list[Float] = [np.float64]
        if roundoff(np.longdouble) < UNIT_ROUNDOFF:
            # Doubles are skipped where they surely have too few digits.
            dtypes = [np.longdouble] if layout.goal < _DOUBLE_GOAL else [np.float64, np.longdouble]
        # Newton's steps stay on this side of the loss's largest value.
        near = 0.05 * self._edge(layout.center)
        deviation = min(self.deviation, near) if self._reflected else self.deviation
        for dtype in dtypes:
            contour = DeformedContour(layout, deviation, dtype)
            if contour.usable:
                yield contour

    def _layout(self, center: float, log_size: float, poles: int = 1) -> ContourLayout | None:
        """Return the layout of a contour for thresholds near `center` (nats), or None.

        e^log_size is about the integral to evaluate, relative to which the error should be small. `poles` is 1 for a
        tail of the loss (kernel 1/z or 1/(z - 1)) and 2 for the profile (kernel 1/(z (z - 1))). The second pole divides
        the integral by about theta, the point where the contour crosses the real axis. If the error of every contour is
        too large for a fine tolerance, a contour for the default tolerance serves. The result is None if no contour has
        a proved error that is small enough.
        """
        finest, default = self._accuracy.deformed_error, DEFAULT_ACCURACY.deformed_error
        found = self._layout_within(finest, center, log_size, poles)
        return found if found or finest == default else self._layout_within(default, center, log_size, poles)

    def _layout_within(self, error: float, center: float, log_size: float, poles: int) -> ContourLayout | None:
        """Return the layout of the least expensive contour whose error bounds are proved, or None.

        `error` is the error aimed at, relative to e^log_size; `center` is a threshold (nats), and `poles` the number of
        poles of the kernel (1 for tails of the loss, 2 for the profile). The least expensive contour is tried first,
        then the next one, then the least expensive on finer grids. A reflected loss has fine grids, so that only one
        contour is tried. The result is None if none of these has a proof, the grids would be too large, or the work of
        the request is spent.
        """
        if not (math.isfinite(center + log_size) and self._edge(center) > _SMALLEST_DEVIATION):
            return None
        side = -1.0 if self._reflected else 1.0
        need = 45.0 + math.log(self._count) - log_size
        fineness = _FINENESS if self._reflected else 1.0
        coarse = self._grids(need, 1.0)
        if coarse is None or fineness * sum(len(grid.tau) for grid in coarse) > _LARGEST_GRID:
            return None
        saddle = self._saddle(coarse, center)
        found: list[tuple[float, int, ContourLayout]] = []
        for fraction in _FRACTIONS:
            if is_spent():
                return None
            theta = max(1 + _NEAREST, 1 + fraction * (saddle - 1))
            grids = self._grids(need, 1.0 if self._reflected else theta, fineness)
            if grids is None:
                continue
            value = float(self._real(grids, np.array([theta]))[0])
            goal = math.log(error) + log_size - value + (theta - 1) * center + (poles - 1) * math.log(theta)
            for width, angle in product(self._widths(center, theta), _ANGLES if math.isfinite(goal) else ()):
                bend = Bend(theta, width, angle, side)
                layout = ContourLayout(grids, bend, center, goal, value, self._reflected, self._mu_squared)
                found.append((layout.cost(), len(found), layout))
        tried = [layout for cost, _, layout in sorted(found) if cost < math.inf]
        most = 1 if self._reflected else 2
        finer = ((layout, self._grids(need, layout.bend.theta, _FINER)) for layout in tried[: most - 1])
        again = (layout.on(grids) for layout, grids in finer if grids is not None)
        return next((layout for layout in chain(tried[:most], again) if layout.lay_out()), None)

    def _widths(self, center: float, theta: float) -> list[float]:
        """Return the widths at which contours may bend, for the threshold `center` (nats).

        They follow the standard deviation of the core and the distance of the threshold from the least or largest loss
        of the run. Contours cross the real axis at `theta`. For mirrored steps, whose panels are short where Re z is
        small, they bend earlier.
        """
        core, edge = 2 / self.deviation, 3 / self._edge(center)
        if self._mirrored:
            return [min(core, _EARLY * theta)]
        return [core, edge] if not self._reflected and edge < 0.3 * core else [core]

    def _grids(self, need: float, tilt: float, fineness: float = 1.0) -> Grids | None:
        """Return the grids of majorants of all kinds of steps; None if they would have too many nodes together.

        A majorant is an upper bound of a moment-generating function. The grids should omit a mass of at most e^-need
        for exponents up to `tilt`, and `fineness` divides the distance of the nodes.

        A grid has the nodes of the trapezoid sums that bound the moment-generating function of one kind of step.
        """
        if sum(MajorantGrid.size(step, need, tilt, fineness) for step in self._steps) > fineness * _LARGEST_GRID:
            return None
        return tuple(MajorantGrid(step, need, tilt, fineness) for step in self._steps)

    def _saddle(self, grids: Grids, center: float) -> float:
        """Return about the theta > 1 at which ln F(theta) - (theta - 1) `center` is smallest.

        F(theta) = E0 e^{theta S} is the moment of the run's loss S under H0, and `center` a threshold in nats. `grids`
        serve the moments. No bound depends on the result.
        """
        tilts = 1 + np.geomspace(1e-2, 60 / min(self.deviation, 1.0), 120)
        return float(tilts[np.argmin(self._real(grids, tilts) - (tilts - 1) * center)])

    def _real(self, grids: Grids, tilts: FloatArray) -> FloatArray:
        """Return about ln F(theta) at the real numbers theta = `tilts`, of their shape.

        F(theta) = E0 e^{theta S} is the moment of the run's loss S under H0, for which `grids` serve. No bound depends
        on the result.
        """
        there = 1 - tilts if self._reflected else tilts
        total = 0.5 * self._mu_squared * tilts * (tilts - 1)
        for grid in grids:
            total = total + grid.step.count * grid.plain(REAL_LINE, there[None].astype(np.complex128))[0]
        return total

    def _first_threshold(self, alpha: float) -> float:
        """Return an estimate of the threshold c (nats) with P0(S > c) = `alpha` for the privacy loss S of the run.

        The estimate comes from simulated losses for runs of few steps. Otherwise S is taken as a normal core plus, to
        the right, one rare jump. The loss in the reversed direction, -S, has the estimate by the saddle point. No bound
        depends on the result.
        """
        mean, deviation = self._mean, self.deviation
        # The score of the losses between the loss's extreme and the threshold.
        score = float(ndtri(alpha)) if self._reflected else -float(ndtri(alpha))
        distance = exp_held(self._drawn_distance(score))
        if math.isfinite(distance):
            return -self._least - distance if self._reflected else self._least + distance
        if self._reflected:
            return self._saddle_threshold(alpha)

        def log_tail(c: float) -> float:
            """Return about ln P0(S > c), if the loss S is a normal law plus one rare large loss of a step."""
            size, total = max(c - mean, 1e-300), float(log_ndtr(-(c - mean) / deviation))
            for step in self._steps:
                v = math.log1p(math.expm1(size) / step.rate) if size < 600 else size - math.log(step.rate)
                jump = math.log(step.count) + float(log_ndtr(-step.sigma * v - 0.5 / step.sigma))
                total = float(np.logaddexp(total, jump))
            return total

        widest = 50 / min(step.sigma for step in self._steps) + 2
        low, high = mean - 40 * deviation, mean + 40 * deviation + widest
        return bisected(lambda c: log_tail(c) <= math.log(alpha), low, high, 60)[1]

    @cached_property
    def _drawn(self) -> FloatArray:
        """Sorted distances (nats) of losses simulated under H0 from the extreme of the loss, or an empty array.

        The array is empty for runs of more than 32 steps, runs with a Gaussian part, and runs of mirrored steps.

        The extreme is the least loss (the largest one for swapped hypotheses). The sum of few steps has no simple law.
        The draws are always the same.
        """
        if self._count > _MOST_DRAWN or self._mu_squared > 0 or self._mirrored:
            return np.zeros(0)
        generator, draws = np.random.default_rng(0), max(_DRAWN // self._count, 4096)
        total = np.zeros(draws)
        for step in self._steps:
            v = np.asarray(generator.normal(step.mean, 1 / step.sigma, (draws, step.count)), dtype=np.float64)
            if self._reflected:
                v += (generator.random((draws, step.count)) < step.rate) / step.sigma**2
            total = total + np.logaddexp(0.0, v + step.log_odds).sum(axis=1)
        return np.sort(total)

    def _drawn_distance(self, score: float) -> float:
        """Return about ln of the distance from the extreme of the loss within which a share of the losses lies.

        The share is Phi(`score`) with the normal distribution function Phi, and the extreme is the least loss (the
        largest one for swapped hypotheses). The result is NaN without simulated losses, or where fewer than ten of them
        lie beyond the distance. For shares of fewer than ten simulated losses it is extrapolated linearly in the score.
        No bound depends on the result.
        """
        if len(self._drawn) == 0:
            return math.nan
        at = np.array([10.0, 60.0]) / len(self._drawn)
        last = float(ndtri(10.0 / len(self._drawn)))
        if score > -last:
            return math.nan
        if score >= last:
            return float(np.log(self._drawn[int(0.5 * math.erfc(-score / math.sqrt(2)) * (len(self._drawn) - 1))]))
        logs, scores = np.log(self._drawn[[10, 60]]), ndtri(at)
        return float(logs[0] + (logs[1] - logs[0]) / (scores[1] - scores[0]) * (score - scores[0]))

    def _saddle_threshold(self, alpha: float) -> float:
        """Return about the threshold c (nats) with P0(S > c) = `alpha`, by the saddle-point approximation, or NaN.

        S is the privacy loss of the run, and P0 its law under H0 of this direction. The approximation serves, because
        the tail of a loss with an extreme is unimodal. The result is NaN if the grids of the moments would be too
        large, or no tilt has a usable approximation. No bound depends on the result.
        """
        grids = self._grids(45.0 + math.log(self._count) - math.log(alpha), 1.0)
        if grids is None:
            return math.nan
        tilts = np.geomspace(0.1, 60.0, 200) / min(self.deviation, 1.0)
        value = self._real(grids, tilts)
        slope = np.gradient(value, tilts)
        root = np.sqrt(np.maximum(2 * (tilts * slope - value), 1e-300))
        deviation = np.sqrt(np.maximum(np.gradient(slope, tilts), 1e-300))
        score = root + np.log(tilts * deviation / root) / root
        score = np.where(np.isfinite(score + slope), score, -np.inf)
        rising = score > np.concatenate([[-np.inf], np.maximum.accumulate(score)[:-1]])
        return float(np.interp(-ndtri(alpha), score[rising], slope[rising])) if rising.any() else math.nan


def _proved_root(contour: DeformedContour, threshold: float, delta: float) -> tuple[float, float] | None:
    """Return a lower and an upper bound (nats) of the smallest eps with a privacy profile of at most `delta`, or None.

    `threshold` is the approximate eps. `contour` gives enclosures of the profile near that threshold. The result is
    None if these enclosures are too wide for a proof.
    """
    lower, upper = prove_root(contour, np.array([threshold]), np.array([delta]))
    return None if math.isnan(lower[0]) else (float(lower[0]), float(upper[0]))


def _core(step: SampledStep) -> tuple[float, float]:
    """Return about mean and variance under H0 of the total loss of all steps of one kind, without far jumps.

    The mean is in nats and the variance in nats squared. Far jumps have a normal score above 4, or an outcome v >=
    -`step.log_odds`, where both parts of the mixture are equal. No bound depends on the result.
    """
    y = np.linspace(-4.0 if step.mirrored else -9.0, 4.0, 1301)
    v = y / step.sigma + step.mean
    weight = np.exp(-0.5 * y**2) * (v < -step.log_odds)
    weight /= weight.sum()
    loss = step.loss(v)
    mean = float(weight @ loss)
    return step.count * mean, step.count * float(weight @ (loss - mean) ** 2)
