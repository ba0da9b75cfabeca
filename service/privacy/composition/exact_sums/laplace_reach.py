"""Limits of exact sums and contours for runs of Laplace steps, without any computation of the sums."""

from __future__ import annotations

import math
from bisect import bisect_left

LARGEST_LOSS = 400.0
"""Largest N e in nats. Beyond it the terms leave the range of doubles."""
LARGEST_STEPS = 2_000
LARGEST_WORK = 2e7
"""Largest product of the steps and the square of the number of uniforms, about a tenth of a second."""

_OMITTED = 60.0
"""Nats: terms with more uniforms than are kept have a share of at most e^-_OMITTED."""


def uniforms_kept(steps: int, loss: float) -> int:
    """Return the largest number of uniform variables in the kept terms (splines) of the law of N Laplace losses.

    The run has N = `steps` steps with the largest loss `loss` (nats) each. Terms with more uniform variables are
    truncated. The number is the smallest for which their weight is at most e^-60, by a Chernoff bound, or N.
    """
    share = loss / (2 + loss)
    first = math.floor(share * steps) + 1
    more = bisect_left(range(first, steps), True, key=lambda kept: log_excess(steps, kept, share) <= -_OMITTED)
    return min(first + more, steps)


def log_excess(steps: int, kept: int, share: float) -> float:
    """Return ln of an upper bound of P(X > kept) for X ~ Binomial(N, share), N = `steps`.

    The logarithm is -N times a Kullback-Leibler divergence (Chernoff), and -inf for kept >= N.
    """
    if kept >= steps:
        return -math.inf
    rate = (kept + 1) / steps
    if rate <= share:
        return 0.0
    missed = (1 - rate) * math.log((1 - rate) / (1 - share)) if rate < 1 else 0.0
    return -steps * (rate * math.log(rate / share) + missed) * (1 - 1e-12)


def can_sum(steps: int, loss: float) -> bool:
    """Return whether the number of `steps`, their total loss (`loss` nats each) and the work are within fixed limits.

    Within the limits, exact sums serve the run of Laplace steps.
    """
    if steps > LARGEST_STEPS or steps * loss > LARGEST_LOSS:
        return False
    return steps * uniforms_kept(steps, loss) ** 2 <= LARGEST_WORK


def log_atoms(loss: float, sample_rate: float) -> float:
    """Return ln of the total mass of the two extreme losses of a Laplace step.

    Parameters
    ----------
    loss : float
        Largest privacy loss of the step without sampling, nats.
    sample_rate : float
        Probability that the record is sampled, in (0, 1].

    Returns
    -------
    float
        ln of the sum of both masses, under H0 or H1, whichever is larger.
    """
    least, most = (1 + sample_rate * math.expm1(side * min(loss, 600.0)) for side in (-1, 1))
    far = math.exp(-loss)
    return math.log(0.5) + max(math.log1p(far), math.log(least + most * far))
