"""K(z) = ln E0 e^{zS}, the log-moment function of the privacy loss S of a whole run.

It is the sum of the Gaussian steps' closed form and of the truncated laws of all other steps (*summands*).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.privacy.composition.summands.abstract import RealCumulants, TruncatedSummand, ValuesOnContour
from service.privacy.composition.summands.catalogue import on_contour
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True)
class LossTransform:
    """Log-moment function K(z) = ln E0 e^{zS} of the loss S of a run under the hypothesis H0.

    S is Gaussian with mean -mu^2/2 and variance mu^2, mu^2 = `gaussian_mu_squared`, plus the losses of the `summands`.
    `reflected` swaps the hypotheses: the loss of H1 against H0 is -S under H1, and its log-moment function is K(1 - z).
    """

    gaussian_mu_squared: float
    summands: tuple[TruncatedSummand, ...]
    reflected: bool = False

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return K, K', K'' at real tilts of shape (tilts,), and a bound of the absolute error of K.

        K(s) = ln E0 e^{sS} is the log-moment function of the run's privacy loss S.
        """
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
        """Upper bounds of ln of the probability that truncation omits under H0, and under H1, in this direction."""
        masses = [summand.log_truncated_mass for summand in self.summands]
        null, alternative = (_log_sum([each[side] for each in masses]) for side in (0, 1))
        return (alternative, null) if self.reflected else (null, alternative)

    @property
    def decays(self) -> bool:
        """Whether e^{K(z)} falls to 0 along a vertical line, for the log-moment function K(z) = ln E0 e^{zS}.

        S is the loss of the run. The transform decays if there is Gaussian noise, or a summand whose loss has a
        density.
        """
        return self.gaussian_mu_squared > 0 or any(summand.decays for summand in self.summands)

    @property
    def is_gaussian(self) -> bool:
        """Whether all summands are sampled Gaussian steps or mixtures of Gaussians.

        Contours of such runs have a smaller limit of nodes than others (`TransformOfRun`).
        """
        return all(summand.is_gaussian for summand in self.summands)

    @property
    def work(self) -> int:
        """Number of array elements of one evaluation of the log-moment function at one complex node."""
        return 1 + sum(summand.contour_size for summand in self.summands)

    @property
    def different(self) -> int:
        """Number of kinds of steps whose loss has a density, without the Gaussian steps that are not sampled."""
        return sum(len(summand.count) for summand in self.summands if summand.decays)

    def log_atoms(self, tilt: float) -> float:
        """Return ln of the total mass of the atoms of the loss S, weighted by e^{`tilt` S}; -inf where e^K decays.

        S is the privacy loss of the run and K(z) = ln E0 e^{zS} its log-moment function. The transform of atoms does
        not decay along a vertical line.
        """
        if self.decays:
            return -np.inf
        s = 1 - tilt if self.reflected else tilt
        return sum(on_contour(summand, s).log_atoms for summand in self.summands)


def _log_sum(logs: list[FloatArray]) -> float:
    return float(np.logaddexp.reduce(np.concatenate(logs))) if logs else -np.inf


class TransformOnContour:
    """Log-moment function K of a run on the vertical line Re z = theta, relative to K(theta).

    M(z) = e^{K(z)} is the moment-generating function, and theta the tilt.
    """

    def __init__(self, transform: LossTransform, theta: float) -> None:
        self._transform = transform
        self._theta = 1 - theta if transform.reflected else theta
        # Decaying summands first.
        summands = sorted(transform.summands, key=lambda each: not each.decays)
        self._summands = tuple(on_contour(each, self._theta) for each in summands)
        self._decays = transform.decays

    def origin(self) -> tuple[float, float]:
        """Return K(theta) to full precision, and a bound of its absolute error.

        theta is the tilt of the contour, the real number at which it crosses the axis, and K(z) = ln E0 e^{zS} for the
        loss S.
        """
        s, mu2 = self._theta, self._transform.gaussian_mu_squared
        value, error = 0.5 * mu2 * (s * s - s), 0.5 * mu2 * (s * s + abs(s)) * 600 * UNIT_ROUNDOFF
        for summand in self._summands:
            sampled, sampled_error = summand.origin
            value, error = value + sampled, error + sampled_error
        return value, error + 4 * UNIT_ROUNDOFF * abs(value)

    def work(self, height: float) -> int:
        """Return the number of array elements of one evaluation of K on a contour up to the imaginary part `height`."""
        return self._transform.work + sum(summand.work(height) for summand in self._summands)

    def values(self, step: float, nodes: int) -> ValuesOnContour:
        """Return K(theta + i k `step`) - K(theta), k = 0..`nodes`, with error bounds, arrays of shape (`nodes` + 1,).

        K(z) = ln E0 e^{zS} is the log-moment function of the run's loss S, and the contour crosses the real axis at
        theta. The error e of a value bounds the relative error of its exponential: |e^{true - computed} - 1| <= e^e -
        1.
        """
        t = np.arange(nodes + 1) * step
        difference = self._transform.gaussian_mu_squared * (-0.5 * t * t + 1j * t * (self._theta - 0.5))
        error = 600 * UNIT_ROUNDOFF * np.abs(difference)
        for summand in self._summands:
            sampled = summand.values(step, nodes)
            difference, error = difference + sampled.difference, error + sampled.error
        error = error + 4 * UNIT_ROUNDOFF * np.abs(difference)
        return ValuesOnContour(np.conj(difference) if self._transform.reflected else difference, error)

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: upper bounds of ln |M(theta + it')/M(theta)|, t' >= t, of the run and of one step.

        M = e^K is the moment-generating function of the loss, and theta is the tilt of the contour. `heights` are the
        heights t >= 0, shape (heights,), as are the results. The majorants are laid out for the first height. `single`
        is the smallest bound of one step with a density, so that `whole - single` bounds the rest of the run.

        Where no summand decays, `whole` bounds the transform without its atomic part, which falls like 1/t from some
        height on. `single` is then no bound of a step: it makes the formula of `StraightContour` for the tail hold with
        V = 1.
        """
        total = -0.5 * self._transform.gaussian_mu_squared * heights**2 * (1 - 600 * UNIT_ROUNDOFF)
        strongest = np.zeros_like(heights)
        for summand in self._summands:
            whole, single = summand.log_majorants(heights)
            total, strongest = total + whole, np.minimum(strongest, single)
        return (total, strongest) if self._decays else self._without_atoms(heights, total)

    def _without_atoms(self, heights: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)` of `log_majorants` for |M^N - A^N|, at `heights` t, where no summand has a density.

        M is the transform of one of N steps over its value at the tilt, and A is the part of its atoms. `total` is ln
        of an upper bound of |M|^N. The modulus is at most |M|^N + |A|^N, and at large heights at most (|A| + V/t)^N -
        |A|^N, where V/t bounds the part of M with a density. The contour is Re z = theta, and t is the imaginary part
        of z. All arrays have the shape of `heights`.
        """
        atoms = sum(summand.log_atoms for summand in self._summands)
        last = max(summand.last_height for summand in self._summands)
        gap = np.minimum(atoms - total, -1e-300)
        whole = np.where(heights < last, np.logaddexp(total, atoms), total + np.log(-np.expm1(gap)) + 1e-12)
        # A tail from t on is at most the majorant there times 1 + ln(last/t).
        return whole, -np.log(heights) - np.log1p(np.log(np.maximum(last / heights, 1.0)))

    def log_variation(self) -> float:
        """Return ln V with |M(theta + it)/M(theta)| <= V/t, t > 0, for the step with the smallest known V.

        M is the moment-generating function of the loss of the step, and theta the tilt of the contour. The result is
        +inf if no step has such a bound, but 0 if the transform of the run does not decay, as `log_majorants` needs.
        """
        return min((summand.log_variation() for summand in self._summands), default=np.inf) if self._decays else 0.0
