"""Simulated parent sets: mean values of the paper's figures, determinism, and inequalities that hold in every trial.

The parent set is the population from which the data are drawn.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.privacy.pmp.simulations import Budget, DataLaw, Trial, exponential_trial, gaussian_trial

ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row for row in json.loads((Path(__file__).parents[1] / "reference" / "pmp.json").read_text("utf-8"))
}
FIGURE_1 = DataLaw(data_size=6, dimension=1, data_std=1.0, clip_radius=10.0, outliers=0, outlier_factor=1.0)
ON_POPULATION = Budget(5.0, "population", "sensitivity")


def exponential(law: DataLaw, budget: Budget, trial: int, seed: int = 1, with_exact: bool = False) -> Trial | None:
    return exponential_trial(law, 10, budget, "attained", seed, trial, with_exact=with_exact)


def known(trials: list[Trial | None]) -> list[Trial]:
    assert None not in trials
    return [trial for trial in trials if trial is not None]


def test_mean_ratio_matches_figure_1() -> None:
    trials = known([exponential(FIGURE_1, ON_POPULATION, number) for number in range(400)])
    row = ROWS["fig1_s1_ratio"]
    assert np.mean([trial.epsilon_pmp / trial.epsilon for trial in trials]) == pytest.approx(
        row["value"], rel=0, abs=row["abs_tol"]
    )


def test_figure_4_matches_reference_and_not_its_caption() -> None:
    row = ROWS["fig4_epsX10"]
    given = row["inputs"]
    law = DataLaw(given["n"], given["d"], float(given["sigma_data"]), float(given["C"]), 0, 1.0)
    budget = Budget(float(given["eps(X)"]), "population", "sensitivity")
    trials = known([gaussian_trial(law, budget, given["delta"], 1, number) for number in range(given["T"])])
    mean = np.mean([trial.epsilon_pmp for trial in trials])
    assert mean == pytest.approx(row["value"], rel=0, abs=row["abs_tol"])
    for trial in trials:
        assert trial.by_sensitivity == pytest.approx(10.0, rel=1e-9)


def test_same_seed_gives_same_trial() -> None:
    law = DataLaw(20, 3, 1.0, 2.0, 1, 10.0)
    budget = Budget(3.0, "mechanism", "sensitivity")
    assert gaussian_trial(law, budget, 0.01, 5, 2) == gaussian_trial(law, budget, 0.01, 5, 2)
    assert gaussian_trial(law, budget, 0.01, 5, 2) != gaussian_trial(law, budget, 0.01, 5, 3)
    assert exponential(FIGURE_1, ON_POPULATION, 0) == exponential(FIGURE_1, ON_POPULATION, 0)
    assert exponential(FIGURE_1, ON_POPULATION, 0) != exponential(FIGURE_1, ON_POPULATION, 0, seed=2)


def test_epsilon_pmp_is_at_most_exact_and_sensitivity_epsilon() -> None:
    law = DataLaw(4, 2, 1.0, 5.0, 1, 100.0)
    for number in range(10):
        trial = exponential(law, Budget(8.0, "mechanism", "sensitivity"), number, with_exact=True)
        assert trial is not None
        assert trial.exact is not None
        assert trial.epsilon_pmp <= trial.exact * (1 + 1e-9)
        assert trial.exact <= trial.by_sensitivity * (1 + 1e-9)
        assert trial.by_sensitivity <= trial.epsilon * (1 + 1e-9)


def test_exact_budget_is_met() -> None:
    for number in range(3):
        trial = exponential(FIGURE_1, Budget(2.0, "population", "exact"), number)
        assert trial is not None
        assert trial.exact == pytest.approx(2.0, rel=1e-6)


def test_gaussian_trials_are_at_most_population_and_ball_epsilon() -> None:
    law = DataLaw(30, 4, 1.0, 3.0, 2, 10.0)
    for number in range(5):
        trial = gaussian_trial(law, Budget(4.0, "mechanism", "sensitivity"), 1e-3, 1, number)
        assert trial is not None
        assert trial.epsilon_pmp <= trial.by_sensitivity * (1 + 1e-9)
        assert trial.by_sensitivity <= 4 * (1 + 1e-9)


def test_unattainable_budget_is_none() -> None:
    """A budget that no epsilon uses up gives None.

    With one object in one dimension, or with equal objects, no epsilon reveals anything about the data.
    """
    one_object = exponential_trial(FIGURE_1, 1, ON_POPULATION, "attained", 1, 0, with_exact=False)
    assert one_object is not None
    assert one_object.epsilon_pmp == 0
    assert exponential_trial(FIGURE_1, 1, Budget(5.0, "population", "exact"), "attained", 1, 0, with_exact=True) is None
