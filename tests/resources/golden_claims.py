"""Numbers stated by libraries and papers, with the expected verdicts.

Values of riskcal 1.5.1 and dp_accounting 0.6.0 (grids of privacy losses with step `h`; RDP) were computed with numpy
2.4.6 and scipy 1.17.1. Those of fourier-accountant are from its page on the package index (0.12.0) and from its
regression tests. Printed numbers have a tolerance of half a unit of their last digit.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Spec = dict[str, Any]


class Golden(NamedTuple):
    """Published claim about a mechanism, with its expected verdict.

    `source` names who states it. The claim is wrong by a factor of at least `ratio`, and at most a thousandth more.
    """

    source: str
    mechanism: Spec
    question: Spec
    value: float | str
    verdict: str
    threat_model: Spec | None = None
    tolerance: float = 1e-6
    reads: str = "power"
    ratio: float | None = None


def dpsgd(noise: float, rate: float, steps: int) -> Spec:
    return {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": steps}


def gaussian(noise: float) -> Spec:
    return {"type": "gaussian", "noise_multiplier": noise}


def laplace(noise: float) -> Spec:
    return {"type": "laplace", "noise_multiplier": noise}


def repeated(mechanism: Spec, steps: int) -> Spec:
    return {"type": "repeated", "steps": steps, "mechanism": mechanism}


def sampled(rate: float, mechanism: Spec) -> Spec:
    return {"type": "poisson_sampled", "sample_rate": rate, "mechanism": mechanism}


def power_at(rate: float) -> Spec:
    return {"type": "trade_off", "false_positive_rates": [rate]}


def epsilon_at(delta: float, **more: str) -> Spec:
    return {"type": "epsilon", "delta": delta, **more}


def delta_at(epsilon: float) -> Spec:
    return {"type": "delta", "epsilon": epsilon}


def pure(epsilon: float) -> Spec:
    return {"type": "pure_dp", "epsilon": epsilon}


def glrt(dimension: int, **more: str) -> Spec:
    return {"type": "glrt", "dimension": dimension, **more}


README_RUN: Final = dpsgd(0.5, 0.002, 10_000)
C1, C2, C3, C4 = dpsgd(1.0, 0.01, 1000), dpsgd(0.8, 0.001, 10_000), dpsgd(2.0, 0.1, 100), dpsgd(1.0, 0.5, 1)
L1, G1 = repeated(laplace(10.0), 100), repeated(gaussian(10.0), 100)
REPLACE: Final = {"type": "worst_case", "neighboring_relation": "replace_one"}
FIXED: Final = {
    "type": "dpsgd",
    "noise_multiplier": 1.0,
    "batch_size": 100,
    "dataset_size": 10_000,
    "steps": 1000,
    "sampling": "fixed_without_replacement",
}
FOURIER_PAGE: Final = dpsgd(4.0, 0.01, 1000)
FOURIER_LONG: Final = dpsgd(2.0, 0.01, 10**5)

LIBRARIES: Final = [
    Golden("riskcal README, power at 1e-2", README_RUN, power_at(1e-2), 0.1571865852175902, "unsafe"),
    Golden("riskcal README, power at 1e-3", README_RUN, power_at(1e-3), 0.036783543666426, "unsafe"),
    Golden("riskcal README, power at 1e-4", README_RUN, power_at(1e-4), 4.1005575246444437e-07, "unsafe", ratio=32_849),
    Golden("riskcal README, power at 1e-5", README_RUN, power_at(1e-5), 1.835036678166091e-09, "unsafe"),
    Golden(
        "riskcal README, beta at 1e-4", README_RUN, power_at(1e-4), 0.9999995899442475, "unsafe", reads="type_two_error"
    ),
    Golden("riskcal README, advantage", README_RUN, {"type": "advantage"}, 0.44139562236212915, "loose"),
    Golden("riskcal C1, power at 1e-3", C1, power_at(1e-3), 0.004013889924117886, "unsafe"),
    Golden("riskcal C1, power at 1e-6", C1, power_at(1e-6), 8.026912468039882e-14, "unsafe"),
    Golden("riskcal C2, power at 1e-6", C2, power_at(1e-6), 7.87370169064161e-13, "unsafe"),
    Golden("riskcal C3, gamma at 1e-6", C3, {"type": "reconstruction", "candidates": 10**6}, 1.41000052e-05, "unsafe"),
    Golden("riskcal C4, power at 1e-6", C4, power_at(1e-6), 4.3492669859923616e-05, "unsafe"),
    Golden("riskcal C4, power at 1e-1", C4, power_at(0.1), 0.24457182142081801, "consistent"),
    Golden("riskcal G1, power at 1e-3", G1, power_at(1e-3), 0.01829844815430226, "unsafe"),
    Golden(
        "riskcal, noise for power 1e-4 at 1e-6", dpsgd(0.42436, 0.01, 1000), power_at(1e-6), 1e-4, "unsafe", ratio=398.7
    ),
    Golden(
        "riskcal, 'Bayes risk' as the maximum accuracy",
        laplace(1.0),
        {"type": "attack_accuracy", "prior": 0.5},
        0.30326532985628285,
        "unsafe",
    ),
    Golden("dp_accounting h=1e-4, C1", C1, epsilon_at(1e-5), 1.828243645591767, "loose"),
    Golden("dp_accounting h=1e-3, C1", C1, epsilon_at(1e-5), 1.8289344124296958, "loose"),
    Golden("dp_accounting h=1e-2, C1", C1, epsilon_at(1e-5), 1.9014362737594714, "loose"),
    Golden("dp_accounting h=1e-1, C1", C1, epsilon_at(1e-5), 3.867218271645681, "loose", ratio=2.1152),
    Golden("dp_accounting h=1e-1, C2", C2, epsilon_at(1e-5), 4.25404228351343, "loose"),
    Golden("dp_accounting h=1e-1, C2", C2, delta_at(1.0), 0.11542577896197315, "loose"),
    Golden("dp_accounting h=1e-2, C2", C2, delta_at(4.0), 3.653497436753241e-15, "loose"),
    Golden("dp_accounting h=1e-3, C1", C1, delta_at(4.0), 4.864578406568021e-13, "unsafe"),
    Golden("dp_accounting h=1e-5, C1 (another build)", C1, delta_at(4.0), 5.127e-13, "unsafe"),
    Golden("dp_accounting h=1e-5, C1 (another build)", C1, epsilon_at(1e-10), 3.2904109, "unsafe"),
    Golden("dp_accounting optimistic buckets, C1", C1, epsilon_at(1e-5), 1.7782397279070383, "unsafe"),
    Golden("dp_accounting pessimistic buckets, C1", C1, delta_at(1.0), 0.003457798365306411, "loose"),
    Golden("dp_accounting h=1e-4, C4", C4, delta_at(1.0), 0.02886761784, "consistent"),
    Golden("dp_accounting h=1e-2, G1", G1, epsilon_at(1e-5), 4.381387557405586, "loose"),
    Golden("dp_accounting h=1e-4, L1", L1, epsilon_at(1e-5), 4.2203473472201205, "consistent"),
    Golden("dp_accounting RDP, C1", C1, epsilon_at(1e-5), 2.101366525420273, "loose"),
    Golden(
        "dp_accounting RDP, fixed batches", FIXED, epsilon_at(1e-5), 3.576111482350549, "unsafe", REPLACE, ratio=3.736
    ),
    Golden(
        "dp_accounting RDP, one step",
        gaussian(1.0),
        epsilon_at(1e-5),
        4.728507067217623,
        "unsafe",
        REPLACE,
        ratio=2.114,
    ),
    Golden("dp_accounting PLD, one step", gaussian(1.0), epsilon_at(1e-5), 9.99725615024243, "consistent", REPLACE),
    Golden(
        "fourier-accountant page, delta_R", FOURIER_PAGE, delta_at(1.0), 4.243484012034273e-06, "loose", ratio=4.217e28
    ),
    Golden("fourier-accountant page, epsilon_S", FOURIER_PAGE, epsilon_at(1e-5), 1.9931200626285734, "loose", REPLACE),
    Golden("fourier-accountant 0.12.11, delta_R", FOURIER_PAGE, delta_at(1.0), 6.365453690350216e-14, "loose"),
    Golden(
        "fourier-accountant 0.12.11, epsilon_S",
        FOURIER_PAGE,
        epsilon_at(1e-5),
        0.5613614047661871,
        "consistent",
        REPLACE,
    ),
    Golden("fourier-accountant tests, epsilon_R", FOURIER_LONG, epsilon_at(1e-6), 8.984848512304165, "consistent"),
    Golden("fourier-accountant tests, epsilon_S", FOURIER_LONG, epsilon_at(1e-6), 19.0867527960459, "unsafe", REPLACE),
    Golden(
        "fourier-accountant tests, epsilon_R", dpsgd(1.0, 0.02, 10**4), epsilon_at(1e-6), 15.64135722007042, "unsafe"
    ),
    Golden(
        "fourier-accountant tests, epsilon_R", dpsgd(1.0, 0.01, 10**4), epsilon_at(1e-6), 6.907422808389587, "loose"
    ),
    Golden("autodp, characteristic function, L1", L1, delta_at(4.0), 2.2e-2, "loose"),
]

STEP_69: Final = gaussian(1 / 1.274)
ONE_GLRT: Final = gaussian(2.0)
SEVENTY: Final = repeated(gaussian(6.0), 70)
PAPERS: Final = [
    Golden(
        "Kaissis 2023 (ReRo), Theorem 1: e^eps kappa + delta",
        pure(1.0),
        {"type": "reconstruction", "baseline_success": 0.3},
        0.8154845,
        "loose",
    ),
    Golden(
        "Kaissis 2023 (ReRo), Corollary 2: sqrt(N mu)",
        G1,
        {"type": "reconstruction", "baseline_success": 1e-3},
        0.5287,
        "loose",
    ),
    Golden(
        "Kaissis 2023 (ReRo), section 4.3: ln(1 + p (e^(N mu) - 1))",
        repeated(sampled(0.1, laplace(2.0)), 10),
        epsilon_at(0.0),
        2.756,
        "loose",
    ),
    Golden(
        "Kaissis 2023 (ReRo), section 4.3, right: N ln(1 + p (e^mu - 1))",
        repeated(sampled(0.1, laplace(2.0)), 10),
        epsilon_at(0.0),
        0.6285,
        "consistent",
        tolerance=1e-4,
    ),
    Golden(
        "Kaissis 2023 (ReRo), Figure 3 at p = .1",
        dpsgd(0.659595528, 0.1, 1),
        power_at(0.1),
        0.149271,
        "consistent",
        tolerance=4e-6,
    ),
    Golden("Kaissis (GLRT), Figure 1, optimal attacker", ONE_GLRT, epsilon_at(1e-4), 0.95, "unsafe", tolerance=5e-3),
    Golden("Kaissis (GLRT), Figure 1", ONE_GLRT, epsilon_at(1e-4), 0.37, "unsafe", glrt(1), 0.02),
    Golden(
        "Kaissis (GLRT), Figure 3", gaussian(1.0), epsilon_at(1e-4, direction="both"), 3.11, "consistent", glrt(1), 2e-3
    ),
    Golden("Kaissis (GLRT), Figure 9, optimal attacker", SEVENTY, epsilon_at(1e-2), 3.63, "unsafe", tolerance=1.4e-3),
    Golden(
        "Kaissis (GLRT), sections 4.2, 4.6: composed profile",
        SEVENTY,
        epsilon_at(1e-2),
        0.2135,
        "unsafe",
        glrt(1),
        1e-3,
    ),
    Golden(
        "Leemann 2023, Equation 10, T = 1, mu_step = 1.274", sampled(0.01, STEP_69), power_at(1e-6), 1.14e-6, "unsafe"
    ),
    Golden(
        "Leemann 2023, Equation 10, T = 100, mu_step = 1.5",
        dpsgd(1 / 1.5, 0.01, 100),
        power_at(1e-6),
        6.74e-6,
        "unsafe",
    ),
    Golden(
        "Leemann 2023, appendix D.3: sqrt(mu_1 + mu_2)",
        {"type": "composed", "mechanisms": [{"type": "gdp", "mu": 0.3}, {"type": "gdp", "mu": 0.4}]},
        {"type": "gdp_mu"},
        0.8366600265,
        "loose",
    ),
    Golden(
        "Thudi 2022, section 6: the upper bound for the lower one",
        pure(1.0),
        {"type": "deletion_capacity", "prior": 1e-4, "confidence": 0.8},
        6065.0,
        "unsafe",
    ),
    Golden(
        "Thudi 2022, section 6, right",
        pure(1.0),
        {"type": "deletion_capacity", "prior": 1e-4, "confidence": 0.8},
        820.0,
        "consistent",
    ),
    Golden(
        "Thudi 2022, section 5.1: 88 %",
        pure(2.0),
        {"type": "positive_predictive_value", "prior": 0.5},
        0.88,
        "consistent",
        tolerance=6e-3,
    ),
    Golden(
        "Thudi 2022, section 5.1: 95 % of Erlingsson",
        pure(2.0),
        {"type": "positive_predictive_value", "prior": 0.5},
        0.95,
        "loose",
        tolerance=6e-3,
    ),
    Golden(
        "Thudi 2022, section 2.3: Yeom e^eps / 2",
        pure(0.5),
        {"type": "attack_accuracy", "prior": 0.5},
        0.8243606,
        "loose",
    ),
    Golden("Thudi 2022, section 5.2: sigma 4.0412 for (1, 1e-5)", gaussian(4.0412), epsilon_at(1e-5), 1.0, "loose"),
    Golden("Thudi 2022, section 5.2, right: 3.730632", gaussian(3.730632), epsilon_at(1e-5), 1.0, "consistent"),
    Golden(
        "Lowy 2023, Lemma 13: eta = (1 - e^-eps)/2",
        gaussian(1.0),
        {"type": "attack_accuracy", "prior": 0.5},
        0.6967346,
        "loose",
        {"type": "practical", "epsilon_pmp": 0.5},
    ),
]
