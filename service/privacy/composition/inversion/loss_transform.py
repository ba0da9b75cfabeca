"""K(z) = ln E0 e^{zS} of a whole run: Gaussian steps in closed form plus Poisson-sampled Gaussian, Laplace, two-point,
Gaussian mixture and chi-square parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.privacy.composition.summands.abstract import LineValues, RealCumulants, StepLine, StepTransform
from service.privacy.composition.summands.gaussian_mixture import GaussianMixtureParts
from service.privacy.composition.summands.gaussian_mixture_line import GaussianMixtureLine
from service.privacy.composition.summands.sampled_chi_square import SampledChiSquareParts
from service.privacy.composition.summands.sampled_chi_square_line import SampledChiSquareLine
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianParts
from service.privacy.composition.summands.sampled_gaussian_line import SampledGaussianLine
from service.privacy.composition.summands.sampled_laplace import SampledLaplaceParts
from service.privacy.composition.summands.sampled_laplace_line import SampledLaplaceLine
from service.privacy.composition.summands.two_points import TwoPointLine, TwoPointParts
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True)
class LossTransform:
    """The loss S of a run under H0: Gaussian with mean -mu^2/2 and variance mu^2, plus the sampled parts.

    `reflected` exchanges the hypotheses: the loss of H1 against H0 is -S under H1, and its transform is K(1 - z).
    """

    gaussian_mu_squared: float
    parts: tuple[SampledGaussianParts, ...]
    reflected: bool = False
    laplace: tuple[SampledLaplaceParts, ...] = ()
    two_point: tuple[TwoPointParts, ...] = ()
    mixtures: tuple[GaussianMixtureParts, ...] = ()
    chi_square: tuple[SampledChiSquareParts, ...] = ()

    @property
    def steps(self) -> tuple[StepTransform, ...]:
        """The steps that are not Gaussian, by kind."""
        return (*self.parts, *self.laplace, *self.two_point, *self.mixtures, *self.chi_square)

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """K, K', K'' at real tilts (shape (S,)) and a bound of the error of K."""
        s = 1 - tilts if self.reflected else tilts
        mu2, steps = self.gaussian_mu_squared, self.steps
        if mu2 == 0 and len(steps) == 1:
            alone = steps[0].cumulants(s)
            first = -alone.first if self.reflected else alone.first
            error = alone.error + 4 * UNIT_ROUNDOFF * np.abs(alone.value)
            return RealCumulants(alone.value, first, alone.second, error, alone.truncation)
        value, first, second = 0.5 * mu2 * (s * s - s), mu2 * (s - 0.5), np.full_like(s, mu2)
        truncation = np.zeros_like(s)
        error = (
            0.5 * mu2 * (s * s + np.abs(s)) * 600 * UNIT_ROUNDOFF
        )  # mu^2 itself is a rounded sum of at most 256 parts
        for part in steps:
            sampled = part.cumulants(s)
            value, first, second = value + sampled.value, first + sampled.first, second + sampled.second
            error = error + sampled.error + 4 * UNIT_ROUNDOFF * np.abs(value)
            truncation = truncation + sampled.truncation
        return RealCumulants(value, -first if self.reflected else first, second, error, truncation)

    @property
    def log_dropped(self) -> tuple[float, float]:
        """ln of the mass of H0 and of H1 that the cut of the sampled parts leaves out, at most (in this direction)."""
        null = _log_sum([np.log(part.count) + part.log_dropped_null for part in self._cut])
        alternative = _log_sum([np.log(part.count) + part.log_dropped_alternative for part in self._cut])
        return (alternative, null) if self.reflected else (null, alternative)

    @property
    def _cut(self) -> tuple[SampledGaussianParts | GaussianMixtureParts | SampledChiSquareParts, ...]:
        return (*self.parts, *self.mixtures, *self.chi_square)

    @property
    def vanishes(self) -> bool:
        """Whether there is Gaussian noise, or a law with a density: the transform of the whole run falls to 0."""
        return bool(self._cut) or self.gaussian_mu_squared > 0

    @property
    def has_no_other_way(self) -> bool:
        """Whether there are steps that no bent contour serves, besides mixtures: lines may be long."""
        return bool(self.laplace or self.two_point or self.chi_square)

    @property
    def work(self) -> int:
        """Array elements of one evaluation of K on a line."""
        shared = sum(part.line_size for part in self._cut)
        return 1 + shared + sum(part.size for part in (*self.laplace, *self.two_point))

    @property
    def different(self) -> int:
        """How many different steps with lines of their own there are, but for Laplace and two-point ones."""
        return sum(len(part.count) for part in self._cut)

    def log_frozen(self, tilt: float) -> float:
        """ln of the mass, tilted by e^{tilt S}, of losses whose transform does not fall: of atoms of all steps. Of a
        two-point step that is everything.
        """
        if self.vanishes:
            return -np.inf
        s = 1 - tilt if self.reflected else tilt
        return sum(SampledLaplaceLine(part, s).log_frozen for part in self.laplace)


def _log_sum(logs: list[FloatArray]) -> float:
    return float(np.logaddexp.reduce(np.concatenate(logs))) if logs else -np.inf


class TransformLine:
    """A run's K on the vertical line Re z = theta, relative to K(theta)."""

    def __init__(self, transform: LossTransform, theta: float) -> None:
        self._transform = transform
        self._theta = 1 - theta if transform.reflected else theta
        sampled = (SampledGaussianLine(part, self._theta) for part in transform.parts)
        mixtures = (GaussianMixtureLine(part, self._theta) for part in transform.mixtures)
        chi_square = (SampledChiSquareLine(part, self._theta) for part in transform.chi_square)
        self._gaussian = (*sampled, *mixtures, *chi_square)
        self._laplace = tuple(SampledLaplaceLine(part, self._theta) for part in transform.laplace)
        two_point = (TwoPointLine(part, self._theta) for part in transform.two_point)
        self._lines: tuple[StepLine, ...] = (*self._gaussian, *self._laplace, *two_point)
        self._vanishes = transform.vanishes

    def origin(self) -> tuple[float, float]:
        """K(theta) to full precision, and a bound of its error."""
        s, mu2 = self._theta, self._transform.gaussian_mu_squared
        value, error = 0.5 * mu2 * (s * s - s), 0.5 * mu2 * (s * s + abs(s)) * 600 * UNIT_ROUNDOFF
        for part in self._lines:
            sampled, sampled_error = part.origin
            value, error = value + sampled, error + sampled_error
        return value, error + 4 * UNIT_ROUNDOFF * abs(value)

    def work(self, height: float) -> int:
        """Array elements of one evaluation of K on a line up to this height: sampled Laplace steps take the more nodes
        the higher it is.
        """
        refined = sum(part.refined_size(self._theta, height) for part in self._transform.laplace)
        return self._transform.work + refined

    def values(self, step: float, nodes: int) -> LineValues:
        """K(theta + i k step) - K(theta), k = 0..nodes, and a bound of the absolute error of each."""
        t = np.arange(nodes + 1) * step
        difference = self._transform.gaussian_mu_squared * (-0.5 * t * t + 1j * t * (self._theta - 0.5))
        error = 600 * UNIT_ROUNDOFF * np.abs(difference)
        for part in self._lines:
            sampled = part.values(step, nodes)
            difference, error = difference + sampled.difference, error + sampled.error
        error = error + 4 * UNIT_ROUNDOFF * np.abs(difference)
        return LineValues(np.conj(difference) if self._transform.reflected else difference, error)

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of Re K(theta + it) - K(theta), t >= each height, and the least that one sampled step adds.

        Without that step the first less the second bounds the rest of the run. The majorants are laid out for the
        first height. Where no Gaussian step is there, the transform is that without its frozen part, which falls like
        1/t from some height on: there is no such step, and the second is what makes the tail of an integral that of the
        first. Two-point steps add nothing: 1 is all that bounds them.
        """
        total = -0.5 * self._transform.gaussian_mu_squared * heights**2 * (1 - 600 * UNIT_ROUNDOFF)
        strongest = np.zeros_like(heights)
        for part in self._gaussian:
            whole, single = part.log_majorants(heights)
            total, strongest = total + whole, np.minimum(strongest, single)
        for part in self._laplace:
            total = total + part.log_majorants(heights)
        return (total, strongest) if self._vanishes else self._without_frozen(heights, total)

    def _without_frozen(self, heights: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
        """|M^N - atoms^N| <= |M|^N + A^N, and far out at most (A + V/t)^N - A^N, over all Laplace steps together."""
        frozen = sum(part.log_frozen for part in self._laplace)
        last = max(part.last_height for part in self._laplace)
        gap = np.minimum(frozen - total, -1e-300)
        whole = np.where(heights < last, np.logaddexp(total, frozen), total + np.log(-np.expm1(gap)) + 1e-12)
        # A tail from t on is at most the majorant there times 1 + ln(last/t).
        return whole, -np.log(heights) - np.log1p(np.log(np.maximum(last / heights, 1.0)))

    def log_variation(self) -> float:
        """ln V with |M(theta + it)/M(theta)| <= V/t for one of the sampled steps; +inf without any.

        0 where only Laplace steps are there, see `log_majorants`.
        """
        return min((part.log_variation() for part in self._gaussian), default=np.inf if self._vanishes else 0.0)
