"""Runs of steps with listed losses: few or many, small or large, on one lattice or several."""

from __future__ import annotations

import math
import random
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import fmpz_poly

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.atom_sums import total_law
from service.privacy.trade_off.atomic_law import AtomicLaw, three_atoms
from service.privacy.trade_off.atoms import AtomsTradeOff
from service.privacy.trade_off.mixture.shifted_mixture import ShiftedMixture, Shifts
from tests.privacy.cases import built


def curve_of(step: dict[str, Any], steps: int) -> AbstractTradeOff:
    run = built({"type": "repeated", "mechanism": step, "steps": steps} if steps > 1 else step)
    return choose.plan(run, "auto", Neighbours("replace_one")).curves.add


@pytest.mark.parametrize("steps", [3, 9000])
@pytest.mark.parametrize(
    "step",
    [
        {"type": "randomized_response", "epsilon": 0.1, "options": 3},
        {"type": "discrete_laplace", "scale": 30.0, "sensitivity": 1},
        {"type": "randomized_response", "epsilon": 900.0, "options": 3},
    ],
    ids=lambda step: f"{step['type']}, {step.get('epsilon', 1 / 30):.3g}",
)
def test_largest_loss_adds_up_over_steps(step: dict[str, Any], steps: int) -> None:
    """Check that epsilon at delta 0 is the largest loss of the run, however small its mass is."""
    one, run = curve_of(step, 1).epsilon(0.0), curve_of(step, steps)
    for found in (run.epsilon(0.0), run.largest_log_ratio, run.reversed().largest_log_ratio):
        assert found.lower == pytest.approx(steps * one.upper, rel=1e-9)
        assert found.lower * (1 - 1e-12) <= steps * one.upper
        assert found.upper * (1 + 1e-12) >= steps * one.lower
    assert run.epsilon(1e-320).upper * (1 + 1e-12) >= run.epsilon(1e-200).lower
    steepest, flattest = run.points(np.array([1e-320, 0.5])).log_slope.upper.tolist()
    assert steepest >= flattest


def exact_masses(law: AtomicLaw, count: int) -> list[tuple[Any, Any]]:
    """Return the masses of the sums of losses under both hypotheses, as 60-digit numbers, by repeated convolution."""
    found = {0: (mpmath.mpf(1), mpmath.mpf(1))}
    single = list(enumerate(zip(law.log_absent.tolist(), law.log_present.tolist(), strict=True)))
    for _ in range(count):
        sums: dict[int, tuple[Any, Any]] = {}
        for index, (absent, present) in found.items():
            for place, (log_absent, log_present) in single:
                known = sums.get(index + place, (mpmath.mpf(0), mpmath.mpf(0)))
                sums[index + place] = (
                    known[0] + absent * mpmath.exp(log_absent),
                    known[1] + present * mpmath.exp(log_present),
                )
        found = sums
    return list(found.values())


@pytest.mark.parametrize(("epsilon", "log_zero"), [(527.4, -0.7), (900.0, -5.0), (3431.8, -1e-3), (2.0, -0.5)])
@pytest.mark.parametrize("count", [2, 7])
def test_profiles_of_large_losses_are_narrow(epsilon: float, log_zero: float, count: int) -> None:
    law = three_atoms(epsilon, log_zero, math.log(-math.expm1(log_zero)))
    curve = AtomsTradeOff(total_law(((law, count),)))
    with mpmath.workdps(60):
        masses = exact_masses(law, count)
        for threshold in (0.0, 0.5 * epsilon, 1.5 * epsilon, (count - 0.5) * epsilon):
            exact = mpmath.fsum(max(present - mpmath.exp(threshold) * absent, 0) for absent, present in masses)
            found = curve.profile_at(threshold)
            assert found.lower <= exact * (1 + 1e-12)
            assert exact <= found.upper * (1 + 1e-12)
            assert exact < 1e-290 or found.relative_width() < 1e-8


BITS = 1_500
"""Masses are whole multiples of 2^-BITS: exact sums of products are whole numbers."""
Masses = list[tuple[Any, Any]]
"""Masses of the losses of one step under H0 and H1, from the smallest loss on."""


def exact_power(masses: list[Any], count: int) -> list[int]:
    """Return 2^BITS times the masses of a sum of `count` independent indices with the masses `masses`."""
    single = fmpz_poly([int(mass * 2**BITS) for mass in masses])
    total = single
    for bit in format(count, "b")[1:]:
        for other in (total, single)[: 1 + int(bit)]:
            total = fmpz_poly([int(product) >> BITS for product in (total * other).coeffs()])
    found = [int(mass) for mass in total.coeffs()]
    return found + [0] * (count * (len(masses) - 1) + 1 - len(found))


class ExactRun:
    """Profile of `count` equal steps whose losses are equidistant, by exact sums of whole numbers."""

    def __init__(self, masses: Masses, count: int) -> None:
        losses = [mpmath.log(present / absent) for absent, present in masses]
        self.present = exact_power([present for _, present in masses], count)
        self.smallest, self.spacing = count * losses[0], losses[1] - losses[0]

    def delta(self, epsilon: float) -> Any:
        """Return the sum of p_k (1 - e^{epsilon - L_k}) over the losses L_k above epsilon."""
        first = max(int(mpmath.floor((epsilon - self.smallest) / self.spacing)) + 1, 0)
        share = mpmath.exp(epsilon - self.smallest - first * self.spacing)
        shares, ratio = [int(share * 2**BITS)], int(mpmath.exp(-self.spacing) * 2**BITS)
        while len(shares) < len(self.present) - first:
            shares.append(shares[-1] * ratio >> BITS)
        kept = zip(self.present[first:], shares, strict=False)
        return mpmath.mpf(sum(mass * (2**BITS - share) for mass, share in kept)) / mpmath.mpf(2) ** (2 * BITS)


def laplace_masses(scale: float, sensitivity: int) -> Masses:
    ratio = mpmath.exp(-1 / mpmath.mpf(scale))
    inside = [(1 - ratio) / (1 + ratio) * ratio**x for x in range(1, sensitivity)]
    absent = [1 / (1 + ratio), *inside, ratio**sensitivity / (1 + ratio)]
    return list(zip(absent, absent[::-1], strict=True))


def response_masses(epsilon: float, options: int) -> Masses:
    true, total = mpmath.exp(mpmath.mpf(epsilon)), mpmath.exp(mpmath.mpf(epsilon)) + options - 1
    absent = [true / total, (options - 2) / total, 1 / total]
    return list(zip(absent, absent[::-1], strict=True))


def unary_masses(true_bit: float, false_bit: float) -> Masses:
    one, other = mpmath.mpf(true_bit), mpmath.mpf(false_bit)
    absent = [one * (1 - other), one * other + (1 - one) * (1 - other), other * (1 - one)]
    return list(zip(absent, absent[::-1], strict=True))


def drawn_step(chance: random.Random, kind: str) -> tuple[dict[str, Any], Masses]:
    """Return a request for a step of a kind, with its exact masses."""
    scale, sensitivity = math.exp(chance.uniform(-3, 3)), chance.choice([1, 2, 3])
    laplace: dict[str, Any] = {"type": "discrete_laplace", "scale": scale, "sensitivity": sensitivity}
    match kind:
        case "discrete_laplace":
            return laplace, laplace_masses(scale, sensitivity)
        case "randomized_response":
            options = chance.choice([3, 10, 1000])
            return {"type": kind, "epsilon": 2 / scale, "options": options}, response_masses(2 / scale, options)
        case "unary_encoding":
            true_bit, false_bit = chance.uniform(0.5, 0.99), chance.uniform(0.01, 0.49)
            return {"type": kind, "true_bit": true_bit, "false_bit": false_bit}, unary_masses(true_bit, false_bit)
        case _:
            rate = math.exp(chance.uniform(-7, -0.1))
            step = {"type": "poisson_sampled", "sample_rate": rate, "mechanism": laplace | {"sensitivity": 1}}
            kept = 1 - mpmath.mpf(rate)
            return step, [(absent, kept * absent + rate * other) for absent, other in laplace_masses(scale, 1)]


@pytest.mark.parametrize("most", [60, 3_000, pytest.param(100_000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", ["discrete_laplace", "randomized_response", "unary_encoding", "sampled"])
def test_runs_are_narrow_however_far_apart_the_hypotheses_are(kind: str, most: int) -> None:
    """Check epsilons at deltas down to 1e-300, and advantages, of few and of many steps, near and far apart."""
    chance = random.Random(f"{kind} {most}")
    with mpmath.workprec(BITS + 200):
        for _ in range(4):
            count = int(math.exp(chance.uniform(math.log(2), math.log(most))))
            step, masses = drawn_step(chance, kind)
            relation = Neighbours(
                "replace_one" if kind in ("randomized_response", "unary_encoding") else "add_or_remove_one"
            )
            run = built({"type": "repeated", "mechanism": step, "steps": count})
            curve, exact = choose.plan(run, "auto", relation).curves.add, ExactRun(masses, count)
            for delta in (1e-3, 1e-10, 1e-100, 1e-300):
                found = curve.epsilon(delta)
                assert found.upper - found.lower <= 1e-6 * found.upper
                assert found.lower == 0 or exact.delta(found.lower) >= delta * (1 - 1e-15)
                assert exact.delta(found.upper) <= delta * (1 + 1e-15)
            advantage, truth = curve.profile_at(0.0), exact.delta(0.0)
            assert advantage.lower <= truth * (1 + 1e-15)
            assert truth <= advantage.upper * (1 + 1e-15)
            assert advantage.relative_width() < 1e-6


@pytest.mark.parametrize("times", [1, 2, 7])
@pytest.mark.parametrize("counts", [(3, 4), (3_000, 2_000)])
def test_kinds_on_multiples_of_one_lattice_add_up(times: int, counts: tuple[int, int]) -> None:
    """Compare the sum of two kinds of steps with the mixture of shifted profiles of one kind."""
    first, second = (
        three_atoms(0.1, -0.9, math.log(-math.expm1(-0.9))),
        three_atoms(0.1 * times, -0.5, math.log(-math.expm1(-0.5))),
    )
    kinds = ((first, counts[0]), (second, counts[1]))
    whole, one, other = (AtomsTradeOff(total_law(each)) for each in (kinds, kinds[:1], kinds[1:]))
    assert whole.law.size <= sum(count * step for count, step in zip(counts, (2, 2 * times), strict=True)) + 1
    mixed = ShiftedMixture(one, Shifts.of_law(other.law))
    for threshold in (0.0, 1.5, 30.0, 200.0):
        found, expected = whole.profile_at(threshold), mixed.profile_at(threshold)
        assert found.lower <= expected.upper
        assert expected.lower <= found.upper
        assert found.upper < 1e-300 or found.relative_width() < 1e-8
