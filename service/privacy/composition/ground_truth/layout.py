"""Layout of a contour in ball arithmetic: position, step and length, chosen in doubles.

No proof uses these numbers. A poor choice only makes the radius of the result larger. All tilts in this module (real
parts of contours) are those of the add direction; `BallContour` reflects them for remove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.composition.ground_truth.mixture_guide import LARGEST_POWERS, MixtureGuide
from service.privacy.composition.ground_truth.nodes import ShiftedNodes, out_of_reach
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected

LARGEST_PRODUCTS = 15_000_000
"""Largest count of contour nodes times inner nodes, over all parts; each takes about 0.1 microseconds at 250 bits."""
_SLACK = 14.0
"""Margin in nats for terms that the estimates of the plan neglect."""
_BLOCK_RATIO = 8.0
_LARGEST_BLOCKS = 12
_HIGHEST = 1e140
"""Largest height. If rounding destroys a variance, no contour ends below this height, and squares overflow above it."""


@dataclass(frozen=True, slots=True)
class PartPlan:
    """Quadrature nodes of the moments M(z) = E0 e^{zL} of one kind of step with the loss L.

    `on_contour` serves M on the contour. `aliases` serve M at its tilt, which is first, and at the tilts that bound the
    aliases. `majorants` serve the majorants of |M|. A majorant is a pair (eta, nodes) for each height, an integral on
    the path Im y = eta of complex outcomes y.
    """

    on_contour: ShiftedNodes
    aliases: tuple[ShiftedNodes, ...]
    majorants: tuple[tuple[float, ShiftedNodes], ...]


@dataclass(frozen=True, slots=True)
class ContourPlan:
    """Contour Re z = tilt (add direction) with nodes z_k = tilt + i k step, 0 <= k < length.

    `step` is the distance of the nodes, and `bits` the precision. `parts` has the nodes of the moments of each kind of
    step. The other fields serve error bounds: `alias_tilts` those of the aliases of the trapezoid sum, and `heights`
    that of its truncation.
    """

    tilt: float
    step: float
    length: int
    bits: int
    alias_tilts: tuple[float, ...]
    heights: tuple[float, ...]
    parts: tuple[PartPlan, ...]


class ContourGuide:
    """Run in doubles, which chooses contours: mixtures of shifted Gaussians, and Gaussian steps of total mu^2.

    S is the loss of the run and K(z) = ln E0 e^{zS} its log-moment function.
    """

    def __init__(self, parts: tuple[MixtureGuide, ...], gaussian_mu_squared: float) -> None:
        self.parts, self._mu2 = parts, gaussian_mu_squared
        self.deviation = math.sqrt(float(self.cumulants(np.array([0.5]))[1][0]))
        if not 1e-100 < self.deviation < 1e6:
            raise out_of_reach("the variance of its loss is too small or too large.")
        offsets = np.geomspace(min(0.01 / self.deviation, 0.05), 60.0 / min(self.deviation, 1.0), 150)
        self._tilts = 0.5 + np.concatenate([-offsets[::-1], offsets])
        self._values, self._variances = self.cumulants(self._tilts)

    def cumulants(self, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return K and K'' at real tilts, in their shape, for the log-moment function K of the run."""
        value, variance = 0.5 * self._mu2 * (tilts * tilts - tilts), np.full_like(tilts, self._mu2)
        for part in self.parts:
            log_moment, part_variance = part.log_moments(tilts)
            value, variance = value + part.count * log_moment, variance + part.count * part_variance
        return value, variance

    def log_majorant(self, tilt: float, height: float) -> float:
        """Return an estimate, without proof, of ln of the largest |e^{K(tilt + it) - K(tilt)}| with t >= height.

        K is the log-moment function of the run. The estimate only serves to choose heights.
        """
        total = -0.5 * self._mu2 * height**2
        return total + sum(part.count * min(part.log_majorant(tilt, height)[0], 0.0) for part in self.parts)

    def best_tilt(self, threshold: float, need: float) -> float:
        """Return the tilt of the table with the least expensive contour for the loss S near a threshold (nats).

        The tilt is at the saddle point of the threshold, or nearer to the center of the law. Errors are `need` nats
        below e^{K(s) - s threshold} at the saddle point s, with the log-moment function K of the run.
        """
        excess = self._values - self._tilts * threshold
        excess = excess - excess.min()
        needs = np.maximum(need + excess, 1.0)
        heights = np.sqrt(2 * needs) / np.sqrt(np.maximum(self._variances, 1e-300))
        left, right = self._periods(self._tilts, self._values, needs, threshold, 0.0)
        rough = np.where(excess < 400.0 + 2 * abs(need), heights * np.maximum(left, right), np.inf)
        order = np.argsort(rough)[:40:8]
        exact = [
            self._height(float(self._tilts[i]), float(needs[i])) * max(float(left[i]), float(right[i])) for i in order
        ]
        return float(self._tilts[order[int(np.argmin(exact))]])

    def excess(self, tilt: float, threshold: float) -> float:
        """Return K(tilt) - tilt threshold, the logarithm of Chernoff's bound of a tail.

        K is the log-moment function of the run.
        """
        return float(self.cumulants(np.array([tilt]))[0][0]) - tilt * threshold

    def chernoff_threshold(self, log_tail: float, *, upper: bool, reflected: bool) -> float:
        """Return the threshold c (nats) at which Chernoff's bound of P0(S > c), or of P0(S <= c), is e^{log_tail}.

        S is the loss of the run. `upper` selects P0(S > c), and `reflected` the remove direction.
        """
        slopes = np.gradient(self._values, self._tilts)
        tilts, thresholds = (1 - self._tilts, -slopes) if reflected else (self._tilts, slopes)
        distance = np.abs(self._values - tilts * thresholds - log_tail)
        best = np.where(tilts > 0 if upper else tilts < 0, distance, np.inf).argmin()
        return float(thresholds[best])

    def tilted_deviation(self, tilt: float) -> float:
        """Return the standard deviation sqrt(K''(tilt)) of the loss S under the law tilted by e^{tilt S}, nats."""
        return math.sqrt(float(self.cumulants(np.array([tilt]))[1][0]))

    def _periods(
        self, tilts: FloatArray, values: FloatArray, need: FloatArray, threshold: float, half_width: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the smallest periods T = 2 pi/h that bring the aliases on both sides below e^-need, for each tilt.

        h is the distance of the contour's nodes. `values` are the log-moment function K at the tilts, and thresholds
        lie within `half_width` of `threshold`. Both arrays have the shape of `tilts`.
        """
        gap = self._tilts - tilts[:, None]
        exponent = self._values - values[:, None] - gap * threshold + np.abs(gap) * half_width + need[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            period = np.maximum(exponent, 0.0) / np.abs(gap)
        return (
            np.where(gap < 0, period, np.inf).min(axis=1),
            np.where(gap > 0, period, np.inf).min(axis=1),
        )

    def _height(self, tilt: float, need: float) -> float:
        """Return the imaginary part above which the majorant of the integrand on Re z = `tilt` is below e^-need.

        The result is infinite if no height up to a limit reaches it.
        """
        low = 0.5 * math.sqrt(2 * need) / max(self.tilted_deviation(tilt), 1e-150)
        high = low
        if not high < _HIGHEST:
            return math.inf
        for _ in range(30):
            high *= 1.5
            if self.log_majorant(tilt, high) < -need:
                break
        else:
            return math.inf
        return bisected(
            lambda height: self.log_majorant(tilt, height) < -need,
            high / 1.5,
            high,
            5,
            between=lambda low, high: math.sqrt(low * high),
        )[1]

    def plan(self, tilt: float, threshold: float, half_width: float, need: float, second: bool) -> ContourPlan:
        """Plan a contour for thresholds within `half_width` of `threshold`.

        Parameters
        ----------
        tilt : float
            Real part of the contour.
        threshold, half_width : float
            Middle and half-width of the range of thresholds, in nats.
        need : float
            Errors are e^-need times e^{K(tilt) - tilt threshold}.
        second : bool
            Whether to use other inner nodes, so that two contours share no node.

        Raises
        ------
        UnsupportedCombination
            Before any allocation, if the contour would be too long.
        """
        need += _SLACK
        values, _ = self.cumulants(np.array([tilt]))
        left, right = self._periods(np.array([tilt]), values, np.array([need]), threshold, half_width)
        height = self._height(tilt, need)
        step = 2 * math.pi / (max(float(left[0]), float(right[0])) * 1.02)
        if not (math.isfinite(height) and step > 0 and height / step < LARGEST_PRODUCTS):
            raise out_of_reach("its contour needs too many quadrature nodes.")
        length = math.ceil(height / step) + 2
        fineness, offset = (0.93, 0.5) if second else (1.0, 0.0)
        lines = [part.line_nodes(tilt, need + math.log(part.count), fineness, offset) for part in self.parts]
        cancels = max((nats for _, nats in lines), default=0.0)
        terms = (
            length * max((part.count for part in self.parts), default=1) * max((len(n) for n, _ in lines), default=1)
        )
        bits = math.ceil((need + cancels + math.log(terms)) / math.log(2)) + 24
        inner, columns = sum(len(nodes) for nodes, _ in lines), 2 * math.isqrt(length) + 2
        if inner * length * max(bits / 250, 1.0) > LARGEST_PRODUCTS or inner * columns > LARGEST_POWERS:
            raise out_of_reach("its contour needs too many quadrature nodes.")
        heights = self._block_heights(tilt, (length - 1) * step * (1 - 2.0**-50), need)
        aliases = self._alias_tilts(tilt, float(values[0]), threshold, 2 * math.pi / step)
        parts = tuple(
            PartPlan(
                nodes,
                tuple(part.real_nodes(s, 12 + math.log(part.count)) for s in (tilt, *aliases)),
                tuple(self._majorant_nodes(part, tilt, t) for t in heights),
            )
            for part, (nodes, _) in zip(self.parts, lines, strict=True)
        )
        return ContourPlan(tilt, step, length, bits, aliases, heights, parts)

    def _block_heights(self, tilt: float, first: float, need: float) -> tuple[float, ...]:
        heights = [first]
        while len(heights) < _LARGEST_BLOCKS and self.log_majorant(tilt, heights[-1]) > -2 * need - 20:
            heights.append(heights[-1] * _BLOCK_RATIO)
        return (*heights, heights[-1] * _BLOCK_RATIO)

    def _majorant_nodes(self, part: MixtureGuide, tilt: float, height: float) -> tuple[float, ShiftedNodes]:
        value, eta = part.log_majorant(tilt, height)
        return eta, part.real_nodes(tilt, 12 + math.log(part.count) + min(max(-value, 0.0), 200.0), eta)

    def _alias_tilts(self, tilt: float, value: float, threshold: float, period: float) -> tuple[float, ...]:
        """Return tilts for Chernoff's bound of the aliases: the best on each side of the contour, and its neighbours.

        Aliases are the errors of the trapezoid sum along the contour. `value` is the log-moment function at the tilt of
        the contour, and `period` is 2 pi/(distance of its nodes). `threshold` is the loss in nats for which the contour
        is laid out.
        """
        gap = self._tilts - tilt
        exponent = self._values - value - gap * threshold - np.abs(gap) * period
        chosen: list[float] = []
        for side in (gap < 0, gap > 0):
            indices = np.flatnonzero(side)
            best = int(exponent[indices].argmin())
            chosen += [float(self._tilts[i]) for i in indices[max(best - 2, 0) : best + 3 : 2]]
        return tuple(chosen)
