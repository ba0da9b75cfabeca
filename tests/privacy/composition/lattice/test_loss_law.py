"""Loss laws against 30-digit integrals, closed forms, and the exact curves of the steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.special import ndtr

from service.privacy.composition.comparison.monte_carlo.drawn_lattice import repeated_law
from service.privacy.composition.planning import choose
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.errors import UnsupportedCombination
from service.privacy.losses.law import ComposedLoss, Generating, Hypothesis, LossLaw
from service.privacy.losses.mixtures import gaussian_mixture_loss
from service.privacy.losses.steps import bounded_range_loss, laplace_loss, sampled_gaussian_loss
from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.neighbours import ONE_ADDED, ONE_REPLACED, Neighbours
from tests.privacy.cases import built, gaussian, laplace, sampled
from tests.slow_marker import sample_of

TILTS = (-1.0, -0.01, 0.3, 0.999, 1.01, 2.0)
STEPS = {
    "gaussian": gaussian(1.5),
    "laplace": laplace(0.7),
    "laplace_weak": laplace(50.0),
    "gdp": {"type": "gdp", "mu": 0.3},
    "pure_dp": {"type": "pure_dp", "epsilon": 1.2},
    "sampled_gaussian": sampled(0.01, gaussian(1.0)),
    "sampled_gaussian_often": sampled(0.9, gaussian(0.5)),
    "sampled_gaussian_rare": sampled(1e-7, gaussian(2.0)),
    "sampled_laplace": sampled(0.05, laplace(1.0)),
    "exponential": {"type": "exponential", "epsilon": 1.4},
}
every_step = pytest.mark.parametrize("name", STEPS)


def law_of(name: str, neighbours: Neighbours = ONE_ADDED) -> LossLaw:
    step = built(STEPS[name])
    assert isinstance(step, AbstractStep)
    return step.under(neighbours).loss_law()


HYPOTHESES: tuple[Hypothesis, ...] = (0, 1)
Mean = Callable[[Callable[[mpf], mpf]], mpf]


def gaussian_mean(sigma: float, rate: float) -> Mean:
    """Return E0 of a function of the loss of a sampled Gaussian step, by the trapezoidal rule for an analytic
    function.
    """
    with mpmath.workdps(30):
        mu, p, spacing = 1 / mpf(sigma), mpf(rate), mpf(1) / 16
        points = [k * spacing for k in range(-16 * 13, 16 * (13 + math.ceil(3 * mu)) + 1)]
        weights = [spacing * mpmath.npdf(y) for y in points]
        losses = [mpmath.log1p(p * mpmath.expm1(mu * y - mu * mu / 2)) for y in points]
    return lambda g: mpmath.fsum(weight * g(loss) for weight, loss in zip(weights, losses, strict=True))


def laplace_mean(mu: float, rate: float) -> Mean:
    """Return the operator E0 for functions of the loss of a sampled Laplace step: two atoms, a density between them."""
    m, p = mpf(mu), mpf(rate)

    def loss(base: mpf) -> mpf:
        return mpmath.log1p(p * mpmath.expm1(base))

    def mean(g: Callable[[mpf], mpf]) -> mpf:
        atoms = g(loss(-m)) / 2 + g(loss(m)) * mpmath.exp(-m) / 2
        return atoms + mpmath.quad(lambda b: g(loss(b)) * mpmath.exp(-(b + m) / 2) / 4, mpmath.linspace(-m, m, 5))

    return mean


def bounded_range_mean(eta: float) -> Mean:
    """Return E0 of a function of the loss of the exponential mechanism, from the derivative of its survival
    function.
    """
    e = mpf(eta)

    def density(x: mpf) -> mpf:
        return mpmath.exp(-(x + e) / 2) / (2 * (1 - mpmath.exp(-e)))

    return lambda g: mpmath.quad(lambda x: g(x) * density(x), mpmath.linspace(-e, e, 5))


@sample_of(2)
@pytest.mark.parametrize(
    ("law", "mean"),
    [
        pytest.param(sampled_gaussian_loss(1.0, 0.01), gaussian_mean(1.0, 0.01), id="gaussian"),
        pytest.param(sampled_gaussian_loss(0.5, 0.3), gaussian_mean(0.5, 0.3), id="gaussian_strong"),
        pytest.param(sampled_gaussian_loss(2.0, 1e-7), gaussian_mean(2.0, 1e-7), id="gaussian_rare"),
        pytest.param(sampled_gaussian_loss(1e4, 1e-3), gaussian_mean(1e4, 1e-3), id="gaussian_weak"),
        pytest.param(laplace_loss(1.0), laplace_mean(1.0, 1.0), id="laplace"),
        pytest.param(laplace_loss(3.0, 0.1), laplace_mean(3.0, 0.1), id="sampled_laplace"),
        pytest.param(bounded_range_loss(0.8), bounded_range_mean(0.8), id="exponential"),
        pytest.param(laplace_loss(1e-3, 1e-5), laplace_mean(1e-3, 1e-5), id="laplace_weak"),
    ],
)
def test_generating_function_matches_thirty_digits(law: LossLaw, mean: Mean) -> None:
    found = law.generating(np.array(TILTS))
    with mpmath.workdps(30):
        for index, tilt in enumerate(TILTS):
            s = mpf(tilt)
            # E0 (e^L - 1) = 0 is subtracted, so that the integrand has the size of the result.
            rise = mean(lambda x, s=s: mpmath.expm1(s * x) - s * mpmath.expm1(x))
            value, moment = mpmath.log1p(rise), 1 + rise
            first = mean(lambda x, s=s: x * mpmath.exp(s * x) - mpmath.expm1(x)) / moment
            second = mean(lambda x, s=s, c=first: mpmath.exp(s * x) * (x - c) ** 2) / moment
            truths = (value, first, second, s * first - value, (s - 1) * first - value)
            for name, truth in zip(Generating.__dataclass_fields__, truths, strict=True):
                ours = float(getattr(found, name)[index])
                assert abs(ours - truth) <= 1e-12 * abs(truth), (tilt, name)


@every_step
def test_both_hypotheses_have_mass_one(name: str) -> None:
    """E0 e^{sL} is 1 for s = 0 and for s = 1, up to rounding, because the laws of both hypotheses have mass one.

    L is the loss of the step.
    """
    law = law_of(name)
    found = law.generating(np.array([0.0, 1.0]))
    assert np.abs(found.value).max() <= 1e-12 * law.cumulants(0)[1]
    assert np.abs([found.divergence[0], found.divergence_from_one[1]]).max() <= 1e-12 * law.cumulants(0)[1]


@every_step
def test_derivatives_at_zero_and_one_are_cumulants(name: str) -> None:
    law = law_of(name)
    found = law.generating(np.array([0.0, 1.0]))
    for hypothesis in (0, 1):
        assert found.first[hypothesis] == pytest.approx(law.cumulants(hypothesis)[0], rel=1e-12)
        assert found.second[hypothesis] == pytest.approx(law.cumulants(hypothesis)[1], rel=1e-12)


@every_step
def test_cumulants_are_taylor_coefficients(name: str) -> None:
    """The cumulants kappa_k are the Taylor coefficients of K(s) = sum_k kappa_k s^k/k! around both hypotheses.

    K is the log-moment function of the loss, compared with its value at a small tilt s.
    """
    law = law_of(name)
    for hypothesis in (0, 1):
        cumulants = law.cumulants(hypothesis)
        tilt = 0.02 / max(math.sqrt(cumulants[1]), abs(float(cumulants[5])) ** (1 / 6), 1e-3)
        series = sum(float(c) * tilt**k / math.factorial(k) for k, c in enumerate(cumulants, 1))
        value = float(law.generating(np.array([hypothesis + tilt])).value[0])
        assert value == pytest.approx(series, rel=1e-9, abs=1e-10 * cumulants[1] * tilt**2)


def test_cumulants_of_two_points_match_bernoulli_polynomials() -> None:
    """The cumulants of a loss L = eps (2B - 1) with B Bernoulli are polynomials in its success probability."""
    eps = 1.2
    chances: tuple[tuple[Hypothesis, float], ...] = ((0, 1 / (1 + math.exp(eps))), (1, 1 / (1 + math.exp(-eps))))
    for hypothesis, q in chances:
        v = q * (1 - q)
        bernoulli = (
            q - 0.5,
            v,
            v * (1 - 2 * q),
            v * (1 - 6 * v),
            v * (1 - 2 * q) * (1 - 12 * v),
            v * (1 - 30 * v + 120 * v * v),
        )
        expected = [c * (2 * eps) ** k for k, c in enumerate(bernoulli, 1)]
        assert law_of("pure_dp").cumulants(hypothesis) == pytest.approx(expected, rel=1e-12)


def test_gaussian_losses_are_normal() -> None:
    signs: tuple[tuple[Hypothesis, int], ...] = ((0, -1), (1, 1))
    for hypothesis, sign in signs:
        law, variance = law_of("gaussian"), 1 / 1.5**2
        assert law.cumulants(hypothesis) == pytest.approx([sign * variance / 2, variance, 0, 0, 0, 0], rel=1e-15)


def test_laplace_moments_match_closed_form() -> None:
    """Moments of a Laplace step are E0 e^{sL} = e^{-s mu}/2 + e^{(s-1) mu}/2 + e^{-mu/2} sinh(r mu)/(2 r), r = s - 1/2.

    L is the loss of Laplace noise of scale 1 at the distance mu.
    """
    tilts = np.array([-3.0, 0.2, 0.8, 4.0, 12.0])
    for mu in (0.1, 2.0, 30.0, 2e3):
        with mpmath.workdps(30):
            for tilt, ours in zip(tilts, laplace_loss(mu).generating(tilts).value, strict=True):
                s, m = mpf(tilt), mpf(mu)
                middle = mpmath.exp(-m / 2) * mpmath.sinh((s - 0.5) * m) / (2 * (s - 0.5))
                truth = mpmath.log(mpmath.exp(-s * m) / 2 + mpmath.exp((s - 1) * m) / 2 + middle)
                assert abs(ours - truth) <= 1e-12 * abs(truth), (mu, tilt)


@every_step
def test_distributions_lie_on_exact_curve(name: str) -> None:
    """P1(L > c) is the power at rate P0(L > c), and P1(L > c) - e^c P0(L > c) is the profile at c.

    L is the loss of a step, and c a threshold.
    """
    law, step = law_of(name), built(STEPS[name])
    assert isinstance(step, AbstractStep)
    curve = step.curves().add
    spread = 3 * math.sqrt(law.cumulants(1)[1])
    losses = np.linspace(max(law.smallest, -spread), min(law.largest, spread), 9)[1:-1]
    rates, powers = (1 - law.distribution(losses, hypothesis) for hypothesis in (0, 1))
    inside = (rates > 1e-6) & (rates < 1 - 1e-6)
    assert inside.any()
    ours = curve.power(rates[inside])
    assert (ours.lower <= powers[inside] * (1 + 1e-9)).all()
    assert (ours.upper >= powers[inside] * (1 - 1e-9)).all()
    profile = curve.profile(losses)
    assert (np.abs(profile.upper - (powers - np.exp(losses) * rates)) <= 1e-14 + 1e-9 * profile.upper).all()


@every_step
def test_extreme_losses_match_the_curve(name: str) -> None:
    law, step = law_of(name), built(STEPS[name])
    assert isinstance(step, AbstractStep)
    curve = step.curves().add
    assert law.largest == pytest.approx(curve.largest_log_ratio.upper, rel=1e-12)
    assert law.smallest == pytest.approx(curve.smallest_log_ratio.upper, rel=1e-12)


def test_clt_mu_of_sampled_steps_matches_formula() -> None:
    """The chi-square divergence chi^2 of a sampled step matches its formula.

    It is p^2 (e^{mu^2} - 1) for Gaussian noise and p^2 (2 e^mu + e^{-2 mu} - 3)/3 for Laplace noise, with the sampling
    rate p and mu = 1/noise multiplier.
    """
    for sigma, rate in ((1.0, 0.01), (0.5, 0.3), (0.1, 1e-3), (30.0, 1e-6)):
        expected = rate**2 * math.expm1(1 / sigma**2)
        assert sampled_gaussian_loss(sigma, rate).clt_mu_squared == pytest.approx(expected, rel=1e-11)
        mu = 1 / sigma
        expected = rate**2 * (2 * math.expm1(mu) + math.expm1(-2 * mu)) / 3
        assert laplace_loss(mu, rate).clt_mu_squared == pytest.approx(expected, rel=1e-11)
    assert law_of("gaussian").clt_mu_squared == pytest.approx(1 / 1.5**2, rel=1e-15)


def test_replacement_doubles_shift_of_noise_only() -> None:
    for spec, doubled in ((gaussian(1.0), gaussian(0.5)), (laplace(1.0), laplace(0.5))):
        one, other = built(spec), built(doubled)
        assert isinstance(one, AbstractStep)
        assert isinstance(other, AbstractStep)
        assert one.under(ONE_REPLACED).loss_law().cumulants(1) == pytest.approx(other.loss_law().cumulants(1))
    for name in ("gdp", "pure_dp"):
        assert law_of(name, ONE_REPLACED).cumulants(1) == pytest.approx(law_of(name).cumulants(1))
    for name in ("sampled_laplace",):
        with pytest.raises(UnsupportedCombination) as refused:
            law_of(name, ONE_REPLACED)
        assert refused.value.field == "threat_model"


def test_cumulants_add_under_composition() -> None:
    first, second = law_of("sampled_gaussian"), law_of("laplace")
    run = ComposedLoss(((first, 7), (second, 3)))
    for hypothesis in (0, 1):
        expected = 7 * first.cumulants(hypothesis) + 3 * second.cumulants(hypothesis)
        assert run.cumulants(hypothesis) == pytest.approx(expected, rel=1e-14)
    tilts = np.array([-0.5, 0.5, 1.5])
    expected = 7 * first.generating(tilts).value + 3 * second.generating(tilts).value
    assert run.generating(tilts).value == pytest.approx(expected, rel=1e-14)
    assert run.smallest == pytest.approx(7 * math.log(0.99) - 3 / 0.7)


def test_approximate_dp_has_singular_mass_on_both_sides() -> None:
    step = built({"type": "approximate_dp", "epsilon": 1.2, "delta": 1e-3})
    assert isinstance(step, AbstractStep)
    law = step.loss_law()
    assert law.singular_mass == 1e-3
    assert law.cumulants(0) == pytest.approx(law_of("pure_dp").cumulants(0))


@pytest.mark.parametrize("seed", range(4))
def test_distributions_rise_from_zero_to_one(seed: int) -> None:
    """Distribution functions of a loss rise from 0 to 1 without overflow, in both directions.

    Parameters are drawn from their whole ranges.
    """
    generator = np.random.default_rng([20261123, seed])
    size, rate = 10.0 ** generator.uniform(-6, 6), 10.0 ** generator.uniform(-12, -0.01)
    laws = (
        bounded_range_loss(size),
        laplace_loss(size),
        laplace_loss(size, rate),
        sampled_gaussian_loss(1 / size, rate),
    )
    places = np.concatenate((generator.uniform(-size, size, 200), [-size, size, 0.0, -1e-9, 1e-9]))
    for law in laws:
        losses = np.sort(np.concatenate((places, np.clip([law.smallest, law.largest], -1e300, 1e300))))
        for hypothesis in HYPOTHESES:
            with np.errstate(over="raise", invalid="raise"):
                below = law.distribution(losses, hypothesis)
            assert np.all(np.diff(below) >= -1e-12)
            assert np.all((below >= 0) & (below <= 1 + 1e-12))
            assert below[-1] == pytest.approx(1.0) or law.largest == math.inf


@pytest.mark.parametrize("seed", range(3))
def test_mixture_distribution_matches_noise_at_inverse_loss(seed: int) -> None:
    generator = np.random.default_rng([20261124, seed])
    number = int(generator.integers(2, 120))
    distances = np.sort(10.0 ** generator.uniform(-3, 1, number))
    weights = generator.dirichlet(np.ones(number))
    law = gaussian_mixture_loss(distances.tolist(), weights.tolist(), mirrored=False)
    places = generator.uniform(-5, 8, 300)
    losses = np.log(np.exp(np.multiply.outer(places, distances) - 0.5 * distances**2) @ weights)
    np.testing.assert_allclose(law.distribution(losses, 0), ndtr(places), atol=1e-12)


@sample_of(3)
@pytest.mark.parametrize("seed", range(6))
def test_mixture_with_tiny_weights_keeps_digits_of_its_loss(seed: int) -> None:
    """The law of the loss keeps its digits for a rarely sampled record, whose losses are far below 1."""
    generator = np.random.default_rng([20261128, seed])
    number = int(generator.integers(1, 5))
    distances = np.sort(generator.uniform(0.01, 3, number))
    weights = 10.0 ** generator.uniform(-250, -17) * generator.dirichlet(np.ones(number))
    law = gaussian_mixture_loss([0.0, *distances.tolist()], [1.0, *weights.tolist()], mirrored=False)
    places = generator.uniform(-5, 8, 200)
    losses = np.expm1(np.multiply.outer(places, distances) - 0.5 * distances**2) @ weights
    np.testing.assert_allclose(law.smallest, -weights.sum(), rtol=1e-14)
    np.testing.assert_allclose(law.distribution(losses, 0), ndtr(places), atol=1e-12)
    drawn = repeated_law(law, int(generator.integers(1, 1000)), 1e-3)
    assert np.isfinite(drawn.masses).all()
    assert drawn.step > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["saddlepoint", "edgeworth", "clt"])
def test_step_too_rare_for_a_double_adds_no_loss(seed: int, method: str) -> None:
    """A step sampled too rarely for a double adds no loss.

    A record replaced in a sample with a rate near 1e-297 leaves no weight that a double can hold.
    """
    generator = np.random.default_rng([20261127, seed])
    rare = sampled(10.0 ** generator.uniform(-300, -292), gaussian(float(generator.uniform(0.5, 30))))
    mechanism = built({"type": "composed", "mechanisms": [gaussian(2.0), rare]})
    alone = choose.pair(built(gaussian(2.0)), method, ONE_REPLACED).add.power_at(0.01)
    assert choose.pair(mechanism, method, ONE_REPLACED).add.power_at(0.01).upper == pytest.approx(alone.upper, rel=1e-9)


@sample_of(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["saddlepoint", "edgeworth", "clt", "monte_carlo"])
def test_mixture_beyond_nodes_names_supported_methods(seed: int, method: str) -> None:
    """Mixtures with losses beyond the nodes of the law are rejected, and the error lists the methods that
    support them.
    """
    generator = np.random.default_rng([20261125, seed])
    shifts = [generator.uniform(0, 5), 10.0 ** generator.uniform(8, 15)]
    mechanism = built({"type": "gaussian_mixture", "noise_multiplier": 3.0, "shifts": shifts, "weights": [0.9, 0.1]})
    options = EngineOptions(samples=1000)
    with pytest.raises(UnsupportedCombination) as refused:
        choose.pair(mechanism, method, options=options)
    assert refused.value.field == "method"
    for other in refused.value.supported:
        assert 0 <= choose.pair(mechanism, other).add.power_at(0.01).lower <= 1
