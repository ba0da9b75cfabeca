"""Figures of the paper on reconstruction robustness (Kaissis, Hayes, Ziller, Rueckert 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from service.rendering.paper_figures.figure import Axis, FigurePart, PaperFigure, Unavailable
from service.rendering.paper_figures.readers import LINEAR_RATES, curves

KAPPA: Final = Axis("baseline_success", "Baseline success (kappa)")
GAMMA: Final = Axis("gamma", "Bound on reconstruction (gamma)")
DIRECTIONS: Final = ("add", "remove", "both")
NAMES: Final = {"add": "add", "remove": "remove", "both": "symmetrised"}
ONE_STEP: Final = {0.1: 0.659595528, 0.5: 0.913243566, 0.9: 1.052239341}
"""Noise multipliers by sampling rate: one step is (4, 1e-5)-DP."""
MANY_STEPS: Final = {0.1: 10.8476518, 0.5: 54.0689012, 0.9: 97.3065230}
"""Noise multipliers by sampling rate: 10,000 steps are (4, 1e-5)-DP."""


def _one_step(rate: float, noise: float) -> dict[str, Any]:
    gaussian = {"type": "gaussian", "noise_multiplier": noise}
    return {"type": "poisson_sampled", "sample_rate": rate, "mechanism": gaussian}


def _many_steps(rate: float, noise: float) -> dict[str, Any]:
    return {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": 10_000}


def _part(rate: float, mechanism: Mapping[str, Any], directions: tuple[str, ...]) -> FigurePart:
    request = {"mechanism": mechanism, "directions": directions, "false_positive_rates": LINEAR_RATES}
    return FigurePart("curves", request, curves([f"p = {rate}, {NAMES[each]}" for each in directions]))


FIGURES: Final = (
    PaperFigure(
        name="reconstruction-figure-1f",
        paper="reconstruction",
        label="Figure 1, panel f",
        title="Reconstruction at two sampling rates with the same epsilon",
        x=KAPPA,
        y=GAMMA,
        parts=[_part(rate, _one_step(rate, ONE_STEP[rate]), ("add", "remove")) for rate in (0.1, 0.9)],
        agrees="yes",
        finding="At kappa 0.1, gamma is lower at p = 0.1 (0.1493) than at p = 0.9 (0.3432), as the paper states. The "
        "panel prints no parameters; these are those of Figure 3.",
    ),
    PaperFigure(
        name="reconstruction-figure-3",
        paper="reconstruction",
        label="Figure 3",
        title="One step at three sampling rates, each (4, 1e-5)-DP",
        x=KAPPA,
        y=GAMMA,
        parts=[_part(rate, _one_step(rate, noise), DIRECTIONS) for rate, noise in ONE_STEP.items()],
        agrees="yes",
        finding="The three mechanisms have different curves in both directions, as the paper states.",
    ),
    PaperFigure(
        name="reconstruction-figure-4",
        paper="reconstruction",
        label="Figure 4",
        title="10,000 steps at three sampling rates, each (4, 1e-5)-DP",
        x=KAPPA,
        y=GAMMA,
        parts=[_part(rate, _many_steps(rate, noise), ("add",)) for rate, noise in MANY_STEPS.items()],
        agrees="partly",
        finding="The curves agree to 5e-4 and keep their order. The paper calls them identical.",
    ),
)
_PANELS: Final = (
    "The text prints neither the steps, the sampling rates nor the kappa of the panels. Any panel is one request with "
    '`"method": "all"`.'
)
UNAVAILABLE: Final = (
    Unavailable("reconstruction", "Figure 1, panels a to e", _PANELS),
    Unavailable(
        "reconstruction",
        "Figure 2",
        "The parameters stand in tables of another paper, and the text does not repeat them.",
    ),
)
