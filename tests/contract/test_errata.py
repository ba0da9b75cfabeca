"""The errata page shows numbers that the service computes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from statistics import NormalDist

import pytest
from starlette.testclient import TestClient

from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.questions import membership, unlearning
from service.privacy.threat_models.glrt import Glrt
from service.privacy.threat_models.membership import Membership
from service.privacy.threat_models.mixture import Adversary, AdversaryMixture
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built, dpsgd, gaussian, shuffled
from tests.privacy.shuffled_script import script_delta

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "errata.md").read_text("utf-8")
ROWS = {
    name: unescape(re.sub(r"<[^>]+>", " ", row))
    for name, row in re.findall(r'(?ms)^### <a id="([^"]+)"></a>(.*?)(?=^##|\Z)', PAGE)
}
AVERAGED = {"type": "repeated", "steps": 70, "mechanism": gaussian(6.0)}


def pure_dp(epsilon: float) -> AbstractMechanism:
    return built({"type": "pure_dp", "epsilon": epsilon})


def glrt_epsilon(noise: float, dimension: int, delta: float) -> float:
    return Glrt(dimension=dimension).curves(built(gaussian(noise))).both.epsilon(delta).upper


def worst_epsilon(noise: float, delta: float) -> float:
    return WorstCase().curves(built(gaussian(noise))).both.epsilon(delta).upper


def glrt_power(rate: float, *, swapped: bool = False) -> float:
    curves = Glrt(dimension=1).curves(built(gaussian(1.0)))
    return (curves.remove if swapped else curves.add).power_at(rate).upper


def averaged_epsilon(direction: str) -> float:
    adversary = Glrt(dimension=1, unknown_direction=direction)  # type: ignore[arg-type]
    return adversary.curves(built(AVERAGED)).both.epsilon(0.01).upper


def figure_5(method: str) -> float:
    noise = {"type": "repeated", "steps": 1000, "mechanism": gaussian(10.0)}
    return Glrt(dimension=300).curves(built(noise), method).add.power_at(0.01).upper


def limit_of_figure_5(shift: float, *, spread: float) -> float:
    """Return the power of the normal limit at the rate 0.01, for a shift and a standard deviation with the record."""
    normal = NormalDist()
    return normal.cdf((normal.inv_cdf(0.01) + shift) / spread)


def shuffled_delta() -> float:
    response = {"type": "randomized_response", "epsilon": 1.508, "options": 4}
    return WorstCase("replace_one").curves(built(shuffled(2, response))).both.profile_at(1.440).upper


def half_of_each() -> float:
    parts = tuple(Adversary(weight=0.5, threat_model=model) for model in (Glrt(dimension=1), WorstCase()))
    curve = AdversaryMixture(components=parts).curves(built(gaussian(1.0))).both
    return membership.attack_accuracy(curve, 0.5).value.upper


def exponentials(steps: int, epsilon: float) -> float:
    step = {"type": "exponential", "epsilon": 1.0}
    run = {"type": "repeated", "steps": steps, "mechanism": step}
    return WorstCase().curves(built(run)).both.profile_at(epsilon).upper


def fixed_batches() -> float:
    run = {**dpsgd(1.0, 0.01, 1000), "sampling": "fixed_without_replacement"}
    return WorstCase().curves(built(run)).both.epsilon(1e-5).upper


def population_power() -> float:
    batch = {"type": "noisy_sgd", "dataset_size": 10, "batch_size": 10, "dimension": 10, "steps": 1, "noise_std": 0.0}
    return Membership(population="chi_square").curves(built(batch)).add.power_at(1e-5).upper


def discrete_gaussian() -> AbstractTradeOff:
    return WorstCase().curves(built({"type": "discrete_gaussian", "sigma": 1.0, "sensitivity": 1})).both


def noisy_max_delta() -> float:
    choice = {"type": "report_noisy_max", "noise": "exponential", "scale": 1.0, "sensitivity": 1.0}
    return WorstCase().curves(built(choice)).both.profile_at(0.5).upper


CHECKS: dict[str, list[tuple[Callable[[], float], str]]] = {
    "rero-theorem-1": [(lambda: WorstCase().curves(pure_dp(1.0)).add.power_at(0.3).upper, "0.7425")],
    "discrete-gaussian-continuous": [
        (lambda: worst_epsilon(1.0, 1e-5), "4.3772"),
        (lambda: discrete_gaussian().epsilon(1e-5).upper, "4.4302"),
        (lambda: WorstCase().curves(built(gaussian(1.0))).both.power_at(0.1).upper, "0.3891"),
        (lambda: discrete_gaussian().power_at(0.1).upper, "0.3689"),
    ],
    "noisy-max-pure": [
        (lambda: WorstCase().curves(pure_dp(2.0)).both.profile_at(0.5).upper, "0.6843"),
        (noisy_max_delta, "0.5276"),
    ],
    "shuffled-responses-script": [
        (lambda: script_delta(2, 4, 1.508, 1.440), "0.00526"),
        (shuffled_delta, "0.02374"),
    ],
    "exponential-fixed-shifts": [(lambda: exponentials(10, 1.0), "0.36841")],
    "exponential-dominating": [(lambda: exponentials(2, 0.0), "0.30337")],
    "rero-corollary-2": [
        (
            lambda: (
                WorstCase()
                .curves(built({"type": "repeated", "steps": 100, "mechanism": gaussian(10.0)}))
                .add.power_at(1e-3)
                .upper
            ),
            "0.01830",
        )
    ],
    "rero-gaussian-profile": [(lambda: WorstCase().curves(built(gaussian(1.0))).both.profile_at(1.0).upper, "0.12694")],
    "glrt-figure-1": [
        (lambda: worst_epsilon(1 / 0.3, 1e-4), "0.950073"),
        (lambda: glrt_epsilon(1 / 0.3, 1, 1e-4), "0.376756"),
        (lambda: worst_epsilon(2.0, 1e-4), "1.6981"),
        (lambda: glrt_epsilon(2.0, 1, 1e-4), "1.0279"),
    ],
    "glrt-figure-10": [
        (lambda: worst_epsilon(3.5 / 50**0.5, 0.01), "6.083892"),
        (lambda: glrt_epsilon(3.5 / 50**0.5, 1, 0.01), "5.390745"),
    ],
    "glrt-corollary-1": [(lambda: glrt_power(0.1), "0.2636")],
    "glrt-symmetrisation": [
        (lambda: glrt_power(0.1), "0.2636"),
        (lambda: glrt_power(0.1, swapped=True), "0.1637"),
        (lambda: glrt_power(0.5), "0.6746"),
        (lambda: glrt_power(0.5, swapped=True), "0.7065"),
    ],
    "glrt-algorithm-1": [
        (lambda: glrt_epsilon(1.0, 1, 1e-4), "3.111439"),
        (lambda: glrt_epsilon(1.0, 30, 1e-4), "0.461223"),
    ],
    "glrt-equation-35": [
        (lambda: figure_5("auto"), "0.0285377"),
        (lambda: figure_5("clt"), "0.0316419"),
        (lambda: limit_of_figure_5(10 / math.sqrt(600), spread=1.0), "0.0275492"),
        (lambda: limit_of_figure_5(math.sqrt(2) * 10 / 600, spread=math.sqrt(1 + 20 / 300)), "0.0128852"),
    ],
    "glrt-composition": [
        (lambda: averaged_epsilon("common_to_all_steps"), "2.9437"),
        (lambda: averaged_epsilon("fresh_each_step"), "0.2135"),
    ],
    "zcdp-power-of-library": [
        (lambda: WorstCase().curves(built({"type": "zcdp", "rho": 0.01})).add.power_at(1e-3).lower, "0.001675"),
        (lambda: NormalDist().cdf(NormalDist().inv_cdf(1e-3) + math.sqrt(0.02)), "0.001595"),
    ],
    "samplers-fixed-batches": [(fixed_batches, "13.36")],
    "samplers-replace": [
        (lambda: WorstCase("replace_one").curves(built(gaussian(1.0))).both.epsilon(1e-5).upper, "9.997")
    ],
    "samplers-groups": [
        (lambda: WorstCase(records=4).curves(built(dpsgd(1.0, 0.01, 1000))).both.epsilon(1e-5).upper, "8.8992")
    ],
    "glrt-mixture": [(half_of_each, "0.647417")],
    "gmip-k": [(population_power, "0.000902")],
    "thudi-capacity": [
        (lambda: unlearning.deletion_capacity(WorstCase().curves(pure_dp(1.0)).add, 1e-4, 0.8).value.lower, "820")
    ],
    "thudi-yeom": [
        (
            lambda: (
                membership.advantage(
                    WorstCase().curves(built({"type": "approximate_dp", "epsilon": 1.0, "delta": 0.01})).add
                ).value.upper
            ),
            "0.467496",
        )
    ],
    "thudi-sigma": [(lambda: worst_epsilon(3.730632, 1e-5) * 3.730632, "3.730632")],
}


@pytest.mark.parametrize("name", CHECKS)
def test_numbers_of_page_match_service(name: str) -> None:
    for computed, shown in CHECKS[name]:
        assert shown in ROWS[name]
        decimals = len(shown.partition(".")[2])
        assert round(computed(), decimals) == pytest.approx(float(shown), abs=0.51 * 10**-decimals)


def test_proposition_9_needs_both_directions(client: TestClient) -> None:
    sent = {"epsilon": 8.0, "points": [[1.7], [-0.1], [0.0], [0.1]], "objects": [[1.0], [-1.0]], "clip_radius": 2.0}
    answer = client.post("/v1/pmp/exponential", json=sent).json()
    assert answer["maximiser"]["direction"] == "out_over_in"
    assert f"served {answer['epsilon_pmp']['value']:.4f}" in ROWS["pmp-proposition-9"]


def test_every_entry_has_printed_and_served_value() -> None:
    assert len(ROWS) == PAGE.count("<a id=") >= 51
    for row in ROWS.values():
        assert row.count("**Printed:**") == row.count("**Served:**") == row.count("**Shown by:**") == 1
        assert not re.search(r"\^|[\w)]_\{", row), "superscripts and subscripts are written as such"


def test_errata_links_in_service_lead_to_entries() -> None:
    sources = (Path(__file__).parents[2] / "service").rglob("*.py")
    named = {name for path in sources for name in re.findall(r"/errata#([\w-]+)", path.read_text("utf-8"))}
    assert named <= set(ROWS)
    assert named


def test_old_errata_address_redirects_to_guide(client: TestClient) -> None:
    response = client.get("/errata", follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (308, "/guide/errata.html")
