"""The `contour` engine: certified trade-off curves of runs of Gaussian and Poisson-sampled Gaussian steps, of any length.

Every reading is taken on a line of the ladder that is near its saddle point (`contour_line.py` has the integrals and errors).
At a threshold c the test "S > c" is a point of the curve and e^c the slope of a tangent, so for ANY c

    power(alpha) <= power(c) + e^c (alpha - alpha(c)),      type II error >= beta(c) + e^c (alpha(c) - alpha),

and with a proved alpha(c2) <= alpha the chord gives the other end: power(alpha) >= power(c) - e^{c2} (alpha(c) - alpha)_+.
Solving for c therefore needs no error bound of its own. Everything is intersected with bounds that need no line
(`fallback.py`), so that a reading outside the engine's reach is wide, never missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from service.privacy.composition.contour_ladder import ContourLadder, Rung
from service.privacy.composition.contour_line import ContourLine
from service.privacy.composition.contour_readings import IndexArray, Readings, read_points, read_profile, root_margins, solve_profile
from service.privacy.composition.fallback import FallbackBounds
from service.privacy.composition.loss_transform import LossTransform
from service.privacy.composition.sampled_gaussian import SampledGaussianParts
from service.privacy.enclosure import Bounds, Enclosure, Evidence, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.decreasing_root import decreasing_root

_GOOD_WIDTH = 9e-10
"""A reading with a larger relative width is tried on neighbouring lines as well, and the enclosures intersected."""

_LARGEST_GRID = 150_000
"""Nodes (times parts) above which no moment is evaluated: only noise multipliers below about 0.002 need more."""


def contour_pair(gaussian_mu_squared: float, sampled: Iterable[tuple[float, float, int]]) -> tuple[ContourTradeOff, ContourTradeOff]:
    """The add and remove curves of a run.

    `gaussian_mu_squared`: sum of N/sigma^2 over Gaussian steps (0 without any). `sampled`: (noise_multiplier, sample_rate, steps)
    of Poisson-sampled Gaussian steps, 0 < sample_rate < 1.
    """
    run = _Run.of(gaussian_mu_squared, tuple(sampled))
    add = ContourTradeOff(run, reflected=False)
    return add, add.reversed()


@dataclass(frozen=True)
class _Run:
    """What both directions share."""

    gaussian_mu_squared: float
    parts: tuple[SampledGaussianParts, ...]
    log_unsampled: float
    global_mu: float
    feasible: bool

    @staticmethod
    def of(gaussian_mu_squared: float, sampled: tuple[tuple[float, float, int], ...]) -> _Run:
        ordered = sorted(sampled)
        groups: list[list[tuple[float, float, int]]] = []
        for step in ordered:  # parts of similar noise share one grid
            if groups and step[0] <= 1.6 * groups[-1][0][0]:
                groups[-1].append(step)
            else:
                groups.append([step])
        parts = tuple(SampledGaussianParts(*(np.array(column, dtype=np.float64) for column in zip(*group, strict=True))) for group in groups)
        log_unsampled = math.fsum(count * math.log1p(-rate) for _, rate, count in ordered)
        global_mu = math.sqrt(gaussian_mu_squared + math.fsum(count / sigma**2 for sigma, _, count in ordered))
        feasible = all(part.size <= _LARGEST_GRID for part in parts)
        return _Run(gaussian_mu_squared, parts, log_unsampled, global_mu, feasible)


class ContourTradeOff(AbstractTradeOff):
    """One direction of a run, read off the lines of its ladder.

    Relative width: 1e-13 to 1e-11 for runs whose sampled-step count and noise keep the loss unimodal (tested on the reference
    cases and on random runs); wider, and so labelled, where one rare step dominates (tiny rates, small noise, small alpha).
    """

    evidence = Evidence.CERTIFIED
    method = "contour"

    def __init__(self, run: _Run, *, reflected: bool) -> None:
        self._run, self._reflected = run, reflected
        transform = LossTransform(run.gaussian_mu_squared, run.parts, reflected)
        self._ladder: ContourLadder | None = None
        if run.feasible:
            deviation = float(transform.cumulants(np.array([0.5])).second[0])
            if math.isfinite(deviation) and deviation > 1e-200:
                self._ladder = ContourLadder(transform)
        self._fallback = FallbackBounds(run.gaussian_mu_squared, run.log_unsampled, reflected, transform if self._ladder else None)

    @property
    def largest_log_ratio(self) -> Enclosure:
        """+inf for add (Gaussian noise is unbounded); for remove -sum N ln(1 - p) unless a Gaussian step is there."""
        if not self._reflected or self._run.gaussian_mu_squared > 0:
            return Enclosure.point(math.inf)
        return _around(-self._run.log_unsampled)

    @property
    def smallest_log_ratio(self) -> Enclosure:
        """sum N ln(1 - p) for add unless a Gaussian step is there, -inf for remove."""
        if self._reflected or self._run.gaussian_mu_squared > 0:
            return Enclosure.point(-math.inf)
        return _around(self._run.log_unsampled)

    @property
    def singular_power(self) -> Enclosure:
        """0: all laws have the same support."""
        return Enclosure.point(0.0)

    @property
    def global_gdp_mu(self) -> Enclosure:
        """sqrt(sum N/sigma^2) whatever the rates: sampling only helps, and its help vanishes as alpha -> 0."""
        return _around(self._run.global_mu)

    def reversed(self) -> ContourTradeOff:
        """The other direction of the same run."""
        return ContourTradeOff(self._run, reflected=not self._reflected)

    @np.errstate(all="ignore")  # underflow, overflow and empty logarithms are part of the bounds: NaN never passes `tighten`
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        n = len(alpha)
        known = Readings(np.stack([np.log(alpha), np.full(n, -np.inf), np.full(n, -np.inf)]), np.zeros((3, n)))
        known.upper[1], known.upper[2] = np.log1p(-alpha), np.inf
        if self._ladder is not None:
            self._read(self._ladder, self._ladder.for_tails(alpha), known, lambda line, at: read_points(line, alpha[at]))
        wide = np.flatnonzero(known.width() > _GOOD_WIDTH)
        if len(wide):
            known.tighten(wide, self._fallback.points(alpha[wide]))
        power = Bounds.from_logs(known.lower[0], known.upper[0])
        type_two_error = Bounds.from_logs(known.lower[1], known.upper[1])
        return CurvePoints(type_two_error, power, Bounds(known.lower[2], known.upper[2]))

    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        beyond = epsilon >= self.largest_log_ratio.upper
        known = Readings(np.full((1, len(epsilon)), -np.inf), np.where(beyond, -np.inf, 0.0)[None])
        inside = np.flatnonzero(~beyond)
        if self._ladder is not None and len(inside):
            chosen = epsilon[inside]
            part = Readings(known.lower[:, inside], known.upper[:, inside])
            self._read(self._ladder, self._ladder.for_thresholds(chosen), part, lambda line, at: read_profile(line, chosen[at]))
            known.tighten(inside, part)
        wide = np.flatnonzero((known.width() > _GOOD_WIDTH) & ~beyond)
        if len(wide):
            known.tighten(wide, self._fallback.profile(epsilon[wide]))
        return Bounds.from_logs(known.lower[0], known.upper[0])

    @np.errstate(all="ignore")
    def _epsilon_formula(self, delta: float) -> Enclosure:
        if self._ladder is not None:
            found = self._epsilon_on_line(self._ladder, delta)
            if found is not None:
                return found
        if self.profile(np.zeros(1)).upper[0] <= delta:
            return Enclosure(0.0, 0.0, self.evidence)
        high = 1.0
        while self._profile_formula(np.array([high])).upper[0] > delta and high < 1e300:
            high *= 4
        if high >= 1e300:
            return Enclosure(0.0, math.inf, self.evidence)
        return decreasing_root(self._profile_formula, delta, 0.0, high)

    def _epsilon_on_line(self, ladder: ContourLadder, delta: float) -> Enclosure | None:
        """Root of delta(eps) = delta on the nearest line, proved from both sides; None when the line cannot prove it."""
        rung = ladder.for_profile(delta)
        threshold = solve_profile(rung.line, delta)
        nearest = ladder.for_thresholds(np.array([threshold]))[0] if math.isfinite(threshold) else rung
        if nearest is not rung and nearest.theta > 0:
            rung, threshold = nearest, solve_profile(nearest.line, delta)
        if not threshold > 0:
            return None
        for margin in root_margins(rung.line, threshold):
            ends = np.array([max(threshold - margin, 0.0), threshold + margin])
            proved = read_profile(rung.line, ends)
            slack = 1e-15 * (1 + abs(math.log(delta)))
            if (ends[0] == 0 or proved.lower[0, 0] >= math.log(delta) + slack) and proved.upper[0, 1] <= math.log(delta) - slack:
                return Enclosure(float(ends[0]), float(ends[1]), self.evidence)
        return None
        for margin in root_margins(rung.line, threshold):
            ends = np.array([max(threshold - margin, 0.0), threshold + margin])
            log_lower, log_upper, _ = read_profile(rung.line, ends)
            proved_low = ends[0] == 0 or log_lower[0] >= math.log(delta) * (1 - 1e-15 * np.sign(math.log(delta)))
            if proved_low and log_upper[1] <= math.log(delta) * (1 + 1e-15):
                return Enclosure(float(ends[0]), float(ends[1]), self.evidence)
        return None

    def _read(
        self, ladder: ContourLadder, rungs: list[Rung], known: Readings, read: Callable[[ContourLine, IndexArray], Readings]
    ) -> None:
        """Read each place on its rung's line, and those that come out wide on neighbouring lines too; tightens `known`."""
        for rung, at in _grouped(rungs):
            known.tighten(at, read(rung.line, at))
            for other in ladder.neighbours(rung):
                at = at[known.width()[at] > _GOOD_WIDTH]
                if len(at) == 0:
                    break
                known.tighten(at, read(other.line, at))


def _grouped(rungs: list[Rung]) -> Iterator[tuple[Rung, IndexArray]]:
    """Each distinct rung with the places that chose it."""
    for rung in dict.fromkeys(rungs):
        yield rung, np.array([place for place, chosen in enumerate(rungs) if chosen is rung], dtype=np.intp)


def _around(value: float) -> Enclosure:
    slack = 600 * UNIT_ROUNDOFF * abs(value)
    return Enclosure(value - slack, value + slack, Evidence.CERTIFIED)
