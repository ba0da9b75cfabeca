"""Mechanisms run by random numbers, with the attacks that lower bounds name: their power against both bounds.

Each mechanism is simulated step by step as its definition says, on two neighbouring data sets. Intervals of Clopper and
Pearson enclose the false positive rate and the power of every test, all of them together with probability 1 - 1e-9.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import special, stats

from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.numerics.arrays import FloatArray
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built, gaussian, selected
from tests.slow_marker import thorough

Spec = dict[str, Any]
Draw = Callable[[Generator, int, bool], FloatArray]
"""Function of (random numbers, number of trials, whether H1 holds) that returns a statistic for every trial."""
FALSE_ALARM: Final = 1e-9
FEW, MANY = 10_000, 1_000_000


@dataclass(frozen=True)
class Attack:
    """Simulated mechanism, and tests `statistic` > threshold on its release.

    The lower bound is at least the power of each of these tests. With `is_best` it equals the power of one of them.
    """

    spec: Spec
    draw: Draw
    thresholds: tuple[float, ...]
    relation: NeighboringRelation = "add_or_remove_one"
    is_best: bool = True


def response(epsilon: float, options: int) -> Attack:
    """Return the attack on a randomised response that tests for the report 1, where the own value is 0 or 1."""

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        return np.asarray(reports(random, np.full(trials, int(present)), epsilon, options) == 1, dtype=np.float64)

    spec = {"type": "randomized_response", "epsilon": epsilon, "options": options}
    return Attack(spec, draw, (0.5,), "replace_one")


def reports(random: Generator, values: NDArray[np.int64], epsilon: float, options: int) -> NDArray[np.int64]:
    """Return randomised responses: the true value with probability e^epsilon/(e^epsilon + options - 1)."""
    is_true = random.uniform(size=values.shape) < math.exp(epsilon) / (math.exp(epsilon) + options - 1)
    others = (values + random.integers(1, options, values.shape)) % options
    return np.where(is_true, values, others)


def bits(true_bit: float, false_bit: float, count: int) -> Attack:
    """Return the attack on unary encoding that counts ones of the bits of the value 1 less those of the value 0."""

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        ones = [random.binomial(count, chance, trials) for chance in (true_bit, false_bit)]
        return np.asarray(ones[0] - ones[1] if present else ones[1] - ones[0], dtype=np.float64)

    spec = {"type": "unary_encoding", "true_bit": true_bit, "false_bit": false_bit, "bits_per_value": count}
    return Attack(spec, draw, tuple(each - 0.5 for each in range(1 - count, count + 1)), "replace_one")


def two_sided_geometric(random: Generator, scale: float, trials: int) -> FloatArray:
    """Return discrete Laplace noise, the difference of two geometric variables."""
    first, second = (random.geometric(-math.expm1(-1 / scale), trials) for _ in range(2))
    return np.asarray(first - second, dtype=np.float64)


def discrete_gaussian(random: Generator, sigma: float, trials: int) -> FloatArray:
    """Return discrete Gaussian noise by rejection of discrete Laplace noise (Canonne, Kamath, Steinke 2020)."""
    scale, found = math.floor(sigma) + 1.0, np.zeros(0)
    while len(found) < trials:
        drawn = two_sided_geometric(random, scale, 2 * trials)
        chance = np.exp(-((np.abs(drawn) - sigma**2 / scale) ** 2) / (2 * sigma**2))
        found = np.concatenate([found, drawn[random.uniform(size=len(drawn)) < chance]])
    return found[:trials]


def added(spec: Spec, noise: Callable[[Generator, int], FloatArray], shift: float, *thresholds: float) -> Attack:
    """Return the attack on a query with noise, whose true value is 0 or `shift`."""

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        return noise(random, trials) + (shift if present else 0.0)

    return Attack(spec, draw, thresholds)


def skellam(random: Generator, variance: float, trials: int) -> FloatArray:
    """Return the difference of two Poisson variables."""
    return np.asarray(random.poisson(variance / 2, trials) - random.poisson(variance / 2, trials), dtype=np.float64)


def noisy_max(noise: str, scale: float, raised: int, others: int, *gaps: float, is_best: bool = True) -> Attack:
    """Return the attack on report noisy max for `raised` candidates that the record raises, and others it lowers.

    A test with the gap g is "a raised candidate has the largest noisy score", where its score is higher by g.
    """
    laws: dict[str, Callable[..., FloatArray]] = {
        "gumbel": lambda random, size: random.gumbel(0, scale, size),
        "exponential": lambda random, size: random.exponential(scale, size),
        "laplace": lambda random, size: random.laplace(0, scale, size),
    }

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        first, second = (laws[noise](random, (size, trials)).max(axis=0) for size in (raised, others))
        return first - second + (2.0 if present else 0.0)

    spec = {"type": "report_noisy_max", "noise": noise, "scale": scale, "sensitivity": 1.0, "monotone": False}
    return Attack(spec, draw, tuple(-gap for gap in gaps), is_best=is_best)


def permute_and_flip(epsilon: float, gap: float) -> Attack:
    """Return the attack on two candidates, visited in random order and taken with probability e^{epsilon gap/2}."""

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        scores = np.array([gap + 1, -1.0] if present else [gap, 0.0])
        chances = np.exp(epsilon / 2 * (scores - scores.max()))
        flips, first = random.uniform(size=(2, trials)) < chances[:, None], random.integers(0, 2, trials)
        own, other = flips[first, np.arange(trials)], flips[1 - first, np.arange(trials)]
        taken = np.where(own, first, np.where(other, 1 - first, int(chances[1] == 1)))
        return np.asarray(taken == 0, dtype=np.float64)

    return Attack({"type": "permute_and_flip", "epsilon": epsilon}, draw, (0.5,))


def sparse_vector(first: float, second: float, below: int, *, is_best: bool = True) -> Attack:
    """Return the attack "`below` zeros, then a one" on queries at the threshold, of which the record raises the last.

    The technique stops after a positive bit.
    """

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        moved = 1.0 if present else 0.0
        answers = np.array([*[-moved] * below, moved])
        noisy = answers[:, None] + random.laplace(0, 2 / second, (below + 1, trials))
        above = noisy > random.laplace(0, 1 / first, trials)
        return np.asarray(above[-1] & ~above[:-1].any(axis=0), dtype=np.float64)

    spec = {"type": "sparse_vector", "threshold_epsilon": first, "query_epsilon": second, "positives": 1}
    return Attack(spec, draw, (0.5,), is_best=is_best)


def best_of_runs(law: str, numbers: dict[str, float], slope: float) -> Attack:
    """Return the attack in three zones of scores on the best of K releases of N(0, 1) or N(1, 1).

    The outcomes above a have a middle score, those of b to a a low one, and those below b a high one. The test is "the
    best has a middle score". a and b maximise the power less `slope` times the rate, by the generating function of K.
    """

    def phi(z: FloatArray) -> FloatArray:
        mean = numbers.get("mean", 0.0)
        return z ** numbers["count"] if law == "fixed" else z / (mean - (mean - 1) * z)

    lower, upper = (each.ravel() for each in np.meshgrid(np.linspace(-4, 5, 400), np.linspace(-4, 5, 400)))
    top, middle = special.ndtr(-lower), special.ndtr(-upper)
    more, most = special.ndtr(1 - lower), special.ndtr(1 - upper)
    gain = phi(more) - phi(more - most) - slope * (phi(top) - phi(top - middle))
    best = int(np.argmax(np.where(lower <= upper, gain, -np.inf)))
    ends = float(lower[best]), float(upper[best])

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        size = (
            np.full(trials, int(numbers["count"])) if law == "fixed" else random.geometric(1 / numbers["mean"], trials)
        )
        outcomes = random.normal(float(present), 1.0, int(size.sum()))
        scores = np.where(outcomes < ends[0], 2, np.where(outcomes > ends[1], 1, 0))
        released = np.maximum.reduceat(scores, np.concatenate([[0], np.cumsum(size)[:-1]]))
        return np.asarray(released == 1, dtype=np.float64)

    return Attack(selected(gaussian(1.0), law, **numbers), draw, (0.5,))


def shuffled(count: int, epsilon: float, options: int, *thresholds: float, any_randomizer: bool = False) -> Attack:
    """Return the likelihood ratio test on shuffled responses, where all others hold the third value.

    A report r has the ratio P(r | own value a)/P(r | third value): e^epsilon for r = a, e^-epsilon for r = 2, else 1.
    The mean of the ratios over all reports is the likelihood ratio of the shuffled reports.
    """
    response = {"type": "randomized_response", "epsilon": epsilon, "options": options}
    spec = {
        "type": "shuffled_reports",
        "reports": count,
        "randomizer": {"type": "pure_dp", "epsilon": epsilon} if any_randomizer else response,
    }

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        p, rest = math.exp(epsilon), 1 / (math.exp(epsilon) + options - 1)
        law = np.full(options, rest)
        law[2] = p * rest
        counts = random.multinomial(count - 1, law, trials)
        own = reports(random, np.full(trials, int(present)), epsilon, options)
        counts[np.arange(trials), own] += 1
        common = counts[:, 2] / p + counts[:, 3:].sum(axis=1)
        ratios = (common + p * counts[:, 1] + counts[:, 0], common + p * counts[:, 0] + counts[:, 1])
        return np.asarray(np.log(ratios[0] / ratios[1]), dtype=np.float64)

    return Attack(spec, draw, thresholds, "replace_one")


def shuffled_bits(count: int, epsilon: float, held: int, *thresholds: float) -> Attack:
    """Return the attack that counts the ones in shuffled binary responses; `held` of the other persons hold 1."""
    spec = {
        "type": "shuffled_reports",
        "reports": count,
        "randomizer": {"type": "randomized_response", "epsilon": epsilon, "options": 2},
        "others_holding_one": held,
    }

    def draw(random: Generator, trials: int, present: bool) -> FloatArray:
        chance = math.exp(epsilon) / (math.exp(epsilon) + 1)
        ones = held + int(present)
        return np.asarray(
            random.binomial(ones, chance, trials) + random.binomial(count - ones, 1 - chance, trials), dtype=np.float64
        )

    return Attack(spec, draw, thresholds, "replace_one")


ATTACKS: Final = {
    "randomized_response": response(1.3, 5),
    "unary_encoding": bits(0.5, 0.2, 1),
    "unary_encoding, two bits": bits(0.75, 0.25, 2),
    "discrete_laplace": added(
        {"type": "discrete_laplace", "scale": 1.5, "sensitivity": 2},
        lambda random, trials: two_sided_geometric(random, 1.5, trials),
        2.0,
        *(-0.5, 0.5, 1.5),
    ),
    "discrete_gaussian": added(
        {"type": "discrete_gaussian", "sigma": 1.7, "sensitivity": 2},
        lambda random, trials: discrete_gaussian(random, 1.7, trials),
        2.0,
        *(-0.5, 0.5, 2.5),
    ),
    "skellam": added(
        {"type": "skellam", "variance": 4.0, "sensitivity": 2},
        lambda random, trials: skellam(random, 4.0, trials),
        2.0,
        *(-0.5, 0.5, 2.5),
    ),
    "gumbel": noisy_max("gumbel", 2.0, 1, 1, -3.0, -1.0, 0.5),
    "exponential": noisy_max("exponential", 2.0, 1, 1, -3.0, -1.0, 0.5),
    "laplace, one against one": noisy_max("laplace", 1.0, 1, 1, -2.0, -1.0, 0.0, is_best=False),
    "laplace, two against three": noisy_max("laplace", 1.0, 2, 3, -1.0, -2 / 3, -1 / 3, 0.0),
    "permute_and_flip": permute_and_flip(1.0, -1.0),
    "permute_and_flip, equal scores": permute_and_flip(1.0, 0.5),
    "sparse_vector": sparse_vector(0.5, 0.5, 1),
    "sparse_vector, one query": sparse_vector(0.5, 0.5, 0, is_best=False),
    "best of fixed": best_of_runs("fixed", {"count": 5}, 4.0),
    "best of geometric": best_of_runs("geometric", {"mean": 10.0}, 4.0),
    "best of geometric, rare": best_of_runs("geometric", {"mean": 10.0}, 40.0),
    "shuffled": shuffled(30, 1.0, 4, 0.0, 0.1, 0.3),
    "shuffled, any randomiser": shuffled(30, 1.0, 3, 0.1, 0.3, any_randomizer=True),
    "shuffled, two values": shuffled_bits(30, 1.0, 0, 8.5, 10.5),
    "shuffled, two values, others mixed": shuffled_bits(30, 1.0, 12, 13.5, 16.5),
}


def interval(hits: int, trials: int, error: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson of a probability, wrong with at most the probability `error`."""
    low = float(stats.beta.ppf(error / 2, hits, trials - hits + 1)) if hits else 0.0
    high = float(stats.beta.isf(error / 2, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("trials", [FEW, thorough(MANY)])
def test_simulated_attack_stays_below_upper_bound_and_reaches_lower_bound(name: str, trials: int) -> None:
    attack = ATTACKS[name]
    random = np.random.default_rng([zlib.crc32(name.encode()), trials])
    curve = WorstCase(attack.relation).curves(built(attack.spec)).both
    error = FALSE_ALARM / (2 * len(attack.thresholds))
    absent, present = (attack.draw(random, trials, is_present) for is_present in (False, True))
    reached = []
    for threshold in attack.thresholds:
        rate, power = (interval(int((each > threshold).sum()), trials, error) for each in (absent, present))
        most = curve.power_at(rate[1])
        assert power[0] <= most.lower * (1 + 1e-9)
        assert power[0] <= most.upper
        reached.append(curve.power_at(rate[0]).lower <= power[1])
    assert any(reached) or not attack.is_best
