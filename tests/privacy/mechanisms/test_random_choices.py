"""Random choices among candidates and random thresholds, each against a second computation in doubles."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator, default_rng
from scipy import special

from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.discrete.noisy_max_attacks import GROUPS
from service.privacy.mechanisms.discrete.sparse_vector import BELOW, GAPS
from service.privacy.numerics.arrays import FloatArray
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built
from tests.slow_marker import thorough

CASES: Final = [20, thorough(300)]
PARTS: Final = 14
"""Intervals of a quadrature between two kinks of its integrand."""


def log_uniform(random: Generator, low: float, high: float) -> float:
    return float(math.exp(random.uniform(math.log(low), math.log(high))))


def delta_of(spec: dict[str, Any], epsilon: float, records: int) -> Enclosure:
    relation = WorstCase(records=None if records == 1 else records)
    return relation.curves(built(spec)).both.profile_at(epsilon)


def laplace_distribution(x: FloatArray, scale: float = 1.0) -> FloatArray:
    tail = 0.5 * np.exp(-np.abs(x) / scale)
    return np.where(x < 0, tail, 1 - tail)


def drawn_choice(random: Generator, noise: str) -> tuple[dict[str, Any], float, int]:
    """Draw a choice; return its description, the largest change of a gap of scores over the scale, and the number of
    records.
    """
    scale, change = log_uniform(random, 0.05, 50), log_uniform(random, 0.1, 10)
    monotone, records = bool(random.integers(2)), int(random.integers(1, 4))
    if noise == "permute_and_flip":
        spec: dict[str, Any] = {"type": noise, "epsilon": 2 * change / scale, "monotone": monotone}
    else:
        numbers = {"scale": scale, "sensitivity": change, "monotone": monotone}
        spec = {"type": "report_noisy_max", "noise": noise, **numbers}
    return spec, (1 if monotone else 2) * change * records / scale, records


@pytest.mark.parametrize("noise", ["gumbel", "exponential", "permute_and_flip"])
@pytest.mark.parametrize("cases", CASES)
def test_choice_is_the_best_of_all_gaps_of_two_candidates(noise: str, cases: int) -> None:
    """delta of a choice is the largest P(gap + eta) - e^eps P(gap) over the gaps of the scores of two candidates.

    P(gap) is the probability that the candidate ahead by the gap wins: the difference of two Gumbel variables is
    logistic, and that of two exponential variables has Laplace's law. eta is the largest change of a gap.
    """
    random = default_rng([35, cases, len(noise)])
    law = special.expit if noise == "gumbel" else laplace_distribution
    for _ in range(cases):
        spec, eta, records = drawn_choice(random, noise)
        epsilon = float(random.uniform(-0.2, 1.0)) * eta
        found = delta_of(spec, epsilon, records)
        low, high, gains = -eta - 40.0, 40.0, np.zeros(1)
        for _ in range(4):
            gaps = np.linspace(low, high, 4_001)
            gains = law(gaps + eta) - math.exp(epsilon) * law(gaps)
            best, step = int(np.argmax(gains)), (high - low) / 4_000
            low, high = gaps[best] - 2 * step, gaps[best] + 2 * step
        truth = max(float(gains.max()), -math.expm1(epsilon), 0.0)
        assert found.lower <= truth * (1 + 1e-9) + 1e-12
        assert truth <= found.upper * (1 + 1e-9) + 1e-12
        assert found.upper - found.lower <= 1e-9 * found.upper + 1e-300


def quadrature(kinks: list[float], reach: float) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights from `reach` before the first kink to `reach` after the last one."""
    ends = np.array([min(kinks) - reach, *sorted(set(kinks)), max(kinks) + reach])
    cuts = np.unique(np.concatenate([np.linspace(left, right, PARTS + 1) for left, right in pairwise(ends)]))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(cuts)[:, None] / 2
    return (cuts[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def exceeded(raised: int, others: int, gap: float) -> float:
    """Return P(max of `raised` Laplace variables + gap > max of `others`), by quadrature."""
    x, weights = quadrature([gap, 0.0], 35.0)
    own = laplace_distribution(x - gap)
    density = raised * own ** (raised - 1) * 0.5 * np.exp(-np.abs(x - gap))
    return float(weights @ (density * laplace_distribution(x) ** others))


def best_gain(tests: list[tuple[float, float]], epsilon: float) -> float:
    """Return the largest delta of tests (rate, power), and of their complements with swapped hypotheses."""
    e = math.exp(epsilon)
    gains = [max(power - e * rate, (1 - rate) - e * (1 - power)) for rate, power in tests]
    return max(0.0, -math.expm1(epsilon), *gains)


def laplace_delta(eta: float, epsilon: float) -> float:
    """Return delta of Laplace noise of scale 1 and shift eta."""
    return max(0.0, -math.expm1((epsilon - eta) / 2) if epsilon > -eta else -math.expm1(epsilon))


@pytest.mark.parametrize("cases", [2, thorough(300)])
def test_choice_with_laplace_noise_lies_between_attacks_and_laplace_noise(cases: int) -> None:
    random = default_rng([36, cases])
    for _ in range(cases):
        spec, eta, records = drawn_choice(random, "laplace")
        if eta > 8:
            continue
        tests = [
            (exceeded(raised, others, gap), exceeded(raised, others, gap + eta))
            for raised, others in GROUPS[:: int(random.integers(1, 4))]
            for gap in np.linspace(-eta - 2, 2, 15).tolist()
        ]
        for epsilon in (0.0, 0.4 * eta):
            found = delta_of(spec, epsilon, records)
            assert best_gain(tests, epsilon) <= found.lower * (1 + 1e-3) + 1e-7
            truth = laplace_delta(eta, epsilon)
            assert abs(found.upper - truth) <= 1e-9 * truth + 1e-15


@pytest.mark.parametrize("cases", [3, thorough(300)])
def test_thresholds_lie_between_attacks_and_laplace_noise(cases: int) -> None:
    """delta of sparse vectors lies between that of the best attack and that of Laplace noise.

    The attacks are those of `sparse_vector.py`, by quadrature over the noise of the threshold. The noise has the sum of
    both epsilons as its shift.
    """
    random = default_rng([37, cases])
    for _ in range(cases):
        first, second = log_uniform(random, 0.1, 3), log_uniform(random, 0.1, 3)
        positives = int(random.integers(1, 4))
        threshold, query = 1 / first, 2 * positives / second
        unit, tests = max(threshold, query), list[tuple[float, float]]()
        for below, gap, last in product(BELOW, GAPS[::2], GAPS[::2]):
            chances: list[float] = []
            for moved in (0.0, 1.0):
                zeros, one = gap * unit - moved, last * unit + moved
                x, weights = quadrature([0.0, zeros, one], 35 * threshold)
                density = np.exp(-np.abs(x) / threshold) / (2 * threshold)
                bits = laplace_distribution(x - zeros, query) ** below * (1 - laplace_distribution(x - one, query))
                chances.append(float(weights @ (density * bits)))
            tests.append((chances[0], chances[1]))
        numbers = {"threshold_epsilon": first, "query_epsilon": second, "positives": positives}
        for epsilon in (0.0, 0.5 * (first + second)):
            found = delta_of({"type": "sparse_vector", **numbers}, epsilon, 1)
            assert best_gain(tests, epsilon) <= found.lower * (1 + 1e-9) + 1e-12
            truth = laplace_delta(first + second, epsilon)
            assert abs(found.upper - truth) <= 1e-9 * truth
            assert found.lower <= found.upper
