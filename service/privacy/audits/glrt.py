"""Simulated GLRT adversary, which compares the mean of N noisy answers with 0 by its length, without its direction.

Notation: N is the number of answers, d their dimension, sigma their noise, and Delta the length of the record's
contribution. Let y be sqrt(N)/sigma times the mean answer, and s = Delta/sigma. y is normal with covariance I. Its mean
is 0 without the record (H0) and has length s sqrt(N) with the record (H1). |y|^2 is chi2_d under H0 and chi2'_d(lambda)
with lambda = N s^2 under H1. The Neyman-Pearson optimal adversary (NPO) knows the direction and thresholds y along it.

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
    """Simulate the statistics of the GLRT and of the optimal adversary for independent runs.

    The adversary of the generalised likelihood ratio test (GLRT) does not know the direction of the record's answer. y
    is the sum of N answers, divided by sqrt(N) and the noise, and s the length of the record's answer over the noise.

    Parameters
    ----------
    trials : int
        Number of runs.
    dimension : int
        Dimension d of an answer.
    signal : float
        Length s sqrt(N) of the mean of y; 0 under H0.
    generator : numpy.random.Generator
        Source of all draws.

    Returns
    -------
    (array, array)
        |y|^2, and y along the true direction, both of shape (trials,).

    Notes
    -----
    The law of |y|^2 is equal for all directions, so the simulation uses the first axis.
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
    """Compute certified bounds of the power of the GLRT (generalised likelihood-ratio test).

    Parameters
    ----------
    rates : array, shape (m,)
        False positive rates alpha in [0, 1].
    dimension : int
        Dimension d of an answer.
    noncentrality : float
        lambda = N s^2 <= 1e12 for N answers, with s the length of the record's contribution over the noise.

    Returns
    -------
    (array, array)
        Lower and upper bounds of R(alpha) = SF[chi2'_d(lambda)](SF^-1[chi2_d](alpha)), shape (m,). SF is 1 minus the
        distribution function.

    Raises
    ------
    ValueError
        For parameters outside the domain of `NoncentralChiSquare`.

    Notes
    -----
    The relative width is about 1e-12 (below 1e-10 in every tested case). Source: Kaissis et al. 2024, Theorem 2.
    """
    lower, upper = rates.astype(np.float64), rates.astype(np.float64)  # exact for 0 and 1
    inside = (rates > 0) & (rates < 1)
    found = quantiles(NoncentralChiSquare(float(dimension), 0.0), np.log(rates[inside]), "upper")
    law = NoncentralChiSquare(float(dimension), noncentrality)
    lower[inside] = np.exp(law.log_tails(found.above).upper_low) * (1 - EXPONENTIAL_ERROR)
    upper[inside] = np.minimum(np.exp(law.log_tails(found.below).upper_high) * (1 + EXPONENTIAL_ERROR), 1.0)
    return lower, upper


def optimal_power(rates: FloatArray, signal: float) -> tuple[FloatArray, FloatArray]:
    """Compute bounds of the power of the optimal adversary, who knows the direction.

    Parameters
    ----------
    rates : array, shape (m,)
        False positive rates alpha in [0, 1].
    signal : float
        Length s sqrt(N) of the mean of y with the record.

    Returns
    -------
    (array, array)
        Lower and upper bounds of Q(Q^-1(alpha) - s sqrt(N)), shape (m,). Q is the upper tail of the standard normal
        law.

    Notes
    -----
    The bounds are values of the outer Q at arguments that differ by 1e-13 (1 + |argument|) from its own. Source: Neyman
    and Pearson 1933.
    """
    from scipy.special import ndtr, ndtri

    shifted = ndtri(rates) + signal
    margin = 1e-13 * (1 + np.abs(np.where(np.isfinite(shifted), shifted, 0.0)))
    return np.asarray(ndtr(shifted - margin)), np.asarray(ndtr(shifted + margin))


def signal_of(queries: int, noise_multiplier: float) -> float:
    """Return the length s sqrt(N) of the mean of the scaled answers with the record.

    Parameters
    ----------
    queries : int
        Number N of answers.
    noise_multiplier : float
        Noise over the length of the record's contribution, 1/s.

    Returns
    -------
    float
        sqrt(queries)/noise_multiplier.
    """
    return math.sqrt(queries) / noise_multiplier
