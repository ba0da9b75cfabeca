"""Where thresholds of a ground truth come from: closed forms for one step and for Gaussian steps, lines for runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, final

from flint import arb, ctx

from service.privacy.composition.ground_truth.layout import LineGuide
from service.privacy.composition.ground_truth.line import BallLine, GroundTruthRun, Threshold
from service.privacy.composition.ground_truth.mixture_threshold import normal_tail
from service.privacy.composition.ground_truth.nodes import out_of_reach
from service.privacy.numerics.balls import ball

MOST_BITS = 20_000
"""Precision up to which a closed form takes milliseconds and kilobytes: retries for lost digits end there."""

_LARGEST_LINES = 24
"""Lines kept for further readings nearby."""


class ThresholdSource(Protocol):
    """Gives the test S > c for any exact threshold."""

    @property
    def bits(self) -> int:
        """The precision of its balls."""
        ...

    def at(self, threshold: arb) -> Threshold:
        """False positive rate, power and (about) density of S under H0 at the threshold."""
        ...


class Sources(Protocol):
    """Finds sources for readings near a threshold."""

    def near(self, threshold: float, log_value: float, nats: float) -> tuple[ThresholdSource, ...]:
        """Independent sources, with errors about e^-nats of a value e^{log_value} read near `threshold`."""
        ...

    def guess(self, false_positive_rate: float) -> float:
        """A rough threshold for a rate in (0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianThresholds:
    """S ~ N(-mu^2/2, mu^2) under H0 and N(mu^2/2, mu^2) under H1."""

    mu_squared: Fraction
    bits: int

    def at(self, threshold: arb) -> Threshold:
        """By the normal law."""
        with ctx.workprec(self.bits):
            mu = ball(self.mu_squared).sqrt()
            score = threshold / mu + mu / 2
            density = (-score * score / 2).exp() / (mu * (2 * arb.pi()).sqrt())
            return Threshold(normal_tail(score), normal_tail(score - mu), normal_tail(mu - score), density)


@final
class ClosedSources:
    """Closed forms with as many bits as are needed. `thresholds` gives the source with a number of bits."""

    def __init__(self, thresholds: Callable[[int], ThresholdSource]) -> None:
        self._thresholds = thresholds

    def near(self, threshold: float, log_value: float, nats: float) -> tuple[ThresholdSource, ...]:
        """One source: nothing is approximated.

        An exponent of the size of ln(value) or of the threshold costs its own digits before the point; how small the
        value is costs none, for tails are computed relative to themselves. The square is for mu = (exponent)^(1/2) and
        for profiles, which lose as much again as differences of two tails.
        """
        exponent = 2 + abs(log_value) + abs(threshold)
        precision = nats / math.log(2) + 2 * math.log2(exponent) + 80
        if not precision <= MOST_BITS:
            raise out_of_reach("it would take more precision than is worth waiting for.")
        return (self._thresholds(math.ceil(precision)),)

    def guess(self, false_positive_rate: float) -> float:  # noqa: ARG002 - of the protocol
        """The middle of everything: closed forms are searched from anywhere."""
        return 0.0


@final
class LineSources:
    """Two lines at different tilts with different inner nodes, laid out for a range of thresholds and kept."""

    def __init__(self, run: GroundTruthRun, guide: LineGuide, *, reflected: bool) -> None:
        self._run, self._guide, self._reflected = run, guide, reflected
        self._kept: dict[tuple[int, int, int], tuple[ThresholdSource, ...]] = {}

    def near(self, threshold: float, log_value: float, nats: float) -> tuple[ThresholdSource, ...]:
        """Two lines. Raises UnsupportedCombination where they would be too long."""
        spacing = 0.5 * self._guide.deviation
        key = (round(threshold / spacing), math.floor(log_value / 4), math.ceil(nats))
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _LARGEST_LINES:
                self._kept.pop(next(iter(self._kept)))
            found = self._lines(key[0] * spacing, 0.51 * spacing, 4.0 * key[1], float(key[2]))
            self._kept[key] = found
        return found

    def guess(self, false_positive_rate: float) -> float:
        """By Chernoff's bound, taken as an equation."""
        upper = false_positive_rate < 0.5
        log_tail = math.log(false_positive_rate) if upper else math.log1p(-false_positive_rate)
        return self._guide.chernoff_threshold(log_tail, upper=upper, reflected=self._reflected)

    def _lines(self, center: float, reach: float, log_value: float, nats: float) -> tuple[ThresholdSource, ...]:
        guide = self._guide
        # e^{scale + K(s) - s c} is the size of the integral behind P1(S > c) on a line; s, c in the add direction.
        c, scale = (-center, 0.0) if self._reflected else (center, center)
        base = nats + scale - log_value
        tilt = guide.best_tilt(c, base)
        deviation = guide.tilted_deviation(tilt)
        if not deviation > 0:
            raise out_of_reach("its loss varies too little or too much.")
        plans = [
            guide.plan(s, c, reach, max(base + guide.excess(s, c), nats), second=second)
            for s, second in ((tilt, False), (tilt + 0.37 / deviation, True))
        ]
        return tuple(BallLine(self._run, plan, reflected=self._reflected) for plan in plans)
