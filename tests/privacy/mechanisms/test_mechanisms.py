"""Mechanisms as values: domains, flattening, and the engine that composes them."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest

from service.privacy.composition.planning.choose import METHODS, plan
from service.privacy.enclosure import Evidence
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import CASES, built, dpsgd, gaussian, laplace, sampled

RATES = np.array([1e-9, 1e-3, 0.2, 0.9])


def repeated(spec: dict[str, Any], steps: int) -> dict[str, Any]:
    return {"type": "repeated", "mechanism": spec, "steps": steps}


def composed(*specs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "composed", "mechanisms": list(specs)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_mechanisms_are_hashable_equal_values(case: Any) -> None:
    assert case.mechanism == built(case.spec)
    assert hash(case.mechanism) == hash(built(case.spec))
    with pytest.raises(FrozenInstanceError):
        setattr(case.mechanism, fields(case.mechanism)[0].name, 1.0)


def test_catalogue_is_read_only_and_keyed_by_type() -> None:
    assert all(kind.type == name for name, kind in MECHANISMS.items())
    with pytest.raises(TypeError):
        MECHANISMS["gaussian"] = Repeated  # type: ignore[index]


@pytest.mark.parametrize(
    ("kind", "given", "name"),
    [
        ("gaussian", {"noise_multiplier": 0.0}, "noise_multiplier"),
        ("gaussian", {"noise_multiplier": 1e16}, "noise_multiplier"),
        ("gaussian", {"noise_multiplier": math.nan}, "noise_multiplier"),
        ("gaussian", {"noise_multiplier": True}, "noise_multiplier"),
        ("laplace", {"noise_multiplier": 9e-5}, "noise_multiplier"),
        ("gdp", {"mu": -1e-9}, "mu"),
        ("gdp", {"mu": math.inf}, "mu"),
        ("pure_dp", {"epsilon": 1.1e6}, "epsilon"),
        ("approximate_dp", {"epsilon": 1.0, "delta": 1.5}, "delta"),
        ("exponential", {"epsilon": -1.0}, "epsilon"),
        ("poisson_sampled", {"sample_rate": 0.0, "mechanism": Gaussian(noise_multiplier=1.0)}, "sample_rate"),
        ("poisson_sampled", {"sample_rate": 1.0000001, "mechanism": Gaussian(noise_multiplier=1.0)}, "sample_rate"),
        ("repeated", {"mechanism": Gaussian(noise_multiplier=1.0), "steps": 0}, "steps"),
        ("repeated", {"mechanism": Gaussian(noise_multiplier=1.0), "steps": 1.5}, "steps"),
        ("repeated", {"mechanism": Gaussian(noise_multiplier=1.0), "steps": 10**12 + 1}, "steps"),
        ("composed", {"mechanisms": ()}, "mechanisms"),
        ("composed", {"mechanisms": (Gaussian(noise_multiplier=1.0),) * 257}, "mechanisms"),
        ("dpsgd", {"noise_multiplier": 1.0, "sample_rate": 2.0, "steps": 1}, "sample_rate"),
    ],
)
def test_value_outside_domain_raises(kind: str, given: dict[str, Any], name: str) -> None:
    with pytest.raises(OutOfDomain) as refusal:
        MECHANISMS[kind](**given)
    assert refusal.value.name == name


def test_flattening_multiplies_and_merges() -> None:
    inner = composed(gaussian(1.0), repeated(sampled(0.1, gaussian(2.0)), 3), gaussian(1.0))
    steps = built(repeated(inner, 5)).elementary_steps()
    sampled_step = PoissonSampled(sample_rate=0.1, mechanism=Gaussian(noise_multiplier=2.0))
    assert steps == ((Gaussian(noise_multiplier=1.0), 10), (sampled_step, 15))
    assert built(dpsgd(2.0, 0.1, 15)).elementary_steps() == ((sampled_step, 15),)
    assert built(dpsgd(2.0, 1.0, 15)).elementary_steps() == ((Gaussian(noise_multiplier=2.0), 15),)


def test_total_number_of_steps_is_bounded() -> None:
    spec = repeated(repeated(gaussian(1.0), 10**12), 10**4)
    with pytest.raises(OutOfDomain) as refusal:
        built(spec).elementary_steps()
    assert refusal.value.name == "steps"


def test_equal_steps_in_different_notations_give_same_curve() -> None:
    pairs = [
        (dpsgd(2.0, 0.1, 100), repeated(sampled(0.1, gaussian(2.0)), 100)),
        (dpsgd(2.0, 0.1, 100), composed(dpsgd(2.0, 0.1, 60), dpsgd(2.0, 0.1, 40))),
        (repeated(gaussian(4.0), 4), gaussian(2.0)),
        (composed({"type": "gdp", "mu": 3.0}, {"type": "gdp", "mu": 4.0}), {"type": "gdp", "mu": 5.0}),
        (sampled(1.0, laplace(2.0)), laplace(2.0)),
        (dpsgd(1.0, 0.3, 1), sampled(0.3, gaussian(1.0))),
    ]
    for first, second in pairs:
        one, other = (WorstCase().curves(built(spec)) for spec in (first, second))
        for direction in ("add", "remove", "both"):
            a, b = getattr(one, direction).points(RATES), getattr(other, direction).points(RATES)
            for left, right in ((a.power, b.power), (a.type_two_error, b.type_two_error)):
                assert (left.lower <= right.upper).all()
                assert (right.lower <= left.upper).all()


def test_gaussian_step_increases_power_of_sampled_run() -> None:
    """A Gaussian step beside a sampled run increases its power in the contour engine."""
    together = WorstCase().curves(built(composed(dpsgd(2.0, 0.1, 50), gaussian(2.0)))).add.power(RATES)
    alone = WorstCase().curves(built(dpsgd(2.0, 0.1, 50))).add.power(RATES)
    assert (together.upper > alone.lower).all()


def test_engines_agree_if_both_support_the_run() -> None:
    for spec in (sampled(0.3, gaussian(1.0)), repeated(gaussian(10.0), 50)):
        closed = WorstCase().curves(built(spec), method="closed_form")
        contour = WorstCase().curves(built(spec), method="contour")
        assert closed.add.method == "closed_form"
        assert contour.add.method == "contour"
        assert contour.add.evidence is Evidence.CERTIFIED
        for direction in ("add", "remove"):
            a, b = getattr(closed, direction).power(RATES), getattr(contour, direction).power(RATES)
            assert (a.lower <= b.upper).all()
            assert (b.lower <= a.upper).all()


def test_engine_is_chosen_with_noted_reason() -> None:
    for spec, engine in (
        (gaussian(1.0), "closed_form"),
        (repeated(gaussian(1.0), 9), "closed_form"),
        (dpsgd(1.0, 0.1, 9), "contour"),
        (repeated(laplace(1.0), 2), "closed_form"),
        (repeated(laplace(1.0), 10**4), "contour"),
        (composed(laplace(1.0), laplace(2.0)), "discretised"),
        (composed(gaussian(1.0), {"type": "pure_dp", "epsilon": 1.0}), "contour"),
    ):
        pair = WorstCase().curves(built(spec))
        assert pair.add.method == engine
        assert any(note.startswith(engine) for note in pair.notes)
        assert pair.source


@pytest.mark.parametrize(
    ("spec", "method", "field"),
    [
        (repeated(laplace(1.0), 10**4), "closed_form", "method"),
        (composed(laplace(1.0), laplace(2.0)), "closed_form", "method"),
        (repeated(sampled(0.1, laplace(1.0)), 2), "contour", "method"),
        (composed(laplace(1.0), {"type": "pure_dp", "epsilon": 1.0}), "contour", "method"),
        (repeated({"type": "exponential", "epsilon": 1.0}, 3), "closed_form", "method"),
        (dpsgd(1.0, 0.1, 10), "closed_form", "method"),
        (laplace(1.0), "contour", "method"),
        (gaussian(1.0), "astrology", "method"),
    ],
)
def test_unsupported_combination_lists_supported_ones(spec: dict[str, Any], method: str, field: str) -> None:
    with pytest.raises(UnsupportedCombination) as refusal:
        WorstCase().curves(built(spec), method=method)
    assert refusal.value.field == field
    assert refusal.value.supported


def test_sampling_of_unknown_base_raises() -> None:
    with pytest.raises(UnsupportedCombination) as refusal:
        built(sampled(0.1, {"type": "gdp", "mu": 1.0}))
    assert refusal.value.supported[:3] == ("gaussian", "laplace", "randomized_response")
    assert "discrete_gaussian" in refusal.value.supported


def test_replacement_doubles_sensitivity() -> None:
    replace = WorstCase(neighboring_relation="replace_one")
    for spec, twin in (
        (gaussian(2.0), gaussian(1.0)),
        (laplace(2.0), laplace(1.0)),
        (sampled(1.0, gaussian(2.0)), gaussian(1.0)),
    ):
        a, b = replace.curves(built(spec)).add.power(RATES), WorstCase().curves(built(twin)).add.power(RATES)
        assert (a.lower == b.lower).all()
        assert (a.upper == b.upper).all()
    smallest = replace.curves(built(gaussian(1e-4))).add
    assert smallest.epsilon(0.5).upper > 1e8
    for spec in (
        {"type": kind, "mu" if kind == "gdp" else "epsilon": 1.0} for kind in ("gdp", "pure_dp", "exponential")
    ):
        a, b = replace.curves(built(spec)).add.power(RATES), WorstCase().curves(built(spec)).add.power(RATES)
        assert (a.upper == b.upper).all()


@pytest.mark.parametrize("spec", [sampled(0.5, laplace(1.0)), composed(gaussian(1.0), sampled(0.5, laplace(1.0)))])
def test_replacement_is_unsupported_for_sampled_laplace_steps(spec: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedCombination) as refusal:
        WorstCase(neighboring_relation="replace_one").curves(built(spec))
    assert refusal.value.field == "threat_model"


def test_unknown_relation_is_rejected() -> None:
    with pytest.raises(OutOfDomain):
        WorstCase(neighboring_relation="swap_two")  # type: ignore[arg-type]


def test_cost_depends_on_parts_not_on_steps() -> None:
    run = plan(built(dpsgd(1.0, 0.01, 1_000))).cost
    assert plan(built(dpsgd(1.0, 0.01, 1_001))).cost == run
    assert plan(built(gaussian(1.0))).cost.build < plan(built(sampled(0.5, gaussian(1.0)))).cost.build < run.build
    mixed = plan(built(composed(*(dpsgd(1.0 + part / 256, 0.01, 1_000) for part in range(256))))).cost
    assert mixed.build > run.build
    assert mixed.evaluate > run.evaluate
    rare = plan(built(dpsgd(1.0, 1e-5, 1_000))).cost
    assert rare.evaluate > run.evaluate


def test_method_names_are_unique_and_ordered() -> None:
    assert METHODS[:3] == ("auto", "closed_form", "contour")
    assert len(set(METHODS)) == len(METHODS) == 9
