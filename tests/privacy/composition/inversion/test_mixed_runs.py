"""Runs of mixed parts (two-point losses, Laplace and Gaussian steps) against independent computation."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.inversion import straight
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.agreement import meet
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.privacy.mixed_box import KINDS, MixedPoint, mixed_points
from tests.slow_marker import sample_of, thorough

LOOSE = EngineOptions(relative_tolerance=1e-3)


def repeated(spec: dict[str, Any], steps: int) -> dict[str, Any]:
    return {"type": "repeated", "mechanism": spec, "steps": steps}


def pure(epsilon: float) -> dict[str, Any]:
    return {"type": "pure_dp", "epsilon": epsilon}


def approximate(epsilon: float, delta: float) -> dict[str, Any]:
    return {"type": "approximate_dp", "epsilon": epsilon, "delta": delta}


def curves(*parts: dict[str, Any], method: str = "auto", options: EngineOptions = LOOSE) -> TradeOffPair:
    return pair(built({"type": "composed", "mechanisms": parts}), method, options=options)


def composed_of(*parts: dict[str, Any]) -> Any:
    return built({"type": "composed", "mechanisms": list(parts)})


def gaussian_profile(mu: Any, epsilon: Any) -> Any:
    """Return delta at `epsilon` of N(0, 1) against N(mu, 1)."""
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def atoms(steps: list[tuple[float, int]]) -> list[tuple[Any, Any]]:
    """Return (loss, H1-mass) of all outcomes of independent steps with two losses."""
    found = [(mpf(0), mpf(1))]
    for epsilon, count in steps:
        high = 1 / (1 + mpmath.exp(-mpf(epsilon)))
        own = [
            ((count - 2 * k) * mpf(epsilon), mpmath.binomial(count, k) * high ** (count - k) * (1 - high) ** k)
            for k in range(count + 1)
        ]
        found = [(a + b, p * q) for a, p in found for b, q in own]
    return found


@pytest.mark.parametrize(
    ("noise", "steps", "delta"),
    [(1.0, [(1.0, 1)], 0.0), (30.0, [(0.1, 12)], 1e-5), (0.4, [(5.0, 2), (0.3, 3)], 1e-12), (4.0, [(0.01, 30)], 0.5)],
)
def test_gaussian_and_two_point_steps_match_sum(noise: float, steps: list[tuple[float, int]], delta: float) -> None:
    """A Gaussian step beside steps with few losses: delta(eps) = D + (1 - D) sum q_j delta_gauss(eps - a_j), for all
    eps.

    D is the mass of infinite losses, q_j that of the finite loss a_j, and delta_gauss the profile of the Gaussian step.
    """
    parts = [repeated(pure(epsilon), count) if count > 1 else pure(epsilon) for epsilon, count in steps]
    found = curves(gaussian(noise), *parts, *([approximate(0.0, delta)] if delta else []))
    top = sum(epsilon * count for epsilon, count in steps)
    with mpmath.workdps(40):
        for epsilon in (-0.7 * top, 0.0, 0.3 * top, 1.1 * top + 1 / noise):
            inner = mpmath.fsum(q * gaussian_profile(1 / mpf(noise), mpf(epsilon) - a) for a, q in atoms(steps))
            truth = mpf(delta) + (1 - mpf(delta)) * inner
            for curve in (found.add, found.remove):
                read = curve.profile_at(epsilon)
                assert mpf(read.lower) <= truth <= mpf(read.upper)
                assert read.relative_width() < 1e-8


def test_steep_laplace_and_gaussian_step_match_quadrature() -> None:
    """A Laplace step of small noise beside a Gaussian step matches a quadrature.

    delta(eps) is the mean under H1 of delta_gauss(eps - L), with the loss L of the Laplace step and the profile
    delta_gauss of the Gaussian step.
    """
    scale, rate, mu = 0.3, 0.2, mpf(1) / 2
    found = curves(gaussian(2.0), sampled(rate, laplace(scale)))
    with mpmath.workdps(30):
        e, p = 1 / mpf(scale), mpf(rate)

        def part(v: Any, mass: Any, epsilon: Any) -> Any:
            w = 1 + p * mpmath.expm1(v)
            return mass * w * gaussian_profile(mu, epsilon - mpmath.log(w))

        for epsilon in (-0.4, 0.0, 0.9, 3.0):
            ends = part(-e, mpf(1) / 2, epsilon) + part(e, mpmath.exp(-e) / 2, epsilon)
            inner = mpmath.quad(
                lambda v, at=epsilon: part(v, mpmath.exp(-(v + e) / 2) / 4, at), mpmath.linspace(-e, e, 9)
            )
            read = found.add.profile_at(epsilon)
            assert mpf(read.lower) <= ends + inner <= mpf(read.upper)
            assert read.relative_width() < 1e-9


@pytest.mark.parametrize("steps", [[(1.0, 1)], [(0.2, 9), (1.3, 2)]])
def test_laplace_and_two_point_steps_match_enumeration(steps: list[tuple[float, int]]) -> None:
    """Laplace steps beside two-point steps match a sum over all losses of the two-point steps.

    Each loss shifts the thresholds of the closed form of the Laplace step.
    """
    scale = 2.0
    found = curves(laplace(scale), *(repeated(pure(epsilon), count) for epsilon, count in steps))
    e = 1 / mpf(scale)

    def tail(c: Any) -> tuple[Any, Any]:
        """Return P0 and P1 of a Laplace loss above c."""
        if c >= e:
            return mpf(0), mpf(0)
        if c < -e:
            return mpf(1), mpf(1)
        return mpmath.exp(-(c + e) / 2) / 2, 1 - mpmath.exp((c - e) / 2) / 2

    def profile(c: Any) -> Any:
        rare, often = tail(c)
        return often - mpmath.exp(c) * rare

    with mpmath.workdps(30):
        known = atoms(steps)
        for epsilon in (-1.0, 0.0, 0.4, 2.0):
            truth = mpmath.fsum(q * profile(epsilon - a) for a, q in known)
            read = found.remove.profile_at(epsilon)
            assert mpf(read.lower) <= truth <= mpf(read.upper)
            assert read.relative_width() < 1e-10
        for c in (-0.8, 0.1, 1.0):
            rate = mpmath.fsum(q * mpmath.exp(-a) * tail(c - a)[0] for a, q in known)
            power = mpmath.fsum(q * tail(c - a)[1] for a, q in known)
            if 0 < rate < 1:
                read = found.add.power_at(float(rate))
                slack = mpmath.exp(c) * abs(mpf(float(rate)) - rate) * 2
                assert mpf(read.lower) - slack <= power <= mpf(read.upper) + slack
                assert read.relative_width() < 1e-8


def test_atoms_with_weak_step_agree_with_lattice() -> None:
    """Contours agree with lattices for a run of Laplace and two-point steps beside a weak sampled Gaussian step.

    The weak step makes contours long, and the atoms make the distribution function of the loss a staircase.
    """
    weak = dpsgd(9.6, 0.0017, 44)
    found = curves(repeated(laplace(23.7), 36), repeated(pure(0.139), 45), weak, method="contour")
    other = curves(repeated(laplace(23.7), 36), repeated(pure(0.139), 45), weak, method="discretised")
    for rate in (1e-9, 0.00167, 0.3):
        read = found.add.power_at(rate)
        assert read.relative_width() < 1e-8
        assert meet(read, other.add.power_at(rate))


RANDOM = mixed_points(20, seed=2031)


def answer(point: MixedPoint, method: str = "auto", tolerance: float = 1e-6) -> Enclosure:
    options = EngineOptions(relative_tolerance=tolerance)
    return point.question.ask(pair(point.mechanism, method, options=options))


def test_most_mixed_runs_are_narrow() -> None:
    """At least 80 % of the answers to random mixed runs have a relative width of at most 1e-6.

    The runs are a part of those that the sweeps of the benchmarks measure.
    """
    widths = [answer(point).relative_width() for point in RANDOM]
    assert sum(width <= 1e-6 for width in widths) >= 0.8 * len(widths), sorted(widths)


def is_inexpensive(point: MixedPoint) -> bool:
    """Return whether lattices of the run are inexpensive: for long runs of large losses they cost seconds."""
    return sum(count for _, count in point.mechanism.elementary_steps()) <= 1000


@pytest.mark.parametrize("point", [one for one in mixed_points(40, seed=2032) if is_inexpensive(one)][:8], ids=str)
def test_contours_agree_with_lattices(point: MixedPoint) -> None:
    found = answer(point)
    assert 0 <= found.lower <= found.upper
    assert meet(found, answer(point, "discretised", 1e-2))


@pytest.mark.parametrize("point", [one for one in RANDOM if is_inexpensive(one)][:4], ids=str)
def test_directions_are_dual(point: MixedPoint) -> None:
    """Both directions of a mixed run keep delta_add(eps) = 1 - e^eps + e^eps delta_remove(-eps)."""
    found = pair(point.mechanism, "auto", options=LOOSE)
    for epsilon in (-1.5, 0.2):
        one, other = found.add.profile_at(epsilon), found.remove.profile_at(-epsilon)
        scale, slack = math.exp(epsilon), 1e-13
        assert one.lower <= 1 + scale * (other.upper - 1) + slack * (1 + scale)
        assert one.upper >= 1 + scale * (other.lower - 1) - slack * (1 + scale)


def test_mixed_box_has_every_kind() -> None:
    words = " ".join(map(str, mixed_points(60, seed=5)))
    for kind in ("dpsgd", "gaussian", "laplace", "sampled(", "pure_dp", "approximate_dp"):
        assert kind in words
    assert len(KINDS) == 6


EXTREME: tuple[tuple[dict[str, Any], ...], ...] = (
    (gaussian(1.0), pure(1e6)),
    (gaussian(1e15), pure(1e-300)),
    (gaussian(1.0), approximate(0.0, 1.0)),
    (gaussian(1.0), approximate(0.0, 0.0)),
    thorough((dpsgd(0.7, 1 - 2.0**-52, 3), pure(0.5))),
    (dpsgd(1.0, 1e-300, 10), pure(1e-3)),
    (laplace(1e15), pure(1.0)),
    (laplace(1e-4), pure(1.0), gaussian(1.0)),
    (laplace(1.0), pure(1e6)),
    (laplace(1.0), pure(1e-300), approximate(0.0, 1.0)),
    (sampled(1e-300, laplace(1.0)), pure(0.1), gaussian(5.0)),
)


@pytest.mark.parametrize("parts", EXTREME, ids=str)
def test_extreme_parameters_give_ordered_bounds(parts: tuple[dict[str, Any], ...]) -> None:
    found = curves(*parts, options=EngineOptions(relative_tolerance=1.0))
    for curve in (found.add, found.remove):
        points = curve.points(np.array([1e-12, 0.3]))
        for bounds in (points.power, points.type_two_error, curve.profile(np.array([-2.0, 0.0, 1.0]))):
            assert (bounds.lower <= bounds.upper).all()
            assert (bounds.lower >= 0).all()
            assert (bounds.upper <= 1).all()
        assert curve.epsilon(1e-6).lower >= 0


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_unbounded_contours_have_few_nodes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contours without a truncation have few nodes, although the nodes of sampled Laplace steps increase with the
    height.
    """
    generator = np.random.default_rng([20261204, seed])
    weak = [laplace(generator.uniform(1, 2)), laplace(10.0 ** generator.uniform(2, 3))]
    steps = composed_of(*weak, sampled(0.05, gaussian(10.0 ** generator.uniform(5, 7))))
    elements: list[float] = []
    made = straight.StraightContour.__init__

    def noted(self: straight.StraightContour, runs: Any, *rest: Any) -> None:
        made(self, runs, *rest)
        height = float(self.nodes * self.step[0])
        elements.append(0.0 if self.has_decayed.all() else self.nodes * runs._contour.work(height))

    monkeypatch.setattr(straight.StraightContour, "__init__", noted)
    found = pair(steps, "contour", options=LOOSE).add.power_at(10.0 ** generator.uniform(-6, -1))
    assert found.lower <= found.upper
    assert max(elements, default=0.0) <= 200_000_000
