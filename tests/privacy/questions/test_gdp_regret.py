"""The regret of mu: against the gap on fine grids, and against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from service.privacy.composition.planning.options import EngineOptions
from service.privacy.questions import gaussian_dp
from service.privacy.questions.gdp_regret import regret
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built, dpsgd, gaussian, laplace
from tests.slow_marker import sample_of

RUNS: dict[str, Any] = {
    "run": dpsgd(1.0, 0.01, 1000),
    "short run": dpsgd(0.8, 0.1, 20),
    "laplace": laplace(1.0),
    "gaussian": gaussian(2.0),
}


def curves(mechanism: Any) -> Any:
    return WorstCase().curves(built(mechanism), "auto", EngineOptions(relative_tolerance=1e-6))


@sample_of(4)
@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("name", RUNS)
def test_regret_encloses_gap_on_fine_grid(name: str, direction: str) -> None:
    curve = getattr(curves(RUNS[name]), direction)
    mu = gaussian_dp.mu(curve, 1e-9, 1e-9).value.upper
    found = regret(curve, mu)
    rates = np.linspace(0, 1, 4001)
    levels = curve.points(rates).type_two_error.upper - rates
    alphas = np.linspace(0, 1, 400_001)
    on_gaussian = np.interp(levels, (special.ndtr(-special.ndtri(alphas) - mu) - alphas)[::-1], alphas[::-1])
    gap = max(float((rates - on_gaussian).max()), 0.0)
    assert found.lower - 1e-6 <= gap <= found.upper + 1e-6
    assert found.upper - found.lower <= 1e-3


def test_curve_shifted_by_regret_lies_below_gaussian_curve() -> None:
    """The regret k of mu has f(alpha + k) - k <= g_mu(alpha) at every rate alpha, which is its definition.

    f is the trade-off function of the run, and g_mu that of mu-GDP.
    """
    curve = curves(RUNS["run"]).add
    mu = gaussian_dp.mu(curve, 1e-9, 1e-9).value.upper
    raised = regret(curve, mu).upper
    alphas = np.linspace(1e-6, 1 - raised - 1e-6, 500)
    moved = curve.points(alphas + raised).type_two_error.lower - raised
    assert np.all(moved <= special.ndtr(-special.ndtri(alphas) - mu) + 1e-9)


def test_larger_mu_has_more_regret() -> None:
    curve = curves(RUNS["laplace"]).add
    found = [regret(curve, mu) for mu in (1.1, 1.5, 2.5)]
    assert found[0].upper < found[1].lower
    assert found[1].upper < found[2].lower
