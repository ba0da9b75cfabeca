"""Simulated GLRT adversary, which compares the mean of N noisy answers with 0 by its length, without its direction.

Let y be sqrt(N)/sigma times the mean answer, and s = Delta/sigma. y is normal with covariance I. Its mean is 0 without
the record (H0) and has length s sqrt(N) with the record (H1). |y|^2 is chi2_d under H0 and chi2'_d(lambda) with lambda
= N s^2 under H1. The Neyman-Pearson optimal adversary (NPO) knows the direction and thresholds y along it.

Source: Kaissis, Ziller, Kolek, Rueckert, "Optimal privacy guarantees for a relaxed threat model", Theorems 1 and 2.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.law import NoncentralChiSquare
from service.privacy.numerics.chi_square.quantiles import quantiles

NORMALS_AT_ONCE: Final = 2**20
EXPONENTIAL_ERROR: Final = 1e-15


def simulated_scores(
    trials: int, dimension: int, signal: float, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Simulate |y|^2 and y along the true direction for `trials` independent runs, both (trials,).

    `signal` is s sqrt(N), 0 under H0. The law of |y|^2 is equal for all directions, so the simulation uses the first
    axis.
    """
    lengths, projections = np.empty(trials), np.empty(trials)
    rows = max(1, NORMALS_AT_ONCE // dimension)
    for start in range(0, trials, rows):
        chosen = slice(start, min(start + rows, trials))
        answers = generator.standard_normal((chosen.stop - chosen.start, dimension))
        answers[:, 0] += signal
        lengths[chosen] = np.einsum("td,td->t", answers, answers)
        projections[chosen] = answers[:, 0]
    return lengths, projections


def glrt_power(rates: FloatArray, dimension: int, noncentrality: float) -> tuple[FloatArray, FloatArray]:
    """Compute certified bounds of the GLRT's power R(alpha) = SF[chi2'_d(lambda)](SF^-1[chi2_d](alpha)), shape (m,).

    alpha is in [0, 1] and lambda <= 1e12. The relative width is about 1e-12 (below 1e-10 in every tested case). Raises
    ValueError for parameters outside the domain of `NoncentralChiSquare`. Source: Theorem 2.
    """
    lower, upper = rates.astype(np.float64), rates.astype(np.float64)  # exact for 0 and 1
    inside = (rates > 0) & (rates < 1)
    found = quantiles(NoncentralChiSquare(float(dimension), 0.0), np.log(rates[inside]), "upper")
    law = NoncentralChiSquare(float(dimension), noncentrality)
    lower[inside] = np.exp(law.log_tails(found.above).upper_low) * (1 - EXPONENTIAL_ERROR)
    upper[inside] = np.minimum(np.exp(law.log_tails(found.below).upper_high) * (1 + EXPONENTIAL_ERROR), 1.0)
    return lower, upper


def optimal_power(rates: FloatArray, signal: float) -> tuple[FloatArray, FloatArray]:
    """Compute bounds of the NPO's power Q(Q^-1(alpha) - s sqrt(N)), shape (m,), for alpha in [0, 1].

    `signal` is s sqrt(N). The bounds are values of the outer Q at arguments that differ by 1e-13 (1 + |argument|) from
    its own. Source: Neyman and Pearson 1933.
    """
    from scipy.special import ndtr, ndtri

    shifted = ndtri(rates) + signal
    margin = 1e-13 * (1 + np.abs(np.where(np.isfinite(shifted), shifted, 0.0)))
    return np.asarray(ndtr(shifted - margin)), np.asarray(ndtr(shifted + margin))


def signal_of(queries: int, noise_multiplier: float) -> float:
    """Return s sqrt(N) = sqrt(queries)/noise_multiplier, the length of the mean of y with the record."""
    return math.sqrt(queries) / noise_multiplier
