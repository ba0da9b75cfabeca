"""The `discretised` engine: certified curves of any steps with trade-off curves, on a lattice of losses.

It serves steps with atoms (Laplace, pure and approximate DP), with bounded losses, and of mixed kinds. It also serves
steps that are so few and rare that the `contour` engine is wide. `law.py` bounds a step by two laws on a lattice.
`windows.py` composes the laws at a tilt. `off_nodes.py` adds steps of two losses, whose losses stay between the nodes.
`readings.py` derives bounds of points and of the profile. `search.py` chooses lattices and tilts.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from service.privacy.composition.inversion.readings.enclosures import Readings, nothing_known
from service.privacy.composition.lattice.off_nodes import OffNodeLosses, select_few
from service.privacy.composition.lattice.readings import (
    read_lattice_points,
    read_lattice_profile,
    solve_lattice_profile,
)
from service.privacy.composition.lattice.runs import LatticeRuns, LatticeStep
from service.privacy.composition.lattice.search import LATTICE_DIGITS, LatticeSearch, digits_for
from service.privacy.composition.lattice.sums import LatticePair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_down, log_ends, log_up
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

SOURCE = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs); Doroshenko et al. 2022 (connect the dots)"

_SLOPE_STEP = 1e-3
"""Relative distance of the rates between which slopes are enclosed."""

_ROUGH = 0.1
"""Relative width of a first evaluation of a profile, which mostly decides on which side of a number it is."""

_COARSE = 1e-3
"""Relative width of a rough profile. One of 1e-6 takes up to 30 times as long."""

_NEARLY_EVERYTHING = -3.0
"""ln of the largest 1 - delta for which a bound without a composition is used."""

_LAST_RATE = math.nextafter(1.0, 0.0)


def discretised_pair(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Build the trade-off curves of any composition of steps with trade-off curves, for both directions.

    `steps` has pairs (mechanism, count). Of the `options`, `relative_tolerance` is the relative width aimed at. A run
    with a step that reveals the record completely has the curves of that step.

    Raises
    ------
    UnsupportedCombination
        For steps without a known trade-off curve.
    """
    parts: list[LatticeStep] = []
    for step, count in steps:
        curves = step.curves()
        if curves.add.singular_power.lower >= 1:
            return TradeOffPair(
                curves.add, curves.remove, SOURCE, ("discretised: one step reveals the record completely.",)
            )
        if curves.add.largest_log_ratio.upper > 0 or curves.add.singular_power.upper > 0:
            parts.append(LatticeStep(curves.add, curves.remove, step.loss_atoms(), count, step.two_point()))
    if not parts:
        nothing = gaussian_curve(Enclosure.point(0.0))
        return TradeOffPair(nothing, nothing, SOURCE, ("discretised: no step reveals anything about the record.",))
    run = tuple(parts)
    reason = (
        "discretised: the losses of all steps are rounded up and down to a lattice and composed by Fourier transforms."
    )
    add = DiscretisedTradeOff.of(run, options.relative_tolerance)
    return TradeOffPair(add, add.reversed(), SOURCE, (reason,))


class DiscretisedTradeOff(AbstractTradeOff):
    """Trade-off curve of one direction (record added or removed) of a composition, from laws of the loss on a lattice.

    The relative width of its enclosures is about N/(4 c^2) for N steps, with c lattice cells in a standard deviation of
    the run's loss.
    """

    evidence = Evidence.CERTIFIED
    method = "discretised"
    serves_lists = True
    has_rough_lists = True

    def __init__(
        self, steps: tuple[LatticeStep, ...], tolerance: float, lattices: LatticeSearch, *, reflected: bool
    ) -> None:
        self._steps, self._tolerance, self._lattices, self._reflected = steps, tolerance, lattices, reflected
        self._curves = [part.remove if reflected else part.add for part in steps]

    @staticmethod
    def of(steps: tuple[LatticeStep, ...], tolerance: float) -> DiscretisedTradeOff:
        """Build the curve of a run in the add direction (a record is added).

        The curve aims at the relative width `tolerance`. `steps` are the steps of the run with their counts.
        """
        known = [(part.two_point, part.count) for part in steps if part.two_point is not None]
        # At least one step is always on nodes.
        aside = select_few(known) if len(known) < len(steps) else []
        on_nodes = tuple(part for part in steps if (part.two_point, part.count) not in aside)
        lattices = LatticeSearch(LatticeRuns(on_nodes, OffNodeLosses.of(aside)), reflected=False)
        return DiscretisedTradeOff(steps, tolerance, lattices, reflected=False)

    @property
    def largest_log_ratio(self) -> Enclosure:
        """Largest privacy loss (log-likelihood ratio) of the run, the sum over its steps, nats."""
        return self._total([curve.largest_log_ratio for curve in self._curves])

    @property
    def smallest_log_ratio(self) -> Enclosure:
        """Smallest privacy loss (log-likelihood ratio) of the run, the sum over its steps, nats."""
        return self._total([curve.smallest_log_ratio for curve in self._curves])

    def _total(self, ratios: list[Enclosure]) -> Enclosure:
        counts = [part.count for part in self._steps]
        lower = math.fsum(count * ratio.lower for count, ratio in zip(counts, ratios, strict=True))
        upper = math.fsum(count * ratio.upper for count, ratio in zip(counts, ratios, strict=True))
        slack = 4 * UNIT_ROUNDOFF
        lower = lower - slack * abs(lower) if math.isfinite(lower) else lower
        upper = upper + slack * abs(upper) if math.isfinite(upper) else upper
        return Enclosure(lower, upper, Evidence.CERTIFIED)

    @property
    def singular_power(self) -> Enclosure:
        """Probability under H1 of this direction that some step has an outcome that H0 excludes.

        It is 1 - prod (1 - q)^N over the steps with this probability q and count N.
        """
        masses = [curve.singular_power for curve in self._curves]
        ends: list[float] = []
        for end in ("lower", "upper"):
            logs = [(getattr(mass, end), part.count) for mass, part in zip(masses, self._steps, strict=True)]
            total = math.fsum(count * (math.log1p(-mass) if mass < 1 else -math.inf) for mass, count in logs)
            ends.append(-math.expm1(total))
        slack = 16 * UNIT_ROUNDOFF
        return Enclosure(ends[0] * (1 - slack), min(ends[1] * (1 + slack), 1.0), Evidence.CERTIFIED)

    def reversed(self) -> DiscretisedTradeOff:
        """Return the curve of the other direction (record removed or added), from the same lattice laws."""
        return self._reversed

    @cached_property
    def _reversed(self) -> DiscretisedTradeOff:
        return DiscretisedTradeOff(
            self._steps, self._tolerance, self._lattices.reversed(), reflected=not self._reflected
        )

    @np.errstate(all="ignore")
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        n, shift = len(alpha), np.minimum(_SLOPE_STEP, 0.5 * (1 - alpha) / alpha)
        # A rate next to 1 may have no neighbour to the right: a slope between equal rates is unknown.
        rates = np.concatenate([alpha, alpha * (1 - shift), np.minimum(alpha * (1 + shift), _LAST_RATE)])
        read = self._read_points(rates)
        slope = _slopes(read, rates)
        known = Readings(read.lower[:, :n], read.upper[:, :n])
        power = EnclosureArray.from_logs(known.lower[0], known.upper[0])
        return CurvePoints(EnclosureArray.from_logs(known.lower[1], known.upper[1]), power, slope)

    def _read_points(self, alpha: FloatArray) -> Readings:
        known = nothing_known(len(alpha))
        for curve in self._curves:  # ignoring all other steps makes no attack stronger
            alone = curve.points(alpha)
            known.lower[0] = np.maximum(known.lower[0], log_ends(alone.power)[0])
            known.upper[1] = np.minimum(known.upper[1], log_ends(alone.type_two_error)[1])
        # An attack that uses the singular mass only has the power q + (1 - q) alpha.
        least, slack = self.singular_power.lower, 8 * UNIT_ROUNDOFF
        known.lower[0] = np.maximum(known.lower[0], log_down((least + (1 - least) * alpha) * (1 - slack)))
        known.upper[1] = np.minimum(known.upper[1], log_up(np.minimum((1 - least) * (1 - alpha) * (1 + slack), 1.0)))
        if is_spent():
            indices = np.arange(len(alpha))
            self._lattices.read_composed(indices, known, lambda pair, at: read_lattice_points(pair, alpha[at]))
            return known
        needed = np.array([digits_for(min(rate, 1 - rate)) for rate in alpha])
        for digits in sorted(set(needed)):
            indices = np.flatnonzero(needed == digits)
            tilt_grid = self._lattices.tilt_grid(digits)
            if tilt_grid is not None:
                tilts = tilt_grid.for_rates(alpha[indices])
                self._lattices.read(
                    digits,
                    tilts,
                    indices,
                    known,
                    lambda pair, at: read_lattice_points(pair, alpha[at]),
                    tolerance=self._tolerance,
                )
        return known

    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return self._profile_within(epsilon, self._tolerance)

    @np.errstate(all="ignore")
    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> EnclosureArray:
        """Compute enclosures of the profile at epsilons in nats, in their shape, from coarse lattices.

        Their relative width is about 1e-3. The `rate` is not used.
        """
        del rate
        return self._profile_within(epsilon, max(_COARSE, self._tolerance))

    def _profile_within(self, epsilon: FloatArray, tolerance: float) -> EnclosureArray:
        """Return enclosures of delta at each epsilon (nats), in its shape, of about the relative width `tolerance`."""
        beyond = epsilon >= self.largest_log_ratio.upper
        singular = self.singular_power
        log_singular, top = log_down(np.array([singular.lower])), log_up(np.array([singular.upper]))
        known = Readings(np.full((1, len(epsilon)), log_singular[0]), np.where(beyond, top[0], 0.0)[None])
        for curve in self._curves:
            alone = curve.profile(epsilon)
            known.lower[0] = np.minimum(np.maximum(known.lower[0], log_ends(alone)[0]), known.upper[0])
        # Next to 1 a bound without a composition is close: such a run reveals nearly everything.
        rest = self._lattices.complement_cap(epsilon)
        close = ~beyond & (rest < _NEARLY_EVERYTHING)
        least = np.log1p(-np.exp(np.minimum(rest, _NEARLY_EVERYTHING))) - 4 * UNIT_ROUNDOFF
        known.lower[0] = np.where(close, np.maximum(known.lower[0], least), known.lower[0])
        indices = np.flatnonzero(~beyond & ~(close & (rest < math.log(tolerance))))
        if len(indices) and is_spent():
            self._lattices.read_composed(indices, known, lambda pair, at: read_lattice_profile(pair, epsilon[at]))
            return EnclosureArray.from_logs(known.lower[0], known.upper[0])
        for digits in LATTICE_DIGITS:
            if len(indices) == 0:
                break
            tilt_grid = self._lattices.tilt_grid(digits)
            if tilt_grid is None:
                continue
            tilts = tilt_grid.for_thresholds(epsilon[indices])
            deep = np.array([tilt.log_profile > (11 - digits) * math.log(10) for tilt in tilts])
            deep = (deep & tilt_grid.covers(epsilon[indices])) | (digits == LATTICE_DIGITS[-1])
            chosen = [tilt for tilt, is_deep in zip(tilts, deep, strict=True) if is_deep]
            self._lattices.read(
                digits,
                chosen,
                indices[deep],
                known,
                lambda pair, at: read_lattice_profile(pair, epsilon[at]),
                tolerance=tolerance,
            )
            indices = indices[~deep]
        return EnclosureArray.from_logs(known.lower[0], known.upper[0])

    @np.errstate(all="ignore")
    def epsilon_cap(self, delta: float, enough: float = -math.inf) -> float:  # noqa: ARG002 - none costs less
        """Return an upper bound of epsilon(delta) in nats, by Markov's inequality on the upper law of a coarse lattice.

        Other curves may stop at the bound `enough`; it is not used here.
        """
        return self._lattices.epsilon_cap(delta)

    @np.errstate(all="ignore")
    def profile_cap(self, epsilon: float) -> float:
        """Return an upper bound of delta at this epsilon (nats), from lattices that aim at a relative width of 0.1."""
        return float(self._profile_within(np.array([epsilon]), _ROUGH).upper[0])

    @np.errstate(all="ignore")
    def _epsilon_formula(self, delta: float) -> Enclosure:
        # Ignoring all other steps makes no attack stronger: mostly a single part proves that epsilon is not 0.
        if max(curve.profile_at(0.0).lower for curve in self._curves) <= delta:
            for tolerance in (_ROUGH, self._tolerance):
                at_zero = self._profile_within(np.zeros(1), tolerance).at(0, self.evidence)
                if at_zero.upper <= delta:
                    return Enclosure(0.0, 0.0, self.evidence)
                if at_zero.lower > delta:
                    break
        alone = [curve.epsilon(delta).lower for curve in self._curves]
        top = self.largest_log_ratio.upper
        known = Readings(np.array([[min(max(alone), top)]]), np.full((1, 1), top))
        tilt_grid = self._lattices.tilt_grid(digits_for(delta))
        if tilt_grid is not None:
            tilt = tilt_grid.for_delta(delta)

            def solved(pair: LatticePair, _: IndexArray) -> Readings:
                low, high = solve_lattice_profile(pair, math.log(delta))
                return Readings(np.array([[max(low, 0.0)]]), np.array([[max(high, 0.0)]]))

            self._lattices.read(
                digits_for(delta), [tilt], np.array([0]), known, solved, tolerance=self._tolerance, linear=True
            )
        return Enclosure(float(known.lower[0, 0]), float(known.upper[0, 0]), self.evidence)


def _slopes(read: Readings, alpha: FloatArray) -> EnclosureArray:
    """Return enclosures of ln of the slope of the power at the first third of the rates `alpha`.

    The second third has the left neighbours of these rates, and the last third the right neighbours.

    `read` has bounds of ln power and ln type II error at the false positive rates `alpha`. A concave curve is less
    steep than its chord to the left and steeper than its chord to the right. Power and type II error have equal
    differences, and the smaller of both numbers gives the more accurate difference.
    """
    here, left, right = (slice(k * len(alpha) // 3, (k + 1) * len(alpha) // 3) for k in range(3))
    lower, upper = np.exp(read.lower[:2]), np.exp(read.upper[:2])
    slack = 2 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF
    steepest = np.fmin(
        upper[0, here] - lower[0, left] + slack * upper[0, here],
        upper[1, left] - lower[1, here] + slack * upper[1, left],
    )
    flattest = np.fmax(
        lower[0, right] - upper[0, here] - slack * upper[0, right],
        lower[1, here] - upper[1, right] - slack * upper[1, here],
    )
    # Differences of neighbouring rates are exact.
    high = np.log(np.maximum(steepest, 0.0) / (alpha[here] - alpha[left]))
    low = np.log(np.maximum(flattest, 0.0) / (alpha[right] - alpha[here]))
    high, low = high + slack * (1 + np.abs(high)), low - slack * (1 + np.abs(low))
    return EnclosureArray(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))
