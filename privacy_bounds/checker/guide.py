"""Choices of contours, windows and node counts in doubles. Nothing is proved from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final

from flint import arb

from privacy_bounds.checker.steps import Direction, NotDecided, Run, Step, growth

LARGEST_COUNT: Final = 100_000
"""Largest count of nodes on a contour that is considered."""


class Guide:
    """Choices of the parameters of a `Contour` in double precision. Nothing is proved from them."""

    def __init__(self, run: Run, direction: Direction, near: float = 0.0, nats: int = 0) -> None:
        self.steps, self.mu_squared = run
        self.flip, self.nats, self._near = direction == "remove", nats + 12.0, near
        self._cells: dict[tuple[Step, float], dict[int, tuple[float, float, float]]] = {}

    def place_contour(self) -> None:
        """Choose the contour: its line theta, the distance h of nodes and their count.

        Choose also the exponents of the bounds in section 2 of the proof (package docstring).
        """
        self.theta = 1 + _minimise(lambda x: self.log_chernoff(1 + x) - math.log(x) - math.log1p(x))
        top = self.log_chernoff(self.theta) - math.log(self.theta) - math.log(self.theta - 1)
        self._target = top - self.nats

        def period(shift: float) -> float:
            return (self.log_chernoff(self.theta + shift) - self._target) / abs(shift)

        self.above = self.theta + _minimise(period)
        self.below = -_minimise(lambda x: period(-self.theta - x))
        self.h = 2 * math.pi / max(period(self.above - self.theta), period(self.below - self.theta))
        scales = [math.sqrt(2 * self.nats) * 2 ** (k / 2) for k in range(-4, 5, 2)]
        end, self._scale = min((self._end(scale), scale) for scale in scales)
        if not end < LARGEST_COUNT * self.h:
            raise NotDecided("the transform of the loss falls too slowly: steps are few, or sample too rarely")
        self.count = math.ceil(end / self.h)
        self.more_bits = (
            32 + sum(step.count for step in self.steps).bit_length() + max(0, int(math.log2(end + self.theta)))
        )

    def eta(self, step: Step, scale: float | None = None) -> float:
        """Return how far the path of the integral M of a step moves up, for the bound of omitted nodes.

        M is the transform of the loss. `scale` is the distance for a single step.
        """
        return min(0.45 * math.pi / float(max(step.means)), (scale or self._scale) / math.sqrt(step.count))

    def strip(self, step: Step) -> float:
        """Return how far the path moves up for the error bound of the trapezoidal sum of a step.

        The sum computes the transform of the step's loss.
        """
        return min(0.45 * math.pi / float(max(step.means)), math.sqrt(2 * (self.nats + math.log(step.count))))

    def window(self, step: Step, u: float) -> tuple[float, float]:
        """Return an interval of outcomes y beyond which the integrand for a step is negligible.

        The integral is the transform M(u) of the step's loss.
        """
        strip = self.strip(step)
        ends: list[float] = []
        nats = self.nats * (1 + 1 / step.count) + math.log(step.count) - self.log_moment(step, u)
        for side in (-1, 1):
            height, slope = map(float, growth(step, arb(u), strip, side))
            ends.append(max(1.0, slope + math.sqrt(max(2 * (height + nats) + slope**2, 1.0)) + 1))
        return -ends[0], ends[1]

    def spacing(self, step: Step, u: float, log_bound: float) -> float:
        """Return the distance of the nodes of a trapezoidal sum for one step.

        The sum computes the transform M(u) of the step's loss. `log_bound` is ln of its error bound without the factor
        that depends on the distance.
        """
        nats = log_bound - self.log_moment(step, u) + self.nats + math.log(step.count)
        return math.pi * self.strip(step) / max(nats, 10.0)

    def log_moment(self, step: Step, u: float, t: float = 0.0, eta: float = 0.0) -> float:
        """Return approximate ln B(u, t, eta), the bound of |M(u + it)| for the transform M of a step's loss.

        For t = eta = 0 it is ln M(u). B is an integral along y + i eta (section 3 of the proof).
        """
        spacing = min(0.1, 0.3 / float(max(step.means)))
        cells = self._cells.setdefault((step, eta), {})
        reach = [12 + max(0.0, float(growth(step, arb(u), 0.0, side)[1])) for side in (-1, 1)]
        if sum(reach) > 40_000 * spacing:
            raise NotDecided("the noise is too small, or the claim too far in a tail")
        exponents: list[float] = []
        for j in range(-int(reach[0] / spacing), int(reach[1] / spacing) + 1):
            if j not in cells:
                right = _log_ratio_in_doubles(step, j * spacing, eta)
                left = _log_ratio_in_doubles(step, -j * spacing, -eta) if step.mirrored else (0.0, 0.0)
                cells[j] = right[0], left[0], right[1] - left[1]
            one, other, angle = cells[j]
            exponents.append(u * one + (1 - u) * other - t * angle - (j * spacing) ** 2 / 2)
        top = max(exponents)
        total = math.fsum(math.exp(x - top) for x in exponents) * spacing / math.sqrt(2 * math.pi)
        return eta**2 / 2 + top + math.log(total)

    def log_chernoff(self, theta: float) -> float:
        """Return approximate ln(M(theta) e^{-(theta - 1) eps}) for the transform M of the run's loss."""
        u = 1 - theta if self.flip else theta
        total = float(self.mu_squared) * theta * (theta - 1) / 2 - (theta - 1) * self._near
        return total + sum(step.count * self.log_moment(step, u) for step in self.steps)

    def _end(self, scale: float) -> float:
        """Return the smallest height T on the contour beyond which all nodes are negligible.

        `scale` is the distance by which the path moves for a single step.
        """
        u = 1 - self.theta if self.flip else self.theta

        def excess(t: float) -> float:
            total = float(self.mu_squared) * (self.theta * (self.theta - 1) - t * t) / 2 - (self.theta - 1) * self._near
            moments = (s.count * self.log_moment(s, u, t, self.eta(s, scale)) for s in self.steps)
            return total + sum(moments) - math.log(t) - self._target

        end = self.h
        while excess(end) > 0 and end < LARGEST_COUNT * self.h:
            end *= 1.2
        return end


def _log_ratio_in_doubles(step: Step, y: float, eta: float) -> tuple[float, float]:
    """Return approximate real and imaginary parts of a step's log-likelihood ratio at the outcome y + i eta."""
    real = imaginary = 0.0
    for weight, mean in zip(step.weights, step.means, strict=True):
        w, m = float(weight), float(mean)
        x = m * y - m * m / 2
        if x > 300:
            return x + math.log(w), m * eta
        real += w * (math.expm1(x) - 2 * math.exp(x) * math.sin(m * eta / 2) ** 2)
        imaginary += w * math.exp(x) * math.sin(m * eta)
    return math.log1p(2 * real + real * real + imaginary * imaginary) / 2, math.atan2(imaginary, 1 + real)


def _minimise(function: Callable[[float], float]) -> float:
    """Return approximately the x > 0 with the smallest value of `function`, which has one minimum in ln x."""
    x, golden = 1.0, (math.sqrt(5) - 1) / 2
    for factor in (4.0, 0.25):
        while function(x * factor) < function(x):
            x *= factor
            if not 1e-40 < x < 1e40:
                raise NotDecided("no saddle point was found")
    low, high = math.log(x / 4), math.log(x * 4)
    for _ in range(14):
        one, two = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, two) if function(math.exp(one)) < function(math.exp(two)) else (one, high)
    return math.exp((low + high) / 2)


def threshold(run: Run, direction: Direction, alpha: float) -> tuple[float, float]:
    """Return the approximate threshold of the loss at the false positive rate `alpha`, and the spread of the loss."""
    guide, score = Guide(run, direction), -NormalDist().inv_cdf(alpha)

    def rate_and_slope(theta: float) -> tuple[float, float]:
        one, two = guide.log_chernoff(theta * 1.0001), guide.log_chernoff(theta * 0.9999)
        slope = (one - two) / (0.0002 * theta)
        return max(2 * theta * slope - one - two, 1e-300), slope

    sign, wanted = math.copysign(1.0, score), math.log(max(score**2, 1e-12))
    theta = sign * _minimise(lambda x: abs(math.log(rate_and_slope(sign * x)[0]) - wanted))
    upper, lower = rate_and_slope(theta * 1.001)[1], rate_and_slope(theta * 0.999)[1]
    return (upper + lower) / 2, math.sqrt(abs((upper - lower) / (0.002 * theta)))
