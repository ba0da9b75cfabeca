"""Bounds of a run that need no inversion contour: always valid, seldom tight.

A run is a list of independent steps. N_i steps of the kind i sample the record with probability p_i each. Let q = prod
(1 - p_i)^{N_i} be the probability that no step samples the record. Let g be the trade-off curve of the run's Gaussian
steps without sampling alone (g = identity without any), with the power power_g and the profile delta_g. H1 = q G1 + (1
- q) R with some law R. G1 is the law under H1 of the Gaussian steps and of sampled steps that never sample the record.
Forgetting the sampled steps is data processing. So, with the false positive rate alpha:

    power_g(alpha) <= power_add(alpha)    <= q power_g(alpha) + 1 - q;
    power_g(alpha) <= power_remove(alpha) <= power_g(alpha / q);
    delta_g(eps)   <= delta_add(eps)      <= q delta_g(eps) + 1 - q;
    delta_g(eps)   <= delta_remove(eps)   <= delta_g(eps + ln q).

Sampling only helps. Hence the run of the same Gaussian steps without sampling, of mu^2 = sum N/sigma^2, dominates:
power <= power_mu(alpha) and delta(eps) <= delta_mu(eps) in both directions. These bounds serve runs that reveal
everything.

Let S be the privacy loss, w = e^S the likelihood ratio, and K(s) = ln E0 e^{sS}. Chernoff and Hoelder add bounds for
tilts s > 1: power <= alpha^{1-1/s} e^{K(s)/s} and delta(eps) <= e^{K(s) - (s-1) eps} (1/s)(1-1/s)^{s-1}. For 0 < s < 1,
Markov at the threshold ln(1/alpha) bounds the type II error: beta(alpha) <= e^{K(s)} alpha^{-(1-s)}. It gives 1 -
delta(eps) = E0 min(w, e^eps) <= e^{K(s) + (1-s) eps}, too. The moments are those of the law truncated at far jumps.
Each of these bounds holds for the truncated law, and the truncated mass of H1 is added.

In the remove direction the loss S' has a largest value, and small rates have thresholds next to it. Let L'_i be the
loss of one step of the kind i. Choose thresholds c_i such that prod P1(L'_i > c_i)^{N_i} >= alpha. Then P1(S' > c) >=
alpha for c = sum N_i c_i, so that power(alpha) >= e^c alpha.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.special import ndtri_exp

from service.privacy.composition.inversion.loss_transform import LossTransform
from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

_SLACK = 1e-12
"""Relative slack of these closed expressions: far above their rounding, far below their looseness."""


class FallbackBounds:
    """Bounds of one direction of a run without contours.

    q is the probability that no sampled step uses the record. S is the privacy loss, and K(s) = ln E0 e^{sS} is its
    log-moment function at real *tilts* s. H0 and H1 are the hypotheses without and with the record, swapped in the
    remove direction. The formulas are in `fallback.py`.

    Parameters
    ----------
    gaussian_mu_squared : float
        Sum of mu^2 over the Gaussian steps without sampling.
    log_prob_never_sampled : float
        ln q; bounds by q are trivial where it is -inf.
    reflected : bool
        Whether the direction is remove.
    transform : LossTransform or None
        Log-moment function K of the run; None where it cannot be evaluated.
    steps : tuple of SampledStep
        All sampled Gaussian steps, if the run has no others except Gaussian steps.
    global_mu : float
        mu of all steps without sampling, infinite where not all are Gaussian.
    """

    def __init__(
        self,
        gaussian_mu_squared: float,
        log_prob_never_sampled: float,
        reflected: bool,
        transform: LossTransform | None,
        steps: tuple[SampledStep, ...] = (),
        global_mu: float = math.inf,
    ) -> None:
        mu = math.sqrt(gaussian_mu_squared)
        slack = 400 * UNIT_ROUNDOFF
        self._gaussian = gaussian_curve(Enclosure(mu * (1 - slack), mu * (1 + slack), Evidence.CERTIFIED))
        # mu is unknown where a square, or the root of a sum, over- or underflows.
        unsampled = Enclosure(global_mu * (1 - slack), global_mu * (1 + slack), Evidence.CERTIFIED)
        self._unsampled = gaussian_curve(unsampled) if 1e-150 < global_mu < 1e150 else None
        self._log_prob_never_sampled, self._reflected, self._transform = log_prob_never_sampled, reflected, transform
        self._steps = steps if gaussian_mu_squared == 0 and reflected else ()

    @cached_property
    def _tilts(self) -> tuple[FloatArray, FloatArray]:
        """Tilts s inside (0, 1) and beyond 1, and upper bounds of the log-moment function K(s), each of shape (S,).

        K(s) = ln E0 e^{sS}, S is the privacy loss of the run, and E0 the expectation under H0.
        """
        inside = np.array([0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97])
        if self._transform is None:
            return np.array([]), np.array([])
        deviation = math.sqrt(max(float(self._transform.cumulants(np.array([0.5])).second[0]), 0.0))
        beyond = 1 + np.geomspace(0.1, 40.0, 16) / max(deviation, 1e-12)
        tilts = np.concatenate([inside, beyond])
        cumulants = self._transform.cumulants(tilts)
        return tilts, np.where(np.isfinite(cumulants.error), cumulants.value + cumulants.error, np.inf)

    def points(self, alpha: FloatArray) -> Readings:
        """Return bounds of ln power, ln type II error and ln slope (unknown) at n false positive rates, shape (3, n).

        `alpha` has the rates, in (0, 1).
        """
        with np.errstate(all="ignore"):
            power_low, power_high = self._log_power(alpha)
            beta_low, beta_high = self._log_type_two_error(alpha)
        infinite = np.full(len(alpha), np.inf)
        return Readings(np.stack([power_low, beta_low, -infinite]), np.stack([power_high, beta_high, infinite]))

    def _log_power(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(lower, upper)`, bounds of ln power at false positive rates `alpha` in (0, 1), each of shape (n,)."""
        points = self._gaussian.points(alpha)
        lower = np.maximum(log_ends(points.power)[0], np.log(-np.expm1(self._log_missed(alpha))) - _SLACK)
        if self._reflected:
            lower = np.fmax(lower, self._next_to_the_largest_loss(alpha))
            upper = np.log(self._gaussian.points(self._boosted(alpha)).power.upper)
        else:
            upper = np.log(
                math.exp(self._log_prob_never_sampled) * points.power.upper - math.expm1(self._log_prob_never_sampled)
            )
        if self._unsampled is not None:
            upper = np.fmin(upper, np.log(self._unsampled.points(alpha).power.upper))
        tilts, log_moment = self._tilts
        beyond = tilts > 1
        if beyond.any():
            s = tilts[beyond]
            exponent = (1 - 1 / s) * np.log(alpha)[:, None] + log_moment[beyond] / s
            holder = exponent.min(axis=1) + _SLACK * (1 + np.abs(np.log(alpha)))
            upper = np.minimum(upper, np.logaddexp(holder, self._log_truncated))
        return lower, np.minimum(upper + _SLACK, 0.0)

    def _next_to_the_largest_loss(self, alpha: FloatArray) -> FloatArray:
        """Return ln alpha + c, a lower bound of ln power in the remove direction at the rates alpha, shape (n,).

        c is a threshold with P1(S' > c) >= alpha, where P1 is the law with the record and S' the loss of this
        direction. On the event that the normal score of each of the N steps is at most y, S' exceeds c. The event has a
        probability of at least alpha under P1 if (1 - p) Phi(y) = alpha^{1/N}, the probability that a step does not
        sample the record and has such a score. Here p is the sampling rate, and Phi is the normal distribution
        function. The result is -inf where the bound does not apply.
        """
        level = np.log(alpha)
        if not self._steps:
            return np.full_like(level, -np.inf)
        share = level / sum(step.count for step in self._steps)
        total, size = level, np.abs(level)
        for step in self._steps:
            sigma, rate, count = step.sigma, step.rate, step.count
            log_score = share - math.log1p(-rate) + _SLACK * (1 + np.abs(share))
            y = np.where(log_score < 0, ndtri_exp(np.minimum(log_score, -1e-300)), np.nan)
            y = y + 1e-10 * (1 + np.abs(y))  # the accuracy of the score, many times over
            loss = np.log1p(rate * np.expm1(np.minimum(y / sigma - 0.5 / sigma**2, 700.0)))
            total, size = total - count * loss, size + count * np.abs(loss)
        return np.where(np.isnan(total), -np.inf, total - _SLACK * size)

    def _boosted(self, alpha: FloatArray) -> FloatArray:
        """Return an upper bound of alpha/q, at most 1, at the false positive rates alpha, shape (n,).

        q is the probability that no step samples the record.
        """
        logs = np.log(alpha) - self._log_prob_never_sampled
        # The slack is lost between subnormal numbers. The smallest double is added instead.
        return np.minimum(np.exp(np.minimum(logs + _SLACK * (1 + np.abs(logs)), 0.0)) + SMALLEST, 1.0)

    def _log_type_two_error(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(lower, upper)`, bounds of ln of the smallest type II error at n rates, each of shape (n,).

        `alpha` has false positive rates in (0, 1).
        """
        points = self._gaussian.points(alpha)
        missed = self._log_missed(alpha)
        upper = np.minimum(log_ends(points.type_two_error)[1], missed)
        if self._reflected:
            lower = np.log(self._gaussian.points(self._boosted(alpha)).type_two_error.lower)
        else:
            lower = self._log_prob_never_sampled + np.log(points.type_two_error.lower)
        if self._unsampled is not None:
            lower = np.fmax(lower, log_ends(self._unsampled.points(alpha).type_two_error)[0])
        return lower - _SLACK * (1 + np.abs(np.where(np.isfinite(lower), lower, 0.0))), upper

    def _log_missed(self, alpha: FloatArray) -> FloatArray:
        """Return an upper bound of ln of the smallest type II error at the rates alpha, shape (n,), by Markov."""
        tilts, log_moment = self._tilts
        inside = tilts < 1
        if not inside.any():
            return np.zeros_like(alpha)
        log_alpha = np.log(alpha)[:, None]
        rounding = _SLACK * (1 + np.abs(log_moment[inside]) + np.abs(log_alpha))
        markov = (log_moment[inside] - (1 - tilts[inside]) * log_alpha + rounding).min(axis=1)
        return np.minimum(np.logaddexp(markov, self._log_truncated) * (1 - _SLACK) + _SLACK, 0.0)

    @property
    def _log_truncated(self) -> float:
        """ln of the probability under H1 that the log-moment function omits by truncation.

        It is -inf if that function is not available.
        """
        return -math.inf if self._transform is None else self._transform.log_truncated_mass[1]

    def profile(self, epsilon: FloatArray) -> Readings:
        """Return bounds of ln delta(eps), the privacy profile, at finite `epsilon` (nats) of shape (n,), as one row."""
        gaussian = self._gaussian.profile(epsilon)
        with np.errstate(divide="ignore"):
            lower = np.log(gaussian.lower) if gaussian.log_lower is None else gaussian.log_lower
            if self._reflected:
                moved = self._gaussian.profile(
                    np.maximum(epsilon + self._log_prob_never_sampled - _SLACK * (1 + np.abs(epsilon)), -1e300)
                )
                upper = np.log(moved.upper)
            else:
                sampled = -math.expm1(self._log_prob_never_sampled)
                upper = np.log(np.minimum(math.exp(self._log_prob_never_sampled) * gaussian.upper + sampled, 1.0))
        if self._unsampled is not None:
            upper = np.fmin(upper, log_ends(self._unsampled.profile(epsilon))[1])
        upper = np.minimum(upper + _SLACK, 0.0)
        tilts, log_moment = self._tilts
        beyond = tilts > 1
        if beyond.any():
            s = tilts[beyond]
            falls = (s - 1) * epsilon[:, None]
            chernoff = log_moment[beyond] - falls - np.log(s) + (s - 1) * np.log1p(-1 / s)
            rounding = _SLACK * (1 + np.abs(falls) + np.abs(log_moment[beyond]))
            upper = np.minimum(upper, np.logaddexp((chernoff + rounding).min(axis=1), self._log_truncated))
        inside = (tilts > 0) & (tilts < 1)
        if inside.any():
            exponents = (1 - tilts[inside]) * epsilon[:, None]
            rounding = _SLACK * (1 + np.abs(exponents) + np.abs(log_moment[inside]))
            missed = (log_moment[inside] + exponents + rounding).min(axis=1)
            missed = np.minimum(np.logaddexp(missed, self._log_truncated), 0.0)
            with np.errstate(divide="ignore"):
                lower = np.maximum(lower, np.log(-np.expm1(missed)))
        lower = np.where(np.isfinite(lower), lower - _SLACK * (1 + np.abs(lower)), lower)
        return Readings(lower[None], upper[None])
