"""Neighbouring relations: reference values, a second engine, rejected combinations and their reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import mpmath
import numpy as np
import pytest

from api_schemas.bounds import BoundsRequest
from service.privacy.composition.planning import choose
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.neighbours import ONE_REPLACED, RELATIONS, NeighboringRelation, Neighbours
from service.privacy.threat_models.worst_case import WorstCase, worst_of
from service.resources.bounds import compute_bounds
from tests.privacy.cases import built, dpsgd, gaussian, laplace, noisy_sgd, sampled
from tests.slow_marker import sample_of

SAMPLERS = Path(__file__).parents[1] / "privacy" / "reference" / "samplers.json"
mp: Any = mpmath


def rows() -> list[Any]:
    kinds = ("poisson_replace", "poisson_group", "fixed_batch")
    return [row for row in json.loads(SAMPLERS.read_text("utf-8")) if row["kind"].startswith(kinds)]


def request_of(row: dict[str, Any]) -> dict[str, Any]:
    inputs = row["inputs"]
    mechanism = {"type": "dpsgd", **{name: inputs[name] for name in ("noise_multiplier", "steps")}}
    names = ("sample_rate",) if "sample_rate" in inputs else ("dataset_size", "batch_size")
    mechanism |= {name: inputs[name] for name in names}
    if row["kind"].startswith("fixed"):
        mechanism["sampling"] = f"fixed_{inputs.get('replacement', 'without')}_replacement"
    relation = "replace_one" if "replace" in row["kind"] else "add_or_remove_one"
    question = {"type": "delta", "epsilon": inputs.get("epsilon")}
    if "delta" in inputs:
        question = {"type": "epsilon", "delta": inputs["delta"]}
    direction = {"P=mixture": "add", "P=N(0)": "remove"}.get(inputs.get("numerator"), "both")
    model = {"type": "worst_case", "neighboring_relation": relation}
    if "records" in inputs:
        model["records"] = inputs["records"]
    return {"mechanism": mechanism, "threat_model": model, "questions": [{**question, "direction": direction}]}


def answered(body: dict[str, Any]) -> dict[str, Any]:
    return compute_bounds(BoundsRequest.model_validate_json(json.dumps(body)), "", "")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_enclosures_contain_reference_rows(row: dict[str, Any]) -> None:
    answer = answered(request_of(row))["answers"][0]
    slack = row["rel_tol"] * row["value"]
    assert answer["lower"] - slack <= row["value"] <= answer["upper"] + slack
    assert answer["upper"] - answer["lower"] <= 1e-9 * answer["upper"]
    assert answer["tight"]


def profile(absent: list[Any], present: list[Any], epsilon: Any, digits: int = 40) -> Any:
    """Return delta of two mixtures of (center, weight), by bisection for the threshold in `digits` digits."""
    with mp.workdps(digits):

        def density(humps: list[Any], x: Any) -> Any:
            return sum(w * mp.exp(-((x - c) ** 2) / 2) for c, w in humps)

        low, high, x = mp.mpf(-400), mp.mpf(400), mp.mpf(0)
        for _ in range(150):
            x = (low + high) / 2
            below = mp.log(density(present, x) / density(absent, x)) < epsilon
            low, high = (x, high) if below else (low, x)
        tails = [sum(w * mp.erfc((x - c) / mp.sqrt(2)) / 2 for c, w in humps) for humps in (present, absent)]
        return tails[0] - mp.exp(epsilon) * tails[1]


@sample_of(6)
@pytest.mark.parametrize("seed", range(12))
def test_one_step_matches_definition(seed: int) -> None:
    """Delta of one step matches its definition for random mixtures, groups and replaced records, in both directions."""
    random = np.random.default_rng([7, seed])
    rate, noise, k = float(random.uniform(0.01, 0.6)), float(random.uniform(0.4, 3)), int(random.integers(2, 6))
    replaced = bool(seed % 2)
    neighbours = ONE_REPLACED if replaced else Neighbours(records=k)
    curves = choose.pair(built(sampled(rate, gaussian(noise))), "auto", neighbours)
    with mp.workdps(40):
        q, mu = mp.mpf(rate), 1 / mp.mpf(noise)
        weights = [1 - q, q] if replaced else [mp.binomial(k, i) * q**i * (1 - q) ** (k - i) for i in range(k + 1)]
        present = [(i * mu, weight) for i, weight in enumerate(weights)]
        mirrored = [(-c, weight) for c, weight in present]
        nothing = [(mp.mpf(0), mp.mpf(1))]
    pairs = [(mirrored, present)] * 2 if replaced else [(nothing, present), (mirrored, nothing)]
    for curve, (absent, there) in zip((curves.add, curves.remove), pairs, strict=True):
        smallest, largest = curve.smallest_log_ratio.upper, curve.largest_log_ratio.lower
        for epsilon in random.uniform(max(smallest, -2.0), min(largest, 6.0), size=3):
            truth, found = profile(absent, there, mp.mpf(float(epsilon))), curve.profile_at(float(epsilon))
            assert found.lower <= truth <= found.upper
            assert found.upper - found.lower <= 1e-8 * found.upper


@pytest.mark.parametrize("neighbours", [ONE_REPLACED, Neighbours(records=3)])
def test_lattices_agree_with_contours(neighbours: Neighbours) -> None:
    mechanism, options = built(dpsgd(1.3, 0.07, 40)), EngineOptions(relative_tolerance=1e-2)
    line = choose.pair(mechanism, "contour", neighbours)
    lattice = choose.pair(mechanism, "discretised", neighbours, options)
    for one, other in ((line.add, lattice.add), (line.remove, lattice.remove)):
        first, second = one.profile_at(0.5), other.profile_at(0.5)
        assert max(first.lower, second.lower) <= min(first.upper, second.upper)


@pytest.mark.parametrize("relation", ["add_or_remove_one", "zero_out", "replace_one"])
@pytest.mark.parametrize("base", [gaussian, laplace])
def test_groups_multiply_the_sensitivity(base: Any, relation: NeighboringRelation) -> None:
    neighbours, rates = Neighbours(relation, 4), np.array([1e-6, 0.01, 0.4])
    found = choose.pair(built(base(6.0)), "auto", neighbours).add.power(rates)
    same = choose.pair(built(base(6.0 / neighbours.distance)), "auto").add.power(rates)
    assert (found.lower <= same.upper).all()
    assert (same.lower <= found.upper).all()


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("records", [2, 5])
def test_stated_group_guarantee_has_attained_power(records: int, delta: float) -> None:
    """The power of a stated guarantee for a group is g(g(...(a))) at the rate a, with g the largest power after one
    change.

    See Theorem 2.14 of Dong, Roth and Su 2022.
    """
    epsilon, rates = 0.7, np.array([1e-3, 0.1, 0.3, 0.6])
    spec = {"type": "approximate_dp", "epsilon": epsilon, "delta": delta}
    pair = choose.pair(built(spec), "auto", Neighbours(records=records))
    power = rates
    for _ in range(records):
        power = np.minimum(np.exp(epsilon) * power + delta, 1 - np.exp(-epsilon) * np.maximum(1 - power - delta, 0))
    found = pair.add.power(rates)
    assert pair.bracket is None
    assert (found.upper - found.lower <= 1e-12).all()
    assert (found.lower <= power * (1 + 1e-12)).all()
    assert (power <= found.upper * (1 + 1e-12)).all()


def test_groups_multiply_epsilon_of_exponential_mechanism() -> None:
    one = choose.pair(built({"type": "exponential", "epsilon": 0.5}), "auto", Neighbours(records=3))
    other = choose.pair(built({"type": "exponential", "epsilon": 1.5}))
    assert one.add.epsilon(1e-3) == other.add.epsilon(1e-3)
    assert one.bracket is None


@pytest.mark.parametrize("seed", range(8))
def test_replaced_record_with_little_noise_is_enclosed(seed: int) -> None:
    """Steps with little noise and a replaced record are enclosed.

    Between the distant modes, losses around 0 are so flat that only their sign is exact.
    """
    random = np.random.default_rng([11, seed])
    noise, rate = (float(10 ** random.uniform(*ends)) for ends in ((-4, -0.7), (-12, -0.3)))
    curve = choose.pair(built(sampled(rate, gaussian(noise))), "auto", ONE_REPLACED).both
    with mp.workdps(40):
        advantage = mp.mpf(rate) * mp.erf(1 / (mp.mpf(noise) * mp.sqrt(2)))
    found = curve.profile_at(0.0)
    assert found.lower <= advantage <= found.upper
    assert found.upper - found.lower <= 1e-11 * found.upper
    delta = rate * float(10 ** random.uniform(-9, -1))
    ends = curve.epsilon(delta)
    assert ends.upper - ends.lower <= 1e-6 * ends.upper
    assert curve.profile_at(ends.lower * (1 - 1e-6)).upper >= delta >= curve.profile_at(ends.upper * (1 + 1e-6)).lower


@pytest.mark.parametrize("left", [1e-17, 1e-30, 1e-300])
def test_tiny_weight_of_unshifted_outcome_is_enclosed(left: float) -> None:
    """A step whose shift is absent with a tiny probability is enclosed.

    It is compared with the step whose shift is always present.
    """
    spec = {"type": "gaussian_mixture", "noise_multiplier": 2.0, "shifts": [0.0, 1.0], "weights": [left, 1.0]}
    found, shifted = choose.pair(built(spec)), choose.pair(built(gaussian(2.0)))
    for curve in (found.add, found.remove):
        for most, ends in (
            (shifted.add.power_at(0.1), curve.power_at(0.1)),
            (shifted.add.epsilon(1e-6), curve.epsilon(1e-6)),
            (shifted.add.profile_at(0.5), curve.profile_at(0.5)),
        ):
            assert ends.lower <= most.upper
            assert most.lower * (1 - 1e-15) <= ends.upper <= most.upper
            assert ends.upper - ends.lower <= 1e-12 * ends.upper


MIXED = {"type": "gaussian_mixture", "noise_multiplier": 1.0, "shifts": [0.0, 1.0, 2.0], "weights": [0.9, 0.09, 0.01]}
WITH_REPLACEMENT = {
    "type": "dpsgd",
    "sampling": "fixed_with_replacement",
    "noise_multiplier": 1.0,
    "batch_size": 2,
    "dataset_size": 20,
    "sample_rate": 0.1,
    "steps": 2,
}
REFUSED = [
    (dpsgd(1.0, 0.1, 2), Neighbours("replace_one", 2), "several replaced records"),
    (dpsgd(1.0, 0.1, 2), Neighbours(records=65), "more than 64 shifts"),
    (sampled(0.1, laplace(1.0)), ONE_REPLACED, "Laplace noise"),
    (sampled(0.1, laplace(1.0)), Neighbours(records=2), "Laplace noise"),
    (MIXED, ONE_REPLACED, "describe one added record"),
    (MIXED, Neighbours("zero_out"), "describe one added record"),
    (MIXED, Neighbours(records=2), "describe one added record"),
    (noisy_sgd(48000, 2.84), Neighbours("zero_out"), "empty record"),
    (noisy_sgd(48000, 2.84), Neighbours("zero_out", 2), "empty record"),
    (WITH_REPLACEMENT, Neighbours("zero_out"), "empty record"),
    (WITH_REPLACEMENT, ONE_REPLACED, "several replaced records"),
    (noisy_sgd(48000, 2.84), Neighbours("replace_one", 2), "several replaced records"),
    (noisy_sgd(48000, 2.84), Neighbours(records=47_601), "399 records remain"),
    (noisy_sgd(48000, 0.0), Neighbours(records=2), "several records"),
    ({"type": "pure_dp", "epsilon": 10.0}, Neighbours(records=10**6), "records times epsilon"),
]


@pytest.mark.parametrize(("spec", "neighbours", "reason"), REFUSED)
def test_unsupported_relation_names_supported_ones(spec: dict[str, Any], neighbours: Neighbours, reason: str) -> None:
    with pytest.raises(UnsupportedCombination, match=reason) as refused:
        choose.plan(built(spec), "auto", neighbours)
    assert refused.value.field == "threat_model"
    supported = refused.value.supported
    assert supported
    # Every relation named as supported is accepted.
    records = 1 if "one record" in supported else neighbours.records
    named = [relation for relation in RELATIONS if relation in supported]
    for relation in named or ([neighbours.relation] if records < neighbours.records else []):
        choose.plan(built(spec), "auto", Neighbours(cast("NeighboringRelation", relation), records))


def test_records_parameter_removes_one_record_hazard() -> None:
    body = {"mechanism": dpsgd(1.0, 0.01, 100), "questions": [{"type": "advantage"}]}

    def codes(**model: Any) -> set[str]:
        found = answered({**body, "threat_model": {"type": "worst_case", **model}})
        return {hazard.code for hazard in cast("list[Any]", found["hazards"])}

    assert "one_record_is_protected" in codes()
    assert "one_record_is_protected" in codes(records=1)
    assert "one_record_is_protected" not in codes(records=2)


def test_worst_of_several_models_dominates_all() -> None:
    models = [WorstCase(), WorstCase("replace_one"), WorstCase("zero_out", 3)]
    assert worst_of(models) == WorstCase("replace_one", 3)
    assert worst_of(models[:1]) == WorstCase()


@sample_of(3)
@pytest.mark.parametrize("exponent", [-9, -40, -160, -234, -299])
@pytest.mark.parametrize("neighbours", [Neighbours(records=3), ONE_REPLACED], ids=str)
def test_extreme_sampling_rates_are_enclosed(exponent: int, neighbours: Neighbours) -> None:
    """Epsilon of one step is 0 if delta exceeds the sampling probability; otherwise the enclosure contains the exact
    value.
    """
    rate, noise = 3.7 * 10.0**exponent, 1.2
    curves = choose.pair(built(sampled(rate, gaussian(noise))), "auto", neighbours)
    with mp.workdps(40 - 3 * exponent):
        q, mu, replaced = mp.mpf(rate), 1 / mp.mpf(noise), neighbours == ONE_REPLACED
        hits = 1 if replaced else neighbours.records
        present = [(i * mu, mp.binomial(hits, i) * q**i * (1 - q) ** (hits - i)) for i in range(hits + 1)]
        nothing = [(mp.mpf(0), mp.mpf(1))]
    mirrored = [(-c, weight) for c, weight in present]
    pairs = [(mirrored, present)] * 2 if replaced else [(nothing, present), (mirrored, nothing)]
    for curve, (absent, there) in zip((curves.add, curves.remove), pairs, strict=True):
        assert curve.epsilon(3.7e-6).upper == 0
        found, delta = curve.epsilon(0.3 * rate), mp.mpf(0.3 * rate)
        at = [profile(absent, there, mp.mpf(end), 40 - 3 * exponent) for end in (found.lower, found.upper)]
        assert at[1] <= delta * (1 + mp.mpf(10) ** -12)
        assert delta * (1 - mp.mpf(10) ** -12) <= at[0]
