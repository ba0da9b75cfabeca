"""Delta of both directions is the larger of the two, although usually only one direction is evaluated."""

from __future__ import annotations

import math

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled

SEED = 20261123


def test_delta_of_both_is_the_larger() -> None:
    random, alone = np.random.default_rng(SEED), 0
    for index in range(30):
        noise, rate = math.exp(random.uniform(-1, 2)), math.exp(random.uniform(-6, -0.1))
        pair = choose.pair(built(sampled(rate, gaussian(noise) if index % 2 else laplace(noise))))
        both = pair.both
        assert isinstance(both, Symmetrised)
        top = both.epsilon(1e-8).upper
        epsilons = random.permutation(np.concatenate([np.linspace(-1, 1.2 * top, 9), [0.0, top]]))
        found = both.profile(epsilons)
        ends = [pair.add.profile(epsilons), pair.remove.profile(epsilons)]
        lower, upper = (np.maximum(*(getattr(each, end) for each in ends)) for end in ("lower", "upper"))
        assert np.all((found.lower == lower) & (found.upper <= upper)), (noise, rate)
        assert np.all(found.lower <= found.upper), (noise, rate)
        alone += bool(np.all(ends[1].upper[epsilons > 0] <= ends[0].lower[epsilons > 0]))
        for place in (0, 5):
            single = both.profile_at(float(epsilons[place]))
            assert single.lower <= found.upper[place], (noise, rate)
            assert found.lower[place] <= single.upper, (noise, rate)
    assert alone >= 10


@pytest.mark.parametrize("noise", [0.7, 1.3])
def test_much_smaller_direction_is_not_evaluated(noise: float) -> None:
    """The direction with the much smaller delta is not evaluated.

    Without the record a loss is at most -steps ln(1 - rate). Near that limit, delta is far below that of the other
    direction, and no contour is narrow.
    """
    pair = choose.pair(built(dpsgd(noise, 0.01, 1000)))
    top = pair.both.epsilon(1e-5).upper
    found = pair.both.profile(np.linspace(0, 2 * top, 21))
    assert pair.second_uses == 0
    assert np.all(found.upper - found.lower <= 1e-6 * found.upper)
    assert pair.both.profile_at(1.8 * top).relative_width() <= 1e-6
    assert pair.second_uses == 0


def test_singular_mass_is_included() -> None:
    leak = {"type": "approximate_dp", "epsilon": 0.5, "delta": 1e-3}
    pair = choose.pair(built({"type": "composed", "mechanisms": [leak, dpsgd(1.0, 0.01, 100)]}))
    assert np.all(pair.both.profile(np.array([5.0, 1.0, 50.0])).lower >= 0.999e-3)
