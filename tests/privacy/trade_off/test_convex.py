"""Lower bounds of minima of convex functions, against functions with known minima."""

from __future__ import annotations

import numpy as np
import pytest

from service.privacy.trade_off.enclosed.convex import convex_minimum, minimiser

MARGIN = 1 + 1e-12


@pytest.mark.parametrize("seed", range(40))
def test_bound_is_below_minimum_of_random_polygons(seed: int) -> None:
    """The bound is at most the minimum of a random polygon.

    The polygon is the maximum of random lines, which is smallest at a corner. Enclosures are widened at random.
    """
    random = np.random.default_rng(seed)
    x = np.sort(random.uniform(-2.0, 2.0, (5, 9)), axis=1)
    slopes, offsets = random.normal(0.0, 2.0, 6), random.normal(0.0, 1.0, 6)
    slopes[:2] = -3.0, 3.0

    def polygon(at: np.ndarray) -> np.ndarray:
        return np.max(slopes * at[..., None] + offsets, axis=-1)

    one, other = np.meshgrid(range(6), range(6))
    crossed = slopes[one] != slopes[other]
    corners = (offsets[other] - offsets[one])[crossed] / (slopes[one] - slopes[other])[crossed]
    truth = float(polygon(corners).min())
    width = 10.0 ** random.uniform(-9, -1)
    low, high = (polygon(x) + side * random.uniform(0, width, x.shape) for side in (-1, 1))
    bound = convex_minimum(x, low, high, MARGIN)
    assert (bound <= truth).all()
    left, right = minimiser(x, low, high)
    best = corners[np.argmin(polygon(corners))]
    assert (left <= best).all()
    assert (best <= right).all()


def test_kink_inside_a_cell_loses_no_accuracy() -> None:
    x = np.array([-3.0, -2.0, -1.0, 0.5, 1.5, 2.5])
    value = np.maximum(-2 * x, 3 * x)
    assert convex_minimum(x, value, value, 1.0) == pytest.approx(0.0, abs=1e-14)


def test_bound_is_trivial_for_monotone_or_coinciding_points() -> None:
    x = np.arange(5.0)
    assert convex_minimum(x, x, x, MARGIN) == -np.inf
    assert convex_minimum(-x[::-1], -x, -x, MARGIN) == -np.inf
    assert convex_minimum(np.zeros(5), (x - 2) ** 2, (x - 2) ** 2, MARGIN) == -np.inf
    assert convex_minimum(x, np.full(5, np.nan), np.full(5, np.nan), MARGIN) == -np.inf
