"""A run as a list of steps (summands of its privacy loss), grouped for evaluation, and its truncation levels.

A truncation level 10^-d omits jumps of the loss of total probability at most 10^-d.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from scipy.special import erfc

from service.privacy.composition.inversion.loss_transform import LossTransform
from service.privacy.composition.summands.abstract import RunScale, Summand, TruncatedSummand
from service.privacy.composition.summands.catalogue import truncated
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray

TRUNCATION_DIGITS = (22.0, 40.0, 80.0, 160.0, 330.0, 1000.0)
"""Truncation levels: the moments leave out far jumps of mass 10^-digits."""

MOST_PARTS: Final = 4
"""Maximal number of kinds of steps of a run that is evaluated together with others. More kinds share exponentials."""

_DEEP_DIGITS = 100.0
"""Digits of a truncation level above which the shallowest useful level is tried first.

Jumps of probability below 10^-100 make contours long, and hardly any number needs them.
"""

_LEVELS_TRIED = 3
"""Number of levels with negligible last nodes that are tried, each deeper than the one before."""

_LARGEST_GRID = 150_000
"""Nodes (times parts) above which no moment is evaluated. Only noise multipliers below about 0.002 need more."""

_FARTHEST_SCORE = 40
"""Largest score, in standard deviations. No tail in the range of doubles is farther."""

_SHARED_SCORE = 5
"""Score, in standard deviations, whose level serves all nearer thresholds, so that requests share contours."""


@dataclass(frozen=True)
class RunLaw:
    """Run: independent steps whose privacy losses add up, as both directions (add and remove) share it.

    A *summand* is a number of equal steps. The log-moment functions of the summands are cached by truncation level.

    Attributes
    ----------
    gaussian_mu_squared : float
        Sum of mu^2 over the Gaussian steps without sampling.
    groups : tuple
        Tuples of summands of one law, whose log-moment functions are evaluated in shared arrays.
    deviation : float
        Approximate standard deviation of the loss in nats, where a step counts 1 nat if it has more.
    """

    gaussian_mu_squared: float
    groups: tuple[tuple[Summand, ...], ...]
    deviation: float
    _truncated: dict[tuple[int, float], TruncatedSummand] = field(
        default_factory=dict[tuple[int, float], TruncatedSummand]
    )
    _levels: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    @staticmethod
    def of(gaussian_mu_squared: float, summands: Iterable[Summand]) -> RunLaw:
        """Return the run of Gaussian steps and summands, with the summands in groups of one law.

        `gaussian_mu_squared` is the sum of mu^2 over the Gaussian steps without sampling.
        """
        groups: list[list[Summand]] = []
        for summand in sorted(summands, key=lambda summand: summand.order):
            alike = groups and type(groups[-1][0]) is type(summand)
            if alike and summand.joins(groups[-1]):
                groups[-1].append(summand)
            else:
                groups.append([summand])
        spreads = (each.count * min(each.spread, 1.0) ** 2 for group in groups for each in group)
        deviation = math.sqrt(gaussian_mu_squared + math.fsum(spreads))
        return RunLaw(gaussian_mu_squared, tuple(map(tuple, groups)), deviation)

    @cached_property
    def summands(self) -> tuple[Summand, ...]:
        """All summands of the run, in a canonical order."""
        return tuple(summand for group in self.groups for summand in group)

    @cached_property
    def unit(self) -> tuple[tuple[Summand, ...], int] | None:
        """Pair (steps, times), if the run repeats these steps `times` times and can be evaluated with others, or None.

        The steps have one law that many runs can share, and at most four kinds. The property is None for other runs,
        and for those with Gaussian steps without sampling.
        """
        steps, laws = self.summands, {step.batch for step in self.summands}
        if len(laws) != 1 or None in laws or len(steps) > MOST_PARTS or self.gaussian_mu_squared > 0:
            return None
        times = math.gcd(*(step.count for step in steps))
        return tuple(replace(cast("Any", step), count=step.count // times) for step in steps), times

    @cached_property
    def log_prob_never_sampled(self) -> float:
        """ln of the probability that no step, except Gaussian steps without sampling, uses the record.

        The value is -inf if this probability is unknown for some kind of step.
        """
        return math.fsum(summand.log_prob_never_sampled for summand in self.summands)

    @cached_property
    def global_mu(self) -> float:
        """sqrt(sum N mu^2) over all kinds of steps: N equal steps, each of which is mu-GDP without sampling.

        GDP is Gaussian differential privacy. For a mixture of Gaussians mu is that of its largest shift, and twice that
        if the mixture is mirrored. The result is infinite where a step has no such mu.
        """
        squares = math.fsum(summand.gdp_mu_squared for summand in self.summands)
        return math.sqrt(self.gaussian_mu_squared + squares)

    @cached_property
    def is_gaussian(self) -> bool:
        """Whether all steps are Gaussian, sampled or not, or mixtures of Gaussians."""
        return all(math.isfinite(summand.gdp_mu_squared) for summand in self.summands)

    @cached_property
    def is_straight(self) -> bool:
        """Whether rare large losses are evaluated along vertical lines and not along deformed contours.

        The property is true if the loss of a summand (a number of equal steps) has a density and the summand is no
        `SampledStep`.
        """
        return any(summand.decays and summand.sampled_step is None for summand in self.summands)

    @property
    def sampled_steps(self) -> tuple[SampledStep, ...] | None:
        """Summands as sampled Gaussian steps for deformed contours; None where one of them is of another kind."""
        known = tuple(step for summand in self.summands if (step := summand.sampled_step) is not None)
        return known if len(known) == len(self.summands) else None

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss in nats, in the add direction."""
        if self.gaussian_mu_squared > 0:
            return -math.inf, math.inf
        ends = [summand.loss_range for summand in self.summands]
        return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)

    @property
    def least_loss_error(self) -> float:
        """Bound, in nats, of the absolute error of the smallest loss in `loss_range`.

        The error comes from rounded weights, such as sampling rates or the weights of mixtures.
        """
        return math.fsum(summand.least_loss_error for summand in self.summands)

    @property
    def is_symmetric(self) -> bool:
        """Whether the curves of both directions are equal.

        They are if the loss of every step has a symmetric law, and one of the laws has a density.
        """
        summands = self.summands
        return all(each.is_symmetric for each in summands) and any(each.decays for each in summands)

    @property
    def most_together(self) -> int:
        """Largest number of different steps that one group of equal laws evaluates in shared arrays.

        Only groups whose losses have a density count; the value is 0 without any.
        """
        return max((len(group) for group in self.groups if group[0].decays), default=0)

    def transform(self, digits: float, *, reflected: bool) -> LossTransform | None:
        """Return the log-moment function of the loss without rare large losses of total probability 10^-`digits`.

        `reflected` swaps the hypotheses. The result is None if a quadrature grid would be too large. It is also None if
        there are no Gaussian steps and all summands have losses with atoms only.
        """
        summands = tuple(self._truncate(index, digits) for index in range(len(self.groups)))
        if any(summand.decays and summand.size > _LARGEST_GRID for summand in summands):
            return None
        if not (self.gaussian_mu_squared > 0 or any(not summand.is_atomic for summand in self.summands)):
            return None
        return LossTransform(self.gaussian_mu_squared, summands, reflected)

    def _truncate(self, index: int, digits: float) -> TruncatedSummand:
        group = self.groups[index]
        key = index, digits if group[0].decays else 0.0  # others are not truncated
        if key not in self._truncated:
            self._truncated[key] = truncated(group, digits, self._scale)
        return self._truncated[key]

    @cached_property
    def _scale(self) -> RunScale:
        gaussian = float(sum(each.count for each in self.summands if math.isfinite(each.gdp_mu_squared)))
        decays = self.gaussian_mu_squared > 0 or any(each.decays for each in self.summands)
        return RunScale(self.deviation, gaussian, decays)

    def levels(self, value: float, score: float, *, every: bool = False) -> tuple[int, ...]:
        """Return the indices in `TRUNCATION_DIGITS` of the truncation levels to try for one number, in order.

        `value` is the probability to evaluate, and `score` is the normal score (in standard deviations) whose tail is
        that probability. A level is d if the law omits rare large losses of total probability 10^-d. With `every`,
        all other levels follow.
        """
        last = len(TRUNCATION_DIGITS) - 1
        if not self.is_truncated:
            return (last,)
        wanted = 12 - math.log10(value) if value > 0 else math.inf
        least = min(bisect_left(TRUNCATION_DIGITS, wanted), last)
        return self._level_order(least, math.ceil(min(max(score, _SHARED_SCORE), _FARTHEST_SCORE)), every=every)

    @cached_property
    def is_truncated(self) -> bool:
        """Whether the law of a summand omits far jumps of the loss."""
        return any(summand.decays for summand in self.summands)

    def level_orders(self, values: FloatArray, scores: FloatArray, *, every: bool = False) -> IndexArray:
        """Return the truncation levels to try for each of n numbers, in order, as indices in `TRUNCATION_DIGITS`.

        A level 10^-d omits jumps (rare large losses of a step) of total probability at most 10^-d.

        Parameters
        ----------
        values : (n,)
            Probabilities to evaluate; levels lie 12 digits below them.
        scores : (n,)
            Normal scores, in standard deviations, whose tails are about these probabilities.
        every : bool
            Whether the result also lists all other levels, after the levels that should serve.

        Returns
        -------
        (n, levels)
            Indices, filled with -1. The choice affects the cost, never validity.

        Notes
        -----
        A grid has quadrature nodes y (normal scores of a step's outcome) with losses L(y). The loss weighted by
        e^{theta S} is tilted to theta. At a tilt theta the last node y of the grid of N steps has the weight N
        e^{-y^2/2 + theta L(y)}, approximately. Tilts grow with the score, up to where jumps inside the truncated law
        dominate. The first level is the one whose last node is negligible at that tilt, and deeper levels follow. Where
        that level is very deep, the shallowest level comes first, because jumps beyond it make contours longer than
        necessary.
        """
        if len(values) == 1 or not self.is_truncated:
            order = self.levels(float(values[0]), float(scores[0]), every=every)
            return np.tile(np.array(order), (len(values), 1))
        last = len(TRUNCATION_DIGITS) - 1
        with np.errstate(divide="ignore"):
            wanted = 12 - np.log10(values)
        least = np.minimum(np.searchsorted(TRUNCATION_DIGITS, wanted), last)
        rounded = np.ceil(np.clip(scores, _SHARED_SCORE, _FARTHEST_SCORE)).astype(np.intp)
        keys, indices = np.unique(least * (_FARTHEST_SCORE + 1) + rounded, return_inverse=True)
        orders = [self._level_order(*divmod(key, _FARTHEST_SCORE + 1), every=every) for key in keys.tolist()]
        found = np.full((len(orders), max(map(len, orders))), -1)
        for row, order in zip(found, orders, strict=True):
            row[: len(order)] = order
        return found[indices]

    def _level_order(self, first: int, score: int, *, every: bool) -> tuple[int, ...]:
        last = len(TRUNCATION_DIGITS) - 1
        if (first, score) not in self._levels:
            theta = 0.5 + score / max(self.deviation, 1e-290)
            light = np.flatnonzero(self._last_nodes_are_negligible(np.array(TRUNCATION_DIGITS[first:]), theta))
            self._levels[first, score] = first + int(light[0]) if len(light) else first
        known = self._levels[first, score]
        rest = range(last + 1) if every else ()
        deeper = range(known, min(known + _LEVELS_TRIED, last + 1))
        shallow = (first,) if TRUNCATION_DIGITS[known] > _DEEP_DIGITS else ()
        return tuple(dict.fromkeys((*shallow, *deeper, *rest)))

    def level_orders_for_thresholds(self, epsilons: FloatArray) -> IndexArray:
        """Return the order in which to try truncation levels for the profile at n epsilons (nats), shape (n, levels).

        A level is d if the law omits rare large losses of total probability 10^-d. Entries are indices in
        `TRUNCATION_DIGITS`, filled with -1. The order follows from a Gaussian loss with the run's standard deviation.
        """
        deviation = max(self.deviation, 1e-290)
        scores = np.minimum((np.abs(epsilons) + 0.5 * deviation**2) / deviation, 36.0)
        return self.level_orders(0.5 * erfc(scores / math.sqrt(2)), scores, every=True)

    def _last_nodes_are_negligible(self, digits: FloatArray, theta: float) -> BoolArray:
        """Return a mask of truncation levels 10^-`digits` whose quadrature grids end with a negligible weight.

        The weight of a node is that of the loss S times e^{`theta` S}.
        """
        # A deeper level has jumps of other sizes, which dominate at smaller tilts. The first level is as good as any.
        several = any(summand.has_several_jumps for summand in self.summands)
        light = np.ones(len(digits), dtype=bool)
        for group in () if several else self.groups:
            light &= type(group[0]).last_nodes_are_negligible((group,), digits, np.array([theta]))[:, 0]
        return light
