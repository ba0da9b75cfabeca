"""Known law of a record's clipped gradient: a mean and the spectrum of a covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray

SMALLEST_VARIANCE = 1e-60
"""Smallest variance for which quotients of variances are finite doubles."""
REMEDY = "Leave out coordinates that are constant or sums of other coordinates."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GradientLaw:
    """Mean and covariance of one gradient in d dimensions.

    `mean` has shape (d,). `variances`, shape (d,), are the positive eigenvalues of the covariance. `axes`, shape (d,
    d), has its eigenvectors as columns, and is None for a diagonal covariance.
    """

    mean: FloatArray
    variances: FloatArray
    axes: FloatArray | None

    def whitened(self, gradients: FloatArray) -> FloatArray:
        """Return Sigma^-1/2 (g - mean) for gradients g in the eigenvectors of the covariance Sigma.

        The shape is that of `gradients`, (d,) or (q, d).
        """
        centred = gradients - self.mean
        return (centred if self.axes is None else centred @ self.axes) / np.sqrt(self.variances)


def clipped(gradients: FloatArray, max_grad_norm: float | None) -> FloatArray:
    """Return gradients with their lengths reduced to at most C.

    Parameters
    ----------
    gradients : array, shape (q, d)
        One gradient g in each row.
    max_grad_norm : float or None
        Clipping norm C, or None without clipping.

    Returns
    -------
    array, shape (q, d)
        g min(1, C/|g|). The printed formula has max in place of min and would enlarge rows: /errata#gmip-clipping.
    """
    if max_grad_norm is None:
        return gradients
    # Divided by the largest entry first: the square of a large one would overflow.
    largest = np.max(np.abs(gradients), axis=-1, keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)
    norms = scale * np.linalg.norm(gradients / scale, axis=-1, keepdims=True)
    return gradients * np.minimum(1.0, max_grad_norm / np.maximum(norms, max_grad_norm))


def from_moments(mean: FloatArray, covariance: FloatArray, name: str = "background_covariance") -> GradientLaw:
    """Return the law with a given mean, shape (d,), and covariance, shape (d, d) or its diagonal (d,).

    Error messages use `name` for the covariance. Raises OutOfDomain if the covariance is not symmetric, or is singular.
    """
    if covariance.ndim == 2 and not np.allclose(covariance, covariance.T, rtol=1e-9, atol=1e-12 * _largest(covariance)):
        raise OutOfDomain(name, "a matrix", "symmetric")
    variances, axes = (covariance, None) if covariance.ndim == 1 else np.linalg.eigh(covariance)
    # Eigenvalues have errors of about d ulps of the largest eigenvalue, so a smaller eigenvalue may be 0.
    if not variances.min() > max(variances.size * 2.0**-52 * variances.max(), SMALLEST_VARIANCE):
        raise OutOfDomain(name, "a covariance", "nonsingular", REMEDY)
    return GradientLaw(mean=mean, variances=variances, axes=axes)


def _largest(covariance: FloatArray) -> float:
    return float(np.max(np.abs(covariance)))
