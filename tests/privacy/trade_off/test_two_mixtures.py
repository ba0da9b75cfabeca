"""Two steps of mixtures of shifted Gaussians against integrals over both outcomes, drawn by seed."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from service.privacy.composition.inversion.two_step_run import two_steps_curve
from service.privacy.composition.planning.choose import pair
from service.privacy.mechanisms.abstract import AbstractStep, GaussianMixturePart, Steps
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.neighbours import ONE_REPLACED, Neighbours
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.numerics.arrays import FloatArray

WIDTH = 1e-6
INTEGRALS = 1e-8
"""Relative error of the integrals."""
REACH = 12.0


class Mixture(NamedTuple):
    """Step with a Gaussian mixture: the centres of its normal laws of variance 1, and their weights."""

    centres: FloatArray
    weights: FloatArray

    def log_density(self, x: FloatArray) -> FloatArray:
        return logsumexp(-0.5 * (x[:, None] - self.centres) ** 2, b=self.weights, axis=1) - 0.5 * math.log(2 * math.pi)

    def log_above(self, x: FloatArray) -> FloatArray:
        return logsumexp(log_ndtr(self.centres - x[:, None]), b=self.weights, axis=1)


def laws(step: AbstractStep) -> tuple[Mixture, Mixture]:
    """Return the laws of a step without and with the record."""
    part = step.part()
    assert isinstance(part, GaussianMixturePart)
    centres, weights = np.array(part.shifts) / part.noise_multiplier, np.array(part.weights)
    absent = Mixture(-centres, weights) if part.mirrored else Mixture(np.zeros(1), np.ones(1))
    return absent, Mixture(centres, weights)


def delta(first: AbstractStep, second: AbstractStep, epsilon: float) -> float:
    """Return delta by Gauss-Legendre panels over the first outcome, with the best threshold of the second."""
    (absent, present), (other_absent, other_present) = laws(first), laws(second)
    low, high = absent.centres.min() - REACH, present.centres.max() + REACH
    edges = np.linspace(low, high, math.ceil(4 * (high - low)))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = 0.5 * np.diff(edges)[:, None]
    x, weight = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    left = epsilon - (present.log_density(x) - absent.log_density(x))
    at, to = np.full_like(x, other_absent.centres.min() - 40), np.full_like(x, other_present.centres.max() + 40)
    for _ in range(45):
        middle = 0.5 * (at + to)
        beyond = other_present.log_density(middle) - other_absent.log_density(middle) > left
        at, to = np.where(beyond, at, middle), np.where(beyond, middle, to)
    with np.errstate(over="ignore"):
        gained = np.exp(other_present.log_above(to)) - np.exp(left + other_absent.log_above(to))
    return float((np.exp(present.log_density(x)) * np.maximum(gained, 0.0) * weight).sum())


def drawn(rng: random.Random) -> AbstractStep:
    run = DpSgd(noise_multiplier=10 ** rng.uniform(-0.3, 0.7), sample_rate=10 ** rng.uniform(-2, -0.3), steps=1)
    neighbours = ONE_REPLACED if rng.random() < 0.5 else Neighbours(records=rng.choice([2, 3, 5]))
    ((step, _),) = run.elementary_steps()
    return step.under(neighbours)


@pytest.mark.parametrize("seed", range(4))
def test_profile_encloses_integral_in_both_directions(seed: int) -> None:
    rng = random.Random(seed)
    first = drawn(rng)
    second = first if seed == 0 else drawn(rng)
    steps: Steps = ((first, 2),) if first == second else ((first, 1), (second, 1))
    curve = two_steps_curve(steps)
    assert curve is not None
    epsilon = rng.uniform(0.2, 2)
    found, truth = curve.profile_at(epsilon), delta(first, second, epsilon)
    assert found.lower <= truth * (1 + INTEGRALS)
    assert truth * (1 - INTEGRALS) <= found.upper
    assert found.relative_width() <= WIDTH
    mirrored = curve.reversed().profile_at(-epsilon)
    there = -math.expm1(-epsilon) + math.exp(-epsilon) * truth
    assert mirrored.lower * (1 - 1e-12) <= there * (1 + INTEGRALS * truth) <= mirrored.upper * (1 + 1e-12) + INTEGRALS


def test_two_mixture_steps_are_narrow_by_default() -> None:
    run = pair(DpSgd(noise_multiplier=1.0, sample_rate=0.01, steps=2), neighbours=Neighbours(records=2))
    assert run.add.epsilon(1e-5).relative_width() <= WIDTH
    assert run.remove.profile_at(0.02).relative_width() <= WIDTH


def test_sampled_step_with_mixture_is_enclosed() -> None:
    mixture = drawn(random.Random(7))
    sampled = PoissonSampled(sample_rate=0.05, mechanism=Gaussian(noise_multiplier=0.8))
    curve = two_steps_curve(((sampled, 1), (mixture, 1)))
    assert curve is not None
    for epsilon in (-0.2, 0.0, 0.5):
        found = curve.profile_at(epsilon)
        assert found.relative_width() <= WIDTH
