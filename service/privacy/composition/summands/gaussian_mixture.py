"""Moment generating functions of mixtures of shifted Gaussians, with every error bounded.

H0 is the law of one step without the record, N(0, 1), and H1 the mixture with the record; L is the loss of one step.
The trapezoid sums for M(z) = E0 e^{zL} are those of `trapezoid.py`, and the densities those of
`gaussian_mixture_nodes.py`. The law is truncated at both ends.

Negligible modes (`GaussianMixturePart.light`) of mass m per step are left out, and shift 0, of weight w_0, gets their
mass. H1 becomes H1', which is within m in total variation and stochastically smaller, and H1 >= (1 - m/w_0) H1' as
measures. Let S' be the loss of N steps with H1'. Probabilities under H1 and the profile of the add direction move by at
most N m. The profile of the remove direction is E_H0(1 - e^{c + S'})_+. The true one is no smaller, because H1 fails a
test S' < c less often. It is no larger than the computed one with c raised by 2 N m/w_0. The profile moves by at most
that raise, because its slope in c is -H1'(S' < -c) e^c >= -1. Both are counted as mass beyond the truncation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import RunScale, Summand
from service.privacy.composition.summands.gaussian_mixture_nodes import GaussianMixtureNodes, MixtureTerms, log_ratio
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.composition.summands.trapezoid import (
    FEW_STEPS,
    NormalTrapezoid,
    highest_turn,
    smooth_spacing,
)
from service.privacy.mechanisms.abstract import GaussianMixturePart
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray

_TOO_MANY_NODES = 1e12
"""Number of nodes far above that of any grid; callers refuse it when they check the size."""
_LEAST_REST = 1e-200
"""Minimal weight of shift 0 where there are negligible modes."""
_HEAVY_REST = 0.01
"""Weight of shift 0 from which modes lighter than the truncated mass may be left out."""
_FAR_APART, _MANY_SAMPLED = 2.2, 30.0
"""Gap of the shifts over the noise, and number of sampled records, for modes with few losses between them."""

_POINTS = 48
"""Number of points at which the spread of the shift is evaluated before the nodes are laid out."""

_PRODUCT_GAIN = 4
"""Ratio of the costs of an exponential and of a product."""

_USUAL_LEAST, _LEAST = 0.45, 0.2
"""Lower bounds of |A| on the strip that determines the step, and on the widest strip."""


_MOST_TOGETHER = 16
"""Maximal number of shifts of a mixture whose runs are evaluated together. Larger mixtures gain nothing from it."""

_MOST_TERMS = 400
"""Maximal number of shifts times parts that are evaluated together; it bounds the memory."""


@dataclass(frozen=True, slots=True)
class GaussianMixtureSteps(Summand):
    """Equal steps, `count` of them, whose law with the record is a mixture of Gaussians, some of them shifted.

    `part` has the noise, and the shifts with their weights.
    """

    rank = 3

    part: GaussianMixturePart
    count: int

    @property
    @override
    def spread(self) -> float:
        return self.part.mean_shift

    @property
    @override
    def loss_range(self) -> tuple[float, float]:
        return self.log_prob_never_sampled, math.inf

    @property
    @override
    def sampled(self) -> float:
        return self.count * self.part.jump[1]

    @property
    @override
    def batch(self) -> tuple[Any, ...] | None:
        shifts = len(self.part.shifts)
        return (3, self.part.mirrored, shifts) if shifts <= _MOST_TOGETHER else None

    @property
    @override
    def sampled_step(self) -> SampledStep | None:
        part = self.part
        if not part.mirrored or part.shifts != (0.0, 1.0) or part.weight_error + part.light > 0:
            return None
        return SampledStep(part.noise_multiplier, part.weights[1], self.count, mirrored=True)

    @property
    @override
    def least_loss_error(self) -> float:
        error, log = self.count * self.part.weight_error, self._log_rest
        return 4 * error * math.exp(-log) if error > 0 and log > -700 else 0.0

    @property
    @override
    def log_prob_never_sampled(self) -> float:
        return self.count * self._log_rest

    @property
    def _log_rest(self) -> float:
        """Lower bound of ln w_0, the weight of shift 0 in the mixture; -inf if w_0 may be 0, and for mirrored steps."""
        part = self.part
        taken = math.fsum(w for s, w in zip(part.shifts, part.weights, strict=True) if s > 0) * (1 + part.weight_error)
        taken += part.light
        return math.log1p(-taken) if taken < 1 and part.shifts[0] == 0 and not part.mirrored else -math.inf

    @property
    @override
    def gdp_mu_squared(self) -> float:
        part = self.part
        shift = max(part.shifts[-1], part.farthest) / part.noise_multiplier * (1 + part.mirrored)
        return self.count * shift**2

    @property
    @override
    def is_symmetric(self) -> bool:
        return self.part.mirrored

    @property
    @override
    def has_several_jumps(self) -> bool:
        return sum(shift > 0 for shift in self.part.shifts) > 1

    @property
    @override
    def order(self) -> tuple[Any, ...]:
        return self.rank, self.part.mirrored, len(self.part.shifts), self.part.noise_multiplier, self.part.weights

    @override
    def joins(self, group: Sequence[Self]) -> bool:
        """Return whether these steps fit into the arrays of the group.

        They do if they have equally many shifts, are mirrored like the first steps of the group, have at most 1.6 times
        the noise multiplier of those, and the arrays have room.
        """
        part, first = self.part, group[0].part
        alike = (part.mirrored, len(part.shifts)) == (first.mirrored, len(first.shifts))
        near = part.noise_multiplier <= 1.6 * first.noise_multiplier
        return alike and near and len(group) * len(part.shifts) < _MOST_TERMS

    @classmethod
    @override
    def last_nodes_are_negligible(
        cls, groups: Sequence[tuple[Self, ...]], digits: FloatArray, theta: FloatArray
    ) -> BoolArray:
        steps = [max(group, key=lambda step: step.part.mean_shift) for group in groups]
        pairs = list(zip(steps, theta.tolist(), strict=True))
        rows = [
            [_last_node_is_negligible(step.part, step.count, each, tilt) for step, tilt in pairs]
            for each in digits.tolist()
        ]
        return np.array(rows, dtype=bool).reshape(len(digits), len(groups))


def _last_node_is_negligible(part: GaussianMixturePart, count: int, digits: float, theta: float) -> bool:
    """Return whether the last node of the grid has negligible weight under the law tilted by e^{theta L}.

    `part` is one of `count` equal steps with the loss L. It suffices that the weight is negligible at the smallest tilt
    at which far jumps, the large losses of the shifted components, dominate. About 10^-digits of the mass is truncated.
    """
    steps_log = math.log(count)
    known = [(s / part.noise_multiplier, math.log(w)) for s, w in zip(part.shifts, part.weights, strict=True) if w > 0]

    goal = digits * math.log(10) + math.log(4) + steps_log
    end = max(math.sqrt(2 * goal), *(s + math.sqrt(2 * (goal + w)) for s, w in known if goal + w > 0))

    def loss_with(y: float) -> float:
        exponents = [w + s * y - 0.5 * s * s for s, w in known]
        top = max(exponents)
        return top + math.log(math.fsum(math.exp(exponent - top) for exponent in exponents))

    def loss(y: float) -> float:
        return loss_with(y) - loss_with(-y) if part.mirrored else loss_with(y)

    return _is_light(loss, end, steps_log, theta)


def _is_light(loss: Callable[[float], float], end: float, steps_log: float, theta: float) -> bool:
    def heaviest_tilt(y: float, margin: float) -> float:
        value = loss(y)
        return (0.5 * y * y - steps_log - margin) / value if value > 0 else math.inf

    start = math.sqrt(2 * (steps_log + 8))
    jumps = min(heaviest_tilt(start + (end - start) * k / 12, 0.0) for k in range(13))
    return heaviest_tilt(end, 30.0) >= min(theta, jumps)


class TruncatedGaussianMixture(NormalTrapezoid):
    """Truncated law of parts of a run, each of them N_i equal steps of a mixture of shifted Gaussians.

    The law is a summand of the run's log-moment function K(z) = ln E0 e^{zS}. Either all mixtures are mirrored or none
    is. A density at x is phi(x) a(x) with the record and phi(x) b(x) without it, with the normal density phi. A(x, q) =
    a(x + iq)/a(x) compares a off the real axis. Arrays have the shape (parts,) or (parts, nodes); the nodes of a part
    have the distance h.
    """

    is_gaussian = True

    def __init__(
        self,
        steps: tuple[GaussianMixtureSteps, ...],
        deviation: float | FloatArray,
        digits: float | FloatArray,
        beside: float = 0.0,
        *,
        times: FloatArray | None = None,
    ) -> None:
        """Choose the nodes and the truncation of the law of all parts.

        Parameters
        ----------
        steps : tuple of GaussianMixtureSteps
            Mixtures of similar noise.
        deviation : float or (runs,)
            Approximate standard deviation of the whole run's loss in nats, rather too small. It only chooses the
            spacing of the nodes.
        digits : float or (runs,)
            The truncation leaves out at most about 10^-digits of the mass of H0 and of H1.
        beside : float
            Number of other steps of the run.
        times : (runs,) or None
            How many times each of several separate runs takes its steps.
        """
        self.mirrored = steps[0].part.mirrored
        self.take(np.array([step.count for step in steps], dtype=np.float64), times)
        digits = self.of_parts(np.asarray(digits)) + np.zeros_like(self.count)
        parts = [
            _without_light(step.part, *each) for step, *each in zip(steps, self.count, digits.tolist(), strict=True)
        ]
        self._terms = MixtureTerms.of(parts)
        self.rate = 1 - self._terms.rest
        own = self.of_parts(self.over_run(np.ones_like(self.count)))
        self._steps = own + beside
        # Nats: trapezoid errors of e^-need per step are below 1e-18 for the whole run.
        self._need = np.log(self._steps) + 42.0
        self._deviation, self._share = self.of_parts(np.asarray(deviation)), self._steps / own
        goal = digits * math.log(10) + np.log(4 * self.count)
        self._low, self._high = self._truncation_points(goal)
        self.step, self._first, self._kept = self._laid_out()
        low = (self._first - 0.5) * self.step * (1 - 1e-13)
        high = 0.5 * self._kept * self.step if self.mirrored else (self._first + self._kept - 0.5) * self.step
        null, alternative = self._log_truncated(-high if self.mirrored else low, high)
        light = np.array([part.light for part in parts])
        with np.errstate(divide="ignore"):
            self.log_truncated_null = np.logaddexp(null, np.log(2 * light / np.maximum(self._terms.rest, _LEAST_REST)))
            self.log_truncated_alternative = np.logaddexp(alternative, np.log(light))

    @classmethod
    @override
    def of_group(
        cls, group: tuple[GaussianMixtureSteps, ...], digits: float, scale: RunScale
    ) -> TruncatedGaussianMixture:
        return TruncatedGaussianMixture(
            group, scale.deviation, digits, scale.gaussian_steps - sum(step.count for step in group)
        )

    @override
    def of(self, runs: IndexArray, times: FloatArray) -> Self:
        parts, chosen = self.parts_of(runs), object.__new__(type(self))
        chosen.mirrored, chosen._terms = self.mirrored, self._terms.some(parts)
        chosen.take(self.unit[parts], times)
        chosen.rate = self.rate[parts]
        chosen.step, chosen._first, chosen._kept = self.step[parts], self._first[parts], self._kept[parts]
        chosen.log_truncated_null = self.log_truncated_null[parts]
        chosen.log_truncated_alternative = self.log_truncated_alternative[parts]
        chosen.grid = self.grid.of(parts, int(chosen._kept.max()))
        return chosen

    @property
    @override
    def lengths(self) -> IndexArray:
        return self._kept

    def _truncation_points(self, goal: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the points left and right beyond which about e^-goal of the mass of H0 and H1 lies.

        All arrays have the shape (parts,). H1 is sum w N(s mu, 1), with weights w, shifts s and mu = 1/(noise
        multiplier). Beyond x its mass is at most sum w e^{-(x - s mu)^2/2}/2. `_log_truncated` proves bounds of the
        mass outside.
        """
        terms = self._terms
        rest = goal[:, None] + terms.log_weight + math.log(1 + terms.shift.shape[1])
        far = np.where(rest > 0, terms.shift + np.sqrt(2 * np.maximum(rest, 0.0)), 0.0).max(axis=1)
        high = np.maximum(far, np.sqrt(2 * goal))
        return (-high if self.mirrored else -np.sqrt(2 * goal)), high

    def _log_truncated(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds of ln of the mass of H0 and of H1 outside [low, high] for one step, shape (parts,) each.

        The bound of a normal tail is Phi(-x) <= e^{-x^2/2}/2 for x >= 0.
        """
        terms = self._terms

        def tail(centers: FloatArray, distance: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore"):
                rest = np.log(terms.rest + np.where(terms.rest > 0, terms.weight_error, 0.0))
            logs = np.concatenate([rest[:, None], terms.log_weight], axis=1) - math.log(2)
            gaps = np.maximum(distance[:, None] - np.concatenate([np.zeros_like(centers[:, :1]), centers], axis=1), 0)
            return np.logaddexp.reduce(logs - 0.5 * gaps**2, axis=1) + 1e-9 + terms.weight_error

        mixture = np.logaddexp(tail(terms.shift, high), tail(-terms.shift, -low))
        plain = np.logaddexp(-0.5 * high**2, -0.5 * low**2) - math.log(2)
        return (mixture if self.mirrored else plain), mixture

    def _laid_out(self) -> tuple[FloatArray, IndexArray, IndexArray]:
        """Return the distance of the nodes, the index of the first node and the number of nodes with weight.

        All arrays have the shape (parts,). The node with the index k is the outcome x = k * distance. The nodes of
        mirrored steps are symmetric about 0, and their first index is an unused 0.
        """
        smooth = smooth_spacing(self._need, self._steps)
        width = math.sqrt(2 * (1 - _USUAL_LEAST)) / np.sqrt(self._largest_spread())
        wanted = np.minimum(smooth, 2 * math.pi * width / (self._need + 15.0 + self._highest_turn()))
        step = np.maximum(np.floor(wanted * 2.0**20), 1) * 2.0**-20
        last = np.minimum(np.ceil(self._high / step), _TOO_MANY_NODES).astype(np.intp)
        if self.mirrored:
            return step, np.zeros(len(step), dtype=np.intp), 2 * last
        first = np.floor(self._low / step).astype(np.intp)
        return step, first, last - first + 1

    def _largest_spread(self) -> FloatArray:
        """Return about the largest variance of s mu at one x, shape (parts,).

        The spacing of the nodes depends on it.

        s is the random shift of the mixture given x, and mu = 1/sigma is the inverse noise multiplier.
        """
        terms = self._terms
        share = np.linspace(0.0, 1.0, _POINTS)
        points = [self._low[:, None] * (1 - share) + self._high[:, None] * share]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_all = np.concatenate([np.log(terms.rest)[:, None], terms.log_weight], axis=1)
            shift = np.concatenate([np.zeros_like(terms.rest)[:, None], terms.shift], axis=1)
            gap = np.diff(shift, axis=1)
            # Points at which neighbouring shifts are equally likely.
            between = -np.diff(log_all, axis=1) / gap + 0.5 * (shift[:, 1:] + shift[:, :-1])
        between = np.where(np.isfinite(between), between, 0.0)
        points.append(np.clip(between, self._low[:, None], self._high[:, None]))
        responsibility = log_ratio(terms, np.concatenate(points, axis=1))[2]
        mean = (responsibility * terms.shift[:, :, None]).sum(axis=1)
        square = (responsibility * terms.shift[:, :, None] ** 2).sum(axis=1)
        return np.maximum((square - mean**2).max(axis=1), 1e-30)

    def _highest_turn(self) -> FloatArray:
        """Return about how much (nats) e^{t arg a} grows on a strip at the greatest height t of a contour.

        The shape is (parts,). The spacing of the nodes depends on the result of `highest_turn`. For few steps the
        transform |M(theta + it)| falls only like exp(-ln^2(t w e^{-s^2 mu^2/2})/(2 s^2 mu^2)). Here s is the smallest
        shift, w its weight, mu = 1/(noise multiplier), and theta is the tilt of the contour.
        """
        highest, steps, terms = 9.0 / np.maximum(self._deviation, 1e-3), self._steps, self._terms
        sampled = self.of_parts(self.over_run(self.rate)) * self._share
        shift, weight = terms.shift[:, 0], terms.weight[:, 0]
        falls = self.of_parts(self.least_of_run(np.sqrt(88 / steps) / shift + 0.5 * shift**2 - np.log(weight)))
        turn = highest_turn(highest, steps, sampled, falls, separate=self.separate)
        # For distant components, contours on which the transform decays are several times as long as the core requires.
        several = terms.shift.shape[1] > 1 and terms.shift[:, 0].max() > _FAR_APART
        apart = (steps >= FEW_STEPS) & (sampled < _MANY_SAMPLED) & several
        return np.where(apart, np.maximum(np.minimum(2.8 * highest, 180.0), turn * self.separate), turn)

    @cached_property
    def grid(self) -> GaussianMixtureNodes:
        """Nodes of the trapezoid sum with losses and weights, built on first use."""
        return GaussianMixtureNodes.build(self._terms, self.step, self._first, self._kept, mirrored=self.mirrored)

    @property
    def size(self) -> int:
        """Number of elements of an array of shape (parts, nodes), the unit of the engine's cost.

        A part is a number of equal steps of a run, and nodes are those of the trapezoid sums.
        """
        return int(self._kept.max() + 2) * len(self.count)

    @property
    def contour_size(self) -> int:
        """Cost of one node of an inversion contour, as a number of array elements.

        It is smaller than `size`, the cost of one tilt, because a contour needs products where a tilt needs
        exponentials.
        """
        return self.size // _PRODUCT_GAIN

    @cached_property
    def widest(self) -> FloatArray:
        """Largest half-widths q of usable strips |Im x| <= q of the outcome x, shape (parts,).

        On them |A(x, q)| = |a(x + iq)/a(x)| is at least `_LEAST`, where a is the density of H1 over the normal density.
        The growth e^{q^2/2} of the normal density stays below e^{2 pi q/h}, with h the distance of the nodes.
        """
        spread = np.where(self.grid.inside, self.grid.spread, 0.0).max(axis=1)
        return np.minimum(np.sqrt(2 * (1 - _LEAST) / spread) * (1 - 1e-9), 0.9 * 2 * math.pi / self.step)

    @cached_property
    def _strips(self) -> FloatArray:
        """Half-widths q of three strips |Im x| <= q of the outcome x that bound quadrature errors, shape (3, parts)."""
        return np.array([[0.35], [0.65], [1.0]]) * self.widest

    @cached_property
    def strip_exponents(self) -> FloatArray:
        """Exponents q^2/2 - 2 pi q/h of the quadrature error on strips |Im x| <= q, shape (3, parts).

        x is the outcome of a step, and h the distance of the nodes.
        """
        return 0.5 * self._strips**2 - 2 * math.pi * self._strips / self.step

    @cached_property
    def least_everywhere(self) -> FloatArray:
        """Minimum of `log_least` over the nodes, shape (3, parts)."""
        return self.log_least.min(axis=-1)

    @cached_property
    def log_least(self) -> FloatArray:
        """Lower bounds ln(1 - q^2 spread/2) of ln |a(x + iq)/a(x)| on the three strips, shape (3, parts, nodes).

        a is the density of H1 at the outcome x over the normal density, and q the half-width of the strip. `spread` is
        an upper bound of the variance of the random shift s mu given x over the cell of a node
        (`GaussianMixtureNodes`).
        """
        least = 1 - 0.5 * self._strips[..., None] ** 2 * self.grid.spread
        return np.where(self.grid.inside, np.log(np.maximum(least, 1e-300)), 0.0)

    @cached_property
    def end_slopes(self) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of |d ln a/dx| over the cells, and ln of lower bounds of |a(x + iq)/a(x)|.

        Both have the shape (parts, nodes). a is the density of H1 at the outcome x over the normal density, and q a
        height. |a'/a| is at most its bound on the real axis.
        """
        return self.grid.steepest, self.log_least[-1]

    @override
    def slopes(self, tilt: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        grid, rise = self.grid, self.steepness(tilt) - self.grid.x
        margin = 0.5 * grid.step + grid.sized(tilt, grid.near)
        return margin - rise, margin + rise

    def steepness(self, tilt: FloatArray | float) -> FloatArray:
        """Return the derivative of ln(a^s b^{1-s}) in x at the nodes, for the tilt s; shape (parts, nodes).

        a and b are the densities of H1 and H0 over the normal density. d ln a/dx is mu m, with the mean m of the shift
        given x. b is 1, or a(-x) for mirrored steps, and then -(1 - s) mu m at -x is added.
        """
        mean = self.grid.mean
        return tilt * mean - (1 - tilt) * mean[:, ::-1] if self.mirrored else tilt * mean


def _without_light(part: GaussianMixturePart, count: float, digits: float) -> GaussianMixturePart:
    """Return the mixture `part` without components of negligible mass.

    The mass of the omitted components in all `count` steps is far below 10^-`digits`, the truncated mass. Nothing is
    omitted from mirrored mixtures, or if the weight of shift 0 is below 0.01.
    """
    known = list(zip(part.shifts, part.weights, strict=True))
    most = 10 ** -(digits + 3) / (count * len(known))
    kept = [(s, w) for s, w in known if s == 0 or w > most]
    if part.mirrored or len(kept) in (len(known), 1) or kept[0][0] > 0 or kept[0][1] < _HEAVY_REST:
        return part
    light = math.fsum(w for s, w in known if s > 0 and w <= most) * (1 + 1e-9) + part.light
    shifts, weights = zip(*kept, strict=True)
    return replace(part, shifts=shifts, weights=weights, light=light, exact=None)
