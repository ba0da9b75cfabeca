"""Long lists of thresholds on contours: limited memory, and the bounds of short lists."""

from __future__ import annotations

import tracemalloc

import numpy as np

from service.privacy.composition.planning import choose
from tests.privacy.cases import built, dpsgd


def test_long_lists_of_thresholds_need_limited_memory() -> None:
    """Curves of thousands of points beside a step of many losses need hundreds of thousands of thresholds at once."""
    curve = choose.pair(built(dpsgd(1.0, 0.01, 300))).add
    epsilons = np.linspace(-2.0, 6.0, 400_000)
    curve.profile(epsilons[:10])
    tracemalloc.start()
    profile = curve.profile(epsilons)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6
    some = slice(None, None, 9973)
    few = curve.profile(epsilons[some])
    assert (profile.lower[some] <= few.upper).all()
    assert (few.lower <= profile.upper[some]).all()
