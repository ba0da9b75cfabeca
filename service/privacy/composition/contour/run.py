"""The steps of a run, grouped for evaluation, and where to cut the law at far jumps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from service.privacy.composition.contour.loss_transform import LossTransform
from service.privacy.composition.transforms.sampled_gaussian import SampledGaussianParts
from service.privacy.composition.transforms.sampled_laplace import SampledLaplaceParts
from service.privacy.composition.transforms.steps import LaplaceSteps, SampledGaussianSteps, TwoPointSteps
from service.privacy.composition.transforms.two_points import TwoPointParts

CUT_DIGITS = (22.0, 40.0, 80.0, 160.0, 330.0, 1000.0)
"""Masses 10^-digits at which far jumps are cut off."""

_LARGEST_GRID = 150_000
"""Nodes (times parts) above which no moment is evaluated: only noise multipliers below about 0.002 need more."""


@dataclass(frozen=True)
class ContourRun:
    """What both directions share: the steps, and their moments with the far jumps cut off at several masses."""

    gaussian_mu_squared: float
    groups: tuple[tuple[SampledGaussianSteps, ...], ...]
    laplace: tuple[SampledLaplaceParts, ...]
    two_point: tuple[TwoPointParts, ...]
    log_unsampled: float
    """ln of the chance that no sampled Gaussian step has the record."""
    global_mu: float
    """sqrt(sum N/sigma^2); infinite where Laplace or two-point steps are there, for which it says nothing."""
    deviation: float
    _grids: dict[float, tuple[SampledGaussianParts, ...]] = field(
        default_factory=dict[float, tuple[SampledGaussianParts, ...]]
    )
    _cuts: dict[tuple[float, int], int] = field(default_factory=dict[tuple[float, int], int])

    @staticmethod
    def of(
        gaussian_mu_squared: float,
        sampled: tuple[SampledGaussianSteps, ...],
        laplace: tuple[LaplaceSteps, ...] = (),
        two_point: tuple[TwoPointSteps, ...] = (),
    ) -> ContourRun:
        """The run of Gaussian steps of total mu^2, and the given sampled Gaussian, (sampled) Laplace and two-point
        steps.
        """
        groups: list[list[SampledGaussianSteps]] = []
        for step in sorted(sampled):  # parts of similar noise share one grid
            if groups and step[0] <= 1.6 * groups[-1][0][0]:
                groups[-1].append(step)
            else:
                groups.append([step])
        spreads = [(rate / sigma, count) for sigma, rate, count in sampled]
        spreads += [(rate * loss, count) for loss, rate, count in laplace]
        spreads += [(loss, count) for loss, count in two_point]
        variance = gaussian_mu_squared + math.fsum(count * min(spread, 1.0) ** 2 for spread, count in spreads)
        log_unsampled = math.fsum(count * math.log1p(-rate) for _, rate, count in sampled)
        global_mu = math.sqrt(gaussian_mu_squared + math.fsum(count / sigma**2 for sigma, _, count in sampled))
        ends = gaussian_mu_squared > 0 or bool(sampled)
        if laplace or two_point:
            global_mu = math.inf
        kinds = (
            tuple(map(tuple, groups)),
            (SampledLaplaceParts(laplace, math.sqrt(variance) if ends else None),) if laplace else (),
            (TwoPointParts(two_point),) if two_point else (),
        )
        return ContourRun(gaussian_mu_squared, *kinds, log_unsampled, global_mu, math.sqrt(variance))

    @property
    def is_gaussian(self) -> bool:
        """Whether all steps are Gaussian, sampled or not."""
        return not (self.laplace or self.two_point)

    @property
    def reach(self) -> tuple[float, float]:
        """Infimum and supremum of the loss in the add direction."""
        if self.gaussian_mu_squared > 0:
            return -math.inf, math.inf
        ends = [part.log_reach for part in self.laplace] + [(-part.reach, part.reach) for part in self.two_point]
        low, high = math.fsum(end[0] for end in ends), math.fsum(end[1] for end in ends)
        return self.log_unsampled + low, math.inf if self.groups else high

    def transform(self, digits: float, *, reflected: bool) -> LossTransform | None:
        """The moments with less than 10^-digits of the mass cut off; None where their grids would be too large."""
        parts = self._parts(digits)
        if any(part.size > _LARGEST_GRID for part in parts):
            return None
        return LossTransform(self.gaussian_mu_squared, parts, reflected, self.laplace, self.two_point)

    def first_cut(self, value: float, score: float) -> int:
        """Index in `CUT_DIGITS` of the cut to begin with: a guess that costs time, never validity.

        `value` is the probability read (the cut lies 12 digits below it), `score` its tail in standard deviations. At a
        tilt theta the end y of the grid weighs about N e^{-y^2/2 + theta L(y)}. Tilts grow with the score, up to where
        jumps inside the cut take over; the cut must lie where the end weighs nothing by then.
        """
        if not self.groups:  # nothing is cut
            return len(CUT_DIGITS) - 1
        wanted = 12 - math.log10(value)
        digits = next((digits for digits in CUT_DIGITS if digits >= wanted), CUT_DIGITS[-1])
        key = (digits, math.ceil(score))
        if key not in self._cuts:
            theta = 0.5 + key[1] / max(self.deviation, 1e-290)
            deeper = range(CUT_DIGITS.index(digits), len(CUT_DIGITS))
            light = (i for i in deeper if all(_end_is_light(group, CUT_DIGITS[i], theta) for group in self.groups))
            self._cuts[key] = next(light, deeper[0])
        return self._cuts[key]

    def first_cut_for_threshold(self, epsilon: float) -> int:
        """The same for the profile at eps, its tail guessed from a Gaussian loss of about the run's deviation."""
        deviation = max(self.deviation, 1e-290)
        score = min((abs(epsilon) + 0.5 * deviation**2) / deviation, 36.0)
        return self.first_cut(0.5 * math.erfc(score / math.sqrt(2)), score)

    def _parts(self, digits: float) -> tuple[SampledGaussianParts, ...]:
        if digits not in self._grids:
            self._grids[digits] = tuple(SampledGaussianParts(group, self.deviation, digits) for group in self.groups)
        return self._grids[digits]


def _end_is_light(steps: tuple[SampledGaussianSteps, ...], digits: float, theta: float) -> bool:
    """Whether the end of the grid for a cut weighs nothing at the tilt, or at the least tilt at which jumps rule."""
    sigma, rate, count = min(steps, key=lambda step: step[0] - 1e-3 * math.log(step[1]))
    steps_log = math.log(count)
    goal = digits * math.log(10) + math.log(2) + steps_log
    end = max(math.sqrt(2 * goal), 1 / sigma + math.sqrt(2 * max(goal + math.log(rate), 0.0)))

    def heaviest_tilt(y: float, margin: float) -> float:
        exponent = y / sigma - 0.5 / sigma**2
        loss = math.log1p(rate * math.expm1(exponent)) if exponent < 600 else exponent + math.log(rate)
        return (0.5 * y * y - steps_log - margin) / loss if loss > 0 else math.inf

    start = math.sqrt(2 * (steps_log + 8))
    jumps = min(heaviest_tilt(start + (end - start) * k / 12, 0.0) for k in range(13))
    return heaviest_tilt(end, 30.0) >= min(theta, jumps)
