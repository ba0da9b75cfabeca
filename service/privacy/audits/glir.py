"""Gradient likelihood ratio attack (GLiR), which tests whether a query's gradient is part of a released mean gradient.

A step releases m = (1/n) sum theta_i + noise, with independent theta_i of mean mu and covariance Sigma. The noise has
covariance T. Given the gradient theta of a query, m is normal. Without the query in the batch (H0) its mean is mu and
its covariance V0 = Sigma/n + T. With the query (H1) its mean is mu + (theta - mu)/n and its covariance V1 = V0 -
Sigma/n^2. Whitening gives x = Sigma^-1/2 (m - mu) and g = Sigma^-1/2 (theta - mu). Both covariances are then diagonal:
v0 = 1/n + t and v1 = v0 - 1/n^2.

In this module mu and Sigma are known. `background.py` has the law for estimated mu and Sigma.

Source: Leemann, Pawelczyk, Kasneci 2023, Algorithm 1, with four corrections of the printed algorithm: the factor n (not
n - 1), the lower tail, the centred susceptibility and Fisher's combination. The printed algorithm rejects 12 % of
non-members at a nominal level of 5 %.
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
"""Number of draws for a p-value with isotropic noise. The p-values are multiples of 1/2000."""
QUERIES_AT_ONCE: Final = 512
LARGEST_DEVIATION, LARGEST_MEAN = 1e3, 1e30
"""Largest whitened entries of queries and of means. Means include the noise."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNoise:
    """Noise of the released mean.

    Attributes
    ----------
    std : float
        Standard deviation of the noise, relative to that of the gradients if `proportional`.
    proportional : bool
        Whether the covariance is std^2 times that of the gradients; otherwise it is std^2 I.
    """

    std: float
    proportional: bool

    @property
    def is_isotropic(self) -> bool:
        """Whether the noise has covariance std^2 I with std > 0.

        In this case the test statistic has no law in closed form.
        """
        return self.std > 0 and not self.proportional

    def whitened_variances(self, variances: FloatArray) -> FloatArray:
        """Return the variance of the whitened noise along each axis of the gradients' covariance.

        Parameters
        ----------
        variances : array, shape (d,)
            Variances of the gradients along these axes.

        Returns
        -------
        array, shape (d,)
            Variances of the noise, relative to those of the gradients.
        """
        scale = np.ones_like(variances) if self.proportional else 1 / variances
        return self.std**2 * scale


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StepAudit:
    """Evidence of membership from one released mean gradient, for each of q queries; arrays of shape (q,).

    mu and Sigma are the mean and the covariance of the gradients.

    Attributes
    ----------
    dimension : int
        Number d of model parameters.
    susceptibility : array
        K = |Sigma^-1/2 (theta - mu)|^2 of the query gradient theta, or an estimate of K.
    largest_susceptibility : array
        K, or an upper bound of an estimated K.
    largest_variance : float
        Largest eigenvalue of Sigma, or an upper bound for an estimated Sigma. The bound is infinite unless the noise is
        isotropic.
    shrinkage : float
        Weight of the multiple of the identity in the estimated covariance; 0 for a known law.
    statistic : array
        Test statistic, small for members.
    log_p_value : array
        Upper bound of ln p under H0.
    log_likelihood_ratio : array
        ln of the density under H1 over the density under H0, in nats. With an estimated law the ratio is approximate,
        but its mean under H0 is at most 1.
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
    """Compute the evidence of membership from one released mean gradient, with a known law of the gradients.

    Parameters
    ----------
    mean_gradient : array, shape (d,) or (q, d)
        Released mean with its noise: one release for all queries, or one for each query.
    query_gradients : array, shape (q, d)
        Gradients of the queries.
    law : GradientLaw
        Law of a gradient.
    batch_size : int
        Number n of records in the batch.
    noise : ReleaseNoise
        Noise of the release.
    generator : numpy.random.Generator
        Draws releases under H0, which give the p-values for isotropic noise. Other noise needs no draws.

    Returns
    -------
    StepAudit
        p-values and log-likelihood ratios of the queries, arrays of shape (q,).

    Raises
    ------
    OutOfDomain
        If an entry of the whitened release or of a whitened query exceeds `LARGEST_MEAN` or `LARGEST_DEVIATION`.
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
    """Raise OutOfDomain for `name` when an entry of `whitened` exceeds `largest` in absolute value."""
    if float(np.max(np.abs(whitened))) > largest:
        domain = f"within {largest:g} standard deviations of the background's mean, in every direction"
        raise OutOfDomain(
            name,
            "an array",
            domain,
            "Check the units of the gradients, and check that the covariance is not nearly singular.",
        )


def _proportional(x: FloatArray, g: FloatArray, v0: float, n: int) -> tuple[FloatArray, FloatArray]:
    """Return the test statistic S of every query, small for members, and ln of its p-value; both of shape (q,).

    This is the test for noise with a covariance proportional to that of the gradients. x is the whitened released mean
    m, g the whitened query gradient theta, v0 the variance of x under H0 (the query is no member) and n the batch size.
    S = |x - n v0 g|^2/v0 has a noncentral chi-square law with d degrees and noncentrality n^2 v0 K under H0, K = |g|^2.
    Without noise v0 is 1/n, and S is n (m - theta)' Sigma^-1 (m - theta) with the covariance Sigma.
    """
    residual = x - n * v0 * g
    statistic = np.einsum("qd,qd->q", residual, residual) / v0
    noncentrality = n**2 * v0 * np.einsum("qd,qd->q", g, g)
    return statistic, log_p_values(statistic, g.shape[1], noncentrality)


def _isotropic(
    x: FloatArray, g: FloatArray, v0: FloatArray, v1: FloatArray, n: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the test statistic for isotropic noise, small for members, and ln of its p-value; both of shape (q,).

    The statistic is minus twice the log-likelihood ratio without constants, sum_j a_j x_j^2 - 2 x_j g_j/(n v1_j) with a
    = 1/v1 - 1/v0. x is the whitened release, g the whitened query, n the batch size, and v0 and v1 the variances of x
    without and with the query in the batch (H0, H1). x and g have the shape (q, d), v0 and v1 (d,). `generator` draws
    the release under H0. The rank of the statistic among these draws gives a valid p-value for any number of draws. All
    queries share the draws, so the p-values of different queries in a step are not independent.
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
    # |x - g/n|^2/v1 - |x|^2/v0 is expanded around the residual: for large n both terms are huge and nearly equal.
    ratio = 1 / (n**2 * v0)  # (v0 - v1)/v0
    residual = x - n * v0 * g
    quadratic = residual**2 @ (ratio / v1) - g**2 @ np.ones_like(v0)
    return -0.5 * (quadratic + float(np.sum(np.log1p(-ratio))))


def combined_log_p_values(steps: list[StepAudit]) -> FloatArray:
    """Return ln of Fisher's combined p-value over independent steps.

    Parameters
    ----------
    steps : list of StepAudit
        Evidence of T steps about the same q queries.

    Returns
    -------
    array, shape (q,)
        ln P(chi2_2T >= -2 sum ln p), valid under H0.

    Notes
    -----
    The upper tail is exp(-x) sum_{k<T} x^k/k! with x = -sum ln p.

    References
    ----------
    Fisher 1932.
    """
    total = -np.sum([step.log_p_value for step in steps], axis=0)
    powers = np.cumsum(
        [np.zeros_like(total), *(np.log(np.maximum(total, 1e-300) / k) for k in range(1, len(steps)))], 0
    )
    return np.minimum(np.logaddexp.reduce(powers, axis=0) - total, 0.0).clip(min=SMALLEST_LOG * len(steps))


def log_likelihood_ratios(steps: list[StepAudit]) -> FloatArray:
    """Return the log-likelihood ratio of membership for each query, summed over steps.

    Parameters
    ----------
    steps : list of StepAudit
        Evidence of the steps about the same q queries.

    Returns
    -------
    array, shape (q,)
        Score in nats that ranks the queries. For a known law of the gradients, every threshold of the score is an
        optimal test.
    """
    return np.sum([step.log_likelihood_ratio for step in steps], axis=0)


def effective_batch_size(
    batch_size: int, noise: ReleaseNoise, largest_variance: float, max_grad_norm: float | None
) -> float:
    """Return the effective batch size N = n + n^2 t, with the smallest whitened noise variance t of any direction.

    Parameters
    ----------
    batch_size : int
        Number n of records in the batch.
    noise : ReleaseNoise
        Noise of the released mean.
    largest_variance : float
        Largest eigenvalue of the gradients' covariance, or an upper bound; may be infinite.
    max_grad_norm : float or None
        Norm C to which gradients are clipped, or None.

    Returns
    -------
    float
        N >= n.

    Notes
    -----
    For isotropic noise t is std^2/lambda, where lambda is the largest variance. If C bounds the gradients, lambda <=
    C^2 (Leemann et al. 2023, Theorem 5.1), and the smaller value is used. For noise proportional to the gradients'
    covariance t is std^2. Less noise gives a stronger attack, so the curve of N is a bound for all directions.
    """
    bound = largest_variance if max_grad_norm is None else min(largest_variance, max_grad_norm**2)
    return batch_size + (noise.std * batch_size) ** 2 / (1.0 if noise.proportional else bound)


def worst_case_mu(batch_size: int, noise: ReleaseNoise, max_grad_norm: float, steps: int) -> float:
    """Return mu of the GDP guarantee of isotropic noise for a replaced record.

    Parameters
    ----------
    batch_size : int
        Number n of records in the batch.
    noise : ReleaseNoise
        Isotropic noise of standard deviation tau on the released mean.
    max_grad_norm : float
        Norm C to which gradients are clipped. The sensitivity is 2 C/n.
    steps : int
        Number T of releases.

    Returns
    -------
    float
        2 C sqrt(T)/(n tau).

    References
    ----------
    Dong, Roth, Su 2022, Theorem 2.7 and Corollary 3.3.
    """
    return 2 * max_grad_norm * math.sqrt(steps) / (batch_size * noise.std)


def simulated_step(
    members: int, non_members: int, dimension: int, batch_size: int, noise: ReleaseNoise, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Simulate mean gradients and the query gradients that belong to them.

    Parameters
    ----------
    members, non_members : int
        Numbers of queries that are, and are not, in their batch.
    dimension : int
        Number d of model parameters.
    batch_size : int
        Number n of records in each batch.
    noise : ReleaseNoise
        Noise of the released means.
    generator : numpy.random.Generator
        Source of all draws.

    Returns
    -------
    (array, array)
        Mean gradients and query gradients, both of shape (members + non_members, d), members first.

    Notes
    -----
    The simulation is that of Figure 2a of Leemann et al. 2023. Gradients are standard normal. Every query has its own
    batch, so the trials are independent. The sum of the other gradients of a batch is drawn from its law.
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
    """Return the known law of simulated gradients: standard normal in `dimension` dimensions."""
    return GradientLaw(mean=np.zeros(dimension), variances=np.ones(dimension), axes=None)


def p_values(logs: FloatArray) -> FloatArray:
    """Return p-values from their logarithms, rounded upwards.

    Parameters
    ----------
    logs : array
        Upper bounds of ln p.

    Returns
    -------
    array
        Upper bounds of p, at least the smallest positive double, of the same shape.
    """
    return np.minimum(np.maximum(np.exp(logs) * (1 + 2.0**-48), math.ulp(0.0)), 1.0)
