"""Gaussian differential privacy (GDP) and Gaussian membership inference privacy (GMIP) of noisy SGD, converted.

One step adds noise tau to the mean of n gradients of d parameters, clipped to C; the attack is on a record of
susceptibility K. The effective batch size is N = n + tau^2 n^2/C^2. The GMIP of the step is mu_step = (d + (2N - 1)
K)/(N sqrt(2d + 4NK)), which is sqrt(2d/(2N + 1)) for K = d. Its GDP under substitution is 2C/(n tau). T steps on the
whole data set compose to sqrt(T) mu_step. Many steps on a share p of the data set compose to sqrt(2) p sqrt(T)
sqrt(e^{m^2} Phi(3m/2) + 3 Phi(-m/2) - 2) with m = mu_step.

The source is Leemann et al. 2023 (Gaussian membership inference privacy), Theorem 5.1, Corollary 5.1, Lemma 5.1 and
Corollary F.1, with two corrections: 4 C^2/mu^2 in Corollary F.1 means 4/mu^2, and sqrt(mu_1 + ... + mu_r) in D.3 means
sqrt(mu_1^2 + ... + mu_r^2).

All computations have 40 digits beyond the digits that cancel, and round once. So the results are those of the formulas
to a few units in the last place. Tests compare them with values of 20 digits and with the tables of the paper, and the
inverses for mu from 1e-100 to 1e6. If a formula is a limit, the evidence is asymptotic, and both bounds are its value.
mu has no unit, noise has that of C. The domain is mu, C > 0; batch size, dimension and steps at least 1;
susceptibility >= 0; a sample rate in (0, 1].
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
"""Number of many digits. Its library has no types."""

DIGITS: Final = 40
LAST_FALL: Final = 1.5
"""Smallest N from which mu_step falls with N for every K and d."""
MOST_ROUNDS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Parameters of a run of noisy SGD, except its noise.

    Attributes
    ----------
    dimension : int
        Number d of model parameters.
    batch_size : int
        Number n of records in a batch.
    susceptibility : float
        K >= 0 of the record under attack, the squared length of its whitened, centred gradient.
    sample_rate : Fraction
        Share of the data set in a batch, in (0, 1].
    steps : Fraction
        Number of steps. It need not be an integer, if epochs are given.
    max_grad_norm : float or None
        Norm C to which gradients are clipped, or None without clipping.
    """

    dimension: int
    batch_size: int
    susceptibility: float
    sample_rate: Fraction
    steps: Fraction
    max_grad_norm: float | None

    @property
    def is_sampled(self) -> bool:
        """Whether a step uses only a part of the data set, so that the limit of many sampled steps composes the run.

        The limit is Equation 10 of Leemann et al. 2023.
        """
        return self.sample_rate < 1


@dataclass(frozen=True, slots=True)
class RequiredNoise:
    """Noise on the mean gradient that gives a run a target mu, as standard deviations in the unit of gradients.

    Attributes
    ----------
    step_mu : Enclosure
        The largest mu of one step.
    membership : Enclosure or None
        Noise for a Gaussian membership inference privacy (GMIP) of mu; None if no noise is known to be enough.
    differential : Enclosure or None
        Noise for Gaussian differential privacy (GDP) of mu; None without clipping.
    free_mu : Enclosure
        GMIP parameter of the run without any noise.
    """

    step_mu: Enclosure
    membership: Enclosure | None
    differential: Enclosure | None
    free_mu: Enclosure


def effective_batch_size(batch_size: int, noise_std: float, max_grad_norm: float | None) -> Fraction:
    """Return the effective batch size N = n + tau^2 n^2/C^2 exactly.

    Parameters
    ----------
    batch_size : int
        Number n of records in a batch.
    noise_std : float
        Standard deviation tau >= 0 of the noise on the mean gradient.
    max_grad_norm : float or None
        Clipping norm C > 0. It is None without clipping.

    Returns
    -------
    Fraction
        N >= n. It equals n without clipping, because noise then has no proved effect.
    """
    if max_grad_norm is None:
        return Fraction(batch_size)
    return batch_size + (Fraction(noise_std) * batch_size / Fraction(max_grad_norm)) ** 2


def gaussian_step_mu(dimension: int, susceptibility: float, effective: Fraction) -> float:
    """Return the membership privacy parameter mu of one step of noisy SGD.

    Parameters
    ----------
    dimension : int
        Number d of parameters of the model.
    susceptibility : float
        K of the record, the squared length of its whitened, centred gradient, >= 0.
    effective : Fraction
        The effective batch size N = n + tau^2 n^2/C^2 of n records, noise tau on the mean and clipping norm C; N >= 1.

    Returns
    -------
    float
        mu = (d + (2N - 1) K)/(N sqrt(2d + 4NK)), an approximation (Leemann et al. 2023, Corollary 5.1). It is infinite
        for N = 1, where the batch is the record.
    """
    context = _context(0.0)
    if effective == 1:
        return math.inf
    size = _real(context, effective)
    return float(_step_mu(context, dimension, context.mpf(susceptibility), size))


def limit_mu(step_mu: float, sample_rate: Fraction, steps: Fraction) -> float:
    """Return mu of many steps on random batches by the central limit theorem, an approximation.

    Parameters
    ----------
    step_mu : float
        mu of one step, >= 0.
    sample_rate : Fraction
        Share of the data set in a batch, in (0, 1].
    steps : Fraction
        Number of steps.

    Returns
    -------
    float
        mu of the run by Equation 10 of Leemann et al. 2023, no bound; infinite if it overflows.
    """
    if step_mu in (0.0, math.inf):
        return step_mu
    context = _context(step_mu)
    return float(_limit_mu(context, context.mpf(step_mu), _real(context, sample_rate), _real(context, steps)))


def step_mu_of_limit(mu: float, sample_rate: Fraction, steps: Fraction) -> float:
    """Return the mu of one step for which many steps on random batches have the total `mu` > 0.

    The run has `steps` steps with the sampling rate `sample_rate`. The function inverts Equation 10 of Leemann et al.
    2023 (`limit_mu`).
    """
    context = _context(min(mu, mu / float(sample_rate) / math.sqrt(steps)))
    return float(_step_of_limit(context, context.mpf(mu), _real(context, sample_rate), _real(context, steps)))


def membership_mu(mu_dp: float, training: Training) -> Enclosure:
    """Return the membership privacy (GMIP) parameter mu of a run that is mu_dp-GDP (Corollary F.1, part 1).

    GMIP is Gaussian membership inference privacy and GDP is Gaussian differential privacy. The corollary is that of
    Leemann et al. 2023.

    Parameters
    ----------
    mu_dp : float
        GDP of the run, > 0.
    training : Training
        The run without its noise.

    Returns
    -------
    Enclosure
        The parameter, never more than mu_dp. If it equals mu_dp, the evidence is exact; otherwise the result is an
        approximation.
    """
    context = _context(mu_dp)
    step = _step_of(context, context.mpf(mu_dp), training)
    size = training.batch_size + 4 / step**2
    reached = _step_mu(context, training.dimension, context.mpf(training.susceptibility), size)
    if reached >= step:
        return Enclosure.point(mu_dp)
    return _approximation(_run_of(context, reached, training))


def differential_mu(mu_mip: float, training: Training) -> Enclosure | None:
    """Return the GDP parameter mu of a run whose noise makes it mu_mip-GMIP (Corollary F.1, part 2).

    GMIP is Gaussian membership inference privacy and GDP is Gaussian differential privacy. The corollary is that of
    Leemann et al. 2023.

    Parameters
    ----------
    mu_mip : float
        The required GMIP, > 0.
    training : Training
        The run without its noise.

    Returns
    -------
    Enclosure or None
        An approximation. None if the run is mu_mip-GMIP without noise, or if no noise is known to be enough.
    """
    context = _context(mu_mip)
    size = _size_for(context, _step_of(context, context.mpf(mu_mip), training), training)
    if size is None or size <= training.batch_size:
        return None
    return _approximation(_run_of(context, 2 / context.sqrt(size - training.batch_size), training))


def free_mu(training: Training) -> Enclosure:
    """Return the smallest mu for which a run `training` is mu-GMIP without any noise, an approximation.

    GMIP is Gaussian membership inference privacy (Leemann et al. 2023, Corollary 5.1). The result is infinite for a
    batch of one record.
    """
    if training.batch_size == 1:
        return Enclosure.point(math.inf)
    context = _context(1.0)
    step = _step_mu(context, training.dimension, context.mpf(training.susceptibility), context.mpf(training.batch_size))
    return _approximation(_run_of(_context(float(step)), step, training))


def noise_for(mu: float, training: Training) -> RequiredNoise:
    """Return the noise that makes a run mu-GMIP, and the noise that makes it mu-GDP.

    GMIP is Gaussian membership inference privacy and GDP is Gaussian differential privacy.

    Parameters
    ----------
    mu : float
        The target, > 0.
    training : Training
        The run without its noise.

    Returns
    -------
    RequiredNoise
        Standard deviations of the noise, in the unit of gradients and of the clipping norm C.
    """
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
    """Return arithmetic in which results keep DIGITS digits, although differences of numbers near 1 cancel.

    `smallest` is a lower bound of the mu of one step, and 0 if nothing cancels.
    """
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
    """Return the mu of one step for which many sampled steps have the total `mu`, by Newton's method on logarithms.

    The run has `steps` steps with the sampling rate `rate`, and `context` is the arithmetic (mpmath). ln mu is convex
    and rises in ln mu_step, so that every step of the method from the right stays on the right.
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
    """Return the mu of one step of a training run whose steps all together have `mu`.

    mu is that of Gaussian membership inference privacy (GMIP), and `context` the arithmetic (mpmath).
    """
    steps = _real(context, training.steps)
    if not training.is_sampled:
        return mu / context.sqrt(steps)
    rate = _real(context, training.sample_rate)
    smallest = float(min(mu, mu / (rate * context.sqrt(steps))))
    return _step_of_limit(_context(smallest), mu, rate, steps)


def _run_of(context: Real, step: Real, training: Training) -> Real:
    """Return the mu of a training run, each of whose steps has mu = `step`.

    mu is that of Gaussian membership inference privacy (GMIP), and `context` the arithmetic (mpmath).
    """
    steps = _real(context, training.steps)
    if not training.is_sampled:
        return step * context.sqrt(steps)
    return _limit_mu(_context(float(step)), step, _real(context, training.sample_rate), steps)


def _size_for(context: Real, step: Real, training: Training) -> Real | None:
    """Return the effective batch size N at which one step has mu = `step`; the batch size if no noise is needed.

    mu is that of GMIP, and `context` the arithmetic (mpmath). Without noise N is the batch size n, and noise raises it
    to n + tau^2 n^2/C^2. The result is None for a batch of one record that would need N < 1.5, because mu need not
    decrease with N there.
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
    """Enclose `value` between both neighbours of the nearest double."""
    nearest = float(value)
    return Enclosure(math.nextafter(nearest, 0.0), math.nextafter(nearest, math.inf), Evidence.EXACT)
