"""Runs whose steps all differ slightly: shared sums against integrals and against equal steps."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import math
import random

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.inversion.loss_transform import LossTransform, TransformOnContour
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps, TruncatedSampledGaussian
from service.privacy.numerics.work import at_most
from tests.slow_marker import sample_of, thorough

Phases = tuple[SampledGaussianSteps, ...]


def _schedule(
    steps: int, form: str, what: str, *, noise: float = 1.05, rate: float = 0.01, span: float = 1.1
) -> Phases:
    """Return a schedule of steps with rising noise, falling rate, or both, by a factor `span` in total.

    `what` is `noise`, `rate` or `both`. `form` is `linear`, `cosine` or `exponential` in the number of the step.
    """
    x = np.linspace(0.0, 1.0, steps)
    shapes = {"linear": x, "cosine": (1 - np.cos(math.pi * x)) / 2, "exponential": np.expm1(2 * x) / math.expm1(2)}
    factors = 1 + (span - 1) * shapes[form]
    noises = factors * noise if what != "rate" else np.full(steps, noise)
    rates = rate / factors if what != "noise" else np.full(steps, rate)
    return tuple(SampledGaussianSteps(float(a), float(b), 1) for a, b in zip(noises, rates, strict=True))


def _moment(sigma: float, rate: float, z: mpmath.mpc) -> mpmath.mpc:
    """Return the moment E0 w^z of one step by trapezoidal sums at 25 digits.

    w is the likelihood ratio. The error is about e^{-2 pi^2 sigma/h} for nodes at a distance h.
    """
    with mpmath.workdps(25):
        s, p, h = mpf(sigma), mpf(rate), mpf("0.0625")
        nodes = (k * h for k in range(-200, 400))
        return h * mpmath.fsum(
            mpmath.npdf(y) * mpmath.exp(z * mpmath.log(1 - p + p * mpmath.exp(y / s - 1 / (2 * s**2)))) for y in nodes
        )


@sample_of(2)
@pytest.mark.parametrize("tilt", [6.0, 0.3, -2.0])
def test_shared_sums_enclose_direct_integrals(tilt: float) -> None:
    """Shared sums of parts with different noise and rate enclose direct integrals.

    They give the log-moment function, its values on a contour, and the majorants of the integrand.
    """
    parts = ((0.8, 0.2, 1), (0.9, 0.003, 2), (1.0, 0.03, 1), (1.2, 1e-4, 3))
    steps = tuple(SampledGaussianSteps(*part) for part in parts)
    summand = TruncatedSampledGaussian(steps, 0.3, 80.0)
    transform = LossTransform(0.0, (summand,))
    assert summand.grid.soft is not None
    on_contour = TransformOnContour(transform, tilt)
    values = on_contour.values(3.0, 8)
    value, error = on_contour.origin()
    plain = transform.cumulants(np.array([tilt]))
    truth = mpmath.fsum(n * mpmath.log(_moment(s, p, mpf(tilt))) for s, p, n in parts)
    assert abs(mpf(value) - truth) <= error <= 1e-10
    assert abs(mpf(float(plain.value[0])) - truth) <= float(plain.error[0])
    for k in (1, 8):
        z = mpmath.mpc(tilt, 3.0 * k)
        ratio = mpmath.fprod(_moment(s, p, z) ** n for s, p, n in parts) / mpmath.exp(truth)
        computed = mpmath.exp(mpmath.mpc(complex(values.difference[k])))
        assert abs(computed - ratio) <= abs(computed) * mpmath.expm1(float(values.error[k])) + mpf(10) ** -18
        assert abs(computed) * mpmath.expm1(float(values.error[k])) < 1e-9
        bound = float(on_contour.log_majorants(np.array([3.0 * k]))[0][0])
        assert mpmath.log(abs(ratio)) <= bound + 1e-12


@pytest.mark.parametrize("remove", [False, True])
def test_equal_steps_in_many_parts_match_one_part(remove: bool) -> None:
    """320 steps in eight parts, whose rates differ by rounding only, match 320 steps in one part."""
    generator = random.Random(3)
    for _ in range(3):
        sigma, rate = generator.uniform(0.6, 3.0), 10 ** generator.uniform(-2, -0.5)
        split = tuple(SampledGaussianSteps(sigma, rate * (1 + k * 2.0**-52), 40) for k in range(8))
        many, one = (contour_pair(0.0, steps)[remove] for steps in (split, (SampledGaussianSteps(sigma, rate, 320),)))
        rates, epsilons = np.array([1e-6, 0.01, 0.5]), np.array([-0.3, 0.0, 0.2])
        for left, right in (
            (many.points(rates).power, one.points(rates).power),
            (many.profile(epsilons), one.profile(epsilons)),
        ):
            assert (left.lower <= right.upper * (1 + 1e-12)).all()
            assert (right.lower <= left.upper * (1 + 1e-12)).all()
        power = many.points(rates).power
        assert (power.upper - power.lower <= 1e-8 * power.upper).all()


@pytest.mark.parametrize(
    ("form", "what"), [thorough("linear", "noise"), thorough("cosine", "rate"), ("exponential", "both")]
)
def test_schedule_lies_between_extreme_runs_with_shared_work(form: str, what: str) -> None:
    """A schedule lies between the runs of its smallest and largest noise and rate.

    The enclosure is narrow, and takes far less work than one run for each step.
    """
    steps = _schedule(100, form, what)
    noises, rates = ([getattr(step, name) for step in steps] for name in ("noise_multiplier", "sample_rate"))
    worst = (SampledGaussianSteps(min(noises), max(rates), 100),)
    best = (SampledGaussianSteps(max(noises), min(rates), 100),)
    for remove in (False, True):
        with at_most(math.inf) as work:
            epsilon = contour_pair(0.0, steps)[remove].epsilon(1e-5)
        with at_most(math.inf) as alone:
            contour_pair(0.0, steps[:1])[remove].epsilon(1e-5)
        assert 0 < work.done < len(steps) * alone.done / 5
        assert epsilon.upper - epsilon.lower <= 1e-6 * epsilon.upper
        assert contour_pair(0.0, worst)[remove].epsilon(1e-5).upper >= epsilon.lower
        assert contour_pair(0.0, best)[remove].epsilon(1e-5).lower <= epsilon.upper
        curve = contour_pair(0.0, steps)[remove]
        power = curve.points(np.array([1e-6, 0.01])).power
        assert (power.upper - power.lower <= 1e-6 * power.upper).all()


def test_published_schedule_matches_coarse_schedule() -> None:
    """Noise rises from 1.05 by 0.001 per step, in 100 steps: epsilon agrees with that of a coarse schedule, 0.5568.

    In the coarse schedule, five steps each have their middle noise.
    """
    steps = tuple(SampledGaussianSteps(1.05 + 0.001 * i, 0.01, 1) for i in range(100))
    middle = tuple(SampledGaussianSteps(1.05 + 0.001 * (5 * i + 2), 0.01, 5) for i in range(20))
    fine, coarse = (contour_pair(0.0, run)[0].epsilon(1e-5) for run in (steps, middle))
    assert fine.upper - fine.lower < 1e-8
    assert abs(fine.upper - coarse.upper) < 1e-4
    assert fine.upper == pytest.approx(0.55681272, abs=1e-8)
