"""K(z) = ln E0 e^{zS} of a whole run: Gaussian steps in closed form plus truncated summands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.privacy.composition.summands.abstract import RealCumulants, TruncatedSummand, ValuesOnContour
from service.privacy.composition.summands.catalogue import on_contour
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True)
class LossTransform:
    """Transform of the loss S of a run under H0: Gaussian with mean -mu^2/2 and variance mu^2, plus the summands.

    `reflected` swaps the hypotheses: the loss of H1 against H0 is -S under H1, and its transform is K(1 - z).
    """

    gaussian_mu_squared: float
    summands: tuple[TruncatedSummand, ...]
    reflected: bool = False

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return K, K', K'' at real tilts (shape (S,)) and a bound of the error of K."""
        s = 1 - tilts if self.reflected else tilts
        mu2, summands = self.gaussian_mu_squared, self.summands
        if mu2 == 0 and len(summands) == 1:
            alone = summands[0].cumulants(s)
            first = -alone.first if self.reflected else alone.first
            error = alone.error + 4 * UNIT_ROUNDOFF * np.abs(alone.value)
            return RealCumulants(alone.value, first, alone.second, error, alone.discretisation)
        value, first, second = 0.5 * mu2 * (s * s - s), mu2 * (s - 0.5), np.full_like(s, mu2)
        discretisation = np.zeros_like(s)
        error = (
            0.5 * mu2 * (s * s + np.abs(s)) * 600 * UNIT_ROUNDOFF
        )  # mu^2 itself is a rounded sum of at most 256 parts
        for summand in summands:
            sampled = summand.cumulants(s)
            value, first, second = value + sampled.value, first + sampled.first, second + sampled.second
            error = error + sampled.error + 4 * UNIT_ROUNDOFF * np.abs(value)
            discretisation = discretisation + sampled.discretisation
        return RealCumulants(value, -first if self.reflected else first, second, error, discretisation)

    @property
    def log_truncated_mass(self) -> tuple[float, float]:
        """Upper bounds of ln of the truncated mass of H0 and of H1, in this direction."""
        masses = [summand.log_truncated_mass for summand in self.summands]
        null, alternative = (_log_sum([each[side] for each in masses]) for side in (0, 1))
        return (alternative, null) if self.reflected else (null, alternative)

    @property
    def decays(self) -> bool:
        """Whether there is Gaussian noise, or a law with a density: the transform of the whole run falls to 0."""
        return self.gaussian_mu_squared > 0 or any(summand.decays for summand in self.summands)

    @property
    def is_gaussian(self) -> bool:
        """Whether all steps are Gaussian or mixtures of Gaussians, whose contours may be cut short (`most_nodes`)."""
        return all(summand.is_gaussian for summand in self.summands)

    @property
    def work(self) -> int:
        """Number of array elements of one evaluation of K on a contour."""
        return 1 + sum(summand.contour_size for summand in self.summands)

    @property
    def different(self) -> int:
        """Number of different steps with a density that is not Gaussian."""
        return sum(len(summand.count) for summand in self.summands if summand.decays)

    def log_atoms(self, tilt: float) -> float:
        """Return ln of the mass, tilted by e^{tilt S}, of losses whose transform does not decay."""
        if self.decays:
            return -np.inf
        s = 1 - tilt if self.reflected else tilt
        return sum(on_contour(summand, s).log_atoms for summand in self.summands)


def _log_sum(logs: list[FloatArray]) -> float:
    return float(np.logaddexp.reduce(np.concatenate(logs))) if logs else -np.inf


class TransformOnContour:
    """Transform K of a run on the contour Re z = theta, relative to K(theta)."""

    def __init__(self, transform: LossTransform, theta: float) -> None:
        self._transform = transform
        self._theta = 1 - theta if transform.reflected else theta
        # Decaying summands first.
        summands = sorted(transform.summands, key=lambda each: not each.decays)
        self._summands = tuple(on_contour(each, self._theta) for each in summands)
        self._decays = transform.decays

    def origin(self) -> tuple[float, float]:
        """Return K(theta) to full precision, and a bound of its error."""
        s, mu2 = self._theta, self._transform.gaussian_mu_squared
        value, error = 0.5 * mu2 * (s * s - s), 0.5 * mu2 * (s * s + abs(s)) * 600 * UNIT_ROUNDOFF
        for summand in self._summands:
            sampled, sampled_error = summand.origin
            value, error = value + sampled, error + sampled_error
        return value, error + 4 * UNIT_ROUNDOFF * abs(value)

    def work(self, height: float) -> int:
        """Return the array elements of one evaluation of K on a contour up to this height."""
        return self._transform.work + sum(summand.work(height) for summand in self._summands)

    def values(self, step: float, nodes: int) -> ValuesOnContour:
        """Return K(theta + i k step) - K(theta), k = 0..nodes, with errors as in `ValuesOnContour`."""
        t = np.arange(nodes + 1) * step
        difference = self._transform.gaussian_mu_squared * (-0.5 * t * t + 1j * t * (self._theta - 0.5))
        error = 600 * UNIT_ROUNDOFF * np.abs(difference)
        for summand in self._summands:
            sampled = summand.values(step, nodes)
            difference, error = difference + sampled.difference, error + sampled.error
        error = error + 4 * UNIT_ROUNDOFF * np.abs(difference)
        return ValuesOnContour(np.conj(difference) if self._transform.reflected else difference, error)

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: bounds of ln |M(theta + it')/M(theta)|, t' >= t, of the run and of one step.

        `heights` are the heights t >= 0, shape (H,); the majorants are laid out for the first of them. `single` is the
        smallest bound of one step with a density, so that `whole - single` bounds the rest of the run. Where no summand
        decays, `whole` bounds the transform without its atomic part, which falls like 1/t from some height on. `single`
        is then no bound of a step: it makes the formula of `StraightContour` for the tail hold with V = 1.
        """
        total = -0.5 * self._transform.gaussian_mu_squared * heights**2 * (1 - 600 * UNIT_ROUNDOFF)
        strongest = np.zeros_like(heights)
        for summand in self._summands:
            whole, single = summand.log_majorants(heights)
            total, strongest = total + whole, np.minimum(strongest, single)
        return (total, strongest) if self._decays else self._without_atoms(heights, total)

    def _without_atoms(self, heights: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)` of `log_majorants` for |M^N - A^N|, where A is the transform of the atoms of a step.

        The modulus is at most |M|^N + |A|^N, and at large heights at most (|A| + V/t)^N - |A|^N.
        """
        atoms = sum(summand.log_atoms for summand in self._summands)
        last = max(summand.last_height for summand in self._summands)
        gap = np.minimum(atoms - total, -1e-300)
        whole = np.where(heights < last, np.logaddexp(total, atoms), total + np.log(-np.expm1(gap)) + 1e-12)
        # A tail from t on is at most the majorant there times 1 + ln(last/t).
        return whole, -np.log(heights) - np.log1p(np.log(np.maximum(last / heights, 1.0)))

    def log_variation(self) -> float:
        """Return ln V with |M(theta + it)/M(theta)| <= V/t for one of the sampled steps; +inf without any.

        The result is 0 where no summand decays, for `log_majorants`.
        """
        return min((summand.log_variation() for summand in self._summands), default=np.inf) if self._decays else 0.0
