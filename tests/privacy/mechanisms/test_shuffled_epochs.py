"""Lower bounds of shuffled epochs: laws of sums on lattices, and simulated attacks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.batches.shuffled_epochs import LargestOfEpoch, SumsOfEpochs
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.lattice_masses import LatticeMasses
from service.privacy.questions.gaussian_dp import mu
from service.privacy.trade_off.losses_on_lattice import TwoLaws
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.polygon import PolygonTradeOff
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from service.privacy.trade_off.sum_statistic import sum_laws
from tests.slow_marker import sample_of, thorough

EPSILONS = np.array([-1.0, 0.0, 0.01, 0.1, 0.5, 2.0, 6.0])
RATES = np.array([1e-6, 1e-3, 0.05, 0.5, 0.99])


def curves(noise: float, batches: int, epochs: int) -> TradeOffPair:
    run = DpSgd(noise_multiplier=noise, sample_rate=1 / batches, steps=batches * epochs, sampling="shuffled")
    return choose.pair(run, neighbours=Neighbours("zero_out"))


def simulated_losses(rng: np.random.Generator, noise: float, batches: int, epochs: int, runs: int) -> list[FloatArray]:
    """Draw exact log-likelihood ratios of the two laws that the lower bound compares, under H0 and under H1."""
    shift = 1 / noise
    found: list[FloatArray] = []
    for moved in (1.0, 2.0):
        total = np.zeros(runs)
        for _ in range(epochs):
            x = rng.standard_normal((runs, batches))
            x[:, 0] += moved * shift
            logs = [np.log(np.mean(np.exp(m * shift * x - (m * shift) ** 2 / 2), axis=1)) for m in (1.0, 2.0)]
            total += logs[1] - logs[0]
        found.append(total)
    return found


def binomial_interval(count: int, runs: int) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a probability, which fails once in 500 000 times."""
    low = float(stats.beta.ppf(1e-6, count, runs - count + 1)) if count > 0 else 0.0
    return low, float(stats.beta.ppf(1 - 1e-6, count + 1, runs - count)) if count < runs else 1.0


@sample_of(2)
@pytest.mark.parametrize(
    ("noise", "batches", "epochs"), [(3.0, 100, 2), (1.0, 100, 5), thorough(2.0, 200, 8), (0.6, 50, 3), (0.4, 200, 1)]
)
def test_lower_bounds_do_not_exceed_simulated_likelihood_ratio_test(noise: float, batches: int, epochs: int) -> None:
    """The lower bound of delta is at most that of the simulated test "loss > epsilon", by exact binomial intervals."""
    runs = 20_000
    losses = simulated_losses(np.random.default_rng(31), noise, batches, epochs, runs)
    pair = curves(noise, batches, epochs)
    for curve, sign in ((pair.add, 1.0), (pair.remove, -1.0)):
        h0, h1 = losses if sign > 0 else losses[::-1]
        for epsilon in (0.01, 0.1, 0.5):
            alarms, hits = (binomial_interval(int((sign * loss > epsilon).sum()), runs) for loss in (h0, h1))
            bounds = curve.profile_at(epsilon)
            assert bounds.lower <= hits[1] - math.exp(epsilon) * alarms[0]
            assert bounds.lower >= 0.97 * (hits[0] - math.exp(epsilon) * alarms[1])
            assert bounds.lower <= bounds.upper


@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_ordered_and_no_weaker_than_those_of_maxima(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise, batches = float(np.exp(rng.uniform(-1, 2))), int(np.exp(rng.uniform(1, 9)))
    epochs = int(np.exp(rng.uniform(0, 4)))
    pair = curves(noise, batches, epochs)
    maxima = LargestOfEpoch(shift=1 / noise, batches=batches, in_cells=True).curves().add
    for curve, one in ((pair.add, maxima), (pair.remove, maxima.reversed())):
        profile, points = curve.profile(EPSILONS), curve.points(RATES)
        for bounds in (profile, points.power, points.type_two_error):
            assert (bounds.lower <= bounds.upper).all()
        assert (profile.lower >= one.profile(EPSILONS).lower * (1 - 2e-3) - 1e-16).all()
        assert (points.power.lower >= one.points(RATES).power.lower * (1 - 2e-3)).all()


@pytest.mark.parametrize("seed", [0, *map(thorough, range(1, 4))])
def test_more_epochs_and_additional_steps_reveal_no_less(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    noise, batches = float(np.exp(rng.uniform(-1, 1.5))), int(np.exp(rng.uniform(1, 8)))
    few, many = curves(noise, batches, 2), curves(noise, batches, 5)
    alone = DpSgd(noise_multiplier=noise, sample_rate=1 / batches, steps=2 * batches, sampling="shuffled")
    beside = choose.pair(
        Composed(mechanisms=(alone, Gaussian(noise_multiplier=8.0))), neighbours=Neighbours("zero_out")
    )
    for other in (many, beside):
        assert (other.add.profile(EPSILONS).lower >= few.add.profile(EPSILONS).lower * (1 - 2e-3) - 1e-12).all()
        assert (other.add.profile(EPSILONS).lower <= other.add.profile(EPSILONS).upper).all()


def test_mu_of_shuffled_epochs_matches_strongest_attack() -> None:
    found = mu(curves(3.0, 100, 2).both, 1e-4, 1e-4)
    assert found.value.lower >= math.sqrt(2 / 100) / 3 * (1 - 1e-9)
    assert found.value.lower <= found.value.upper
    assert found.value.upper == pytest.approx(math.sqrt(2) / 3, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 7, 100, 1000])
def test_sums_on_lattice_are_binomial(count: int) -> None:
    rate = Fraction(1, 8)
    law = LatticeMasses(-1, np.array([float(1 - rate), 0.0, float(rate)]), 0.0, 0.0).sum_of(count, 1e-30)
    hits = (law.first + np.arange(len(law.masses)) + count) / 2
    whole = hits == np.floor(hits)
    for number, mass in zip(hits[whole].astype(int).tolist(), law.masses[whole].tolist(), strict=True):
        exact = math.comb(count, number) * rate**number * (1 - rate) ** (count - number)
        assert mass <= float(exact) * math.exp(law.relative)
        assert mass >= (float(exact) - law.lost) * math.exp(-law.relative)
    assert not law.masses[~whole].any()
    assert 0 <= law.lost < 1e-27
    assert law.relative < 1e-9


@pytest.mark.parametrize("times", [1, 2, 9, 60])
def test_rounded_losses_of_randomised_responses_are_exact(times: int) -> None:
    laws = TwoLaws(np.array([0.6, 0.4]), np.array([0.4, 0.6]), 1e-15, 0.0, 0.0)
    found = PolygonTradeOff(laws.composed(times).corners())
    exact = choose.pair(Repeated(mechanism=PureDp(epsilon=math.log(1.5)), steps=times)).add
    expected = exact.profile(EPSILONS)
    assert (found.profile(EPSILONS).lower <= expected.upper * (1 + 1e-12)).all()
    assert (found.profile(EPSILONS).lower >= expected.lower * (1 - 1e-3) - 1e-12).all()


@pytest.mark.parametrize("seed", range(5))
def test_laws_of_sums_match_drawn_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift, count = float(np.exp(rng.uniform(-2, 2))), int(np.exp(rng.uniform(0.7, 12)))
    laws = sum_laws(shift, count)
    assert laws.absent.sum() * math.exp(laws.relative) >= 1 - 1e-9
    assert laws.absent.sum() <= math.exp(laws.relative) * (1 + laws.extra) * (1 + 1e-9)
    assert laws.present.sum() <= math.exp(laws.relative) * (1 + 1e-9)
    assert laws.present.sum() * math.exp(laws.relative) >= 1 - laws.missing - 1e-9
    assert laws.relative < 1e-4
    assert max(laws.extra, laws.missing) < 1e-15


def test_extreme_epochs_have_ordered_bounds() -> None:
    for noise, batches, epochs in ((1e-3, 7, 5), (1e6, 10, 10**6), (0.2, 2, 10**9)):
        bounds = curves(noise, batches, epochs).both
        for found in (bounds.epsilon(1e-5), bounds.profile_at(0.1), bounds.power_at(1e-3)):
            assert found.lower <= found.upper
    assert SumsOfEpochs(shift=1.0, batches=2, epochs=10**9).curves().add.epsilon(1e-5).lower > 100


@sample_of(1)
@pytest.mark.parametrize("seed", range(3))
def test_sums_reveal_no_more_than_revealed_order(seed: int) -> None:
    """Sums of shuffled epochs reveal no more than epochs whose order of batches is known, which are a Gaussian step.

    Shifts, batches and epochs are drawn over the whole range in which sums are computed.
    """
    rng = np.random.default_rng(200 + seed)
    for _ in range(25):
        shift, batches = float(np.exp(rng.uniform(-6, 2.07))), int(np.exp(rng.uniform(0.7, 10)))
        epochs = int(np.exp(rng.uniform(0, 8)))
        found = SumsOfEpochs(shift=shift, batches=batches, epochs=epochs).curves()
        revealed = gaussian_curve(Enclosure.point(math.sqrt(epochs) * shift))
        for curve in (found.add, found.remove):
            assert (curve.profile(EPSILONS).lower <= revealed.profile(EPSILONS).upper * (1 + 1e-9)).all()
            assert (curve.points(RATES).power.lower <= revealed.points(RATES).power.upper * (1 + 1e-9)).all()
