"""The `contour` engine: certified curves of runs of Gaussian, Laplace, Poisson-sampled and two-point steps, of any
length.

Every reading is taken on a line of the ladder that is near its saddle point; `line.py` has the integrals and
their errors. At a threshold c the test "S > c" is a point of the curve and e^c the slope of a tangent, so for ANY c

    power(alpha) <= power(c) + e^c (alpha - alpha(c)),      type II error >= beta(c) + e^c (alpha(c) - alpha),

and with a proved alpha(c2) <= alpha the chord gives the other end:

    power(alpha) >= power(c) - e^{c2} (alpha(c) - alpha)_+.

Solving for c therefore needs no error bound of its own. What is still wide is intersected with bounds that need no line
(`fallback.py`), so that a reading outside the engine's reach is wide, never missing; and runs of few kinds of sampled
steps are read on bent contours then (`composition/bent_contour/run.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.bent_contour.run import BentRun, bent_run
from service.privacy.composition.contour.fallback import FallbackBounds
from service.privacy.composition.contour.ladder import ContourLadder, Rung
from service.privacy.composition.contour.line import ContourLine
from service.privacy.composition.contour.run import CUT_DIGITS, ContourRun
from service.privacy.composition.readings import Readings, prove_root, read_points, read_profile, solve_profile
from service.privacy.composition.transforms.steps import (
    GaussianMixtureSteps,
    LaplaceSteps,
    SampledGaussianSteps,
    TwoPointSteps,
)
from service.privacy.enclosure import Bounds, Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints

_GOOD_WIDTH = 1e-9
"""A reading with a larger relative width is tried on neighbouring lines as well, and the enclosures intersected."""

_MANY, _GOOD_WIDTH_OF_MANY = 8, 1e-8
"""The same for runs of more different sampled steps: rounding of their shared sums, which other lines have too, leaves
about this deep in the tail, and every line costs a tenth of a second.
"""

_WIDE = 1e-6
"""What is wider than this after all straight lines is read on bent contours, too ..."""

_HOPELESS = 1e-4
"""What is wider than this after the first straight lines is read on bent contours before others are tried."""

_MOST_WIDE = 8
"""... unless there is more of it: a bent contour serves one reading and takes a tenth of a second to one."""

_UNKNOWN_DEPTH = 23.0
"""Nats below its upper bound at which a delta is looked for of which no lower bound is known."""

_SMALLEST_VARIANCE = 1e-200
"""Losses that vary less are below the range in which tilts and thresholds can be represented."""

_ROUNDS, _FEW_ROUNDS = 60, 20
"""Rounds of bisections for an epsilon; few where no line has an end, and all readings are wide."""

_LARGEST_EPSILON = 1e24
"""Nats: farther no upper end is looked for. That of all Gaussian steps without sampling is about mu^2/2."""

_MANY_NODES = 256
"""Several times those of a line without rare jumps."""

_CAP_TILTS = np.geomspace(1.0, 12.0, 8)
"""Distances of tilts from 1, in about the inverse deviation of the loss, at which a first bound of epsilon is taken."""
_CAP_JUMPS = np.geomspace(0.25, 16.0, 6)
_CAP_SLACK = 1e-11
"""Far above the rounding of that bound, far below its looseness."""
_SMALLEST_DEVIATION = 1e-12

_SLACK_OF_LISTS = 4.0
"""Nats (less than two digits) that a place of a list may lose for the sake of fewer lines."""

_SLACK_OF_ROUGH_LISTS, _ROUGH_DIGITS = 11.0, 6.0
"""The same (five digits) where few are asked for, which lie so many digits above the cut; what is wide is not read
again.
"""

_CUTS_SHARED = 2
"""Places of a list whose first guesses are at most so much shallower than the deepest begin with that one: every cut
has lines of its own.
"""


def contour_pair(
    gaussian_mu_squared: float,
    sampled: Iterable[SampledGaussianSteps],
    laplace: Iterable[LaplaceSteps] = (),
    two_point: Iterable[TwoPointSteps] = (),
    mixtures: Iterable[GaussianMixtureSteps] = (),
) -> tuple[ContourTradeOff, ContourTradeOff]:
    """The add and remove curves of a run.

    `gaussian_mu_squared`: sum of N/sigma^2 over plain Gaussian steps (0 without any), within 1e-14 of its value.
    `sampled`: Poisson-sampled Gaussian steps, 0 < sample_rate < 1. `laplace`: Laplace steps, 0 < sample_rate <= 1.
    `two_point`: steps of two losses, above 0. `mixtures`: mixtures of shifted Gaussians, with a positive shift. Source:
    composition of dominating pairs (Zhu, Dong, Wang 2022, Theorems 10 and 11).
    """
    run = ContourRun.of(gaussian_mu_squared, tuple(sampled), tuple(laplace), tuple(two_point), tuple(mixtures))
    add = ContourTradeOff(run, reflected=False)
    return add, add.reversed()


class ContourTradeOff(AbstractTradeOff):
    """One direction of a run, read off the lines of its ladders.

    Relative width: 1e-13 to 1e-11 for runs whose sampled-step count and noise keep the loss unimodal (tested on the
    reference cases and on random runs); 1e-10 to 1e-6 on bent contours, where one rare step dominates (tiny rates,
    small noise, small alpha); wider, and so labelled, where these fail or a run mixes several kinds of steps.
    """

    evidence = Evidence.CERTIFIED
    method = "contour"

    def __init__(self, run: ContourRun, *, reflected: bool) -> None:
        self.run, self._reflected = run, reflected
        kinds = max(map(len, (*run.groups, *run.mixtures)), default=0)
        self._good_width = _GOOD_WIDTH if kinds <= _MANY else _GOOD_WIDTH_OF_MANY
        self._ladders: dict[float, ContourLadder | None] = {}

    @cached_property
    def _fallback(self) -> FallbackBounds:
        """Bounds that need no line. Laplace and two-point steps always say something of the record."""
        transform = self.run.transform(CUT_DIGITS[-1], reflected=self._reflected)
        log_silent = self.run.log_unsampled if self.run.is_gaussian else -math.inf
        only = log_silent > -math.inf and not self.run.mixtures
        steps = tuple(step for group in self.run.groups for step in group) if only else ()
        mu = self.run.global_mu
        return FallbackBounds(self.run.gaussian_mu_squared, log_silent, self._reflected, transform, steps, mu)

    @cached_property
    def _bent(self) -> BentRun | None:
        """Bent contours for runs of few kinds of sampled Gaussian steps, with Gaussian ones or not; None for others."""
        if not self.run.is_gaussian or self.run.mixtures:
            return None
        steps = tuple(step for group in self.run.groups for step in group)
        return bent_run(steps, self.run.gaussian_mu_squared, reflected=self._reflected)

    def _wide(self, known: Readings, rows: int = 2, width: float = _WIDE) -> IndexArray:
        """The places to read on bent contours."""
        places = np.flatnonzero(known.width(rows) > width)
        asked = self._bent is not None and len(places) <= _MOST_WIDE and not is_spent()
        return places if asked else places[:0]

    def _ladder(self, digits: float) -> ContourLadder | None:
        """The lines for the run cut at 10^-digits; None where its loss is out of range."""
        if digits not in self._ladders:
            self._ladders[digits] = None
            transform = self.run.transform(digits, reflected=self._reflected)
            if transform is not None:
                variances = transform.cumulants(np.array([0.0, 0.5, 1.0])).second
                if np.isfinite(variances).all() and (variances > _SMALLEST_VARIANCE).all():
                    ladder = ContourLadder(transform, variances)
                    self._ladders[digits] = ladder if ladder.usable else None
        return self._ladders[digits]

    @property
    def largest_log_ratio(self) -> Enclosure:
        """+inf for add where Gaussian noise is, else a sum over the steps; for remove -sum N ln(1 - p + p e^-e), e
        infinite for Gaussian noise, unless a Gaussian step is there.
        """
        low, high = self.run.reach
        return _around(-low, self.run.reach_error) if self._reflected else _around(high)

    @property
    def smallest_log_ratio(self) -> Enclosure:
        """The negative of the other direction's largest."""
        low, high = self.run.reach
        return _around(-high) if self._reflected else _around(low, self.run.reach_error)

    @property
    def singular_power(self) -> Enclosure:
        """0: all laws have the same support."""
        return Enclosure.point(0.0)

    @property
    def global_gdp_mu(self) -> Enclosure | None:
        """sqrt(sum N/sigma^2) whatever the rates: sampling only helps, and its help vanishes as alpha -> 0. Of the
        shifts of a mixture the largest counts then. Not known where other steps are there, or mirrored mixtures.
        """
        mirrored = any(part.mirrored for group in self.run.mixtures for part, _ in group)
        return _around(self.run.global_mu) if self.run.is_gaussian and not mirrored else None

    def reversed(self) -> ContourTradeOff:
        """The other direction of the same run: the same curve where the loss of every step has a symmetric law."""
        if self.run.mixtures and self.run.is_symmetric:
            return self
        return ContourTradeOff(self.run, reflected=not self._reflected)

    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return self._read_rates(alpha, 2)

    def _power_at_formula(self, rate: float) -> Enclosure:
        """The power alone: where it is next to 1 no line is asked for digits of the type II error."""
        return self._read_rates(np.array([rate]), 1).power.at(0, self.evidence)

    # Underflow, overflow and empty logarithms are part of the bounds: NaN never passes `Readings.tighten`.
    @np.errstate(all="ignore")
    def _read_rates(self, alpha: FloatArray, rows: int) -> CurvePoints:
        """Points; their power (`rows` 1), or that and their type II error (2), as narrow as lines can make them."""
        n = len(alpha)
        known = Readings(np.stack([np.log(alpha), np.full(n, -np.inf), np.full(n, -np.inf)]), np.zeros((3, n)))
        known.upper[1], known.upper[2] = np.log1p(-alpha), np.inf
        orders = self.run.cut_orders(np.minimum(alpha, 1 - alpha), np.abs(ndtri(alpha)))
        if n > 1:
            self._read_on_few_lines(orders, alpha, known, rows)
        ended, bent = True, np.zeros(0, dtype=np.intp)
        attempts = orders.shape[1]
        for attempt in range(attempts):
            if not ended:
                break
            cuts = orders[:, attempt]
            wide = (known.width(rows) > self._good_width) & (cuts >= 0)
            for cut in sorted({int(cut) for cut in cuts[wide]}):
                ladder = self._ladder(CUT_DIGITS[cut])
                if ladder is not None:
                    places = np.flatnonzero(wide & (cuts == cut))
                    rungs = ladder.for_tails(alpha[places])
                    # Beyond the end of a ladder lines of a deeper cut are nearer; those of mixtures are long there.
                    deepest = attempt + 1 == attempts or (orders[places, attempt + 1 :] < 0).all(axis=1)
                    ready = ladder.reaches_tails(alpha[places]) | deepest | bool(self.run.mixtures)
                    rungs = [rung for rung, is_ready in zip(rungs, ready, strict=True) if is_ready]
                    ended &= self._read(
                        ladder, rungs, places[ready], known, lambda line, at: read_points(line, alpha[at]), rows
                    )
            if attempt == min(1, attempts - 1):
                bent = self._wide(known, rows, _HOPELESS)
                self._read_bent(bent, alpha, known)
        places = np.flatnonzero(known.width(rows) > self._good_width)
        if len(places):
            known.tighten(places, self._fallback.points(alpha[places]))
        self._read_bent(np.setdiff1d(self._wide(known, rows), bent), alpha, known)
        power = Bounds.from_logs(known.lower[0], known.upper[0])
        type_two_error = Bounds.from_logs(known.lower[1], known.upper[1])
        return CurvePoints(type_two_error, power, Bounds(known.lower[2], known.upper[2]))

    def _read_on_few_lines(self, orders: IndexArray, alpha: FloatArray, known: Readings, rows: int) -> None:
        """Tighten the points of a list by lines that serve many of them."""
        cuts = _shared(orders)
        for cut in sorted({int(cut) for cut in cuts}):
            ladder, places = self._ladder(CUT_DIGITS[cut]), np.flatnonzero(cuts == cut)
            if ladder is not None:
                rungs = ladder.for_tails(alpha[places], _SLACK_OF_LISTS)
                self._read(None, rungs, places, known, lambda line, at: read_points(line, alpha[at]), rows)

    def _read_bent(self, places: IndexArray, alpha: FloatArray, known: Readings) -> None:
        """Tighten points at some places by a bent contour for each."""
        for place in places:
            if self._bent is None:
                return
            found = self._bent.points(float(alpha[place]), float(known.lower[0, place]))
            known.tighten(np.array([place]), found)

    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        known = self._straight_profile(epsilon, bent=True)
        return Bounds.from_logs(known.lower[0], known.upper[0])

    def _read_bent_profile(self, places: IndexArray, epsilon: FloatArray, known: Readings) -> None:
        for place in places:
            if self._bent is None:
                return
            level = max(float(known.lower[0, place]), float(known.upper[0, place]) - _UNKNOWN_DEPTH)
            known.tighten(np.array([place]), self._bent.profile(float(epsilon[place]), level))

    @np.errstate(all="ignore")
    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> Bounds:
        """By the fewest lines that reach all of them, on the cut that the point is read at, or a deeper one."""
        beyond = epsilon >= self.largest_log_ratio.upper
        known = Readings(np.full((1, len(epsilon)), -np.inf), np.where(beyond, -np.inf, 0.0)[None])
        places = np.flatnonzero(~beyond)
        order = self.run.cuts(min(rate, 1 - rate), abs(float(ndtri(rate))))
        for cut in order if len(places) else ():
            digits, ladder = CUT_DIGITS[cut], self._ladder(CUT_DIGITS[cut])
            if ladder is not None:
                rungs = ladder.beyond_the_poles(epsilon[places], _SLACK_OF_ROUGH_LISTS)
                deep = min(rung.log_profile for rung in rungs) > (_ROUGH_DIGITS - digits) * math.log(10)
                if (deep and ladder.reaches(epsilon[places]).all()) or cut == order[-1]:
                    self._read(None, rungs, places, known, lambda line, at: read_profile(line, epsilon[at]))
                    break
        return Bounds.from_logs(known.lower[0], known.upper[0])

    def _straight_profile(self, epsilon: FloatArray, *, bent: bool = False) -> Readings:
        """ln delta by straight lines and the bounds that need no line; `bent`: by bent contours, too, where these are
        wide.
        """
        beyond = epsilon >= self.largest_log_ratio.upper
        known = Readings(np.full((1, len(epsilon)), -np.inf), np.where(beyond, -np.inf, 0.0)[None])
        inside = np.flatnonzero(~beyond)
        orders = self.run.cut_orders_for_thresholds(epsilon)
        if len(inside) > 1:
            cuts = _shared(orders)
            for cut in sorted({int(cut) for cut in cuts[inside]}):
                self._read_profile_at(cut, inside[cuts[inside] == cut], epsilon, known, _SLACK_OF_LISTS)
            inside = inside[known.width()[inside] > self._good_width]
        read = inside[:0]
        for attempt in range(orders.shape[1]):
            cuts = orders[:, attempt]
            ended = [
                self._read_profile_at(cut, inside[cuts[inside] == cut], epsilon, known)
                for cut in sorted({int(cut) for cut in cuts[inside]})
            ]
            if bent and attempt == 1:
                read = np.intersect1d(self._wide(known, 1, _HOPELESS), inside)
                self._read_bent_profile(read, epsilon, known)
            inside = inside[known.width()[inside] > self._good_width]
            if not all(ended):
                break
        if len(inside):
            self._read_far_humps(inside, epsilon, known)
            known.tighten(inside, self._fallback.profile(epsilon[inside]))
        if bent:
            self._read_bent_profile(np.setdiff1d(self._wide(known, 1), read), epsilon, known)
        return known

    def _read_far_humps(self, places: IndexArray, epsilon: FloatArray, known: Readings) -> None:
        """Among humps far apart lines through saddle points have no end; one near the core has, at the price of digits,
        and reads far thresholds that jumps of little chance decide.
        """
        ladder = self._ladder(CUT_DIGITS[0]) if self.run.mixtures else None
        places = places[known.width(1)[places] > _WIDE]
        rung = ladder.near_core() if ladder is not None and len(places) else None
        if rung is not None:
            known.tighten(places, read_profile(rung.line, epsilon[places]))

    def _read_profile_at(
        self, cut: int, places: IndexArray, epsilon: FloatArray, known: Readings, slack: float = 0.0
    ) -> bool:
        """Read the profile at some places on the lines of one cut, where it is deep enough and the ladder reaches; with
        `slack` on few lines, and on no neighbours of these.

        False where lines have no end.
        """
        ladder = self._ladder(CUT_DIGITS[cut])
        if ladder is None or len(places) == 0:
            return True
        rungs = ladder.for_thresholds(epsilon[places], slack)
        # Deep enough: the cut lies 11 digits below delta (about; what it leaves out is in the enclosure in any case).
        deep = np.array([rung.log_profile for rung in rungs]) > (11 - CUT_DIGITS[cut]) * math.log(10)
        ready = (deep & ladder.reaches(epsilon[places])) | (cut == len(CUT_DIGITS) - 1)
        chosen = [rung for rung, is_ready in zip(rungs, ready, strict=True) if is_ready]
        beside = ladder if slack == 0 else None
        return self._read(beside, chosen, places[ready], known, lambda line, at: read_profile(line, epsilon[at]))

    @np.errstate(all="ignore")
    def _epsilon_formula(self, delta: float) -> Enclosure:
        best: Enclosure | None = None
        rounds, tried = _FEW_ROUNDS, False
        order = self.run.cuts(delta, abs(float(ndtri(delta))))
        for attempt, cut in enumerate(order):
            ladder = self._ladder(CUT_DIGITS[cut])
            if ladder is None:
                continue
            rung = ladder.for_profile(delta)
            if not self._has_end(rung):
                rounds = _FEW_ROUNDS
                break
            rounds = _ROUNDS if rung.line.ends.all() else rounds
            found = self._epsilon_on_line(ladder, delta)
            if self.run.mixtures and (found is None or found.relative_width() > _WIDE):
                nearer = self._epsilon_near_core(ladder, rung, delta)
                found = nearer if found is None or nearer is None else found.intersected(nearer)
            if found is not None:
                best = found if best is None else best.intersected(found)
                # Where jumps to several shifts make a line long, a deeper cut has more of them, and a longer one.
                long = bool(self.run.mixtures) and rung.line.nodes > _MANY_NODES
                if best.relative_width() <= (_WIDE if long else self._good_width):
                    return best
            hopeless = attempt >= min(1, len(order) - 1) and (best is None or best.relative_width() > _HOPELESS)
            if hopeless and self._bent is not None and not tried:
                tried = True
                bounded = best or Enclosure(0.0, self.epsilon_cap(delta), self.evidence)
                found = self._bent_epsilon(delta, bounded) if bounded.upper < math.inf else None
                if found is not None and found.relative_width() <= _WIDE:
                    return found
        if best is None:
            best = self._epsilon_by_bisection(delta, rounds)
        if best.relative_width() > _WIDE and self._bent is not None and best.upper > 0 and not is_spent():
            best = self._bent_epsilon(delta, best) or best
        return best

    def _bent_epsilon(self, delta: float, known: Enclosure) -> Enclosure | None:
        """By bent contours, within what is known already; None where they prove nothing."""
        proved = None if self._bent is None else self._bent.epsilon(delta, known.lower, known.upper)
        return None if proved is None else known.intersected(Enclosure(*proved, self.evidence))

    @np.errstate(all="ignore")
    def epsilon_cap(self, delta: float) -> float:
        """By Chernoff, at a few tilts; never above the largest loss."""
        most = max(self.largest_log_ratio.upper, 0.0)
        first = self.run.cuts(delta, abs(float(ndtri(delta))))[0]
        transform = self.run.transform(CUT_DIGITS[first], reflected=self._reflected)
        if transform is None:
            return most
        # In units of the core, and in nats, where few jumps rule.
        s = 1 + np.concatenate([_CAP_TILTS / max(self.run.deviation, _SMALLEST_DEVIATION), _CAP_JUMPS])
        cumulants = transform.cumulants(s)
        dropped = np.array([transform.log_dropped[1]])
        caps = chernoff_caps(s[:, None], cumulants.value[:, None], cumulants.error[:, None], dropped, delta)
        return min(float(caps[0]), most)

    def _has_end(self, rung: Rung) -> bool:
        """Whether it is worth while to try other lines beside this one: in runs of Gaussian steps it always is."""
        return self.run.is_gaussian or bool(rung.line.ends.all())

    def _epsilon_on_line(self, ladder: ContourLadder, delta: float) -> Enclosure | None:
        """Root of delta(eps) = delta on the nearest line, proved from both sides; None where the line cannot."""
        rung = ladder.for_profile(delta)
        level = np.array([delta])
        threshold = solve_profile(rung.line, level)
        if not 0 < threshold[0] < math.inf:
            return None
        nearest = ladder.for_thresholds(threshold)[0]
        if nearest is not rung and nearest.theta > 0:
            rung, threshold = nearest, solve_profile(nearest.line, level)
        if not 0 < threshold[0] < math.inf:
            return None
        lower, upper = prove_root(rung.line, threshold, level)
        return None if math.isnan(lower[0]) else Enclosure(float(lower[0]), float(upper[0]), self.evidence)

    def _epsilon_near_core(self, ladder: ContourLadder, rung: Rung, delta: float) -> Enclosure | None:
        """The same on a line nearer to the core, as in `_read_far_humps`."""
        nearer, level = ladder.near_core(rung.theta), np.array([delta])
        threshold = np.array([math.nan]) if nearer is None else solve_profile(nearer.line, level)
        if nearer is None or not 0 < threshold[0] < math.inf:
            return None
        lower, upper = prove_root(nearer.line, threshold, level)
        return None if math.isnan(lower[0]) else Enclosure(float(lower[0]), float(upper[0]), self.evidence)

    def _epsilon_by_bisection(self, delta: float, rounds: int) -> Enclosure:
        """The same from the enclosures of the profile by straight lines, however wide: one bisection for each end."""
        level = math.log(delta)
        slack = 1e-15 * (1 + abs(level))
        if self._straight_profile(np.zeros(1)).upper[0, 0] <= level - slack:
            return Enclosure(0.0, 0.0, self.evidence)
        high = 1e-12
        while self._straight_profile(np.array([high])).upper[0, 0] > level - slack:
            high *= 16
            if high > _LARGEST_EPSILON:
                return Enclosure(0.0, math.inf, self.evidence)
        upper = self._bisect(lambda known: known.upper[0, 0] <= level - slack, 0.0, high, rounds)[1]
        lower = self._bisect(lambda known: known.lower[0, 0] <= level + slack, 0.0, upper, rounds)[0]
        return Enclosure(lower, upper, self.evidence)

    def _bisect(
        self, small: Callable[[Readings], np.bool_], low: float, high: float, rounds: int
    ) -> tuple[float, float]:
        """Shrink [low, high] to 1e-12 of high; small(profile(high)) stays true, small(profile(low)) false or low 0."""
        for _ in range(rounds):
            middle = 0.5 * (low + high)
            if small(self._straight_profile(np.array([middle]))):
                high = middle
            else:
                low = middle
            if high - low <= 1e-12 * high:
                break
        return low, high

    def _read(
        self,
        ladder: ContourLadder | None,
        rungs: list[Rung],
        places: IndexArray,
        known: Readings,
        read: Callable[[ContourLine, IndexArray], Readings],
        rows: int = 2,
    ) -> bool:
        """Tighten `known` by reading each place on its rung's line, and what is wide then on neighbouring lines of the
        ladder too, where one is given.

        False where a line of a mixed run has no end: its neighbours, or those of another cut, have none either.
        """
        ended = True
        for rung in dict.fromkeys(rungs):
            if is_spent():  # what is known without a line stays
                return False
            at = places[[chosen is rung for chosen in rungs]]
            known.tighten(at, read(rung.line, at))
            if not self._has_end(rung):
                ended = False
                continue
            for other in () if ladder is None else ladder.neighbours(rung):
                at = at[known.width(rows)[at] > self._good_width]
                if len(at) == 0:
                    break
                known.tighten(at, read(other.line, at))
        return ended


def _shared(orders: IndexArray) -> IndexArray:
    """Cuts to begin with in a list: of places whose first guesses are alike, the deepest of these."""
    first = orders[:, 0]
    deepest = int(first.max())
    return np.where(first >= deepest - _CUTS_SHARED, deepest, first)


def chernoff_caps(
    tilts: FloatArray, value: FloatArray, error: FloatArray, log_dropped: FloatArray, delta: FloatArray | float
) -> FloatArray:
    """Upper bounds of epsilon(delta) of R runs: delta(eps) <= e^{K(s) - (s-1) eps} (1/s)(1-1/s)^{s-1} and what the cut
    leaves out of H1, solved for eps at tilts s > 1 (`fallback.py`).

    `tilts`, K there and its `error`: (S, R), where NaN stands for nothing known; `log_dropped`: ln of what is left out.
    """
    left = delta * (1 - _CAP_SLACK) - np.exp(log_dropped)
    parts = np.stack([value, error, -np.log(tilts), (tilts - 1) * np.log1p(-1 / tilts)])
    log_left = np.log(np.where(left > 0, left, 1.0))
    found = (parts.sum(axis=0) - log_left + _CAP_SLACK * np.abs(parts).sum(axis=0)) / (tilts - 1)
    least = np.where(np.isnan(found), np.inf, found).min(axis=0)
    caps = np.maximum(least, 0.0) * (1 + _CAP_SLACK) + _CAP_SLACK
    return np.where(left > 0, caps, np.inf)


def _around(value: float, error: float = 0.0) -> Enclosure:
    """A sum of at most 256 parts, or its root, whose terms are rounded: 600 u covers all of it. `error`: of terms."""
    if math.isinf(value):
        return Enclosure.point(value)
    slack = 600 * UNIT_ROUNDOFF * abs(value) + error
    return Enclosure(value - slack, value + slack, Evidence.CERTIFIED)
