"""Sources of tests of a run's loss in balls: closed forms for one step and Gaussian steps, contours for runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, final

from flint import arb, ctx

from service.privacy.composition.ground_truth.contour import BallContour, GroundTruthRun, Threshold
from service.privacy.composition.ground_truth.layout import ContourGuide
from service.privacy.composition.ground_truth.mixture_threshold import MixtureThresholds, normal_tail
from service.privacy.composition.ground_truth.nodes import out_of_reach
from service.privacy.numerics.balls import ball

MOST_BITS = 20_000
"""Largest precision of a closed form, which takes milliseconds and kilobytes. Retries for lost digits end there."""

_LARGEST_LINES = 24
"""Largest count of cached contours for thresholds nearby."""


@dataclass(frozen=True, slots=True)
class GaussianThresholds:
    """Closed form of the tests S > c of a Gaussian loss S ~ N(-mu^2/2, mu^2) under H0 and N(mu^2/2, mu^2) under H1.

    `at(c)` returns enclosures of rate and power of the test that rejects H0 if S > c, in balls of `bits` bits of
    precision.
    """

    mu_squared: Fraction
    bits: int

    def at(self, threshold: arb) -> Threshold:
        """Return the test S > threshold (nats) of the Gaussian loss S, from normal tail probabilities."""
        with ctx.workprec(self.bits):
            mu = ball(self.mu_squared).sqrt()
            score = threshold / mu + mu / 2
            density = (-score * score / 2).exp() / (mu * (2 * arb.pi()).sqrt())
            return Threshold(normal_tail(score), normal_tail(score - mu), normal_tail(mu - score), density)


ThresholdSource: TypeAlias = BallContour | GaussianThresholds | MixtureThresholds
"""Source of the test S > c of the loss S for any exact threshold c, with `bits` of precision.

`at(c)` returns the rates of the test, and the approximate density of S at c under H0.
"""


@final
class ClosedSources:
    """Factory of sources that compute rate and power of the test S > c of a loss S by closed forms.

    `thresholds` is a function that builds such a source for a precision in bits.
    """

    def __init__(self, thresholds: Callable[[int], ThresholdSource]) -> None:
        self._thresholds = thresholds

    def near(self, threshold: float, log_value: float, nats: float) -> tuple[ThresholdSource, ...]:
        """Return one source of tests near a threshold (nats), with enough bits for errors of e^-nats of e^log_value.

        An exponent of the size of ln(value) or of the threshold costs the digits before its decimal point. A small
        value costs no digits, because tails are computed relative to themselves. The factor 2 covers mu =
        (exponent)^(1/2), and profiles, which lose as many digits again as differences of two tails. Raises
        UnsupportedCombination if too many bits would be needed.
        """
        exponent = 2 + abs(log_value) + abs(threshold)
        precision = nats / math.log(2) + 2 * math.log2(exponent) + 80
        if not precision <= MOST_BITS:
            raise out_of_reach("the required precision exceeds the limit of the engine.")
        return (self._thresholds(math.ceil(precision)),)

    def guess(self, false_positive_rate: float) -> float:  # noqa: ARG002 - as that of `LineSources`
        """Return 0 for every rate, the threshold (nats) at which a search starts: closed forms allow any start."""
        return 0.0


@final
class LineSources:
    """Factory of sources that compute rate and power of the test S > c of a loss S along inversion contours.

    A source is planned for a range of thresholds c and cached. There are two of them for each range, with different
    tilts and different nodes of the moments of one step, so that a search can compare their results.
    """

    def __init__(self, run: GroundTruthRun, guide: ContourGuide, *, reflected: bool) -> None:
        self._run, self._guide, self._reflected = run, guide, reflected
        self._kept = lru_cache(maxsize=_LARGEST_LINES)(self._contours)

    def near(self, threshold: float, log_value: float, nats: float) -> tuple[ThresholdSource, ...]:
        """Return two contours for tests near the threshold (nats), with errors of e^-nats relative to e^{log_value}.

        Each suffices alone, and a search compares their results. The contours have different tilts. e^{log_value} is
        about the size of the number that the contours compute.

        Raises UnsupportedCombination if a contour would need too many nodes.
        """
        spacing = 0.5 * self._guide.deviation
        key = (round(threshold / spacing), math.floor(log_value / 4), math.ceil(nats))
        return self._kept(key[0] * spacing, 0.51 * spacing, 4.0 * key[1], float(key[2]))

    def guess(self, false_positive_rate: float) -> float:
        """Return the threshold (nats) at which Chernoff's bound of the tail equals the false positive rate."""
        upper = false_positive_rate < 0.5
        log_tail = math.log(false_positive_rate) if upper else math.log1p(-false_positive_rate)
        return self._guide.chernoff_threshold(log_tail, upper=upper, reflected=self._reflected)

    def _contours(self, center: float, half_width: float, log_value: float, nats: float) -> tuple[ThresholdSource, ...]:
        guide = self._guide
        # e^{scale + K(s) - s c} is the size of the integral of P1(S > c) on a contour; s, c in the add direction.
        c, scale = (-center, 0.0) if self._reflected else (center, center)
        base = nats + scale - log_value
        tilt = guide.best_tilt(c, base)
        deviation = guide.tilted_deviation(tilt)
        if not deviation > 0:
            raise out_of_reach("the variance of its loss is too small or too large.")
        plans = [
            guide.plan(s, c, half_width, max(base + guide.excess(s, c), nats), second=second)
            for s, second in ((tilt, False), (tilt + 0.37 / deviation, True))
        ]
        return tuple(BallContour(self._run, plan, reflected=self._reflected) for plan in plans)


Sources: TypeAlias = ClosedSources | LineSources
"""Factory of sources of tests (`ThresholdSource`) near a threshold of the loss."""
