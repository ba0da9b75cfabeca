"""The simulated generalised likelihood ratio test (GLRT) adversary and its trade-off curve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, ncx2, norm

from service.privacy.audits.glrt import glrt_power, optimal_power, signal_of, simulated_scores
from tests.privacy.references import number, rows


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize(
    "row", [row for row in rows("glrt") if row["id"].startswith("glrt_R_s")], ids=lambda row: row["id"]
)
def test_curve_matches_theorem_2(row: dict[str, Any]) -> None:
    given = row["inputs"]
    ends = glrt_power(np.array([number(given["x"])]), int(given["d"]), number(given["s"]) ** 2)
    value = number(row["value"])
    assert ends[0][0] <= value * (1 + 1e-11)
    assert value <= ends[1][0] * (1 + 1e-11)
    assert ends[1][0] - ends[0][0] <= 1e-10 * value


def test_one_dimensional_curve_matches_closed_form() -> None:
    rates = np.geomspace(1e-30, 0.99, 40)
    quantile = norm.isf(rates / 2)
    expected = norm.sf(quantile - 2.5) + norm.sf(quantile + 2.5)
    for end in glrt_power(rates, 1, 2.5**2):
        assert end == pytest.approx(expected, rel=1e-9)


def test_curves_attain_0_and_1() -> None:
    for ends in (*glrt_power(np.array([0.0, 1.0]), 7, 3.0), *optimal_power(np.array([0.0, 1.0]), 3.0)):
        assert ends.tolist() == [0, 1]


def test_known_direction_has_more_power() -> None:
    rates = np.geomspace(1e-12, 0.9, 20)
    for dimension in (1, 2, 50):
        assert np.all(glrt_power(rates, dimension, 4.0)[1] < optimal_power(rates, 2.0)[0])


@pytest.mark.parametrize(("queries", "noise_multiplier", "dimension"), [(70, 6.0, 1), (50, 3.5, 50)])
def test_simulated_scores_have_expected_distributions(queries: int, noise_multiplier: float, dimension: int) -> None:
    signal = signal_of(queries, noise_multiplier)
    assert signal == pytest.approx(math.sqrt(queries) / noise_multiplier)
    lengths, projections = simulated_scores(20_000, dimension, signal, generator(1))
    assert kstest(lengths, ncx2(dimension, signal**2).cdf).pvalue > 0.01
    assert kstest(projections, norm(signal).cdf).pvalue > 0.01


def test_scores_do_not_depend_on_block_size() -> None:
    lengths, _ = simulated_scores(3, 600_000, 1.0, generator(2))
    whole = generator(2).standard_normal((3, 600_000))
    whole[:, 0] += 1
    assert lengths == pytest.approx((whole**2).sum(axis=1))
