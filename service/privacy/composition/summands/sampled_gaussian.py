"""Moment generating functions of Poisson-sampled Gaussian steps, with every error bounded.

One step with noise multiplier sigma and rate p has likelihood ratio w(y) = 1 - p + p e^v, v = y/sigma - 1/(2 sigma^2),
y ~ N(0, 1) under H0, L = ln w. M(z) = E0 e^{zL} is entire, M(0) = M(1) = 1. A run adds K = sum of N_i ln M_i.

All parts of a heterogeneous run are handled together: arrays have shape (parts, nodes). M is a trapezoid sum in y
(`sampled_gaussian_grid.py`), whose error is bounded on the strip |Im y| <= a < pi sigma where L is analytic. With the
responsibility r = p e^v / w in (0, 1) and phi = a/sigma, these facts carry the bounds:

    w(y + ia) = w(y) (1 - r + r e^{i phi})            |w(y + ia)| <= w(y)
    |w(y + ia)| >= w(y) cos(phi/2)                    |d ln w(y + ia)/dy| <= r / (sigma cos(phi/2))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import RealCumulants, RunScale, Summand, TruncatedSummand, in_chunks
from service.privacy.composition.summands.node_sums import excess, untilting
from service.privacy.composition.summands.sampled_gaussian_grid import Grid, Layout
from service.privacy.composition.summands.sampled_gaussian_shared import moment_sums
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF

_FEW_STEPS = 100
"""Runs with fewer sampled steps have transforms that fall slowly: their lines are long and want finer steps."""

_FEW_SAMPLED = 5.0
"""Sampled records expected below which a transform of many steps falls slowly, too."""

_NEGLIGIBLE = 1e-14
"""A bound of K's trapezoid error below this needs no sharper one."""

_SHARED_GAIN = 20
"""How many times cheaper a product with a shared number is than a number of one's own."""

_FEWEST_SHARED = 4
"""Parts of similar noise that share the nodes' losses; fewer are cheaper each with nodes where it needs them."""

_SIDES_AND_TAIL = np.array([0.5, 0.5, 1.0])
"""How much each adds to the error of the end of a grid."""

LARGEST_ETA = 20.0
"""Largest shift of the paths behind majorants."""


_MOST_TOGETHER = 512
"""Different steps that are evaluated together: bounds the memory."""

_SHARES = np.arange(13) / 12
"""Positions between the start of the far jumps and the end of a grid."""


@dataclass(frozen=True, slots=True)
class SampledGaussianSteps(Summand):
    """`count` Gaussian steps, each on a Poisson sample of the records, 0 < sample_rate < 1."""

    is_deformable = True

    noise_multiplier: float
    sample_rate: float
    count: int

    @property
    @override
    def spread(self) -> float:
        return self.sample_rate / self.noise_multiplier

    @property
    @override
    def reach(self) -> tuple[float, float]:
        return self.log_prob_never_sampled, math.inf

    @property
    @override
    def log_prob_never_sampled(self) -> float:
        return self.count * math.log1p(-self.sample_rate)

    @property
    @override
    def gdp_mu_squared(self) -> float:
        return self.count / self.noise_multiplier**2

    @property
    @override
    def order(self) -> tuple[int | float, ...]:
        return 0, self.noise_multiplier, self.sample_rate, self.count

    @override
    def joins(self, group: Sequence[Self]) -> bool:
        """Steps of similar noise share one grid."""
        return self.noise_multiplier <= 1.6 * group[0].noise_multiplier and len(group) < _MOST_TOGETHER

    @classmethod
    @override
    def ends_are_light(cls, group: tuple[Self, ...], digits: FloatArray, theta: float) -> BoolArray:
        step = min(group, key=lambda step: step.noise_multiplier - 1e-3 * math.log(step.sample_rate))
        known = step.noise_multiplier, step.sample_rate, float(step.count), theta
        sigma, rate, count, tilt = (np.full_like(digits, each) for each in known)
        return ends_are_light(sigma, rate, count, digits, tilt)


def ends_are_light(
    sigma: FloatArray, rate: FloatArray, count: FloatArray, digits: FloatArray, theta: FloatArray
) -> BoolArray:
    """Whether the end of the grid of each run of equal steps weighs nothing at the tilt, or at the least tilt at which
    far jumps rule; arrays of one shape.
    """
    steps_log = np.log(count)
    goal = digits * math.log(10) + math.log(2) + steps_log
    end = np.maximum(np.sqrt(2 * goal), 1 / sigma + np.sqrt(2 * np.maximum(goal + np.log(rate), 0.0)))
    start = np.sqrt(2 * (steps_log + 8))
    y = start + (end - start) * _SHARES.reshape(-1, *(1 for _ in sigma.shape))
    exponent = y / sigma - 0.5 / sigma**2
    moderate = np.log1p(rate * np.expm1(np.minimum(exponent, 600.0)))
    loss = np.where(exponent < 600, moderate, exponent + np.log(rate))
    with np.errstate(divide="ignore", invalid="ignore"):
        heaviest = np.where(loss > 0, (0.5 * y * y - steps_log) / loss, np.inf)
        at_end = np.where(loss[-1] > 0, (0.5 * end * end - steps_log - 30.0) / loss[-1], np.inf)
    return np.asarray(at_end >= np.minimum(theta, heaviest.min(axis=0)))


class SampledGaussianParts(TruncatedSummand):
    """N_i steps each of Poisson-sampled Gaussians (sigma_i, p_i), 0 < p_i < 1, as one summand of the run's K; or, where
    they are `separate`, each i as a run of its own: what is summed over the parts of a run has shape (parts,) then.
    """

    is_gaussian = True

    def __init__(
        self,
        steps: tuple[SampledGaussianSteps, ...],
        deviation: float | FloatArray,
        digits: float | FloatArray,
        *,
        separate: bool = False,
    ) -> None:
        """`deviation`: about the standard deviation of the whole run's loss, from below; the grid's step follows it.

        The law of y is cut on the right, where all steps together have less than about 10^-digits of the mass of H0 and
        of H1 left. All moments are those of the cut law: far jumps of the loss would rule them at large tilts.
        """
        self.separate = separate
        self.sigma = np.array([step.noise_multiplier for step in steps])
        self.rate = np.array([step.sample_rate for step in steps])
        self.count = np.array([step.count for step in steps], dtype=np.float64)
        total = self.count if separate else np.full_like(self.count, self.count.sum())
        # Nats: trapezoid errors of e^-need per step are below 1e-18 for the whole run.
        self._need = np.log(total) + 42.0
        self._settle(self._laid_out(total, deviation, digits))

    def _settle(self, layout: Layout) -> None:
        """What follows from the places of the nodes."""
        self._layout = layout
        self.nodes = self._layout.nodes
        self.step = self._layout.steps
        """Spacing of the nodes in y, shape (parts,)."""
        end = (self._layout.first + self._layout.kept - 0.5) * self._layout.spacing
        if self._layout.in_u:
            end = (self.sigma * (end - self._log_odds) + 0.5 / self.sigma) * (1 - 1e-13)
        log_null = np.asarray(-0.5 * end**2 - math.log(2), dtype=np.float64)
        self.log_dropped_null = log_null
        self.log_dropped_alternative = np.logaddexp(
            log_null, np.log(0.5 * self.rate) - 0.5 * np.maximum(end - 1 / self.sigma, 0.0) ** 2
        )
        """ln of the mass of H0 and of H1 beyond the cut, per step, from Phi(-x) <= e^{-x^2/2}/2; shape (parts,)."""
        self.dropped = np.exp(np.logaddexp(log_null, self.log_dropped_alternative))

    @classmethod
    @override
    def of_group(cls, group: tuple[SampledGaussianSteps, ...], digits: float, scale: RunScale) -> SampledGaussianParts:
        return SampledGaussianParts(group, scale.deviation, digits)

    @property
    @override
    def log_dropped(self) -> tuple[FloatArray, FloatArray]:
        counts = np.log(self.count)
        return counts + self.log_dropped_null, counts + self.log_dropped_alternative

    @property
    def _log_odds(self) -> FloatArray:
        return np.log(self.rate) - np.log1p(-self.rate)

    def of(self, parts: IndexArray, count: FloatArray) -> SampledGaussianParts:
        """Some of the parts, which are `separate`, with other numbers of steps: no larger ones, as the nodes stay."""
        chosen = object.__new__(SampledGaussianParts)
        chosen.separate = True
        chosen.sigma, chosen.rate, chosen.count = self.sigma[parts], self.rate[parts], count
        chosen._need = self._need[parts]
        chosen._settle(self._layout.of(parts))
        chosen.grid = self.grid.of(parts, chosen.nodes)
        return chosen

    def over_run(self, each: FloatArray) -> FloatArray:
        """sum N_i x_i over the parts of a run, from (..., parts)."""
        if self.separate:
            return each * self.count
        return each[..., 0] * self.count[0] if len(self.count) == 1 else np.asarray(each @ self.count)

    def _laid_out(self, total: FloatArray, deviation: float | FloatArray, digits: float | FloatArray) -> Layout:
        """The nodes: of y, or of u where several parts share their exponentials. `total`: steps of the run of each."""
        # Each of few steps turns by up to 9/sqrt(N) radians per deviation of y, and is tilted by as many deviations.
        share = 12.0 / np.sqrt(total)
        smooth_step = 2 * math.pi / (np.sqrt(2 * self._need) / 0.9 + share)
        strip_share = 2 * math.pi * 0.7 * math.pi / (self._need + 15.0 + self._growth(total, deviation))
        goal = digits * math.log(10) + np.log(2 * self.count)
        reach = np.maximum(np.sqrt(2 * goal), 1 / self.sigma + np.sqrt(2 * np.maximum(goal + np.log(self.rate), 0.0)))
        left = np.sqrt(2 * self._need) + 2.0 + share
        in_u = len(self.sigma) >= _FEWEST_SHARED and not self.separate
        if in_u:
            wanted = np.minimum(smooth_step / self.sigma.max(), strip_share)[:1]
            origin = self._log_odds - 0.5 / self.sigma**2
            low, high = np.min(origin - left / self.sigma, keepdims=True), origin + reach / self.sigma
        elif self.separate:
            wanted, low, high = np.minimum(smooth_step, strip_share * self.sigma), -left, reach
        else:
            wanted = np.minimum(smooth_step, strip_share * self.sigma.min())[:1]
            low, high = -left[:1], np.full_like(self.sigma, reach.max())
        spacing = np.maximum(np.floor(wanted * 2.0**20), 1) * 2.0**-20
        first = np.floor(low / spacing)
        kept = (np.ceil(high / spacing) - first).astype(np.intp) + 1
        nodes = int(kept.max())
        steps = self.sigma * spacing if in_u else spacing + np.zeros_like(self.sigma)
        # Whole blocks; the nodes added have no weight.
        return Layout(spacing, first, nodes + -nodes % SUM_BLOCK, steps, kept, in_u)

    def _growth(self, total: FloatArray, deviation: float | FloatArray) -> FloatArray:
        """About how much (nats) e^{t arg w} grows on a strip at the greatest height t of a line: steers the step."""
        highest = 9.0 / np.maximum(deviation, 1e-3)
        # About one sampled step: what no jump disturbs does not fall, and lines are longer.
        rare = self.over_run(self.rate) < _FEW_SAMPLED
        many = np.minimum(np.where(rare, 1.35, 0.9) * highest, np.where(rare, 180.0, 120.0))
        # Few steps: |M| falls only like exp(-sigma^2 ln^2(t p e^{-1/(2 sigma^2)})/2).
        falls = np.sqrt(88 / total) / self.sigma + 0.5 / self.sigma**2 - np.log(self.rate)
        falls = falls if self.separate else falls.min()
        few = np.minimum(0.9 * np.maximum(highest, np.exp(np.minimum(falls, 20.0))), 300.0)
        return np.where(total >= _FEW_STEPS, many, few)

    @cached_property
    def identity_error(self) -> FloatArray:
        """Error per step of the sums at tilts 0 and 1 behind E0(w - 1) = 0: trapezoid, cut, and the grid's two ends."""
        grid = self.grid
        ends = grid.at_ends(grid.weight) * (1 + np.exp(grid.at_ends(grid.loss)))
        return self._plain_quadrature_error + self.dropped + ends.sum(axis=1)

    @property
    def lengths(self) -> IndexArray:
        """Nodes of each part before its cut."""
        return self._layout.kept

    @property
    def size(self) -> int:
        """Number of array elements of one (parts, nodes) array: the unit of this engine's cost."""
        return self.nodes * len(self.sigma)

    @property
    def line_size(self) -> int:
        """What one node of a line costs, in the same unit: multiplying and adding is cheap beside exponentials."""
        return self.nodes * (1 + len(self.sigma) // _SHARED_GAIN) if self._layout.in_u else self.size

    @cached_property
    def grid(self) -> Grid:
        """Nodes, losses and weights; built on first use."""
        return Grid.build(self.sigma, self.rate, self._layout)

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """K, K', K'' at real tilts, shape (S,), with a bound of the error of K, infinite where the grid ends too early;
        of separate parts at tilts (S, parts).

        Plain sums: the error of K grows like N u, which Chernoff bounds and the choice of lines do not notice; the
        prefactor of a line takes `value` instead.
        """
        return in_chunks(self._cumulants, tilts, self.size)

    def _cumulants(self, tilts: FloatArray) -> RealCumulants:
        grid = self.grid
        at = tilts if self.separate else tilts[:, None]
        sums = None if grid.soft is None else moment_sums(grid, grid.soft, tilts)
        if sums is None:
            weights, shift = grid.tilted(at)
            sums = np.matmul(weights.swapaxes(0, 1), grid.columns).swapaxes(0, 1)  # (S, parts, 5)
        else:
            weights, shift = None, np.zeros(sums.shape[:2])
        total = sums[:, :, 0]
        mean, square = sums[:, :, 1] / total, sums[:, :, 2] / total
        log_total = shift + np.log(total)
        rounding = (sums[:, :, 3] + np.abs(at) * sums[:, :, 4]) / total + 2 * self.nodes * UNIT_ROUNDOFF
        truncation = self._quadrature_error(at, weights, total) + self.ends.cut_error(at, shift) / total
        relative = rounding + truncation
        # |ln(1 + x)| <= 1.1 |x| for |x| < 0.1; a larger (or undefined) error bounds nothing.
        error = np.where(relative < 0.1, 1.1 * relative, np.inf) + 8 * FUNCTION_ERROR * np.abs(log_total)
        return RealCumulants(
            self.over_run(log_total),
            self.over_run(mean),
            self.over_run(square - mean**2),
            self.over_run(error) * 1.001,
            self.over_run(truncation),
        )

    def value(self, moments: TiltedMoments) -> tuple[FloatArray, FloatArray]:
        """K at the tilt of the moments and a bound of its error, which does not grow with the number of steps.

        M(s) - 1 = E0(e^{sL} - 1 - s(e^L - 1)), because E0(w - 1) = 0: every summand is second order in L.
        """
        tilt = moments.tilt
        # The sums behind the identity have errors too: 1 - M_h(0) counts once, M_h(1) - M_h(0) s times.
        quadrature = (
            self._quadrature_error(tilt[None], moments.weights[None], moments.total)[0]
            + 2 * (1 + np.abs(tilt)) * self.identity_error / moments.total
        )
        relative = moments.rounding + quadrature + moments.cut
        error = np.where(relative < 0.1, 1.1 * relative, np.inf) + 8 * FUNCTION_ERROR * np.abs(moments.log_total)
        return self.over_run(moments.log_total), self.over_run(error) * 1.001

    @cached_property
    def _strips(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Half-widths a of three strips, a^2/2 - 2 pi a/h and ln cos(a/(2 sigma)) of each; shape (3, parts)."""
        a = np.array([[0.3], [0.6], [0.9]]) * np.minimum(2 * math.pi / self.step, math.pi * self.sigma)
        return a, 0.5 * a**2 - 2 * math.pi * a / self.step, np.log(np.cos(0.5 * a / self.sigma))

    @cached_property
    def _plain_quadrature_error(self) -> FloatArray:
        """Trapezoid error of M(s) for s >= 0, relative to M(s), shape (parts,).

        2.1 for 2/(1 - e^{-2 pi a/h}): the step makes 2 pi a/h at least 24 on every strip.
        """
        return 2.1 * np.exp(self._strips[1].min(axis=0))

    @cached_property
    def _plain_is_negligible(self) -> bool:
        return float(self.over_run(self._plain_quadrature_error).max()) < _NEGLIGIBLE

    def _quadrature_error(self, tilts: FloatArray, weights: FloatArray | None, total: FloatArray) -> FloatArray:
        """Trapezoid error of M(s), relative to M(s), shape (S, parts). `tilts`: (S, 1) or (S, parts).

        |M_h - M| <= 2 sup_{|Im y| = a} int |phi w^s| / (e^{2 pi a/h} - 1), |phi(y+ia)| = e^{a^2/2} phi(y), and
        |w(y+ia)|^s <= w^s for s >= 0, <= w^s cos(a/(2 sigma))^s for s < 0. Where the cosine is too coarse the sum of
        `inverse_modulus_growth` replaces it. Any a < pi sigma serves, the best of three is taken.
        """
        a, exponent, log_cos = self._strips
        if tilts.min() < 0:
            coarse = exponent[:, None, :] + np.minimum(tilts, 0.0) * log_cos[:, None, :]
            error = 2.1 * np.exp(coarse.min(axis=0))
        else:
            error = np.repeat(self._plain_quadrature_error[None], len(tilts), axis=0)
            if self._plain_is_negligible:
                return error
        if float(self.over_run(error).max()) < _NEGLIGIBLE:
            return error
        coarse = np.flatnonzero((self.over_run(error).reshape(len(tilts), -1) >= _NEGLIGIBLE).any(axis=1))
        at, total = tilts[coarse], np.broadcast_to(total, error.shape)[coarse]
        plain = weights is None
        weights = np.exp(at[:, :, None] * self.grid.loss + self.grid.log_weight) if plain else weights[coarse]
        for half_width, log_kernel in zip(a, exponent, strict=True):
            growth = self.inverse_modulus_growth(at[:, :, None], half_width, weights) / total
            error[coarse] = np.fmin(error[coarse], 2.1 * np.exp(log_kernel) * np.maximum(growth, 1.0))
        return error

    def log_least_modulus(self, a: FloatArray) -> FloatArray:
        """ln of a lower bound of |w(y + iq)/w(y)| = |1 - r + r e^{iq/sigma}|, |q| <= a < pi sigma; (..., parts, nodes).

        Both 1 - 2 r sin^2(a/(2 sigma)) and cos(a/(2 sigma)) are below it; r is taken half a node further right.
        """
        half = (0.5 * a / self.sigma)[..., None]
        return np.log(np.maximum(1 - 2 * self.near * np.sin(half) ** 2, np.cos(half)))

    @cached_property
    def near(self) -> FloatArray:
        """Upper bounds of the responsibility within half a step of each node."""
        return np.minimum(1.0, self.grid.responsibility * np.exp(0.5 * self.step / self.sigma)[:, None])

    @cached_property
    def flat(self) -> FloatArray:
        """Most that the logarithm of the normal density changes over half a step around each node."""
        return 0.5 * self.grid.step * (np.abs(self.grid.y) + 0.5 * self.grid.step)

    @cached_property
    def log_lever(self) -> FloatArray:
        """ln of sigma over the step and the responsibility of each node."""
        return np.log(self.sigma[:, None] / self.grid.step) - np.log(self.grid.responsibility)

    @cached_property
    def majorant_stride(self) -> int:
        """Majorants need few digits, of few steps each more: every how many-th node serves their sums, by the strip
        error of such a sum.
        """
        enough = -6 - 70 / (self.count if self.separate else self.count.sum())
        for stride in (4, 2):
            h = stride * self.step
            s = np.minimum(0.5 * math.pi * self.sigma, 2 * math.pi / h)
            if (0.5 * s**2 - 2 * math.pi * s / h + np.log(self.count) < enough).all():
                return stride
        return 1

    def inverse_modulus_growth(self, tilt: FloatArray, a: FloatArray, weights: FloatArray) -> FloatArray:
        """Upper Riemann sum of weights |w(y + iq)/w(y)|^s over the nodes, for all |q| <= a; `a` of shape (..., parts).

        For s < 0, by `log_least_modulus`; the logarithm of the integrand changes by at most |y| + |s| r/(sigma cos^2)
        per unit of y. 1 (or a little more) for s >= 0.
        """
        negative = np.minimum(tilt, 0.0)
        cosine = np.cos(0.5 * a / self.sigma)[..., None]
        turned = (0.5 * self.grid.step) * np.abs(tilt) * self.near / (self.sigma[:, None] * cosine**2)
        exponent = negative * self.log_least_modulus(a) + self.flat + turned
        return np.sum(np.where(weights > 0, weights * np.exp(exponent), 0.0), axis=-1)

    @cached_property
    def ends(self) -> GridEnds:
        """What the two end nodes of the grid contribute to errors, whatever the tilt."""
        grid = self.grid
        widest = np.maximum(self._strips[0][-1], np.minimum(LARGEST_ETA, 0.9 * math.pi * self.sigma))
        steepness = (
            0.5 * grid.step * grid.at_ends(self.near) / grid.sigma[:, None]
        )  # most that ln w changes over half a step
        loss, log_weight = grid.at_ends(grid.loss), grid.at_ends(grid.log_weight)
        log_modulus = grid.at_ends(self.log_least_modulus(widest))
        log_tail = -0.5 * grid.y[:, :1] ** 2 - math.log(2)  # of a bound of Phi at the left end
        return GridEnds(
            rising=np.concatenate([loss + steepness, loss[:, :1]], axis=1),
            falling=np.concatenate([loss - steepness + log_modulus, np.log1p(-grid.rate)[:, None]], axis=1),
            level=np.concatenate([log_weight, log_tail], axis=1),
            first_weight=grid.weight[:, 0],
        )


@dataclass(frozen=True, slots=True)
class GridEnds:
    """The left and the right end node of each part's grid, and the tail beyond the left one, shape (parts, 3): ln of
    what they may add to M(s) is level + s rising for s > 0, level + s falling for s < 0.
    """

    rising: FloatArray
    """The loss, and the most that it changes over half a step around the node; of the tail that of the left node."""
    falling: FloatArray
    """The loss less that, and ln of a lower bound of |w(y + iq)/w(y)| there, for all |q| used; of the tail ln(1 - p),
    the loss left of everything.
    """
    level: FloatArray
    first_weight: FloatArray

    def cut_error(self, tilts: FloatArray, shift: FloatArray) -> FloatArray:
        """Bound of what the two ends of the grid add to the error of M(s), scaled by e^{-shift}, shape (S, parts).
        `tilts`: (S, 1) or (S, parts).

        At both ends, half way between nodes, the rectangle behind the trapezoid rule has a side on which the integrand
        is weighted with 1/(1 + e^{2 pi |Im y|/h}): less than half a term (ln 2/pi of it, times the growth of |w|^s
        there). On the left the integral itself is cut too: Phi(y) max(w^s, (1-p)^s) is left out.
        """
        s = tilts[:, :, None]
        exponents = np.maximum(s, 0.0) * self.rising
        if tilts.min() < 0:
            exponents = exponents + np.minimum(s, 0.0) * self.falling
        exponents = exponents + (self.level - shift[:, :, None])
        return (np.exp(exponents) @ _SIDES_AND_TAIL + self.first_weight) * 1.001


@dataclass(frozen=True, slots=True)
class TiltedMoments:
    """The law tilted by e^{sL} at one tilt s: weights of shape (parts, nodes), the rest of shape (parts,). `tilt`: of
    shape (1,), or (parts,) where each part is a run of its own.

    `total` is M(s) e^{-shift}, the scale of the weights; `rounding` and `cut` bound errors relative to it.
    """

    tilt: FloatArray
    weights: FloatArray
    total: FloatArray
    log_total: FloatArray
    rounding: FloatArray
    cut: FloatArray

    @staticmethod
    def at(parts: SampledGaussianParts, tilt: FloatArray) -> TiltedMoments:
        """The moments at one tilt; M - 1 is summed up, not M, so that weak losses keep their digits."""
        grid = parts.grid
        all_weights, all_shifts = grid.tilted(tilt[None])
        weights, shift = all_weights[0], all_shifts[0]
        column = tilt[:, None]
        summands, size = excess(grid.loss, grid.weight, grid.growth, column, weights)
        plain = shift == 0
        sum_excess = summands.sum(axis=-1)
        total = np.asarray(np.where(plain, 1 + sum_excess, weights.sum(axis=-1)), dtype=np.float64)
        log_total = shift + np.where(plain, np.log1p(np.maximum(sum_excess, -1 + 1e-300)), np.log(total))
        size = np.where(plain[:, None], size, weights)
        # An error of L acts through the derivative of a summand, |s| |e^{sL} - e^L|; of a plain one, |s| e^{sL}.
        moved = untilting(grid.loss, grid.alternative, column, weights, np.ones_like(total))
        moved = np.where(plain[:, None], moved, weights)
        rounding = np.sum(size * grid.relative_error + 1.1 * np.abs(column) * grid.loss_error * moved, axis=-1)
        rounding += shift * UNIT_ROUNDOFF * total
        cut = parts.ends.cut_error(tilt[None], shift[None])[0]
        return TiltedMoments(tilt, weights, total, log_total, rounding / total, cut / total)
