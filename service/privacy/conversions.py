"""Gaussian differential privacy (GDP) and Gaussian membership inference privacy (GMIP) of noisy SGD: from one to the
other, and the noise for a target.

One step with noise tau on the mean of n gradients clipped to C, of d parameters, against a record of susceptibility K:
N = n + tau^2 n^2/C^2 is the effective batch size, mu_step = (d + (2N - 1) K)/(N sqrt(2d + 4NK)) its GMIP (for K = d
sqrt(2d/(2N + 1))) and 2C/(n tau) its GDP under substitution. T steps on the whole data set compose to sqrt(T) mu_step;
steps on a share p of it, for many steps, to sqrt(2) p sqrt(T) sqrt(e^{m^2} Phi(3m/2) + 3 Phi(-m/2) - 2), m = mu_step.
Source: Leemann et al. 2023 (Gaussian membership inference privacy), Theorem 5.1, Corollary 5.1, Lemma 5.1 and Corollary
F.1, where 4 C^2/mu^2 is to be read 4/mu^2, and sqrt(mu_1 + ... + mu_r) in D.3 sqrt(mu_1^2 + ... + mu_r^2).

Everything is computed with 40 digits beyond what cancels, and rounded once: what the formulas say, to a few units in
the last place (tested against values of 20 digits and the tables of the paper, inverses for mu from 1e-100 to 1e6).
Where a formula is a limit the evidence is asymptotic, and both ends are its value. mu has no unit, noise that of C.
Domain: mu, C > 0; batch size, dimension and steps at least 1; susceptibility >= 0; a sample rate in (0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.roots import bisected

Real = Any
"""A number of many digits; its library has no types."""

DIGITS: Final = 40
LAST_FALL: Final = 1.5
"""From this N on mu_step falls with N for every K and d."""
MOST_ROUNDS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A run of noisy SGD without its noise. `steps` need not be an integer, where epochs are given."""

    dimension: int
    batch_size: int
    susceptibility: float
    sample_rate: Fraction
    steps: Fraction
    max_grad_norm: float | None

    @property
    def is_sampled(self) -> bool:
        """Whether a step sees a part of the data set: then Equation 10, a limit, composes them."""
        return self.sample_rate < 1


@dataclass(frozen=True, slots=True)
class RequiredNoise:
    """The noise on the mean gradient for a target, and what it rests on.

    `step_mu`: the largest mu of one step. `membership`: the noise by GMIP, None where no noise is known to help.
    `differential`: the noise by GDP, None without clipping. `free_mu`: what holds without any noise.
    """

    step_mu: Enclosure
    membership: Enclosure | None
    differential: Enclosure | None
    free_mu: Enclosure


def effective_batch_size(batch_size: int, noise_std: float, max_grad_norm: float | None) -> Fraction:
    """N = n + tau^2 n^2/C^2, exactly; n where gradients are not clipped, for then noise earns nothing."""
    if max_grad_norm is None:
        return Fraction(batch_size)
    return batch_size + (Fraction(noise_std) * batch_size / Fraction(max_grad_norm)) ** 2


def gaussian_step_mu(dimension: int, susceptibility: float, effective: Fraction) -> float:
    """mu_step of Corollary 5.1, an approximation; infinite for N = 1, where the record is all there is."""
    context = _context(0.0)
    if effective == 1:
        return math.inf
    size = _real(context, effective)
    return float(_step_mu(context, dimension, context.mpf(susceptibility), size))


def limit_mu(step_mu: float, sample_rate: Fraction, steps: Fraction) -> float:
    """mu of many sampled steps (Equation 10), an approximation, and no bound; infinite beyond the doubles."""
    if step_mu in (0.0, math.inf):
        return step_mu
    context = _context(step_mu)
    return float(_limit_mu(context, context.mpf(step_mu), _real(context, sample_rate), _real(context, steps)))


def step_mu_of_limit(mu: float, sample_rate: Fraction, steps: Fraction) -> float:
    """The mu_step that Equation 10 takes to `mu` > 0."""
    context = _context(min(mu, mu / float(sample_rate) / math.sqrt(steps)))
    return float(_step_of_limit(context, context.mpf(mu), _real(context, sample_rate), _real(context, steps)))


def membership_mu(mu_dp: float, training: Training) -> Enclosure:
    """GMIP of a run that is mu_dp-GDP (Corollary F.1, 1): never more than mu_dp, which is the answer where the evidence
    is exact; else an approximation.
    """
    context = _context(mu_dp)
    step = _step_of(context, context.mpf(mu_dp), training)
    size = training.batch_size + 4 / step**2
    reached = _step_mu(context, training.dimension, context.mpf(training.susceptibility), size)
    if reached >= step:
        return Enclosure.point(mu_dp)
    return _approximation(_run_of(context, reached, training))


def differential_mu(mu_mip: float, training: Training) -> Enclosure | None:
    """GDP of a run whose noise was chosen by Corollary 5.1 to be mu_mip-GMIP (Corollary F.1, 2), an approximation; None
    where no noise is needed, or none is known to do.
    """
    context = _context(mu_mip)
    size = _size_for(context, _step_of(context, context.mpf(mu_mip), training), training)
    if size is None or size <= training.batch_size:
        return None
    return _approximation(_run_of(context, 2 / context.sqrt(size - training.batch_size), training))


def free_mu(training: Training) -> Enclosure:
    """The smallest mu for which no noise is needed, by Corollary 5.1: an approximation; infinite for a batch of one
    record.
    """
    if training.batch_size == 1:
        return Enclosure.point(math.inf)
    context = _context(1.0)
    step = _step_mu(context, training.dimension, context.mpf(training.susceptibility), context.mpf(training.batch_size))
    return _approximation(_run_of(_context(float(step)), step, training))


def noise_for(mu: float, training: Training) -> RequiredNoise:
    """The noise with which a run is mu-GMIP, and the one with which it is mu-GDP; mu > 0."""
    context = _context(mu)
    step = _step_of(context, context.mpf(mu), training)
    clip, batch = training.max_grad_norm, training.batch_size
    size = _size_for(context, step, training)
    membership = differential = None
    if size is not None and size <= batch:
        membership = _approximation(context.mpf(0))
    elif size is not None and clip is not None:
        membership = _approximation(context.mpf(clip) * context.sqrt(size - batch) / batch)
    rounded: Callable[[Real], Enclosure] = _approximation if training.is_sampled else _enclosed
    if clip is not None:
        differential = rounded(2 * context.mpf(clip) / (batch * step))
    return RequiredNoise(rounded(step), membership, differential, free_mu(training))


def _context(smallest: float) -> Real:
    """Arithmetic with DIGITS digits after what cancels for a mu_step of this size or more."""
    import mpmath

    library: Any = mpmath
    context = library.MPContext()
    context.dps = DIGITS + 2 * max(0, math.ceil(-math.log10(smallest))) if smallest > 0 else DIGITS
    return context


def _real(context: Real, value: Fraction) -> Real:
    return context.mpf(value.numerator) / value.denominator


def _step_mu(context: Real, dimension: int, susceptibility: Real, size: Real) -> Real:
    top = dimension + (2 * size - 1) * susceptibility
    return top / (size * context.sqrt(2 * dimension + 4 * size * susceptibility))


def _limit_mu(context: Real, step: Real, rate: Real, steps: Real) -> Real:
    inner = context.exp(step**2) * context.ncdf(1.5 * step) + 3 * context.ncdf(-0.5 * step) - 2
    return rate * context.sqrt(2 * steps * inner)


def _step_of_limit(context: Real, mu: Real, rate: Real, steps: Real) -> Real:
    """By Newton's method on logarithms: ln mu is convex and rises in ln mu_step, so that every step from the right
    stays there.
    """
    scaled = mu / (rate * context.sqrt(steps))
    # inner >= mu_step^2/2, and >= e^{mu_step^2}/2 - 2.
    step = min(scaled, context.sqrt(context.log(scaled**2 + 4)))
    for _ in range(MOST_ROUNDS):
        value = _limit_mu(context, step, rate, steps)
        # d inner / d mu_step = 2 mu_step e^{mu_step^2} Phi(3 mu_step/2), exactly.
        slope = 2 * steps * (rate * step / value) ** 2 * context.exp(step**2) * context.ncdf(1.5 * step)
        change = context.log(value / mu) / slope
        step = step * context.exp(-change)
        if abs(change) < context.mpf(10) ** (-DIGITS // 2):
            break
    return step


def _step_of(context: Real, mu: Real, training: Training) -> Real:
    """mu_step of a run with this mu."""
    steps = _real(context, training.steps)
    if not training.is_sampled:
        return mu / context.sqrt(steps)
    rate = _real(context, training.sample_rate)
    smallest = float(min(mu, mu / (rate * context.sqrt(steps))))
    return _step_of_limit(_context(smallest), mu, rate, steps)


def _run_of(context: Real, step: Real, training: Training) -> Real:
    """mu of a run with this mu_step."""
    steps = _real(context, training.steps)
    if not training.is_sampled:
        return step * context.sqrt(steps)
    return _limit_mu(_context(float(step)), step, _real(context, training.sample_rate), steps)


def _size_for(context: Real, step: Real, training: Training) -> Real | None:
    """The effective batch size N with this mu_step, or any number up to the batch size where no noise is needed; None
    where no N beyond that of a batch of one record is known to do.
    """
    dimension, susceptibility = training.dimension, context.mpf(training.susceptibility)
    least = context.mpf(max(training.batch_size, LAST_FALL))
    if _step_mu(context, dimension, susceptibility, least) <= step:
        return None if training.batch_size == 1 else context.mpf(training.batch_size)
    if susceptibility == dimension:
        return dimension / step**2 - context.mpf(1) / 2
    low, high = least, 2 * least
    while _step_mu(context, dimension, susceptibility, high) > step:
        low, high = high, high**2
    return bisected(
        lambda size: _step_mu(context, dimension, susceptibility, size) <= step,
        low,
        high,
        MOST_ROUNDS,
        between=lambda low, high: context.sqrt(low * high),
    )[1]


def _approximation(value: Real) -> Enclosure:
    nearest = float(value)
    return Enclosure(nearest, nearest, Evidence.ASYMPTOTIC)


def _enclosed(value: Real) -> Enclosure:
    """Both neighbours of the nearest double: it is within half a unit in the last place."""
    nearest = float(value)
    return Enclosure(math.nextafter(nearest, 0.0), math.nextafter(nearest, math.inf), Evidence.EXACT)
