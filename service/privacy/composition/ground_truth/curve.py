"""Curves with proved decimal digits: balls (midpoint and radius) of `search.py`, returned as enclosures."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from service.privacy.composition.ground_truth.contour import GroundTruthRun
from service.privacy.composition.ground_truth.search import FoundBalls, GroundTruthSearch
from service.privacy.enclosure import DecimalEnclosure, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.balls import ball, decimals, doubles, log_doubles
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints

_SURE_BITS = 300
"""Precision in bits of parameters of the whole curve."""

_Ends = tuple[float, float, float, float]
"""Lower and upper bound of a probability, and their logarithms."""


class GroundTruthTradeOff(AbstractTradeOff):
    """Trade-off curve of one direction of a run, with a relative width of 10^-digits for every number.

    A number is wider if the search does not reach this width.

    Notes
    -----
    Numbers are computed one at a time and take 0.02 to 2 seconds each. `_power_at_formula`, `_profile_at_formula` and
    `_epsilon_formula` return enclosures with their decimal digits.
    """

    evidence = Evidence.PROVED
    method = "ground_truth"

    def __init__(
        self, run: GroundTruthRun, search: GroundTruthSearch, other: GroundTruthSearch, *, reflected: bool
    ) -> None:
        """Store the `run`, the `search` of this direction and that of the `other` direction.

        `reflected` means that the curve is that of swapped hypotheses. Both searches are one object if both curves are
        equal.
        """
        self._run, self._search, self._other, self._reflected = run, search, other, reflected

    def reversed(self) -> GroundTruthTradeOff:
        """Return the curve of the other direction of the run.

        It is this curve itself if every step is Gaussian, or compares two laws that are mirror images at 0.
        """
        if self._other is self._search:
            return self
        return GroundTruthTradeOff(self._run, self._other, self._search, reflected=not self._reflected)

    @property
    def _end(self) -> arb | None:
        """Smallest loss of the run, sum N ln(1 - p), as a ball in nats; None if some step has no smallest loss.

        The loss is ln dH1/dH0 in the add direction. 1 - p is the weight of the unshifted component, which equals H0, in
        the mixture H1 of a step, and N the number of such steps. A step without this component, or with mixtures under
        both hypotheses, has no smallest loss.
        """
        if self._run.gaussian_mu_squared != 0:
            return None
        logs = [(count, step.log_prob_unshifted) for step, count in self._run.steps]
        known = [count * log for count, log in logs if log is not None]
        return sum(known, arb(0)) if len(known) == len(logs) else None

    @property
    def largest_log_ratio(self) -> Enclosure:
        """Largest loss of the run in nats: infinite for add; -sum N ln(1 - p) for remove if all steps are sampled.

        1 - p is the weight of the unshifted component in the mixture H1 (add direction) of a step, and N the number of
        such steps. The loss for remove is infinite too, if a step has no such component or mixtures under both
        hypotheses.
        """
        with ctx.workprec(_SURE_BITS):
            end = self._end
            if not self._reflected or end is None:
                return Enclosure.point(math.inf)
            return Enclosure(*doubles(-end), self.evidence)

    @property
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest mu for which the run is mu-GDP: sqrt(sum N/sigma^2), whatever the sampling rates.

        N steps have the noise multiplier sigma. The effect of sampling vanishes as the false positive rate falls to 0.
        The property is None if both hypotheses of a step are mixtures.
        """
        squares = self._run.gaussian_mu_squared
        for step, count in self._run.steps:
            own = step.global_mu_squared
            if own is None:
                return None
            squares += count * own
        with ctx.workprec(_SURE_BITS):
            return Enclosure(*doubles(ball(squares).sqrt()), self.evidence)

    def decimal_power(self, false_positive_rate: Fraction) -> DecimalEnclosure | None:
        """Return the decimal digits of the power at a rational false positive rate in (0, 1).

        The result is None if the digits are not proved.
        """
        found = self._search.point(false_positive_rate)
        return self._decimal(found.balls[0], found.bits)

    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        read = [self._point(float(rate)) for rate in alpha]
        error, power = _bounds([each[0] for each in read]), _bounds([each[1] for each in read])
        slopes = np.array([each[2] for each in read]).T
        return CurvePoints(error, power, EnclosureArray(slopes[0], slopes[1]))

    def _point(self, rate: float) -> tuple[_Ends, _Ends, tuple[float, float]]:
        """Return bounds of the type II error, of the power, and of ln of the power's slope at a false positive rate.

        The first two are (lower, upper, ln lower, ln upper). If the work of the request is spent, the bounds are those
        of a test that ignores the data.
        """
        if is_spent():
            most = math.nextafter(1 - rate, 2.0)
            return (0.0, most, -math.inf, math.log(most)), (rate, 1.0, math.log(rate), 0.0), (-math.inf, math.inf)
        found = self._search.point(Fraction(rate))
        # The dropped mass of H1 bounds the change of powers, but not the change of slopes.
        slope = doubles(found.balls[1]) if self._run.moved_mass.is_zero() else (-math.inf, math.inf)
        return _probability(found.balls[2], found.bits), _probability(found.balls[0], found.bits), slope

    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        found = [self._delta(Fraction(float(value))) for value in epsilon]
        return _bounds([_probability(delta.balls[0], delta.bits) for delta in found])

    def _power_at_formula(self, rate: float) -> Enclosure:
        found = self._search.point(Fraction(rate))
        return self._probability(found)

    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        return self._probability(self._delta(Fraction(epsilon)))

    def _epsilon_formula(self, delta: float) -> Enclosure:
        found = self._search.epsilon(Fraction(delta))
        lower, upper = _ends(found.balls[0], found.bits)
        decimal = self._decimal(found.balls[0], found.bits, math.inf)
        return Enclosure(max(lower, 0.0), upper, self.evidence, decimal=decimal)

    def _delta(self, epsilon: Fraction) -> FoundBalls:
        """Return the privacy profile delta at `epsilon` (nats) as a ball.

        No search is needed where epsilon is beyond the extreme losses: the profile is 0, or 1 - e^eps.
        """
        with ctx.workprec(_SURE_BITS):
            threshold, end = ball(epsilon), self._end
            if end is not None and self._reflected and threshold >= -end:
                return FoundBalls((arb(0),), _SURE_BITS)
            if end is not None and not self._reflected and threshold <= end:
                return FoundBalls((-threshold.expm1(),), _SURE_BITS)
        return self._search.delta(epsilon)

    def _probability(self, found: FoundBalls) -> Enclosure:
        lower, upper, log_lower, log_upper = _probability(found.balls[0], found.bits)
        decimal = self._decimal(found.balls[0], found.bits)
        return Enclosure(lower, upper, self.evidence, log_lower, log_upper, decimal)

    def _decimal(self, value: arb, bits: int, largest: float = 1.0) -> DecimalEnclosure | None:
        with ctx.workprec(bits):
            written = decimals(value, self._search.digits, largest)
        return None if written is None else DecimalEnclosure(*written, self._search.digits)


def _ends(value: arb, bits: int) -> tuple[float, float]:
    """Return `(lower, upper)`, the ball `value` as two doubles rounded outwards; 0 stays exact.

    `bits` is the precision of the ball.
    """
    with ctx.workprec(bits):
        return (0.0, 0.0) if value.is_zero() else doubles(value)


def _probability(value: arb, bits: int) -> _Ends:
    lower, upper = _ends(value, bits)
    with ctx.workprec(bits):
        log_lower, log_upper = log_doubles(value)
    return max(lower, 0.0), min(upper, 1.0), log_lower, min(log_upper, 0.0)


def _bounds(rows: list[_Ends]) -> EnclosureArray:
    lower, upper, log_lower, log_upper = np.array(rows).T
    return EnclosureArray(lower, upper, log_lower, log_upper)
