"""The steps of a run, grouped for evaluation, and where to cut the law at far jumps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import erfc

from service.privacy.composition.inversion.loss_transform import LossTransform
from service.privacy.composition.summands.gaussian_mixture import GaussianMixtureParts
from service.privacy.composition.summands.sampled_chi_square import SampledChiSquareParts
from service.privacy.composition.summands.sampled_chi_square_grid import ChiSquareStep
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianParts
from service.privacy.composition.summands.sampled_laplace import SampledLaplaceParts
from service.privacy.composition.summands.steps import (
    ChiSquareSteps,
    GaussianMixtureSteps,
    LaplaceSteps,
    SampledGaussianSteps,
    TwoPointSteps,
)
from service.privacy.composition.summands.two_points import TwoPointParts
from service.privacy.mechanisms.abstract import GaussianMixturePart
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray

CUT_DIGITS = (22.0, 40.0, 80.0, 160.0, 330.0, 1000.0)
"""Masses 10^-digits at which far jumps are cut off."""

_DEEP = 100.0
"""Digits from which a cut is tried after the shallowest one."""

_CUTS_TRIED = 3
"""Cuts with light ends that are tried, each deeper than the one before."""

_SHARES = np.arange(13) / 12
"""Places between the start of the far jumps and the end of a grid."""

_LARGEST_GRID = 150_000
"""Nodes (times parts) above which no moment is evaluated: only noise multipliers below about 0.002 need more."""

_FARTHEST_SCORE = 40
"""In standard deviations: no tail that doubles hold is farther."""

_USUAL_SCORE = 5
"""In standard deviations: nearer places are cut as those are, so that questions about them share ladders and lines."""

_MOST_PARTS = 512
"""Different sampled steps that are evaluated together: bounds the memory."""

_MOST_TERMS = 400
"""Shifts times parts of mixtures that are evaluated together: bounds the memory."""


@dataclass(frozen=True)
class ContourRun:
    """What both directions share: the steps, and their moments with the far jumps cut off at several masses."""

    gaussian_mu_squared: float
    groups: tuple[tuple[SampledGaussianSteps, ...], ...]
    laplace: tuple[SampledLaplaceParts, ...]
    two_point: tuple[TwoPointParts, ...]
    mixtures: tuple[tuple[GaussianMixtureSteps, ...], ...]
    log_unsampled: float
    """ln of the chance that no sampled Gaussian step has the record; -inf where a mirrored mixture is there."""
    global_mu: float
    """sqrt(sum N mu^2), mu of a step without sampling, of a mixture that of its largest shift, twice that where it is
    mirrored; infinite where Laplace or two-point steps are there, for which it says nothing.
    """
    deviation: float
    chi_square: tuple[ChiSquareSteps, ...] = ()
    _grids: dict[float, tuple[SampledGaussianParts, ...]] = field(
        default_factory=dict[float, tuple[SampledGaussianParts, ...]]
    )
    _mixture_grids: dict[float, tuple[GaussianMixtureParts, ...]] = field(
        default_factory=dict[float, tuple[GaussianMixtureParts, ...]]
    )
    _cuts: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    _chi_grids: dict[float, tuple[SampledChiSquareParts, ...]] = field(
        default_factory=dict[float, tuple[SampledChiSquareParts, ...]]
    )

    @staticmethod
    def of(
        gaussian_mu_squared: float,
        sampled: tuple[SampledGaussianSteps, ...],
        laplace: tuple[LaplaceSteps, ...] = (),
        two_point: tuple[TwoPointSteps, ...] = (),
        mixtures: tuple[GaussianMixtureSteps, ...] = (),
        chi_square: tuple[ChiSquareSteps, ...] = (),
    ) -> ContourRun:
        """The run of Gaussian steps of total mu^2, and the given sampled Gaussian, (sampled) Laplace, two-point,
        mixture and chi-square steps.
        """
        groups: list[list[SampledGaussianSteps]] = []
        for step in sorted(sampled):  # parts of similar noise share one grid
            if groups and step[0] <= 1.6 * groups[-1][0][0] and len(groups[-1]) < _MOST_PARTS:
                groups[-1].append(step)
            else:
                groups.append([step])
        spreads = [(rate / sigma, count) for sigma, rate, count in sampled]
        spreads += [(rate * loss, count) for loss, rate, count in laplace]
        spreads += [(loss, count) for loss, count in two_point]
        spreads += [(part.mean_shift, count) for part, count in mixtures]
        spreads += [(step.sample_rate * ChiSquareStep.of(step).spread, step.number) for step in chi_square]
        variance = gaussian_mu_squared + math.fsum(count * min(spread, 1.0) ** 2 for spread, count in spreads)
        log_unsampled = math.fsum(count * math.log1p(-rate) for _, rate, count in sampled)
        log_unsampled += math.fsum(count * _log_unsampled(part) for part, count in mixtures)
        log_unsampled += math.fsum(step.number * math.log1p(-step.sample_rate) for step in chi_square)
        squares = [count / sigma**2 for sigma, _, count in sampled]
        squares += [count * _largest_shift(part) ** 2 for part, count in mixtures]
        global_mu = math.sqrt(gaussian_mu_squared + math.fsum(squares))
        ends = gaussian_mu_squared > 0 or bool(sampled or mixtures or chi_square)
        if laplace or two_point or chi_square:
            global_mu = math.inf
        kinds = (
            tuple(map(tuple, groups)),
            (SampledLaplaceParts(laplace, math.sqrt(variance) if ends else None),) if laplace else (),
            (TwoPointParts(two_point),) if two_point else (),
            _alike(mixtures),
        )
        return ContourRun(gaussian_mu_squared, *kinds, log_unsampled, global_mu, math.sqrt(variance), chi_square)

    @property
    def only_step(self) -> SampledGaussianSteps | None:
        """The one kind of step of a run of nothing but sampled Gaussian steps; None of others."""
        others = self.gaussian_mu_squared > 0 or self.laplace or self.two_point or self.mixtures or self.chi_square
        return self.groups[0][0] if not others and len(self.groups) == 1 == len(self.groups[0]) else None

    @property
    def is_gaussian(self) -> bool:
        """Whether all steps are Gaussian, sampled or not."""
        return not (self.laplace or self.two_point or self.chi_square)

    @property
    def is_straight(self) -> bool:
        """Whether rare jumps are read on straight lines too: no bent contour serves mixtures or chi-square parts."""
        return bool(self.mixtures or self.chi_square)

    @property
    def reach(self) -> tuple[float, float]:
        """Infimum and supremum of the loss in the add direction."""
        if self.gaussian_mu_squared > 0:
            return -math.inf, math.inf
        ends = [part.log_reach for part in self.laplace] + [(-part.reach, part.reach) for part in self.two_point]
        ends += [(0.0, step.number * ChiSquareStep.of(step).largest_loss) for step in self.chi_square]
        low, high = math.fsum(end[0] for end in ends), math.fsum(end[1] for end in ends)
        return self.log_unsampled + low, math.inf if self.groups or self.mixtures else high

    @property
    def is_symmetric(self) -> bool:
        """Whether both directions are the same: the law of the loss of every step is symmetric."""
        mirrored = all(part.mirrored for group in self.mixtures for part, _ in group)
        return mirrored and not (self.groups or self.laplace or self.chi_square)

    @property
    def reach_error(self) -> float:
        """What the errors of weights may add to the infimum of the loss, nats."""
        known = [(part, count) for group in self.mixtures for part, count in group]
        logs = [(_log_unsampled(part), count * part.weight_error) for part, count in known]
        return math.fsum(4 * error * math.exp(-log) for log, error in logs if error > 0 and log > -700)

    def transform(self, digits: float, *, reflected: bool) -> LossTransform | None:
        """The moments with less than 10^-digits of the mass cut off; None where their grids would be too large, or
        where nothing of a transform falls: steps of two losses alone, beside others that are rounded to nothing.
        """
        parts = self._parts(digits)
        mixtures = self._mixture_parts(digits)
        chi_square = self._chi_square_parts(digits)
        if any(part.size > _LARGEST_GRID for part in (*parts, *mixtures, *chi_square)):
            return None
        if not (self.gaussian_mu_squared > 0 or parts or mixtures or self.laplace or chi_square):
            return None
        others = self.laplace, self.two_point, mixtures, chi_square
        return LossTransform(self.gaussian_mu_squared, parts, reflected, *others)

    def cuts(self, value: float, score: float) -> tuple[int, ...]:
        """`cut_orders` of one place."""
        return tuple(self.cut_orders(np.array([value]), np.array([score]))[0].tolist())

    def cut_orders(self, values: FloatArray, scores: FloatArray, *, every: bool = False) -> IndexArray:
        """Indices in `CUT_DIGITS` of the cuts to read on, in their order, for each of some places: a guess that costs
        time, never validity; shape (places, cuts), filled up with -1.

        `values` are the probabilities read (cuts lie 12 digits below them), `scores` their tails in standard
        deviations; `every`: whether all other cuts follow. At a tilt theta the end y of the grid weighs about
        N e^{-y^2/2 + theta L(y)}. Tilts grow with the score, up to where jumps inside the cut take over; the cut is one
        whose end weighs nothing by then, and deeper ones follow. Where that is very deep, the shallowest comes first:
        jumps beyond it make lines long that need not be.
        """
        last = len(CUT_DIGITS) - 1
        if not (self.groups or self.mixtures or self.chi_square):  # nothing is cut
            rest = range(last) if every else range(0)
            return np.tile(np.array([last, *rest]), (len(values), 1))
        with np.errstate(divide="ignore"):
            wanted = 12 - np.log10(values)
        least = np.minimum(np.searchsorted(CUT_DIGITS, wanted), last)
        rounded = np.ceil(np.clip(scores, _USUAL_SCORE, _FARTHEST_SCORE)).astype(np.intp)
        if len(values) == 1:
            return np.array([self._cut_order(int(least[0]), int(rounded[0]), every=every)])
        keys, places = np.unique(least * (_FARTHEST_SCORE + 1) + rounded, return_inverse=True)
        orders = [self._cut_order(*divmod(key, _FARTHEST_SCORE + 1), every=every) for key in keys.tolist()]
        found = np.full((len(orders), max(map(len, orders))), -1)
        for row, order in zip(found, orders, strict=True):
            row[: len(order)] = order
        return found[places]

    def _cut_order(self, first: int, score: int, *, every: bool) -> tuple[int, ...]:
        last = len(CUT_DIGITS) - 1
        if (first, score) not in self._cuts:
            theta = 0.5 + score / max(self.deviation, 1e-290)
            light = np.flatnonzero(self._ends_are_light(np.array(CUT_DIGITS[first:]), theta))
            self._cuts[first, score] = first + int(light[0]) if len(light) else first
        known = self._cuts[first, score]
        rest = range(last + 1) if every else ()
        deeper = range(known, min(known + _CUTS_TRIED, last + 1))
        shallow = (first,) if CUT_DIGITS[known] > _DEEP else ()
        return tuple(dict.fromkeys((*shallow, *deeper, *rest)))

    def cut_orders_for_thresholds(self, epsilons: FloatArray) -> IndexArray:
        """The same for the profile, its tail guessed from a Gaussian loss of about the run's deviation: all cuts."""
        deviation = max(self.deviation, 1e-290)
        scores = np.minimum((np.abs(epsilons) + 0.5 * deviation**2) / deviation, 36.0)
        return self.cut_orders(0.5 * erfc(scores / math.sqrt(2)), scores, every=True)

    def _parts(self, digits: float) -> tuple[SampledGaussianParts, ...]:
        if digits not in self._grids:
            self._grids[digits] = tuple(SampledGaussianParts(group, self.deviation, digits) for group in self.groups)
        return self._grids[digits]

    def _mixture_parts(self, digits: float) -> tuple[GaussianMixtureParts, ...]:
        if digits not in self._mixture_grids:
            counts = [sum(step.number for step in group) for group in self.mixtures]
            others = [sum(count for _, _, count in group) for group in self.groups]
            total = float(sum(counts) + sum(others))
            self._mixture_grids[digits] = tuple(
                GaussianMixtureParts(group, self.deviation, digits, total - count)
                for group, count in zip(self.mixtures, counts, strict=True)
            )
        return self._mixture_grids[digits]

    def _chi_square_parts(self, digits: float) -> tuple[SampledChiSquareParts, ...]:
        if digits not in self._chi_grids:
            made = (SampledChiSquareParts(step, self.deviation, digits) for step in self.chi_square)
            self._chi_grids[digits] = tuple(made)
        return self._chi_grids[digits]

    def _ends_are_light(self, digits: FloatArray, theta: float) -> BoolArray:
        """Whether the ends of all grids for each of some cuts weigh nothing at the tilt."""
        several = any(sum(s > 0 for s in part.shifts) > 1 for group in self.mixtures for part, _ in group)
        # A deeper cut has jumps to larger shifts, too, which rule at smaller tilts: the first is as good as any.
        # Next to normal statistics are as light as a normal one: this is a guess.
        near = tuple(
            (SampledGaussianSteps(1 / ChiSquareStep.of(step).spread, step.sample_rate, step.number),)
            for step in self.chi_square
        )
        light = np.ones(len(digits), dtype=bool)
        if several:
            return light
        for group in (*self.groups, *near):
            light &= _end_is_light(group, digits, theta)
        for group in self.mixtures:
            light &= [_mixture_end_is_light(group, float(each), theta) for each in digits]
        return light


def _largest_shift(part: GaussianMixturePart) -> float:
    return max(part.shifts[-1], part.farthest) / part.noise_multiplier * (1 + part.mirrored)


def _log_unsampled(part: GaussianMixturePart) -> float:
    """ln w_0 from below; -inf where it is not known to be positive."""
    taken = math.fsum(w for s, w in zip(part.shifts, part.weights, strict=True) if s > 0) * (1 + part.weight_error)
    taken += part.light
    return math.log1p(-taken) if taken < 1 and part.shifts[0] == 0 and not part.mirrored else -math.inf


def _alike(mixtures: tuple[GaussianMixtureSteps, ...]) -> tuple[tuple[GaussianMixtureSteps, ...], ...]:
    """Mixtures of similar noise and as many shifts together, not too many at once."""

    def form(part: GaussianMixturePart) -> tuple[bool, int]:
        return part.mirrored, len(part.shifts)

    groups: list[list[GaussianMixtureSteps]] = []
    for step in sorted(mixtures, key=lambda one: (*form(one.part), one.part.noise_multiplier, one.part.weights)):
        first = groups[-1][0].part if groups else None
        alike = first is not None and form(first) == form(step.part)
        near = first is not None and step.part.noise_multiplier <= 1.6 * first.noise_multiplier
        if alike and near and len(groups[-1]) * len(step.part.shifts) < _MOST_TERMS:
            groups[-1].append(step)
        else:
            groups.append([step])
    return tuple(map(tuple, groups))


def _end_is_light(steps: tuple[SampledGaussianSteps, ...], digits: FloatArray, theta: float) -> BoolArray:
    """Whether the end of the grid for each cut weighs nothing at the tilt, or at the least tilt at which jumps rule."""
    step = min(steps, key=lambda step: step[0] - 1e-3 * math.log(step[1]))
    sigma, rate, count = (np.full_like(digits, float(each)) for each in step)
    return ends_are_light(sigma, rate, count, digits, np.full_like(digits, theta))


def ends_are_light(
    sigma: FloatArray, rate: FloatArray, count: FloatArray, digits: FloatArray, theta: FloatArray
) -> BoolArray:
    """The same for many runs of one step each, arrays of one shape."""
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


def _mixture_end_is_light(steps: tuple[GaussianMixtureSteps, ...], digits: float, theta: float) -> bool:
    """The same for mixtures of one positive shift."""
    part, count = max(steps, key=lambda step: step.part.mean_shift)
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
