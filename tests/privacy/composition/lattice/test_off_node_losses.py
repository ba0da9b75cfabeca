"""Two-point steps with lattices, and runs of two small-noise steps, against 30 digits of their laws."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.lattice.law import LatticeLaw
from service.privacy.composition.lattice.off_nodes import OffNodeLosses
from service.privacy.composition.lattice.windows import ComposedLattice, CountedLaw, window
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import TwoPointPart
from tests.privacy.cases import built, dpsgd, laplace, sampled

OPTIONS = EngineOptions(relative_tolerance=1e-6)
WIDEST = 2e-6

Tails = Callable[[Any], tuple[Any, ...]]
"""P0(L > t), P1(L > t), P0(L <= t), P1(L <= t)."""


def sampled_gaussian_tails(sigma: float, rate: float) -> Tails:
    s, p = mpf(sigma), mpf(rate)

    def tails(t: Any) -> tuple[Any, ...]:
        rest = mpmath.expm1(t) + p
        if rest <= 0:
            return mpf(1), mpf(1), mpf(0), mpf(0)
        y = s * mpmath.log(rest / p) + 1 / (2 * s)
        above, below, moved = mpmath.ncdf(-y), mpmath.ncdf(y), y - 1 / s
        return (
            above,
            (1 - p) * above + p * mpmath.ncdf(-moved),
            below,
            (1 - p) * below + p * mpmath.ncdf(moved),
        )

    return tails


def laplace_tails(scale: float, rate: float) -> Tails:
    mu, p = 1 / mpf(scale), mpf(rate)
    largest, smallest = (mpmath.log1p(p * mpmath.expm1(sign * mu)) for sign in (1, -1))

    def tails(t: Any) -> tuple[Any, ...]:
        if t >= largest:
            return mpf(0), mpf(0), mpf(1), mpf(1)
        if t < smallest:
            return mpf(1), mpf(1), mpf(0), mpf(0)
        b = mpmath.log((mpmath.expm1(t) + p) / p)
        above, moved = mpmath.exp(-(b + mu) / 2) / 2, mpmath.exp((b - mu) / 2) / 2
        return above, (1 - p) * above + p * (1 - moved), 1 - above, (1 - p) * (1 - above) + p * moved

    return tails


def mixed(rest: Tails, steps: list[tuple[float, float, int]]) -> Tails:
    """Return tails of `rest` with (epsilon, delta, count) steps, given that none of these reveals everything."""
    found = [(mpf(0), mpf(1))]
    for epsilon, _, count in steps:
        high = 1 / (1 + mpmath.exp(-mpf(epsilon)))
        own = [
            ((count - 2 * k) * mpf(epsilon), mpmath.binomial(count, k) * high ** (count - k) * (1 - high) ** k)
            for k in range(count + 1)
        ]
        found = [(a + b, p * q) for a, p in found for b, q in own]

    def tails(t: Any) -> tuple[Any, ...]:
        rows = [(shift, mass, rest(t - shift)) for shift, mass in found]
        return tuple(
            mpmath.fsum(mass * row[k] * (mpmath.exp(-shift) if k % 2 == 0 else 1) for shift, mass, row in rows)
            for k in range(4)
        )

    return tails


def twice(sigma: float, rate: float) -> Tails:
    """Return tails of two equal sampled Gaussian steps.

    The first step is integrated by Gauss-Legendre panels, shorter near the point where the second step alone decides.
    """
    one, s, p = sampled_gaussian_tails(sigma, rate), mpf(sigma), mpf(rate)
    inner, shares = np.polynomial.legendre.leggauss(20)

    def tails(t: Any) -> tuple[Any, ...]:
        place = float(s * mpmath.log((mpmath.expm1(t) + p) / p) + 1 / (2 * s))
        edges = np.arange(-11.0, 12 + 1 / sigma, 0.25)
        edges = np.unique(np.concatenate([edges, *(place + sign * 0.5 ** np.arange(2.0, 26.0) for sign in (-1, 1))]))
        sums = [mpf(0)] * 4
        for low, high in pairwise(edges.tolist()):
            for x, share in zip(inner.tolist(), shares.tolist(), strict=True):
                y = mpf(low) + mpf(high - low) * (1 + mpf(x)) / 2
                loss = mpmath.log1p(p * mpmath.expm1(y / s - 1 / (2 * s * s)))
                weight = mpf(share) * mpf(high - low) / 2 * mpmath.npdf(y)
                row = one(t - loss)
                sums = [sums[k] + weight * row[k] * (mpmath.exp(loss) if k % 2 else 1) for k in range(4)]
        return tuple(sums)

    return tails


def check(spec: dict[str, Any], tails: Tails, tells: Any, c: float, widest: float) -> None:
    """Check all quantities of a mechanism near a threshold `c` of the finite losses.

    `tails` are the exact tails of the loss, `tells` is the mass of either hypothesis outside the other, and `widest`
    limits relative widths.
    """
    with mpmath.workdps(32):
        a0, a1, b0, b1 = tails(mpf(c))
        kept, k = 1 - tells, mpmath.exp(mpf(c))
        add, remove = (getattr(pair(built(spec), "discretised", options=OPTIONS), name) for name in ("add", "remove"))
        contains(add.profile_at(c), tells + kept * (a1 - k * a0), widest)
        contains(remove.profile_at(-c), tells + kept * (b0 - b1 / k), widest)
        for curve, alpha, power, error, slope in (
            (add, kept * a0, tells + kept * a1, kept * b1, k),
            (remove, kept * b1, tells + kept * b0, kept * a0, 1 / k),
        ):
            rate = float(alpha)
            if not 1e-250 < rate < 1:
                continue
            # At the nearest double the power is off by at most its slope on either side; c lies between the slopes.
            off = abs(mpf(rate) - alpha) * slope * 2 + abs(mpf(rate) - alpha)
            points = curve.points(np.array([rate]))
            contains(points.power.at(0, curve.evidence), power, widest, off)
            contains(points.type_two_error.at(0, curve.evidence), error, widest, off)
        for curve, delta, epsilon in ((add, a1 - k * a0, c), (remove, b0 - b1 / k, -c)):
            total = tells + kept * delta
            if epsilon > 0 and delta > 1e-12:
                found = curve.epsilon(float(total))
                assert found.lower <= epsilon * (1 + 1e-12) + 1e-11
                assert found.upper >= epsilon * (1 - 1e-12) - 1e-11
                assert found.relative_width() <= widest


def contains(found: Enclosure, truth: Any, widest: float, off: Any = 0) -> None:
    assert mpf(found.lower) <= truth + off
    assert truth - off <= mpf(found.upper)
    assert found.relative_width() <= widest


def test_one_step_with_two_point_steps_matches_tails() -> None:
    random = np.random.default_rng(71)
    for kind in range(3):
        rate, noise = float(10 ** random.uniform(-3, -0.3)), float(10 ** random.uniform(-0.4, 0.8))
        rest = [sampled(rate, laplace(noise)), laplace(noise), dpsgd(noise, rate, 1)][kind]
        known = [laplace_tails(noise, rate), laplace_tails(noise, 1.0), sampled_gaussian_tails(noise, rate)][kind]
        steps = [
            (float(10 ** random.uniform(-2, 0.3)), float(random.choice((0.0, 1e-7))), int(random.integers(1, 7)))
            for _ in range(int(random.integers(1, 3)))
        ]
        parts = [
            {"type": "repeated", "mechanism": {"type": "approximate_dp", "epsilon": e, "delta": d}, "steps": n}
            for e, d, n in steps
        ]
        spread = math.sqrt(sum(n * e * e for e, _, n in steps))
        with mpmath.workdps(32):
            tells = -mpmath.expm1(mpmath.fsum(n * mpmath.log1p(-mpf(d)) for _, d, n in steps))
            check(
                {"type": "composed", "mechanisms": [rest, *parts]},
                mixed(known, steps),
                tells,
                spread * float(random.uniform(-1.5, 1.5)),
                WIDEST,
            )


@pytest.mark.parametrize("seed", range(1))
def test_two_equal_steps_of_small_noise_match_quadrature(seed: int) -> None:
    random = np.random.default_rng([73, seed])
    noise, rate = float(random.uniform(0.3, 0.6)), float(10 ** random.uniform(-3, -1))
    with mpmath.workdps(32):
        check(dpsgd(noise, rate, 2), twice(noise, rate), mpf(0), float(random.uniform(0.5, 6)), WIDEST)


@pytest.mark.parametrize("theta", [-1.5, 0.4, 3.0])
def test_sums_between_nodes_match_direct_sums(theta: float) -> None:
    random = np.random.default_rng(79)
    for step in (0.3, 0.013):
        masses = random.uniform(0, 1, 30)
        law = LatticeLaw(-12, 0.001, masses / masses.sum(), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        laws = (CountedLaw(law, 2),)
        chosen = window(laws, theta, step)
        off_nodes = OffNodeLosses.of([(TwoPointPart(float(random.uniform(0.01, 2)), 0.0), n) for n in (1, 3)])
        assert chosen is not None
        assert off_nodes is not None
        line = ComposedLattice(laws, theta, step, chosen, off_nodes)
        both = np.convolve(law.masses, law.masses)
        losses = ((np.arange(len(both)) - 24) * step)[:, None] + off_nodes.losses + 2 * law.offset
        weights = both[:, None] * np.exp(off_nodes.log_masses + theta * losses - line.value)
        for rate in (0.3, 2.5):
            gaps = losses.ravel() - line.thresholds[:, None]
            sums = [
                (weights.ravel() * np.exp(-rate * np.abs(gaps)) * side).sum(axis=1) for side in (gaps > 0, gaps <= 0)
            ]
            assert line.above(rate) == pytest.approx(sums[0], rel=1e-9, abs=line.error(rate) + 1e-14)
            assert line.below(rate) == pytest.approx(sums[1], rel=1e-9, abs=line.error(rate) + 1e-14)
