"""The law of one record's clipped gradient, as an attacker knows it: a mean and the spectrum of a covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray

SMALLEST_VARIANCE = 1e-60
"""Quotients of variances stay in the range of doubles."""
REMEDY = "Send shrinkage above 0, or more background gradients than there are dimensions."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GradientLaw:
    """Mean, shape (d,), and covariance of one gradient.

    `variances`, shape (d,), are positive; `axes`, shape (d, d), has the eigenvectors as columns, and is None for a
    diagonal covariance. `shrinkage` is the weight of the multiple of the identity in the covariance.
    """

    mean: FloatArray
    variances: FloatArray
    axes: FloatArray | None
    shrinkage: float

    def whitened(self, gradients: FloatArray) -> FloatArray:
        """Sigma^-1/2 (g - mean), in the eigenvectors; gradients of shape (d,) or (q, d), result of the same shape."""
        centred = gradients - self.mean
        return (centred if self.axes is None else centred @ self.axes) / np.sqrt(self.variances)


def clipped(gradients: FloatArray, max_grad_norm: float | None) -> FloatArray:
    """g min(1, C/|g|) of every row; shape (q, d). As printed (max) it would lengthen them: erratum A1."""
    if max_grad_norm is None:
        return gradients
    # Divided by the largest entry first: the square of a large one would overflow.
    largest = np.max(np.abs(gradients), axis=-1, keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)
    norms = scale * np.linalg.norm(gradients / scale, axis=-1, keepdims=True)
    return gradients * np.minimum(1.0, max_grad_norm / np.maximum(norms, max_grad_norm))


def from_gradients(background: FloatArray, shrinkage: float | None) -> GradientLaw:
    """The law estimated from background gradients, shape (b, d), b >= 2.

    Sigma = (1 - rho) S + rho (tr S/d) I with S the covariance about the sample mean, divisor b - 1. Where no rho is
    given: rho = min(1, sum_k |x_k x_k' - S|^2/(b^2 |S - (tr S/d) I|^2)), x_k the centred gradients, S with divisor b.
    Raises OutOfDomain when the result is singular. Source: Ledoit and Wolf 2004, section 3.3.
    """
    count = background.shape[0]
    mean = background.mean(axis=0)
    centred = background - mean
    scatter = centred.T @ centred
    rho = _ledoit_wolf(centred, scatter / count) if shrinkage is None else shrinkage
    return _law(mean, scatter / (count - 1), rho, "background_gradients")


def from_moments(
    mean: FloatArray, covariance: FloatArray, shrinkage: float | None, name: str = "background_covariance"
) -> GradientLaw:
    """The law with a given mean, shape (d,), and covariance, shape (d, d) or its diagonal (d,); rho is 0 if not given.

    `name` is what errors call the covariance. Raises OutOfDomain when it is not symmetric, or singular after shrinkage.
    """
    if covariance.ndim == 2 and not np.allclose(covariance, covariance.T, rtol=1e-9, atol=1e-12 * _largest(covariance)):
        raise OutOfDomain(name, "a matrix", "symmetric")
    return _law(mean, covariance, shrinkage or 0.0, name)


def _largest(covariance: FloatArray) -> float:
    return float(np.max(np.abs(covariance)))


def _law(mean: FloatArray, covariance: FloatArray, rho: float, name: str) -> GradientLaw:
    variances, axes = (covariance, None) if covariance.ndim == 1 else np.linalg.eigh(covariance)
    variances = (1 - rho) * variances + rho * float(np.mean(variances))
    # Eigenvalues are known to about d ulps of the largest: below that they may as well be 0.
    if not variances.min() > max(variances.size * 2.0**-52 * variances.max(), SMALLEST_VARIANCE):
        raise OutOfDomain(name, "a covariance", "of a covariance that is not singular", REMEDY)
    return GradientLaw(mean=mean, variances=variances, axes=axes, shrinkage=rho)


def _ledoit_wolf(centred: FloatArray, covariance: FloatArray) -> float:
    count, dimension = centred.shape
    squared_norm = float(np.sum(covariance**2))
    spread = squared_norm - float(np.trace(covariance)) ** 2 / dimension
    noise = (float(np.sum(np.sum(centred**2, axis=1) ** 2)) / count - squared_norm) / count
    # All variances alike: any rho gives the same matrix.
    return 1.0 if spread <= 0 else min(1.0, max(noise, 0.0) / spread)
