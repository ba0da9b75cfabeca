"""Runs of steps with listed losses that are large, or so many that outermost losses have no mass left."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.atom_sums import total_law
from service.privacy.trade_off.atomic_law import AtomicLaw, three_atoms
from service.privacy.trade_off.atoms import AtomsTradeOff
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
    """Epsilon at delta 0 is the largest loss of the run, however small its mass is."""
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
