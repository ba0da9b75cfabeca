"""Lower bounds for the best of K runs at rates below the smallest double, from the profile of one run.

The notation is that of `upper_bound.py`: phi generates K, T(u) is the power of the best test of one run at rate u, and
delta is the profile of one run. Two scores attain the following bounds.

A score that says nothing releases the output of one run: delta_selected(eps) >= P(K >= 1) delta(eps).

Let the outcomes with a likelihood ratio above e^c have the lowest scores. Such an outcome is released if all K >= 1
runs have one, with probability phi(T(u)) - phi(0) and phi(u) - phi(0) under the two laws. Here u is the rate of this
set, T(u) - e^c u = delta(c), so T(u) >= delta(c) and u <= e^-c. So for every c >= 0

    delta_selected(eps) >= phi(delta(c)) - phi(0) - e^eps r(c),

with r(c) = e^-Kc for a fixed K, and r(c) = e^-c phi'(e^-c) for other laws, because phi is convex. For a fixed K, points
of the curve of one run give tests of the rate u^K and the power T(u)^K, too.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.selection.nodes import Nodes
from service.privacy.trade_off.selection.trial_counts import SLACK, TrialCounts

NEAREST: Final = 600.0
"""Epsilon (nats) above which rates are searched here. Tests with listed rates serve smaller epsilons."""
MARGINS: Final = np.array([0.1, 1.0, 3.0, 8.0, 16.0, 30.0, 60.0, 120.0, 250.0, 500.0])
"""Tried values of -ln(e^eps r(c))."""
SHARES: Final = (1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6)
"""Tried values of e^eps r(c) over delta."""
_LEAST: Final = 1e-300
"""A number above each derivative phi' that underflows."""


@final
class FarAttacks(AbstractTradeOff):
    """Curve that the best of K runs is at least as easy to attack as, for epsilons above `NEAREST`.

    All upper bounds of powers and profiles are trivial, and lower bounds at smaller epsilons are those of guessing.

    Parameters
    ----------
    curve : AbstractTradeOff
        Curve of one run that one choice of data sets attains.
    counts : TrialCounts
        Law of K.
    ahead, back : Nodes
        Points of this curve, and of the curve of the swapped hypotheses.
    """

    evidence = Evidence.CERTIFIED
    is_capped = True

    def __init__(self, curve: AbstractTradeOff, counts: TrialCounts, ahead: Nodes, back: Nodes) -> None:
        self.curve, self.counts, self.method = curve, counts, curve.method
        self._nodes = ahead, back
        self._times = 1 if counts.fixed is None else counts.fixed

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        # For a fixed K the likelihood ratio of one outcome of all runs is the K-th power of that of one run.
        return Enclosure(self._times * max(self.curve.largest_log_ratio.lower, 0.0), math.inf, self.evidence)

    @override
    def reversed(self) -> FarAttacks:
        return FarAttacks(self.curve.reversed(), self.counts, self._nodes[1], self._nodes[0])

    @cached_property
    def _tests(self) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of ln of rates and lower bounds of powers of tests of all K runs, shape (n,) each.

        A test rejects H0 if a test of a single run rejects in each of the K runs. Both arrays are empty for random K.
        """
        nodes = self._nodes[0]
        if self.counts.fixed is None:
            return np.empty(0), np.empty(0)
        with np.errstate(divide="ignore"):
            logs = self._times * np.where(nodes.rate < 0.5, np.log(nodes.rate), np.log1p(-nodes.rest))
        powers = self.counts.rise(nodes.power[0], nodes.error[1], nodes.power[0]) * (1 - 4 * SLACK)
        inside = (nodes.rate > 0) & (nodes.rest > 0)
        return logs[inside] * (1 - SLACK), powers[inside]

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return CurvePoints.without_slopes(
            EnclosureArray(np.zeros_like(alpha), 1 - alpha), EnclosureArray(alpha, np.ones_like(alpha))
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        lower = np.maximum(-np.expm1(np.minimum(epsilon, 0.0)) * (1 - 2 * FUNCTION_ERROR), 0.0)
        far = np.flatnonzero(epsilon > NEAREST)
        if far.size:
            lower[far] = self._deltas(epsilon[far])
        return EnclosureArray(lower, np.ones_like(epsilon))

    def _deltas(self, epsilon: FloatArray) -> FloatArray:
        """Return lower bounds of delta at each epsilon above `NEAREST` (nats), shape (m,)."""
        known = self.counts.something * self.curve.profile(epsilon).lower * (1 - 3 * SLACK)
        logs, powers = self._tests
        if logs.size:
            tests = powers - np.exp(np.minimum(epsilon[:, None] + logs, 1.0)) * (1 + SLACK * (1 + epsilon[:, None]))
            known = np.maximum(known, tests.max(axis=1))
        if self._times * self.curve.largest_log_ratio.upper <= NEAREST:
            return np.maximum(known, 0.0)
        thresholds = (epsilon[:, None] + MARGINS + self._log_least) / self._times
        powers = self._powers(self.curve.profile(thresholds.ravel()).lower).reshape(thresholds.shape)
        logs = epsilon[:, None] + self._log_rates(thresholds)
        found = powers - np.exp(logs) * (1 + SLACK * (1 + np.abs(epsilon[:, None])))
        return np.maximum(np.maximum(found.max(axis=1), known), 0.0)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        some = self.counts.something * (1 - SLACK)
        if delta >= some * (1 - 2 * SLACK):
            return Enclosure(0.0, math.inf, self.evidence)
        alone = self.curve.epsilon(delta / some * (1 + SLACK))
        logs, powers = self._tests
        above = powers > delta * (1 + SLACK)
        tests = np.log(powers[above] - delta) - logs[above]
        found = [max(alone.lower, 0.0), float((tests - SLACK * (1 + np.abs(tests) - logs[above])).max(initial=0.0))]
        if self._times * alone.upper > NEAREST:  # phi(T) - phi(0) is at most T times the probability of any run
            found += [self._epsilon_of(delta, share) for share in SHARES]
        return Enclosure(max(found), math.inf, self.evidence)

    def _epsilon_of(self, delta: float, share: float) -> float:
        """Return a lower bound of epsilon(delta) in nats, from one threshold c; 0 if none is found.

        The profile of the best of K runs is at least phi(T) - phi(0) - e^eps r(c). Here phi(z) = E z^K, T is the
        profile of one run at c, and r(c) is that of `_log_rates`. c is such that e^eps r(c) is `share` times delta.
        """
        wanted = delta * (1 + share) * (1 + SLACK)
        power = self._power_for(wanted)
        if power is None:
            return 0.0
        threshold = self.curve.epsilon(power).lower
        if threshold <= 0:
            return 0.0
        log_rate = float(self._log_rates(np.array([threshold]))[0])
        found = math.log(share) + math.log(delta) - log_rate
        return max(found - SLACK * (1 + abs(found) + abs(log_rate)), 0.0)

    def _power_for(self, wanted: float) -> float | None:
        """Return nearly the smallest power T < 1 of one run with phi(T) - phi(0) >= `wanted`; None without such a T.

        phi(z) = E z^K is the generating function of the number K of runs.
        """
        if not self._powers(np.array([math.nextafter(1.0, 0.0)]))[0] > wanted:
            return None
        _, found = bisected(lambda power: bool(self._powers(np.array([power]))[0] >= wanted), 0.0, 1.0, 60)
        return found if found < 1 else None

    def _powers(self, power: FloatArray) -> FloatArray:
        """Return lower bounds of phi(T) - phi(0) for the powers T of one run, in their shape; phi(z) = E z^K."""
        return self.counts.rise(power, 1 - power, power) * (1 - 4 * SLACK)

    @property
    def _log_least(self) -> float:
        """Value of ln P(K = 1), at least ln 1e-300; 0 for a fixed number K of runs.

        It places the thresholds that are tried. No bound depends on it.
        """
        return 0.0 if self.counts.fixed is not None else max(self.counts.log_least_slope, math.log(_LEAST))

    def _log_rates(self, threshold: FloatArray) -> FloatArray:
        """Return upper bounds of ln r(c) for thresholds c (nats), in their shape.

        r(c) bounds the probability under H0 that K >= 1 and every run has a likelihood ratio above e^c. It is e^-Kc for
        a fixed K, and e^-c phi'(e^-c) with phi(z) = E z^K for a random K.
        """
        if self.counts.fixed is not None:
            return -self._times * threshold
        rate = np.exp(-threshold.ravel())
        slope = self.counts.slope(rate, 1 - rate).reshape(threshold.shape)
        return np.log(np.maximum(slope * (1 + 4 * SLACK), _LEAST)) - threshold
