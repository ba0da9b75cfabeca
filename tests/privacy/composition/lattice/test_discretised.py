"""The `discretised` engine: lattice laws against closed forms, compositions against exact sums and other engines."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.fft import irfft, rfft
from scipy.optimize import brentq
from scipy.stats import binom

from service.privacy.composition.lattice import runs, sums
from service.privacy.composition.lattice.law import LatticeLaw, bracketing_laws
from service.privacy.composition.lattice.nodes import Lattice
from service.privacy.composition.lattice.runs import LatticeRun, LatticeStep
from service.privacy.composition.lattice.windows import (
    ComposedLattice,
    CountedLaw,
    decayed_sums,
    weight_rounding,
    window,
)
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.slow_marker import sample_of, thorough

OPTIONS = EngineOptions(relative_tolerance=1e-6)
COARSE = EngineOptions(relative_tolerance=1e-4)
"""Enclosures are valid at any width; wide ones cost less."""


def discretised(spec: dict[str, Any], options: EngineOptions = COARSE) -> TradeOffPair:
    return pair(built(spec), "discretised", options=options)


def repeated(base: dict[str, Any], steps: int) -> dict[str, Any]:
    return {"type": "repeated", "mechanism": base, "steps": steps}


def pure_dp(epsilon: float) -> dict[str, Any]:
    return {"type": "pure_dp", "epsilon": epsilon}


def approximate_dp(epsilon: float, delta: float) -> dict[str, Any]:
    return {"type": "approximate_dp", "epsilon": epsilon, "delta": delta}


def composed(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "composed", "mechanisms": list(parts)}


# Lattice laws.


def _gaussian_profile(c: mpf, mu: mpf) -> mpf:
    return mpmath.ncdf(mu / 2 - c / mu) - mpmath.exp(c) * mpmath.ncdf(-mu / 2 - c / mu)


def _laplace_profile(c: mpf, shift: mpf) -> mpf:
    if c >= shift:
        return mpf(0)
    return 1 - mpmath.exp(c) if c < -shift else 1 - mpmath.exp((c - shift) / 2)


def _dp_profile(c: mpf, epsilon: mpf, delta: mpf) -> mpf:
    p = 1 / (1 + mpmath.exp(-epsilon))
    masses = ((-epsilon, p), (epsilon, 1 - p))
    return delta + (1 - delta) * sum((m * max(mpmath.exp(x) - mpmath.exp(c), 0) for x, m in masses), mpf(0))


def _profile(spec: dict[str, Any], c: mpf) -> mpf:
    """Return delta at the epsilon `c` of one step in the add direction, from the definition of each kind of step."""
    kind = spec["type"]
    if kind == "poisson_sampled":
        rate = mpf(spec["sample_rate"])
        base = (mpmath.exp(c) - 1 + rate) / rate
        return rate * _profile(spec["mechanism"], mpmath.log(base)) if base > 0 else 1 - mpmath.exp(c)
    if kind == "gaussian":
        return _gaussian_profile(c, 1 / mpf(spec["noise_multiplier"]))
    if kind == "laplace":
        return _laplace_profile(c, 1 / mpf(spec["noise_multiplier"]))
    return _dp_profile(c, mpf(spec["epsilon"]), mpf(spec.get("delta", 0)))


def _law_sums(law: LatticeLaw, step: float, thresholds: list[mpf]) -> list[tuple[mpf, mpf, mpf]]:
    """Return sums D, G and H of a lattice law at each threshold c, as `LatticeNodes` defines them.

    They are means under H0 with the likelihood ratio w: D of (w - e^c)_+, G of (e^c - w)_+, and H of min(w, e^c). D and
    G include the mass of infinite losses. The losses are exact multiples of `step`.
    """
    losses = [mpf(law.offset) + (law.first + i) * mpf(step) for i in range(len(law.masses))]
    atoms = [(mpmath.exp(loss), mpf(float(mass))) for loss, mass in zip(losses, law.masses, strict=True) if mass > 0]
    found: list[tuple[mpf, mpf, mpf]] = []
    for x in map(mpmath.exp, thresholds):
        d = sum((m * (ratio - x) for ratio, m in atoms if ratio > x), mpf(law.infinite))
        g = sum((m * (x - ratio) for ratio, m in atoms if ratio < x), law.vanishing * x)
        found.append((d, g, sum((m * min(ratio, x) for ratio, m in atoms), mpf(0))))
    return found


STEPS = {
    "gaussian": gaussian(1.5),
    "laplace": laplace(1.3),
    "sampled_gaussian": sampled(0.5, gaussian(1.0)),
    "sampled_gaussian_rare": sampled(0.01, gaussian(0.8)),
    "sampled_laplace": sampled(0.1, laplace(0.7)),
    "sampled_laplace_frequent": sampled(0.999, laplace(0.1)),
    "pure_dp": pure_dp(0.9),
    "approximate_dp": approximate_dp(1.1, 0.01),
}


@sample_of(12)
@pytest.mark.parametrize("cells", [4, 37])
@pytest.mark.parametrize("reach", ["short", "whole"])
@pytest.mark.parametrize("spec", STEPS.values(), ids=STEPS)
def test_lattice_laws_bracket_step_everywhere(spec: dict[str, Any], reach: str, cells: int) -> None:
    step = built(spec).elementary_steps()[0][0]
    curves, atoms = step.curves(), step.loss_atoms()
    spacing = atoms[-1][0] / cells if atoms else 1 / cells + 1e-3
    offset = atoms[0][0] - round(atoms[0][0] / spacing) * spacing if atoms else 0.0
    ends = 3 if reach == "short" else 2 * cells + 3
    lattice = Lattice(spacing, offset, -ends, ends)
    upper, lower = bracketing_laws(curves.add, curves.remove, atoms, lattice)
    assert min(float(upper.masses.min()), float(lower.masses.min())) >= 0
    generator = random.Random(cells)
    losses = [
        mpf(offset) + (k + share) * mpf(spacing)
        for k in range(-ends - 2, ends + 3)
        for share in (mpf(0), mpf(generator.random()))
    ]
    with mpmath.workdps(30):
        shifted = _law_sums(lower, spacing, [c + lower.shift for c in losses])
        back = _law_sums(lower, spacing, [c - lower.shift for c in losses])
        for c, high, right, left in zip(losses, _law_sums(upper, spacing, losses), shifted, back, strict=True):
            d = _profile(spec, c)
            g = d - 1 + mpmath.exp(c)
            h = 1 - d
            tiny = mpf("1e-27")  # Rounding of the reference itself.
            assert high[0] * mpmath.exp(upper.log_slack_profile) >= d - tiny
            assert high[1] * mpmath.exp(upper.log_slack_left) >= g - tiny
            assert high[2] * mpmath.exp(-upper.log_slack_middle) <= h + tiny
            assert right[0] * mpmath.exp(-lower.log_slack_profile) <= d + tiny
            assert left[1] * mpmath.exp(-lower.log_slack_left) <= g + tiny
            assert left[2] * mpmath.exp(lower.log_slack_middle) >= h - tiny


@pytest.mark.parametrize("decay", [1e-3, 0.7, 5.4, 5.6, 6.0, 40.0, 800.0])
def test_decaying_sums_are_correct_when_factors_underflow(decay: float) -> None:
    masses = np.random.default_rng(0).random(3000)
    expected, total = np.empty(3000), 0.0
    for k in range(2999, -1, -1):
        expected[k] = total = masses[k] + math.exp(-decay) * total
    np.testing.assert_allclose(decayed_sums(masses, 3000, decay), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_moments_of_tilted_laws_are_those_of_direct_sums(seed: int) -> None:
    random = np.random.default_rng([31, seed])
    masses = random.random(int(10.0 ** random.uniform(0, 4.5)))
    masses[random.random(len(masses)) < random.uniform(0, 0.9)] = 0.0
    masses[random.integers(len(masses))] = 1.0
    step, tilt, count = 10.0 ** random.uniform(-5, -1), float(random.normal(0.0, 3.0)), int(random.integers(1, 50))
    law = LatticeLaw(int(random.integers(-20_000, 20_000)), float(random.normal()), masses, *[0.0] * 6)
    losses = law.losses(step)
    top = float((tilt * losses[masses > 0]).max())
    weights = masses * np.exp(np.where(masses > 0, tilt * losses - top, 0.0))
    total = weights.sum()
    mean = weights @ losses / total
    variance = weights @ (losses - mean) ** 2 / total
    counted = CountedLaw(law, count)
    found = counted.log_moment(tilt, step)
    value = count * (top + math.log(total))
    assert found == pytest.approx((value, count * mean, count * variance), rel=1e-9, abs=1e-9 * step * step * count)
    assert counted.log_moment_in_range(tilt, step) == found[0]
    assert abs(found[0] - value) <= 2 * weight_rounding((counted,), tilt, step)


# Compositions.


REFERENCES = [
    row
    for row in json.loads((Path(__file__).parents[2] / "reference" / "truth_composed.json").read_text())
    if row["id"][:2] in ("L1", "S1", "G1", "C3")
]


@sample_of(10)
@pytest.mark.parametrize("row", REFERENCES, ids=lambda row: row["id"])
def test_enclosures_contain_published_compositions(row: dict[str, Any]) -> None:
    inputs, curves = row["inputs"], discretised(row["inputs"]["mechanism"], OPTIONS)
    if "baseline_success" in inputs:
        found = curves.add.power_at(float(inputs["baseline_success"]))
    elif "delta" in inputs:
        found = curves.both.epsilon(float(inputs["delta"]))
    else:
        found = curves.both.profile_at(float(inputs["epsilon"]))
    value, tolerance = float(row["value"]), float(row["abs_tol"])
    assert found.lower <= value + tolerance
    assert found.upper >= value - tolerance
    assert found.relative_width() < 2e-6


def _meet(first: EnclosureArray, second: EnclosureArray, rounding: float = 1e-14) -> None:
    """Check that two enclosures of the same numbers overlap, each with its lower bound below its upper bound."""
    (low, high), (other_low, other_high) = log_ends(first), log_ends(second)
    assert (low <= high).all()
    with np.errstate(invalid="ignore"):  # Both bounds are minus infinity: the number is 0.
        assert not (low - rounding > other_high).any()
        assert not (other_low - rounding > high).any()


def _epsilons_meet(first: Enclosure, second: Enclosure) -> None:
    assert first.lower <= second.upper * (1 + 1e-12)
    assert second.lower <= first.upper * (1 + 1e-12)


def _agree(first: AbstractTradeOff, second: AbstractTradeOff, generator: random.Random) -> None:
    rates = np.array([10 ** generator.uniform(-9, -0.1), 1 - 10 ** generator.uniform(-6, -0.1), generator.random()])
    points, others = first.points(rates), second.points(rates)
    _meet(points.power, others.power)
    _meet(points.type_two_error, others.type_two_error)
    assert (points.log_slope.lower <= others.log_slope.upper + 1e-12).all()
    assert (others.log_slope.lower <= points.log_slope.upper + 1e-12).all()
    epsilons = np.array([generator.uniform(-3, 0), 0.0, generator.uniform(0, 6)])
    _meet(first.profile(epsilons), second.profile(epsilons))
    delta = 10 ** generator.uniform(-12, -1)
    _epsilons_meet(first.epsilon(delta), second.epsilon(delta))


@pytest.mark.parametrize("seed", [1, *map(thorough, (0, 2, 3))])
def test_lattice_agrees_with_contour_engine(seed: int) -> None:
    generator = random.Random(seed)
    noise, rate = 10 ** generator.uniform(-0.1, 0.5), 10 ** generator.uniform(-2, -0.1)
    spec = dpsgd(noise, rate, int(10 ** generator.uniform(0.5, 2.3)))
    found, lines = discretised(spec), pair(built(spec), "contour")
    _agree(found.add, lines.add, generator)
    _agree(found.remove, lines.remove, generator)


@pytest.mark.parametrize("seed", [0, 1, *map(thorough, range(2, 6))])
def test_lattice_agrees_with_closed_form_of_gaussian_steps(seed: int) -> None:
    generator = random.Random(seed)
    parts = [repeated(gaussian(10 ** generator.uniform(0, 2)), generator.randint(2, 90)) for _ in range(2)]
    found, exact = discretised(composed(*parts)), pair(built(composed(*parts)), "closed_form")
    _agree(found.add, exact.add, generator)
    _agree(found.remove, exact.add, generator)


@pytest.mark.thorough
def test_lattice_agrees_with_closed_form_for_wide_losses() -> None:
    spec = repeated(gaussian(0.08), 100)  # mu = 125: the loss spreads over hundreds of nats.
    found, exact = discretised(spec), pair(built(spec), "closed_form")
    epsilons = np.array([7000.0, 7812.5, 8200.0])
    _meet(found.add.profile(epsilons), exact.add.profile(epsilons), 1e-12)
    rates = np.array([1e-30, 0.5])
    _meet(found.add.points(rates).power, exact.add.points(rates).power, 1e-12)


class _Choices:
    """Composition of (eps, delta)-DP steps, dominated by a product of two-point laws (Kairouz, Oh, Viswanath 2015)."""

    def __init__(self, *steps: tuple[float, float, int]) -> None:
        atoms, rest = [(mpf(0), mpf(1))], mpf(1)
        for epsilon, delta, count in steps:
            e = mpf(epsilon)
            rest *= (1 - mpf(delta)) ** count
            share = 1 / (1 + mpmath.exp(-e))
            choice = [
                ((2 * j - count) * e, mpmath.binomial(count, j) * share ** (count - j) * (1 - share) ** j)
                for j in range(count + 1)
            ]
            atoms = [(loss + more, mass * part) for loss, mass in atoms for more, part in choice]
        self.delta = 1 - rest
        self.atoms = sorted(((loss, mass * rest) for loss, mass in atoms), reverse=True)

    def profile(self, epsilon: float) -> mpf:
        x = mpmath.exp(epsilon)
        return self.delta + sum((m * (mpmath.exp(loss) - x) for loss, m in self.atoms if loss > epsilon), mpf(0))

    def power(self, rate: float) -> mpf:
        left, power = mpf(rate), self.delta
        for loss, mass in self.atoms:
            taken = min(left, mass)
            left, power = left - taken, power + taken * mpmath.exp(loss)
        return power

    def type_two_error(self, rate: float) -> mpf:
        left, error = 1 - mpf(rate) - self.delta, mpf(0)
        for loss, mass in reversed(self.atoms):
            taken = max(min(left, mass), mpf(0))
            left, error = left - taken, error + taken * mpmath.exp(loss)
        return error


def _holds(value: mpf, found: Enclosure) -> None:
    rounding = mpf("1e-14")
    assert found.lower <= value * (1 + rounding)
    assert found.upper >= value * (1 - rounding)


@sample_of(3)
@pytest.mark.parametrize(
    "steps",
    [
        ((0.1, 0.0, 20),),
        ((1.0, 0.0, 7),),
        ((0.3, 1e-6, 30),),
        ((0.5, 0.2, 3),),
        ((0.2, 0.0, 9), (0.7, 1e-4, 4)),
        ((0.31, 0.0, 5), (0.47, 0.0, 5), (1.1, 0.01, 2)),
    ],
)
def test_compositions_of_dp_steps_match_exact_sums(steps: tuple[tuple[float, float, int], ...]) -> None:
    spec = composed(*(repeated(approximate_dp(e, d) if d else pure_dp(e), n) for e, d, n in steps))
    found = discretised(spec)
    with mpmath.workdps(30):
        exact = _Choices(*steps)
        for curve in (found.add, found.remove):
            for rate in (1e-7, 0.3, 1 - 1e-6):
                _holds(exact.power(rate), curve.power_at(rate))
                _holds(exact.type_two_error(rate), curve.type_two_error(np.array([rate])).at(0, curve.evidence))
            for epsilon in (-0.5, 0.4, float(exact.atoms[1][0])):
                _holds(exact.profile(epsilon), curve.profile_at(epsilon))
            delta = float(exact.delta) + 1e-3
            root = curve.epsilon(delta)
            assert exact.profile(root.lower * (1 - 1e-12)) >= delta * (1 - 1e-12)
            assert exact.profile(root.upper) <= delta * (1 + 1e-12)


@pytest.mark.parametrize("noise", [0.4, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [-0.2, 0.0, 0.3, 1.1])
def test_two_laplace_steps_match_convolution(noise: float, epsilon: float) -> None:
    found = discretised(repeated(laplace(noise), 2)).add.profile_at(epsilon)
    with mpmath.workdps(25):
        b = 1 / mpf(noise)
        # L = -b, or L = b, or in between with H0-density e^{-(L + b)/2}/4: D(c) = E0 e^L D_1(c - L).
        ends = mpf(1) / 2 * mpmath.exp(-b), mpf(1) / 2
        kinks = sorted({-b, b, *(point for point in (epsilon - b, epsilon + b) if -b < point < b)})

        def inner(loss: mpf) -> mpf:
            return mpmath.exp(loss - (loss + b) / 2) / 4 * _laplace_profile(epsilon - loss, b)

        value = ends[0] * _laplace_profile(epsilon + b, b) + ends[1] * _laplace_profile(epsilon - b, b)
        _holds(value + mpmath.quad(inner, kinks), found)


# Laws.


MIX = composed(repeated(pure_dp(0.3), 3), repeated(laplace(2.0), 4), gaussian(2.0))


def test_double_swap_is_identity_and_directions_are_inverse() -> None:
    add = discretised(dpsgd(0.9, 0.2, 20)).add
    rates = np.array([1e-4, 0.2, 0.9])
    again, points = add.reversed().reversed().points(rates), add.points(rates)
    np.testing.assert_array_equal(again.power.lower, points.power.lower)
    np.testing.assert_array_equal(again.power.upper, points.power.upper)
    # The remove curve is f^-1, so its type II error at f(alpha) is alpha.
    back = add.reversed().type_two_error(np.concatenate([points.type_two_error.upper, points.type_two_error.lower]))
    assert (back.lower[:3] <= rates * (1 + 1e-14)).all()
    assert (back.upper[3:] >= rates * (1 - 1e-14)).all()


def test_symmetric_steps_give_equal_directions() -> None:
    curves, generator = discretised(MIX), random.Random(3)
    _agree(curves.add, curves.remove, generator)


def test_steps_that_reveal_nothing_are_omitted() -> None:
    nothing = repeated(pure_dp(0.0), 50)
    rates = np.array([1e-3, 0.4])
    with_it, without = discretised(composed(nothing, laplace(1.0))), discretised(composed(laplace(1.0)))
    np.testing.assert_array_equal(with_it.add.power(rates).upper, without.add.power(rates).upper)
    assert discretised(nothing).add.power_at(0.25) == Enclosure.point(0.25)


def test_step_that_reveals_everything_has_full_power() -> None:
    curves = discretised(composed(approximate_dp(1.0, 1.0), gaussian(1.0)))
    assert curves.add.power_at(0.0).lower == 1.0
    assert curves.add.profile_at(30.0).lower == 1.0


@pytest.mark.parametrize("rest", [2.0**-53, 1e-15, 1e-12])
def test_step_that_reveals_almost_everything_is_enclosed(rest: float) -> None:
    """A composition is enclosed if one step reveals everything except with probability `rest`.

    After rounding, the law of that step may have no finite losses left.
    """
    for other in (pure_dp(20.0), laplace(1.0)):
        curve = discretised(composed(approximate_dp(0.4, 1 - rest), repeated(other, 2))).add
        delta = curve.profile_at(0.5)
        assert 1 - rest - 1e-14 <= delta.lower <= 1
        assert delta.upper >= 1 - rest
        assert curve.type_two_error(np.array([0.5])).upper == 0


def test_mix_lies_between_its_parts_and_basic_composition() -> None:
    curve, rates = discretised(MIX).add, np.array([1e-6, 0.01, 0.3, 0.95])
    for part in (repeated(pure_dp(0.3), 3), repeated(laplace(2.0), 4), gaussian(2.0)):
        assert (
            curve.power(rates).upper >= pair(built(part), "discretised", options=COARSE).add.power(rates).lower
        ).all()
    # 3 * 0.3 + 4 / 2 nats of pure DP in addition to the Gaussian step.
    basic = discretised(composed(pure_dp(2.9), gaussian(2.0))).add
    assert (curve.power(rates).lower <= basic.power(rates).upper).all()
    assert curve.epsilon(1e-5).lower <= basic.epsilon(1e-5).upper


def test_losses_out_of_range_give_wide_valid_enclosures() -> None:
    spec = composed(gaussian(0.02), gaussian(0.02))
    found, exact, generator = discretised(spec), pair(built(spec), "closed_form"), random.Random(1)
    _agree(found.add, exact.add, generator)
    _agree(found.remove, exact.remove, generator)


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_upper_bound_is_never_below_smallest_representable_value(direction: str) -> None:
    # Delta is e^-3545: lattices lose the masses on the way there, and must not claim less.
    spec = built(gaussian(14.55329896824783))
    lattice, closed = (pair(spec, method, options=COARSE) for method in ("discretised", "closed_form"))
    read, exact = (getattr(curves, direction).profile_at(5.778) for curves in (lattice, closed))
    ends = (read.log_lower, read.log_upper, exact.log_lower, exact.log_upper)
    assert None not in ends
    assert ends[0] <= ends[3]
    assert ends[2] <= ends[1]


def test_epsilon_far_from_typical_losses_matches_convolution() -> None:
    """Four steps of four records each at rate 0.01: nearly all losses are close to 0, and epsilon is far from 0.

    The oracle is a rounded convolution of the losses.
    """
    shifts, step = np.arange(5), 2.0**-11
    weights = binom.pmf(shifts, 4, 0.01)
    x = np.linspace(-9.0, 14.0, 400_001)
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    ratio = np.exp(np.outer(x, shifts) - 0.5 * shifts**2) @ weights
    cells = np.round(np.log(ratio) / step).astype(np.intp)
    law = np.bincount(cells - cells.min(), weights=density * ratio)
    total = irfft(rfft(law, 2**19) ** 4, 2**19)
    losses = (np.arange(len(total)) + 4 * cells.min()) * step

    def profile(epsilon: float) -> float:
        return float((total * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum())

    root = brentq(lambda epsilon: math.log(profile(epsilon) / 1e-5), 0.5, 5.0)
    run = DpSgd(noise_multiplier=1.0, sample_rate=0.01, steps=4)
    options = EngineOptions(relative_tolerance=1e-3)
    found = pair(run, "discretised", Neighbours(records=4), options).add.epsilon(1e-5)
    assert found.relative_width() < 2e-3
    assert found.lower - 2e-4 < root < found.upper + 2e-4


@sample_of(3)
@pytest.mark.parametrize("seed", range(6))
def test_inexpensive_upper_bounds_exceed_searched_values(seed: int) -> None:
    """Two inexpensive upper bounds of epsilon are at least the searched value, in both directions.

    They are Markov's inequality for the upper lattice law, and the profile on the first lattice.
    """
    chosen = random.Random(seed)
    step = sampled(chosen.uniform(0.05, 0.9), laplace(chosen.uniform(0.5, 5.0)))
    parts = [repeated(step, chosen.randint(2, 60)), *([approximate_dp(0.3, 1e-4)] * (seed % 2))]
    curves = discretised(composed(*parts))
    for direction in (curves.add, curves.remove):
        for delta in (1e-2, 1e-6, 1e-12):
            assert direction.epsilon_cap(delta) >= direction.epsilon(delta).lower
        for epsilon in (0.0, 0.4, 2.0):
            assert direction.profile_cap(epsilon) >= direction.profile_at(epsilon).lower


@pytest.mark.parametrize("seed", range(4))
def test_profile_at_both_bounds_of_epsilon_encloses_delta(seed: int) -> None:
    """The profiles at the two bounds of epsilon(delta) lie on either side of delta, wherever the search ends."""
    chosen = random.Random(seed)
    curve = discretised(repeated(sampled(chosen.uniform(0.05, 0.9), laplace(chosen.uniform(0.5, 5.0))), 20)).add
    for delta in (1e-1, 1e-3, 1e-8):
        epsilon = curve.epsilon(delta)
        if epsilon.upper == 0:
            continue
        assert epsilon.relative_width() < 1e-3
        assert curve.profile_at(epsilon.lower * (1 - 1e-9)).upper >= delta
        assert curve.profile_at(epsilon.upper * (1 + 1e-9)).lower <= delta


@pytest.mark.parametrize("seed", range(4))
def test_transform_powers_are_within_error_bound(seed: int) -> None:
    """The composed masses of a lattice law agree with a direct convolution of the same tilted masses, within their
    bound.
    """
    chosen = random.Random(seed)
    step, count = 2.0**-6, chosen.randint(2, 40)
    curve = pair(built(sampled(0.3, laplace(1.0)))).add
    upper, _ = bracketing_laws(curve, curve.reversed(), (), Lattice(step, 0.0, -70, 70))
    laws, tilt = (CountedLaw(upper, count),), chosen.uniform(-1.0, 3.0)
    chosen_window = window(laws, tilt, step)
    assert chosen_window is not None
    line = ComposedLattice(laws, tilt, step, chosen_window)
    weights = upper.masses * np.exp(tilt * upper.losses(step))
    weights /= weights.sum()
    direct = np.ones(1)
    for _ in range(count):
        direct = np.convolve(direct, weights)
    first = count * upper.first
    rate = abs(tilt) + 0.5
    beyond = [direct[max(k + 1 - first, 0) :] for k in range(line.low, line.high + 1)]
    kept = np.array([part @ np.exp(-rate * step * np.arange(1, len(part) + 1)) for part in beyond])
    assert np.abs(line.above(rate) - kept).max() <= line.error(rate) + line.sum_rounding(rate) + 1e-13


@pytest.mark.parametrize("seed", range(4))
def test_initial_epsilon_bound_holds_for_any_number_of_steps(seed: int) -> None:
    """The first upper bound of epsilon is either valid or infinite, from one step to 10^18 steps."""
    random = np.random.default_rng(seed)
    tells = 10.0 ** -random.uniform(1, 12)
    parts = [built(approximate_dp(random.uniform(0.1, 2.0), tells)), built(laplace(random.uniform(1.0, 9.0)))]
    steps = [step for part in parts for step, _ in part.elementary_steps()]
    for exponent in np.concatenate([[0.0], random.uniform(0, 18, 6), [18.0]]):
        count = int(10.0**exponent)
        run = LatticeRun.build(
            tuple(LatticeStep(*_directions(step), step.loss_atoms(), count) for step in steps), None, 0.01, -60.0
        )
        assert run is not None
        lacking = 10.0 ** random.uniform(-14, 2)
        upper = tuple(
            replace(one, law=replace(one.law, log_slack_profile=one.law.log_slack_profile + lacking))
            for one in run.upper
        )
        for laws in (run.upper, upper):
            for delta in (1e-300, 0.5 * tells, 0.9):
                cap = replace(run, upper=laws).epsilon_cap(delta)
                assert cap >= max(step.curves().add.epsilon(delta).lower for step in steps)
                surely = -math.expm1(count * math.log1p(-tells))
                assert math.isinf(cap) or surely <= delta * (1 + 1e-9)


def _directions(step: AbstractStep) -> tuple[AbstractTradeOff, AbstractTradeOff]:
    curves = step.curves()
    return curves.add, curves.remove


@sample_of(1)
@pytest.mark.parametrize("seed", range(3))
def test_evicted_sums_are_recomputed_identically(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recomputed sums are equal to the last bit, and no more than the limit is cached."""
    generator = np.random.default_rng([20261203, seed])
    runs = [laplace(generator.uniform(1, 4)), sampled(0.1, laplace(generator.uniform(0.5, 2))), pure_dp(0.3)]
    spec = composed(*(repeated(run, int(generator.integers(2, 9))) for run in runs))
    rates, levels = 10.0 ** generator.uniform(-6, -0.3, 3), generator.uniform(0, 2, 3)
    found: list[list[bytes]] = []
    for kept in (sums.KEPT_BYTES, 100_000, 0):
        monkeypatch.setattr(sums, "KEPT_BYTES", kept)
        read: list[bytes] = []
        for curve in (discretised(spec).add, discretised(spec).remove):
            points = curve.points(rates)
            for ends in (points.power, points.type_two_error, curve.profile(levels)):
                read += [ends.lower.tobytes(), ends.upper.tobytes()]
            assert sums.RECENTLY_USED.total <= max(kept, 40 * 2**20)
        found.append(read)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("seed", range(6))
def test_bound_near_full_revelation_holds_without_a_composition(seed: int) -> None:
    """1 - delta of runs of randomised responses is a binomial sum, which the bound without a composition exceeds."""
    random = np.random.default_rng([32, seed])
    epsilon, count = float(random.uniform(0.5, 3.0)), int(random.integers(5, 3000))
    pairs = discretised(repeated(pure_dp(epsilon), count))
    for curve in (pairs.add, pairs.remove):
        for at in (0.0, float(random.uniform(0, 0.3)) * count * epsilon):
            right = np.arange(count + 1)
            logs = binom.logpmf(right, count, 1 / (1 + math.exp(epsilon)))
            rest = float(np.exp(logs + np.minimum(epsilon * (2 * right - count), at)).sum())
            found = curve.profile_at(at)
            assert found.lower <= 1 - rest * (1 - 1e-10)
            assert found.upper >= 1 - rest * (1 + 1e-10)
            assert found.relative_width() <= 1e-3


def test_memory_of_all_runs_together_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs at once keep no more cells than allowed, and answers stay the same when composed laws are released."""
    specs = [repeated(laplace(10.0 + index), 300) for index in range(4)]
    deltas = (1e-3, 1e-6)
    expected = [[discretised(spec).add.epsilon(delta) for delta in deltas] for spec in specs]
    most = 40_000
    monkeypatch.setattr(runs, "ALL_KEPT_CELLS", most)
    curves = [discretised(spec).add for spec in specs]
    largest = 0
    for delta, column in zip(deltas, zip(*expected, strict=True), strict=True):
        for curve, value in zip(curves, column, strict=True):
            assert curve.epsilon(delta) == value
            largest = max(largest, runs.kept_cells())
    assert 0 < largest <= most
