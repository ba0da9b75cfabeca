"""Test cases for every mechanism of the catalogue: parameters, and published values if there are any."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.privacy.mechanisms.mixture import WeightedMechanism
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.mechanisms.trials import TRIAL_LAWS
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair

Direction = Literal["add", "remove", "both"]


def built(spec: Mapping[str, Any]) -> AbstractMechanism:
    """Build the mechanism of a specification as in a request."""
    fields: dict[str, Any] = {}
    for name, value in spec.items():
        if name == "trials":
            fields[name] = TRIAL_LAWS[value["type"]](**{key: each for key, each in value.items() if key != "type"})
        elif isinstance(value, Mapping):
            fields[name] = built(value)
        elif name == "components":
            fields[name] = tuple(
                WeightedMechanism(weight=part["weight"], mechanism=built(part["mechanism"])) for part in value
            )
        elif isinstance(value, list | tuple):
            fields[name] = tuple(built(part) if isinstance(part, Mapping) else _number(part) for part in value)
        elif name != "type":
            fields[name] = value
    return MECHANISMS[spec["type"]](**fields)


def _number(part: Any) -> Any:
    return math.inf if part == "Infinity" else part


@dataclass(frozen=True)
class Published:
    """A published value: the quantity (`power` at a rate, `epsilon` at a delta, `delta` at an epsilon) and its
    number.
    """

    reading: Literal["power", "epsilon", "delta"]
    at: float
    direction: Direction
    value: float
    tolerance: float
    source: str


@dataclass(frozen=True)
class Case:
    """A mechanism and its published values."""

    name: str
    spec: Mapping[str, Any]
    published: tuple[Published, ...] = ()
    relation: NeighboringRelation = "add_or_remove_one"
    records: int | None = None

    @property
    def mechanism(self) -> AbstractMechanism:
        return built(self.spec)

    @property
    def worst_case(self) -> TradeOffPair:
        return WorstCase(self.relation, self.records).curves(self.mechanism)


def gaussian(noise_multiplier: float) -> dict[str, Any]:
    return {"type": "gaussian", "noise_multiplier": noise_multiplier}


def laplace(noise_multiplier: float) -> dict[str, Any]:
    return {"type": "laplace", "noise_multiplier": noise_multiplier}


def sampled(sample_rate: float, base: dict[str, Any]) -> dict[str, Any]:
    return {"type": "poisson_sampled", "sample_rate": sample_rate, "mechanism": base}


def dpsgd(noise_multiplier: float, sample_rate: float, steps: int) -> dict[str, Any]:
    return {"type": "dpsgd", "noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": steps}


def noisy_sgd(dataset_size: int, noise_std: float, steps: int = 1) -> dict[str, Any]:
    """Return a run with batches of 400 gradients of 650 numbers, clipped to 500."""
    sizes = {"dataset_size": dataset_size, "batch_size": 400, "dimension": 650, "steps": steps}
    return {"type": "noisy_sgd", **sizes, "noise_std": noise_std, "max_grad_norm": 500.0}


def selected(base: dict[str, Any], law: str, **numbers: float) -> dict[str, Any]:
    """Return a specification of the best of several trials of `base`.

    The number of trials has the law named `law` with the parameters `numbers`, for example `mean`.
    """
    return {"type": "selected", "mechanism": base, "trials": {"type": law, **numbers}, "released": "best"}


def mixture(*components: tuple[float, dict[str, Any]]) -> dict[str, Any]:
    return {"type": "mixture", "components": [{"weight": weight, "mechanism": spec} for weight, spec in components]}


BALLE_WANG = "Balle, Wang 2018 (analytic Gaussian mechanism), Theorem 8, evaluated at 30 digits"
KAISSIS = "Kaissis et al. 2023 (ReRo), Corollary 1"
FIGURE_3 = "Kaissis et al. 2023 (ReRo), Figure 3, recomputed at 40 digits"
PEERS = "contour inversion in 80-bit arithmetic on two contours"

CLASS = "largest power over all pairs of two-outcome laws with the stated divergences, by two routes in doubles"
LEBEDA = "Lebeda et al. 2025, Proposition 13, in double precision"
GANESH = "Ganesh 2024 (tight group-level guarantees of sampled steps), in double precision"
SUMS = "the definition, by sums over all outcomes at 50 digits"
OWN = "the definition, by halving at 50 digits"
MIXED: dict[str, Any] = {
    "type": "gaussian_mixture",
    "noise_multiplier": 1.0,
    "shifts": [0.0, 1.0, 2.0],
    "weights": [0.9, 0.09, 0.01],
}

RESPONSE: dict[str, Any] = {"type": "randomized_response", "epsilon": 1.0, "options": 2}
NOISY_MAX: dict[str, Any] = {"type": "report_noisy_max", "noise": "exponential", "scale": 2.0, "sensitivity": 1.0}
UNARY: dict[str, Any] = {"type": "unary_encoding", "true_bit": 0.5, "false_bit": 0.04742587317756678}


ENUMERATED = "the definition, by sums over all counts of shuffled reports"


def shuffled(reports: int, randomizer: dict[str, Any]) -> dict[str, Any]:
    """Return a specification of shuffled reports."""
    return {"type": "shuffled_reports", "reports": reports, "randomizer": randomizer}


def _delta(epsilon: float, value: float) -> tuple[Published, ...]:
    return (Published("delta", epsilon, "both", value, 1e-10 * value, SUMS),)


CASES: tuple[Case, ...] = (
    Case("gaussian_1", gaussian(1.0), (Published("delta", 1.0, "both", 0.12693673750664397, 1e-15, BALLE_WANG),)),
    Case("gaussian_weak", gaussian(1e5)),
    Case("gaussian_strong", gaussian(0.05)),
    Case("laplace_1", laplace(1.0), (Published("power", 0.5, "add", 0.8160602794142788392, 1e-15, KAISSIS),)),
    Case("laplace_strong", laplace(0.02)),
    Case("laplace_weak", laplace(1e4)),
    Case("gdp_1", {"type": "gdp", "mu": 1.0}, (Published("epsilon", 1e-5, "both", 4.3771780957, 1e-10, PEERS),)),
    Case("gdp_0", {"type": "gdp", "mu": 0.0}, (Published("power", 0.3, "add", 0.3, 0.0, "f = 1 - alpha"),)),
    Case(
        "pure_dp_1",
        {"type": "pure_dp", "epsilon": 1.0},
        (Published("delta", 0.0, "both", 0.46211715726000975850, 1e-15, "tanh(eps/2), Kairouz et al. 2015"),),
    ),
    Case("pure_dp_0", {"type": "pure_dp", "epsilon": 0.0}),
    Case("pure_dp_1000", {"type": "pure_dp", "epsilon": 1000.0}),
    Case(
        "approximate_dp",
        {"type": "approximate_dp", "epsilon": 4.0, "delta": 1e-5},
        (Published("power", 0.1, "add", 0.983516108156528125077, 1e-15, "1 - f, Kairouz et al. 2015"),),
    ),
    Case("approximate_dp_delta_only", {"type": "approximate_dp", "epsilon": 0.0, "delta": 0.2}),
    Case("approximate_dp_hopeless", {"type": "approximate_dp", "epsilon": 1.0, "delta": 1.0}),
    Case(
        "zcdp_half",
        {"type": "zcdp", "rho": 0.5},
        (
            Published("epsilon", 1e-5, "both", 4.728385648638488, 1e-12, CLASS),
            Published("delta", 1.0, "both", 0.2149111446, 1e-10, CLASS),
            Published("power", 1e-3, "add", 0.024910285610268403, 1e-13, CLASS),
        ),
    ),
    Case("zcdp_0", {"type": "zcdp", "rho": 0.0}),
    Case("zcdp_weak", {"type": "zcdp", "rho": 1e-6}),
    Case("zcdp_strong", {"type": "zcdp", "rho": 30.0}),
    Case(
        "rdp_two_orders",
        {"type": "rdp", "orders": [2.0, 32.0], "epsilons": [0.1, 2.5]},
        (Published("power", 0.2, "add", 0.32972026399951404, 1e-11, CLASS),),
    ),
    Case("rdp_pure", {"type": "rdp", "orders": [2.0, "Infinity"], "epsilons": [0.3, 1.0]}),
    Case("rdp_kl", {"type": "rdp", "orders": [1.0], "epsilons": [0.5]}),
    Case(
        "rdp_forward",
        {"type": "rdp", "orders": [2.0, 4.0], "epsilons": [0.5, 1.0], "directions": "forward_only"},
    ),
    Case(
        "exponential_1",
        {"type": "exponential", "epsilon": 1.0},
        (
            Published("delta", 0.0, "both", 0.24491866240370912928, 1e-16, "tanh(eta/4), Dong, Durfee, Rogers 2020"),
            Published("power", 0.5, "add", 0.73105857863000487926, 1e-15, "logistic laws a shift eta apart"),
        ),
    ),
    Case("exponential_0", {"type": "exponential", "epsilon": 0.0}),
    Case("exponential_weak", {"type": "exponential", "epsilon": 1e-12}),
    Case("exponential_strong", {"type": "exponential", "epsilon": 1e6}),
    Case(
        "sampled_gaussian",
        sampled(0.5, gaussian(1.0)),
        (
            Published("power", 0.1, "add", 0.244571845822680, 1e-15, PEERS),
            Published("delta", 1.0, "both", 2.88676178376304e-2, 1e-15, PEERS),
        ),
    ),
    Case(
        "sampled_gaussian_figure_3",
        sampled(0.1, gaussian(0.659595528)),
        (
            Published("epsilon", 1e-5, "both", 4.0, 1e-8, FIGURE_3),
            Published("power", 0.1, "add", 0.149271, 5e-7, FIGURE_3),
            Published("power", 0.1, "remove", 0.110768, 5e-7, FIGURE_3),
            Published("delta", 4.0, "remove", 0.0, 0.0, FIGURE_3),
        ),
    ),
    Case("sampled_gaussian_rare", sampled(1e-6, gaussian(0.3))),
    Case("sampled_gaussian_frequent", sampled(0.9, gaussian(0.5))),
    Case("sampled_gaussian_always", sampled(1.0, gaussian(2.0))),
    Case(
        "sampled_laplace",
        sampled(0.1, laplace(1.0)),
        (Published("power", 0.1, "remove", 0.10674774438332771, 1e-15, KAISSIS),),
    ),
    Case("sampled_laplace_frequent", sampled(0.99, laplace(0.2))),
    Case(
        "repeated_gaussian",
        {"type": "repeated", "mechanism": gaussian(10.0), "steps": 100},
        (
            Published("power", 1e-6, "add", 8.72176101403892e-5, 1e-18, PEERS),
            Published("delta", 4.0, "both", 4.712241201e-5, 1e-14, PEERS),
        ),
    ),
    Case("repeated_gaussian_1e9", {"type": "repeated", "mechanism": gaussian(1e5), "steps": 10**9}),
    Case(
        "composed_gaussians",
        {"type": "composed", "mechanisms": [gaussian(2.0), {"type": "gdp", "mu": 1.0}, gaussian(4.0)]},
    ),
    Case(
        "composed_sampled",
        {"type": "composed", "mechanisms": [dpsgd(1.0, 0.02, 200), gaussian(3.0), dpsgd(2.0, 0.1, 50)]},
    ),
    Case(
        "dpsgd_c1",
        dpsgd(1.0, 0.01, 1000),
        (
            Published("power", 1e-3, "add", 4.06844788114255e-3, 1e-14, PEERS),
            Published("epsilon", 1e-5, "both", 1.8282366665, 1e-9, PEERS),
            Published("delta", 4.0, "both", 5.35147862765795e-13, 1e-24, PEERS),
        ),
    ),
    Case(
        "dpsgd_replaced",
        dpsgd(1.0, 0.01, 1000),
        (Published("epsilon", 1e-5, "both", 2.8434402592, 6e-9, LEBEDA),),
        relation="replace_one",
    ),
    Case(
        "dpsgd_group",
        dpsgd(1.0, 0.01, 1000),
        (Published("epsilon", 1e-5, "add", 8.8991878706, 2e-8, GANESH),),
        records=4,
    ),
    Case("gaussian_mixture", MIXED, (Published("epsilon", 1e-5, "both", 3.3601202435991, 1e-12, OWN),)),
    Case("gaussian_mixture_run", {"type": "repeated", "mechanism": MIXED, "steps": 100}),
    Case("dpsgd_c3", dpsgd(2.0, 0.1, 100), (Published("power", 1e-6, "add", 1.51460336325607e-5, 1e-16, PEERS),)),
    Case("dpsgd_one_step", dpsgd(1.0, 0.5, 1), (Published("epsilon", 1e-5, "both", 3.5339979854, 1e-10, PEERS),)),
    Case(
        "repeated_pure_dp",
        {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": 1.0}, "steps": 2},
        (
            Published("power", 1e-30, "both", 7.38905609893065e-30, 1e-44, "e^2 alpha, Kairouz et al. 2015"),
            Published("delta", 1.0, "add", 0.33783471214704119, 1e-12, "e^2 (1 - e^-1)/(1 + e)^2, Kairouz et al. 2015"),
        ),
    ),
    Case(
        "repeated_pure_dp_often",
        {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": 1e-3}, "steps": 10**6},
    ),
    Case(
        "repeated_pure_dp_strong", {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": 30.0}, "steps": 7}
    ),
    Case(
        "repeated_approximate_dp",
        {"type": "repeated", "mechanism": {"type": "approximate_dp", "epsilon": 0.1, "delta": 2.0**-30}, "steps": 100},
    ),
    Case(
        "composed_responses",
        {
            "type": "composed",
            "mechanisms": [
                {"type": "pure_dp", "epsilon": 0.7},
                {"type": "approximate_dp", "epsilon": 0.2, "delta": 2.0**-20},
                {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": 0.1}, "steps": 5},
            ],
        },
    ),
    Case("mixture_of_gaussians", mixture((0.25, gaussian(1.0)), (0.5, gaussian(4.0)), (0.25, gaussian(0.5)))),
    Case(
        "mixture_with_kinks",
        mixture((0.3, {"type": "pure_dp", "epsilon": 1.0}), (0.3, laplace(0.5)), (0.4, sampled(0.2, gaussian(1.0)))),
    ),
    Case(
        "mixture_of_straight_pieces",
        mixture((0.5, {"type": "pure_dp", "epsilon": 1.0}), (0.5, {"type": "pure_dp", "epsilon": 0.0})),
    ),
    Case(
        "mixture_with_mass_outside",
        mixture((0.75, {"type": "approximate_dp", "epsilon": 1.0, "delta": 0.25}), (0.25, gaussian(2.0))),
    ),
    Case(
        "mixture_of_mixtures",
        mixture(
            (0.5, mixture((0.5, gaussian(1.0)), (0.5, {"type": "exponential", "epsilon": 3.0}))), (0.5, laplace(1.0))
        ),
    ),
    Case("mixture_of_runs", mixture((0.9, dpsgd(20.0, 0.1, 10_000)), (0.1, gaussian(2.0)))),
    Case("mixture_of_one", mixture((1.0, laplace(1.0)))),
    Case(
        "noisy_sgd_whole",
        noisy_sgd(400, 2.5, 100),  # mu = 10 2 C/(n tau) = 10
        (Published("power", 1e-6, "add", 0.999999922523897553, 1e-14, "Phi(Phi^-1(1e-6) + 10)"),),
        relation="replace_one",
    ),
    Case("noisy_sgd_sampled", noisy_sgd(4000, 2.5), relation="replace_one"),
    Case("randomized_response", RESPONSE, _delta(0.3, 0.36802563227170787), relation="replace_one"),
    Case("randomized_response_4", RESPONSE | {"options": 4}, relation="replace_one"),
    Case(
        "randomized_response_run",
        {"type": "repeated", "mechanism": RESPONSE | {"epsilon": 0.5, "options": 4}, "steps": 10},
        _delta(1.0, 0.18891814293767145),
        relation="replace_one",
    ),
    Case("randomized_response_person", RESPONSE | {"options": 3}, relation="replace_one", records=3),
    Case("randomized_response_sampled", sampled(0.2, RESPONSE), relation="replace_one"),
    Case(
        "randomized_response_beside", {"type": "composed", "mechanisms": [RESPONSE, gaussian(2.0)]}, (), "replace_one"
    ),
    Case("shuffled_reports", shuffled(50, {"type": "pure_dp", "epsilon": 1.0}), relation="replace_one"),
    Case(
        "shuffled_responses_few",
        shuffled(3, RESPONSE | {"options": 3}),
        (Published("delta", 0.8, "both", 0.03466218544872224, 1e-11, ENUMERATED),),
        relation="replace_one",
    ),
    Case("shuffled_responses", shuffled(1000, RESPONSE | {"options": 10}), relation="replace_one"),
    Case(
        "shuffled_ones",
        shuffled(20, RESPONSE) | {"others_holding_one": 10},
        (Published("delta", 0.2, "both", 0.028383811170578317, 1e-11, ENUMERATED),),
        relation="replace_one",
    ),
    Case(
        "shuffled_rounds",
        {"type": "repeated", "mechanism": shuffled(500, {"type": "pure_dp", "epsilon": 1.0}), "steps": 4},
        relation="replace_one",
    ),
    Case("unary_encoding", UNARY, _delta(0.4, 0.44091151895446823), relation="replace_one"),
    Case("unary_encoding_bits", UNARY | {"bits_per_value": 4}, relation="replace_one"),
    Case("staircase", {"type": "staircase", "epsilon": 2.0, "gamma": 0.5}, _delta(1.0, 0.5567699411459397)),
    Case("staircase_flat", {"type": "staircase", "epsilon": 1.0, "gamma": 0.2}),
    Case(
        "discrete_laplace",
        {"type": "discrete_laplace", "scale": 2.0, "sensitivity": 3},
        _delta(0.5, 0.3934693402873666),
    ),
    Case(
        "discrete_laplace_run",
        {"type": "repeated", "mechanism": {"type": "discrete_laplace", "scale": 4.0, "sensitivity": 2}, "steps": 20},
        _delta(2.0, 0.37301288132700094),
    ),
    Case(
        "discrete_gaussian",
        {"type": "discrete_gaussian", "sigma": 1.0, "sensitivity": 1},
        _delta(0.5, 0.20398281376343896),
    ),
    Case("discrete_gaussian_sampled", sampled(0.1, {"type": "discrete_gaussian", "sigma": 3.0, "sensitivity": 2})),
    Case("noisy_max_gumbel", NOISY_MAX | {"noise": "gumbel"}, _delta(0.1, 0.20773467127916498)),
    Case("noisy_max_exponential", NOISY_MAX, _delta(0.1, 0.36237184837822667)),
    Case("noisy_max_monotone", NOISY_MAX | {"monotone": True}),
    Case("noisy_max_laplace", NOISY_MAX | {"noise": "laplace"}),
    Case("noisy_max_run", {"type": "repeated", "mechanism": NOISY_MAX, "steps": 4}),
    Case("permute_and_flip", {"type": "permute_and_flip", "epsilon": 1.0}, _delta(0.1, 0.36237184837822667)),
    Case("sparse_vector", {"type": "sparse_vector", "threshold_epsilon": 0.5, "query_epsilon": 0.5, "positives": 1}),
    Case(
        "discrete_gaussian_vector",
        {"type": "discrete_gaussian", "sigma": 4.0, "sensitivity": 2, "dimension": 10},
    ),
    Case("skellam", {"type": "skellam", "variance": 2.0, "sensitivity": 1}, _delta(1.0, 0.02925448593374293)),
    Case("selected_once", selected(sampled(0.1, gaussian(1.0)), "geometric", mean=1.0)),
    Case(
        "selected_all",
        selected(gaussian(10.0), "fixed", count=100) | {"released": "all"},
        (Published("delta", 4.0, "both", 4.712241201e-5, 1e-14, PEERS),),
    ),
    Case("dpsgd_schedule", dpsgd(1.0, 0.02, 1) | {"noise_multiplier": [1.0, 2.0, 1.0], "steps": [200, 100, 50]}),
    Case("dpsgd_fixed", dpsgd(4.0, 0.05, 1000) | {"sampling": "fixed_without_replacement"}),
    Case("dpsgd_full_batch", dpsgd(10.0, 1.0, 100), (Published("epsilon", 1e-5, "both", 4.3771780957, 1e-10, PEERS),)),
)
