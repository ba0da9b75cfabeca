"""Runs of steps whose losses lie on different lattices: contours beside a little noise, against exact sums."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from service.privacy.composition.planning import choose, contour_inversion
from service.privacy.composition.planning.options import DEFAULT_OPTIONS
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.discrete.discrete_gaussian import DiscreteGaussian
from service.privacy.mechanisms.discrete.discrete_laplace import DiscreteLaplace
from service.privacy.mechanisms.discrete.skellam import Skellam
from service.privacy.mechanisms.discrete.staircase import Staircase
from service.privacy.mechanisms.neighbours import ONE_ADDED
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.mechanisms.repeated import Repeated
from tests.slow_marker import sample_of


def _step(random: Generator) -> AbstractMechanism:
    size = float(10 ** random.uniform(0, 1.3))
    step = (
        DiscreteGaussian(sigma=size, sensitivity=int(random.integers(1, 4))),
        DiscreteLaplace(scale=size, sensitivity=int(random.integers(1, 4))),
        Skellam(variance=size, sensitivity=1),
        Staircase(epsilon=1 / size, gamma=float(random.uniform())),
    )[random.integers(4)]
    rate = float(10 ** random.uniform(-2, -0.3))
    return PoissonSampled(sample_rate=rate, mechanism=step) if random.uniform() < 0.3 else step


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_contours_agree_with_exact_sums(seed: int) -> None:
    random = np.random.default_rng([41, seed])
    run = Composed(mechanisms=(_step(random), _step(random), PureDp(epsilon=float(random.uniform(0.05, 1)))))
    steps = choose.steps_of(run, ONE_ADDED)
    plan = contour_inversion.listed_beside_a_little_noise(steps, DEFAULT_OPTIONS, lattices=None)
    assert plan is not None
    inverted, exact = plan.curves, choose.pair(run)
    for ours, theirs in ((inverted.add, exact.add), (inverted.remove, exact.remove)):
        for delta in (1e-2, 1e-6):
            found, known = ours.epsilon(delta), theirs.epsilon(delta)
            assert found.lower <= known.upper * (1 + 1e-14)
            assert known.lower <= found.upper * (1 + 1e-14)
        rates = np.array([1e-4, 0.5])
        power, sure = ours.points(rates).power, theirs.points(rates).power
        assert (power.lower <= sure.upper * (1 + 1e-14)).all()
        assert (sure.lower <= power.upper * (1 + 1e-14)).all()


@pytest.mark.parametrize("counts", [(1,) * 10, (200, 300, 400)])
def test_different_integer_noises_are_narrow(counts: tuple[int, ...]) -> None:
    run = Composed(
        mechanisms=tuple(
            Repeated(mechanism=DiscreteGaussian(sigma=20.0 + 1.7 * number, sensitivity=3), steps=count)
            for number, count in enumerate(counts)
        )
    )
    plan = choose.plan(run)
    assert plan.engine == "contour"
    found = plan.curves.add.epsilon(1e-6)
    assert found.upper - found.lower <= 1e-6 * found.upper
