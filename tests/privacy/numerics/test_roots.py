"""Roots of functions with known roots: steep, flat, and at the endpoints of their brackets."""

from __future__ import annotations

import numpy as np
import pytest

from service.privacy.numerics.roots import (
    bisected,
    bracketed_roots,
    falling_roots,
    many_bisected,
    sectioned,
)

ROOTS = np.array([1e-12, 1e-3, 0.3, 0.5, 0.999, 1.0 - 1e-12])
POWERS = (1, 3, 9)


@pytest.mark.parametrize("power", POWERS)
def test_bracketed_roots_of_odd_powers_are_found(power: int) -> None:
    found = bracketed_roots(lambda x: (x - ROOTS) ** power, np.zeros_like(ROOTS), np.ones_like(ROOTS))
    # A power of the distance underflows to 0 near the root, which makes the point a root of the computed function.
    assert np.abs(found - ROOTS).max() <= 2.0**-50 + (0 if power < 9 else 1e-34)


def test_bracketed_roots_of_steep_functions_are_found() -> None:
    places = np.linspace(0.05, 0.95, 19)
    found = bracketed_roots(lambda x: np.tanh(1e6 * (x - places)), np.zeros(19), np.ones(19))
    assert np.abs(found - places).max() <= 2.0**-50


def test_root_without_sign_change_is_an_endpoint() -> None:
    found = bracketed_roots(lambda x: x + 1.0, np.zeros(3), np.ones(3))
    assert set(found.tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("threshold", [1e-300, 0.25, 1 - 2.0**-53])
def test_bisection_keeps_threshold_inside(threshold: float) -> None:
    low, high = bisected(lambda x: x >= threshold, 0.0, 1.0, 60)
    assert low < threshold <= high
    assert high - low <= 2.0**-52
    falling, rising = bisected(lambda x: x <= threshold, 1.0, 0.0, 60)
    assert rising <= threshold < falling or falling == 1.0


def test_batched_bisection_equals_single_bisection() -> None:
    places = np.linspace(0.1, 0.9, 7)
    low, high = many_bisected(lambda x: x >= places, np.zeros(7), np.ones(7), 30)
    for index, place in enumerate(places):
        assert bisected(lambda x, place=place: x >= place, 0.0, 1.0, 30) == (low[index], high[index])


def test_sectioning_brackets_first_points_of_conditions() -> None:
    places = np.array([1e-9, 1 / 3, 0.75, 2.0, -1.0])
    low, high = sectioned(lambda x: x >= places[:, None], np.zeros(5), np.ones(5), 9)
    assert ((low < places) & (places <= high))[:3].all()
    assert (high - low <= 2.0**-52)[:3].all()
    assert high[3] == np.inf
    assert low[4] == high[4] == 0.0
    low, high = sectioned(lambda x: x >= places[:3, None], np.zeros(3), np.ones(3), 30, relative=1e-3, sections=9)
    assert ((low < places[:3]) & (places[:3] <= high) & (high <= low * 1.002)).all()


def test_falling_roots_and_slopes_are_found() -> None:
    rates = np.array([0.5, 2.0, 20.0])
    roots = np.array([0.1, 0.5, 0.9])

    def falling(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(-rates * x) - np.exp(-rates * roots), -rates * np.exp(-rates * x)

    found, slopes = falling_roots(falling, falling(np.zeros(3))[0], falling(np.ones(3))[0], 1e-16)
    assert found == pytest.approx(roots, rel=1e-7)
    assert slopes == pytest.approx(falling(roots)[1], rel=1e-6)
