"""Moment generating functions of Poisson-sampled Laplace steps, with every error bounded.

One step with e = sensitivity/scale and sampling rate p has the likelihood ratio w(v) = 1 - p + p e^v, where v is the
loss without sampling. Under H0 v is -e with probability 1/2 and e with probability e^-e/2. Between them it has the
density e^{-(v+e)/2}/4. So M(z) = E0 w^z has two atoms and an integral over [-e, e], evaluated by Gauss-Legendre
quadrature on panels of half width b = e/panels. The integrand f is analytic for |Im v| < pi. Take the ellipse with foci
at the ends of a panel and semi-axes b (r + 1/r)/2, b (r - 1/r)/2 for r > 1. The error of n + 1 nodes is then below b
(64/15) sup |f| r^{-2n}/(1 - r^-2) (Trefethen 2013, Approximation Theory and Approximation Practice, Theorem 19.3). On
the ellipse, with the responsibility rho:

    |w(v)| <= w(Re v),    |w(v)| >= w(Re v) max(cos(Im v/2), 1 - 2 rho sin^2(Im v/2)),    rho = p e^{Re v}/w(Re v),
    |arg w(v)| <= min(|Im v|, arcsin(p e^{Re v}/(1 - p))).

Steep laws and high contours have more panels and nodes (`SampledLaplaceParts.refined`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import RealCumulants, RunScale, Summand, TruncatedSummand
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.gauss_legendre import PLACE_ERROR, WEIGHT_ERROR, gauss_legendre
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

NODES = (16, 24, 32, 48, 64, 96, 128)
MOST_PANELS = 1024
_HEIGHT = 14.0
_TILT = 15.0
"""Largest tilt and height, over the deviation of the loss, of contours for which the nodes are chosen."""
_NEGLIGIBLE = 1e-20
"""Error of a transform, over the number of steps, below which more nodes do not matter."""
_RATIOS = np.array([0.08, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95])
"""Imaginary parts of the ellipses that are tried, over pi."""
_POSITION_ERROR = PLACE_ERROR + 4 * UNIT_ROUNDOFF
"""Error of positions on panels, over e."""
_LARGEST_AXIS = 12.0
"""Largest semi-axis of the ellipses, over b."""


@dataclass(frozen=True, slots=True)
class LaplaceSteps(Summand):
    """Equal Laplace steps, `count` of them, with the largest loss `largest_loss` (nats) before sampling.

    Each step uses the record with probability `sample_rate`, 0 < `sample_rate` <= 1.
    """

    decays = False
    rank = 1

    largest_loss: float
    sample_rate: float
    count: int

    @property
    @override
    def spread(self) -> float:
        return self.sample_rate * self.largest_loss

    @property
    @override
    def loss_range(self) -> tuple[float, float]:
        low, high = np.log1p(self.sample_rate * np.expm1(np.array([-self.largest_loss, self.largest_loss]))).tolist()
        return self.count * low, self.count * high


class SampledLaplaceParts(TruncatedSummand):
    """Law of parts of a run, each of them N_i equal sampled Laplace steps (e_i, p_i), 0 < p_i <= 1.

    The law is a summand of the run's log-moment function K(z) = ln E0 e^{zS}. e is the largest loss of a step without
    sampling, p the sampling rate, and v in [-e, e] the loss without sampling. L = ln w is the loss of a step, with the
    likelihood ratio w = 1 - p + p e^v, and M(z) = E0 e^{zL} its transform. Arrays have shape (parts, nodes): the lower
    atom v = -e, the nodes of the quadrature rules on panels, and the upper atom v = e.

    Parameters
    ----------
    steps : tuple of LaplaceSteps
        Steps of any losses and rates.
    deviation : float or None
        Approximate standard deviation of the loss of a run whose other steps make its transform decay. None where the
        Laplace steps alone have to make it decay.
    rule : (int, int) or None
        Number of panels, and nodes of each panel. None for as many as low contours need.
    """

    decays = False

    def __init__(
        self, steps: tuple[LaplaceSteps, ...], deviation: float | None = None, rule: tuple[int, int] | None = None
    ) -> None:
        self._steps = steps
        self.decay_alone = deviation is None
        """Whether these steps alone have to make the transform of the run decay."""
        self.scale = np.array([step.largest_loss for step in steps])
        self.rate = np.array([step.sample_rate for step in steps])
        self.count = np.array([step.count for step in steps], dtype=np.float64)
        self._finer: dict[tuple[int, int], SampledLaplaceParts] = {}
        if rule is None:
            own = max(math.sqrt(float(self.count @ np.minimum(self.rate * self.scale, 1.0) ** 2)), 1e-3)
            spread = max(own, deviation or 0.0)
            tilts = np.array([-_TILT, _TILT]) / spread + np.array([0.0, 1.0])
            rule = self._enough(tilts, _HEIGHT / spread, math.log(_NEGLIGIBLE / float(self.count.sum())), (1, NODES[0]))
        self._set_rule(*rule)

    @classmethod
    @override
    def of_group(cls, group: tuple[LaplaceSteps, ...], digits: float, scale: RunScale) -> SampledLaplaceParts:
        return SampledLaplaceParts(group, scale.deviation if scale.decays else None)

    def refined(self, theta: float, height: float, goal: float = _NEGLIGIBLE) -> SampledLaplaceParts:
        """Return the law with as many quadrature nodes as a contour Re z = `theta` needs up to `height`.

        The quadrature errors of the transforms M of all steps add up to less than `goal` (absolute), if the largest
        allowed number of nodes suffices. `log_quadrature_error` has the bound in any case.
        """
        rule = self._rule_for(theta, height, goal)
        if rule == (self._panels, self._degree + 1):
            return self
        if rule not in self._finer:
            self._finer[rule] = SampledLaplaceParts(self._steps, rule=rule)
        return self._finer[rule]

    def refined_size(self, theta: float, height: float) -> int:
        """Return the number of array elements (parts times nodes) of the result of `refined`, without building it.

        The grid serves the contour Re z = theta (the tilt) up to the imaginary part `height`.
        """
        panels, nodes = self._rule_for(theta, height, _NEGLIGIBLE)
        return len(self.count) * (panels * nodes + 2)

    def _rule_for(self, theta: float, height: float, goal: float) -> tuple[int, int]:
        known = self._panels, self._degree + 1
        return self._enough(np.array([theta]), height, math.log(goal / float(self.count.sum())), known)

    def only(self, part: int) -> SampledLaplaceParts:
        """Return the law of the steps of the part with this index."""
        return SampledLaplaceParts((self._steps[part],), rule=(self._panels, self._degree + 1))

    def _enough(self, tilts: FloatArray, height: float, goal: float, least: tuple[int, int]) -> tuple[int, int]:
        """Return the numbers of panels and of nodes per panel with a quadrature error below e^goal.

        The bound holds at all tilts and at the height `height` of a contour. `least` is the smallest allowed rule. If
        no rule reaches the goal, the largest one is returned.
        """
        panels = least[0]
        while True:
            bounds = PanelBounds(self.scale, self.rate, panels)
            found = (
                n
                for n in NODES
                if n >= least[1] and bounds.log_error(tilts, np.full((len(tilts), 1), height), n).max() < goal
            )
            nodes = next(found, None)
            if nodes is not None or panels >= MOST_PANELS:
                return panels, nodes or NODES[-1]
            panels *= 2

    def _set_rule(self, panels: int, nodes: int) -> None:
        self._panels, self._degree = panels, nodes - 1
        self._bounds = PanelBounds(self.scale, self.rate, panels)

    @cached_property
    def loss(self) -> FloatArray:
        """Loss L = ln(1 - p + p e^v) at the lower atom, the nodes and the upper atom, nats, shape (parts, nodes).

        The number of nodes counts both atoms. p is the sampling rate, and v the loss without sampling.
        """
        positions, _ = self._rule
        return np.log1p(self.rate[:, None] * np.expm1(self.scale[:, None] * positions))

    @cached_property
    def mass(self) -> FloatArray:
        """Masses under H0 of the atoms and nodes, shape (parts, nodes), with the relative error `mass_error`.

        The mass of a node is its density times its quadrature weight. The first and the last mass are those of the
        lower and of the upper atom, which `nodes` counts.
        """
        positions, weights = self._rule
        scale = self.scale[:, None]
        mass = 0.25 / self._panels * scale * weights * np.exp(-0.5 * scale * (1 + positions))
        mass[:, 0], mass[:, -1] = 0.5, 0.5 * np.exp(-self.scale)
        return mass

    @cached_property
    def _rule(self) -> tuple[FloatArray, FloatArray]:
        """Positions v/e in [-1, 1] of the atoms (first and last) and of the nodes, and quadrature weights.

        Both have the shape (nodes,), which counts the atoms. The weights are those of Gauss-Legendre sums over [-1, 1]
        for each panel, and 0 for the atoms. v is the loss of a step without sampling, and e its largest value.
        """
        positions, weights = gauss_legendre(self._degree + 1)
        centers = (2 * np.arange(self._panels) + 1) / self._panels - 1
        positions = (centers[:, None] + positions / self._panels).ravel()
        weights = np.tile(weights, self._panels)
        return np.concatenate([[-1.0], positions, [1.0]]), np.concatenate([[0.0], weights, [0.0]])

    @cached_property
    def mass_error(self) -> FloatArray:
        """Upper bound of the relative error of each H0-mass of a node or atom in `mass`, shape (parts, 1)."""
        rule = WEIGHT_ERROR * (self._degree + 1)
        return (rule + FUNCTION_ERROR + 8 * UNIT_ROUNDOFF + self.scale * (_POSITION_ERROR + 4 * UNIT_ROUNDOFF))[:, None]

    @cached_property
    def loss_error(self) -> FloatArray:
        """Upper bound of the absolute error of the loss L (nats), shape (parts, nodes).

        The bound has a part from the loss without sampling v = e x, where x is the position of a node and dL/dv the
        responsibility p e^v/w, and a part from the logarithm.
        """
        positions, _ = self._rule
        v = self.scale[:, None] * positions
        responsibility = self.rate[:, None] * np.exp(v - self.loss)
        moved = responsibility * (self.scale[:, None] * _POSITION_ERROR + 4 * UNIT_ROUNDOFF * np.abs(v))
        # 1 - p + p e^v may cancel. The error of expm1 and its product is relative to p |e^v - 1|.
        inner = (FUNCTION_ERROR + 2 * UNIT_ROUNDOFF) * np.abs(self.rate[:, None] * np.expm1(v)) * np.exp(-self.loss)
        return 1.1 * (moved + inner + FUNCTION_ERROR * np.abs(self.loss))

    @property
    @override
    def size(self) -> int:
        return self.loss.size

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return the log-moment function K(s) = ln E0 e^{sS} of all steps, with K' and K'', at the real tilts s.

        The shape is (tilts,). M(s) - 1 is summed where the loss L is small, so that its rounding is relative to
        E|e^{sL} - 1|.
        """
        weights, log_total, rounding = self.tilted(tilts)
        mean = (weights * self.loss).sum(axis=-1)
        square = (weights * (self.loss - mean[..., None]) ** 2).sum(axis=-1)
        discretisation = np.exp(self.log_quadrature_error(tilts, np.zeros((len(tilts), 1)))[:, 0] - log_total)
        relative = rounding + 2 * discretisation
        error = np.where(relative < 0.1, 1.1 * relative, np.inf) + 8 * FUNCTION_ERROR * np.abs(log_total)
        return RealCumulants(
            log_total @ self.count,
            mean @ self.count,
            square @ self.count,
            error @ self.count * 1.001,
            discretisation @ self.count,
        )

    def tilted(self, tilts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the laws tilted by e^{sL}, ln M(s), and a bound of the rounding error of ln M(s), at the tilts s.

        L is the loss of a step and M(s) = E0 e^{sL} its transform. The first array has the shape (tilts, parts, nodes)
        and rows of sum 1. The others have the shape (tilts, parts).
        """
        exponent = tilts[:, None, None] * self.loss
        shift = exponent.max(axis=-1)
        small = np.abs(exponent).max(axis=-1) < 1
        excess = self.mass * np.expm1(np.where(small[..., None], exponent, 0.0))
        terms = self.mass * np.exp(exponent - shift[..., None])
        total = terms.sum(axis=-1)
        by_excess = np.asarray(np.log1p(excess.sum(axis=-1)), dtype=np.float64)
        log_total = np.where(small, by_excess, shift + np.log(total))
        weights = terms / total[..., None]
        # A summand of M - 1 is below |s L| e times its tilted mass. A summand of M is the tilted mass itself.
        size = weights * np.where(small[..., None], np.minimum(np.abs(exponent) * math.e, 1.0), 1.0)
        through_loss = weights * np.abs(tilts)[:, None, None] * self.loss_error
        own = self.mass_error + FUNCTION_ERROR + (self.loss.shape[1] + 8) * UNIT_ROUNDOFF
        rounding = (size * (own + 2 * UNIT_ROUNDOFF * np.abs(exponent)) + 2 * through_loss).sum(axis=-1)
        return weights, log_total, rounding + 2 * UNIT_ROUNDOFF * np.abs(shift) * ~small

    def log_quadrature_error(self, tilts: FloatArray, heights: FloatArray) -> FloatArray:
        """Return ln of a bound of the quadrature error of M(s + i t), the transform of a step, shape (S, T, parts).

        The tilts s have the shape (S,) and the heights t the shape (S, T). S is the number of tilts, and T that of
        heights.
        """
        return self._bounds.log_error(tilts, heights, self._degree + 1)


class PanelBounds:
    """Bounds of the quadrature error of sampled Laplace steps on `panels` panels of [-e, e].

    e is the largest loss without sampling. The integrand is bounded on ellipses around each panel, for several ratios r
    of the ellipse; arrays have the shape (ratios, panels, parts). The module docstring of `sampled_laplace.py` states
    the bound.
    """

    def __init__(self, scale: FloatArray, rate: FloatArray, panels: int) -> None:
        b = scale / panels
        center = scale * ((2 * np.arange(panels) + 1) / panels - 1)[:, None]
        half = np.minimum(_RATIOS[:, None, None] * math.pi / b, _LARGEST_AXIS)
        self._ratio = half + np.sqrt(1 + half**2)
        # Slightly larger than the ellipse, for the rounding of its center.
        semi_axis, high = b * np.sqrt(1 + half**2) + 8 * UNIT_ROUNDOFF * scale, b * half
        left, right = center - semi_axis, np.minimum(center + semi_axis, 600.0)
        with np.errstate(divide="ignore", over="ignore"):
            turned = rate * np.exp(right) / (1 - rate)
        self._turn = np.minimum(high, np.arcsin(np.minimum(turned, 1.0)) + (turned >= 1) * math.pi)
        self._log_largest = np.log1p(rate * np.expm1(right))
        share = rate * np.exp(right - self._log_largest)
        turned_back = np.maximum(np.cos(0.5 * high), 1 - 2 * share * np.sin(0.5 * high) ** 2)
        self._log_smallest = np.log1p(rate * np.expm1(left)) + np.log(turned_back)
        self._log_factor = np.log(64 / 15 * b / 4) - 0.5 * (left + scale) - np.log1p(-(self._ratio**-2))

    def log_error(self, tilts: FloatArray, heights: FloatArray, nodes: int) -> FloatArray:
        """Return ln of a bound of the quadrature error of M(s + it) for `nodes` nodes on a panel, shape (S, T, parts).

        M is the transform of one step. The tilts s have the shape (S,) and the heights t the shape (S, T). S is the
        number of tilts, and T that of heights.
        """
        s = tilts[:, None, None, None]
        size = np.where(s > 0, s * self._log_largest, s * self._log_smallest) + self._log_factor
        size = size - 2 * (nodes - 1) * np.log(self._ratio)
        over_panels = size[:, None] + np.abs(heights)[:, :, None, None, None] * self._turn
        return np.logaddexp.reduce(over_panels.min(axis=2), axis=2) + 1e-9
