"""Where thresholds of a ground truth come from: closed forms for one step and for Gaussian steps, lines for runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, final

from flint import arb, ctx

from service.privacy.composition.ground_truth.layout import LineGuide
from service.privacy.composition.ground_truth.line import BallLine, GroundTruthRun, Threshold
from service.privacy.composition.ground_truth.mixture_steps import ExactMixtureSteps
from service.privacy.composition.ground_truth.mixture_threshold import MixtureThresholds
from service.privacy.composition.ground_truth.moments import ExactSteps
from service.privacy.composition.ground_truth.nodes import out_of_reach
from service.privacy.composition.ground_truth.normal import normal_tail
from service.privacy.composition.ground_truth.step import ExactStep
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


@dataclass(frozen=True, slots=True)
class SampledStepThresholds:
    """One sampled step: L increases in y, so S > c is y > y(c) (add) or y < y(-c) (remove, where S = -L)."""

    step: ExactStep
    reflected: bool
    bits: int

    def at(self, threshold: arb) -> Threshold:
        """By the normal law; L > ln(1 - p) always."""
        with ctx.workprec(self.bits):
            sigma, rate = ball(self.step.noise_multiplier), ball(self.step.sample_rate)
            loss = -threshold if self.reflected else threshold
            above = loss.expm1() / rate + 1
            if not above > 0:
                surely = arb(0) if self.reflected else arb(1)
                return Threshold(surely, surely, 1 - surely, arb(0))
            y = sigma * above.log() + 1 / (2 * sigma)
            slope = sigma * loss.exp() / (rate * above)
            density = slope * (-y * y / 2).exp() / (2 * arb.pi()).sqrt()
            side = -1 if self.reflected else 1
            null, mixed = self._tails(side * y, side / sigma)
            missed_null, missed_mixed = self._tails(-side * y, -side / sigma)
            if self.reflected:
                return Threshold(mixed, null, missed_null, density * loss.exp())
            return Threshold(null, mixed, missed_mixed, density)

    def _tails(self, y: arb, shift: arb) -> tuple[arb, arb]:
        """P(N(0, 1) > y), and its mixture with P(N(0, 1) > y - shift)."""
        rate, plain = ball(self.step.sample_rate), normal_tail(y)
        return plain, (1 - rate) * plain + rate * normal_tail(y - shift)


@final
class ClosedSources:
    """The closed forms, with as many bits as are asked for."""

    def __init__(self, law: Fraction | ExactSteps, *, reflected: bool) -> None:
        """`law`: mu^2 of Gaussian steps, or a single sampled step or mixture."""
        self._law, self._reflected = law, reflected

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
        bits = math.ceil(precision)
        if isinstance(self._law, Fraction):
            return (GaussianThresholds(self._law, bits),)
        if isinstance(self._law, ExactMixtureSteps):
            return (MixtureThresholds(self._law.mixture, self._reflected, bits),)
        if isinstance(self._law, ExactStep):
            return (SampledStepThresholds(self._law, self._reflected, bits),)
        raise out_of_reach("no closed form of its only step is known.")

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
        plans = [
            guide.plan(s, c, reach, max(base + guide.excess(s, c), nats), second=second)
            for s, second in ((tilt, False), (tilt + 0.37 / guide.tilted_deviation(tilt), True))
        ]
        return tuple(BallLine(self._run, plan, reflected=self._reflected) for plan in plans)
