"""Steps with listed losses: cumulants and contour values against many digits, and runs beside Gaussian steps."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.composition.summands.atoms import AtomParts, AtomsOnContour, AtomSteps
from service.privacy.mechanisms.discrete.discrete_gaussian import DiscreteGaussianStep
from service.privacy.mechanisms.discrete.discrete_laplace import DiscreteLaplaceStep
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.atomic_law import AtomicLaw, sampled_law, three_atoms
from tests.privacy.cases import built, dpsgd, gaussian

mp: Any = mpmath
LAWS: tuple[AtomicLaw, ...] = (
    three_atoms(0.7, math.log(0.3), math.log(0.7)),
    three_atoms(1e-6, math.log(0.9), math.log(0.1)),
    three_atoms(30.0, math.log(0.5), math.log(0.5)),
    DiscreteLaplaceStep(scale=3.0, shift=5).atomic_law(),
    DiscreteGaussianStep(sigma=4.0, shift=2).atomic_law(),
    sampled_law(DiscreteLaplaceStep(scale=2.0, shift=3).atomic_law(), 0.1),
)


def moment(law: AtomicLaw, z: Any) -> Any:
    terms = zip(law.log_absent.tolist(), law.losses.tolist(), strict=True)
    return mp.fsum(mp.exp(mp.mpf(log) + z * mp.mpf(loss)) for log, loss in terms)


@pytest.mark.parametrize("law", LAWS)
def test_cumulants_enclose_many_digits(law: AtomicLaw) -> None:
    count = 50
    tilts = np.array([-2.0, -0.3, 0.0, 0.2, 0.5, 0.9, 1.0, 1.001, 3.0])
    found = AtomParts((AtomSteps(law, count),)).cumulants(tilts)
    with mp.workdps(40):
        for tilt, value, error in zip(tilts.tolist(), found.value, found.error, strict=True):
            truth = count * mp.log(moment(law, mp.mpf(tilt)))
            # The listed masses differ from those of the law by at most their stated error.
            assert abs(float(truth - mp.mpf(float(value)))) <= error + count * law.mass_error
            assert error <= 1e-9 * (1 + abs(float(truth)))


@pytest.mark.parametrize("law", LAWS)
def test_values_on_contour_enclose_many_digits(law: AtomicLaw) -> None:
    count, theta, step, nodes = 20, 1.7, 0.01, 600
    line = AtomsOnContour(AtomParts((AtomSteps(law, count),)), theta)
    read = line.values(step, nodes)
    with mp.workdps(40):
        for k in (0, 1, 7, 100, 599, 600):
            ratio = moment(law, mp.mpc(theta, step * k)) / moment(law, mp.mpf(theta))
            truth = ratio**count
            off = abs(truth / mp.exp(mp.mpc(complex(read.difference[k]))) - 1) if truth != 0 else 0
            assert float(off) <= math.expm1(min(float(read.error[k]) + count * law.mass_error, 600.0))


@pytest.mark.parametrize("count", [1, 3])
def test_run_beside_gaussian_step_is_mixture_of_shifted_curves(count: int) -> None:
    """A report with few losses beside a Gaussian step has delta(e) = sum_j q_j delta_Gaussian(e - L_j).

    L_j are the losses of the report, and q_j their probabilities under H1.
    """
    report = {"type": "staircase", "epsilon": 0.8, "gamma": 0.3}
    run = {"type": "composed", "mechanisms": [{"type": "repeated", "mechanism": report, "steps": count}, gaussian(1.5)]}
    law = WorstCase().curves(built({"type": "repeated", "mechanism": report, "steps": count})).add
    masses = [(float(loss), math.exp(log)) for loss, log in zip(law.law.losses, law.law.log_present, strict=True)]  # type: ignore[attr-defined]
    alone, both = (WorstCase().curves(built(spec)).add for spec in (gaussian(1.5), run))
    for epsilon in (0.0, 1.0, 2.5):
        mixed = [math.fsum(mass * alone.profile_at(epsilon - loss).upper for loss, mass in masses)]
        found = both.profile_at(epsilon)
        assert found.lower * (1 - 1e-9) <= mixed[0] <= found.upper * (1 + 1e-9)
        assert found.upper - found.lower <= 1e-6 * found.upper


@pytest.mark.parametrize("steps", [1, 1000])
def test_run_beside_training_is_narrow(steps: int) -> None:
    report = {"type": "discrete_gaussian", "sigma": 20.0, "sensitivity": 1}
    run = [{"type": "repeated", "mechanism": report, "steps": steps}, dpsgd(1.0, 0.01, 1000)]
    found = WorstCase().curves(built({"type": "composed", "mechanisms": run})).both.epsilon(1e-5)
    assert found.upper - found.lower <= 1e-6 * found.upper
