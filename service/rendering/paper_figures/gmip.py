"""Figures and tables of the paper on Gaussian membership inference privacy (Leemann, Pawelczyk, Kasneci 2023)."""

from __future__ import annotations

from typing import Any, Final

from service.rendering.paper_figures.figure import Answer, Axis, FigurePart, FigurePoint, PaperFigure, Unavailable
from service.rendering.paper_figures.readers import LINEAR_RATES, POWER, RATE, answers, curves, simulated_roc

GRID: Final = tuple(0.4 * 125 ** (place / 19) for place in range(20))
"""Values of mu in Table 5: logarithmic from 0.4 to 50."""
UTILITY: Final = {
    "CIFAR-10": {"dataset_size": 48_000, "dimension": 650, "batch_size": 400, "epochs": 10, "max_grad_norm": 500.0},
    "Purchase": {"dataset_size": 54_855, "dimension": 2580, "batch_size": 795, "epochs": 3, "max_grad_norm": 2000.0},
    "Adult": {"dataset_size": 43_000, "dimension": 1026, "batch_size": 1000, "epochs": 20, "max_grad_norm": 800.0},
}
"""Parameters of Table 4."""
AUDITED: Final = {"CIFAR-10": (650, 500), "Purchase": (2580, 1970), "Adult": (1026, 790)}
"""Dimension and batch size of Table 3."""
CONVERGING: Final = ((2, 2), (10, 9), (100, 90), (650, 585))
QUERIES: Final = 1000
SMALL_RATES: Final = tuple(10 ** (power / 10) for power in range(-40, 0))
LOG_RATE: Final = Axis(RATE.column, RATE.title, logarithmic=True)
LOG_POWER: Final = Axis(POWER.column, POWER.title, logarithmic=True)
BAND: Final = "The band is the interval of the simulated power. Together with that of the rate it holds with 95 %."


def _sgd(dimension: int, batch: int, steps: int = 1) -> dict[str, Any]:
    return {
        "type": "noisy_sgd",
        "dataset_size": batch,
        "batch_size": batch,
        "dimension": dimension,
        "steps": steps,
        "noise_std": 0.0,
    }


def _curve(dimension: int, batch: int, step_curve: str, series: str, rates: tuple[float, ...]) -> FigurePart:
    model = {"type": "membership", "step_curve": step_curve}
    request = {"mechanism": _sgd(dimension, batch), "threat_models": [model], "false_positive_rates": rates}
    return FigurePart("curves", request, curves([series, ""]))


def _audit(dimension: int, batch: int, series: str) -> FigurePart:
    request = {"batch_size": batch, "simulate": {"dimension": dimension, "queries": QUERIES}, "seed": 1}
    return FigurePart("glir_audit", request, simulated_roc("roc", series))


def _noise(name: str, mu: float) -> FigurePart:
    def read(answer: Answer) -> list[FigurePoint]:
        noise = answer["noise"]
        return [
            FigurePoint(f"{name} (MIP)", mu, noise["noise_std"]["value"]),
            FigurePoint(f"{name} (DP)", mu, noise["tau_dp"]["value"]),
        ]

    return FigurePart("gdp-gmip", {"mu_mip": mu, **UTILITY[name]}, read)


def _mu(name: str, steps: int) -> FigurePart:
    dimension, batch = AUDITED[name]
    request = {
        "mechanism": _sgd(dimension, batch, steps),
        "threat_model": {"type": "membership", "step_curve": "gaussian"},
        "questions": [{"type": "gdp_mu"}],
    }
    return FigurePart("bounds", request, answers(name, [steps]))


def _audits(rates: tuple[float, ...]) -> list[FigurePart]:
    theory = _curve(*AUDITED["CIFAR-10"], "chi_square", "Theorem 5.1, CIFAR-10", rates)
    return [theory, *(_audit(*sizes, f"GLiR, {name}") for name, sizes in AUDITED.items())]


FIGURES: Final = (
    PaperFigure(
        name="gmip-figure-1",
        paper="gmip",
        label="Figure 1",
        title="Theorem 5.1 approaches Corollary 5.1",
        x=RATE,
        y=POWER,
        parts=[
            *(
                _curve(dimension, batch, "chi_square", f"Theorem 5.1, d = {dimension}, n = {batch}", LINEAR_RATES)
                for dimension, batch in CONVERGING
            ),
            _curve(*CONVERGING[-1], "gaussian", "Corollary 5.1, d = 650, n = 585", LINEAR_RATES),
        ],
        agrees="yes",
        finding="The curves approach that of the corollary. The text prints no d and n of the figure; these are ours.",
    ),
    PaperFigure(
        name="gmip-figure-2a",
        paper="gmip",
        label="Figure 2a",
        title="The attack GLiR on simulated gradients",
        x=RATE,
        y=POWER,
        parts=_audits(LINEAR_RATES),
        agrees="yes",
        finding="The attack agrees with Theorem 5.1, with the corrections of Algorithm 1.",
        band=BAND,
    ),
    PaperFigure(
        name="gmip-figure-5a",
        paper="gmip",
        label="Figure 5, left",
        title="The attack GLiR on simulated gradients, logarithmic axes",
        x=LOG_RATE,
        y=LOG_POWER,
        parts=_audits(SMALL_RATES),
        agrees="yes",
        finding="The data are those of Figure 2a.",
        band=BAND,
    ),
    PaperFigure(
        name="gmip-table-3",
        paper="gmip",
        label="Table 3",
        title="Mu of one step and of five steps without noise, by Corollary 5.1",
        x=Axis("steps", "Steps"),
        y=Axis("mu", "mu"),
        parts=[_mu(name, steps) for name in AUDITED for steps in (1, 5)],
        agrees="partly",
        finding="Mu is 1.1396, 1.1443 and 1.1393 for one step; the paper prints 1.13 for all. For five steps mu is "
        "2.548, 2.559 and 2.547; the paper prints 2.54.",
    ),
    PaperFigure(
        name="gmip-table-5",
        paper="gmip",
        label="Table 5",
        title="Noise tau for mu-GMIP and for mu-GDP",
        x=Axis("mu", "mu", logarithmic=True),
        y=Axis("tau", "Noise tau on the mean gradient"),
        parts=[_noise(name, mu) for name in UTILITY for mu in GRID],
        agrees="yes",
        finding="All 120 entries agree to the printed digits. Equation 10 and the noise are approximations.",
    ),
)
_TRAINED: Final = "It needs trained models and their gradients, which the paper does not publish as data."
UNAVAILABLE: Final = (
    Unavailable("gmip", "Table 1", "It compares threat models in words."),
    Unavailable("gmip", "Table 2", "It compares the assumptions of attacks in words."),
    Unavailable("gmip", "Table 4", "It lists the parameters of Table 5, which `gmip-table-5` uses."),
    Unavailable("gmip", "Figure 2b and 2c; Figure 5, centre and right", _TRAINED),
    Unavailable("gmip", "Figure 3", "It shows the accuracy of trained models. `gmip-table-5` has their noise."),
    Unavailable(
        "gmip",
        "Figure 4",
        "The text does not print the parameters of the panels. `POST /v1/audits/glir` simulates any.",
    ),
    Unavailable("gmip", "Figure 6", "It shows attacks on the loss of trained models."),
)
