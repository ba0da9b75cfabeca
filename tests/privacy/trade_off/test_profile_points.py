"""Points of a curve at many rates from its profile, against exact points and proofs of one rate by all thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.combinators.profile_points import proved_error, proved_points, proved_power


def profile(one: FloatArray, other: FloatArray, c: FloatArray) -> FloatArray:
    """Return sum_i (one_i - e^c other_i)_+ at the thresholds c, without cancellation."""
    with np.errstate(divide="ignore"):
        loss = np.log(one / other)
    return (np.where(loss > c[:, None], one * -np.expm1(np.minimum(c[:, None] - loss, 0.0)), 0.0)).sum(axis=1)


@pytest.mark.parametrize("seed", range(10))
def test_many_rates_have_the_bounds_of_single_rates(seed: int) -> None:
    random = np.random.default_rng([21, seed])
    losses = np.sort(random.normal(0.0, random.uniform(0.05, 3.0), 30))[::-1]
    absent = random.dirichlet(np.ones(30))
    present = absent * np.exp(losses)
    present /= present.sum()
    half = np.linspace(0.0, float(np.abs(np.log(present / absent)).max()) + 1.0, int(random.integers(100, 300)))
    c = np.concatenate([-half[:0:-1], half])
    width = 10.0 ** random.uniform(-12, -2)
    with np.errstate(divide="ignore"):
        ends, swapped_ends = (
            (
                np.log(each * (1 - width * random.uniform())),
                np.log(np.minimum(each * (1 + width * random.uniform()), 1)),
            )
            for each in (profile(present, absent, c), profile(absent, present, c))
        )
    small = 10.0 ** random.uniform(-15, -0.31, 100)
    alpha = np.concatenate([small, 1 - small])
    powers, errors = proved_points(alpha, c, ends, swapped_ends)
    rates, steps = (np.concatenate([[0.0], np.cumsum(each)]) for each in (absent, present))
    missed = np.concatenate([np.cumsum(present[::-1])[::-1], [0.0]])
    for rate, power, error in zip(alpha.tolist(), powers, errors, strict=True):
        assert power[0] * (1 - 1e-13) <= np.interp(rate, rates, steps) <= power[1] * (1 + 1e-13)
        assert error[0] - 1e-15 <= np.interp(rate, rates, missed) <= error[1] + 1e-15
        single = proved_power(rate, c, *ends)[:2], proved_error(1 - rate, c, *swapped_ends)[:2]
        # Of both numbers, the one next to 1 follows from the other one.
        found, expected = (power, single[0]) if power[1] < 0.5 else (error, single[1])
        assert found[0] >= expected[0] * (1 - 1e-9)
        assert found[1] <= expected[1] * (1 + 1e-9)


def test_profiles_without_information_end_with_the_work() -> None:
    c = np.linspace(-3.0, 3.0, 601)
    nothing = np.full_like(c, -np.inf), np.zeros_like(c)
    alpha = np.linspace(1e-3, 0.999, 20_000)
    with at_most(2e5) as work:
        powers, errors = proved_points(alpha, c, nothing, nothing)
        assert work.done <= 3e5
    assert (powers[:, 0] <= alpha).all()
    assert (powers[:, 1] >= alpha).all()
    assert (errors[:, 0] <= 1 - alpha).all()
