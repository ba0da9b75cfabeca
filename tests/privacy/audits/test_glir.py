"""Gradient likelihood ratio attack: its statistic, its p-values under the null hypothesis, and its theory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import combine_pvalues, multivariate_normal, ncx2

from service.privacy.audits import glir
from service.privacy.audits.glir_theory import theory_curve
from service.privacy.audits.gradient_law import clipped, from_moments
from service.privacy.audits.roc import distance_from_uniform, empirical_roc
from service.privacy.audits.tails import log_p_values
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray
from tests.privacy.references import number, rows

NOISELESS = glir.ReleaseNoise(std=0.0, proportional=False)
PROPORTIONAL = glir.ReleaseNoise(std=0.2, proportional=True)
ISOTROPIC = glir.ReleaseNoise(std=0.2, proportional=False)
NOISES = [NOISELESS, PROPORTIONAL, ISOTROPIC]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def drawn(dimension: int, queries: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Draw a mean, a covariance, a released mean gradient and query gradients."""
    source = generator(dimension)
    root = source.standard_normal((dimension, dimension))
    mean, queried = source.standard_normal(dimension), source.standard_normal((queries, dimension))
    return mean, root @ root.T + 0.1 * np.eye(dimension), mean + 0.3 * source.standard_normal(dimension), queried


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("batch_size", [2, 7, 1000])
def test_likelihood_ratios_match_two_normal_densities(noise: glir.ReleaseNoise, batch_size: int) -> None:
    mean, covariance, released, queries = drawn(4, 6)
    law = from_moments(mean, covariance)
    audit = glir.audit_step(released, queries, law, batch_size, noise, generator())
    added = noise.std**2 * (covariance if noise.proportional else np.eye(4))
    for place, theta in enumerate(queries):
        without = multivariate_normal(mean, covariance / batch_size + added)
        within = multivariate_normal(
            mean + (theta - mean) / batch_size, covariance * (batch_size - 1) / batch_size**2 + added
        )
        expected = within.logpdf(released) - without.logpdf(released)
        assert audit.log_likelihood_ratio[place] == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_statistic_without_noise_has_factor_n() -> None:
    mean, covariance, released, queries = drawn(5, 3)
    audit = glir.audit_step(released, queries, from_moments(mean, covariance), 11, NOISELESS, generator())
    for place, theta in enumerate(queries):
        residual, centred = released - theta, theta - mean
        susceptibility = centred @ np.linalg.solve(covariance, centred)
        statistic = 11 * residual @ np.linalg.solve(covariance, residual)
        assert audit.susceptibility[place] == pytest.approx(susceptibility)
        assert audit.statistic[place] == pytest.approx(statistic)
        expected = ncx2.logcdf(statistic, 5, 11 * susceptibility)
        assert audit.log_p_value[place] == pytest.approx(expected, abs=1e-8)


def test_statistic_with_proportional_noise_matches_definition() -> None:
    mean, covariance, released, queries = drawn(5, 3)
    audit = glir.audit_step(released, queries, from_moments(mean, covariance), 11, PROPORTIONAL, generator())
    effective = 11 + 11**2 * 0.2**2
    for place, theta in enumerate(queries):
        residual = (released - mean) - (1 + 11 * 0.2**2) * (theta - mean)
        expected = 11**2 / effective * residual @ np.linalg.solve(covariance, residual)
        assert audit.statistic[place] == pytest.approx(expected)


@pytest.mark.parametrize("noise", [NOISELESS, PROPORTIONAL])
def test_evidence_is_invariant_under_affine_maps(noise: glir.ReleaseNoise) -> None:
    """Shifted and linearly transformed gradients give the same evidence, because the susceptibility K is centred."""
    mean, covariance, released, queries = drawn(4, 5)
    change, shift = generator(5).standard_normal((4, 4)), np.array([10.0, -20.0, 30.0, 5.0])
    one = glir.audit_step(released, queries, from_moments(mean, covariance), 9, noise, generator())
    law = from_moments(mean @ change + shift, change.T @ covariance @ change)
    other = glir.audit_step(released @ change + shift, queries @ change + shift, law, 9, noise, generator())
    for name in ("susceptibility", "statistic", "log_p_value", "log_likelihood_ratio"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-7, abs=1e-9)


def non_members(queries: int, noise: glir.ReleaseNoise, steps: int = 1) -> FloatArray:
    """Return combined p-values of simulated non-members for n = 50 records in a batch and d = 50 dimensions."""
    audits: list[glir.StepAudit] = []
    for step in range(steps):
        source = generator(100 + step)
        means, gradients = glir.simulated_step(0, queries, 50, 50, noise, source)
        audits.append(glir.audit_step(means, gradients, glir.identity_law(50), 50, noise, source))
    return glir.p_values(glir.combined_log_p_values(audits))


@pytest.mark.parametrize(
    ("noise", "queries", "steps"),
    [(NOISELESS, 100_000, 1), (NOISELESS, 20_000, 3), (PROPORTIONAL, 20_000, 2)],
)
def test_p_values_of_non_members_are_uniform(noise: glir.ReleaseNoise, queries: int, steps: int) -> None:
    distance, critical = distance_from_uniform(non_members(queries, noise, steps))
    assert distance < critical


def test_printed_factor_gives_too_small_p_values() -> None:
    """With the printed factor n - 1 in place of n, p-values of non-members are too small.

    At d = n = 50, p-values below 1, 5, 10 and 50 % occur in 3.3, 12.4, 21.7 and 69.6 % of the cases.
    """
    means, gradients = glir.simulated_step(0, 20_000, 50, 50, NOISELESS, generator(7))
    audit = glir.audit_step(means, gradients, glir.identity_law(50), 50, NOISELESS, generator())
    printed = np.exp(log_p_values(audit.statistic * 49 / 50, 50, 50 * audit.susceptibility))
    for nominal, published in ((0.01, 0.033), (0.05, 0.124), (0.1, 0.217), (0.5, 0.696)):
        share = float(np.mean(printed <= nominal))
        assert share == pytest.approx(published, abs=5 * math.sqrt(published * (1 - published) / 20_000) + 0.0005)


def test_rank_p_values_are_uniform_over_releases() -> None:
    """P-values by ranks among simulated draws are uniform over 300 independent steps.

    Queries of one step share their draws, so each trial has a step of its own.
    """
    found: list[float] = []
    for trial in range(300):
        source = generator(trial)
        means, gradients = glir.simulated_step(0, 1, 6, 5, ISOTROPIC, source)
        audit = glir.audit_step(means, gradients, glir.identity_law(6), 5, ISOTROPIC, source)
        found.append(math.exp(float(audit.log_p_value[0])))
    distance, critical = distance_from_uniform(np.array(found))
    assert distance < critical
    assert min(found) >= 1 / (1 + glir.P_VALUE_DRAWS)


def test_members_have_small_p_values() -> None:
    for noise in NOISES:
        means, gradients = glir.simulated_step(500, 500, 50, 10, noise, generator())
        audit = glir.audit_step(means, gradients, glir.identity_law(50), 10, noise, generator(1))
        assert audit.log_p_value[:500].mean() < audit.log_p_value[500:].mean() - 1
        assert audit.log_likelihood_ratio[:500].mean() > 0 > audit.log_likelihood_ratio[500:].mean()


def test_p_values_match_oracle_and_are_never_too_small() -> None:
    generated = generator(3)
    for degrees, noncentrality in ((1, 3.0), (3, 0.0), (10, 1e5), (60, 20.0), (650, 3e5)):
        each = noncentrality * generated.uniform(0.5, 2, 40)
        statistic = (degrees + each) + generated.uniform(-4, 4, 40) * np.sqrt(2 * degrees + 4 * each)
        statistic = np.maximum(statistic, 1e-3 * degrees)
        expected = np.asarray(ncx2.logcdf(statistic, degrees, each) if noncentrality else _central(statistic, degrees))
        found = log_p_values(statistic, degrees, each)
        assert found == pytest.approx(expected, abs=1e-7)
        assert np.all(found >= expected - 1e-9)


def _central(statistic: FloatArray, degrees: int) -> Any:
    from scipy.stats import chi2

    return chi2.logcdf(statistic, degrees)


def test_far_tails_respect_chernoff_bound() -> None:
    for degrees, noncentrality in ((3, 1e4), (650, 3e5), (2, 40.0)):
        statistic = np.array([0.0, 0.01, 0.3]) * noncentrality
        logs = log_p_values(statistic, degrees, np.full(3, noncentrality))
        assert np.all(np.diff(logs) >= 0)
        assert np.all((logs >= -690) & (logs <= 0))


def test_p_values_are_combined_by_fisher() -> None:
    logs = np.log(generator().random((4, 30)))
    filler = np.zeros(30)
    steps = [
        glir.StepAudit(
            dimension=1,
            susceptibility=filler,
            largest_susceptibility=filler,
            largest_variance=1.0,
            shrinkage=0.0,
            statistic=filler,
            log_p_value=row,
            log_likelihood_ratio=row,
        )
        for row in logs
    ]
    combined = glir.p_values(glir.combined_log_p_values(steps))
    expected = [combine_pvalues(column, method="fisher").pvalue for column in np.exp(logs).T]
    assert combined == pytest.approx(expected, rel=1e-10)
    assert glir.p_values(glir.combined_log_p_values(steps[:1])) == pytest.approx(np.exp(logs[0]), rel=1e-12)


@pytest.mark.parametrize(
    "row", [row for row in rows("gmip") if row["id"].startswith("thm51")], ids=lambda row: row["id"]
)
def test_theory_curve_matches_theorem_5_1(row: dict[str, Any]) -> None:
    given = row["inputs"]
    curve = theory_curve(int(given["d"]), number(given["n_effective"]), np.array([number(given["K"])]))
    lower, upper = (end[0] for end in curve.power(np.array([number(given["alpha"])])))
    value = number(row["value"])
    power = value if row["id"].startswith("thm51tpr") else 1 - value
    assert lower <= power * (1 + 1e-12) + 1e-16
    assert power <= upper * (1 + 1e-12)
    if 1e-7 < number(given["alpha"]) < 1:
        assert upper - lower < 5e-3 * upper


def test_theory_curve_of_many_records_bounds_each_and_rises_with_k() -> None:
    rates = np.geomspace(1e-8, 0.9, 30)
    spread = np.linspace(20, 80, 500)
    mixed = theory_curve(50, 50, spread).power(rates)[1]
    assert np.all(mixed >= theory_curve(50, 50, np.array([20.0])).power(rates)[0])
    assert np.all(mixed <= theory_curve(50, 50, np.array([80.0])).power(rates)[1])


@pytest.mark.parametrize(
    ("noise", "steps", "count"), [(NOISELESS, 1, 20_000), (PROPORTIONAL, 3, 10_000), (ISOTROPIC, 2, 4_000)]
)
def test_attack_attains_theory_curve(noise: glir.ReleaseNoise, steps: int, count: int) -> None:
    """The curve of all steps together lies in the empirical band, as in Figure 2a of the paper."""
    dimension, batch_size = 30, 40
    audits: list[glir.StepAudit] = []
    for step in range(steps):
        source = generator(step)
        means, gradients = glir.simulated_step(count, count, dimension, batch_size, noise, source)
        audits.append(glir.audit_step(means, gradients, glir.identity_law(dimension), batch_size, noise, source))
    scores = glir.log_likelihood_ratios(audits)
    roc = empirical_roc(scores[:count], scores[count:], 0.999, 100)
    effective = glir.effective_batch_size(batch_size, noise, 1.0, None)
    susceptibilities = np.sum([audit.susceptibility for audit in audits], axis=0)
    curve = theory_curve(dimension * steps, effective, susceptibilities)
    least, most = roc.true_positive_ends()
    first, last = roc.false_positive_ends()
    assert np.all(least <= curve.power(last)[1])
    assert np.all(most >= curve.power(first)[0])


def test_effective_batch_size_matches_reference() -> None:
    for row in rows("gmip"):
        if row["quantity"] == "n_effective":
            given = row["inputs"]
            noise = glir.ReleaseNoise(std=number(given["tau"]), proportional=False)
            found = glir.effective_batch_size(int(given["n"]), noise, math.inf, number(given["C"]))
            assert found == pytest.approx(number(row["value"]), rel=1e-14)


def test_clipping_never_lengthens_gradients() -> None:
    gradients = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [3e200, 4e200]])
    found = clipped(gradients, 1.0)
    assert found == pytest.approx(np.array([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0], [0.6, 0.8]]))
    assert clipped(gradients, None) is gradients


def test_singular_covariance_is_rejected() -> None:
    for covariance in (np.zeros(3), np.array([1.0, 0.0, 1.0]), np.ones((3, 3))):
        with pytest.raises(OutOfDomain, match="singular"):
            from_moments(np.zeros(3), covariance)
    with pytest.raises(OutOfDomain, match="symmetric"):
        from_moments(np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]]))


def test_implausible_gradients_are_rejected() -> None:
    law = from_moments(np.zeros(2), np.ones(2))
    with pytest.raises(OutOfDomain) as caught:
        glir.audit_step(np.zeros(2), np.array([[1e5, 0.0]]), law, 10, NOISELESS, generator())
    assert caught.value.name == "query_gradients"
