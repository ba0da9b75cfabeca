"""Deformed contour of a run: tails and profile of the privacy loss near one threshold, with every error bounded.

The path of the inversion integral is a curve through panels, each with Gauss-Legendre nodes. The contour has the
interface of `StraightContour` for `inversion/readings/`. The integrals are those of
`inversion/straight.py` for a contour that crosses the real axis at theta > 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from service.privacy.composition.inversion.deformed.panels import NODES, ContourLayout
from service.privacy.composition.inversion.deformed.paths import PathValues
from service.privacy.composition.inversion.deformed.sums import (
    Float,
    Moments,
    PathNodes,
    RealArray,
    moments,
    roundoff,
    spacing_for,
)
from service.privacy.composition.inversion.readings.contour import Integrals
from service.privacy.numerics.arrays import FloatArray, joined, taken
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

ComplexLongArray = NDArray[np.complexfloating[Any, Any]]

_SCALE_POLES = np.array([[0.0], [1.0], [1.0], [0.0]])
_FAR = 2.0
"""Largest |ln (1 - p)^x| at the far end of a contour. For larger values the base of M - 1 loses its digits."""

_MOST_TERMS = 3_000_000
"""Maximal number of terms of the double sums of one contour, which bounds its time."""


@cache
def _rule() -> tuple[NDArray[np.longdouble], NDArray[np.longdouble]]:
    with ctx.workprec(200):
        pairs = [arb.legendre_p_root(NODES, k, weight=True) for k in range(NODES)]

    def long(number: arb) -> np.longdouble:
        high = float(number.mid())
        return np.longdouble(high) + np.longdouble(float((number - high).mid()))

    return np.array([long(node) for node, _ in pairs]), np.array([long(weight) for _, weight in pairs])


@dataclass(frozen=True, slots=True)
class ContourNodes:
    """Nodes z = x + it of a contour and their complex quadrature weights dz/pi, all of shape (n,)."""

    x: RealArray
    t: RealArray
    weight: ComplexLongArray


class DeformedContour:
    """Nodes of the panels of one contour, with the values of the integrand F there.

    F(z) = prod_k M_k(z)^{N_k} e^{mu^2 (z^2 - z)/2 - (z - theta) c}, relative to its size at theta, the point at which
    the contour crosses the real axis. M_k is the moment-generating function of the loss of one of N_k steps of the kind
    k. mu^2 is that of Gaussian steps without sampling. c is a threshold of the loss in nats. The integrals I0(c), I1(c)
    and ID(c) are both tails of the loss at c, under H0 and H1, and the profile delta(c).
    """

    def __init__(self, layout: ContourLayout, deviation: float, dtype: Float) -> None:
        """Evaluate the nodes of a contour in numbers of the type `dtype`.

        `layout` has the panels and their error bounds. `deviation` is the standard deviation of the loss without rare
        large losses of a step. No bound depends on it.
        """
        self.theta, self.center, self.deviation = layout.bend.theta, layout.center, deviation
        self.leftmost = self.theta
        self._layout, self._value, self._dtype = layout, layout.value, dtype
        self.score_tables: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
        self._steps = [grid.step for grid in layout.grids]
        # Near the least loss, or a reflected largest one, F = ((1 - p)^-z M)^N e^{...} keeps its digits.
        farthest = float(layout.panels.end.real.max())
        least = min(step.least_loss for step in self._steps)
        self._from_least = layout.reflected or -least * farthest > _FAR
        self._least = [
            np.log1p(-(dtype(step.rate) + dtype(step.rest))) if self._from_least else dtype(0) for step in self._steps
        ]
        self.usable = self._evaluate(self._nodes())

    def _nodes(self) -> ContourNodes:
        dtype, panels = self._dtype, self._layout.panels
        x = _rule()[0].astype(dtype)
        low, high = panels.start.real[:, None].astype(dtype), panels.end.real[:, None].astype(dtype)
        bottom, top = panels.start.imag[:, None].astype(dtype), panels.end.imag[:, None].astype(dtype)
        half_real, half_imag = (high - low) / 2, (top - bottom) / 2
        weight = (half_real + 1j * half_imag) * _rule()[1].astype(dtype) / dtype(np.pi)
        nodes = (low + high) / 2 + half_real * x, (bottom + top) / 2 + half_imag * x
        return ContourNodes(nodes[0].ravel(), nodes[1].ravel(), weight.ravel())

    def _evaluate(self, nodes: ContourNodes) -> bool:
        count = len(self._layout.panels.start)
        plans = [[self._plan(kind, panel) for panel in range(count)] for kind in range(len(self._steps))]
        sizes = [len(tau) for kind in plans for tau, _, _ in kind]
        if min(sizes) == 0 or NODES * sum(sizes) > _MOST_TERMS:
            return False
        self.terms = NODES * sum(sizes)
        self._collect(nodes, [self._moments(kind, plan, nodes) for kind, plan in enumerate(plans)])
        return True

    def _moments(self, kind: int, plans: list[tuple[RealArray, float, float]], nodes: ContourNodes) -> Moments:
        """Return M(z) - 1 of one kind of step at all nodes z, with absolute error bounds.

        There is one trapezoid sum for each panel. M is the moment-generating function of the loss of one step. `kind`
        is the index of the kind of step. `plans` has for each panel the nodes tau, their spacing and ln of the bound of
        its sum's error.
        """
        found: list[Moments] = []
        for panel, (tau, spacing, log_error) in enumerate(plans):
            path = taken(self._layout.panels.paths[kind], np.array([panel]))
            own = slice(panel * NODES, (panel + 1) * NODES)
            there = 1 - nodes.x[own] if self._layout.reflected else nodes.x[own]
            path_nodes = PathNodes(self._steps[kind], path, self._dtype, tau, spacing, from_least=self._from_least)
            sums = moments(path_nodes, there, nodes.t[own])
            imag = -sums.imag if self._layout.reflected else sums.imag
            found.append(Moments(sums.real, imag, sums.error + math.exp(min(log_error, 700.0))))
        return joined(found)

    def _plan(self, kind: int, panel: int) -> tuple[RealArray, float, float]:
        """Return the trapezoid sum for M of one kind of step on a panel: nodes tau, spacing, ln of the error bound.

        M is the moment-generating function of the loss of one step, an integral along a path with the parameter tau.
        The error is absolute. `kind` and `panel` are indices. The list of nodes is empty where the sum would be too
        long, or no spacing has a small enough error.
        """
        layout, panels, grid = self._layout, self._layout.panels, self._layout.grids[kind]
        least, count = float(self._least[kind]), grid.step.count
        ends = np.array([panels.start[panel], panels.end[panel]])
        z = layout.moments_at(ends)[:, None]
        scale = -z.real[:, 0] * least
        bounds = panels.end_bounds[kind][panel] + scale
        total = sum(other.step.count * own[panel] for other, own in zip(layout.grids, panels.end_bounds, strict=True))
        rest = layout.log_sizes(np.asarray(total), ends, 0.0) - bounds
        length = abs(ends[1] - ends[0]) / max(min(np.abs(ends).min(), np.abs(ends - 1).min()), 0.1)
        goal = layout.goal - 5 - math.log(count) - max(float(rest.max()), -1e4) - math.log(length)
        goal = min(goal, float(bounds.min()) - math.log(count) - 6)
        spacing, log_error = spacing_for(panels.strips[kind], panel, np.append(scale, 0.0), goal)
        # Short binary fractions make all nodes exact.
        spacing = math.floor(spacing * 2.0**24) * 2.0**-24
        if not spacing > 0:
            return np.array([]), 0.0, math.inf
        low, high = math.floor(float(grid.tau[0]) * 2.0**20) * 2.0**-20, float(grid.tau[-1])
        length = math.ceil((high - low) / spacing) + 1
        if length > 20_000:
            return np.array([]), 0.0, math.inf
        tau = low + spacing * np.arange(length, dtype=np.float64)
        path = taken(panels.paths[kind], np.array([panel]))
        values = PathValues.along(grid.step, path, tau[None], np.zeros((1, 1)))
        weight = values.log_density(grid.step)[0] + np.log(np.abs(values.speed[0])) + math.log(spacing)
        ratio = values.log_ratio[0] - least
        grown = np.maximum((z.real * ratio.real - z.imag * ratio.imag).max(axis=0), 0.0) + weight
        small = grown < goal - 12
        first, last = int(np.argmin(small)), len(small) - int(np.argmin(small[::-1]))
        # Omitted nodes are at both ends only. Each omits a term of the sum and of the 1, at most e^grown.
        left_out = np.concatenate([grown[:first], grown[last:]])
        omitted = math.log(2.1) + float(np.logaddexp.reduce(left_out)) if len(left_out) else -math.inf
        kept = self._dtype(low) + self._dtype(spacing) * np.arange(first, last).astype(self._dtype)
        return kept, spacing, float(np.logaddexp(log_error, omitted))

    def _collect(self, nodes: ContourNodes, kinds: list[Moments]) -> None:
        """Store F at the nodes, times the weights and each of four kernels, and absolute error bounds.

        F is the integrand for the threshold `center` of the layout: the moment-generating function of the run's loss,
        times the exponential of the threshold. The kernels are 1/z, 1/(z - 1), 1/(z (z - 1)) and 1. `kinds` has M - 1
        of each kind of step at all nodes.
        """
        dtype, unit, theta = self._dtype, roundoff(self._dtype), self._dtype(self.theta)
        x, t = nodes.x - theta, nodes.t
        # The factor (1 - p)^{N z}, or that at 1 - conj(z).
        least = sum((step.count * one for step, one in zip(self._steps, self._least, strict=True)), dtype(0))
        size_of_least = float(sum(abs(step.count * one) for step, one in zip(self._steps, self._least, strict=True)))
        if self._layout.reflected:
            center, value = dtype(self.center) + least, dtype(self._value) - least * (1 - theta)
        else:
            center, value = dtype(self.center) - least, dtype(self._value) - least * theta
        exponent, phase = -value - x * center, -t * center
        size_of_logs, relative = np.zeros(len(x)), np.zeros(len(x))
        for step, sums in zip(self._steps, kinds, strict=True):
            logs, uncertain = self._log_moments(sums)
            exponent, phase = exponent + step.count * logs[0], phase + step.count * logs[1]
            size_of_logs = size_of_logs + step.count * np.hypot(logs[0], logs[1]).astype(np.float64)
            relative = relative + step.count * np.log1p(uncertain)
        mu2 = dtype(self._layout.gaussian_mu_squared)
        exponent = exponent + mu2 / 2 * (nodes.x * (nodes.x - 1) - t * t)
        phase = phase + mu2 * t * (nodes.x - dtype(0.5))
        size_of_z = np.hypot(nodes.x, t).astype(np.float64) + self.theta
        # ln(1 - p) is within 11 u of itself where the rate is rounded, p <= 0.9.
        of_least = 2 + any(step.rest for step in self._steps)
        size_of_rest = size_of_z * (abs(self.center) + of_least * size_of_least) + abs(self._value)
        rounding = (24 + 4 * len(kinds)) * unit * (size_of_logs + size_of_rest)
        # mu^2 is a sum of at most 256 rounded parts.
        rounding = rounding + 600 * UNIT_ROUNDOFF * float(mu2) * size_of_z * (size_of_z + 1)
        uncertain = relative + rounding
        size = np.exp(np.maximum(exponent.astype(np.float64), -690.0))
        grown = np.exp(np.minimum(exponent.astype(np.float64) + uncertain, 700.0))
        grown = np.where(exponent.astype(np.float64) + uncertain > 700.0, np.inf, grown)
        node_error = np.where(uncertain < 1, size * np.expm1(np.minimum(uncertain, 1.0)), grown + size)
        z, modulus = nodes.x + 1j * t, np.exp(exponent)
        kernels = np.stack([1 / z, 1 / (z - 1), 1 / (z * (z - 1)), np.ones_like(z)])
        self._x, self._t = x, t
        self._terms = kernels * ((np.cos(phase) + 1j * np.sin(phase)) * modulus * nodes.weight)
        spread = np.abs(kernels[:3] * nodes.weight).astype(np.float64)
        # Kernels, weights and products have 96 u, and numpy's sum has 64 u.
        self._node_errors = spread * (node_error + 160 * unit * size)
        self._phase_errors = spread * size * (24 * unit * size_of_z)

    def _log_moments(self, sums: Moments) -> tuple[tuple[RealArray, RealArray], FloatArray]:
        """Return (ln|M|, arg M) at the nodes and bounds of the relative error of M, from the sums M - 1.

        M is the moment-generating function of the loss of one step. All arrays have the shape (n,).
        """
        unit = roundoff(self._dtype)
        square = 2 * sums.real + (sums.real**2 + sums.imag**2)
        modulus = np.hypot(1 + sums.real, sums.imag)
        # Near a zero of M |M|^2 - 1 has lost its digits.
        near = square < -0.9
        log_modulus = np.where(near, np.log(np.maximum(modulus, 1e-300)), np.log1p(np.where(near, 0, square)) / 2)
        change = np.hypot(sums.real, sums.imag).astype(np.float64)
        error = sums.error + 24 * unit * change * (2 + change) + np.where(near, 16 * unit, 0.0)
        relative = np.minimum(error / np.maximum(modulus.astype(np.float64), 1e-300), 1e300)
        return (log_modulus, np.arctan2(sums.imag, 1 + sums.real)), relative

    def _sums(self, shift: FloatArray) -> RealArray:
        """Return I0, I1, ID and the density of the loss under H0 at the thresholds center + `shift`, shape (4, C).

        I0 and I1 are the tails of the privacy loss under H0 and H1, and ID is its profile delta. All values are
        relative to the factors of `log_scale`. C is the number of thresholds.
        """
        moved = shift.astype(self._dtype)[:, None]
        turn = np.exp(-self._x * moved)
        cosine, sine = np.cos(self._t * moved), np.sin(self._t * moved)
        terms = self._terms[:, None]
        return (turn * (terms.imag * cosine - terms.real * sine)).sum(axis=-1)

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Return enclosures of the integrals I0(c), I1(c), ID(c) at thresholds c (nats), shape (thresholds,).

        I0 and I1 are the tails of the privacy loss beyond c under H0 and H1, and ID is the privacy profile delta(c).
        """
        shift = thresholds - self.center
        found = self._sums(shift).astype(np.float64)
        sums, density = found[:3], found[3]
        growth = np.exp(-self._x.astype(float) * shift[:, None])
        # The shift itself is rounded in doubles.
        moved = np.abs(shift) * (1 + UNIT_ROUNDOFF / roundoff(self._dtype))
        error = self._node_errors @ growth.T + (self._phase_errors @ growth.T) * moved
        error = error + np.exp(self._layout.log_errors(shift))
        log_scale = self.log_scale(thresholds)[:3]
        exponents = abs(self._value) + (2 * self.theta + 1) * np.abs(thresholds)
        scale_error = 8 * UNIT_ROUNDOFF * exponents + 1e-15
        margin = (error + (np.abs(sums) + error) * np.expm1(scale_error)) * (1 + 1e-9)
        lower, upper = sums - margin, sums + margin
        lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
        return Integrals(log_scale, lower, upper, density)

    def log_scale(self, thresholds: FloatArray) -> FloatArray:
        """Return ln of the factors relative to which I0, I1, ID and the density of the loss are given, shape (4, C).

        I0 and I1 are the tails of the privacy loss beyond each of C thresholds c (nats) under H0 and H1, and ID is its
        profile delta(c). The factors are F0 e^{-(theta - pole) c}. F0 is about the moment E0 e^{theta S} of the loss S,
        at the point theta where the contour crosses the axis. The pole is 0 for I0 and the density, and 1 for I1 and
        ID.
        """
        return self._value - (self.theta - _SCALE_POLES) * thresholds

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return I0, I1, ID and the density of the loss under H0 at thresholds (thresholds,), and ln of their scales.

        Both arrays have the shape (4, thresholds); a value is its entry times its scale, without an error bound. I0 and
        I1 are the tails of the privacy loss beyond c under H0 and H1, and ID is the privacy profile delta(c).
        """
        return self._sums(thresholds - self.center).astype(np.float64), self.log_scale(thresholds)
