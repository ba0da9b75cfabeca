"""Attack with background gradients: exact p-values, valid likelihood ratios, bounds of estimated quantities.

Data are simulated with NumPy alone. No function of the service draws a gradient or computes an expected value.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import binomtest, chi2, ncx2
from scipy.stats import t as student

from service.privacy.audits import background as attack
from service.privacy.audits import glir
from service.privacy.audits.background import audit_against_background, shrinkage_of
from service.privacy.audits.roc import distance_from_uniform
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray
from tests.slow_marker import crossed, sample_of, thorough

NOISELESS = glir.ReleaseNoise(std=0.0, proportional=False)
PROPORTIONAL = glir.ReleaseNoise(std=0.3, proportional=True)
ISOTROPIC = glir.ReleaseNoise(std=0.4, proportional=False)
NOISES = [NOISELESS, PROPORTIONAL, ISOTROPIC]
DIMENSIONS, RATIOS = (1, 4, 20), (1.5, 3.0, 10.0, 50.0)
TRIALS = 1_500


def rows_for(dimension: int, ratio: float) -> int:
    return max(math.ceil(ratio * dimension), dimension + 3)


class Population:
    """Normal gradients with correlated coordinates of very different variances, and a nonzero mean."""

    def __init__(self, dimension: int, seed: int) -> None:
        self.source = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, dimension])))
        self.root = self.source.standard_normal((dimension, dimension)) * np.geomspace(1, 10, dimension)
        self.mean = 3 * self.source.standard_normal(dimension)

    def gradients(self, count: int) -> FloatArray:
        return self.mean + self.source.standard_normal((count, len(self.mean))) @ self.root

    def release(self, batch: FloatArray, noise: glir.ReleaseNoise) -> FloatArray:
        added = self.source.standard_normal(len(self.mean))
        return batch.mean(axis=0) + noise.std * (added @ self.root if noise.proportional else added)

    def susceptibilities(self, queries: FloatArray) -> FloatArray:
        whitened = (queries - self.mean) @ np.linalg.inv(self.root)
        return np.sum(whitened**2, axis=1)


def step(
    population: Population, rows: int, noise: glir.ReleaseNoise, batch_size: int = 12, members: int = 0, others: int = 1
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Simulate a release, query gradients with the members first, and background gradients of one training step."""
    batch = population.gradients(batch_size)
    queries = np.vstack((batch[:members], population.gradients(others)))
    return population.release(batch, noise), queries, population.gradients(rows)


def audited(
    release: FloatArray,
    queries: FloatArray,
    background: FloatArray,
    noise: glir.ReleaseNoise = NOISELESS,
    shrinkage: float | None = None,
    batch_size: int = 12,
) -> glir.StepAudit:
    generator = np.random.Generator(np.random.PCG64(int(abs(release[0]) * 1e6) % 2**32))
    return audit_against_background(release, queries, background, batch_size, noise, shrinkage, 0.01, generator)


def audits(dimension: int, rows: int, trials: int, shrinkages: tuple[float | None, ...]) -> list[glir.StepAudit]:
    """Run audits of one non-member per trial, alternating noises and shrinkages, so that p-values are independent."""
    population = Population(dimension, rows)
    found: list[glir.StepAudit] = []
    for trial in range(trials):
        noise, shrinkage = NOISES[trial % 3], shrinkages[trial // 3 % len(shrinkages)]
        found.append(audited(*step(population, rows, noise), noise, shrinkage))
    return found


@sample_of(2)
@pytest.mark.parametrize(("dimension", "ratio"), crossed(DIMENSIONS, RATIOS))
def test_p_values_of_non_members_are_uniform(dimension: int, ratio: float) -> None:
    """Smaller p-values would accuse non-members falsely; larger ones would miss members."""
    found = audits(dimension, rows_for(dimension, ratio), TRIALS, (None, 0.0, 0.5))
    p_values = glir.p_values(np.concatenate([audit.log_p_value for audit in found]))
    distance, critical = distance_from_uniform(p_values)
    assert distance < critical
    for level in (0.1, 0.01, 0.001):
        count = int(np.count_nonzero(p_values <= level))
        assert binomtest(count, TRIALS, level).pvalue > 1e-4


def plugged_in(release: FloatArray, queries: FloatArray, background: FloatArray, batch_size: int) -> FloatArray:
    """Return p-values as printed in Algorithm 1, with the factor n and the lower tail, but with plug-in estimates."""
    inverse = np.linalg.inv(np.cov(background.T))
    residuals, centred = release - queries, queries - background.mean(axis=0)
    statistic = batch_size * np.einsum("qi,ij,qj->q", residuals, inverse, residuals)
    return ncx2.cdf(statistic, len(release), batch_size * np.einsum("qi,ij,qj->q", centred, inverse, centred))


@pytest.mark.parametrize(
    ("rows", "published", "trials"), [(30, 0.41, 800), thorough(30, 0.41, 2_000), thorough(100, 0.11, 2_000)]
)
def test_printed_plug_in_gives_too_small_p_values(rows: int, published: float, trials: int) -> None:
    """The printed algorithm gives the false positive rates of the erratum `gmip-plug-in`: 0.41 and 0.11 at a level of
    0.01.

    The numbers of background gradients are 30 and 100, in 20 dimensions with batches of 100.
    """
    population = Population(20, rows)
    printed: list[float] = []
    served: list[float] = []
    for _ in range(trials):
        release, queries, background = step(population, rows, NOISELESS, 100)
        printed += plugged_in(release, queries, background, 100).tolist()
        served += np.exp(audited(release, queries, background, batch_size=100).log_p_value).tolist()
    assert np.mean(np.array(printed) <= 0.01) == pytest.approx(published, abs=0.03)
    assert binomtest(int(np.sum(np.array(served) <= 0.01)), trials, 0.01).pvalue > 1e-4


@pytest.mark.parametrize("noise", [NOISELESS, PROPORTIONAL])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_statistic_is_t_test_along_direction(noise: glir.ReleaseNoise, shrinkage: float) -> None:
    release, queries, background = step(Population(5, 3), 11, noise, members=2, others=3)
    found = audited(release, queries, background, noise, shrinkage)
    v, rows = 1 / 12 + noise.std**2, len(background)
    mean, covariance = background.mean(axis=0), np.cov(background.T)
    pooled = ((rows - 1) * covariance + np.outer(release - mean, release - mean) / (v + 1 / rows)) / rows
    metric = (1 - shrinkage) * pooled + shrinkage * np.trace(pooled) / 5 * np.eye(5)
    for place, query in enumerate(queries):
        direction = np.linalg.solve(metric, query - (release / v + rows * mean) / (1 / v + rows))
        scale = math.sqrt((v + 1 / rows) * direction @ covariance @ direction)
        expected = direction @ (release - mean) / scale
        assert found.statistic[place] == pytest.approx(-expected, rel=1e-8)
        assert found.log_p_value[place] == pytest.approx(student.logsf(expected, rows - 1), abs=1e-7)
        assert found.log_p_value[place] >= student.logsf(expected, rows - 1)


def test_evidence_is_invariant_under_affine_maps() -> None:
    """Without shrinkage, shifted and linearly transformed gradients give the same evidence."""
    sent = step(Population(4, 8), 9, PROPORTIONAL, members=3, others=3)
    change = np.random.Generator(np.random.PCG64(1)).standard_normal((4, 4))
    release, queries, background = (array @ change + 7 for array in sent)
    one = audited(*sent, PROPORTIONAL, 0.0)
    other = audited(release, queries, background, PROPORTIONAL, 0.0)
    for name in ("susceptibility", "largest_susceptibility", "statistic", "log_p_value", "log_likelihood_ratio"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-6, abs=1e-7)


def test_members_have_small_p_values_and_large_ratios() -> None:
    for noise in NOISES:
        population = Population(30, 2)
        found = [audited(*step(population, 60, noise, 12, 6, 6), noise) for _ in range(60)]
        logs = np.array([audit.log_p_value for audit in found])
        ratios = np.array([audit.log_likelihood_ratio for audit in found])
        assert logs[:, :6].mean() < logs[:, 6:].mean() - 0.5
        assert ratios[:, :6].mean() > 0 > ratios[:, 6:].mean()


@pytest.mark.parametrize(
    ("dimension", "rows", "trials"),
    [(3, 6, 1_000), thorough(3, 6, 3_000), thorough(8, 12, 3_000), thorough(8, 80, 3_000)],
)
def test_likelihood_ratios_of_non_members_are_at_most_one_on_average(dimension: int, rows: int, trials: int) -> None:
    found = audits(dimension, rows, trials, (None, 0))
    ratios = np.exp(np.concatenate([audit.log_likelihood_ratio for audit in found]))
    assert ratios.mean() <= 1 + 4 * ratios.std() / math.sqrt(ratios.size)


def test_normaliser_is_tight_upper_bound() -> None:
    """The normaliser is an upper bound, at most 3 % too large, of a value by Bessel functions.

    The value is ln E exp(kappa r), where r is one coordinate of a uniform unit vector in b dimensions.
    """
    for count in (4, 10, 60):
        for kappa in (0.01, 0.5, 3.0, 20.0, 200.0):
            order = count / 2 - 1
            expected = math.lgamma(count / 2) + order * math.log(2 / kappa) + math.log(ive(order, kappa)) + kappa
            found = attack.log_normaliser(np.array([kappa]), count)[0]
            assert expected - 1e-13 <= found <= 1.03 * expected


@pytest.mark.parametrize(
    ("dimension", "rows", "trials"),
    [(4, 8, 1_000), thorough(4, 8, 3_000), thorough(1, 4, 3_000), thorough(10, 40, 3_000)],
)
def test_susceptibilities_are_estimated_and_bounded(dimension: int, rows: int, trials: int) -> None:
    population = Population(dimension, 5)
    queries = population.gradients(1) + 2.0
    [truth] = population.susceptibilities(queries)
    release = population.mean
    found = [audited(release, queries, population.gradients(rows)) for _ in range(trials)]
    estimates = np.array([audit.susceptibility[0] for audit in found])
    bounds = np.array([audit.largest_susceptibility[0] for audit in found])
    cut = truth < 3  # Estimates below 0 are clipped.
    error = 4 * estimates.std() / math.sqrt(estimates.size)
    assert truth - error <= estimates.mean() <= truth + error + (0.5 if cut else 0)
    assert np.mean(bounds < truth) <= 0.01


def test_largest_variance_is_bounded() -> None:
    population = Population(6, 9)
    truth = np.linalg.eigvalsh(population.root.T @ population.root)[-1]
    release, queries, _ = step(population, 9, ISOTROPIC)
    found = [audited(release, queries, population.gradients(20), ISOTROPIC).largest_variance for _ in range(2_000)]
    assert np.mean(np.array(found) < truth) <= 0.01
    assert np.median(found) < truth * 19 / chi2.ppf(0.001, 19) * 1.6


def test_default_shrinkage_depends_only_on_scatter() -> None:
    """Shrinkage falls as the background grows. It is 1 if the scatter is compatible with equal variances."""
    assert shrinkage_of(np.eye(4), 10) == 1.0
    release, queries, background = step(Population(6, 4), 400, NOISELESS)
    few, many = (audited(release, queries, background[:rows]).shrinkage for rows in (12, 400))
    assert 0 < many < few <= 1
    turned = np.linalg.qr(np.random.Generator(np.random.PCG64(2)).standard_normal((12, 12)))[0]
    scatter = background[:12].T @ background[:12]
    mixed = turned @ background[:12]
    assert shrinkage_of(mixed.T @ mixed / 12, 12) == pytest.approx(shrinkage_of(scatter / 12, 12), rel=1e-9)


def test_extreme_releases_keep_finite_evidence() -> None:
    """P-values and likelihood ratios stay finite for extreme releases.

    A release equals the mean of the background, a query equals the pooled mean, or a query is a member for certain.
    """
    _, queries, background = step(Population(3, 1), 8, NOISELESS)
    center = background.mean(axis=0)
    at_mean = audited(center, np.vstack((queries, center)), background)
    assert np.exp(at_mean.log_p_value) == pytest.approx(0.5)
    spread = background[0] - center
    certain = audited(center + 500 * spread, (center + 700 * spread)[None], background, shrinkage=0.0)
    assert -690 <= certain.log_p_value[0] < -10
    assert np.all(np.isfinite(certain.log_likelihood_ratio))


def test_unusable_background_is_rejected() -> None:
    release, queries, background = step(Population(3, 7), 9, NOISELESS, others=4)
    constant = background.copy()
    constant[:, 1] = 5.0
    dependent = background.copy()
    dependent[:, 2] = background[:, 0] + background[:, 1]
    refused = {
        "query_gradients/2": (release, np.vstack((queries[:2], background[4:5], queries[3:])), background),
        "background_gradients": (release, queries, constant),
        "background_gradients ": (release, queries, dependent),
        "mean_gradient": (release + 1e12, queries, background),
        "query_gradients": (release, queries * 1e9, background),
    }
    for name, sent in refused.items():
        with pytest.raises(OutOfDomain) as caught:
            audited(*sent)
        assert caught.value.name == name.strip()
        assert name == "mean_gradient" or caught.value.remedy
