"""The gradient likelihood ratio attack (GLiR): was the gradient of a query part of a released mean gradient?

One step releases m = (1/n) sum theta_i + noise, with theta_i independent of law (mu, Sigma). Given the gradient theta
of a query, m is normal: mean mu and covariance V0 = Sigma/n + T without the query in the batch (H0), mean
mu + (theta - mu)/n and V1 = V0 - Sigma/n^2 with it (H1); T is the covariance of the noise. Whitened,
x = Sigma^-1/2 (m - mu) and g = Sigma^-1/2 (theta - mu), both are diagonal: v0 = 1/n + t and v1 = v0 - 1/n^2.

Here mu and Sigma are known; `background.py` has the law that holds when they are estimated.

Source: Leemann, Pawelczyk, Kasneci 2023, Algorithm 1, with the factor n (not n - 1), the lower tail, the centred
susceptibility and Fisher's combination: as printed, nominal 5 % become 12 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.audits.gradient_law import GradientLaw
from service.privacy.audits.tails import SMALLEST_LOG, log_p_values
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray

P_VALUE_DRAWS: Final = 1_999
"""Draws behind a p-value where the noise is isotropic: p-values are multiples of 1/2000."""
QUERIES_AT_ONCE: Final = 512
LARGEST_DEVIATION, LARGEST_MEAN = 1e3, 1e30
"""Largest whitened entries of queries, and largest means, which hold the noise."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNoise:
    """Noise of the released mean: covariance std^2 I, or std^2 times that of the gradients (`proportional`)."""

    std: float
    proportional: bool

    @property
    def is_isotropic(self) -> bool:
        """Whether the statistic is no longer one quadratic form for all covariances."""
        return self.std > 0 and not self.proportional

    def whitened_variances(self, variances: FloatArray) -> FloatArray:
        """t of the module docstring, of the shape of `variances`."""
        scale = np.ones_like(variances) if self.proportional else 1 / variances
        return self.std**2 * scale


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StepAudit:
    """Evidence that one step gives about each query; arrays of shape (q,).

    `dimension`: d. `susceptibility`: K = |g|^2, or an estimate. `largest_susceptibility`: K, or an upper bound of an
    estimated K. `largest_variance`: the largest eigenvalue of Sigma, or an upper bound for an estimated Sigma, which is
    infinite unless the noise is isotropic. `shrinkage`: weight of the multiple of the identity in the covariance.
    `statistic`: small for members. `log_p_value`: an upper bound of ln p under H0. `log_likelihood_ratio`: ln of the
    density under H1 over the density under H0, in nats.
    """

    dimension: int
    susceptibility: FloatArray
    largest_susceptibility: FloatArray
    largest_variance: float
    shrinkage: float
    statistic: FloatArray
    log_p_value: FloatArray
    log_likelihood_ratio: FloatArray


def audit_step(
    mean_gradient: FloatArray,
    query_gradients: FloatArray,
    law: GradientLaw,
    batch_size: int,
    noise: ReleaseNoise,
    generator: np.random.Generator,
) -> StepAudit:
    """Audit one step with a known law of the gradients.

    mean_gradient: shape (d,), or (q, d) when each query has a release of its own. query_gradients: shape (q, d). The
    generator is used for isotropic noise only. Raises OutOfDomain for gradients beyond all that is plausible.
    """
    x, g = law.whitened(mean_gradient), law.whitened(query_gradients)
    check_range("mean_gradient", x, LARGEST_MEAN)
    check_range("query_gradients", g, LARGEST_DEVIATION)
    t = noise.whitened_variances(law.variances)
    v0 = 1 / batch_size + t
    v1 = v0 - 1 / batch_size**2
    susceptibility = np.einsum("qd,qd->q", g, g)
    if noise.is_isotropic:
        statistic, logs = _isotropic(np.broadcast_to(x, g.shape), g, v0, v1, batch_size, generator)
    else:
        statistic, logs = _proportional(x, g, float(v0[0]), batch_size)
    return StepAudit(
        dimension=v0.size,
        susceptibility=susceptibility,
        largest_susceptibility=susceptibility,
        largest_variance=float(law.variances.max()),
        shrinkage=0.0,
        statistic=statistic,
        log_p_value=logs,
        log_likelihood_ratio=_log_likelihood_ratio(x, g, v0, v1, batch_size),
    )


def check_range(name: str, whitened: FloatArray, largest: float) -> None:
    """Raise OutOfDomain when a whitened entry is above `largest` in absolute value."""
    if float(np.max(np.abs(whitened))) > largest:
        domain = f"within {largest:g} standard deviations of the background's mean, in every direction"
        raise OutOfDomain(name, "an array", domain, "Check the units, and whether the covariance is nearly singular.")


def _proportional(x: FloatArray, g: FloatArray, v0: float, n: int) -> tuple[FloatArray, FloatArray]:
    """S = |x - n v0 g|^2/v0, which is chi2'_d(N K) under H0 with N = n^2 v0, and small for members.

    Without noise N = n, and S = n (m - theta)' Sigma^-1 (m - theta).
    """
    residual = x - n * v0 * g
    statistic = np.einsum("qd,qd->q", residual, residual) / v0
    noncentrality = n**2 * v0 * np.einsum("qd,qd->q", g, g)
    return statistic, log_p_values(statistic, g.shape[1], noncentrality)


def _isotropic(
    x: FloatArray, g: FloatArray, v0: FloatArray, v1: FloatArray, n: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Minus twice the log-likelihood ratio without what does not depend on m: sum_j a_j x_j^2 - 2 x_j g_j/(n v1_j).

    a = 1/v1 - 1/v0. Its rank among draws of m under H0 is a p-value that is valid whatever their number; all queries
    share the draws, so that p-values of different queries in one step are not independent of each other.
    """
    weights, slopes = 1 / v1 - 1 / v0, -2 * g / (n * v1)
    statistic = x**2 @ weights + np.einsum("qd,qd->q", x, slopes)
    draws = generator.standard_normal((P_VALUE_DRAWS, v0.size)) * np.sqrt(v0)
    squares = (draws**2 @ weights)[:, None]
    ranks = np.empty_like(statistic)
    for start in range(0, statistic.size, QUERIES_AT_ONCE):
        chosen = slice(start, start + QUERIES_AT_ONCE)
        ranks[chosen] = np.count_nonzero(squares + draws @ slopes[chosen].T <= statistic[chosen], axis=0)
    return statistic, np.log((1 + ranks) / (1 + P_VALUE_DRAWS))


def _log_likelihood_ratio(x: FloatArray, g: FloatArray, v0: FloatArray, v1: FloatArray, n: int) -> FloatArray:
    # |x - g/n|^2/v1 - |x|^2/v0, expanded around the residual: for large n its parts are huge and nearly equal.
    ratio = 1 / (n**2 * v0)  # (v0 - v1)/v0
    residual = x - n * v0 * g
    quadratic = residual**2 @ (ratio / v1) - g**2 @ np.ones_like(v0)
    return -0.5 * (quadratic + float(np.sum(np.log1p(-ratio))))


def combined_log_p_values(steps: list[StepAudit]) -> FloatArray:
    """ln of Fisher's combined p-value over independent steps, shape (q,): P(chi2_2T >= -2 sum ln p).

    Upper tail as exp(-x) sum_{k<T} x^k/k! with x = -sum ln p. Source: Fisher 1932; under H0 and independent steps.
    """
    total = -np.sum([step.log_p_value for step in steps], axis=0)
    powers = np.cumsum(
        [np.zeros_like(total), *(np.log(np.maximum(total, 1e-300) / k) for k in range(1, len(steps)))], 0
    )
    return np.minimum(np.logaddexp.reduce(powers, axis=0) - total, 0.0).clip(min=SMALLEST_LOG * len(steps))


def log_likelihood_ratios(steps: list[StepAudit]) -> FloatArray:
    """The score that ranks the queries, shape (q,): the sum over steps, of which every threshold is an optimal test."""
    return np.sum([step.log_likelihood_ratio for step in steps], axis=0)


def effective_batch_size(
    batch_size: int, noise: ReleaseNoise, largest_variance: float, max_grad_norm: float | None
) -> float:
    """N = n + n^2 t with the least whitened noise t of any direction: std^2/lambda, lambda the largest variance.

    Where C bounds the gradients, lambda <= C^2 as in Theorem 5.1; the smaller of both is taken. Less noise is a
    stronger attack, so that the curve of N is a bound for all directions.
    """
    bound = largest_variance if max_grad_norm is None else min(largest_variance, max_grad_norm**2)
    return batch_size + (noise.std * batch_size) ** 2 / (1.0 if noise.proportional else bound)


def worst_case_mu(batch_size: int, noise: ReleaseNoise, max_grad_norm: float, steps: int) -> float:
    """mu of the GDP that isotropic noise gives: 2 C sqrt(T)/(n tau), where a record is replaced (sensitivity 2 C/n).

    Source: Dong, Roth, Su 2022, Theorem 2.7 and Corollary 3.3.
    """
    return 2 * max_grad_norm * math.sqrt(steps) / (batch_size * noise.std)


def simulated_step(
    members: int, non_members: int, dimension: int, batch_size: int, noise: ReleaseNoise, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Mean gradients and query gradients, both (members + non_members, d), members first: Figure 2a of the paper.

    Gradients are standard normal, and every query has a batch of its own: independent trials. The sum of the other
    gradients of a batch is drawn at once, by its law.
    """
    shape = members + non_members, dimension
    queries = generator.standard_normal(shape)
    others = np.full(shape[0], float(batch_size))
    others[:members] -= 1
    means = generator.standard_normal(shape)
    means *= (np.sqrt(others) / batch_size)[:, None]
    means[:members] += queries[:members] / batch_size
    if noise.std > 0:
        means += noise.std * generator.standard_normal(shape)
    return means, queries


def identity_law(dimension: int) -> GradientLaw:
    """The known law of simulated gradients."""
    return GradientLaw(mean=np.zeros(dimension), variances=np.ones(dimension), axes=None)


def p_values(logs: FloatArray) -> FloatArray:
    """exp of ln p, rounded upwards to at least the smallest positive double."""
    return np.minimum(np.maximum(np.exp(logs) * (1 + 2.0**-48), math.ulp(0.0)), 1.0)
