"""Gradient likelihood ratio attack when the law of the gradients is known only through background gradients.

Model. A non-member's query theta, b background gradients of law N(mu, Sigma) and the released mean m of law
N(mu, v Sigma) are independent. Noise of covariance std^2 Sigma gives v = 1/n + std^2. Isotropic noise is reduced to
no noise: independent normal noise of variance n std^2 is added to every coordinate of the background. Then Sigma
stands for Sigma + n std^2 I everywhere, and v = 1/n.

Contrasts. Let x be the background mean, A the scatter of the background about x, and z = (m - x)/sqrt(v + 1/b).
There are b - 1 orthonormal contrasts of the background whose outer products sum to A. With z they are the b columns of
a matrix G. The columns are independent and N(0, Sigma), and G G' = B = A + z z'. The pooled mean
w = x + (m - x)/(1 + b v) is uncorrelated with every column, hence independent of G. The query is independent of G by
assumption. So h = theta - w is independent of G.

Theorem. Let a be any function of B and h. Then r = a'z/sqrt(a'B a) is distributed as one coordinate of a uniform unit
vector in b dimensions. So t = r sqrt((b - 1)/(1 - r^2)) has exactly Student's law with b - 1 degrees of freedom.
Proof. The law of G does not change when G is multiplied by an orthogonal matrix from the right, B does not change
either, and h is independent of G. So the law of G given B and h does not change. Given B and h, the vector G'a has the
fixed length sqrt(a'B a), and its direction is uniform, because every rotation leaves its law unchanged. The last
coordinate of G'a is a'z. Its ratio to the length is r. The law of r does not depend on B and h, so it is also the law
without a condition. The law of t is the textbook one of a coordinate of a uniform unit vector.

Since a'B a - (a'z)^2 = a'A a, t is the ordinary t statistic of m against the background, all projected on a. Nothing is
assumed about Sigma or about the law of the query. The direction is a = M^-1 h with the shrunk pooled covariance
M = (1 - rho) B/b + rho tr(B)/(b d) I, the plug-in of the best direction Sigma^-1 (theta - mu).

Sources: Fang, Zhang 1990, Generalized Multivariate Analysis, section 2.5 (spherical matrices); Laeuter 1996,
Biometrics 52 (exact t tests on directions that depend on the total scatter); Chen, Wiesel, Eldar, Hero 2010, equation
17 (the shrinkage rho, which is a function of B alone, as the theorem needs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, cast, final

import numpy as np

from service.privacy.audits.glir import LARGEST_DEVIATION, ReleaseNoise, StepAudit, check_range
from service.privacy.audits.tails import SMALLEST_LOG
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray

LARGEST_SHARE: Final = 1 - 1e-12
"""Largest squared r: a larger one is rounded down, which makes p-values larger."""
TAIL_ERROR: Final = 1e-9
"""Bound of the relative error of Student's tails, tested against mpmath."""
REMEDY: Final = (
    "Leave out coordinates that are constant or sums of other coordinates in the background "
    "gradients, or send more background gradients."
)


DISJOINT: Final = "Send background gradients of records that are neither in the batch nor among the queries."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Pooled:
    """Scatter matrix B of background gradients and release in its eigenvectors, and the shrunk covariance M there.

    `release`: the scaled difference z of the release from the background mean, shape (d,). `scatter`, `metric`:
    eigenvalues of B and M, shape (d,). `axes`: the eigenvectors as columns. `count`: the number b of background
    gradients. `shrinkage`: rho.
    """

    release: FloatArray
    scatter: FloatArray
    metric: FloatArray
    axes: FloatArray
    count: int
    shrinkage: float

    def deflation(self) -> float:
        """Return 1 - f/b, where f is the effective number of dimensions that the shrunk covariance M fits.

        f is d without shrinkage, and b is the number of background gradients. Projections on the test direction have
        about 1/(1 - f/b)^2 times the variance that the background itself shows.
        """
        fitted = (1 - self.shrinkage) * float(np.sum(self.scatter / self.metric)) / self.count
        return max(1 - fitted / self.count, 0.0)


def audit_against_background(
    mean_gradient: FloatArray,
    query_gradients: FloatArray,
    background: FloatArray,
    batch_size: int,
    noise: ReleaseNoise,
    shrinkage: float | None,
    doubt: float,
    generator: np.random.Generator,
) -> StepAudit:
    """Compute exact p-values of a step whose gradient law is known only through background gradients.

    Parameters
    ----------
    mean_gradient, query_gradients, background : array
        The released mean, shape (d,), the gradients of the queries, shape (q, d), and those of known non-members, shape
        (b, d) with b >= d + 3. All are clipped.
    batch_size : int
        Number n of records in the batch.
    noise : ReleaseNoise
        Noise of the released mean.
    shrinkage : float or None
        rho in [0, 1], or None for the estimate of Chen and others.
    doubt : float
        Largest probability that one or more of the upper bounds, of susceptibilities and of the largest variance, are
        too small.
    generator : numpy.random.Generator
        Source of the noise that is added to the background if the noise of the release is isotropic.

    Returns
    -------
    StepAudit
        p-values and log-likelihood ratios of the queries, arrays of shape (q,).

    Raises
    ------
    OutOfDomain
        A query is a background gradient, the covariance is singular, the release is implausibly far from the background
        mean, or a whitened query exceeds `LARGEST_DEVIATION` (`check_range`).
    """
    _check_disjoint(query_gradients, background)
    center = background.mean(axis=0)
    centred = background - center
    each = doubt / (2 * len(query_gradients) + 1)
    deviations = query_gradients - center
    susceptibility, largest = _susceptibilities(deviations, centred, each)
    variance = _largest_variance(centred, each) if noise.is_isotropic else math.inf
    v = 1 / batch_size + (noise.std**2 if noise.proportional else 0.0)
    if noise.is_isotropic:
        added = noise.std * math.sqrt(batch_size) * generator.standard_normal(background.shape)
        shift = added.mean(axis=0)
        center, centred, deviations = center + shift, centred + (added - shift), deviations - shift
    pooled = _pool(mean_gradient - center, centred, v, shrinkage)
    weight = 1 + len(background) * v
    offsets = deviations - (mean_gradient - center) / weight
    amplitude = weight / ((batch_size * weight - 1) * math.sqrt(v + 1 / len(background)))
    r, logs = _compare(pooled, offsets)
    return StepAudit(
        dimension=len(center),
        susceptibility=susceptibility,
        largest_susceptibility=largest,
        largest_variance=variance,
        shrinkage=pooled.shrinkage,
        statistic=-_student(r, len(background)),
        log_p_value=logs,
        log_likelihood_ratio=_log_likelihood_ratio(pooled, offsets, r, amplitude),
    )


def _check_disjoint(query_gradients: FloatArray, background: FloatArray) -> None:
    """Raise OutOfDomain when a row of `query_gradients` equals a row of `background`."""
    queries = {(row + 0.0).tobytes(): place for place, row in enumerate(query_gradients)}
    for row in background:
        place = queries.get((row + 0.0).tobytes())
        if place is not None:
            domain = "the gradient of a record outside the background"
            raise OutOfDomain(f"query_gradients/{place}", "a gradient", domain, DISJOINT)


def _pool(difference: FloatArray, centred: FloatArray, v: float, shrinkage: float | None) -> _Pooled:
    count, dimension = centred.shape
    squared = float(np.sum(centred**2))
    if float(np.max(np.abs(difference))) > LARGEST_DEVIATION * math.sqrt(squared):
        raise OutOfDomain("mean_gradient", "an array", "close to the background gradients, relative to their spread")
    release = difference / math.sqrt(v + 1 / count)
    total = centred.T @ centred + np.outer(release, release)
    rho = shrinkage_of(total / count, count) if shrinkage is None else shrinkage
    scatter, axes = np.linalg.eigh(total)
    metric = ((1 - rho) * scatter + rho * float(np.mean(scatter))) / count
    if not metric.min() > dimension * 2.0**-52 * metric.max():
        if float(np.sum(release**2)) > squared:
            domain = "close to the background gradients, relative to their spread in every direction"
            raise OutOfDomain("mean_gradient", "an array", domain)
        raise OutOfDomain("background_gradients", "an array", "with a nonsingular covariance", REMEDY)
    return _Pooled(
        release=release @ axes, scatter=np.maximum(scatter, 0.0), metric=metric, axes=axes, count=count, shrinkage=rho
    )


def shrinkage_of(covariance: FloatArray, count: int) -> float:
    """Return the weight rho of the identity in a shrunk covariance matrix, by the estimate of Chen and others.

    rho is min(1, ((b - 2)/b tr S^2 + tr^2 S)/((b + 2)(tr S^2 - tr^2 S/d))). S is `covariance`, shape (d, d), tr its
    trace, and b = `count` the number of samples. The estimate is that of Ledoit and Wolf, averaged over all normal
    samples of mean 0 with the same S.
    """
    squares, squared_trace = float(np.sum(covariance**2)), float(np.trace(covariance)) ** 2
    spread = (count + 2) * (squares - squared_trace / len(covariance))
    noise = (count - 2) / count * squares + squared_trace
    return 1.0 if spread <= noise else noise / spread


def _compare(pooled: _Pooled, offsets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the correlation r of every query with the release, and an upper bound of ln P(T >= t(r)).

    `pooled` describes the release and the background gradients. `offsets` are the query gradients minus the pooled
    mean, shape (q, d). T has Student's law with b - 1 degrees for b background gradients, and t(r) is the t statistic
    of the correlation r. Both results have shape (q,).
    """
    from scipy.special import stdtr

    h = offsets @ pooled.axes
    check_range("query_gradients", h / np.sqrt(pooled.metric), LARGEST_DEVIATION)
    directions = h / pooled.metric
    lengths = np.sqrt(directions**2 @ pooled.scatter)
    r = directions @ pooled.release / np.where(lengths > 0, lengths, 1.0)
    r = np.clip(r, -math.sqrt(LARGEST_SHARE), math.sqrt(LARGEST_SHARE))
    tails = np.asarray(stdtr(pooled.count - 1.0, -_student(r * LARGEST_SHARE, pooled.count)), dtype=np.float64)
    return r, np.clip(np.log(np.maximum(tails, math.exp(SMALLEST_LOG))) + TAIL_ERROR, SMALLEST_LOG, 0.0)


def _student(r: FloatArray, count: int) -> FloatArray:
    return r * np.sqrt((count - 1) / ((1 - r) * (1 + r)))


def _log_likelihood_ratio(pooled: _Pooled, offsets: FloatArray, r: FloatArray, amplitude: float) -> FloatArray:
    """Return kappa r - c(kappa), a log-likelihood ratio of membership for every query, shape (q,).

    `offsets` are the queries minus the pooled mean, shape (q, d), and `r` their correlations with the release, shape
    (q,). c(kappa) is an upper bound of ln E exp(kappa r) over non-members. The value is the log-likelihood ratio of r
    when membership tilts the density of r by exp(kappa r). kappa estimates the shift of the release along the test
    direction, from quantities that do not depend on r. kappa is proportional to `amplitude`, the shift of the scaled
    release relative to the offset of a member. So the mean of exp(value) over non-members is at most 1, however far
    kappa is from the truth.
    """
    h = offsets @ pooled.axes
    directions = h / pooled.metric
    spread = np.sqrt(directions**2 @ pooled.scatter / pooled.count)
    gain = np.einsum("qd,qd->q", directions, h) / np.where(spread > 0, spread, 1.0)
    kappa = math.sqrt(pooled.count) * amplitude * pooled.deflation() * gain
    return kappa * r - log_normaliser(kappa, pooled.count)


def log_normaliser(kappa: FloatArray, count: int) -> FloatArray:
    """Return an upper bound of ln E exp(kappa r), where r is a coordinate of a uniform unit vector in b dimensions.

    b is `count`. The derivative in kappa is I_{b/2}(kappa)/I_{b/2-1}(kappa), a quotient of modified Bessel functions.
    It is at most kappa/(alpha + sqrt(kappa^2 + beta^2)) with alpha = b/2 - 1 and beta = b/2 + 1, which is integrated.
    Source: Amos 1974, equation 16; Hornik, Gruen 2013, theorem 2.
    """
    alpha, beta = count / 2 - 1, count / 2 + 1
    excess = kappa**2 / (np.hypot(kappa, beta) + beta)
    return excess - alpha * np.log1p(excess / (alpha + beta))


def _susceptibilities(deviations: FloatArray, centred: FloatArray, doubt: float) -> tuple[FloatArray, FloatArray]:
    """Return an unbiased estimate of the susceptibility K of every query, cut off at 0, and an upper bound; shape (q,).

    K = |Sigma^-1/2 (theta - mu)|^2 for the query gradient theta, where mu and Sigma are the mean and the covariance of
    the gradients. `deviations` are u = theta - x, where x is the background mean, shape (q, d). `centred` is the
    background minus x, shape (b, d), with scatter A. The quotient u'Sigma^-1 u/(u'A^-1 u) has the chi-square law of b -
    d degrees, independent of u. Hence u'Sigma^-1 u is at most u'A^-1 u times the upper quantile of this law. The part
    of x - mu in the direction of theta - mu is normal with variance 1/b, so sqrt(K) is at most sqrt(u'Sigma^-1 u) plus
    its upper quantile. Each quantile is exceeded with probability `doubt`. Source: Muirhead 1982, Theorem 3.2.12.
    """
    from scipy.special import chdtri, ndtri

    count, dimension = centred.shape
    quotients = _quotients(deviations, centred)
    estimate = np.maximum((count - dimension - 2) * quotients - dimension / count, 0.0)
    scale = cast("float", chdtri(count - dimension, doubt))
    offset = -float(ndtri(doubt)) / math.sqrt(count)
    return estimate, (np.sqrt(quotients * scale) + offset) ** 2


def _quotients(deviations: FloatArray, centred: FloatArray) -> FloatArray:
    """Return u'A^-1 u for every row u of `deviations`, where A is the scatter matrix of the rows of `centred`.

    Raises OutOfDomain for a singular A.
    """
    triangle: FloatArray = np.asarray(np.linalg.qr(centred, mode="r"))
    diagonal = np.abs(np.diag(triangle))
    scales = np.sqrt(np.sum(triangle**2, axis=0))
    if not np.all(diagonal > len(diagonal) * 2.0**-40 * scales) or not scales.min() > 0:
        raise OutOfDomain("background_gradients", "an array", "with a nonsingular covariance", REMEDY)
    from scipy.linalg import solve_triangular

    solved = solve_triangular(triangle, deviations.T, trans="T")
    return np.einsum("dq,dq->q", solved, solved)


def _largest_variance(centred: FloatArray, doubt: float) -> float:
    """Return an upper bound of the largest eigenvalue of the gradients' covariance Sigma.

    `centred` is the background minus its mean, shape (b, d). The bound is too small with probability at most `doubt`.
    The quotient e'A e/e'Sigma e for an eigenvector e of Sigma has the chi-square law of b - 1 degrees, where A is the
    scatter of the background. The largest eigenvalue of A is at least e'A e.
    """
    from scipy.special import chdtri

    largest = float(np.linalg.eigvalsh(centred.T @ centred)[-1])
    return largest / float(chdtri(len(centred) - 1, 1 - doubt))
